//! An in-memory cluster for tests: runs the controllers, the test sets the state of nodes and pods.

use std::sync::Arc;
use std::time::Duration;

use cluster_client::testing::MemoryApi;
use cluster_client::{ClusterClient, DeleteOptions, Patch, ResourceRef, WriteOptions};
use object::builtin;
use object::request::Subresource;
use object::{GroupVersionResource, Object, time};
use reconcile::{Clock, Mirrors, VirtualClock};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::settings::ClusterServiceSettings;
use crate::start::{ClusterServiceDeps, run};

pub const NAMESPACE: &str = "default";

pub struct ServicesTestbed {
    pub api: MemoryApi,
    pub client: ClusterClient,
    pub clock: Arc<dyn Clock>,
    _running: DropGuard,
}

impl ServicesTestbed {
    /// Starts the controllers; requires paused time.
    pub async fn start() -> Self {
        Self::start_with(ClusterServiceSettings::default(), |_| {}).await
    }

    /// Starts them with existing objects.
    pub async fn start_with(settings: ClusterServiceSettings, seed: impl FnOnce(&MemoryApi)) -> Self {
        let api = MemoryApi::default();
        seed(&api);
        let client = api.client();
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new("2026-01-01T00:00:00Z".parse().expect("a time")));
        let cancel = CancellationToken::new();
        let mirrors = Mirrors::new(client.clone(), cancel.clone());
        let parts = ClusterServiceDeps { mirrors, clock: Arc::clone(&clock), settings };
        tokio::spawn(run(parts, cancel.clone()));
        let testbed = Self { api, client, clock, _running: cancel.drop_guard() };
        testbed.settle().await;
        testbed
    }

    /// Creates a node that sends heartbeats until the test ends.
    pub async fn create_living_node(&self, name: &'static str) {
        self.create(&builtin::nodes(), node(name)).await;
        let (api, clock) = (self.api.clone(), Arc::clone(&self.clock));
        tokio::spawn(async move {
            loop {
                let at = time::format_micros(clock.now());
                let metadata = json!({"name": name, "namespace": "kube-node-lease"});
                seed(&api, &builtin::leases(), json!({"metadata": metadata, "spec": {"renewTime": at}}));
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
        });
    }

    /// Runs everything that does not wait for a later time. Time is paused, so this does not wait in real time.
    pub async fn settle(&self) {
        self.pass(Duration::from_millis(900)).await;
    }

    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    pub fn now(&self) -> String {
        time::format_seconds(self.clock.now())
    }

    pub fn seed(&self, gvr: &GroupVersionResource, value: Value) -> Arc<Object> {
        seed(&self.api, gvr, value)
    }

    pub async fn create(&self, gvr: &GroupVersionResource, value: Value) -> Arc<Object> {
        let object = self.seed(gvr, value);
        self.settle().await;
        object
    }

    pub async fn find(&self, gvr: &GroupVersionResource, name: &str) -> Option<Arc<Object>> {
        self.client.find(target(gvr, name)).await.expect("answers")
    }

    pub async fn get(&self, gvr: &GroupVersionResource, name: &str) -> Arc<Object> {
        self.find(gvr, name).await.unwrap_or_else(|| panic!("{} {name} exists", gvr.resource))
    }

    pub async fn list(&self, gvr: &GroupVersionResource) -> Vec<Arc<Object>> {
        self.client.list_all(ResourceRef::all(gvr), Default::default()).await.expect("lists").items
    }

    pub async fn patch(&self, gvr: &GroupVersionResource, name: &str, body: Value) {
        self.client.patch(target(gvr, name), Patch::merge(body), WriteOptions::default()).await.expect("patched");
        self.settle().await;
    }

    pub async fn patch_status(&self, gvr: &GroupVersionResource, name: &str, status: Value) {
        let body = json!({"status": status});
        let target = target(gvr, name).subresource(Subresource::Status);
        self.client.patch(target, Patch::merge(body), WriteOptions::default()).await.expect("patched");
        self.settle().await;
    }

    pub async fn delete(&self, gvr: &GroupVersionResource, name: &str) {
        self.client.delete(target(gvr, name), DeleteOptions::default()).await.expect("deleted");
        self.settle().await;
    }

    /// Returns the node of a pod; empty while it has none.
    pub async fn node_of(&self, pod: &str) -> String {
        self.get(&builtin::pods(), pod).await.str_at(&["spec", "nodeName"]).to_owned()
    }

    /// Returns `Reason: message` of all events about an object of that name, in order.
    pub async fn events(&self, name: &str) -> Vec<String> {
        let gvr = builtin::events();
        let mut events = self.list(&gvr).await;
        events.sort_by_key(|event| event.resource_version().parse::<u64>().unwrap_or(0));
        let about = events.iter().filter(|event| event.str_at(&["involvedObject", "name"]) == name);
        about.map(|event| format!("{}: {}", event.str_at(&["reason"]), event.str_at(&["message"]))).collect()
    }

    /// Returns a condition as `status reason`.
    pub async fn condition(&self, gvr: &GroupVersionResource, name: &str, kind: &str) -> String {
        let object = self.get(gvr, name).await;
        let Some(condition) = object::conditions::find(&object, kind) else { return String::new() };
        format!("{} {}", condition.status(), condition.reason()).trim().to_owned()
    }
}

