//! Roles in a control plane for the users of the manager. The manager adds a group to a user; the plane's RBAC decides.

use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use object::{GroupVersionResource, Object, Status};
use serde_json::{Value, json};

const GROUP: &str = "rbac.authorization.k8s.io";
const FIELD_MANAGER: &str = "flotilla-manager";
/// Role and binding of the users that members accept.
const MEMBER_IDENTITY: &str = "flotilla:instance:member-identity";

/// Returns the group of users with a role on the whole instance.
pub fn instance_group(role: &str) -> String {
    format!("flotilla:instance:{role}")
}

/// Returns the group of users with a role in one namespace of the instance.
pub fn namespace_group(namespace: &str, role: &str) -> String {
    format!("flotilla:namespace:{namespace}:{role}")
}

/// Creates the roles and bindings of the instance's groups.
pub async fn ensure(admin: &ClusterClient) -> Result<(), Status> {
    for object in instance_objects() {
        let plural = if object["kind"] == "ClusterRole" { "clusterroles" } else { "clusterrolebindings" };
        apply(admin, plural, object).await?;
    }
    Ok(())
}

/// Creates the bindings of the groups of one namespace.
pub async fn ensure_namespace(admin: &ClusterClient, namespace: &str) -> Result<(), Status> {
    for role in ["admin", "edit", "view"] {
        let group = namespace_group(namespace, role);
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "RoleBinding",
            "metadata": {"name": format!("flotilla:namespace:{role}"), "namespace": namespace},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group}],
        });
        apply(admin, "rolebindings", object).await?;
    }
    Ok(())
}

/// Adds a user to those that the instance impersonates in its members. Returns true if the user is new: members learn of it a
/// moment later.
pub async fn ensure_member_user(admin: &ClusterClient, user: &str) -> Result<bool, Status> {
    let gvr = GroupVersionResource::new(GROUP, "v1", "clusterrolebindings");
    let target = ResourceRef::cluster(&gvr, MEMBER_IDENTITY);
    let current = admin.find(target.clone()).await?;
    let mut subjects = current.as_ref().map(|binding| binding.items(&["subjects"]).to_vec()).unwrap_or_default();
    if subjects.iter().any(|subject| subject["name"] == user) {
        return Ok(false);
    }
    subjects.push(json!({"apiGroup": GROUP, "kind": "User", "name": user}));
    let binding = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": MEMBER_IDENTITY},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": MEMBER_IDENTITY},
        "subjects": subjects,
    });
    let mut object = Object::from_value(binding).ok_or_else(|| Status::internal("not an object"))?;
    match current {
        None => {
            admin.create(ResourceRef::all(&gvr), object, WriteOptions::managed_by(FIELD_MANAGER)).await?;
        }
        Some(current) => {
            // Another request may have added a user since: the version makes that a conflict.
            object.set(&["metadata", "resourceVersion"], current.resource_version());
            admin.update(target, object, WriteOptions::managed_by(FIELD_MANAGER)).await?;
        }
    }
    Ok(true)
}

async fn apply(admin: &ClusterClient, plural: &str, value: Value) -> Result<(), Status> {
    let gvr = GroupVersionResource::new(GROUP, "v1", plural);
    let object = Object::from_value(value).ok_or_else(|| Status::internal("not an object"))?;
    let target = match object.namespace() {
        "" => ResourceRef::cluster(&gvr, object.name()),
        namespace => ResourceRef::namespaced(&gvr, namespace, object.name()),
    };
    admin.apply(target, object, FIELD_MANAGER).await.map(drop)
}

/// Editors and viewers see the objects without a namespace that applications depend on, and editors reach members.
fn instance_objects() -> Vec<Value> {
    let read = json!(["get", "list", "watch"]);
    let seen = json!([
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": read},
        {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": read},
        {"apiGroups": ["policy.karmada.io"], "verbs": read,
            "resources": ["clusterpropagationpolicies", "clusteroverridepolicies", "clustertaintpolicies"]},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": read},
    ]);
    let members = json!([
        {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": ["*"]},
    ]);
    // Karmada lets members accept the users of every role on clusters/proxy; this verb grants nothing by itself.
    let identity = json!([
        {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"], "verbs": ["be-impersonated"]},
    ]);
    let role = |name: &str, rules: &Value| {
        json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole",
            "metadata": {"name": format!("flotilla:instance:{name}")}, "rules": rules,
        })
    };
    let bind = |name: &str, role: &str, groups: &[&str]| {
        let subject = |role: &&str| json!({"apiGroup": GROUP, "kind": "Group", "name": instance_group(role)});
        json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("flotilla:instance:{name}")},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
            "subjects": groups.iter().map(subject).collect::<Vec<_>>(),
        })
    };
    vec![
        role("reader", &seen),
        role("member-user", &members),
        role("member-identity", &identity),
        bind("admin", "cluster-admin", &["admin"]),
        bind("edit", "edit", &["edit"]),
        bind("view", "view", &["view"]),
        bind("reader", "flotilla:instance:reader", &["edit", "view"]),
        bind("member-user", "flotilla:instance:member-user", &["edit"]),
    ]
}
