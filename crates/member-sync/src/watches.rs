//! Copies of what was put into a member, one per resource that works of the member use, and the events that come of them.

use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use api::cluster::LABEL_MANAGED;
use api::names;
use api::work::{ANNOTATION_WORK_NAME, ANNOTATION_WORK_NAMESPACE};
use cluster_client::ClusterClient;
use object::{GroupVersionResource, Object};
use parking_lot::Mutex;
use reconcile::{Change, Mirror, MirrorLimits, MirrorSpec, Priority, WorkQueue};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The watches on one member. What others run in it is not watched, so a huge member costs little.
pub struct Watches {
    client: ClusterClient,
    /// Namespace of the member's Works.
    execution_namespace: String,
    queue: Arc<WorkQueue<String>>,
    open: Mutex<HashMap<GroupVersionResource, Watch>>,
    waits: Waits,
    cancel: CancellationToken,
}

/// Timeouts and delays.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// For the first copy of a resource.
    pub sync: Duration,
    /// Before a change of status is reflected.
    pub reflect: Duration,
}

#[derive(Clone)]
struct Watch {
    mirror: Mirror,
    opened: Instant,
    cancel: CancellationToken,
}

impl Watches {
    pub fn new(
        client: ClusterClient,
        execution_namespace: &str,
        queue: Arc<WorkQueue<String>>,
        waits: Waits,
        cancel: CancellationToken,
    ) -> Self {
        let execution_namespace = execution_namespace.to_owned();
        Self { client, execution_namespace, queue, open: Mutex::default(), waits, cancel }
    }

    /// The copy of a resource. A new one is waited for, but not for long: a member that does not let its objects be
    /// watched still gets them.
    pub async fn of(&self, gvr: &GroupVersionResource) -> Mirror {
        let watch = self.opened(gvr);
        if !watch.mirror.is_synced() {
            // The timeout counts from the opening: later callers do not wait again.
            let _ = tokio::time::timeout_at(watch.opened + self.waits.sync, watch.mirror.synced()).await;
        }
        watch.mirror
    }

    /// The copy of a resource if there is a complete one.
    pub fn known(&self, gvr: &GroupVersionResource) -> Option<Mirror> {
        let open = self.open.lock();
        open.get(gvr).map(|watch| watch.mirror.clone()).filter(Mirror::is_synced)
    }

    /// Notes the answer of a write: the copy shows it before its watch does.
    pub fn note(&self, gvr: &GroupVersionResource, written: &Arc<Object>) {
        if let Some(mirror) = self.known(gvr) {
            mirror.note(written);
        }
    }

    /// Restarts every mirror: after the member was away, its current state counts.
    pub fn restart(&self) {
        for (_, watch) in self.open.lock().drain() {
            watch.cancel.cancel();
        }
    }

    /// Closes the watches on resources no work uses.
    pub fn keep_only(&self, used: &HashSet<GroupVersionResource>) {
        self.open.lock().retain(|gvr, watch| {
            let is_used = used.contains(gvr);
            if !is_used {
                watch.cancel.cancel();
            }
            is_used
        });
    }

    fn opened(&self, gvr: &GroupVersionResource) -> Watch {
        self.open.lock().entry(gvr.clone()).or_insert_with(|| self.open_one(gvr)).clone()
    }

    fn open_one(&self, gvr: &GroupVersionResource) -> Watch {
        let cancel = self.cancel.child_token();
        let spec = MirrorSpec::new(gvr).packed().limits(MirrorLimits::MEMBER);
        let spec = spec.labels(&format!("{LABEL_MANAGED}=true")).trim(trim);
        let mirror = Mirror::start(self.client.clone(), spec, cancel.clone());
        let (queue, namespace) = (Arc::clone(&self.queue), self.execution_namespace.clone());
        tokio::spawn(pump(mirror.clone(), queue, namespace, self.waits.reflect));
        Watch { mirror, opened: Instant::now(), cancel }
    }
}

