//! Data of earlier formats opens unchanged; data of later formats is rejected with the format number.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test code")]

mod engines;

use std::path::Path;
use std::sync::Arc;

use store::embedded::{self, Embedded, EmbeddedOptions};
use store::memory::Memory;
use store::snapshot::{StoreSnapshot, file};
use store::{Error, RangeRequest, Store, reserved};

use crate::engines::{EtcdServer, find_etcd};

/// Written by `examples/make_fixture.rs` of that format.
fn copy_of_format_1() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/embedded-format-1");
    for name in ["store.db", "store.ack"] {
        std::fs::copy(fixture.join(name), directory.path().join(name)).unwrap();
    }
    directory
}

#[tokio::test]
async fn a_data_directory_of_format_1_opens_and_reads_equal() {
    let directory = copy_of_format_1();
    let snapshot = embedded::snapshot(directory.path()).unwrap();
    let store = Embedded::open(&EmbeddedOptions::new(directory.path())).unwrap();
    let all = store.range(RangeRequest::prefix("/")).await.unwrap();
    assert_eq!(all.kvs, snapshot.kvs);
    assert_eq!((all.revision, store.compacted().await), (35, 21));
    let mut expected: Vec<(String, Vec<u8>)> = (0..19)
        .map(|number| {
            let value = if number < 10 { format!("changed {number}") } else { format!("value {number}") };
            (format!("/configmaps/default/c{number:02}"), value.into_bytes())
        })
        .collect();
    expected.push(("/configmaps/default/ünïcode".into(), Vec::new()));
    expected.push(("/events/default/e".into(), b"leased".to_vec()));
    expected.push(("/secrets/kube-system/binary".into(), vec![0, 159, 146, 150, 255]));
    let found: Vec<(String, Vec<u8>)> = all.kvs.iter().map(|kv| (kv.key.to_string(), kv.value.to_vec())).collect();
    assert_eq!(found, expected);
    let leased = store.get("/events/default/e").await.unwrap().0.unwrap();
    assert_eq!(store.lease_ttl(leased.lease.unwrap()).await.unwrap(), 3600);
    // History after the compaction is still readable, and new writes follow it.
    let old = store.range(RangeRequest::prefix("/configmaps/default/c00").at(22)).await.unwrap();
    assert_eq!(&*old.kvs[0].value, b"value 0");
    assert_eq!(store.create("/new", "1".into(), None).await.unwrap(), 36);
}

fn refused_as_newer(result: Result<(), Error>, found: i64) {
    let error = result.err().unwrap();
    assert!(matches!(&error, Error::NewerFormat { found: is, .. } if *is == found), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("storage format {found}")) && text.contains("use a newer version"), "{text}");
}

#[test]
fn a_newer_database_is_rejected_and_not_modified() {
    let directory = copy_of_format_1();
    let database = directory.path().join("store.db");
    let newer = rusqlite::Connection::open(&database).unwrap();
    newer.pragma_update(None, "user_version", 2).unwrap();
    newer.close().unwrap();
    let before = std::fs::read(&database).unwrap();
    refused_as_newer(Embedded::open(&EmbeddedOptions::new(directory.path())).map(drop), 2);
    refused_as_newer(embedded::snapshot(directory.path()).map(drop), 2);
    assert!(std::fs::read(&database).unwrap() == before, "it was changed");
}

#[test]
fn a_newer_backup_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backup");
    file::write(&path, &StoreSnapshot::default(), false, &|_| {}).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 2;
    std::fs::write(&path, bytes).unwrap();
    refused_as_newer(file::read(&path).map(drop), 2);
}

/// Data without a format key was written before the key existed.
async fn check_shared(raw: Arc<dyn Store>) {
    let written = raw.create("/core/a", "1".into(), None).await.unwrap();
    let store = reserved::admit(Arc::clone(&raw), "a test").await.unwrap();
    assert_eq!(store.get("/core/a").await.unwrap().0.unwrap().mod_revision, written);
    let format = raw.get("/flotilla.store/format").await.unwrap().0.unwrap();
    assert_eq!(&*format.value, reserved::FORMAT.to_string().as_bytes());
    raw.update("/flotilla.store/format", "2".into(), format.mod_revision, None).await.unwrap();
    refused_as_newer(reserved::admit(raw, "a test").await.map(drop), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_store_in_etcd_is_refused() {
    check_shared(Arc::new(Memory::new())).await;
    let Some(binary) = find_etcd() else { return };
    let server = EtcdServer::plain(&binary).await;
    check_shared(Arc::new(server.connect("/formats").await)).await;
}
