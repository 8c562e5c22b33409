//! Deletes the content of a namespace, resource by resource, and reports the rest.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster_client::{
    ApiResource, ApiResources, ClusterClient, DeleteOptions, ListOptions, ObjectList, PropagationPolicy, ResourceRef,
};
use futures::StreamExt;
use object::request::Verb;
use object::{GroupVersion, GroupVersionResource, Status};

use super::aggregated;

/// Timeout per resource; its server may be unavailable.
const RESOURCE_TIMEOUT: Duration = Duration::from_secs(10);
/// Resources processed concurrently, so that a slow one delays only itself.
const RESOURCES_AT_ONCE: usize = 16;

/// The content that a pass over a namespace could not remove.
#[derive(Debug, Default, PartialEq)]
pub struct RemainingContent {
    /// Discovery as a whole failed.
    pub discovery_error: Option<String>,
    /// Groups in discovery whose server did not answer.
    pub groups_unknown: Vec<GroupVersion>,
    pub errors: Vec<String>,
    pub objects: BTreeMap<GroupVersionResource, usize>,
    pub finalizers: BTreeMap<String, usize>,
}

impl RemainingContent {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, resource: &ApiResource, result: Result<ObjectList, Status>) {
        match result {
            Ok(list) => {
                if !list.items.is_empty() {
                    self.objects.insert(resource.gvr.clone(), list.items.len());
                }
                for finalizer in list.items.iter().flat_map(|object| object.finalizers()) {
                    *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
                }
            }
            Err(status) => self.errors.push(status.message),
        }
    }
}

/// Deletes all deletable content of the namespace, in steps.
pub async fn remove(client: &ClusterClient, namespace: &str) -> RemainingContent {
    let mut left = RemainingContent::default();
    let found = match ApiResources::discover(client).await {
        Ok(found) => found,
        Err(status) => {
            left.discovery_error = Some(status.message);
            return left;
        }
    };
    left.groups_unknown.clone_from(&found.incomplete);
    for resources in steps(plan_removal(found)) {
        let removals = resources.into_iter().map(|resource| async move {
            let removed = tokio::time::timeout(RESOURCE_TIMEOUT, remove_all(client, &resource, namespace)).await;
            let timed_out = || Status::timeout(format!("deleting all {} took too long", resource.gvr.resource));
            let removed = removed.unwrap_or_else(|_| Err(timed_out()));
            (resource, removed)
        });
        let mut removals = futures::stream::iter(removals).buffer_unordered(RESOURCES_AT_ONCE);
        while let Some((resource, removed)) = removals.next().await {
            left.add(&resource, removed);
        }
        if !left.objects.is_empty() {
            break;
        }
    }
    left.errors.sort();
    left
}

/// Returns one version of each resource that supports list and delete.
fn plan_removal(found: ApiResources) -> Vec<ApiResource> {
    let mut planned: Vec<ApiResource> = Vec::new();
    for resource in found.resources {
        let is_wanted = resource.namespaced && resource.has_verb(Verb::Delete) && resource.has_verb(Verb::List);
        let is_known = planned.iter().any(|p| p.gvr.group_resource() == resource.gvr.group_resource());
        if is_wanted && !is_known {
            planned.push(resource);
        }
    }
    planned
}

/// Pods are deleted first, because they use other objects. RBAC objects are deleted last: components that run
/// finalizers, such as the agent of a cluster for its Works, still need their permissions.
fn steps(planned: Vec<ApiResource>) -> [Vec<ApiResource>; 3] {
    let mut steps = [const { Vec::new() }; 3];
    for resource in planned {
        let step = match (resource.gvr.group.as_str(), resource.gvr.resource.as_str()) {
            ("", "pods") => 0,
            ("rbac.authorization.k8s.io", _) => 2,
            _ => 1,
        };
        steps[step].push(resource);
    }
    steps
}

async fn remove_all(client: &ClusterClient, resource: &ApiResource, namespace: &str) -> Result<ObjectList, Status> {
    let within = ResourceRef::within(&resource.gvr, namespace);
    let options = DeleteOptions { propagation_policy: Some(PropagationPolicy::Background), ..DeleteOptions::default() };
    let list = || client.list_all(within.clone(), ListOptions::default());
    let present = match list().await {
        Err(status) if status.is_not_found() => return aggregated::remove_all(client, resource, namespace).await,
        present => present?,
    };
    if present.items.is_empty() {
        return Ok(present);
    }
    if resource.has_verb(Verb::DeleteCollection) {
        client.delete_collection(within.clone(), options, ListOptions::default()).await?;
    } else {
        for object in &present.items {
            match client.delete(ResourceRef::of(&resource.gvr, object), options.clone()).await {
                Err(status) if !status.is_not_found() => return Err(status),
                _ => {}
            }
        }
    }
    list().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::builtin;

    fn resource(group: &str, version: &str, name: &str, namespaced: bool, verbs: &[&str]) -> ApiResource {
        ApiResource {
            gvr: GroupVersionResource::new(group, version, name),
            namespaced,
            verbs: verbs.iter().map(|v| (*v).to_owned()).collect(),
            ..ApiResource::default()
        }
    }

    #[test]
    fn each_resource_is_deleted_in_one_version_only() {
        let all = ["list", "delete", "deletecollection"];
        let found = ApiResources {
            resources: vec![
                resource("", "v1", "pods", true, &all),
                resource("", "v1", "nodes", false, &all),
                resource("", "v1", "bindings", true, &["create"]),
                resource("autoscaling", "v2", "horizontalpodautoscalers", true, &all),
                resource("autoscaling", "v1", "horizontalpodautoscalers", true, &all),
            ],
            incomplete: Vec::new(),
        };
        let planned: Vec<String> = plan_removal(found).into_iter().map(|r| r.gvr.to_string()).collect();
        let expected = [builtin::pods().to_string(), builtin::horizontal_pod_autoscalers().to_string()];
        assert_eq!(planned, expected);
    }

    #[test]
    fn pods_are_deleted_first_and_rbac_last() {
        let planned =
            [("rbac.authorization.k8s.io", "roles"), ("work.karmada.io", "works"), ("", "pods"), ("", "secrets")];
        let planned = planned.map(|(group, name)| resource(group, "v1", name, true, &[])).to_vec();
        let names = steps(planned).map(|step| step.into_iter().map(|r| r.gvr.resource).collect::<Vec<_>>().join(" "));
        assert_eq!(names, ["pods", "works secrets", "roles"]);
    }
}
