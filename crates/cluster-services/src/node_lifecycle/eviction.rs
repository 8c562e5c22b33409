//! Evicts pods from nodes with NoExecute taints they do not tolerate, or no longer tolerate.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cluster_client::{DeleteOptions, Preconditions, ResourceRef};
use jiff::{SignedDuration, Timestamp};
use object::conditions::{self, ConditionView, NewCondition};
use object::taints::{NO_EXECUTE, Taint, Toleration};
use object::{Object, builtin, time};
use parking_lot::Mutex;
use reconcile::{Change, Controller, ObjectKey, Outcome, Priority, ReconcileError, Recorder, Source, commit_status};

use crate::mirrors::{ClusterMirrors, FIELD_MANAGER, time_at};
use crate::start::Service;

const WORKERS: usize = 4;

/// A NoExecute taint with its start time.
type ActiveTaint = (Taint, Timestamp);

struct Evictions {
    mirrors: Arc<ClusterMirrors>,
    recorder: Recorder,
    /// Nodes with NoExecute taints; few.
    tainted: Mutex<HashMap<String, Vec<ActiveTaint>>>,
    /// Pods with a pending eviction.
    pending: Mutex<HashSet<ObjectKey>>,
}

pub fn start(mirrors: &Arc<ClusterMirrors>) -> Service {
    let controller = Controller::new("taint-eviction-controller");
    let evictions = Arc::new(Evictions {
        recorder: mirrors.recorder("taint-eviction-controller"),
        tainted: Mutex::default(),
        pending: Mutex::default(),
        mirrors: Arc::clone(mirrors),
    });
    let (listener, queue) = (Arc::clone(&evictions), controller.clone());
    let on_pod = move |change: &Change| {
        if listener.concerns(change) {
            queue.queue().add_now(change.key.clone(), Priority::NORMAL);
        }
    };
    Service::new(run(evictions, controller)).on_pods(on_pod)
}

async fn run(evictions: Arc<Evictions>, controller: Controller<ObjectKey>) {
    let mirrors = Arc::clone(&evictions.mirrors);
    let nodes = {
        let evictions = Arc::clone(&evictions);
        Source::new(&mirrors.nodes.clone(), move |change| evictions.node_changed(change))
    };
    let cancel = mirrors.cancel.clone();
    let reconcile = move |key: ObjectKey| {
        let evictions = Arc::clone(&evictions);
        async move { evictions.reconcile(&key).await }
    };
    controller.run(vec![nodes], WORKERS, cancel, reconcile).await;
}

impl Evictions {
    /// Reports whether the pod is on a tainted node, or had a pending eviction.
    fn concerns(&self, change: &Change) -> bool {
        let Some(pod) = &change.now else { return self.pending.lock().remove(&change.key) };
        if !self.tainted.lock().contains_key(pod.str_at(&["spec", "nodeName"])) {
            return false;
        }
        let view =
            |pod: &Object| (pod.get(&["spec", "tolerations"]).cloned(), pod.str_at(&["spec", "nodeName"]).to_owned());
        change.before.as_ref().is_none_or(|before| before.uid() != pod.uid() || view(before) != view(pod))
    }

    /// Returns all pods of a node whose taints changed.
    fn node_changed(&self, change: &Change) -> Vec<ObjectKey> {
        let now = self.mirrors.now();
        let taints = change.now.as_ref().map(|node| driving_taints(node, now)).unwrap_or_default();
        let mut tainted = self.tainted.lock();
        let known = tainted.get(&change.key.name).map(Vec::as_slice).unwrap_or_default();
        let keys = |taints: &[ActiveTaint]| taints.iter().map(|(taint, _)| taint.clone()).collect::<Vec<_>>();
        if keys(known) == keys(&taints) {
            return Vec::new();
        }
        match taints.is_empty() {
            true => drop(tainted.remove(&change.key.name)),
            false => drop(tainted.insert(change.key.name.clone(), taints)),
        }
        drop(tainted);
        self.mirrors.pods_by_node.keys(&change.key.name)
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let pod = self.mirrors.pods.get(key).filter(|pod| !pod.is_deleting());
        let Some(pod) = pod else {
            self.pending.lock().remove(key);
            return Ok(Outcome::Done);
        };
        let taints = self.tainted.lock().get(pod.str_at(&["spec", "nodeName"])).cloned().unwrap_or_default();
        let now = self.mirrors.now();
        match plan_stay(&pod, &taints, now) {
            Stay::ForEver => {
                if self.pending.lock().remove(key) {
                    let message = format!("Cancelling deletion of Pod {key}");
                    self.recorder.normal(&*pod, "TaintManagerEviction", message);
                }
                Ok(Outcome::Done)
            }
            Stay::For(wait) => {
                self.pending.lock().insert(key.clone());
                Ok(Outcome::After(wait))
            }
            Stay::No => {
                self.evict(key, &pod).await?;
                self.pending.lock().remove(key);
                Ok(Outcome::Done)
            }
        }
    }

