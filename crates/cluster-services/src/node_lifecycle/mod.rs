//! Marks nodes without heartbeats as unknown, taints them, and evicts pods that do not tolerate the taints.

mod eviction;
mod taints;
#[cfg(test)]
mod tests;
mod zones;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::ResourceRef;
use object::builtin;
use object::conditions::{self, NewCondition};
use object::{Object, time};
use parking_lot::Mutex;
use reconcile::{Change, Committed, Controller, ObjectKey, Outcome, ReconcileError, Recorder, Source};
use reconcile::{commit_object, commit_status};
use tokio::time::Instant;

use crate::mirrors::{ClusterMirrors, FIELD_MANAGER};
use crate::node_lifecycle::taints::{EvictionMode, Readiness, has_driving, plan_taints, readiness_of};
use crate::node_lifecycle::zones::{Permission, Zones};
use crate::start::Service;

pub use crate::node_lifecycle::eviction::start as start_evictions;

const WORKERS: usize = 4;
/// Retry interval for nodes whose pods may not be evicted now.
const MONITOR_PERIOD: Duration = Duration::from_secs(5);
/// Conditions reported by kubelets, which become Unknown without heartbeats.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

struct NodeMonitor {
    mirrors: Arc<ClusterMirrors>,
    recorder: Recorder,
    /// The last heartbeat of each node by the local clock; node clocks are not trusted.
    heartbeats: Mutex<HashMap<String, Instant>>,
    zones: Mutex<Zones>,
    /// All nodes are unhealthy, so evictions stop.
    is_all_lost: Mutex<bool>,
}

pub fn start(mirrors: &Arc<ClusterMirrors>) -> Service {
    let nodes = Arc::new(NodeMonitor {
        recorder: mirrors.recorder("node-controller"),
        heartbeats: Mutex::default(),
        zones: Mutex::default(),
        is_all_lost: Mutex::new(false),
        mirrors: Arc::clone(mirrors),
    });
    Service::new(run(nodes))
}

async fn run(nodes: Arc<NodeMonitor>) {
    let mirrors = Arc::clone(&nodes.mirrors);
    // All zones are known before the first node is evaluated.
    for node in mirrors.nodes.list() {
        nodes.zones.lock().set(&node);
    }
    let controller = Controller::new("node-lifecycle-controller");
    let source = {
        let nodes = Arc::clone(&nodes);
        Source::new(&mirrors.nodes.clone(), move |change| {
            nodes.node_changed(change);
            vec![change.key.clone()]
        })
    };
    let reconcile = {
        let nodes = Arc::clone(&nodes);
        move |key: ObjectKey| {
            let nodes = Arc::clone(&nodes);
            async move { nodes.reconcile(&key).await }
        }
    };
    let cancel = mirrors.cancel.clone();
    let leases = async {
        tokio::select! {
            () = cancel.cancelled() => {}
            () = nodes.follow_leases() => {}
        }
    };
    tokio::join!(controller.run(vec![source], WORKERS, cancel.clone(), reconcile), leases);
}

impl NodeMonitor {
    async fn follow_leases(&self) {
        let mut changes = self.mirrors.leases.subscribe();
        while let Some(change) = changes.next().await {
            if change.now.is_some() && !change.is_initial {
                self.heartbeats.lock().insert(change.key.name, Instant::now());
            }
        }
    }

    fn node_changed(&self, change: &Change) {
        let Some(node) = &change.now else {
            self.heartbeats.lock().remove(&change.key.name);
            self.zones.lock().remove(&change.key.name);
            return;
        };
        // A status update counts as a heartbeat if the node itself sent it.
        let reported = |node: &Object| {
            let ready = conditions::find(node, "Ready")?;
            Some((ready.text("lastHeartbeatTime").to_owned(), ready.status().to_owned()))
        };
        let before = change.before.as_ref().map(|before| reported(before));
        let is_from_node =
            before.is_none_or(|before| before != reported(node)) && readiness_of(node) != Readiness::Unknown;
        let mut heartbeats = self.heartbeats.lock();
        match is_from_node {
            true => drop(heartbeats.insert(node.name().to_owned(), Instant::now())),
            false => drop(heartbeats.entry(node.name().to_owned()).or_insert_with(Instant::now)),
        }
        drop(heartbeats);
        self.zones.lock().set(node);
        self.note_loss();
    }

    /// When the first node recovers, all others get a new grace period.
    fn note_loss(&self) {
        let is_all_lost = self.zones.lock().is_all_lost(&self.mirrors.settings);
        let was = std::mem::replace(&mut *self.is_all_lost.lock(), is_all_lost);
        if was && !is_all_lost {
            self.heartbeats.lock().values_mut().for_each(|heartbeats| *heartbeats = Instant::now());
        }
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(node) = self.mirrors.nodes.get(key).filter(|node| !node.is_deleting()) else {
            return Ok(Outcome::Done);
        };
        let silent_for = self.heartbeats.lock().get(node.name()).map_or(Duration::ZERO, Instant::elapsed);
        let grace = match conditions::find(&node, "Ready") {
            Some(_) => self.mirrors.settings.node_monitor_grace_period,
            None => self.mirrors.settings.node_startup_grace_period,
        };
        let mut node = node;
        if silent_for >= grace && readiness_of_known(&node) != Some(Readiness::Unknown) {
            node = self.commit_unknown(&node).await?;
            self.zones.lock().set(&node);
            self.note_loss();
        }
        let wait = self.keep_taints(&node).await?;
        if readiness_of(&node) != Readiness::Ready {
            self.mark_pods(&node).await?;
        }
        let next_check = grace.checked_sub(silent_for).filter(|left| !left.is_zero()).unwrap_or(MONITOR_PERIOD);
        Ok(Outcome::After(wait.map_or(next_check, |wait| wait.min(next_check))))
    }

