//! State shared by the controllers: the API client, the clock, and one mirror of each resource.

use std::sync::Arc;

use cluster_client::ClusterClient;
use jiff::Timestamp;
use object::Object;
use object::builtin;
use reconcile::{Clock, Index, Mirror, MirrorSpec, ObjectKey, Recorder};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::settings::ClusterServiceSettings;
use crate::start::ClusterServiceDeps;

/// The field manager of all writes.
pub const FIELD_MANAGER: &str = "kube-controller-manager";

const LEASE_NAMESPACE: &str = "kube-node-lease";

pub struct ClusterMirrors {
    pub client: ClusterClient,
    pub clock: Arc<dyn Clock>,
    pub settings: ClusterServiceSettings,
    pub cancel: CancellationToken,
    /// Set once every controller has received the initial pods.
    pub pods_dispatched: watch::Sender<bool>,
    pub pods: Mirror,
    pub pods_by_node: Index<String>,
    /// By the claims they mount.
    pub pods_by_claim: Index<ObjectKey>,
    pub nodes: Mirror,
    pub namespaces: Mirror,
    pub leases: Mirror,
    pub services: Mirror,
    pub slices: Mirror,
    pub slices_by_service: Index<ObjectKey>,
    pub endpoints: Mirror,
    pub budgets: Mirror,
    pub claims: Mirror,
    pub volumes: Mirror,
    pub classes: Mirror,
    pub autoscalers: Mirror,
}

impl ClusterMirrors {
    pub fn start(parts: ClusterServiceDeps, cancel: &CancellationToken) -> Arc<Self> {
        let ClusterServiceDeps { mirrors, clock, mut settings } = parts;
        // Volumes expose their path to other processes, so it must be absolute.
        if let Ok(root) = std::path::absolute(&settings.host_path_root) {
            settings.host_path_root = root;
        }
        let pods = mirrors.packed(&builtin::pods());
        let slices = mirrors.packed(&builtin::endpoint_slices());
        Arc::new(Self {
            pods_by_node: pods.index(node_of),
            pods_by_claim: pods.index(claims_of),
            pods,
            nodes: mirrors.packed(&builtin::nodes()),
            namespaces: mirrors.packed(&builtin::namespaces()),
            leases: mirrors.get(MirrorSpec::new(&builtin::leases()).packed().within(LEASE_NAMESPACE)),
            services: mirrors.packed(&builtin::services()),
            slices_by_service: slices.index(service_of),
            slices,
            endpoints: mirrors.packed(&builtin::endpoints()),
            budgets: mirrors.packed(&builtin::pod_disruption_budgets()),
            claims: mirrors.packed(&builtin::persistent_volume_claims()),
            volumes: mirrors.packed(&builtin::persistent_volumes()),
            classes: mirrors.packed(&builtin::storage_classes()),
            autoscalers: mirrors.packed(&builtin::horizontal_pod_autoscalers()),
            pods_dispatched: watch::Sender::new(false),
            client: mirrors.client().clone(),
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

fn claims_of(pod: &Object) -> Vec<ObjectKey> {
    let volumes = pod.items(&["spec", "volumes"]).iter();
    let names = volumes.filter_map(|volume| match volume["persistentVolumeClaim"]["claimName"].as_str() {
        Some(name) => Some(ObjectKey::new(pod.namespace(), name)),
        None if volume["ephemeral"].is_object() => {
            let volume = volume["name"].as_str()?;
            Some(ObjectKey::new(pod.namespace(), &format!("{}-{volume}", pod.name())))
        }
        None => None,
    });
    names.collect()
}

fn service_of(slice: &Object) -> Vec<ObjectKey> {
    match slice.label("kubernetes.io/service-name") {
        Some(service) if !service.is_empty() => vec![ObjectKey::new(slice.namespace(), service)],
        _ => Vec::new(),
    }
}

/// Parses a timestamp; `None` if it is missing or invalid.
pub fn time_at(value: &Value) -> Option<Timestamp> {
    object::time::parse(value.as_str()?)
}
