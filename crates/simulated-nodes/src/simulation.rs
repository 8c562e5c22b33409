//! The handle of a set of simulated nodes, and the state of each pod.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::ClusterClient;
use jiff::Timestamp;
use object::{GroupVersionResource, Object};
use parking_lot::Mutex;
use reconcile::{Clock, Controller, Index, Mirror, Mirrors, ObjectKey, Priority};
use tokio_util::sync::CancellationToken;

use crate::addresses::Addresses;
use crate::lifecycle::PodTimestamps;
use crate::node::{NodeFault, fault_of};
use crate::sandbox::Sandboxes;
use crate::settings::SimulatedNodeSettings;
use crate::{pods, registration};

/// The dependencies of simulated nodes.
pub struct SimulationDeps {
    pub mirrors: Mirrors,
    pub clock: Arc<dyn Clock>,
    pub settings: SimulatedNodeSettings,
}

/// A set of simulated nodes. Clones share it.
#[derive(Clone)]
pub struct Simulation {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub settings: SimulatedNodeSettings,
    pub client: ClusterClient,
    pub clock: Arc<dyn Clock>,
    pub pods: Mirror,
    pub pods_by_node: Index<String>,
    /// Pods with a shared load, by owner.
    pub pods_by_load: Index<String>,
    pub nodes: Mirror,
    pub addresses: Mutex<Addresses>,
    pub memory: Mutex<HashMap<ObjectKey, PodMemory>>,
    pub sandboxes: Mutex<Sandboxes>,
    pub controller: Controller<ObjectKey>,
}

/// The state of a pod besides its object.
#[derive(Default)]
pub(crate) struct PodMemory {
    pub uid: Box<str>,
    pub node: u32,
    pub address: Option<Ipv4Addr>,
    pub marks: PodTimestamps,
    pub ended: HashMap<String, i32>,
}

pub(crate) fn resource(group: &str, name: &str) -> GroupVersionResource {
    GroupVersionResource::new(group, "v1", name)
}

impl Simulation {
    /// Starts to mirror the cluster; `run` starts the nodes.
    pub fn start(parts: SimulationDeps) -> Self {
        let by_node = |pod: &Object| {
            let node = pod.str_at(&["spec", "nodeName"]);
            if node.is_empty() { Vec::new() } else { vec![node.to_owned()] }
        };
        let SimulationDeps { mirrors, clock, settings } = parts;
        // Of many pods, each is read only now and then.
        let pods = mirrors.packed(&resource("", "pods"));
        let inner = Inner {
            pods_by_node: pods.index(by_node),
            pods_by_load: pods.index(crate::metrics::load_of),
            pods,
            nodes: mirrors.packed(&resource("", "nodes")),
            addresses: Mutex::new(Addresses::new(&settings)),
            memory: Mutex::default(),
            sandboxes: Mutex::default(),
            controller: Controller::new("simulated-nodes"),
            settings,
            client: mirrors.client().clone(),
            clock,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Reports whether the node belongs to this set.
    pub fn runs(&self, node: &str) -> bool {
        self.inner.settings.node_index(node).is_some()
    }

    pub fn settings(&self) -> &SimulatedNodeSettings {
        &self.inner.settings
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Returns the pod as last observed, if it has the same uid.
    pub(crate) fn pod(&self, namespace: &str, name: &str, uid: &str) -> Option<Arc<Object>> {
        self.inner.pods.get(&ObjectKey::new(namespace, name)).filter(|pod| uid.is_empty() || pod.uid() == uid)
    }

    /// A silent node does nothing for its pods either.
    pub(crate) fn is_silent(&self, node: &str) -> bool {
        let node = self.inner.nodes.get(&ObjectKey::new("", node));
        node.is_some_and(|node| fault_of(&node) == Some(NodeFault::Silent))
    }

    /// Records that a session ended the process of a container.
    pub(crate) async fn end_container(&self, pod: &Object, container: &str, code: i32) {
        let key = ObjectKey::of(pod);
        if let Some(memory) = self.inner.memory.lock().get_mut(&key).filter(|memory| *memory.uid == *pod.uid()) {
            memory.ended.insert(container.to_owned(), code);
        }
        self.inner.controller.queue().add(key, Priority::HIGH).await;
    }
}

/// Registers the nodes, renews their leases and drives their pods, until cancelled.
pub async fn run(simulation: Simulation, cancel: CancellationToken) {
    let synced = async {
        simulation.inner.nodes.synced().await;
        simulation.inner.pods.synced().await;
    };
    tokio::select! {
        () = cancel.cancelled() => return,
        () = synced => {}
    }
    simulation.claim_addresses();
    futures::join!(
        registration::run(simulation.clone(), cancel.clone()),
        pods::run(simulation.clone(), cancel.clone()),
    );
}

/// Returns the time from now until `at`, or zero if it has passed.
pub(crate) fn until(now: Timestamp, at: Timestamp) -> Duration {
    at.duration_since(now).try_into().unwrap_or(Duration::ZERO)
}
