//! Registers the nodes, and maintains their status and leases.

use std::sync::Arc;
use std::time::Duration;

use cluster_client::{Patch, ResourceRef, WriteOptions};
use futures::StreamExt;
use jiff::Timestamp;
use object::request::Subresource;
use object::{GroupVersionKind, Object, Status, time};
use reconcile::commit::merge_difference;
use reconcile::{Controller, ObjectKey, Outcome, ReconcileError, Source};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::node::{self, NodeFault, fault_of};
use crate::simulation::{Simulation, resource};

pub const FIELD_MANAGER: &str = "kubelet";
const LEASES_NAMESPACE: &str = "kube-node-lease";
/// The lease duration.
const LEASE_SECONDS: u64 = 40;
/// Renewal interval of leases; doubled for many nodes, which is still twice per lease duration.
const RENEW_EVERY: Duration = Duration::from_secs(10);
const MANY_NODES: u32 = 200;
/// Renewals are spread over this many parts of the interval.
const PARTS: u32 = 10;
/// Timeout and poll interval for new nodes to appear in the mirror.
const SEEN_MAX: Duration = Duration::from_secs(5);
const SEEN_EVERY: Duration = Duration::from_millis(20);
/// Maximum number of concurrent writes.
const WRITES_MAX: usize = 16;
const WORKERS: usize = 2;

pub async fn run(simulation: Simulation, cancel: CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => return,
        () = register(&simulation) => {}
    }
    futures::join!(keep_status(simulation.clone(), cancel.clone()), renew_leases(simulation, cancel));
}

/// Creates the missing nodes. A node deleted later stays deleted until the next start, like a machine whose kubelet
/// is not restarted.
async fn register(simulation: &Simulation) {
    let settings = &simulation.inner.settings;
    let missing = (0..settings.nodes)
        .filter(|index| simulation.inner.nodes.get(&ObjectKey::new("", &settings.node_name(*index))).is_none());
    let missing: Vec<u32> = missing.collect();
    let made = futures::stream::iter(missing.clone()).map(|index| register_one(simulation, index));
    made.buffer_unordered(WRITES_MAX).collect::<()>().await;
    // Leases are renewed for observed nodes, and the first round should include all of them.
    let is_seen = |index: &u32| simulation.inner.nodes.get(&ObjectKey::new("", &settings.node_name(*index))).is_some();
    let seen = async {
        while !missing.iter().all(is_seen) {
            tokio::time::sleep(SEEN_EVERY).await;
        }
    };
    // A node may be deleted already; it is not waited for.
    let _ = tokio::time::timeout(SEEN_MAX, seen).await;
}

/// Retries until the node exists.
async fn register_one(simulation: &Simulation, index: u32) {
    let mut wait = Duration::from_millis(100);
    loop {
        let now = simulation.now();
        let node = node::build(&simulation.inner.settings, &simulation.inner.addresses.lock(), index, now);
        let target = ResourceRef::all(&resource("", "nodes"));
        let made = simulation.inner.client.create(target, node, WriteOptions::managed_by(FIELD_MANAGER)).await;
        match made {
            Ok(_) => return,
            Err(status) if status.is_already_exists() => return,
            Err(error) => {
                tracing::warn!(index, %error, ?wait, "failed to register simulated node");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(Duration::from_secs(10));
            }
        }
    }
}

/// Reverts changes of a node's status by others.
async fn keep_status(simulation: Simulation, cancel: CancellationToken) {
    let source = Source::each(&simulation.inner.nodes);
    let reconcile = move |key: ObjectKey| {
        let simulation = simulation.clone();
        async move { reconcile_node(&simulation, &key).await }
    };
    Controller::new("simulated-node-status").run(vec![source], WORKERS, cancel, reconcile).await;
}

