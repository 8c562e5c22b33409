//! State shared by the controllers: the API client, the clock, and one mirror of each resource.

use std::sync::Arc;

use cluster_client::ClusterClient;
use jiff::Timestamp;
use object::Object;
use object::builtin;
use reconcile::{Clock, Mirror, MirrorSpec, Recorder};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::settings::ClusterServiceSettings;
use crate::start::ClusterServiceDeps;

/// The field manager of all writes.
pub const FIELD_MANAGER: &str = "kube-controller-manager";

/// Index of pods by node.
pub const BY_NODE: &str = "node";
/// Index of pods by `namespace/name` of the claims they mount.
pub const BY_CLAIM: &str = "claim";
/// Index of endpoint slices by `namespace/name` of their Service.
pub const BY_SERVICE: &str = "service";

const LEASE_NAMESPACE: &str = "kube-node-lease";

pub struct ClusterMirrors {
    pub client: ClusterClient,
    pub clock: Arc<dyn Clock>,
    pub settings: ClusterServiceSettings,
    pub cancel: CancellationToken,
    /// Set once every controller has received the initial pods.
    pub pods_dispatched: watch::Sender<bool>,
    /// Indexed `BY_NODE` and `BY_CLAIM`.
    pub pods: Mirror,
    pub nodes: Mirror,
    pub namespaces: Mirror,
    pub leases: Mirror,
    pub services: Mirror,
    /// Indexed `BY_SERVICE`.
    pub slices: Mirror,
    pub endpoints: Mirror,
    pub budgets: Mirror,
    pub claims: Mirror,
    pub volumes: Mirror,
    pub classes: Mirror,
    pub autoscalers: Mirror,
}

impl ClusterMirrors {
    pub fn start(parts: ClusterServiceDeps, cancel: &CancellationToken) -> Arc<Self> {
        let ClusterServiceDeps { client, clock, mut settings } = parts;
        // Volumes expose their path to other processes, so it must be absolute.
        if let Ok(root) = std::path::absolute(&settings.host_path_root) {
            settings.host_path_root = root;
        }
        let start = |spec: MirrorSpec| Mirror::start(client.clone(), spec.packed(), cancel.clone());
        let pods = MirrorSpec::new(&builtin::pods()).index(BY_NODE, node_of).index(BY_CLAIM, claims_of);
        Arc::new(Self {
            pods: start(pods),
            nodes: start(MirrorSpec::new(&builtin::nodes())),
            namespaces: start(MirrorSpec::new(&builtin::namespaces())),
            leases: start(MirrorSpec::new(&builtin::leases()).within(LEASE_NAMESPACE)),
            services: start(MirrorSpec::new(&builtin::services())),
            slices: start(MirrorSpec::new(&builtin::endpoint_slices()).index(BY_SERVICE, service_of)),
            endpoints: start(MirrorSpec::new(&builtin::endpoints())),
            budgets: start(MirrorSpec::new(&builtin::pod_disruption_budgets())),
            claims: start(MirrorSpec::new(&builtin::persistent_volume_claims())),
            volumes: start(MirrorSpec::new(&builtin::persistent_volumes())),
            classes: start(MirrorSpec::new(&builtin::storage_classes())),
            autoscalers: start(MirrorSpec::new(&builtin::horizontal_pod_autoscalers())),
            pods_dispatched: watch::Sender::new(false),
            client,
            clock,
            settings,
            cancel: cancel.clone(),
        })
    }

    /// Returns once all mirrors are complete.
    pub async fn synced(&self) {
        let mirrors = [
            &self.pods,
            &self.nodes,
            &self.namespaces,
            &self.leases,
            &self.services,
            &self.slices,
            &self.endpoints,
            &self.budgets,
            &self.claims,
            &self.volumes,
            &self.classes,
            &self.autoscalers,
        ];
        futures::future::join_all(mirrors.map(Mirror::synced)).await;
    }

    /// Returns once every controller has received the initial pods.
    pub async fn pods_dispatched(&self) {
        // The sender lives as long as `self`.
        let _ = self.pods_dispatched.subscribe().wait_for(|reported| *reported).await;
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns an event recorder for a Kubernetes component.
    pub fn recorder(&self, component: &'static str) -> Recorder {
        Recorder::start(self.client.clone(), component, Arc::clone(&self.clock), self.cancel.clone())
    }
}

fn node_of(pod: &Object) -> Vec<String> {
    match pod.str_at(&["spec", "nodeName"]) {
        "" => Vec::new(),
        node => vec![node.to_owned()],
    }
}

fn claims_of(pod: &Object) -> Vec<String> {
    let volumes = pod.items(&["spec", "volumes"]).iter();
    let names = volumes.filter_map(|volume| match volume["persistentVolumeClaim"]["claimName"].as_str() {
        Some(name) => Some(format!("{}/{name}", pod.namespace())),
        None if volume["ephemeral"].is_object() => {
            let volume = volume["name"].as_str()?;
            Some(format!("{}/{}-{volume}", pod.namespace(), pod.name()))
        }
        None => None,
    });
    names.collect()
}

fn service_of(slice: &Object) -> Vec<String> {
    match slice.label("kubernetes.io/service-name") {
        Some(service) if !service.is_empty() => vec![format!("{}/{service}", slice.namespace())],
        _ => Vec::new(),
    }
}

/// Parses a timestamp; `None` if it is missing or invalid.
pub fn time_at(value: &Value) -> Option<Timestamp> {
    object::time::parse(value.as_str()?)
}
