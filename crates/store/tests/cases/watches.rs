//! The contract for watches and their progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use store::{Error, EventKind, Store};

use super::watch_events;

pub async fn a_watch_shows_each_change_with_what_was_before(store: Arc<dyn Store>) {
    let start = store.revision().await.unwrap();
    let mut watch = store.watch("/", start + 1).await.unwrap();
    let created = store.create("/k", "1".into(), None).await.unwrap();
    let updated = store.update("/k", "2".into(), created, None).await.unwrap();
    let deleted = store.delete("/k", None).await.unwrap().0;
    let events = watch_events(&mut watch, 3).await;

    assert_eq!((events[0].kind, events[0].kv.mod_revision), (EventKind::Put, created));
    assert!(events[0].is_create() && events[0].prev.is_none());
    assert_eq!((events[1].kind, events[1].kv.mod_revision), (EventKind::Put, updated));
    assert_eq!((&*events[1].kv.value, events[1].kv.create_revision), (&b"2"[..], created));
    let prev = events[1].prev.as_ref().unwrap();
    assert_eq!((&*prev.value, prev.mod_revision), (&b"1"[..], created));
    assert_eq!((events[2].kind, events[2].kv.mod_revision), (EventKind::Delete, deleted));
    assert_eq!((&*events[2].kv.key, events[2].kv.value.len(), events[2].kv.create_revision), ("/k", 0, 0));
    let prev = events[2].prev.as_ref().unwrap();
    assert_eq!((&*prev.value, prev.mod_revision), (&b"2"[..], updated));
}

pub async fn a_watch_from_the_past_catches_up(store: Arc<dyn Store>) {
    let first = store.create("/k", "0".into(), None).await.unwrap();
    let mut last = first;
    for round in 1..50 {
        last = store.update("/k", Bytes::from(round.to_string()), last, None).await.unwrap();
    }
    let mut watch = store.watch("/k", first).await.unwrap();
    let events = watch_events(&mut watch, 50).await;
    assert_eq!(events[0].kv.mod_revision, first);
    assert_eq!(&*events[49].prev.as_ref().unwrap().value, b"48");
    store.update("/k", "live".into(), last, None).await.unwrap();
    assert_eq!(&*watch_events(&mut watch, 1).await[0].kv.value, b"live");
}

pub async fn a_watch_from_the_future_waits(store: Arc<dyn Store>) {
    let now = store.revision().await.unwrap();
    let mut watch = store.watch("/", now + 3).await.unwrap();
    for key in ["/1", "/2", "/3", "/4"] {
        store.create(key, "1".into(), None).await.unwrap();
    }
    let events = watch_events(&mut watch, 2).await;
    assert_eq!((&*events[0].kv.key, &*events[1].kv.key), ("/3", "/4"));
}

pub async fn a_watch_from_before_compaction_is_refused(store: Arc<dyn Store>) {
    let first = store.create("/k", "1".into(), None).await.unwrap();
    let second = store.update("/k", "2".into(), first, None).await.unwrap();
    let third = store.update("/k", "3".into(), second, None).await.unwrap();
    store.compact(second).await.unwrap();
    let refused = store.watch("/", first).await.err();
    assert!(matches!(refused, Some(Error::Compacted { compacted, .. }) if compacted == second), "{refused:?}");
    let mut watch = store.watch("/", third).await.unwrap();
    assert_eq!(watch_events(&mut watch, 1).await[0].kv.mod_revision, third);
}

