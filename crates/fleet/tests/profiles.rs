//! ClusterProfiles follow Clusters where the kind is served.

use std::sync::Arc;
use std::time::Duration;

use api::cluster::CLUSTERS;
use api::features::Features;
use api::names::CLUSTER_NAMESPACE;
use cluster_client::ResourceRef;
use cluster_client::testing::MemoryApi;
use fleet::settings::Controllers;
use fleet::{FleetDeps, Settings};
use object::{GroupVersionResource, Object};
use reconcile::{Mirrors, SystemClock};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(600);

fn profiles() -> GroupVersionResource {
    GroupVersionResource::new("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles")
}

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

fn cluster(name: &str, ready: &str) -> Object {
    object(json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "spec": {"syncMode": "Push", "region": "north"},
        "status": {"kubernetesVersion": "v1.36.4", "conditions": [{"type": "Ready", "status": ready, "reason": "R",
            "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
}

fn profile(name: &str, manager: &str) -> Object {
    object(json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
        "metadata": {"namespace": CLUSTER_NAMESPACE, "name": name}, "spec": {"clusterManager": {"name": manager}}}))
}

/// Starts no other controller of the crate.
fn start(api: &MemoryApi) -> CancellationToken {
    let cancel = CancellationToken::new();
    let parts = FleetDeps {
        mirrors: Mirrors::new(api.client(), cancel.clone()),
        features: Arc::new(Features::default()),
        clock: Arc::new(SystemClock),
        metrics: plane_metrics::PlaneMetrics::default(),
        settings: Settings { controllers: Controllers::parse(""), ..Settings::default() },
    };
    tokio::spawn(fleet::run(parts, cancel.clone()));
    cancel
}

async fn find(api: &MemoryApi, name: &str) -> Option<Arc<Object>> {
    let target = ResourceRef::namespaced(&profiles(), CLUSTER_NAMESPACE, name);
    api.client().find(target).await.ok().flatten()
}

async fn until(api: &MemoryApi, name: &str, is_so: impl Fn(&Object) -> bool) -> Arc<Object> {
    let waiting = async {
        loop {
            match find(api, name).await {
                Some(found) if is_so(&found) => return found,
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(LIMIT, waiting).await.expect("in time")
}

#[tokio::test(start_paused = true)]
async fn each_cluster_has_a_profile_that_follows_it() {
    let api = MemoryApi::default();
    let stored = api.seed(&CLUSTERS.gvr(), cluster("m1", "True"));
    // The API in memory serves the kinds it has seen.
    api.seed(&profiles(), profile("other", "another-manager"));
    let cancel = start(&api);
    let healthy = |status: &'static str| {
        move |found: &Object| {
            found.get(&["status", "conditions"]).is_some_and(|conditions| conditions[0]["status"] == status)
        }
    };
    let found = until(&api, "m1", healthy("True")).await;
    assert_eq!(found.get(&["spec"]), Some(&json!({"displayName": "m1", "clusterManager": {"name": "karmada"}})));
    assert_eq!(found.label("x-k8s.io/cluster-manager"), Some("karmada"));
    assert_eq!(
        found.get(&["metadata", "ownerReferences"]).map(|owners| owners[0]["uid"].clone()),
        Some(stored.uid().into())
    );
    assert_eq!(found.str_at(&["status", "version", "kubernetes"]), "v1.36.4");
    assert_eq!(
        found.get(&["status", "properties"]),
        Some(&json!([{"name": "cluster.karmada.io/region", "value": "north"}]))
    );
    let condition = found.get(&["status", "conditions"]).map(|conditions| conditions[0]["type"].clone());
    assert_eq!(condition, Some("ControlPlaneHealthy".into()));
    api.seed(&CLUSTERS.gvr(), cluster("m1", "False"));
    until(&api, "m1", healthy("False")).await;
    cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn profiles_of_other_managers_stay_and_without_the_kind_nothing_is_written() {
    let api = MemoryApi::default();
    api.seed(&CLUSTERS.gvr(), cluster("m1", "True"));
    let cancel = start(&api);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(find(&api, "m1").await.is_none(), "the kind is not served");
    let other = api.seed(&profiles(), profile("m1", "another-manager"));
    api.seed(&CLUSTERS.gvr(), cluster("m2", "True"));
    until(&api, "m2", |_| true).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let found = find(&api, "m1").await.expect("still there");
    assert_eq!(found.resource_version(), other.resource_version());
    cancel.cancel();
}
