//! Tests of the embedded engine only: restarts, refusals, and shared flushes.

use std::path::Path;

use bytes::Bytes;

use super::*;

fn open(directory: &Path) -> Embedded {
    Embedded::open(&EmbeddedOptions::new(directory)).unwrap()
}

async fn fill(store: &Embedded, keys: usize) -> Revision {
    let mut revision = 0;
    for key in 0..keys {
        revision = store.create(&format!("/k/{key:05}"), Bytes::from(format!("value {key}")), None).await.unwrap();
    }
    revision
}

#[tokio::test]
async fn history_and_watches_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let first = store.create("/a", "1".into(), None).await.unwrap();
    let second = store.update("/a", "2".into(), first, None).await.unwrap();
    let (third, _) = store.delete("/a", Some(second)).await.unwrap();
    store.create("/b", "1".into(), None).await.unwrap();
    store.close().await;
    assert!(matches!(store.get("/a").await, Err(Error::Closed)));
    assert!(matches!(store.create("/c", "1".into(), None).await, Err(Error::Closed)));
    drop(store);

    let store = open(directory.path());
    assert_eq!(store.revision().await.unwrap(), third + 1);
    assert!(store.get("/a").await.unwrap().0.is_none());
    let old = store.range(RangeRequest::prefix("/a").at(first)).await.unwrap();
    assert_eq!(&*old.kvs[0].value, b"1");
    let mut watch = store.watch("/a", second).await.unwrap();
    let events = watch.next().await.unwrap().unwrap().events;
    assert_eq!(events.len(), 2);
    assert_eq!(&*events[0].prev.as_ref().unwrap().value, b"1");
    assert_eq!(events[1].kind, crate::EventKind::Delete);
}

#[tokio::test]
async fn compaction_survives_a_restart_and_frees_the_rows() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let mut revision = store.create("/a", "0".into(), None).await.unwrap();
    for round in 1..100 {
        revision = store.update("/a", Bytes::from(round.to_string()), revision, None).await.unwrap();
    }
    let (deleted, _) = {
        store.create("/gone", "1".into(), None).await.unwrap();
        store.delete("/gone", None).await.unwrap()
    };
    store.compact(deleted).await.unwrap();
    // The rows are removed by the next transaction.
    store.create("/b", "1".into(), None).await.unwrap();
    drop(store);

    let store = open(directory.path());
    assert_eq!(store.compacted().await, deleted);
    assert!(matches!(store.watch("/", revision).await, Err(Error::Compacted { .. })));
    assert_eq!(&*store.get("/a").await.unwrap().0.unwrap().value, b"99");
    assert!(store.get("/gone").await.unwrap().0.is_none());
    drop(store);
    let connection = open::connect(&Files::of(directory.path()).database).unwrap();
    let rows: i64 = connection.query_row("SELECT count(*) FROM log", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 2);
}

#[tokio::test]
async fn leases_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let lease = store.grant(3600).await.unwrap();
    store.create("/a", "1".into(), Some(lease)).await.unwrap();
    drop(store);
    let store = open(directory.path());
    assert_ne!(store.grant(3600).await.unwrap(), lease);
    store.keep_alive(lease).await.unwrap();
    store.revoke(lease).await.unwrap();
    assert!(store.get("/a").await.unwrap().0.is_none());
    drop(store);
    let store = open(directory.path());
    assert!(matches!(store.keep_alive(lease).await, Err(Error::LeaseNotFound(_))));
}

#[tokio::test]
async fn leased_writes_share_a_transaction_and_are_durable_when_answered() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let lease = store.grant(3600).await.unwrap();
    let sequence = || ack::AckFile::read(&store.files.ack).unwrap().unwrap();
    let before = sequence();
    let keys: Vec<String> = (0..50).map(|number| format!("/e/{number}")).collect();
    let creates = keys.iter().map(|key| store.create(key, "1".into(), Some(lease)));
    for created in futures::future::join_all(creates).await {
        created.unwrap();
    }
    let transactions = sequence() - before;
    assert!(transactions <= 3, "{transactions} transactions for 50 writes");
    drop(store);
    assert_eq!(open(directory.path()).count("/e/").await.unwrap(), 50);
}

