//! etcd down, silent or restarted: callers get accurate errors.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test code")]

mod engines;

use std::time::Duration;

use rustix::process::Signal;
use store::etcd::Etcd;
use store::{Error, Store};

use crate::engines::{EtcdServer, find_etcd, free_port};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unavailable_endpoint_is_skipped() {
    let Some(binary) = find_etcd() else { return };
    let server = EtcdServer::plain(&binary).await;
    let mut options = server.options("/failover");
    options.endpoints.insert(0, format!("http://127.0.0.1:{}", free_port()));
    let store = Etcd::connect(&options).await.unwrap();
    let revision = store.create("/k", "1".into(), None).await.unwrap();
    let mut watch = store.watch("/", revision).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().events.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_etcd_at_all_is_unavailable_not_a_conflict() {
    let Some(binary) = find_etcd() else { return };
    let mut server = EtcdServer::plain(&binary).await;
    let mut options = server.options("/gone");
    options.timeout = Duration::from_secs(1);
    let store = Etcd::connect(&options).await.unwrap();
    let revision = store.create("/k", "1".into(), None).await.unwrap();
    server.kill();
    let unavailable = |result: Option<Error>| assert!(matches!(result, Some(Error::Unavailable(_))), "{result:?}");
    // The connection may break during the first call, which then may or may not have arrived.
    let first = store.update("/k", "2".into(), revision, None).await.err();
    assert!(matches!(first, Some(Error::Unavailable(_) | Error::Unknown(_))), "{first:?}");
    unavailable(store.get("/k").await.err());
    unavailable(store.create("/l", "1".into(), None).await.err());
    unavailable(store.update("/k", "2".into(), revision, None).await.err());
    unavailable(store.health().await.err());
    unavailable(store.watch("/", 1).await.err());

    server.launch();
    server.connect("/gone").await;
    assert_eq!(&*store.get("/k").await.unwrap().0.unwrap().value, b"1");
    store.update("/k", "2".into(), revision, None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unanswered_write_is_resolved_or_reported_as_unknown() {
    let Some(binary) = find_etcd() else { return };
    let server = EtcdServer::plain(&binary).await;
    let mut options = server.options("/silent");
    options.timeout = Duration::from_secs(2);
    let store = Etcd::connect(&options).await.unwrap();
    let other = Etcd::connect(&options).await.unwrap();
    let first = store.create("/update", "1".into(), None).await.unwrap();

    // Silent for longer than the timeout: the write is in etcd's socket and may still be applied or dropped.
    server.signal(Signal::STOP);
    let unknown = store.create("/unknown", "1".into(), None).await;
    server.signal(Signal::CONT);
    assert!(matches!(unknown, Err(Error::Unknown(_))), "{unknown:?}");

    // Silent for a while: the first attempt is not answered, and reading the key resolves it.
    let woken = async {
        tokio::time::sleep(Duration::from_millis(2500)).await;
        server.signal(Signal::CONT);
    };
    server.signal(Signal::STOP);
    let (created, updated, ()) = tokio::join!(
        store.create("/create", "mine".into(), None),
        store.update("/update", "mine".into(), first, None),
        woken
    );
    let kv = store.get("/update").await.unwrap().0.unwrap();
    assert_eq!((updated.unwrap(), &*kv.value), (kv.mod_revision, &b"mine"[..]));
    let kv = store.get("/create").await.unwrap().0.unwrap();
    assert_eq!((created.unwrap(), &*kv.value), (kv.mod_revision, &b"mine"[..]));
    // A writer that does not know of the epoch change discovers it.
    other.create("/other", "1".into(), None).await.unwrap();
    let taken = other.create("/create", "theirs".into(), None).await;
    assert!(matches!(taken, Err(Error::Exists { current }) if *current.value == *b"mine"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_continues_after_an_etcd_restart() {
    let Some(binary) = find_etcd() else { return };
    let mut server = EtcdServer::plain(&binary).await;
    let store = server.connect("/watch").await;
    let start = store.revision().await.unwrap();
    let mut watch = store.watch("/", start + 1).await.unwrap();
    let mut expected = Vec::new();
    for round in 0..2 {
        for number in 0..5 {
            expected.push(store.create(&format!("/{round}/{number}"), "1".into(), None).await.unwrap());
        }
        server.kill();
        server.launch();
        server.connect("/watch").await;
    }
    let mut seen = Vec::new();
    while seen.len() < expected.len() {
        let batch = watch.next().await.unwrap().unwrap();
        seen.extend(batch.events.into_iter().map(|event| event.kv.mod_revision));
    }
    assert_eq!(seen, expected);
    let progress = watch.progress();
    tokio::spawn(async move { while watch.next().await.is_some() {} });
    progress.wait(*expected.last().unwrap()).await.unwrap();
}
