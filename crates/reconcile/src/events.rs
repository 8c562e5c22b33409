//! Records Kubernetes Events about objects without blocking the caller.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cluster_client::{ClusterClient, Patch, ResourceRef, WriteOptions};
use jiff::Timestamp;
use object::builtin;
use object::time::format_seconds;
use object::{GroupVersionKind, GroupVersionResource, Object};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;

/// Events waiting to be written; more are counted and dropped, as reconciling takes precedence.
pub const WAITING_MAX: usize = 8192;
/// Events kept in memory to count repetitions instead of writing new ones.
pub const REMEMBERED_MAX: usize = 4096;
/// Events written at the same time.
const WRITTEN_AT_ONCE: usize = 64;
/// Minimum interval between updates of a repeated event.
const REPEAT_EVERY: Duration = Duration::from_secs(5);
/// Time the items of a list are collected for one event.
const LISTED_FOR: Duration = Duration::from_millis(500);
/// Lists collected at the same time; with more, all are written at once.
const LISTS_MAX: usize = 1024;

/// The object an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Regarding {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl From<&Object> for Regarding {
    fn from(object: &Object) -> Self {
        Self {
            api_version: object.api_version().to_owned(),
            kind: object.kind().to_owned(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Occurrence {
    about: Regarding,
    is_warning: bool,
    reason: &'static str,
    message: String,
    /// The message ends with a list of these, which are collected from several occurrences.
    items: Vec<String>,
}

/// Accepts events; clones share the writer, which ends when all are dropped.
#[derive(Clone)]
pub struct Recorder {
    sender: mpsc::Sender<(Occurrence, Timestamp)>,
    clock: Arc<dyn Clock>,
    dropped: Arc<AtomicU64>,
}

impl Recorder {
    /// Starts writing events of a component until cancelled.
    pub fn start(
        client: ClusterClient,
        component: &'static str,
        clock: Arc<dyn Clock>,
        cancel: CancellationToken,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        tokio::spawn(write_all(
            Writer { client, component, written: HashMap::new(), fingerprints: RandomState::new(), last_suffix: 0 },
            receiver,
            cancel,
        ));
        Self { sender, clock, dropped: Arc::default() }
    }

    pub fn normal(&self, about: impl Into<Regarding>, reason: &'static str, message: impl Into<String>) {
        let (about, message) = (about.into(), message.into());
        self.record(Occurrence { about, is_warning: false, reason, message, items: Vec::new() });
    }

    /// Adds an item to the list a message ends with. What is added within a moment becomes one event: what happens to an
    /// object in a hundred members is not worth a hundred.
    pub fn normal_listing(
        &self,
        about: impl Into<Regarding>,
        reason: &'static str,
        message: impl Into<String>,
        item: impl Into<String>,
    ) {
        let (about, message) = (about.into(), message.into());
        self.record(Occurrence { about, is_warning: false, reason, message, items: vec![item.into()] });
    }

    pub fn warning(&self, about: impl Into<Regarding>, reason: &'static str, message: impl Into<String>) {
        let (about, message) = (about.into(), message.into());
        self.record(Occurrence { about, is_warning: true, reason, message, items: Vec::new() });
    }

    /// Events dropped because too many were waiting.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn record(&self, occurrence: Occurrence) {
        if self.sender.try_send((occurrence, self.clock.now())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Written {
    /// Suffix of the event's name, which begins with the object's name.
    suffix: u64,
    count: u64,
    recorded_at: Timestamp,
}

struct Writer {
    client: ClusterClient,
    component: &'static str,
    /// By fingerprint: thousands of occurrences with their texts would take more memory than the objects of a small
    /// control plane.
    written: HashMap<u64, Written>,
    fingerprints: RandomState,
    last_suffix: u64,
}

async fn write_all(
    mut writer: Writer,
    mut receiver: mpsc::Receiver<(Occurrence, Timestamp)>,
    cancel: CancellationToken,
) {
    let mut received = Vec::new();
    let mut lists = Lists::default();
    let mut is_open = true;
    while is_open || !lists.open.is_empty() {
        tokio::select! {
            () = cancel.cancelled() => return,
            count = receiver.recv_many(&mut received, WRITTEN_AT_ONCE), if is_open => is_open = count > 0,
            () = lists.due() => {}
        };
        let mut ready = lists.collect(received.drain(..));
        if !is_open || lists.is_due() {
            ready.extend(lists.take());
        }
        while !ready.is_empty() {
            let rest = ready.split_off(ready.len().min(WRITTEN_AT_ONCE));
            writer.write(std::mem::replace(&mut ready, rest).into_iter()).await;
        }
    }
}

/// Events that wait for further items of their lists.
#[derive(Default)]
struct Lists {
    /// In the order of their first items.
    open: Vec<(Occurrence, Timestamp)>,
    until: Option<Instant>,
}

impl Lists {
    /// Takes the items of lists, and returns all else.
    fn collect(&mut self, occurrences: impl Iterator<Item = (Occurrence, Timestamp)>) -> Vec<(Occurrence, Timestamp)> {
        let mut others = Vec::new();
        for (occurrence, at) in occurrences {
            if occurrence.items.is_empty() {
                others.push((occurrence, at));
                continue;
            }
            // The latest are the most likely to go on.
            let known = self.open.iter_mut().rev().map(|(open, _)| open).find(|open| open.is_same_list(&occurrence));
            match known {
                Some(open) => {
                    let new = occurrence.items.into_iter().filter(|item| !open.items.contains(item));
                    let new: Vec<String> = new.collect();
                    open.items.extend(new);
                }
                None => {
                    self.until.get_or_insert_with(|| Instant::now() + LISTED_FOR);
                    self.open.push((occurrence, at));
                }
            }
        }
        others
    }

    async fn due(&self) {
        match self.until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    }

    fn is_due(&self) -> bool {
        self.open.len() >= LISTS_MAX || self.until.is_some_and(|until| until <= Instant::now())
    }

    fn take(&mut self) -> Vec<(Occurrence, Timestamp)> {
        self.until = None;
        std::mem::take(&mut self.open)
    }
}

impl Occurrence {
    fn is_same_list(&self, other: &Self) -> bool {
        (&self.about, self.is_warning, self.reason, &self.message)
            == (&other.about, other.is_warning, other.reason, &other.message)
    }

    fn text(&self) -> String {
        format!("{}{}", self.message, self.items.join(", "))
    }
}

/// The write of one event.
enum EventWrite {
    Create(Object),
    /// The event's name, and how often it has occurred so far.
    Repeat {
        namespace: String,
        name: String,
        patch: Value,
    },
}

impl Writer {
    /// Writes the events at the same time, so that they share a flush of the store. A failed write is logged and otherwise
    /// ignored.
    async fn write(&mut self, occurrences: impl Iterator<Item = (Occurrence, Timestamp)>) {
        let planned: Vec<_> = occurrences.filter_map(|(occurrence, at)| self.plan(&occurrence, at)).collect();
        let writes = planned.into_iter().map(|(fingerprint, write)| {
            let (client, options) = (&self.client, WriteOptions::managed_by(self.component).untracked());
            async move {
                let result = match write {
                    EventWrite::Create(event) => {
                        client.create(ResourceRef::within(&events(), event.namespace()), event, options).await
                    }
                    EventWrite::Repeat { namespace, name, patch } => {
                        let target = ResourceRef::namespaced(&events(), &namespace, &name);
                        client.patch(target, Patch::merge(patch), options).await
                    }
                };
                (fingerprint, result.err())
            }
        });
        for (fingerprint, error) in futures::future::join_all(writes).await {
            if let Some(error) = error {
                // The event may have expired; the next occurrence creates a new one.
                self.written.remove(&fingerprint);
                tracing::debug!(%error, "an event could not be written");
            }
        }
    }

    /// Decides what is written for an occurrence; `None` for one that is only counted.
    fn plan(&mut self, occurrence: &Occurrence, at: Timestamp) -> Option<(u64, EventWrite)> {
        let fingerprint = self.fingerprints.hash_one(occurrence);
        if let Some(written) = self.written.get_mut(&fingerprint) {
            written.count += 1;
            if at.duration_since(written.recorded_at).unsigned_abs() < REPEAT_EVERY {
                return None;
            }
            written.recorded_at = at;
            let patch = json!({"count": written.count, "lastTimestamp": format_seconds(at)});
            let name = event_name(&occurrence.about, written.suffix);
            let namespace = namespace_of(&occurrence.about).to_owned();
            return Some((fingerprint, EventWrite::Repeat { namespace, name, patch }));
        }
        if self.written.len() >= REMEMBERED_MAX {
            self.written.clear();
        }
        self.last_suffix = next_suffix(self.last_suffix, at);
        let suffix = self.last_suffix;
        self.written.insert(fingerprint, Written { suffix, count: 1, recorded_at: at });
        Some((fingerprint, EventWrite::Create(self.event(occurrence, suffix, at))))
    }

    fn event(&self, occurrence: &Occurrence, suffix: u64, at: Timestamp) -> Object {
        let about = &occurrence.about;
        let name = event_name(about, suffix);
        let gvk = GroupVersionKind::new("", "v1", "Event");
        let mut event = Object::new(&gvk, Some(namespace_of(about)), &name);
        event.set(
            &["involvedObject"],
            json!({"apiVersion": about.api_version, "kind": about.kind, "namespace": about.namespace,
                "name": about.name, "uid": about.uid}),
        );
        event.set(&["reason"], occurrence.reason);
        event.set(&["message"], occurrence.text());
        event.set(&["type"], if occurrence.is_warning { "Warning" } else { "Normal" });
        event.set(&["count"], 1);
        event.set(&["source"], json!({"component": self.component}));
        event.set(&["reportingComponent"], self.component);
        event.set(&["firstTimestamp"], format_seconds(at));
        event.set(&["lastTimestamp"], format_seconds(at));
        event
    }
}

/// Returns the time in nanoseconds, so that events of one second are listed in their order. The last bits are random: another
/// component may write an event on the same object at the same time.
fn next_suffix(last: u64, at: Timestamp) -> u64 {
    const RANDOM_BITS: u64 = 0xfff;
    let nanoseconds = u64::try_from(at.as_nanosecond()).unwrap_or_default();
    let random: u64 = rand::random();
    ((nanoseconds & !RANDOM_BITS) | (random & RANDOM_BITS)).max(last + 1)
}

fn event_name(about: &Regarding, suffix: u64) -> String {
    format!("{}.{suffix:016x}", about.name)
}

/// Events on cluster-scoped objects go to the default namespace, where clients look for them.
fn namespace_of(about: &Regarding) -> &str {
    if about.namespace.is_empty() { "default" } else { &about.namespace }
}

fn events() -> GroupVersionResource {
    builtin::events()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_one_list_become_one_event() {
        let occurrence = |name: &str, items: &[&str]| Occurrence {
            about: Regarding { name: name.to_owned(), ..Regarding::default() },
            is_warning: false,
            reason: "SyncSucceed",
            message: "applied to ".to_owned(),
            items: items.iter().map(|item| (*item).to_owned()).collect(),
        };
        let mut lists = Lists::default();
        let came = [("a", ["m1"].as_slice()), ("a", &["m2"]), ("b", &["m1"]), ("a", &["m1"]), ("c", &[])];
        let others = lists.collect(came.iter().map(|(name, items)| (occurrence(name, items), Timestamp::UNIX_EPOCH)));
        assert_eq!(others.iter().map(|(other, _)| other.about.name.as_str()).collect::<Vec<_>>(), ["c"]);
        assert!(lists.until.is_some());
        let texts: Vec<String> = lists.take().iter().map(|(list, _)| list.text()).collect();
        assert_eq!(texts, ["applied to m1, m2", "applied to m1"]);
        assert!(lists.open.is_empty() && lists.until.is_none());
    }

    #[test]
    fn names_of_events_are_ordered_by_time() {
        let at = |nanoseconds: i128| Timestamp::from_nanosecond(1_763_400_000_000_000_000 + nanoseconds).unwrap();
        let mut last = 0;
        for nanoseconds in [0, 0, 0, 5_000, 1_000_000] {
            let suffix = next_suffix(last, at(nanoseconds));
            assert!(suffix > last && format!("{suffix:016x}") > format!("{last:016x}"), "{nanoseconds}");
            last = suffix;
        }
    }
}