#[tokio::test]
async fn leased_writes_that_wait_are_answered_by_a_close() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let lease = store.grant(3600).await.unwrap();
    let (created, ()) = tokio::join!(store.create("/e/1", "1".into(), Some(lease)), store.close());
    created.unwrap();
    assert!(matches!(store.create("/e/2", "1".into(), Some(lease)).await, Err(Error::Closed)));
    drop(store);
    assert_eq!(open(directory.path()).count("/e/").await.unwrap(), 1);
}

#[test]
fn a_second_process_is_refused_and_the_lock_owner_named() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let refused = Embedded::open(&EmbeddedOptions::new(directory.path())).err().unwrap().to_string();
    assert!(refused.contains(&format!("pid {}", std::process::id())), "{refused}");
    drop(store);
    open(directory.path());
}

#[test]
fn a_newer_format_is_refused_with_its_version() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()));
    let database = Files::of(directory.path()).database;
    open::connect(&database).unwrap().pragma_update(None, "user_version", table::FORMAT + 1).unwrap();
    let refused = Embedded::open(&EmbeddedOptions::new(directory.path())).err().unwrap();
    assert!(matches!(refused, Error::NewerFormat { found, .. } if found == table::FORMAT + 1), "{refused}");
}

#[test]
fn a_database_of_another_program_is_not_modified() {
    let directory = tempfile::tempdir().unwrap();
    let database = Files::of(directory.path()).database;
    open::connect(&database).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
    let refused = Embedded::open(&EmbeddedOptions::new(directory.path())).err().unwrap().to_string();
    assert!(refused.contains("not a database of this program"), "{refused}");
}

#[tokio::test]
async fn retention_bounds_the_history_automatically() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = EmbeddedOptions::new(directory.path());
    options.retention.events = 50;
    let store = Embedded::open(&options).unwrap();
    fill(&store, 200).await;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while store.compacted().await == 0 {
        assert!(std::time::Instant::now() < deadline, "the housekeeper never compacted");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(store.count("/k/").await.unwrap(), 200);
}

#[test]
fn reads_complete_without_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(store.get("/a").as_mut().poll(&mut context).is_ready());
    assert!(store.range(RangeRequest::prefix("/")).as_mut().poll(&mut context).is_ready());
}

/// Reports whether any file of the store contains the bytes.
fn is_on_disk(directory: &Path, bytes: &[u8]) -> bool {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.is_file()).any(|file| {
        let content = std::fs::read(file).unwrap();
        content.windows(bytes.len()).any(|window| window == bytes)
    })
}

#[tokio::test]
async fn scrubbed_files_hold_no_byte_of_compacted_values() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    fill(&store, 300).await;
    // One value within a page and one on overflow pages.
    let canaries = ["canary-Kx3".to_owned(), "canary-Zq9 ".repeat(5000)];
    let mut last = 0;
    for (number, canary) in canaries.iter().enumerate() {
        let key = format!("/secret/{number}");
        let written = store.create(&key, Bytes::from(canary.clone()), None).await.unwrap();
        last = store.update(&key, "sealed".into(), written, None).await.unwrap();
    }
    assert!(is_on_disk(directory.path(), b"canary-Kx3") && is_on_disk(directory.path(), b"canary-Zq9"));
    store.compact(last).await.unwrap();
    store.scrub().await.unwrap();
    assert!(!is_on_disk(directory.path(), b"canary-"), "compacted values are still in the files");
    store.close().await;
    drop(store);
    let store = open(directory.path());
    assert_eq!(&*store.get("/secret/1").await.unwrap().0.unwrap().value, b"sealed");
    assert_eq!(store.count("/k/").await.unwrap(), 300);
}