async fn reconcile_node(simulation: &Simulation, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
    let inner = &simulation.inner;
    let Some(index) = inner.settings.node_index(&key.name) else { return Ok(Outcome::Done) };
    let Some(node) = inner.nodes.get(key) else { return Ok(Outcome::Done) };
    if fault_of(&node) == Some(NodeFault::Silent) {
        return Ok(Outcome::Done);
    }
    let wanted = node::status(&inner.settings, &inner.addresses.lock(), index, &node, simulation.now());
    commit_status(simulation, "nodes", &node, &wanted).await?;
    Ok(Outcome::Done)
}

/// Writes a changed status, conditional on the version it is based on.
pub async fn commit_status(
    simulation: &Simulation,
    plural: &str,
    current: &Object,
    wanted: &Value,
) -> Result<(), Status> {
    let Some(difference) = merge_difference(current.get(&["status"]).unwrap_or(&json!({})), wanted) else {
        return Ok(());
    };
    let patch = json!({"status": difference,
        "metadata": {"resourceVersion": current.resource_version(), "uid": current.uid()}});
    let target = ResourceRef::of(&resource("", plural), current).subresource(Subresource::Status);
    let options = WriteOptions::managed_by(FIELD_MANAGER);
    simulation.inner.client.patch(target, Patch::merge(patch), options).await?;
    Ok(())
}

async fn renew_leases(simulation: Simulation, cancel: CancellationToken) {
    let nodes = simulation.inner.settings.nodes;
    let every = if nodes > MANY_NODES { RENEW_EVERY * 2 } else { RENEW_EVERY };
    let parts = PARTS.min(nodes.max(1));
    let mut ticks = tokio::time::interval(every / parts);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut round: u32 = 0;
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => {}
        }
        // The first round renews all at once: a node without a lease looks dead.
        let mine = |index: &u32| round == 0 || index % parts == round % parts;
        let now = simulation.now();
        let renewals = futures::stream::iter((0..nodes).filter(mine).collect::<Vec<u32>>());
        let renewals = renewals.map(|index| renew(&simulation, index, now)).buffer_unordered(WRITES_MAX);
        tokio::select! {
            () = cancel.cancelled() => return,
            () = renewals.collect::<()>() => {}
        }
        round = round.checked_add(1).unwrap_or(1);
    }
}

async fn renew(simulation: &Simulation, index: u32, now: Timestamp) {
    let inner = &simulation.inner;
    let name = inner.settings.node_name(index);
    let Some(node) = inner.nodes.get(&ObjectKey::new("", &name)) else { return };
    if fault_of(&node) == Some(NodeFault::Silent) {
        return;
    }
    let leases = resource("coordination.k8s.io", "leases");
    let target = ResourceRef::namespaced(&leases, LEASES_NAMESPACE, &name);
    let patch = Patch::merge(json!({"spec": {"renewTime": time::format_micros(now)}}));
    let renewed = inner.client.patch(target, patch, WriteOptions::managed_by(FIELD_MANAGER)).await;
    let done = match renewed {
        Err(status) if status.is_not_found() => {
            let lease = lease(&node, now);
            let target = ResourceRef::within(&leases, LEASES_NAMESPACE);
            inner.client.create(target, lease, WriteOptions::managed_by(FIELD_MANAGER)).await
        }
        done => done,
    };
    if let Err(error) = done {
        tracing::debug!(node = name, %error, "failed to renew node lease");
    }
}

fn lease(node: &Arc<Object>, now: Timestamp) -> Object {
    let gvk = GroupVersionKind::new("coordination.k8s.io", "v1", "Lease");
    let mut lease = Object::new(&gvk, Some(LEASES_NAMESPACE), node.name());
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": node.name(), "uid": node.uid()}]);
    lease.set(&["metadata", "ownerReferences"], owner);
    lease.set(&["spec", "holderIdentity"], node.name());
    lease.set(&["spec", "leaseDurationSeconds"], LEASE_SECONDS);
    lease.set(&["spec", "renewTime"], time::format_micros(now));
    lease
}
