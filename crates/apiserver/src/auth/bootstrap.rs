//! Initial objects of an API: creates the system namespaces, default roles and bindings when missing, and completes them.

use std::sync::Arc;

use access::aggregation::aggregate;
use access::defaults::{self, Correction};
use access::escalation;
use access::rule::PolicyRule;
use futures::future::try_join_all;
use object::request::user::MASTERS_GROUP;
use object::request::{FieldValidation, User, WriteOptions};
use object::{GroupVersionKind, Object, Status};
use serde_json::{Value, json};

use crate::context::Context;
use crate::decode::Findings;
use crate::request::Deletion;
use crate::scope::WriteScope;
use crate::served_resources::Resource;
use crate::shape;
use crate::verbs::{self, Target};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// Rounds of aggregation; more than the deepest chain of the default roles.
const AGGREGATION_ROUNDS: usize = 4;

/// Creates missing objects and completes existing ones: those of Kubernetes and `additions`, which are namespaces, roles and
/// bindings. The writes of a step are sent together and share one flush.
pub async fn ensure(scope: WriteScope<'_>, additions: Vec<Object>) -> Result<(), Status> {
    let ctx = system_context();
    let (more_namespaces, more_policy): (Vec<Object>, Vec<Object>) =
        additions.into_iter().partition(|object| object.kind() == "Namespace");
    let namespaces = NAMESPACES.map(|name| Object::new(&GroupVersionKind::new("", "v1", "Namespace"), None, name));
    let namespaces = namespaces.into_iter().chain(more_namespaces);
    try_join_all(namespaces.map(|namespace| ensure_object(scope, &ctx, namespace))).await?;
    let mut policy = defaults::all();
    policy.extend(more_policy);
    policy.extend(cluster_info_access());
    fill_aggregated(&mut policy);
    try_join_all(policy.into_iter().map(|object| ensure_object(scope, &ctx, object))).await?;
    Ok(())
}

/// Trust anchors for aggregated API servers, in PEM.
pub struct PublishedTrust<'a> {
    pub client_ca: &'a str,
    pub front_proxy_ca: &'a str,
    /// Common names of the front-proxy certificates this server shows them.
    pub front_proxy_names: &'a [&'a str],
}

/// Writes `kube-system/extension-apiserver-authentication`, from which aggregated API servers read how to
/// authenticate callers.
pub async fn publish_trust(scope: WriteScope<'_>, trust: &PublishedTrust<'_>) -> Result<(), Status> {
    let data = json!({
        "client-ca-file": trust.client_ca,
        "requestheader-allowed-names": json!(trust.front_proxy_names).to_string(),
        "requestheader-client-ca-file": trust.front_proxy_ca,
        "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
        "requestheader-group-headers": r#"["X-Remote-Group"]"#,
        "requestheader-uid-headers": r#"["X-Remote-Uid"]"#,
        "requestheader-username-headers": r#"["X-Remote-User"]"#,
    });
    let ctx = system_context();
    let kind = GroupVersionKind::new("", "v1", "ConfigMap");
    let mut map = Object::new(&kind, Some("kube-system"), "extension-apiserver-authentication");
    map.set(&["data"], data.clone());
    let target = target_of(scope, &map)?;
    let options = WriteOptions::default();
    match scope.objects.get(&target.key()).await? {
        None => create(scope, &ctx, &target, map, &options).await,
        Some(current) if current.object.get(&["data"]) == Some(&data) => Ok(()),
        Some(current) => {
            let mut changed = current.object;
            changed.set(&["data"], data);
            verbs::update::replace(scope, &ctx, &target, changed, &options).await.map(|_| ())
        }
    }
}

fn system_context() -> Context {
    let user = User::new("system:apiserver", &[MASTERS_GROUP, "system:authenticated"]);
    Context::new(Arc::new(user), "kube-apiserver")
}

fn target_of(scope: WriteScope<'_>, object: &Object) -> Result<Target, Status> {
    let resource = scope.registry.snapshot().find_kind(&object.gvk()).cloned();
    let resource = resource.ok_or_else(|| Status::internal(format!("{} is not served", object.kind())))?;
    let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
    Ok(Target { resource, namespace, name, subresource: None })
}

/// Joining machines read `kube-public/cluster-info` before they have credentials, as kubeadm arranges it.
fn cluster_info_access() -> [Object; 2] {
    const NAME: &str = "kubeadm:bootstrap-signer-clusterinfo";
    let group = escalation::RBAC_GROUP;
    let make = |kind: &str| Object::new(&GroupVersionKind::new(group, "v1", kind), Some("kube-public"), NAME);
    let (mut role, mut binding) = (make("Role"), make("RoleBinding"));
    let rule =
        json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cluster-info"], "verbs": ["get"]});
    role.set(&["rules"], vec![rule]);
    binding.set(&["roleRef"], json!({"apiGroup": group, "kind": "Role", "name": NAME}));
    binding.set(&["subjects"], vec![json!({"apiGroup": group, "kind": "User", "name": "system:anonymous"})]);
    [role, binding]
}

/// Gives aggregated roles their rules, so that they grant before the controller that keeps them first runs.
fn fill_aggregated(policy: &mut [Object]) {
    for _ in 0..AGGREGATION_ROUNDS {
        let roles: Vec<Object> = policy.iter().filter(|o| o.kind() == "ClusterRole").cloned().collect();
        for role in policy.iter_mut().filter(|o| o.kind() == "ClusterRole") {
            if let Some(rules) = aggregate(role, &roles) {
                role.set(&["rules"], rules.iter().map(PolicyRule::to_value).collect::<Vec<Value>>());
            }
        }
    }
}

async fn ensure_object(scope: WriteScope<'_>, ctx: &Context, desired: Object) -> Result<(), Status> {
    let target = target_of(scope, &desired)?;
    let options = WriteOptions::default();
    let Some(current) = scope.objects.get(&target.key()).await? else {
        return create(scope, ctx, &target, desired, &options).await;
    };
    if desired.kind() == "Namespace" {
        return Ok(());
    }
    match defaults::reconcile(&current.object, &desired) {
        None => Ok(()),
        Some(Correction::Update(corrected)) => {
            match verbs::update::replace(scope, ctx, &target, corrected, &options).await {
                // Another replica starts at the same time and has just done the same.
                Err(status) if status.is_conflict() => Ok(()),
                done => done.map(|_| ()),
            }
        }
        Some(Correction::Recreate(wanted)) => {
            match verbs::delete::delete(scope, ctx, &target, &Deletion::default()).await {
                Err(status) if !status.is_not_found() => return Err(status),
                _ => {}
            }
            create(scope, ctx, &target, wanted, &options).await
        }
    }
}

async fn create(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    object: Object,
    options: &WriteOptions,
) -> Result<(), Status> {
    let shaped = shape(ctx, &target.resource, object)?;
    match verbs::create::create(scope, ctx, target, shaped, options).await {
        Err(status) if !status.is_already_exists() => Err(status),
        _ => Ok(()),
    }
}

fn shape(ctx: &Context, resource: &Resource, object: Object) -> Result<Object, Status> {
    shape::shape(ctx, resource, object, FieldValidation::Strict, Findings::default())
}
