//! The default roles and bindings of Kubernetes 1.36, and how stored ones are updated to match.

mod reconcile;
mod table;

use object::{GroupVersionKind, Object};
use serde_json::{Value, json};

use crate::escalation::RBAC_GROUP;
use crate::rule::PolicyRule;

pub use reconcile::{Correction, reconcile};

/// An object with this annotation set to `"false"` is managed by its owner and never updated.
pub const AUTOUPDATE_ANNOTATION: &str = "rbac.authorization.kubernetes.io/autoupdate";
/// A default role with this annotation set to `"true"` has its own rules and no others: rules that a stored one has in
/// addition are removed, because an earlier release granted them by default.
pub const EXACT_ANNOTATION: &str = "rbac.flotilla.io/exact-rules";
pub const BOOTSTRAPPING_LABEL: &str = "kubernetes.io/bootstrapping";

const POLICY: &str = include_str!("policy.txt");

/// The ClusterRoles. Aggregated ones have no rules yet; `aggregation::aggregate` computes them.
pub fn cluster_roles() -> Vec<Object> {
    cluster_roles_of(POLICY)
}

pub fn roles() -> Vec<Object> {
    roles_of(POLICY)
}

pub fn cluster_role_bindings() -> Vec<Object> {
    cluster_role_bindings_of(POLICY)
}

pub fn role_bindings() -> Vec<Object> {
    role_bindings_of(POLICY)
}

/// Objects of all four kinds, roles before the bindings that refer to them.
pub fn all() -> Vec<Object> {
    parse(POLICY)
}

/// Reads roles and bindings from text in the form of `policy.txt`, for servers with roles in addition to those of Kubernetes.
pub fn parse(text: &str) -> Vec<Object> {
    [cluster_roles_of(text), roles_of(text), cluster_role_bindings_of(text), role_bindings_of(text)].concat()
}

fn cluster_roles_of(text: &str) -> Vec<Object> {
    let roles = table::read(text).roles.into_iter().filter(|r| r.namespace.is_empty());
    roles.map(|role| role_object("ClusterRole", role)).collect()
}

fn roles_of(text: &str) -> Vec<Object> {
    let roles = table::read(text).roles.into_iter().filter(|r| !r.namespace.is_empty());
    roles.map(|role| role_object("Role", role)).collect()
}

fn cluster_role_bindings_of(text: &str) -> Vec<Object> {
    let bindings = table::read(text).bindings.into_iter().filter(|b| b.namespace.is_empty());
    bindings.map(|b| binding_object("ClusterRoleBinding", "ClusterRole", b)).collect()
}

fn role_bindings_of(text: &str) -> Vec<Object> {
    let bindings = table::read(text).bindings.into_iter().filter(|b| !b.namespace.is_empty());
    bindings.map(|b| binding_object("RoleBinding", "Role", b)).collect()
}

fn new_object(kind: &str, namespace: &str, name: &str) -> Object {
    let namespace = (!namespace.is_empty()).then_some(namespace);
    let mut object = Object::new(&GroupVersionKind::new(RBAC_GROUP, "v1", kind), namespace, name);
    object.set_label(BOOTSTRAPPING_LABEL, "rbac-defaults");
    object.set_annotation(AUTOUPDATE_ANNOTATION, "true");
    object
}

fn role_object(kind: &str, role: table::RoleLine<'_>) -> Object {
    let mut object = new_object(kind, role.namespace, role.name);
    for (key, value) in role.labels {
        object.set_label(key, value);
    }
    if role.gathers.is_empty() {
        object.set(&["rules"], role.rules.iter().map(PolicyRule::to_value).collect::<Vec<Value>>());
    } else {
        let selectors = role.gathers.iter().map(|(key, value)| json!({"matchLabels": {*key: value}}));
        object.set(&["aggregationRule", "clusterRoleSelectors"], selectors.collect::<Vec<Value>>());
    }
    object
}

fn binding_object(kind: &str, role_kind: &str, binding: table::BindingLine<'_>) -> Object {
    let mut object = new_object(kind, binding.namespace, binding.name);
    object.set(&["roleRef"], json!({"apiGroup": RBAC_GROUP, "kind": role_kind, "name": binding.role}));
    let subjects = binding.subjects.iter().map(|subject| match *subject {
        table::SubjectWord::ServiceAccount { namespace, name } => {
            json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
        }
        table::SubjectWord::Named { kind, name } => json!({"apiGroup": RBAC_GROUP, "kind": kind, "name": name}),
    });
    let subjects: Vec<Value> = subjects.collect();
    if !subjects.is_empty() {
        object.set(&["subjects"], subjects);
    }
    object
}
