//! `PolicyService`.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::policy::{CLUSTER_OVERRIDE_POLICIES, CLUSTER_PROPAGATION_POLICIES, OVERRIDE_POLICIES, PROPAGATION_POLICIES};
use api::work::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS};
use async_trait::async_trait;
use cluster_client::{ClusterClient, ListOptions, ResourceRef, RestMapper};
use manager_api::*;
use object::{GroupVersion, Object, Status};
use propagation::policy::{Policy as PropagatedBy, PolicyKey};
use propagation::policy_choice::{Verdict, explain_choice};
use propagation::policy_index::PolicyIndex;
use serde_json::Value;

use super::convert::created;
use super::lists::{ListRequest, page};
use super::{ApiCaller, ManagerApi};

pub(super) const KINDS: [api::Resource; 4] =
    [PROPAGATION_POLICIES, CLUSTER_PROPAGATION_POLICIES, OVERRIDE_POLICIES, CLUSTER_OVERRIDE_POLICIES];
/// Annotations by which a binding names its policy.
const NAMESPACED: (&str, &str) = ("propagationpolicy.karmada.io/namespace", "propagationpolicy.karmada.io/name");
const CLUSTER: &str = "clusterpropagationpolicy.karmada.io/name";

/// The policy of a binding, as kind, namespace and name.
pub(super) fn policy_of(binding: &Object) -> Option<(&'static str, String, String)> {
    let text = |key: &str| binding.annotation(key).unwrap_or_default().to_owned();
    if !text(NAMESPACED.1).is_empty() {
        return Some(("PropagationPolicy", text(NAMESPACED.0), text(NAMESPACED.1)));
    }
    Some(("ClusterPropagationPolicy", String::new(), text(CLUSTER))).filter(|(_, _, name)| !name.is_empty())
}

/// Lists what the caller may list; kinds that it may not see are left out.
async fn readable(
    client: &ClusterClient,
    resource: &api::Resource,
    namespace: &str,
) -> Result<Vec<Arc<Object>>, Status> {
    let is_namespaced = !resource.kind.starts_with("Cluster");
    let scope = match (is_namespaced, namespace) {
        (true, namespace) if !namespace.is_empty() => ResourceRef::within(&resource.gvr(), namespace),
        (false, namespace) if !namespace.is_empty() => return Ok(Vec::new()),
        _ => ResourceRef::all(&resource.gvr()),
    };
    match client.list_all(scope, ListOptions::default()).await {
        Ok(list) => Ok(list.items),
        Err(status) if status.code == 403 && !is_namespaced => Ok(Vec::new()),
        Err(status) => Err(status),
    }
}

fn message(policy: &Object, claims: i64) -> Policy {
    Policy {
        kind: policy.kind().to_owned(),
        namespace: policy.namespace().to_owned(),
        name: policy.name().to_owned(),
        uid: policy.uid().to_owned(),
        etag: policy.resource_version().to_owned(),
        priority: i32::try_from(policy.i64_at(&["spec", "priority"]).unwrap_or_default()).unwrap_or_default(),
        selectors: i32::try_from(policy.items(&["spec", "resourceSelectors"]).len()).unwrap_or(i32::MAX),
        claims,
        create_time: created(policy),
    }
}

pub(super) async fn bindings(client: &ClusterClient, namespace: &str) -> Result<Vec<Arc<Object>>, Status> {
    let mut all = readable(client, &RESOURCE_BINDINGS, namespace).await?;
    all.extend(readable(client, &CLUSTER_RESOURCE_BINDINGS, namespace).await?);
    Ok(all)
}

fn identity(key: &PolicyKey) -> (String, String, String) {
    (key.scope().resource().kind.to_owned(), key.namespace.clone(), key.name.clone())
}

/// Reads an object by the names of its kind.
pub(super) async fn template(
    client: &ClusterClient,
    (api_version, kind): (&str, &str),
    (namespace, name): (&str, &str),
) -> Result<Arc<Object>, Status> {
    let unknown = || Status::bad_request("apiVersion and kind must name a kind of the instance");
    let gvk = GroupVersion::parse(api_version).ok_or_else(unknown)?.kind(kind);
    let resource = RestMapper::new(client.clone()).resource_of(&gvk).await.map_err(|_| unknown())?;
    let target = match resource.namespaced {
        true => ResourceRef::namespaced(&resource.gvr, namespace, name),
        false => ResourceRef::cluster(&resource.gvr, name),
    };
    client.get(target).await
}

