//! Dispatches pod events to the owning controllers: one reader of the largest mirror instead of one per controller.

use std::sync::Arc;

use object::Object;
use object::selector::LabelSelector;
use reconcile::{Change, Controller, Mirror, ObjectKey, Priority};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::job;
use crate::owners::controller;
use crate::pace::OwnerPace;
use crate::pod_control::PodControl;

/// A controller that owns pods.
pub struct PodRoute {
    /// The kind of its owners.
    pub kind: &'static str,
    pub owners: Mirror,
    pub controller: Controller<ObjectKey>,
    pub pace: Arc<OwnerPace>,
}

impl PodRoute {
    pub fn new(kind: &'static str, owners: &Mirror, controller: &Controller<ObjectKey>, control: &PodControl) -> Self {
        let (controller, pace) = (controller.clone(), Arc::clone(&control.pace));
        Self { kind, owners: owners.clone(), controller, pace }
    }
}

/// The controllers that receive pod events.
pub struct Routes {
    pub owners: Vec<PodRoute>,
    /// Deployments with the Recreate strategy wait for the last old pod.
    pub deployments: Controller<ObjectKey>,
    /// Pods whose tracking finalizer no Job will remove.
    pub strays: Controller<ObjectKey>,
}

pub async fn run(cluster: Arc<Cluster>, routes: Routes, cancel: CancellationToken) {
    let mut changes = cluster.pods.subscribe();
    loop {
        let change = tokio::select! {
            () = cancel.cancelled() => return,
            change = changes.next() => change,
        };
        let Some(change) = change else { return };
        routes.carry(&cluster, &change).await;
    }
}

impl Routes {
    async fn carry(&self, cluster: &Cluster, change: &Change) {
        if let Some(pod) = &change.now
            && job::is_stray(cluster, pod)
        {
            self.strays.queue().add(change.key.clone(), priority(change)).await;
        }
        // Every owner is reconciled at startup, so initial pods add nothing.
        if !change.is_initial {
            for state in [&change.before, &change.now].into_iter().flatten() {
                self.carry_to_owner(state).await;
            }
            if is_over(change) {
                self.carry_to_deployment(cluster, change).await;
            }
        }
        if is_new_orphan(change)
            && let Some(pod) = &change.now
        {
            self.carry_to_candidates(pod).await;
        }
    }

    async fn carry_to_owner(&self, pod: &Object) {
        let Some(owner) = controller(pod) else { return };
        let Some(route) = self.owners.iter().find(|route| owner["kind"] == route.kind) else { return };
        let key = ObjectKey::new(pod.namespace(), owner["name"].as_str().unwrap_or_default());
        let wait = route.pace.wait(&key);
        if wait.is_zero() {
            route.controller.queue().add(key, Priority::NORMAL).await;
        } else {
            route.controller.queue().add_after(key, wait, Priority::NORMAL);
        }
    }

    async fn carry_to_deployment(&self, cluster: &Cluster, change: &Change) {
        let Some(set) = change.before.as_ref().and_then(|pod| controller(pod)) else { return };
        if set["kind"] != "ReplicaSet" {
            return;
        }
        let key = ObjectKey::new(&change.key.namespace, set["name"].as_str().unwrap_or_default());
        let Some(set) = cluster.replica_sets.get(&key) else { return };
        if let Some(owner) = controller(&set).filter(|owner| owner["kind"] == "Deployment") {
            let key = ObjectKey::new(&key.namespace, owner["name"].as_str().unwrap_or_default());
            self.deployments.queue().add(key, Priority::NORMAL).await;
        }
    }

    /// Enqueues the owners that might adopt the pod.
    async fn carry_to_candidates(&self, pod: &Object) {
        for route in &self.owners {
            for owner in route.owners.list_within(pod.namespace()) {
                if selector_of(&owner).is_some_and(|selector| selector.matches(pod)) {
                    route.controller.queue().add(ObjectKey::of(&owner), Priority::NORMAL).await;
                }
            }
        }
    }
}

fn priority(change: &Change) -> Priority {
    if change.is_initial { Priority::LOW } else { Priority::NORMAL }
}

/// Reports whether the pod was deleted or finished.
fn is_over(change: &Change) -> bool {
    let has_ended = |pod: &Arc<Object>| matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed");
    change.now.as_ref().is_none_or(has_ended)
}

/// Reports whether a pod without a controller is new or changed its labels.
fn is_new_orphan(change: &Change) -> bool {
    let Some(pod) = change.now.as_ref().filter(|pod| controller(pod).is_none()) else { return false };
    let labels = |pod: &Object| pod.get(&["metadata", "labels"]).cloned().unwrap_or(Value::Null);
    change.before.as_ref().is_none_or(|before| controller(before).is_some() || labels(before) != labels(pod))
}

/// Returns the selector of an owner: plain labels for ReplicationControllers, a label selector for all others. `None`
/// if it is empty or invalid, which selects nothing.
pub fn selector_of(owner: &Object) -> Option<LabelSelector> {
    let selector = owner.get(&["spec", "selector"])?;
    let selector = match owner.kind() {
        "ReplicationController" => LabelSelector::from_value(Some(&json!({"matchLabels": selector}))),
        _ => LabelSelector::from_value(Some(selector)),
    };
    selector.ok().filter(|selector| !selector.is_everything())
}
