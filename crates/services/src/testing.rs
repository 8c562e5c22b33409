//! A control plane in memory for the tests of this crate.

use std::sync::Arc;
use std::time::Duration;

use api::cluster::CLUSTERS;
use api::features::Features;
use api::names::{execution_namespace, work_name};
use api::networking::{LABEL_SERVICE_ID, LABEL_SLICE_SERVICE, MULTI_CLUSTER_SERVICES};
use api::work::WORKS;
use cluster_client::testing::MemoryApi;
use cluster_client::{ListOptions, Patch, ResourceRef, WriteOptions};
use object::{GroupVersionResource, Object, conditions};
use reconcile::{Mirrors, VirtualClock};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::settings::ServiceSettings;
use crate::start::{ServiceDeps, run};

/// A control plane with running controllers, which end with it.
pub struct Stage {
    pub api: MemoryApi,
    cancel: CancellationToken,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Stage {
    /// Starts all controllers, with these clusters.
    pub fn start(clusters: &[&str]) -> Self {
        let stage = Self { api: MemoryApi::default(), cancel: CancellationToken::new() };
        for cluster in clusters {
            stage.join(cluster);
        }
        let clock = Arc::new(VirtualClock::new("2026-05-01T00:00:00Z".parse().expect("a time")));
        let parts = ServiceDeps {
            mirrors: Mirrors::new(stage.api.client(), stage.cancel.clone()),
            features: Arc::new(Features { multi_cluster_service: true, ..Features::default() }),
            clock,
            metrics: plane_metrics::PlaneMetrics::default(),
            settings: ServiceSettings::default(),
        };
        tokio::spawn(run(parts, stage.cancel.clone()));
        stage
    }

    pub fn join(&self, cluster: &str) {
        let value = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": cluster},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        self.api.seed(&CLUSTERS.gvr(), object(value));
    }

    pub fn seed_service(&self, spec: Value) {
        let service = object(json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop"}, "spec": {"selector": {"app": "web"}}}));
        self.api.seed(&object::builtin::services(), service);
        let exposed = object(json!({"apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
            "metadata": {"name": "web", "namespace": "shop", "labels": {LABEL_SERVICE_ID: "id-1"}}, "spec": spec}));
        self.api.seed(&MULTI_CLUSTER_SERVICES.gvr(), exposed);
    }

    pub fn seed_work(&self, work: Value) {
        self.api.seed(&WORKS.gvr(), object(work));
    }

    pub async fn find(&self, gvr: &GroupVersionResource, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.api.client().find(ResourceRef::namespaced(gvr, namespace, name)).await.expect("the API in memory answers")
    }

    pub async fn find_work(&self, cluster: &str, kind: &str, name: &str) -> Option<Arc<Object>> {
        self.find(&WORKS.gvr(), &execution_namespace(cluster), &work_name(kind, name, "shop")).await
    }

    pub async fn change(&self, gvr: &GroupVersionResource, namespace: &str, name: &str, patch: Value) {
        let target = ResourceRef::namespaced(gvr, namespace, name);
        self.api.client().patch(target, Patch::merge(patch), WriteOptions::default()).await.expect("patched");
    }

    pub async fn delete(&self, gvr: &GroupVersionResource, namespace: &str, name: &str) {
        let target = ResourceRef::namespaced(gvr, namespace, name);
        self.api.client().delete(target, Default::default()).await.expect("deleted");
    }

    /// `namespace/name` of all objects of a resource.
    pub async fn names(&self, gvr: &GroupVersionResource) -> Vec<String> {
        let found = self.api.client().list_all(ResourceRef::all(gvr), ListOptions::default()).await.expect("lists");
        found.items.iter().map(|object| format!("{}/{}", object.namespace(), object.name())).collect()
    }

    /// `status/reason` of a condition of the MultiClusterService.
    pub async fn condition(&self, kind: &str) -> String {
        let service = self.find(&MULTI_CLUSTER_SERVICES.gvr(), "shop", "web").await.expect("there");
        conditions::find(&service, kind).map(|c| format!("{}/{}", c.status(), c.reason())).unwrap_or_default()
    }
}

/// A Work with a slice that a member reported; `labels` say why.
pub fn collected(cluster: &str, name: &str, labels: Value, finalizers: &[&str]) -> Value {
    json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"name": work_name("EndpointSlice", name, "shop"), "namespace": execution_namespace(cluster),
            "labels": labels, "finalizers": finalizers},
        "spec": {"suspendDispatching": true, "workload": {"manifests": [
            {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": name, "namespace": "shop", "labels": {LABEL_SLICE_SERVICE: "web"}},
                "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]}]}}})
}

pub fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

/// Waits until the condition holds; time is tokio's, so a paused test does not wait.
#[track_caller]
pub fn eventually<F, C>(what: &'static str, mut condition: C) -> impl Future<Output = ()>
where
    C: FnMut() -> F,
    F: Future<Output = bool>,
{
    let place = std::panic::Location::caller();
    async move {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
        while !condition().await {
            assert!(tokio::time::Instant::now() < deadline, "{place}: not in time: {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
