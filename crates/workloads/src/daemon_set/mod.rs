//! Runs one pod of a DaemonSet on every eligible node. Triggered by DaemonSets, their pods, and node changes.
//!
//! Writes pods, ControllerRevisions and the status of DaemonSets.

mod backoff;
mod fit;
mod plan;
mod spec;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::ResourceRef;
use object::Object;
use object::builtin;
use parking_lot::Mutex;
use reconcile::{Change, Controller, Mirror, ObjectKey, Outcome, ReconcileError, Source, commit_status};

use crate::cluster::{Cluster, FIELD_MANAGER};
use crate::daemon_set::backoff::Backoffs;
use crate::daemon_set::fit::{Demands, Fit};
use crate::daemon_set::plan::{DaemonPods, DaemonSetPlan, surplus};
use crate::daemon_set::spec::{DaemonSetSpec, HASH_LABEL};
use crate::dispatch::{PodRoute, selector_of};
use crate::pod_control::{BURST_MAX, ClaimRules, PodControl, is_namespace_terminating, slow_start};
use crate::pods::{Pod, next_availability};
use crate::revisions::{Revised, commit_revision, data_of, delete_revisions, gather_revisions, plan_revision};
use crate::start::sooner;

const COMPONENT: &str = "daemonset-controller";
const WORKERS: usize = 2;

struct DaemonSets {
    cluster: Arc<Cluster>,
    control: PodControl,
    backoffs: Backoffs,
}

/// Returns the controller and the route for its pod events.
pub fn start(cluster: &Arc<Cluster>) -> (PodRoute, impl Future<Output = ()> + Send + use<>) {
    let control = PodControl::new(cluster, COMPONENT, &cluster.daemon_sets, ClaimRules::default());
    let controller = Controller::new(COMPONENT);
    let route = PodRoute::new("DaemonSet", &cluster.daemon_sets, &controller, &control);
    let sets = Arc::new(DaemonSets { cluster: Arc::clone(cluster), control, backoffs: Backoffs::default() });
    let all = cluster.daemon_sets.clone();
    let sources =
        vec![Source::each(&cluster.daemon_sets), Source::new(&cluster.nodes, move |change| concerned(&all, change))];
    let running = controller.run(sources, WORKERS, cluster.cancelled(), move |key| reconcile(Arc::clone(&sets), key));
    (route, running)
}

/// Returns all sets if a node was added, removed, or changed in a field daemons depend on.
fn concerned(sets: &Mirror, change: &Change) -> Vec<ObjectKey> {
    let is_same = match (&change.before, &change.now) {
        (Some(before), Some(now)) => {
            let labels = ["metadata", "labels"];
            before.get(&labels) == now.get(&labels) && before.get(&["spec"]) == now.get(&["spec"])
        }
        _ => false,
    };
    // Every set is reconciled at startup anyway.
    if is_same || change.is_initial {
        return Vec::new();
    }
    sets.list().iter().map(|set| ObjectKey::of(set)).collect()
}

async fn reconcile(sets: Arc<DaemonSets>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let cluster = &sets.cluster;
    let Some(set) = cluster.daemon_sets.get(&key) else {
        sets.control.pace.forget(&key);
        sets.backoffs.forget(&key);
        return Ok(Outcome::Done);
    };
    let Some(selector) = selector_of(&set) else {
        let message = "This daemon set is selecting all pods. A non-empty selector is required.";
        sets.control.events.warning(&set, "SelectingAll", message);
        return Ok(Outcome::Done);
    };
    if set.is_deleting() {
        return Ok(Outcome::Done);
    }
    let gvr = builtin::daemon_sets();
    let revisions = gather_revisions(cluster, (&gvr, &set), &selector).await?;
    let revise = plan_revision(&revisions, &data_of(&set));
    let Revised { revision, collisions } = commit_revision(cluster, &set, revise, HASH_LABEL).await?;
    let spec = DaemonSetSpec::of(&set, revision.label(HASH_LABEL).unwrap_or_default());
    let mut pods = sets.control.claim(&set, &selector).await?;
    let fits = sets.gather_fits(&set);
    let now = cluster.now();
    let done = sets.commit_step(&set, &spec, &fits, &mut pods).await;
    let spread = DaemonPods::new(&spec, &fits, &pods, now);
    let mut desired = Object::default();
    desired.set(&["status"], spread.status(&set, collisions));
    commit_status(&cluster.client, ResourceRef::of(&gvr, &set), &set, &desired, FIELD_MANAGER).await?;
    let wait = done?;
    delete_revisions(cluster, &surplus(&revisions, &revision, &pods, &spec, HASH_LABEL)).await?;
    let outcome = sooner(Outcome::Done, wait);
    Ok(sooner(outcome, next_availability(&pods, spec.ready_seconds_min, now)))
}

