//! Clients that write, read, list and watch a few keys concurrently and record all responses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::api::{Api, ApiAnswer, Change, Ended, revision};
use super::random::SeededRandom;
use crate::history::{HistoryEntry, HistoryLog, Operation, Version, WatchRecord, WriteOutcome};

pub const NAMESPACE: &str = "history";
const KEYS: &[&str] = &["a", "b", "c", "d", "e", "f", "g", "h"];
const PATH: &str = "/api/v1/namespaces/history/configmaps";
/// Selects our keys only, not objects such as the CA ConfigMap of each namespace.
const LIST: &str = "/api/v1/namespaces/history/configmaps?labelSelector=soak%3Dkey";

pub struct Session {
    pub name: String,
    /// Requests may go to any of them.
    pub replicas: Vec<Api>,
    pub log: Arc<HistoryLog>,
    pub random: SeededRandom,
    /// Unique values consist of the session's name and this counter.
    pub written: u64,
}

impl Session {
    pub async fn run(mut self, cancel: CancellationToken) {
        while !cancel.is_cancelled() {
            self.act().await;
            let pause = Duration::from_millis(self.random.between(1, 60));
            tokio::time::sleep(pause).await;
        }
    }

    async fn act(&mut self) {
        let api = self.random.pick(&self.replicas).clone();
        let key = *self.random.pick(KEYS);
        match self.random.between(0, 100) {
            0..=24 => drop(self.read(&api, key).await),
            25..=54 => self.update(&api, key).await,
            55..=69 => self.patch(&api, key).await,
            70..=84 => self.create(&api, key).await,
            85..=92 => self.delete(&api, key).await,
            _ => self.list(&api).await,
        }
    }

    async fn read(&mut self, api: &Api, key: &str) -> Option<(Version, Value)> {
        let invoked = self.log.now();
        let answer = api.get(&format!("{PATH}/{key}")).await;
        let found = match &answer {
            ApiAnswer::Done(object) => Some(version(object)),
            ApiAnswer::Unsupported(404, _) => None,
            // A failed read is not recorded.
            _ => return None,
        };
        let (session, returned) = (self.name.clone(), self.log.now());
        self.log.add(HistoryEntry::Read { session, invoked, returned, key: key.to_owned(), found: found.clone() });
        match answer {
            ApiAnswer::Done(object) => found.map(|version| (version, object)),
            _ => None,
        }
    }

    async fn create(&mut self, api: &Api, key: &str) {
        let value = self.value();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": key, "labels": {"soak": "key"}}, "data": {"value": value}});
        let invoked = self.log.now();
        let answer = api.create(PATH, &object).await;
        self.wrote(invoked, key, Operation::Create { value }, answer);
    }

    async fn update(&mut self, api: &Api, key: &str) {
        let Some((before, mut object)) = self.read(api, key).await else { return };
        let value = self.value();
        object["data"]["value"] = json!(value);
        // Written to another replica than read from, as behind a load balancer.
        let other = self.random.pick(&self.replicas).clone();
        let invoked = self.log.now();
        let answer = other.update(&format!("{PATH}/{key}"), &object).await;
        self.wrote(invoked, key, Operation::Update { value, expected: before.revision }, answer);
    }

    async fn patch(&mut self, api: &Api, key: &str) {
        let value = self.value();
        let invoked = self.log.now();
        let answer = api.merge(&format!("{PATH}/{key}"), &json!({"data": {"value": value}})).await;
        self.wrote(invoked, key, Operation::Patch { value }, answer);
    }

    async fn delete(&mut self, api: &Api, key: &str) {
        let Some((before, _)) = self.read(api, key).await else { return };
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": {"resourceVersion": before.revision.to_string()}});
        let invoked = self.log.now();
        let answer = api.delete(&format!("{PATH}/{key}"), &options).await;
        self.wrote(invoked, key, Operation::Delete { expected: before.revision }, answer);
    }

    pub async fn list(&mut self, api: &Api) {
        let invoked = self.log.now();
        if let ApiAnswer::Done(list) = api.get(LIST).await {
            let (session, returned, revision) = (self.name.clone(), self.log.now(), revision(&list));
            self.log.add(HistoryEntry::List { session, invoked, returned, revision, items: items(&list) });
        }
    }

    fn value(&mut self) -> String {
        self.written += 1;
        format!("{}-{}", self.name, self.written)
    }

    fn wrote(&self, invoked: u64, key: &str, operation: Operation, answer: ApiAnswer) {
        let is_deletion = matches!(operation, Operation::Delete { .. });
        let outcome = match answer {
            ApiAnswer::Done(_) if is_deletion => WriteOutcome::Acknowledged(None),
            ApiAnswer::Done(object) => WriteOutcome::Acknowledged(Some(revision(&object))),
            ApiAnswer::Unsupported(code, _) => WriteOutcome::Unsupported(code),
            ApiAnswer::Unknown(why) => WriteOutcome::Unknown(why),
        };
        let (session, returned) = (self.name.clone(), self.log.now());
        self.log.add(HistoryEntry::Write { session, invoked, returned, key: key.to_owned(), operation, outcome });
    }
}

/// Watches all keys until cancelled, resuming at the next replica after each interruption.
pub async fn watch(name: String, replicas: Vec<Api>, log: Arc<HistoryLog>, from: u64, cancel: CancellationToken) {
    let add = |seen| log.add(HistoryEntry::Watch { watcher: name.clone(), at: log.now(), seen });
    let mut last = from;
    for api in replicas.iter().cycle() {
        if cancel.is_cancelled() {
            return;
        }
        add(WatchRecord::From(last));
        let since = last.to_string();
        let watching = api.watch(LIST, &since, |change| {
            let (at, seen) = saw(&change);
            last = last.max(at);
            add(seen);
        });
        let ended = tokio::select! {
            ended = watching => ended,
            () = cancel.cancelled() => return,
        };
        add(WatchRecord::Ended(format!("{ended:?}")));
        if ended == Ended::TooOld {
            last = newest(&replicas, &cancel).await.unwrap_or(last);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn newest(replicas: &[Api], cancel: &CancellationToken) -> Option<u64> {
    for api in replicas.iter().cycle() {
        if cancel.is_cancelled() {
            break;
        }
        if let ApiAnswer::Done(list) = api.get(LIST).await {
            return Some(revision(&list));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    None
}

fn saw(change: &Change) -> (u64, WatchRecord) {
    let key = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    match change {
        Change::Put(object) => (revision(object), WatchRecord::Put { key: key(object), version: version(object) }),
        Change::Gone(object) => (revision(object), WatchRecord::Gone { key: key(object), revision: revision(object) }),
        Change::Bookmark(text) => {
            let at = text.parse().unwrap_or(0);
            (at, WatchRecord::Bookmark(at))
        }
    }
}

fn version(object: &Value) -> Version {
    let value = object["data"]["value"].as_str().unwrap_or_default().to_owned();
    Version { revision: revision(object), value }
}

fn items(list: &Value) -> BTreeMap<String, Version> {
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(|item| (item["metadata"]["name"].as_str().unwrap_or_default().to_owned(), version(item))).collect()
}
