//! Random histories on every engine, compared with a model that keeps a copy of the map for each revision.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of this is test code")]

mod engines;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use store::embedded::{Embedded, EmbeddedOptions};
use store::memory::Memory;
use store::{Error, EventKind, RangeRequest, Revision, Store};

use crate::engines::{EtcdServer, find_etcd};

#[derive(Clone, Debug)]
enum ModelStep {
    Create {
        key: u8,
        value: u8,
    },
    /// Guarded by the revision of the key, or by a wrong one that differs by `off`.
    Update {
        key: u8,
        value: u8,
        off: bool,
    },
    Delete {
        key: u8,
        guard: Option<bool>,
    },
    /// Compacts this share of the compactable history.
    Compact {
        percent: u8,
    },
    /// Closes and reopens, if the engine supports it.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<ModelStep>> {
    let key = 0..6_u8;
    let step = prop_oneof![
        4 => (key.clone(), any::<u8>()).prop_map(|(key, value)| ModelStep::Create { key, value }),
        6 => (key.clone(), any::<u8>(), prop::bool::weighted(0.2)).prop_map(|(key, value, off)| ModelStep::Update { key, value, off }),
        3 => (key, prop::option::of(prop::bool::weighted(0.3))).prop_map(|(key, guard)| ModelStep::Delete { key, guard }),
        1 => (0..=100_u8).prop_map(|percent| ModelStep::Compact { percent }),
        1 => Just(ModelStep::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

/// Key to value, creation and modification.
type Map = BTreeMap<String, (u8, Revision, Revision)>;

struct Model {
    base: Revision,
    compacted: Revision,
    /// The map at `base`, `base + 1`, and so on.
    maps: Vec<Map>,
    /// The change that led to each map except the first: the key, and whether it was put.
    changes: Vec<(String, bool)>,
}

impl Model {
    fn new(base: Revision) -> Self {
        Model { base, compacted: 0, maps: vec![Map::new()], changes: Vec::new() }
    }

    fn revision(&self) -> Revision {
        self.base + self.changes.len() as u64
    }

    fn now(&self) -> &Map {
        self.maps.last().unwrap()
    }

    fn change(&mut self, key: &str, value: Option<(u8, Option<Revision>)>) -> Revision {
        let mut map = self.now().clone();
        self.changes.push((key.to_string(), value.is_some()));
        let revision = self.revision();
        match value {
            Some((value, created)) => map.insert(key.to_string(), (value, created.unwrap_or(revision), revision)),
            None => map.remove(key),
        };
        self.maps.push(map);
        revision
    }
}

fn bytes(value: u8) -> Bytes {
    Bytes::from(vec![value; usize::from(value)])
}

/// One step on both; they must agree on the result.
async fn take(model: &mut Model, store: &dyn Store, step: &ModelStep) {
    match step {
        ModelStep::Create { key, value } => {
            let key = format!("/m/{key}");
            let result = store.create(&key, bytes(*value), None).await;
            match model.now().get(&key) {
                Some((_, _, at)) => {
                    assert!(matches!(result, Err(Error::Exists { current }) if current.mod_revision == *at))
                }
                None => assert_eq!(result.unwrap(), model.change(&key, Some((*value, None)))),
            }
        }
        ModelStep::Update { key, value, off } => {
            let key = format!("/m/{key}");
            let found = model.now().get(&key).copied();
            let expected = found.map_or(1, |(_, _, at)| at) + u64::from(*off);
            let result = store.update(&key, bytes(*value), expected, None).await;
            match found {
                Some((_, created, _)) if !off => {
                    assert_eq!(result.unwrap(), model.change(&key, Some((*value, Some(created)))))
                }
                found => assert!(
                    matches!(result, Err(Error::Conflict { current }) if current.as_ref().map(|kv| kv.mod_revision) == found.map(|(_, _, at)| at))
                ),
            }
        }
        ModelStep::Delete { key, guard } => {
            let key = format!("/m/{key}");
            let found = model.now().get(&key).copied();
            let expected = guard.map(|off| found.map_or(1, |(_, _, at)| at) + u64::from(off));
            let result = store.delete(&key, expected).await;
            match found {
                None => assert!(matches!(result, Err(Error::NotFound))),
                Some(_) if *guard == Some(true) => assert!(matches!(result, Err(Error::Conflict { .. }))),
                Some((value, _, at)) => {
                    let (revision, prev) = result.unwrap();
                    assert_eq!((prev.value, prev.mod_revision), (bytes(value), at));
                    assert_eq!(revision, model.change(&key, None));
                }
            }
        }
        ModelStep::Compact { percent } => {
            let from = model.compacted.max(model.base);
            let target = from + (model.revision() - from) * u64::from(*percent) / 100;
            if target > from {
                store.compact(target).await.unwrap();
                model.compacted = target;
            }
        }
        ModelStep::Restart => {}
    }
}

/// Compares everything readable with the model: every revision not compacted, and the watch from each.
async fn compare(model: &Model, store: &dyn Store) {
    assert_eq!(store.revision().await.unwrap(), model.revision());
    for (number, map) in model.maps.iter().enumerate() {
        let revision = model.base + number as u64;
        let result = store.range(RangeRequest::prefix("/m/").at(revision)).await;
        if revision < model.compacted {
            assert!(matches!(result, Err(Error::Compacted { .. })), "{revision}");
            continue;
        }
        let found: Map = result
            .unwrap()
            .kvs
            .into_iter()
            .map(|kv| {
                let value = kv.value.first().copied().unwrap_or(0);
                assert_eq!(kv.value, bytes(value));
                (kv.key.to_string(), (value, kv.create_revision, kv.mod_revision))
            })
            .collect();
        assert_eq!(&found, map, "at {revision}");
    }
    let first = model.compacted.max(model.base) + 1;
    for from in [first, (first + model.revision()) / 2, model.revision()] {
        if from >= first {
            compare_watch(model, store, from).await;
        }
    }
}

async fn compare_watch(model: &Model, store: &dyn Store, from: Revision) {
    let mut watch = store.watch("/m/", from).await.unwrap();
    let mut revision = from;
    while revision <= model.revision() {
        for event in watch.next().await.unwrap().unwrap().events {
            let (key, put) = &model.changes[(revision - model.base - 1) as usize];
            let before = model.maps[(revision - model.base - 1) as usize].get(key).map(|(_, _, at)| *at);
            assert_eq!((event.kv.mod_revision, &*event.kv.key, event.kind == EventKind::Put), (revision, &**key, *put));
            // The previous version may be compacted, and then etcd omits it.
            let prev = event.prev.map(|prev| prev.mod_revision);
            assert!(prev == before || (prev.is_none() && before.is_some_and(|at| at <= model.compacted)));
            revision += 1;
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn check(cases: u32, run: impl Fn(Vec<ModelStep>)) {
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    runner
        .run(&steps(), |steps| {
            run(steps);
            Ok(())
        })
        .unwrap();
}

#[test]
fn memory_matches_the_model() {
    let runtime = runtime();
    check(200, |steps| {
        runtime.block_on(async {
            let (mut model, store) = (Model::new(1), Memory::new());
            for step in &steps {
                take(&mut model, &store, step).await;
            }
            compare(&model, &store).await;
        });
    });
}

#[test]
fn embedded_matches_the_model_across_restarts() {
    let runtime = runtime();
    check(60, |steps| {
        let directory = tempfile::tempdir().unwrap();
        let open = || Embedded::open(&EmbeddedOptions::new(directory.path())).unwrap();
        runtime.block_on(async {
            let (mut model, mut store) = (Model::new(1), Some(open()));
            for step in &steps {
                if matches!(step, ModelStep::Restart) {
                    drop(store.take());
                    store = Some(open());
                }
                take(&mut model, store.as_ref().unwrap(), step).await;
            }
            compare(&model, store.as_ref().unwrap()).await;
            drop(store.take());
            compare(&model, &open()).await;
        });
    });
}

#[test]
fn etcd_matches_the_model() {
    let Some(binary) = find_etcd() else { return };
    let runtime = runtime();
    let server = runtime.block_on(EtcdServer::plain(&binary));
    let round = Arc::new(std::sync::atomic::AtomicU32::new(0));
    check(12, |steps| {
        let number = round.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        runtime.block_on(async {
            let store = server.connect(&format!("/model-{number}")).await;
            let mut model = Model::new(store.revision().await.unwrap());
            for step in &steps {
                take(&mut model, &store, step).await;
            }
            compare(&model, &store).await;
        });
    });
}
