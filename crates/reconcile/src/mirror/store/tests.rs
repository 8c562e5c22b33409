//! Reads after writes: any interleaving of writes, answers and watch events against a model of the API.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::mirror::index::Table;
use crate::mirror::own_writes::{HIDDEN_MAX, OWN_WRITES_MAX};

const KEYS: u64 = 3;

/// An object as readers or the API have it: uid and version.
type State = Option<(String, u64)>;

/// An API with a history, one watch on it, and answers on their way.
#[derive(Default)]
struct Model {
    /// One change per version, starting with version 1.
    log: Vec<(u64, State)>,
    /// Changes the watch has delivered.
    watched: usize,
    answers: Vec<Arrival>,
    /// By object: readers must not see an older state than that of this version.
    floor: BTreeMap<u64, u64>,
}

/// The answer of a write that was done at a version.
#[derive(Clone)]
struct Arrival {
    key: u64,
    done_at: u64,
    uid: String,
    version: u64,
    is_deletion: bool,
}

impl Model {
    fn state_at(&self, key: u64, version: u64) -> State {
        let until = self.log.iter().take(version as usize).rev();
        until.into_iter().find(|(changed, _)| *changed == key).and_then(|(_, state)| state.clone())
    }

    fn now(&self) -> u64 {
        self.log.len() as u64
    }

    fn change(&mut self, key: u64, exists: bool) {
        let version = self.now() + 1;
        let uid = match self.state_at(key, version - 1) {
            Some((uid, _)) => uid,
            None => format!("uid-{version}"),
        };
        self.log.push((key, exists.then_some((uid, version))));
    }
}

fn key_of(key: u64) -> ObjectKey {
    ObjectKey::new("a", &key.to_string())
}

fn object(key: u64, (uid, version): &(String, u64)) -> Arc<Object> {
    let metadata =
        json!({"namespace": "a", "name": key.to_string(), "uid": uid, "resourceVersion": version.to_string()});
    Arc::new(Object::from_value(json!({"metadata": metadata})).expect("a map"))
}

fn seen(store: &Store, key: u64) -> State {
    let object = store.get(&key_of(key))?.object();
    Some((object.uid().to_owned(), number(object.resource_version())))
}

fn deliver(store: &mut Store, model: &mut Model) {
    let Some((key, state)) = model.log.get(model.watched).cloned() else { return };
    model.watched += 1;
    match state {
        Some(state) => store.put(object(key, &state), None),
        None => store.remove(&key_of(key), &model.watched.to_string()),
    }
}

fn list(store: &mut Store, model: &mut Model, skip: usize) {
    model.watched = (model.watched + skip).min(model.log.len());
    let version = model.watched as u64;
    let objects = (0..KEYS).filter_map(|key| Some(object(key, &model.state_at(key, version)?)));
    store.replace(objects.map(|object| Listed::Tree(object, None)).collect(), &version.to_string());
}

fn answer(store: &mut Store, model: &mut Model, index: usize) {
    if model.answers.is_empty() {
        return;
    }
    let Arrival { key, done_at, uid, version, is_deletion } = model.answers.remove(index % model.answers.len());
    let written = (!is_deletion).then(|| object(key, &(uid.clone(), version)));
    store.note(&key_of(key), Answer { version, uid: &uid, is_deletion }, written);
    let floor = model.floor.entry(key).or_default();
    *floor = (*floor).max(done_at);
}

/// A write of this process: it decides on what readers see and is guarded by the uid.
fn write(store: &Store, model: &mut Model, key: u64, deletes: bool) {
    let current = model.state_at(key, model.now());
    let known = seen(store, key);
    if !deletes {
        model.change(key, true);
        let Some((uid, version)) = model.state_at(key, model.now()) else { return };
        return model.answers.push(Arrival { key, done_at: version, uid, version, is_deletion: false });
    }
    let Some((uid, version)) = known else { return };
    let is_there = current.is_some_and(|(current, _)| current == uid);
    if is_there {
        model.change(key, false);
    }
    // "Not found" says the same about the uid as a deletion.
    let done_at = (1..=model.now()).rev().take_while(|at| !is_uid(&model.state_at(key, *at), &uid)).last();
    model.answers.push(Arrival { key, done_at: done_at.unwrap_or(0), uid, version, is_deletion: true });
}

fn is_uid(state: &State, uid: &str) -> bool {
    state.as_ref().is_some_and(|(current, _)| current == uid)
}

/// Readers see a state that the API had, not older than what they wrote or the watch has shown.
fn check(store: &Store, model: &Model) -> Result<(), TestCaseError> {
    for key in 0..KEYS {
        let oldest = model.floor.get(&key).copied().unwrap_or(0).max(model.watched as u64);
        let seen = seen(store, key);
        let is_true = (oldest..=model.now()).any(|version| model.state_at(key, version) == seen);
        prop_assert!(
            is_true,
            "object {key} is seen as {seen:?}, which is older than version {oldest}: {:?}",
            model.log
        );
    }
    Ok(())
}