#[async_trait]
impl PolicyService<ApiCaller> for ManagerApi {
    async fn list_policies(
        &self,
        caller: &ApiCaller,
        request: ListPoliciesRequest,
    ) -> Result<ListPoliciesResponse, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let mut policies = Vec::new();
        for resource in &KINDS {
            policies.extend(readable(&client, resource, &request.namespace).await?);
        }
        let mut claims: BTreeMap<(&str, String, String), i64> = BTreeMap::new();
        let bindings = bindings(&client, &request.namespace).await?;
        for policy in bindings.iter().filter_map(|binding| policy_of(binding)) {
            *claims.entry(policy).or_default() += 1;
        }
        let list = ListRequest {
            filter: &request.filter,
            order_by: &request.order_by,
            page_size: request.page_size,
            page_token: &request.page_token,
            page: request.page,
            include_total: request.include_total,
            scope: format!("kindless policies {} {} {}", caller.user.name, request.instance, request.namespace),
        };
        let found = page(&self.page_key, policies, &list)?;
        let shown = found.items.iter().map(|policy| {
            let key = (policy.kind(), policy.namespace().to_owned(), policy.name().to_owned());
            message(policy, claims.get(&key).copied().unwrap_or_default())
        });
        Ok(ListPoliciesResponse {
            policies: shown.collect(),
            next_page_token: found.next_page_token,
            total: found.total,
            version: String::new(),
        })
    }

    async fn get_policy_usage(
        &self,
        caller: &ApiCaller,
        request: GetPolicyUsageRequest,
    ) -> Result<PolicyUsage, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let resource = KINDS[..2].iter().find(|resource| resource.kind == request.kind);
        let resource = resource
            .ok_or_else(|| Status::bad_request("kind: must be PropagationPolicy or ClusterPropagationPolicy"))?;
        let target = match resource.kind {
            "PropagationPolicy" => ResourceRef::namespaced(&resource.gvr(), &request.namespace, &request.name),
            _ => ResourceRef::cluster(&resource.gvr(), &request.name),
        };
        client.get(target).await?;
        let wanted = (resource.kind, request.namespace.clone(), request.name.clone());
        let found = bindings(&client, &request.namespace).await?;
        let claims = found.iter().filter(|binding| policy_of(binding).as_ref() == Some(&wanted)).map(|binding| {
            let text = |field: &str| binding.str_at(&["spec", "resource", field]).to_owned();
            let clusters = binding.items(&["spec", "clusters"]).iter().filter_map(|cluster| cluster["name"].as_str());
            PolicyClaim {
                api_version: text("apiVersion"),
                kind: text("kind"),
                namespace: text("namespace"),
                name: text("name"),
                clusters: clusters.map(str::to_owned).collect(),
            }
        });
        Ok(PolicyUsage { claims: claims.collect() })
    }

    async fn preview_policy(&self, caller: &ApiCaller, request: PreviewPolicyRequest) -> Result<PolicyPreview, Status> {
        self.policy_preview(caller, request).await
    }

    async fn match_policies(
        &self,
        caller: &ApiCaller,
        request: MatchPoliciesRequest,
    ) -> Result<MatchPoliciesResponse, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let MatchPoliciesRequest { api_version, kind, namespace, name, .. } = &request;
        let template = template(&client, (api_version, kind), (namespace, name)).await?;
        let mut index = PolicyIndex::default();
        for resource in &KINDS[..2] {
            for policy in readable(&client, resource, "").await? {
                index.put(PropagatedBy::read(policy)?);
            }
        }
        let choice = explain_choice(&index, &template);
        let candidates = choice.candidates.iter().map(|candidate| {
            let (kind, namespace, name) = identity(&candidate.policy);
            let chosen = candidate.verdict == Verdict::Chosen;
            let reason = candidate.verdict.to_string();
            PolicyCandidate { kind, namespace, name, priority: candidate.priority, chosen, reason }
        });
        let nearest = choice.nearest.iter().map(|miss| {
            let (kind, namespace, name) = identity(&miss.policy);
            PolicyMiss { kind, namespace, name, reasons: miss.reasons.iter().map(ToString::to_string).collect() }
        });
        let holder = policy_of(&template).map(|(kind, namespace, name)| format!("{kind} {namespace}/{name}"));
        Ok(MatchPoliciesResponse {
            candidates: candidates.collect(),
            nearest: nearest.collect(),
            current: holder.unwrap_or_default(),
        })
    }
}

/// The policy of a binding for people.
pub fn policy_text(binding: &Object) -> String {
    policy_of(binding).map(|(kind, namespace, name)| format!("{kind} {namespace}/{name}")).unwrap_or_default()
}

/// The clusters of a binding with their replicas.
pub fn placed(binding: &Object) -> impl Iterator<Item = (&str, i64)> {
    let clusters = binding.items(&["spec", "clusters"]).iter();
    clusters.filter_map(|cluster: &Value| {
        Some((cluster["name"].as_str()?, cluster["replicas"].as_i64().unwrap_or_default()))
    })
}
