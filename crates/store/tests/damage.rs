//! A flipped bit or a lost tail in any file is either detected when the store is opened or has no effect.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test code")]

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use store::embedded::{Embedded, EmbeddedOptions};
use store::{Error, RangeRequest, Store};

type Contents = BTreeMap<String, Bytes>;

fn contents(store: &Embedded) -> Contents {
    let everything = store.local().unwrap().range(RangeRequest::prefix("")).unwrap();
    everything.kvs.into_iter().map(|kv| (kv.key.to_string(), kv.value)).collect()
}

/// Returns the contents of the store after each write.
async fn fill(store: &Embedded) -> Vec<Contents> {
    let mut states = vec![contents(store)];
    for number in 0..12_u64 {
        let value = vec![number as u8; 200 + number as usize * 400];
        let revision = store.create(&format!("/k/{number}"), value.into(), None).await.unwrap();
        if number % 3 == 0 {
            states.push(contents(store));
            store.update(&format!("/k/{number}"), "short".into(), revision, None).await.unwrap();
        }
        states.push(contents(store));
    }
    store.delete("/k/5", None).await.unwrap();
    store.grant(1000).await.unwrap();
    states.push(contents(store));
    states
}

/// The files as a crash would leave them: everything acknowledged, nothing closed.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in ["store.db", "store.db-wal", "store.ack"] {
        if from.join(name).exists() {
            std::fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

struct Damaged {
    detected: usize,
    harmless: usize,
}

/// Opens a copy for each kind of damage to `file` and checks that it is rejected as damaged, or shows the original
/// data.
fn check(from: &Path, file: &str, expected: &[&Contents], damages: impl Iterator<Item = Damage>) -> Damaged {
    let mut seen = Damaged { detected: 0, harmless: 0 };
    let whole = std::fs::read(from.join(file)).unwrap();
    let parent = tempfile::tempdir().unwrap();
    for (number, damage) in damages.enumerate() {
        let directory = parent.path().join(number.to_string());
        copy(from, &directory);
        let mut bytes = whole.clone();
        damage.apply(&mut bytes);
        std::fs::write(directory.join(file), bytes).unwrap();
        match Embedded::open(&EmbeddedOptions::new(&directory)) {
            Ok(store) => {
                let found = contents(&store);
                assert!(expected.contains(&&found), "{damage:?} of {file} went unnoticed");
                seen.harmless += 1;
            }
            Err(error) => {
                assert!(
                    matches!(error, Error::Corrupt(_) | Error::NewerFormat { .. } | Error::Io(_)),
                    "{damage:?} of {file}: {error}"
                );
                seen.detected += 1;
            }
        }
        std::fs::remove_dir_all(directory).unwrap();
    }
    println!("{file}: {} damages detected, {} harmless", seen.detected, seen.harmless);
    seen
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip { byte: usize, bit: u8 },
    Truncate { length: usize },
}

impl Damage {
    fn apply(self, bytes: &mut Vec<u8>) {
        match self {
            Damage::Flip { byte, bit } => bytes[byte] ^= 1 << bit,
            Damage::Truncate { length } => bytes.truncate(length),
        }
    }
}

fn flips(length: usize, every: usize) -> impl Iterator<Item = Damage> {
    let header = (0..100.min(length)).step_by(3);
    header.chain((100..length).step_by(every)).map(|byte| Damage::Flip { byte, bit: (byte % 8) as u8 })
}

fn truncations(length: usize, every: usize) -> impl Iterator<Item = Damage> {
    (0..length).step_by(every).chain([length - 1]).map(|length| Damage::Truncate { length })
}

#[tokio::test]
async fn damage_to_a_closed_database_is_detected_or_harmless() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("store");
    let store = Embedded::open(&EmbeddedOptions::new(&directory)).unwrap();
    fill(&store).await;
    let expected = contents(&store);
    store.close().await;
    drop(store);
    let length = std::fs::metadata(directory.join("store.db")).unwrap().len() as usize;
    let flipped = check(&directory, "store.db", &[&expected], flips(length, 149));
    assert!(flipped.detected > 100);
    let cut = check(&directory, "store.db", &[&expected], truncations(length, 3001));
    assert_eq!(cut.harmless, 0);
}

#[tokio::test]
async fn damage_to_the_log_of_a_crashed_store_is_detected_or_harmless() {
    let parent = tempfile::tempdir().unwrap();
    let (live, crashed) = (parent.path().join("live"), parent.path().join("crashed"));
    let store = Embedded::open(&EmbeddedOptions::new(&live)).unwrap();
    fill(&store).await;
    let before = contents(&store);
    store.create("/last", "acknowledged".into(), None).await.unwrap();
    copy(&live, &crashed);
    let expected = contents(&store);
    drop(store);

    let length = std::fs::metadata(crashed.join("store.db-wal")).unwrap().len() as usize;
    let flipped = check(&crashed, "store.db-wal", &[&expected], flips(length, 1499));
    assert!(flipped.detected > 100, "only {} flips were detected", flipped.detected);
    let cut = check(&crashed, "store.db-wal", &[&expected], truncations(length, 9973));
    assert_eq!(cut.harmless, 0);

    // Without the record of acknowledged writes the log itself still reveals all damage except that of its last
    // transaction, which looks like a crash before the acknowledgement.
    std::fs::remove_file(crashed.join("store.ack")).unwrap();
    let flipped = check(&crashed, "store.db-wal", &[&expected, &before], flips(length, 1499));
    assert!(flipped.detected > 100, "only {} flips were detected", flipped.detected);
}

#[tokio::test]
async fn a_log_truncated_by_a_crash_opens_with_its_complete_transactions() {
    let parent = tempfile::tempdir().unwrap();
    let (live, crashed) = (parent.path().join("live"), parent.path().join("crashed"));
    let store = Embedded::open(&EmbeddedOptions::new(&live)).unwrap();
    let states = fill(&store).await;
    copy(&live, &crashed);
    drop(store);
    // As after a power failure that lost the end of the log and the record: none of it had been acknowledged.
    std::fs::remove_file(crashed.join("store.ack")).unwrap();
    let length = std::fs::metadata(crashed.join("store.db-wal")).unwrap().len() as usize;
    let states: Vec<&Contents> = states.iter().collect();
    let seen = check(&crashed, "store.db-wal", &states, truncations(length, 4999));
    assert_eq!(seen.detected, 0);
}

#[tokio::test]
async fn a_damaged_ack_file_is_harmless() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("store");
    let store = Embedded::open(&EmbeddedOptions::new(&directory)).unwrap();
    fill(&store).await;
    let expected = contents(&store);
    drop(store);
    let seen = check(&directory, "store.ack", &[&expected], flips(20, 1).chain(truncations(20, 1)));
    assert_eq!(seen.detected, 0);
}

#[tokio::test]
async fn a_missing_database_is_not_recreated() {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(&EmbeddedOptions::new(directory.path())).unwrap();
    fill(&store).await;
    drop(store);
    std::fs::remove_file(directory.path().join("store.db")).unwrap();
    let refused = Embedded::open(&EmbeddedOptions::new(directory.path())).err().unwrap();
    assert!(matches!(refused, Error::Corrupt(_)), "{refused}");
}
