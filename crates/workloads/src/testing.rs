//! An in-memory cluster for tests: runs the controllers, the test sets the state of pods.

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

use crate::start::{WorkloadDeps, run};

pub const NAMESPACE: &str = "default";

pub struct WorkloadsTestbed {
    pub api: MemoryApi,
    pub client: ClusterClient,
    pub clock: Arc<dyn Clock>,
    _running: DropGuard,
}

impl WorkloadsTestbed {
    /// Starts the controllers; requires paused time.
    pub async fn start() -> Self {
        let api = MemoryApi::default();
        let client = api.client();
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new("2026-01-01T00:00:00Z".parse().expect("a time")));
        let cancel = CancellationToken::new();
        let mirrors = Mirrors::new(client.clone(), cancel.clone());
        tokio::spawn(run(WorkloadDeps { mirrors, clock: Arc::clone(&clock) }, cancel.clone()));
        let testbed = Self { api, client, clock, _running: cancel.drop_guard() };
        testbed.settle().await;
        testbed
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

    pub async fn create(&self, gvr: &GroupVersionResource, mut value: Value) -> Arc<Object> {
        if gvr.resource != "nodes" {
            value["metadata"]["namespace"] = NAMESPACE.into();
        }
        let object = self.api.seed(gvr, Object::from_value(value).expect("a map"));
        self.settle().await;
        object
    }

    pub async fn get(&self, gvr: &GroupVersionResource, name: &str) -> Arc<Object> {
        self.find(gvr, name).await.expect("it exists")
    }

    pub async fn find(&self, gvr: &GroupVersionResource, name: &str) -> Option<Arc<Object>> {
        self.client.find(ResourceRef::namespaced(gvr, NAMESPACE, name)).await.expect("answers")
    }

    pub async fn status(&self, gvr: &GroupVersionResource, name: &str) -> Value {
        self.get(gvr, name).await.get(&["status"]).cloned().unwrap_or_default()
    }

    pub async fn list(&self, gvr: &GroupVersionResource) -> Vec<Arc<Object>> {
        self.client.list_all(ResourceRef::all(gvr), Default::default()).await.expect("lists").items
    }

    pub async fn pods(&self) -> Vec<Arc<Object>> {
        self.list(&builtin::pods()).await
    }

    pub async fn pod_names(&self) -> String {
        let names: Vec<String> = self.pods().await.iter().map(|pod| pod.name().to_owned()).collect();
        names.join(" ")
    }

    pub async fn patch(&self, gvr: &GroupVersionResource, name: &str, body: Value) {
        let target = ResourceRef::namespaced(gvr, NAMESPACE, name);
        self.client.patch(target, Patch::merge(body), WriteOptions::default()).await.expect("patched");
        self.settle().await;
    }

    pub async fn set_pod_status(&self, name: &str, status: Value) {
        let target = ResourceRef::namespaced(&builtin::pods(), NAMESPACE, name).subresource(Subresource::Status);
        let body = json!({"status": status});
        self.client.patch(target, Patch::merge(body), WriteOptions::default()).await.expect("patched");
    }

    pub async fn delete(&self, gvr: &GroupVersionResource, name: &str) {
        let target = ResourceRef::namespaced(gvr, NAMESPACE, name);
        self.client.delete(target, DeleteOptions::default()).await.expect("deleted");
        self.settle().await;
    }

    pub fn running(&self) -> Value {
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True",
            "lastTransitionTime": self.now()}]})
    }

    /// Makes all other pods running and ready; returns true if there was one.
    pub async fn ready_all(&self) -> bool {
        let mut any = false;
        for pod in self.pods().await {
            if pod.str_at(&["status", "phase"]).is_empty() && !pod.is_deleting() {
                self.set_pod_status(pod.name(), self.running()).await;
                any = true;
            }
        }
        self.settle().await;
        any
    }

    /// Makes pods ready until no new ones appear.
    pub async fn roll_out(&self) {
        for _ in 0..50 {
            if !self.ready_all().await {
                return;
            }
        }
        panic!("pods keep coming: {}", self.pod_names().await);
    }

    /// Returns `Reason: message` of all events about an object of that kind, in order.
    pub async fn events(&self, kind: &str) -> Vec<String> {
        let gvr = builtin::events();
        let mut events = self.list(&gvr).await;
        events.sort_by_key(|event| event.resource_version().parse::<u64>().unwrap_or(0));
        let about = events.iter().filter(|event| event.str_at(&["involvedObject", "kind"]) == kind);
        about.map(|event| format!("{}: {}", event.str_at(&["reason"]), event.str_at(&["message"]))).collect()
    }
}

/// A template with one container.
pub fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "main", "image": image}]}})
}
