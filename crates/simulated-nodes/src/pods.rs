//! Reconciles the pods of simulated nodes on changes and timers, and writes their status.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::{DeleteOptions, Preconditions, ResourceRef};
use object::{Object, Status};
use parking_lot::Mutex;
use reconcile::{ObjectKey, Outcome, ReconcileError, Recorder, Regarding, Source};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lifecycle::{DecisionInputs, LifecycleDecision, PodEvent, decide};
use crate::node::fault_of;
use crate::registration::{FIELD_MANAGER, commit_status};
use crate::simulation::{PodMemory, Simulation, resource, until};

/// Concurrent reconciles; their writes share commits.
const WORKERS: usize = 32;
/// Event rate limit per second, and burst. Kubelets limit events in the same way.
const EVENTS_PER_SECOND: f64 = 50.0;
const EVENTS_AT_ONCE: f64 = 500.0;

pub async fn run(simulation: Simulation, cancel: CancellationToken) {
    let inner = &simulation.inner;
    let recorder = Recorder::start(inner.client.clone(), FIELD_MANAGER, Arc::clone(&inner.clock), cancel.clone());
    let limiter = Arc::new(EventLimiter { recorder, left: Mutex::new((EVENTS_AT_ONCE, Instant::now())) });
    let pods = inner.pods_by_node.clone();
    // A change of a node's silence affects all its pods.
    let of_node = Source::new(&inner.nodes, move |change| {
        let fault = |node: &Option<Arc<Object>>| node.as_deref().and_then(fault_of);
        if change.before.is_none() || fault(&change.before) == fault(&change.now) {
            return Vec::new();
        }
        pods.keys(&change.key.name)
    });
    let sources = vec![Source::each(&inner.pods), of_node];
    let controller = inner.controller.clone();
    let reconcile = move |key: ObjectKey| {
        let (simulation, limiter) = (simulation.clone(), Arc::clone(&limiter));
        async move { reconcile(&simulation, &limiter, &key).await }
    };
    controller.run(sources, WORKERS, cancel, reconcile).await;
}

async fn reconcile(
    simulation: &Simulation,
    limiter: &EventLimiter,
    key: &ObjectKey,
) -> Result<Outcome, ReconcileError> {
    let inner = &simulation.inner;
    let Some(pod) = inner.pods.get(key) else {
        simulation.forget(key);
        return Ok(Outcome::Done);
    };
    let node = pod.str_at(&["spec", "nodeName"]);
    let Some(index) = inner.settings.node_index(node) else { return Ok(Outcome::Done) };
    if simulation.is_silent(node) {
        return Ok(Outcome::Done);
    }
    if is_over(&pod) && !pod.is_deleting() {
        simulation.forget(key);
        return Ok(Outcome::Done);
    }
    let decision = simulation.decide(key, &pod, index);
    let LifecycleDecision { status, is_gone, wake, events, marks } = decision;
    if let Some(status) = &status {
        match commit_status(simulation, "pods", &pod, status).await {
            Ok(()) => {}
            // The mirror has not observed the deletion yet.
            Err(status) if status.is_not_found() => return Ok(Outcome::Done),
            Err(status) => return Err(status.into()),
        }
    }
    if let Some(memory) = inner.memory.lock().get_mut(key).filter(|memory| *memory.uid == *pod.uid()) {
        memory.marks = marks;
        if status.is_some() {
            memory.ended.clear();
        }
    }
    limiter.record_event(&pod, events);
    if is_gone {
        remove(simulation, key, &pod).await?;
        return Ok(Outcome::Done);
    }
    let wait = wake.map(|at| until(simulation.now(), at).max(Duration::from_millis(1)));
    Ok(wait.map_or(Outcome::Done, Outcome::After))
}

fn is_over(pod: &Object) -> bool {
    matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed")
}

/// Deletes the pod from the API.
async fn remove(simulation: &Simulation, key: &ObjectKey, pod: &Object) -> Result<(), Status> {
    let options = DeleteOptions {
        grace_period_seconds: Some(0),
        preconditions: Preconditions { uid: Some(pod.uid().to_owned()), ..Preconditions::default() },
        ..DeleteOptions::default()
    };
    let target = ResourceRef::namespaced(&resource("", "pods"), &key.namespace, &key.name);
    match simulation.inner.client.delete(target, options).await {
        Ok(_) => Ok(()),
        // Deleted already, or replaced by another pod of that name.
        Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(status) => Err(status),
    }
}

impl Simulation {
    /// Reserves the addresses of existing pods before any are allocated.
    pub(crate) fn claim_addresses(&self) {
        let inner = &self.inner;
        for pod in inner.pods.list() {
            let Some(index) = inner.settings.node_index(pod.str_at(&["spec", "nodeName"])) else { continue };
            if let Some(address) = own_address(&pod).filter(|_| !is_over(&pod)) {
                inner.addresses.lock().claim(index, address);
            }
        }
    }

    fn decide(&self, key: &ObjectKey, pod: &Object, node: u32) -> LifecycleDecision {
        let inner = &self.inner;
        let mut all = inner.memory.lock();
        let mut addresses = inner.addresses.lock();
        let memory = all.entry(key.clone()).or_default();
        if *memory.uid != *pod.uid() {
            if let Some(address) = memory.address.take() {
                addresses.release(memory.node, address);
            }
            *memory = PodMemory { uid: pod.uid().into(), node, address: own_address(pod), ..PodMemory::default() };
        }
        let needs_one = memory.address.is_none() && pod.bool_at(&["spec", "hostNetwork"]) != Some(true);
        if needs_one && !pod.is_deleting() {
            memory.address = addresses.take(node);
        }
        let known = DecisionInputs {
            settings: &inner.settings,
            now: inner.clock.now(),
            host_ip: addresses.of_node(node),
            pod_ip: memory.address,
            marks: &memory.marks,
            ended: &memory.ended,
        };
        decide(&known, pod)
    }

    /// Releases the address and state of a deleted or finished pod.
    fn forget(&self, key: &ObjectKey) {
        let Some(memory) = self.inner.memory.lock().remove(key) else { return };
        if let Some(address) = memory.address {
            self.inner.addresses.lock().release(memory.node, address);
        }
        self.inner.sandboxes.lock().forget(&memory.uid);
    }
}

/// Returns the pod's own address, unless it is on the host network.
fn own_address(pod: &Object) -> Option<Ipv4Addr> {
    if pod.bool_at(&["spec", "hostNetwork"]) == Some(true) {
        return None;
    }
    pod.str_at(&["status", "podIP"]).parse().ok()
}

/// Records events with a rate limit, so that they do not dominate the load.
struct EventLimiter {
    recorder: Recorder,
    left: Mutex<(f64, Instant)>,
}

impl EventLimiter {
    fn record_event(&self, pod: &Object, events: Vec<PodEvent>) {
        for event in events {
            if !self.may_record() {
                return;
            }
            let about = Regarding::from(pod);
            match event.is_warning {
                true => self.recorder.warning(about, event.reason, event.message),
                false => self.recorder.normal(about, event.reason, event.message),
            }
        }
    }

    fn may_record(&self) -> bool {
        let mut left = self.left.lock();
        let now = Instant::now();
        let grown = left.0 + now.duration_since(left.1).as_secs_f64() * EVENTS_PER_SECOND;
        *left = (grown.min(EVENTS_AT_ONCE), now);
        let is_left = left.0 >= 1.0;
        if is_left {
            left.0 -= 1.0;
        }
        is_left
    }
}