    async fn evict(&self, key: &ObjectKey, pod: &Object) -> Result<(), ReconcileError> {
        self.recorder.normal(pod, "TaintManagerEviction", format!("Marking for deletion Pod {key}"));
        let mut marked = pod.clone();
        let update = NewCondition {
            kind: "DisruptionTarget",
            status: "True",
            reason: "DeletionByTaintManager",
            message: "Taint manager: deleting due to NoExecute taint",
        };
        conditions::set(&mut marked, &update, self.mirrors.now());
        let target = ResourceRef::of(&builtin::pods(), pod);
        match commit_status(&self.mirrors.client, target.clone(), pod, &marked, FIELD_MANAGER).await {
            Err(status) if !status.is_not_found() => return Err(status.into()),
            _ => {}
        }
        let preconditions = Preconditions { uid: Some(pod.uid().to_owned()), resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        match self.mirrors.client.delete(target, options).await {
            Err(status) if !status.is_not_found() && !status.is_conflict() => Err(status.into()),
            _ => Ok(()),
        }
    }
}

fn driving_taints(node: &Object, now: Timestamp) -> Vec<ActiveTaint> {
    let taints = node.items(&["spec", "taints"]).iter().filter_map(|value| {
        let taint = Taint::read(value).filter(|taint| taint.effect == NO_EXECUTE)?;
        Some((taint, time_at(&value["timeAdded"]).unwrap_or(now)))
    });
    taints.collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    ForEver,
    For(Duration),
    No,
}

/// Returns how long a pod may stay. The time starts when both taint and pod exist.
fn plan_stay(pod: &Object, taints: &[ActiveTaint], now: Timestamp) -> Stay {
    let tolerations = Toleration::read_all(pod.items(&["spec", "tolerations"]));
    let bound = conditions::find(pod, "PodScheduled").and_then(ConditionView::last_transition);
    let bound = bound.or_else(|| time::parse(pod.creation_timestamp())).unwrap_or(Timestamp::MIN);
    let mut stay = Stay::ForEver;
    for (taint, since) in taints {
        let bearing: Vec<&Toleration> = tolerations.iter().filter(|toleration| toleration.tolerates(taint)).collect();
        if bearing.is_empty() {
            return Stay::No;
        }
        let Some(seconds) = bearing.iter().filter_map(|toleration| toleration.toleration_seconds).min() else {
            continue;
        };
        let start = (*since).max(bound);
        let end = start.checked_add(SignedDuration::from_secs(seconds.max(0))).unwrap_or(Timestamp::MAX);
        let Some(left) = Duration::try_from(end.duration_since(now)).ok().filter(|left| !left.is_zero()) else {
            return Stay::No;
        };
        stay = match stay {
            Stay::For(known) => Stay::For(known.min(left)),
            _ => Stay::For(left),
        };
    }
    stay
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(tolerations: Value, expected: Stay) {
        let at = |text: &str| -> Timestamp { text.parse().expect("a time") };
        let pod =
            json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"tolerations": tolerations}});
        let taint = Taint::read(&json!({"key": "k", "effect": "NoExecute"})).expect("a taint");
        let taints = [(taint, at("2026-01-01T01:00:00Z"))];
        let pod = Object::from_value(pod).expect("a map");
        assert_eq!(plan_stay(&pod, &taints, at("2026-01-01T01:01:00Z")), expected, "{tolerations}");
    }

    #[test]
    fn a_pod_stays_as_long_as_it_tolerates_the_taint() {
        check(json!([]), Stay::No);
        check(json!([{"key": "k", "operator": "Exists"}]), Stay::ForEver);
        check(
            json!([{"key": "k", "operator": "Exists", "tolerationSeconds": 300}]),
            Stay::For(Duration::from_secs(240)),
        );
        check(json!([{"key": "k", "operator": "Exists", "tolerationSeconds": 30}]), Stay::No);
        check(json!([{"key": "k", "operator": "Exists", "tolerationSeconds": 0}]), Stay::No);
        let two = json!([{"operator": "Exists", "tolerationSeconds": 300}, {"key": "k", "operator": "Exists", "tolerationSeconds": 100}]);
        check(two, Stay::For(Duration::from_secs(40)));
    }
}
