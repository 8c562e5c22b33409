//! A control plane whose members are only objects, over an in-memory API with virtual time.

use std::sync::Arc;
use std::time::Duration;

use api::cluster::CLUSTERS;
use api::features::Features;
use api::work::RESOURCE_BINDINGS;
use binding_scheduling::{Decisions, SchedulingDeps, SchedulingSettings};
use cluster_client::testing::MemoryApi;
use cluster_client::{ClusterClient, ListOptions, Patch, ResourceRef, WriteOptions};
use object::request::Subresource;
use object::{GroupVersionResource, Object};
use plane_metrics::PlaneMetrics;
use plane_state::MemberCapacity;
use reconcile::{Mirrors, VirtualClock};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub struct TestPlane {
    pub api: MemoryApi,
    pub client: ClusterClient,
    pub member_capacity: MemberCapacity,
    pub decisions: Decisions,
    pub metrics: PlaneMetrics,
    pub cancel: CancellationToken,
}

impl Drop for TestPlane {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl TestPlane {
    pub fn new() -> Self {
        Self::new_over(MemoryApi::default())
    }

    pub fn new_over(api: MemoryApi) -> Self {
        Self {
            client: api.client(),
            api,
            member_capacity: MemberCapacity::default(),
            decisions: Decisions::default(),
            metrics: PlaneMetrics::default(),
            cancel: CancellationToken::new(),
        }
    }

    pub fn start(&self, features: &str) {
        let parts = SchedulingDeps {
            mirrors: Mirrors::new(self.client.clone(), self.cancel.clone()),
            member_capacity: self.member_capacity.clone(),
            decisions: self.decisions.clone(),
            features: Arc::new(Features::parse(features).expect("features")),
            clock: Arc::new(VirtualClock::new("2026-01-01T00:00:00Z".parse().expect("a time"))),
            metrics: self.metrics.clone(),
            settings: SchedulingSettings::default(),
        };
        tokio::spawn(binding_scheduling::run(parts, self.cancel.clone()));
    }

    pub fn cluster(&self, name: &str, pods: i32, change: Value) {
        let mut cluster = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name, "generation": 1},
            "spec": {"syncMode": "Push"},
            "status": {
                "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
                "resourceSummary": {"allocatable": {"pods": pods.to_string()}},
            },
        });
        merge(&mut cluster, &change);
        self.api.seed(&CLUSTERS.gvr(), Object::from_value(cluster).expect("a map"));
    }

    pub fn binding(&self, name: &str, replicas: i32, change: Value) {
        let mut binding = json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {
                "name": name, "namespace": "default", "generation": 1,
                "labels": {"propagationpolicy.karmada.io/permanent-id": "id"},
            },
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": name},
                "replicas": replicas, "replicaRequirements": {},
                "placement": {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}},
            },
        });
        merge(&mut binding, &change);
        self.api.seed(&RESOURCE_BINDINGS.gvr(), Object::from_value(binding).expect("a map"));
    }

    pub async fn get(&self, name: &str) -> Arc<Object> {
        let target = ResourceRef::namespaced(&RESOURCE_BINDINGS.gvr(), "default", name);
        self.client.get(target).await.expect("it is there")
    }

    pub async fn patch(&self, gvr: &GroupVersionResource, name: &str, body: Value) {
        let target = match gvr == &CLUSTERS.gvr() {
            true => ResourceRef::cluster(gvr, name),
            false => ResourceRef::namespaced(gvr, "default", name),
        };
        let target = if body.get("status").is_some() { target.subresource(Subresource::Status) } else { target };
        self.client.patch(target, Patch::merge(body), WriteOptions::default()).await.expect("patched");
    }

    /// Waits until the clusters and condition of the binding read `m1:2, m2:1 (Reason)`.
    #[track_caller]
    pub fn expect(&self, name: &str, expected: &str) -> impl Future<Output = Arc<Object>> {
        let caller = std::panic::Location::caller();
        async move {
            let deadline = Instant::now() + Duration::from_secs(1200);
            loop {
                let binding = self.get(name).await;
                let seen = summary(&binding);
                if seen == expected {
                    return binding;
                }
                assert!(Instant::now() < deadline, "{caller}: {name} is {seen:?} and not {expected:?}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    /// Waits until all tasks are idle; only then does virtual time advance.
    pub async fn rest(&self) {
        tokio::time::sleep(Duration::from_secs(30)).await;
    }

    pub fn writes(&self, resource: &str) -> usize {
        self.api.calls().iter().filter(|call| call.starts_with("patch ") && call.contains(resource)).count()
    }

    pub async fn events(&self) -> Vec<String> {
        let events = ResourceRef::all(&GroupVersionResource::new("", "v1", "events"));
        let list = self.client.list(events, ListOptions::default()).await.expect("events");
        let mut texts: Vec<String> = list
            .items
            .iter()
            .map(|event| {
                let about = event.str_at(&["involvedObject", "kind"]);
                format!("{about} {}: {}", event.str_at(&["reason"]), event.str_at(&["message"]))
            })
            .collect();
        texts.sort();
        texts
    }
}

pub fn merge(target: &mut Value, change: &Value) {
    match (target, change) {
        (Value::Object(target), Value::Object(change)) => {
            for (key, value) in change {
                merge(target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (target, change) => *target = change.clone(),
    }
}

pub fn summary(binding: &Object) -> String {
    let clusters: Vec<String> = binding
        .items(&["spec", "clusters"])
        .iter()
        .map(|target| {
            format!("{}:{}", target["name"].as_str().unwrap_or_default(), target["replicas"].as_i64().unwrap_or(0))
        })
        .collect();
    let conditions = binding.items(&["status", "conditions"]);
    let scheduled = conditions.iter().find(|condition| condition["type"] == "Scheduled");
    format!("{} ({})", clusters.join(", "), scheduled.map_or("", |own| own["reason"].as_str().unwrap_or_default()))
}

pub fn dynamic() -> Value {
    json!({"spec": {"placement": {"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }}}})
}
