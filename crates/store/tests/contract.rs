//! One contract suite for every engine.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test code")]

mod cases;
mod engines;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use store::embedded::{Embedded, EmbeddedOptions};
use store::memory::Memory;
use store::{Error, Result, SizeLimit, Store, Transformed, ValueTransformer};

use crate::cases::{CASES, Case, watch_events};
use crate::engines::{EtcdServer, find_etcd};

/// Runs the case in its own task, so that a failure names the case and the others still run.
async fn run(engine: &str, case: Case, store: Arc<dyn Store>, failed: &mut Vec<&'static str>) {
    let (name, check) = case;
    let limited = tokio::time::timeout(std::time::Duration::from_secs(30), check(store));
    match tokio::spawn(limited).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) => {
            eprintln!("{engine}: {name}: did not end within 30 s");
            failed.push(name);
        }
        Err(_) => {
            eprintln!("{engine}: {name}: failed");
            failed.push(name);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_passes_the_contract() {
    let mut failed = Vec::new();
    for case in CASES {
        run("memory", *case, Arc::new(Memory::new()), &mut failed).await;
    }
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_passes_the_contract() {
    let mut failed = Vec::new();
    for case in CASES {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(Embedded::open(&EmbeddedOptions::new(directory.path())).unwrap());
        run("embedded", *case, store, &mut failed).await;
    }
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_with_a_size_limit_passes_the_contract() {
    let mut failed = Vec::new();
    for case in CASES {
        let directory = tempfile::tempdir().unwrap();
        let size_limit = SizeLimit::default();
        size_limit.set(256 << 20);
        let options = EmbeddedOptions { size_limit, ..EmbeddedOptions::new(directory.path()) };
        run("limited", *case, Arc::new(Embedded::open(&options).unwrap()), &mut failed).await;
    }
    assert!(failed.is_empty(), "{failed:?}");
}

/// Inverts every byte, behind a mark. `is_remote` opens as a transformer does that has to ask another process.
struct Inverting {
    is_remote: bool,
}

impl Inverting {
    fn plain(key: &str, stored: &Bytes) -> Result<Bytes> {
        let inverted = stored.strip_prefix(b"inverted:").ok_or_else(|| Error::Sealed(format!("{key} is not ours")))?;
        Ok(inverted.iter().map(|byte| !byte).collect())
    }
}

#[async_trait]
impl ValueTransformer for Inverting {
    fn seal(&self, _key: &str, value: Bytes) -> Result<Bytes> {
        Ok(b"inverted:".iter().copied().chain(value.iter().map(|byte| !byte)).collect())
    }

    fn is_plain(&self, _key: &str, _stored: &Bytes) -> bool {
        false
    }

    fn open_now(&self, key: &str, stored: &Bytes) -> Option<Result<Bytes>> {
        (!self.is_remote).then(|| Self::plain(key, stored))
    }

    async fn open(&self, key: &str, stored: Bytes) -> Result<Bytes> {
        tokio::task::yield_now().await;
        Self::plain(key, &stored)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transformed_store_passes_the_contract() {
    let mut failed = Vec::new();
    for is_remote in [false, true] {
        for case in CASES {
            let directory = tempfile::tempdir().unwrap();
            let raw = Arc::new(Embedded::open(&EmbeddedOptions::new(directory.path())).unwrap());
            let store = Transformed::new(raw, Arc::new(Inverting { is_remote }));
            run("transformed", *case, Arc::new(store), &mut failed).await;
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test]
async fn a_value_that_cannot_be_decrypted_fails_reads_and_can_be_deleted() {
    let raw: Arc<dyn Store> = Arc::new(Memory::new());
    let store = Transformed::new(Arc::clone(&raw), Arc::new(Inverting { is_remote: false }));
    let written = raw.create("/a", "foreign".into(), None).await.unwrap();
    assert!(matches!(store.get("/a").await, Err(Error::Sealed(_))));
    assert!(matches!(store.range(store::RangeRequest::prefix("/")).await, Err(Error::Sealed(_))));
    let mut watch = store.watch("/", written).await.unwrap();
    assert!(matches!(watch.next().await, Some(Err(Error::Sealed(_)))));
    store.delete("/a", Some(written)).await.unwrap();
    assert!(store.get("/a").await.unwrap().0.is_none());
}

async fn contract_on_etcd(server: &EtcdServer) {
    let mut failed = Vec::new();
    for (number, case) in CASES.iter().enumerate() {
        let store = Arc::new(server.connect(&format!("/contract-{number}")).await);
        run("etcd", *case, store, &mut failed).await;
    }
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_passes_the_contract() {
    let Some(binary) = find_etcd() else { return };
    contract_on_etcd(&EtcdServer::plain(&binary).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_over_tls_passes_the_contract_and_requires_client_certificates() {
    let Some(binary) = find_etcd() else { return };
    let server = EtcdServer::with_tls(&binary).await;
    contract_on_etcd(&server).await;

    let mut stranger = server.options("/stranger");
    stranger.timeout = std::time::Duration::from_secs(1);
    stranger.tls.as_mut().unwrap().identity_pem = None;
    let refused = store::etcd::Etcd::connect(&stranger).await.err();
    assert!(matches!(refused, Some(Error::Unavailable(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_on_one_etcd_see_only_writes_under_their_prefix() {
    let Some(binary) = find_etcd() else { return };
    let server = EtcdServer::plain(&binary).await;
    let (one, two, other) =
        (server.connect("/same").await, server.connect("/same").await, server.connect("/same2").await);
    let start = one.revision().await.unwrap();
    let mut watch = two.watch("", start + 1).await.unwrap();
    other.create("/a", "other".into(), None).await.unwrap();
    let first = one.create("/a", "one".into(), None).await.unwrap();
    let second = two.update("/a", "two".into(), first, None).await.unwrap();
    let third = one.delete("/a", Some(second)).await.unwrap().0;
    let events = watch_events(&mut watch, 3).await;
    let revisions: Vec<u64> = events.iter().map(|event| event.kv.mod_revision).collect();
    assert_eq!(revisions, [first, second, third]);
    assert_eq!(&*events[1].prev.as_ref().unwrap().value, b"one");
    assert_eq!(one.count("").await.unwrap(), 0);
}