impl DaemonSets {
    fn gather_fits(&self, set: &Object) -> BTreeMap<String, Fit> {
        let template = set.get(&["spec", "template"]).cloned().unwrap_or_default();
        let demands = Demands::of(&template);
        self.cluster.nodes.list().iter().map(|node| (node.name().to_owned(), demands.fit(node))).collect()
    }

    /// Creates missing pods; once complete, replaces outdated ones. Returns the remaining backoff of a failed pod, if
    /// any.
    async fn commit_step(
        &self,
        set: &Object,
        spec: &DaemonSetSpec,
        fits: &BTreeMap<String, Fit>,
        pods: &mut Vec<Pod>,
    ) -> Result<Option<Duration>, ReconcileError> {
        let spread = DaemonPods::new(spec, fits, pods, self.cluster.now());
        let mut plan = spread.plan();
        let wait = self.admit_ended(set, &mut plan);
        if plan.is_empty() {
            plan = spread.plan_update();
        }
        self.commit_plan(set, spec, plan, pods).await?;
        Ok(wait)
    }

    /// Schedules finished pods for deletion if their backoff has expired.
    fn admit_ended(&self, set: &Object, plan: &mut DaemonSetPlan) -> Option<Duration> {
        let key = ObjectKey::of(set);
        let mut shortest: Option<Duration> = None;
        for (node, pod) in std::mem::take(&mut plan.failed) {
            let wait = self.backoffs.admit(&key, &node);
            if !wait.is_zero() {
                shortest = Some(shortest.map_or(wait, |shortest| shortest.min(wait)));
                continue;
            }
            let (namespace, name) = (pod.namespace(), pod.name());
            let message = format!("Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it");
            self.control.events.warning(set, "FailedDaemonPod", message);
            plan.delete.push(pod);
        }
        for (node, pod) in std::mem::take(&mut plan.succeeded) {
            let (namespace, name) = (pod.namespace(), pod.name());
            let message =
                format!("Found succeeded daemon pod {namespace}/{name} on node {node}, will try to delete it");
            self.control.events.normal(set, "SucceededDaemonPod", message);
            plan.delete.push(pod);
        }
        shortest
    }

    async fn commit_plan(
        &self,
        set: &Object,
        spec: &DaemonSetSpec,
        plan: DaemonSetPlan,
        pods: &mut Vec<Pod>,
    ) -> Result<(), ReconcileError> {
        let created = Mutex::new(Vec::new());
        let create = |node: String| {
            let created = &created;
            async move {
                match self.control.create_with_event(set, spec.pod_for(set, &node)).await {
                    Ok(pod) => created.lock().push(Pod::new(pod)),
                    Err(status) if is_namespace_terminating(&status) => {}
                    Err(status) => return Err(status),
                }
                Ok(())
            }
        };
        let (_, creations) = slow_start(plan.create_on.into_iter().take(BURST_MAX).map(create)).await;
        let deleting = &plan.delete[..plan.delete.len().min(BURST_MAX)];
        let deletions = self.control.delete_all(set, deleting).await;
        if deletions.is_ok() {
            for pod in pods.iter_mut().filter(|pod| deleting.iter().any(|deleting| deleting.uid() == pod.uid())) {
                *pod = Pod::deleting(Arc::clone(&pod.object));
            }
        }
        pods.extend(created.into_inner());
        creations?;
        Ok(deletions?)
    }
}