pub async fn a_watch_sees_only_its_prefix(store: Arc<dyn Store>) {
    let start = store.revision().await.unwrap() + 1;
    let mut pods = store.watch("/pods/", start).await.unwrap();
    let mut odd = store.watch("/po", start).await.unwrap();
    let mut all = store.watch("", start).await.unwrap();
    for key in ["/pods/a/1", "/podsecurity/1", "/nodes/1", "/pods/b/1", "/pods"] {
        store.create(key, "1".into(), None).await.unwrap();
    }
    let check = async |watch: &mut store::WatchStream, expected: &[&str]| {
        let events = watch_events(watch, expected.len()).await;
        assert_eq!(events.iter().map(|event| &*event.kv.key).collect::<Vec<_>>(), expected);
    };
    check(&mut pods, &["/pods/a/1", "/pods/b/1"]).await;
    check(&mut odd, &["/pods/a/1", "/podsecurity/1", "/pods/b/1", "/pods"]).await;
    check(&mut all, &["/pods/a/1", "/podsecurity/1", "/nodes/1", "/pods/b/1", "/pods"]).await;
}

pub async fn concurrent_writes_are_seen_once_and_in_order(store: Arc<dyn Store>) {
    const WRITERS: usize = 8;
    const EACH: usize = 25;
    let mut watch = store.watch("/w/", store.revision().await.unwrap() + 1).await.unwrap();
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut written = Vec::new();
                for number in 0..EACH {
                    let key = format!("/w/{writer}/{number}");
                    written.push((store.create(&key, "1".into(), None).await.unwrap(), key));
                }
                written
            })
        })
        .collect();
    let events = watch_events(&mut watch, WRITERS * EACH).await;
    let mut written = Vec::new();
    for task in tasks {
        written.extend(task.await.unwrap());
    }
    written.sort();
    let seen: Vec<_> = events.iter().map(|event| (event.kv.mod_revision, event.kv.key.to_string())).collect();
    assert_eq!(seen, written);
}

pub async fn large_events_arrive_whole(store: Arc<dyn Store>) {
    let value = Bytes::from(vec![b'x'; 1 << 20]);
    let first = store.create("/large/0", value.clone(), None).await.unwrap();
    for number in 1..6 {
        store.create(&format!("/large/{number}"), value.clone(), None).await.unwrap();
    }
    let mut watch = store.watch("/large/", first).await.unwrap();
    let events = watch_events(&mut watch, 6).await;
    assert!(events.iter().all(|event| event.kv.value == value));
}

pub async fn progress_is_reported_on_an_idle_prefix(store: Arc<dyn Store>) {
    let mut watch = store.watch("/quiet/", store.revision().await.unwrap() + 1).await.unwrap();
    let progress = watch.progress();
    let reached = Arc::new(AtomicU64::new(0));
    let reader = tokio::spawn({
        let reached = reached.clone();
        async move {
            while let Some(Ok(batch)) = watch.next().await {
                assert!(batch.events.is_empty());
                reached.store(batch.revision, Ordering::Release);
            }
        }
    });
    let mut revision = 0;
    for number in 0..5 {
        revision = store.create(&format!("/busy/{number}"), "1".into(), None).await.unwrap();
    }
    progress.wait(revision).await.unwrap();
    assert!(progress.applied() >= revision);
    // A progress request also yields a batch.
    while reached.load(Ordering::Acquire) < revision {
        progress.request();
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    reader.abort();
    assert!(reader.await.unwrap_err().is_cancelled());
    assert!(matches!(progress.wait(revision + 1000).await, Err(Error::Closed)));
}

pub async fn a_reader_in_the_middle_of_a_batch_is_not_caught_up(store: Arc<dyn Store>) {
    let start = store.revision().await.unwrap();
    let mut watch = store.watch("/k", start + 1).await.unwrap();
    let progress = watch.progress();
    let revision = store.create("/k", "1".into(), None).await.unwrap();
    watch_events(&mut watch, 1).await;
    // The batch is still being processed: a cache fed by it may not show it yet.
    assert!(progress.applied() < revision);
    let waiting = tokio::spawn({
        let progress = progress.clone();
        async move { progress.wait(revision).await }
    });
    let reading = tokio::spawn(async move { while let Some(Ok(_)) = watch.next().await {} });
    waiting.await.unwrap().unwrap();
    assert!(progress.applied() >= revision);
    reading.abort();
}
