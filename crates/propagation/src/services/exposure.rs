//! Requests of a MultiClusterService: its clusters, the Works that make providers collect, the claim on its Service
//! and the binding of the Service.

use std::collections::BTreeSet;
use std::fmt;

use api::cluster::{ApiSupport, ClusterStatus};
use api::names::binding_name;
use api::networking::{
    LABEL_SERVICE_ID, MULTI_CLUSTER_SERVICES, SERVICE_NAME, SERVICE_NAMESPACE, ServiceSpec, TYPE_CROSS_CLUSTER,
};
use api::work::{FINALIZER_BINDING, LABEL_BINDING_MANAGED_BY, LABEL_CLAIMED_BY, RESOURCE_BINDINGS};
use object::{Object, Status};
use serde_json::{Value, json};

use crate::binding::{BindingPlan, replace, resource_reference};
use crate::claim::{remove_entry, unclaim};
use crate::policy::Scope;
use crate::services::{SLICE_KIND, SLICE_VERSION};
use crate::works::DesiredWork;

/// The part a cluster plays for a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Provider,
    Consumer,
}

/// The reason a cluster takes no part for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Absence {
    NotFound,
    NotReady,
    /// It does not serve EndpointSlices.
    Incompatible,
}

/// The clusters of a MultiClusterService.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clusters {
    pub providers: BTreeSet<String>,
    pub consumers: BTreeSet<String>,
}

/// Reports whether the type is the one that is handled here; other types are left to external load balancers.
pub fn is_cross_cluster(service: &Object) -> bool {
    service.items(&["spec", "types"]).iter().any(|ty| ty == TYPE_CROSS_CLUSTER)
}

impl Clusters {
    /// Reads the clusters of a service; an empty list stands for all clusters.
    pub fn of(service: &Object, all: &BTreeSet<String>) -> Result<Self, Status> {
        let spec: ServiceSpec = api::read(service)?;
        let named = |list: Vec<api::networking::ClusterSelector>| match list.is_empty() {
            true => all.clone(),
            false => list.into_iter().map(|cluster| cluster.name).collect(),
        };
        Ok(Self { providers: named(spec.provider_clusters), consumers: named(spec.consumer_clusters) })
    }

    /// All clusters the Service itself goes to.
    pub fn members(&self) -> BTreeSet<&str> {
        self.providers.union(&self.consumers).map(String::as_str).collect()
    }
}

/// Reports whether a change of a cluster may concern the service.
pub fn concerns(service: &Object, cluster: &str) -> bool {
    let names = |field: &str| {
        let named = service.items(&["spec", field]);
        named.is_empty() || named.iter().any(|selector| selector["name"] == cluster)
    };
    is_cross_cluster(service) && (names("providerClusters") || names("consumerClusters"))
}

/// Checks that a cluster can take part.
pub fn check_cluster(cluster: Option<&Object>) -> Result<(), Absence> {
    let Some(cluster) = cluster else { return Err(Absence::NotFound) };
    let status: ClusterStatus = api::read_at(cluster, &["status"]).unwrap_or_default();
    if !status.is_ready() {
        return Err(Absence::NotReady);
    }
    match status.api_support(SLICE_VERSION, SLICE_KIND) {
        ApiSupport::Disabled => Err(Absence::Incompatible),
        ApiSupport::Enabled | ApiSupport::Unknown => Ok(()),
    }
}

impl Absence {
    /// Reason of the event, as in Karmada.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "ClusterNotFound",
            Self::NotReady => "SyncServiceFailed",
            Self::Incompatible => "APIIncompatible",
        }
    }

    /// Message of the event, as in Karmada.
    pub fn message(self, role: Role, cluster: &str) -> String {
        let skipped = match role {
            Role::Provider => "MultiClusterService",
            Role::Consumer => "EndpointSlice",
        };
        match self {
            Self::NotFound => format!("{role} cluster {cluster} is not found"),
            Self::NotReady => format!("{role} cluster {cluster} is not ready, skip to propagate {skipped}"),
            Self::Incompatible => format!("{role} cluster {cluster} does not support EndpointSlice"),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Provider => "Provider",
            Self::Consumer => "Consumer",
        })
    }
}

