//! A plane in memory for the tests of this crate.

use std::sync::Arc;
use std::time::Duration;

use api::features::Features;
use cluster_client::testing::MemoryApi;
use object::builtin;
use object::{GroupVersionKind, Object};
use reconcile::{Clock, Mirrors, VirtualClock};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::plane::{Plane, namespaces};
use crate::settings::Settings;
use crate::start::FleetDeps;

/// The time tests begin.
pub const NOW: &str = "2026-05-01T00:00:00Z";

pub fn plane(api: &MemoryApi, cancel: &CancellationToken, change: impl Fn(&mut Settings)) -> Arc<Plane> {
    let features = Features { failover: true, federated_quota_enforcement: true, ..Features::default() };
    plane_with(api, cancel, features, change)
}

pub fn plane_with(
    api: &MemoryApi,
    cancel: &CancellationToken,
    features: Features,
    change: impl Fn(&mut Settings),
) -> Arc<Plane> {
    let mut settings = Settings::default();
    change(&mut settings);
    let clock = Arc::new(VirtualClock::new(NOW.parse().expect("a time")));
    start(api, cancel, features, settings, clock)
}

/// With a clock of the test's own.
pub fn plane_at(api: &MemoryApi, cancel: &CancellationToken, clock: Arc<dyn Clock>) -> Arc<Plane> {
    let features = Features { failover: true, ..Features::default() };
    start(api, cancel, features, Settings::default(), clock)
}

fn start(
    api: &MemoryApi,
    cancel: &CancellationToken,
    features: Features,
    settings: Settings,
    clock: Arc<dyn Clock>,
) -> Arc<Plane> {
    let deps = FleetDeps {
        mirrors: Mirrors::new(api.client(), cancel.clone()),
        features: Arc::new(features),
        clock,
        metrics: plane_metrics::PlaneMetrics::default(),
        settings,
    };
    Plane::start(deps)
}

/// A cluster with its Ready condition.
pub fn cluster(name: &str, ready: &str) -> Object {
    let value = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "spec": {"syncMode": "Push", "impersonatorSecretRef": {"namespace": "karmada-cluster", "name": "secret"}},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "Test", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    });
    object(value)
}

pub fn object(value: serde_json::Value) -> Object {
    Object::from_value(value).expect("a map")
}

pub fn namespace(name: &str) -> Object {
    Object::new(&GroupVersionKind::new("", "v1", "Namespace"), None, name)
}

/// A cluster that takes works.
pub fn seed_member(api: &MemoryApi, name: &str) {
    api.seed(&api::cluster::CLUSTERS.gvr(), cluster(name, "True"));
    api.seed(&namespaces(), namespace(&api::names::execution_namespace(name)));
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

/// The reasons of all events so far.
pub async fn event_reasons(api: &MemoryApi) -> Vec<String> {
    let gvr = builtin::events();
    let target = cluster_client::ResourceRef::all(&gvr);
    let events = api.client().list_all(target, Default::default()).await.expect("lists").items;
    let mut reasons: Vec<String> = events.iter().map(|event| event.str_at(&["reason"]).to_owned()).collect();
    reasons.sort();
    reasons
}
