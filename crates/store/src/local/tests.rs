//! Tests of the in-memory history and its compaction.

use bytes::Bytes;

use super::*;
use crate::kv::RangeEnd;

fn put(local: &Local, key: &str, value: &str) {
    local.write(|applier| {
        let revision = applier.index.revision() + 1;
        let create_revision = applier.index.get(key).map_or(revision, |kv| kv.create_revision);
        let value = Some(Bytes::from(value.to_string()));
        applier.apply(&key.into(), Version { mod_revision: revision, create_revision, lease: None, value });
    });
}

fn delete(local: &Local, key: &str) {
    local.write(|applier| {
        let mod_revision = applier.index.revision() + 1;
        applier.apply(&key.into(), Version { mod_revision, create_revision: 0, lease: None, value: None });
    });
}

fn shown(local: &Local, revision: Option<Revision>) -> String {
    match local.range(RangeRequest { start: "", end: RangeEnd::Prefix, limit: 0, revision }) {
        Ok(result) => {
            let pairs: Vec<String> =
                result.kvs.iter().map(|kv| format!("{}={}", kv.key, String::from_utf8_lossy(&kv.value))).collect();
            pairs.join(" ")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn compaction_keeps_only_versions_readable_at_the_compacted_revision() {
    let local = Local::default();
    put(&local, "a", "1"); // 2
    put(&local, "b", "1"); // 3
    put(&local, "a", "2"); // 4
    delete(&local, "b"); // 5
    put(&local, "a", "3"); // 6
    let mut pruned = Vec::new();
    local.compact(5, |key, version| pruned.push((key.to_string(), version.mod_revision))).unwrap();
    pruned.sort();
    assert_eq!(pruned, [("a".to_string(), 2), ("b".to_string(), 3), ("b".to_string(), 5)]);
    let check = |revision, expected: &str| assert_eq!(shown(&local, revision), expected);
    check(None, "a=3");
    check(Some(6), "a=3");
    check(Some(5), "a=2");
    check(Some(4), "revision 4 has been compacted (oldest readable revision is 5)");
    check(Some(7), "revision 7 is in the future (current revision is 6)");
    assert!(local.compact(5, |_, _| {}).is_err());
    local.read(|index| assert_eq!((index.history_events(), index.history_bytes()), (1, 1)));
}

#[test]
fn compaction_in_steps_equals_compaction_at_once() {
    let local = Local::default();
    for round in 0..3 * COMPACT_STEP {
        put(&local, &format!("k{}", round % 7), &round.to_string());
    }
    let mut pruned = 0;
    local.compact(local.revision(), |_, _| pruned += 1).unwrap();
    assert_eq!(pruned, 3 * COMPACT_STEP - 7);
    local.read(|index| assert_eq!((index.history_events(), index.history_bytes()), (0, 0)));
}

#[test]
fn retention_by_events_and_by_age_names_a_revision_to_compact() {
    let local = Local::default();
    let start = Instant::now();
    for round in 0..100 {
        put(&local, "k", &round.to_string());
    }
    let check = |retention: Retention, after: u64, expected| {
        assert_eq!(local.expired(&retention, start + Duration::from_secs(after)), expected)
    };
    check(Retention { events: 100, ..Retention::UNBOUNDED }, 0, None);
    check(Retention { events: 99, ..Retention::UNBOUNDED }, 0, Some(52));
    check(Retention { bytes: 10, ..Retention::UNBOUNDED }, 0, Some(52));
    check(Retention { age: Duration::from_secs(60), ..Retention::UNBOUNDED }, 0, None);
    check(Retention { age: Duration::from_secs(60), ..Retention::UNBOUNDED }, 59, None);
    check(Retention { age: Duration::from_secs(60), ..Retention::UNBOUNDED }, 60, Some(101));
}

#[tokio::test]
async fn a_watcher_that_is_not_read_catches_up_from_history() {
    let local = Arc::new(Local::default());
    let mut watch = crate::WatchStream::local(local.watch("k", 2).unwrap());
    assert!(watch.next().await.unwrap().unwrap().events.is_empty());
    for round in 0..10_000 {
        put(&local, "k", &round.to_string());
    }
    let mut seen = Vec::new();
    while seen.len() < 10_000 {
        seen.extend(watch.next().await.unwrap().unwrap().events.into_iter().map(|event| event.kv.mod_revision));
    }
    assert!(seen.iter().copied().eq(2..10_002));
}

#[tokio::test]
async fn a_watcher_overtaken_by_compaction_ends_with_compacted() {
    let local = Arc::new(Local::default());
    let mut watch = crate::WatchStream::local(local.watch("k", 2).unwrap());
    assert!(watch.next().await.unwrap().unwrap().events.is_empty());
    for round in 0..10_000 {
        put(&local, "k", &round.to_string());
    }
    local.compact(9_000, |_, _| {}).unwrap();
    assert!(matches!(watch.next().await, Some(Err(Error::Compacted { .. }))));
    assert!(watch.next().await.is_none());
}
