//! The contract for writes and leases.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use store::{Error, EventKind, Store};

use super::watch_events;

pub async fn a_key_lives_from_create_to_delete(store: Arc<dyn Store>) {
    assert!(store.get("/k").await.unwrap().0.is_none());
    let created = store.create("/k", "1".into(), None).await.unwrap();
    let kv = store.get("/k").await.unwrap().0.unwrap();
    assert_eq!((&*kv.key, &*kv.value), ("/k", &b"1"[..]));
    assert_eq!((kv.create_revision, kv.mod_revision, kv.lease), (created, created, None));

    let updated = store.update("/k", "2".into(), created, None).await.unwrap();
    let (kv, revision) = store.get("/k").await.unwrap();
    let kv = kv.unwrap();
    assert_eq!((&*kv.value, kv.create_revision, kv.mod_revision), (&b"2"[..], created, updated));
    assert!(revision >= updated);

    store.delete("/k", None).await.unwrap();
    assert!(store.get("/k").await.unwrap().0.is_none());
    let again = store.create("/k", "3".into(), None).await.unwrap();
    assert_eq!(store.get("/k").await.unwrap().0.unwrap().create_revision, again);
}

pub async fn create_refuses_what_exists_and_shows_it(store: Arc<dyn Store>) {
    let revision = store.create("/k", "1".into(), None).await.unwrap();
    match store.create("/k", "2".into(), None).await {
        Err(Error::Exists { current }) => assert_eq!((&*current.value, current.mod_revision), (&b"1"[..], revision)),
        other => panic!("{other:?}"),
    }
    assert_eq!(store.revision().await.unwrap(), revision);
}

pub async fn update_refuses_a_stale_revision_and_shows_the_newer_one(store: Arc<dyn Store>) {
    for expected in [0, 1, 99] {
        let missing = store.update("/k", "1".into(), expected, None).await;
        assert!(matches!(missing, Err(Error::Conflict { current: None })), "{missing:?}");
    }
    let first = store.create("/k", "1".into(), None).await.unwrap();
    let second = store.update("/k", "2".into(), first, None).await.unwrap();
    for expected in [0, first, second + 1] {
        match store.update("/k", "3".into(), expected, None).await {
            Err(Error::Conflict { current: Some(current) }) => assert_eq!(current.mod_revision, second),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(&*store.get("/k").await.unwrap().0.unwrap().value, b"2");
}

pub async fn delete_is_guarded_and_returns_what_it_removed(store: Arc<dyn Store>) {
    assert!(matches!(store.delete("/k", None).await, Err(Error::NotFound)));
    assert!(matches!(store.delete("/k", Some(1)).await, Err(Error::NotFound)));
    let first = store.create("/k", "1".into(), None).await.unwrap();
    match store.delete("/k", Some(first + 1)).await {
        Err(Error::Conflict { current: Some(current) }) => assert_eq!(current.mod_revision, first),
        other => panic!("{other:?}"),
    }
    let (revision, removed) = store.delete("/k", Some(first)).await.unwrap();
    assert!(revision > first);
    assert_eq!((&*removed.value, removed.mod_revision), (&b"1"[..], first));
    assert!(matches!(store.delete("/k", None).await, Err(Error::NotFound)));
}

pub async fn every_write_takes_a_later_revision(store: Arc<dyn Store>) {
    if store.local().is_some() {
        assert_eq!(store.revision().await.unwrap(), 1, "an empty store is at 1");
    }
    let mut last = store.revision().await.unwrap();
    for round in 0..10 {
        let key = format!("/k{round}");
        let created = store.create(&key, "1".into(), None).await.unwrap();
        let updated = store.update(&key, "2".into(), created, None).await.unwrap();
        let deleted = store.delete(&key, None).await.unwrap().0;
        assert!(last < created && created < updated && updated < deleted);
        last = store.revision().await.unwrap();
        assert_eq!(last, deleted);
    }
}

pub async fn values_of_any_bytes_and_keys_of_any_letters_come_back(store: Arc<dyn Store>) {
    let megabyte: Vec<u8> = (0..1 << 20).map(|byte| byte as u8).collect();
    for (key, value) in [
        ("/empty", Bytes::new()),
        ("/binary", Bytes::from_static(&[0, 255, 1])),
        ("/large", megabyte.into()),
        ("/schlüssel/鍵", "ü".into()),
    ] {
        store.create(key, value.clone(), None).await.unwrap();
        let kv = store.get(key).await.unwrap().0.unwrap();
        assert_eq!(&*kv.key, key);
        assert!(kv.value == value, "{key}");
    }
}

pub async fn of_many_creators_one_wins(store: Arc<dyn Store>) {
    let tasks: Vec<_> = (0..16)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move { store.create("/k", Bytes::from(format!("{writer}")), None).await.is_ok() })
        })
        .collect();
    let mut winners = 0;
    for task in tasks {
        winners += usize::from(task.await.unwrap());
    }
    assert_eq!(winners, 1);
}