pub fn seed(api: &MemoryApi, gvr: &GroupVersionResource, mut value: Value) -> Arc<Object> {
    if is_namespaced(gvr) && value["metadata"]["namespace"].is_null() {
        value["metadata"]["namespace"] = NAMESPACE.into();
    }
    let (api_version, kind) = kind_of(gvr);
    value["apiVersion"] = api_version.into();
    value["kind"] = kind.into();
    api.seed(gvr, Object::from_value(value).expect("a map"))
}

fn is_namespaced(gvr: &GroupVersionResource) -> bool {
    !matches!(gvr.resource.as_str(), "nodes" | "namespaces" | "persistentvolumes" | "storageclasses")
}

fn kind_of(gvr: &GroupVersionResource) -> (String, &'static str) {
    let kind = match gvr.resource.as_str() {
        "pods" if gvr.group == "metrics.k8s.io" => "PodMetrics",
        "pods" => "Pod",
        "nodes" => "Node",
        "namespaces" => "Namespace",
        "services" => "Service",
        "endpoints" => "Endpoints",
        "persistentvolumeclaims" => "PersistentVolumeClaim",
        "persistentvolumes" => "PersistentVolume",
        "endpointslices" => "EndpointSlice",
        "storageclasses" => "StorageClass",
        "poddisruptionbudgets" => "PodDisruptionBudget",
        "leases" => "Lease",
        "horizontalpodautoscalers" => "HorizontalPodAutoscaler",
        "deployments" => "Deployment",
        "replicasets" => "ReplicaSet",
        other => panic!("no kind for {other}"),
    };
    (gvr.group_version().to_string(), kind)
}

fn target(gvr: &GroupVersionResource, name: &str) -> ResourceRef {
    match is_namespaced(gvr) {
        true => ResourceRef::namespaced(gvr, NAMESPACE, name),
        false => ResourceRef::cluster(gvr, name),
    }
}

/// A healthy node with four cpus.
pub fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]}})
}

/// A pod that requests some cpu.
pub fn pod(name: &str, cpu: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"schedulerName": "default-scheduler",
        "containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}})
}

/// The same on a node, ready or not.
pub fn running(name: &str, node: &str, ready: bool) -> Value {
    let mut pod = pod(name, "100m");
    pod["spec"]["nodeName"] = node.into();
    let address = name.bytes().map(u32::from).sum::<u32>() % 250 + 1;
    let ready = if ready { "True" } else { "False" };
    pod["status"] = json!({"phase": "Running", "podIP": format!("10.1.0.{address}"),
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    pod
}
