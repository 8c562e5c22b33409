//! At its size limit a store refuses writes that need space, keeps what it has, and accepts writes again after deletes or with a
//! higher limit.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use store::embedded::{Embedded, EmbeddedOptions};
use store::{Error, SizeLimit, Store};

const LIMIT: u64 = 4 << 20;
/// The space of a write is estimated: inner pages of the database come on top.
const ROUNDING: u64 = 32 << 10;

/// Opens a store with a limit that can be changed.
fn open(directory: &Path, bytes: u64) -> (Embedded, SizeLimit) {
    let size_limit = SizeLimit::default();
    size_limit.set(bytes);
    let options = EmbeddedOptions { size_limit: size_limit.clone(), ..EmbeddedOptions::new(directory) };
    (Embedded::open(&options).unwrap(), size_limit)
}

fn key(number: usize) -> String {
    format!("/k/{number:06}")
}

/// Creates keys until one is refused, and returns their number.
async fn fill(store: &Embedded, value: &Bytes) -> usize {
    for number in 0.. {
        let before = store.revision().await.unwrap();
        if let Err(error) = store.create(&key(number), value.clone(), None).await {
            assert!(matches!(error, Error::NoSpace(_)), "{error}");
            assert_eq!(store.revision().await.unwrap(), before, "a refused write changed something");
            assert!(store.get(&key(number)).await.unwrap().0.is_none());
            return number;
        }
    }
    unreachable!("the limit has no effect")
}

async fn create_when_there_is_space(store: &Embedded, key: &str, value: &Bytes) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Err(error) = store.create(key, value.clone(), None).await {
        assert!(matches!(error, Error::NoSpace(_)), "{error}");
        assert!(Instant::now() < deadline, "no space after deletes and compaction: {error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Values of this size fill a store; half of them are deleted; then there is space again.
async fn check_recovery(value_bytes: usize) {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = open(directory.path(), LIMIT);
    let value = Bytes::from(vec![7; value_bytes]);
    let written = fill(&store, &value).await;
    let used = store.quota().unwrap().used_bytes;
    assert!(used > LIMIT / 2 && used <= LIMIT + ROUNDING, "{used} bytes are used by {written} values of {value_bytes}");
    assert_eq!(store.count("/k/").await.unwrap(), written as u64, "reads continue");
    assert!(store.health().await.is_ok(), "the disk works");
    for number in 0..written / 2 {
        store.delete(&key(number), None).await.unwrap();
    }
    store.compact(store.revision().await.unwrap()).await.unwrap();
    create_when_there_is_space(&store, "/k/again", &value).await;
    let total = store.count("/k/").await.unwrap();
    assert_eq!(total as usize, written - written / 2 + 1);
    drop(store);
    let reopened = open(directory.path(), LIMIT).0;
    assert_eq!(reopened.count("/k/").await.unwrap(), total);
}

#[tokio::test]
async fn a_full_store_accepts_writes_again_after_deletes() {
    for value_bytes in [3000, 20_000, 300_000] {
        check_recovery(value_bytes).await;
    }
}

#[tokio::test]
async fn a_full_store_admits_updates_that_hardly_grow() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = open(directory.path(), LIMIT);
    let value = Bytes::from(vec![7; 20_000]);
    fill(&store, &value).await;
    let mut revision = store.get(&key(0)).await.unwrap().0.unwrap().mod_revision;
    // Its deletion timestamp, then the end of its finalizers.
    for length in [20_080, 19_990] {
        revision = store.update(&key(0), vec![7; length].into(), revision, None).await.unwrap();
    }
    let grown = store.update(&key(0), vec![7; 40_000].into(), revision, None).await;
    assert!(matches!(grown, Err(Error::NoSpace(_))), "{grown:?}");
    assert!(matches!(store.grant(60).await, Err(Error::NoSpace(_)) | Ok(_)));
    // Former versions are compacted, so that more updates succeed than the reserve has space for.
    for length in (20_000..21_000).step_by(10) {
        let deadline = Instant::now() + Duration::from_secs(20);
        revision = loop {
            match store.update(&key(0), vec![8; length].into(), revision, None).await {
                Ok(updated) => break updated,
                Err(error) => assert!(matches!(error, Error::NoSpace(_)) && Instant::now() < deadline, "{error}"),
            }
            let used = store.quota().unwrap().used_bytes;
            assert!(used <= LIMIT + ROUNDING, "{used}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
    }
    store.delete(&key(0), Some(revision)).await.unwrap();
}

#[tokio::test]
async fn a_limit_below_the_data_refuses_writes_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (store, limit) = open(directory.path(), 0);
    assert_eq!(store.quota(), None);
    let value = Bytes::from(vec![7; 20_000]);
    for number in 0..300 {
        store.create(&key(number), value.clone(), None).await.unwrap();
    }
    limit.set(LIMIT);
    let refused = store.create("/k/more", "1".into(), None).await;
    assert!(matches!(refused, Err(Error::NoSpace(_))), "{refused:?}");
    drop(store);

    let (store, limit) = open(directory.path(), LIMIT);
    assert_eq!(store.count("/k/").await.unwrap(), 300);
    assert!(store.quota().unwrap().problem().is_some());
    assert!(store.create("/k/more", "1".into(), None).await.is_err());
    store.delete(&key(0), None).await.unwrap();
    limit.set(4 * LIMIT);
    store.create("/k/more", value.clone(), None).await.unwrap();
    limit.set(LIMIT);
    for number in 1..200 {
        store.delete(&key(number), None).await.unwrap();
    }
    store.compact(store.revision().await.unwrap()).await.unwrap();
    create_when_there_is_space(&store, "/k/again", &value).await;
    assert_eq!(store.count("/k/").await.unwrap(), 102);
}

#[tokio::test]
async fn former_versions_of_a_full_store_are_compacted_by_themselves() {
    let directory = tempfile::tempdir().unwrap();
    let (store, _) = open(directory.path(), LIMIT);
    let value = Bytes::from(vec![7; 20_000]);
    let mut revision = store.create("/heartbeat", value.clone(), None).await.unwrap();
    // Several times the limit: only the history of this key grows.
    for _ in 0..4 * LIMIT / 20_000 {
        let deadline = Instant::now() + Duration::from_secs(20);
        revision = loop {
            match store.update("/heartbeat", value.clone(), revision, None).await {
                Ok(updated) => break updated,
                Err(error) => assert!(Instant::now() < deadline, "the history is not compacted: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
    }
    assert!(store.compacted().await > 0);
}