pub async fn guarded_updates_lose_nothing(store: Arc<dyn Store>) {
    store.create("/count", "0".into(), None).await.unwrap();
    let tasks: Vec<_> = (0..8).map(|_| tokio::spawn(increment(store.clone(), 10))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(&*store.get("/count").await.unwrap().0.unwrap().value, b"80");
}

async fn increment(store: Arc<dyn Store>, times: usize) {
    let mut current = store.get("/count").await.unwrap().0.unwrap();
    let mut done = 0;
    while done < times {
        let count: usize = String::from_utf8(current.value.to_vec()).unwrap().parse().unwrap();
        match store.update("/count", Bytes::from((count + 1).to_string()), current.mod_revision, None).await {
            Ok(_) => {
                done += 1;
                current = store.get("/count").await.unwrap().0.unwrap();
            }
            Err(Error::Conflict { current: Some(newer) }) => current = newer,
            Err(error) => panic!("{error}"),
        }
    }
}

pub async fn a_revoked_lease_deletes_its_keys(store: Arc<dyn Store>) {
    let lease = store.grant(600).await.unwrap();
    store.create("/mine/1", "1".into(), Some(lease)).await.unwrap();
    let second = store.create("/mine/2", "1".into(), Some(lease)).await.unwrap();
    let third = store.create("/mine/3", "1".into(), Some(lease)).await.unwrap();
    let detached = store.update("/mine/3", "2".into(), third, None).await.unwrap();
    assert_eq!(store.get("/mine/1").await.unwrap().0.unwrap().lease, Some(lease));
    store.keep_alive(lease).await.unwrap();
    let mut watch = store.watch("/mine/", detached + 1).await.unwrap();
    store.revoke(lease).await.unwrap();
    let events = watch_events(&mut watch, 2).await;
    assert!(events.iter().all(|event| event.kind == EventKind::Delete));
    let prev = events.iter().find(|event| &*event.kv.key == "/mine/2").unwrap().prev.clone();
    assert_eq!(prev.unwrap().mod_revision, second);
    let left: Vec<_> = store.range(store::RangeRequest::prefix("/mine/")).await.unwrap().kvs;
    assert_eq!(left.iter().map(|kv| &*kv.key).collect::<Vec<_>>(), ["/mine/3"]);
    assert!(matches!(store.revoke(lease).await, Err(Error::LeaseNotFound(_))));
}

pub async fn an_expired_lease_deletes_its_keys_unless_kept_alive(store: Arc<dyn Store>) {
    let short = store.grant(2).await.unwrap();
    let kept = store.grant(2).await.unwrap();
    let start = Instant::now();
    store.create("/short", "1".into(), Some(short)).await.unwrap();
    let from = store.create("/kept", "1".into(), Some(kept)).await.unwrap();
    let mut watch = store.watch("/", from + 1).await.unwrap();
    let keeper = tokio::spawn({
        let store = store.clone();
        async move {
            loop {
                store.keep_alive(kept).await.unwrap();
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    });
    let events = watch_events(&mut watch, 1).await;
    keeper.abort();
    assert_eq!((&*events[0].kv.key, events[0].kind), ("/short", EventKind::Delete));
    assert!(start.elapsed() >= Duration::from_millis(1900), "it ended early");
    assert!(store.get("/kept").await.unwrap().0.is_some());
    assert!(matches!(store.keep_alive(short).await, Err(Error::LeaseNotFound(_))));
}

pub async fn an_unknown_lease_is_refused(store: Arc<dyn Store>) {
    let lease = 4711;
    assert!(matches!(store.create("/k", "1".into(), Some(lease)).await, Err(Error::LeaseNotFound(4711))));
    assert!(matches!(store.keep_alive(lease).await, Err(Error::LeaseNotFound(4711))));
    assert!(matches!(store.revoke(lease).await, Err(Error::LeaseNotFound(4711))));
    assert!(matches!(store.grant(0).await, Err(Error::Invalid(_))));
    assert!(store.get("/k").await.unwrap().0.is_none());
}

pub async fn a_closed_store_says_so(store: Arc<dyn Store>) {
    let mut watch = store.watch("/", store.revision().await.unwrap() + 1).await.unwrap();
    store.create("/k", "1".into(), None).await.unwrap();
    store.close().await;
    store.close().await;
    assert!(matches!(store.get("/k").await, Err(Error::Closed)));
    assert!(matches!(store.create("/l", "1".into(), None).await, Err(Error::Closed)));
    assert!(matches!(store.watch("/", 2).await, Err(Error::Closed)));
    while let Some(batch) = watch.next().await {
        assert!(batch.is_ok());
    }
}