fn step(store: &mut Store, model: &mut Model, operation: u8, argument: u8) {
    let key = u64::from(argument) % KEYS;
    match operation {
        0 | 1 => write(store, model, key, false),
        2 => write(store, model, key, true),
        3 => model.change(key, true),
        4 if model.state_at(key, model.now()).is_some() => model.change(key, false),
        5..=7 => answer(store, model, usize::from(argument)),
        8..=10 => deliver(store, model),
        11 => list(store, model, usize::from(argument) % 5),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn readers_never_see_less_than_they_wrote(steps in prop::collection::vec((0..12u8, any::<u8>()), 0..60)) {
        let (mut store, mut model) = (Store::new(None, false), Model::default());
        let by_uid = Table::new(|object: &Object| vec![object.uid().to_owned()]);
        store.add_index(Arc::downgrade(&by_uid) as _);
        let mut changes = crate::mirror::Subscription::new(&mut store);
        for (operation, argument) in steps {
            step(&mut store, &mut model, operation, argument);
            check(&store, &model)?;
            prop_assert!(store.own_writes() <= KEYS as usize);
        }
        while model.watched < model.log.len() {
            deliver(&mut store, &mut model);
        }
        prop_assert_eq!(store.own_writes(), 0, "the watch has shown every write that was noted");
        while !model.answers.is_empty() {
            answer(&mut store, &mut model, 0);
        }
        prop_assert_eq!(store.own_writes(), 0, "answers that are late are not noted");
        store.close();
        let mut subscribed: BTreeMap<ObjectKey, State> = BTreeMap::new();
        while let Some(Some(change)) = futures::FutureExt::now_or_never(changes.next()) {
            let now = change.now.map(|now| (now.uid().to_owned(), number(now.resource_version())));
            subscribed.insert(change.key, now);
        }
        for key in 0..KEYS {
            let state = model.state_at(key, model.now());
            prop_assert_eq!(&seen(&store, key), &state);
            prop_assert_eq!(subscribed.get(&key_of(key)).cloned().flatten(), state.clone(), "subscribers miss nothing");
            let uid = state.map(|(uid, _)| uid).unwrap_or_default();
            prop_assert_eq!(by_uid.has(&uid, &key_of(key)), !uid.is_empty(), "the index matches");
        }
    }
}

fn written(store: &mut Store, key: u64, uid: &str, version: u64) {
    let answer = Answer { version, uid, is_deletion: false };
    store.note(&key_of(key), answer, Some(object(key, &(uid.to_owned(), version))));
}

fn deleted(store: &mut Store, key: u64, uid: &str, version: u64) {
    store.note(&key_of(key), Answer { version, uid, is_deletion: true }, None);
}

#[test]
fn the_oldest_own_writes_are_dropped_when_the_watch_is_stuck() {
    let mut store = Store::new(None, false);
    let count = OWN_WRITES_MAX as u64 + 10;
    for key in 0..count {
        written(&mut store, key, "u", key + 1);
    }
    assert_eq!((store.own_writes(), store.len()), (OWN_WRITES_MAX, OWN_WRITES_MAX));
    assert!(store.get(&key_of(9)).is_none() && store.get(&key_of(10)).is_some());
    for key in 0..count {
        deleted(&mut store, key, "u", key + 1);
    }
    assert_eq!(store.len(), 0);
    assert!(store.own_writes() <= OWN_WRITES_MAX);
}

#[test]
fn an_api_restored_to_an_earlier_version_drops_all_own_writes() {
    let mut store = Store::new(None, false);
    store.reach("10");
    written(&mut store, 1, "u", 12);
    store.replace(Vec::new(), "11");
    assert!(store.get(&key_of(1)).is_some(), "the list is older than the write");
    store.replace(Vec::new(), "5");
    assert!(store.get(&key_of(1)).is_none() && store.own_writes() == 0);
}

#[test]
fn a_write_the_watch_skipped_is_no_longer_shown() {
    let mut store = Store::new(None, false);
    store.put(object(1, &("u".to_owned(), 3)), None);
    written(&mut store, 1, "u", 5);
    assert_eq!(seen(&store, 1), Some(("u".to_owned(), 5)));
    store.reach("6");
    assert_eq!(seen(&store, 1), Some(("u".to_owned(), 3)));
}

#[tokio::test(start_paused = true)]
async fn a_uid_is_hidden_for_a_limited_time() {
    let mut store = Store::new(None, false);
    store.put(object(1, &("u".to_owned(), 3)), None);
    deleted(&mut store, 1, "u", 3);
    store.put(object(1, &("u".to_owned(), 4)), None);
    assert_eq!(seen(&store, 1), None);
    tokio::time::advance(HIDDEN_MAX).await;
    store.reach("5");
    assert_eq!((seen(&store, 1), store.own_writes()), (Some(("u".to_owned(), 4)), 0));
}
