//! Reads the objects that belong to a described one.

use api::Resource;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use object::Object;
use object::selector::LabelSelector;

use super::kinds::{Related, SERVICE_NAME};
use super::nodes;

const PODS: Resource = Resource::namespaced("", "v1", "Pod", "pods");
const REPLICA_SETS: Resource = Resource::namespaced("apps", "v1", "ReplicaSet", "replicasets");
const ENDPOINT_SLICES: Resource = Resource::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
const SERVICES: Resource = Resource::namespaced("", "v1", "Service", "services");
const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");
/// Namespace of the leases of nodes.
const NODE_LEASES: &str = "kube-node-lease";
const QUOTAS: Resource = Resource::namespaced("", "v1", "ResourceQuota", "resourcequotas");
const LIMITS: Resource = Resource::namespaced("", "v1", "LimitRange", "limitranges");

/// Reads the objects; what may not be read is left out.
pub async fn gather(client: &ClusterClient, object: &Object) -> Related {
    let mut objects: Vec<Object> = Vec::new();
    match object.kind() {
        "ReplicaSet" | "StatefulSet" | "DaemonSet" => objects.extend(owned(client, object, &PODS).await),
        "Deployment" => objects.extend(owned(client, object, &REPLICA_SETS).await),
        "Service" => {
            let selector = format!("{SERVICE_NAME}={}", object.name());
            objects.extend(list(client, &ENDPOINT_SLICES, object.namespace(), Some(selector)).await);
        }
        "Namespace" => {
            objects.extend(list(client, &QUOTAS, object.name(), None).await);
            objects.extend(list(client, &LIMITS, object.name(), None).await);
        }
        "PersistentVolumeClaim" => objects.extend(list(client, &PODS, object.namespace(), None).await),
        "Ingress" => {
            objects.extend(list(client, &SERVICES, object.namespace(), None).await);
            objects.extend(list(client, &ENDPOINT_SLICES, object.namespace(), None).await);
        }
        "Node" => {
            objects.extend(pods_of_node(client, object.name()).await);
            let leases = list(client, &LEASES, NODE_LEASES, None).await;
            objects.extend(leases.into_iter().filter(|lease| lease.name() == object.name()));
        }
        _ => {}
    }
    Related { objects }
}

/// The pods of a node that have not ended.
async fn pods_of_node(client: &ClusterClient, node: &str) -> Vec<Object> {
    let options = ListOptions { field_selector: Some(nodes::pods_of(node)), ..ListOptions::default() };
    let list = client.list_all(ResourceRef::all(&PODS.gvr()), options).await;
    with_kind(&PODS, list.map(|list| list.items).unwrap_or_default())
}

async fn list(client: &ClusterClient, kind: &Resource, namespace: &str, selector: Option<String>) -> Vec<Object> {
    let options = ListOptions { label_selector: selector, ..ListOptions::default() };
    let list = client.list_all(ResourceRef::within(&kind.gvr(), namespace), options).await;
    with_kind(kind, list.map(|list| list.items).unwrap_or_default())
}

fn with_kind(kind: &Resource, items: Vec<std::sync::Arc<Object>>) -> Vec<Object> {
    let named = |item: &std::sync::Arc<Object>| {
        let mut item = Object::clone(item);
        item.set_gvk(&kind.gvk());
        item
    };
    items.iter().map(named).collect()
}

/// The objects of a kind that the object controls.
async fn owned(client: &ClusterClient, object: &Object, kind: &Resource) -> Vec<Object> {
    let Ok(selector) = LabelSelector::from_value(object.get(&["spec", "selector"])) else { return Vec::new() };
    let mut items = list(client, kind, object.namespace(), None).await;
    let is_owned =
        |item: &Object| item.owner_references().iter().any(|owner| owner.controller && owner.uid == object.uid());
    items.retain(|item| selector.matches(item) && is_owned(item));
    items
}
