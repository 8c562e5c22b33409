//! Existing stores are sealed in the background, keys are rotated, and no plain byte stays in the files.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use encryption::config::EncryptionConfiguration;
use encryption::rewrite::{self, Rewriter};
use encryption::{Encryption, file};
use store::embedded::{Embedded, EmbeddedOptions};
use store::{RangeRequest, Store, Transformed};

const CANARY: &str = "canary-7Yw3Kq";
const COUNT: usize = 1200;

fn encryption(config: &EncryptionConfiguration) -> Arc<Encryption> {
    Arc::new(Encryption::new(config).unwrap())
}

fn open(directory: &Path) -> Arc<dyn Store> {
    Arc::new(Embedded::open(&EmbeddedOptions::new(directory)).unwrap())
}

fn secret(number: usize) -> Bytes {
    format!("{{\"kind\":\"Secret\",\"n\":{number},\"data\":\"{CANARY}\"}}").into()
}

/// Reports whether any file of the store contains the canary.
fn is_on_disk(directory: &Path) -> bool {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.is_file()).any(|file| {
        let content = std::fs::read(file).unwrap();
        content.windows(CANARY.len()).any(|window| window == CANARY.as_bytes())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_existing_store_is_sealed_and_no_plain_byte_remains() {
    let directory = tempfile::tempdir().unwrap();
    let raw = open(directory.path());
    for number in 0..COUNT {
        raw.create(&format!("/core/secrets/ns/{number:05}"), secret(number), None).await.unwrap();
    }
    raw.create("/core/configmaps/ns/a", "{}".into(), None).await.unwrap();
    assert!(is_on_disk(directory.path()));

    let config = file::new_config().unwrap();
    let encryption = encryption(&config);
    rewrite::verify(&*raw, &encryption).await.unwrap();
    let store = Transformed::new(Arc::clone(&raw), encryption.clone());
    let rewriter = Rewriter::new(Arc::clone(&raw), encryption.clone());
    // A write during the pass wins over it.
    let (_, found) = tokio::join!(rewriter.pass(), async {
        let key = format!("/core/secrets/ns/{:05}", COUNT - 1);
        let (found, _) = store.get(&key).await.unwrap();
        store.update(&key, secret(77), found.unwrap().mod_revision, None).await.unwrap();
        store.get(&key).await.unwrap().0.unwrap()
    });
    assert_eq!(found.value, secret(77));
    let progress = rewriter.progress();
    assert_eq!((progress.remaining.min(1), progress.failed, progress.error), (0, 0, None));
    assert!(!is_on_disk(directory.path()), "plain values remain in the files");
    let all = store.range(RangeRequest::prefix("/core/secrets/")).await.unwrap();
    assert!(all.kvs.iter().take(COUNT - 1).enumerate().all(|(number, kv)| kv.value == secret(number)));
    assert_eq!(rewriter.survey().await.unwrap().values().sum::<u64>(), COUNT as u64);
    assert_eq!(&*raw.get("/core/configmaps/ns/a").await.unwrap().0.unwrap().value, b"{}");

    // Another pass has nothing to do.
    let before = raw.revision().await.unwrap();
    rewriter.pass().await.unwrap();
    assert_eq!(raw.revision().await.unwrap(), before);

    // Without the key the store is refused.
    let other = self::encryption(&file::new_config().unwrap());
    let error = rewrite::verify(&*raw, &other).await.unwrap_err().to_string();
    assert!(error.contains("which the encryption configuration does not have"), "{error}");
    assert!(rewrite::refuse_sealed(&*raw).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_pass_is_finished_by_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let config = file::new_config().unwrap();
    let raw = open(directory.path());
    for number in 0..200 {
        raw.create(&format!("/core/secrets/ns/{number:05}"), secret(number), None).await.unwrap();
    }
    let rewriter = Rewriter::new(Arc::clone(&raw), encryption(&config));
    let interrupted = async {
        while rewriter.progress().rewritten < 20 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        _ = rewriter.pass() => panic!("finished too early"),
        () = interrupted => {}
    }
    raw.close().await;
    drop((rewriter, raw));
    assert!(is_on_disk(directory.path()));
    let raw = open(directory.path());
    let rewriter = Rewriter::new(Arc::clone(&raw), encryption(&config));
    rewriter.pass().await.unwrap();
    assert!(rewriter.progress().rewritten <= 180);
    assert!(!is_on_disk(directory.path()));
}

#[tokio::test]
async fn a_rotation_leaves_no_value_with_the_old_key() {
    let raw: Arc<dyn Store> = Arc::new(store::memory::Memory::new());
    let path = Path::new("config.yaml");
    let mut config = file::new_config().unwrap();
    let encryption = encryption(&config);
    let store = Transformed::new(Arc::clone(&raw), encryption.clone());
    for number in 0..10 {
        store.create(&format!("/core/secrets/ns/{number:05}"), secret(number), None).await.unwrap();
    }
    let rewriter = Rewriter::new(Arc::clone(&raw), encryption.clone());
    file::add_key(path, &mut config).unwrap();
    let new = file::use_last_key(path, &mut config).unwrap();
    encryption.replace(Encryption::new(&config).unwrap());
    assert_eq!(rewriter.survey().await.unwrap().get(&format!("secretbox:v1:{new}")), None);
    rewriter.pass().await.unwrap();
    assert_eq!(rewriter.survey().await.unwrap(), [(format!("secretbox:v1:{new}"), 10)].into());
    file::remove_old_keys(&mut config);
    encryption.replace(Encryption::new(&config).unwrap());
    assert_eq!(store.get("/core/secrets/ns/00003").await.unwrap().0.unwrap().value, secret(3));
}