/// Ends with its mirror.
async fn pump(mirror: Mirror, queue: Arc<WorkQueue<String>>, execution_namespace: String, reflect_wait: Duration) {
    let mut changes = mirror.subscribe();
    while let Some(change) = changes.next().await {
        let priority = if change.is_initial { Priority::LOW } else { Priority::NORMAL };
        let wait = if may_wait(&change) { reflect_wait } else { Duration::ZERO };
        if let Some(work) = work_of(&change, &execution_namespace) {
            // Each work waits at most once, so the works there are bound the queue.
            queue.add_after(work, wait, priority);
        }
    }
}

/// Reports whether a change may be batched. A rollout changes the status many times in a row, and new objects come back
/// as changes; batched, they cost one write on each level above. Possible drift does not wait.
fn may_wait(change: &Change) -> bool {
    match (&change.before, &change.now) {
        (None, Some(_)) => true,
        (Some(before), Some(now)) => now.generation() != 0 && before.generation() == now.generation(),
        (_, None) => false,
    }
}

/// The work that a changed object of the member is of.
fn work_of(change: &Change, execution_namespace: &str) -> Option<String> {
    let states = || [&change.now, &change.before].into_iter().flatten();
    let named = states().find(|object| work_annotations(object).is_some());
    work_of_object(named.or_else(|| states().next())?, execution_namespace)
}

/// The work an object of the member is of.
pub fn work_of_object(object: &Object, execution_namespace: &str) -> Option<String> {
    match work_annotations(object) {
        Some((namespace, name)) if namespace == execution_namespace => Some(name.to_owned()),
        // Another control plane, or the same with another name for this member.
        Some(_) => None,
        // Someone took the annotations off; the name of the work follows from the object.
        None => Some(names::work_name(object.kind(), object.name(), object.namespace())),
    }
}

fn work_annotations(object: &Object) -> Option<(&str, &str)> {
    Some((object.annotation(ANNOTATION_WORK_NAMESPACE)?, object.annotation(ANNOTATION_WORK_NAME)?))
}

/// Removes the managed fields, which are not used here and are often half of the object.
fn trim(object: &mut Object) {
    object.remove(&["metadata", "managedFields"]);
}

#[cfg(test)]
mod tests {
    use reconcile::ObjectKey;
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(before: Option<Value>, now: Option<Value>, expected: Option<&str>) {
        let object = |annotations: Value| {
            let value = json!({"kind": "Deployment", "metadata": {"name": "nginx", "namespace": "default",
                "annotations": annotations}});
            Arc::new(Object::from_value(value).expect("a map"))
        };
        let change = Change {
            key: ObjectKey::new("default", "nginx"),
            before: before.map(object),
            now: now.map(object),
            is_initial: false,
        };
        assert_eq!(work_of(&change, "karmada-es-m1").as_deref(), expected);
    }

    #[test]
    fn only_possible_drift_is_checked_at_once() {
        let object = |generation: i64| {
            let value = json!({"metadata": {"name": "a", "generation": generation}});
            Some(Arc::new(Object::from_value(value).expect("a map")))
        };
        for (before, now, expected) in [
            (None, object(1), true),
            (object(1), object(1), true),
            (object(1), object(2), false),
            (object(0), object(0), false),
            (object(1), None, false),
        ] {
            let change = Change { key: ObjectKey::default(), before, now, is_initial: false };
            assert_eq!(may_wait(&change), expected, "{change:?}");
        }
    }

    #[test]
    fn an_object_of_the_member_maps_to_its_work() {
        let of = |namespace: &str| json!({ANNOTATION_WORK_NAMESPACE: namespace, ANNOTATION_WORK_NAME: "w"});
        check(None, Some(of("karmada-es-m1")), Some("w"));
        check(Some(of("karmada-es-m1")), None, Some("w"));
        check(Some(of("karmada-es-m1")), Some(json!({})), Some("w"));
        check(None, Some(of("karmada-es-m2")), None);
        check(None, Some(json!({})), Some("nginx-687f7fb96f"));
    }
}