    /// Reports whether any node had a recent heartbeat: the others are then at fault themselves.
    fn has_recent_heartbeat(&self) -> bool {
        let recently = self.mirrors.settings.node_monitor_grace_period / 2;
        self.heartbeats.lock().values().any(|heartbeats| heartbeats.elapsed() < recently)
    }

    /// Sets all reported conditions of the node to Unknown.
    async fn commit_unknown(&self, node: &Arc<Object>) -> Result<Arc<Object>, ReconcileError> {
        let now = self.mirrors.now();
        let mut desired = Object::clone(node);
        for kind in REPORTED {
            let known = conditions::find(node, kind);
            if known.is_some_and(|condition| condition.status() == "Unknown") {
                continue;
            }
            let (reason, message) = match known {
                Some(_) => ("NodeStatusUnknown", "Kubelet stopped posting node status."),
                None => ("NodeStatusNeverUpdated", "Kubelet never posted node status."),
            };
            conditions::set(&mut desired, &NewCondition { kind, status: "Unknown", reason, message }, now);
            if known.is_none() {
                let created = node.creation_timestamp();
                conditions::edit(&mut desired, kind, |condition| condition.set("lastHeartbeatTime", created));
            }
        }
        let target = ResourceRef::of(&builtin::nodes(), node);
        let committed = commit_status(&self.mirrors.client, target, node, &desired, FIELD_MANAGER).await?;
        if readiness_of(node) == Readiness::Ready {
            let message = format!("Node {} status is now: NodeNotReady", node.name());
            self.recorder.normal(&**node, "NodeNotReady", message);
        }
        Ok(match committed {
            Committed::Written(written) => written,
            Committed::Unchanged => Arc::clone(node),
        })
    }

    /// Writes the taints; returns the wait until an eviction that is not allowed now may proceed.
    async fn keep_taints(&self, node: &Arc<Object>) -> Result<Option<Duration>, ReconcileError> {
        let is_well = readiness_of(node) == Readiness::Ready;
        let settings = &self.mirrors.settings;
        let is_all_lost = self.zones.lock().is_all_lost(settings);
        let (eviction_mode, wait) = match (is_well, has_driving(node)) {
            (true, _) => (EvictionMode::AsIs, None),
            (false, _) if is_all_lost => (EvictionMode::Stop, Some(MONITOR_PERIOD)),
            (false, true) => (EvictionMode::AsIs, None),
            // Nodes that fail together are detected one after the other.
            (false, false) if !self.has_recent_heartbeat() => (EvictionMode::AsIs, Some(MONITOR_PERIOD)),
            (false, false) => match self.zones.lock().ask(node, settings) {
                Permission::Now => (EvictionMode::Out, None),
                Permission::After(wait) => (EvictionMode::AsIs, Some(wait)),
                Permission::Never => (EvictionMode::AsIs, Some(MONITOR_PERIOD)),
                Permission::Withdrawn => (EvictionMode::Stop, Some(MONITOR_PERIOD)),
            },
        };
        let planned = plan_taints(node, eviction_mode, &time::format_seconds(self.mirrors.now()));
        let mut desired = Object::clone(node);
        match planned.is_empty() {
            true => drop(desired.remove(&["spec", "taints"])),
            false => desired.set(&["spec", "taints"], planned),
        }
        if node.items(&["spec", "taints"]) != desired.items(&["spec", "taints"]) {
            let target = ResourceRef::of(&builtin::nodes(), node);
            commit_object(&self.mirrors.client, target, node, &desired, FIELD_MANAGER).await?;
        }
        Ok(wait)
    }

    /// Pods of an unhealthy node become not ready, so that Services do not send to them.
    async fn mark_pods(&self, node: &Object) -> Result<(), ReconcileError> {
        let pods = self.mirrors.pods_by_node.list(node.name());
        for pod in pods.iter().filter(|pod| conditions::is_true(pod, "Ready")) {
            let mut desired = Object::clone(pod);
            let now = self.mirrors.now();
            conditions::edit(&mut desired, "Ready", |condition| condition.set_status("False", now));
            let target = ResourceRef::of(&builtin::pods(), pod);
            match commit_status(&self.mirrors.client, target, pod, &desired, FIELD_MANAGER).await {
                Ok(_) => self.recorder.warning(&**pod, "NodeNotReady", "Node is not ready"),
                Err(status) if status.is_not_found() => {}
                Err(status) => return Err(status.into()),
            }
        }
        Ok(())
    }
}

/// Returns the readiness if the node ever reported it.
fn readiness_of_known(node: &Object) -> Option<Readiness> {
    conditions::find(node, "Ready").map(|_| readiness_of(node))
}