/// The Work that makes a provider collect the slices of a service. It is never dispatched.
pub fn provider_work(service: &Object, cluster: &str) -> DesiredWork {
    let mut work = DesiredWork::new(cluster, service.clone());
    work.finalizers.clear();
    work.suspend_dispatching = Some(true);
    work.labels = [
        (LABEL_SERVICE_ID, service.label(LABEL_SERVICE_ID).unwrap_or_default()),
        (SERVICE_NAMESPACE, service.namespace()),
        (SERVICE_NAME, service.name()),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    work
}

/// Reports whether a Work makes its member collect the slices of a service.
pub fn carries_service(work: &Object) -> bool {
    carries(work, &MULTI_CLUSTER_SERVICES)
}

pub(crate) fn carries(work: &Object, resource: &api::Resource) -> bool {
    let manifests = work.items(&["spec", "workload", "manifests"]);
    let is_it =
        |manifest: &Value| manifest["kind"] == resource.kind && manifest["apiVersion"] == resource.api_version();
    manifests.iter().any(is_it)
}

/// Marks a Service as propagated by its MultiClusterService rather than by a policy.
pub fn claim_service(service: &mut Object, owner: &Object) {
    unclaim(service, Scope::Namespaced);
    unclaim(service, Scope::Cluster);
    service.set_label(LABEL_CLAIMED_BY, owner.kind());
    service.set_label(LABEL_SERVICE_ID, owner.label(LABEL_SERVICE_ID).unwrap_or_default());
    service.set_annotation(SERVICE_NAME, owner.name());
    service.set_annotation(SERVICE_NAMESPACE, owner.namespace());
}

/// Takes the mark off again; the annotations stay, as in Karmada.
pub fn release_service(service: &mut Object) {
    remove_entry(service, "labels", LABEL_CLAIMED_BY);
    remove_entry(service, "labels", LABEL_SERVICE_ID);
}

/// Reports whether a Service or its binding is marked as this MultiClusterService's.
pub fn is_claimed(object: &Object, owner: &Object) -> bool {
    object.label(LABEL_SERVICE_ID) == owner.label(LABEL_SERVICE_ID)
}

/// Leaves the binding of a released Service in place, as that of a deleted policy.
pub fn release_binding(binding: &mut Object) {
    remove_entry(binding, "annotations", SERVICE_NAME);
    remove_entry(binding, "annotations", SERVICE_NAMESPACE);
    remove_entry(binding, "labels", LABEL_BINDING_MANAGED_BY);
    remove_entry(binding, "labels", LABEL_SERVICE_ID);
}

/// The binding that takes the Service to providers and consumers.
pub fn desired_binding(service: &Object, owner: &Object, clusters: &Clusters) -> Object {
    let mut binding = RESOURCE_BINDINGS.object(service.namespace(), &binding_name(service.kind(), service.name()));
    binding.set_annotation(SERVICE_NAME, owner.name());
    binding.set_annotation(SERVICE_NAMESPACE, owner.namespace());
    binding.set_label(LABEL_BINDING_MANAGED_BY, owner.kind());
    binding.set_label(LABEL_SERVICE_ID, owner.label(LABEL_SERVICE_ID).unwrap_or_default());
    binding.set(&["metadata", "finalizers"], json!([FINALIZER_BINDING]));
    let reference = json!([{"apiVersion": service.api_version(), "kind": service.kind(), "name": service.name(),
        "uid": service.uid()}]);
    binding.set(&["metadata", "ownerReferences"], reference);
    let placement = json!({"clusterAffinity": {"clusterNames": clusters.members()}});
    let spec = json!({"resource": resource_reference(service), "placement": placement,
        "conflictResolution": "Overwrite"});
    binding.set(&["spec"], spec);
    binding
}

/// Plans the change from the existing binding to the desired one; the scheduling result is left alone.
pub fn plan_binding(desired: Object, existing: Option<&Object>) -> BindingPlan {
    let Some(existing) = existing else { return BindingPlan::Create(desired) };
    let owner = existing.owner_references().into_iter().find(|owner| owner.controller);
    let wanted = desired.owner_references().into_iter().next().map(|owner| owner.uid);
    if owner.is_some_and(|owner| Some(owner.uid) != wanted) {
        return BindingPlan::WaitForCollection;
    }
    if existing.is_deleting() {
        return BindingPlan::WaitForDeletion;
    }
    let mut merged = existing.clone();
    for (key, value) in desired.annotations() {
        merged.set_annotation(key, value);
    }
    for (key, value) in desired.labels() {
        merged.set_label(key, value);
    }
    // A binding that a policy made before is no longer the policy's.
    unclaim(&mut merged, Scope::Namespaced);
    unclaim(&mut merged, Scope::Cluster);
    merged.add_finalizer(FINALIZER_BINDING);
    for path in
        [["metadata", "ownerReferences"], ["spec", "placement"], ["spec", "resource"], ["spec", "conflictResolution"]]
    {
        replace(&mut merged, &desired, &path);
    }
    match merged == *existing {
        true => BindingPlan::Unchanged,
        false => BindingPlan::Update(merged, vec!["spec"]),
    }
}

#[cfg(test)]
mod tests;
