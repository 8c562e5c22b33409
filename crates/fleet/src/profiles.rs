//! Publishes each Cluster as a ClusterProfile of the Cluster Inventory API, where that kind is served.
//!
//! Writes the ClusterProfiles in the namespace of clusters that name this manager, and their status. They belong to their
//! Cluster and are deleted with it. Profiles of other managers are left alone.

use std::sync::Arc;
use std::time::Duration;

use api::cluster::{CONDITION_READY, ClusterSpec};
use api::names::CLUSTER_NAMESPACE;
use cluster_client::{ResourceRef, RestMapper, WriteOptions};
use object::conditions;
use object::{GroupVersionKind, GroupVersionResource, Object};
use reconcile::{
    Change, Controller, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError, Source, commit_object, commit_status,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::plane::{FIELD_MANAGER, Plane};

const COMPONENT: &str = "cluster-profiles";
const WORKERS: usize = 1;
/// Interval for checking whether the kind is served.
const SERVED_CHECK_EVERY: Duration = Duration::from_secs(30);
/// The manager that profiles name, and their label for it.
const MANAGER: &str = "karmada";
const LABEL_MANAGER: &str = "x-k8s.io/cluster-manager";
const CONDITION_HEALTHY: &str = "ControlPlaneHealthy";

struct Profiles {
    plane: Arc<Plane>,
    profiles: Mirror,
}

fn gvr() -> GroupVersionResource {
    GroupVersionResource::new("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles")
}

/// Runs until cancelled; does nothing while the kind is not served.
pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let mut publishing: Option<CancellationToken> = None;
    loop {
        match (is_served(&plane).await, &publishing) {
            (Some(true), None) => {
                let term = cancel.child_token();
                tokio::spawn(publish(Arc::clone(&plane), term.clone()));
                publishing = Some(term);
            }
            (Some(false), Some(term)) => {
                term.cancel();
                publishing = None;
            }
            _ => {}
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(SERVED_CHECK_EVERY) => {}
        }
    }
}

/// `None` when it cannot be known now.
async fn is_served(plane: &Plane) -> Option<bool> {
    // Without a memory: a kind that is not served any more must be noticed.
    match RestMapper::new(plane.client.clone()).kind_of(&gvr()).await {
        Ok(_) => Some(true),
        Err(status) if status.is_not_found() => Some(false),
        Err(_) => None,
    }
}

async fn publish(plane: Arc<Plane>, cancel: CancellationToken) {
    tracing::info!("publishing clusters as ClusterProfiles");
    let profiles = Mirror::start(plane.client.clone(), MirrorSpec::new(&gvr()), cancel.clone());
    let sources = vec![Source::new(&plane.clusters, changed_cluster), Source::new(&profiles, cluster_of_profile)];
    let controller = Controller::new(COMPONENT).observed_by(&plane.metrics.controllers);
    let shared = Arc::new(Profiles { plane, profiles });
    let reconcile = move |key: ObjectKey| reconcile(Arc::clone(&shared), key);
    controller.run(sources, WORKERS, cancel, reconcile).await;
}

/// Heartbeats change nothing that a profile shows.
fn changed_cluster(change: &Change) -> Vec<ObjectKey> {
    if let (Some(before), Some(now)) = (&change.before, &change.now)
        && plan_profile(before) == plan_profile(now)
    {
        return Vec::new();
    }
    vec![change.key.clone()]
}

fn cluster_of_profile(change: &Change) -> Vec<ObjectKey> {
    match change.key.namespace == CLUSTER_NAMESPACE {
        true => vec![ObjectKey::new("", &change.key.name)],
        false => Vec::new(),
    }
}

async fn reconcile(shared: Arc<Profiles>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let Some(cluster) = shared.plane.clusters.get(&key).filter(|cluster| !cluster.is_deleting()) else {
        return Ok(Outcome::Done);
    };
    let client = &shared.plane.client;
    let desired = plan_profile(&cluster);
    let Some(current) = shared.profiles.get(&ObjectKey::new(CLUSTER_NAMESPACE, &key.name)) else {
        let options = WriteOptions::managed_by(FIELD_MANAGER);
        client.create(ResourceRef::within(&gvr(), CLUSTER_NAMESPACE), desired, options).await?;
        // The status follows when the new object is seen.
        return Ok(Outcome::Done);
    };
    if current.str_at(&["spec", "clusterManager", "name"]) != MANAGER {
        return Ok(Outcome::Done);
    }
    let mut wanted = Object::clone(&current);
    wanted.set_label(LABEL_MANAGER, MANAGER);
    wanted.set(&["spec", "displayName"], desired.str_at(&["spec", "displayName"]));
    wanted.set(&["status"], desired.get(&["status"]).cloned().unwrap_or_default());
    let target = shared.profiles.target(&ObjectKey::new(CLUSTER_NAMESPACE, &key.name));
    commit_object(client, target.clone(), &current, &wanted, FIELD_MANAGER).await?;
    let latest = shared.profiles.get(&ObjectKey::new(CLUSTER_NAMESPACE, &key.name)).unwrap_or(current);
    commit_status(client, target, &latest, &wanted, FIELD_MANAGER).await?;
    Ok(Outcome::Done)
}

/// The profile of a cluster.
fn plan_profile(cluster: &Object) -> Object {
    let kind = GroupVersionKind::new(&gvr().group, &gvr().version, "ClusterProfile");
    let mut profile = Object::new(&kind, Some(CLUSTER_NAMESPACE), cluster.name());
    profile.set_label(LABEL_MANAGER, MANAGER);
    profile.set(
        &["metadata", "ownerReferences"],
        json!([{"apiVersion": cluster.api_version(), "kind": cluster.kind(), "name": cluster.name(),
            "uid": cluster.uid()}]),
    );
    profile.set(&["spec"], json!({"displayName": cluster.name(), "clusterManager": {"name": MANAGER}}));
    profile.set(&["status"], plan_status(cluster));
    profile
}

fn plan_status(cluster: &Object) -> Value {
    let spec: ClusterSpec = api::read(cluster).unwrap_or_default();
    let zones = spec.zones.join(",");
    let properties = [("provider", &spec.provider), ("region", &spec.region), ("zones", &zones)];
    let properties = properties.into_iter().filter(|(_, value)| !value.is_empty());
    let properties: Vec<Value> =
        properties.map(|(name, value)| json!({"name": format!("cluster.karmada.io/{name}"), "value": value})).collect();
    let mut status = json!({"properties": properties});
    let version = cluster.str_at(&["status", "kubernetesVersion"]);
    if !version.is_empty() {
        status["version"] = json!({"kubernetes": version});
    }
    if let Some(ready) = conditions::find(cluster, CONDITION_READY) {
        status["conditions"] = json!([ready.renamed(CONDITION_HEALTHY)]);
    }
    status
}
