//! The objects a binding may propagate: those its author could have propagated with a policy.
//!
//! Controllers act on bindings with their own rights. A ResourceBinding therefore reaches its own namespace only, and a
//! ClusterResourceBinding cluster-scoped objects only.

use api::names::is_reserved_namespace;
use object::Object;

use crate::skipped_namespaces::SkippedNamespaces;

/// The reason a binding is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    #[error(
        "spec.resource.namespace must be {own:?}, the namespace of the ResourceBinding, but is {found:?}: a \
         ResourceBinding propagates namespaced objects of its own namespace only"
    )]
    OtherNamespace { own: String, found: String },
    #[error(
        "spec.resource.namespace must be empty but is {found:?}: a ClusterResourceBinding propagates cluster-scoped \
         objects only"
    )]
    NotClusterScoped { found: String },
    #[error("objects in namespace {namespace:?} are never propagated: the namespace is reserved")]
    Reserved { namespace: String },
    #[error("objects in namespace {namespace:?} are not propagated (--skipped-propagating-namespaces)")]
    Skipped { namespace: String },
}

/// Checks that a binding of a namespace may reference an object of a namespace. Both are empty for cluster-scoped ones.
pub fn check_reference(binding_namespace: &str, resource_namespace: &str) -> Result<(), ScopeError> {
    let (own, found) = (binding_namespace.to_owned(), resource_namespace.to_owned());
    match binding_namespace {
        "" if !found.is_empty() => Err(ScopeError::NotClusterScoped { found }),
        _ if own != found => Err(ScopeError::OtherNamespace { own, found }),
        _ if is_reserved_namespace(&own) => Err(ScopeError::Reserved { namespace: own }),
        _ => Ok(()),
    }
}

/// Checks the reference of a stored binding, which may be older than the admission rule.
pub fn check_stored(binding: &Object) -> Result<(), ScopeError> {
    check_reference(binding.namespace(), binding.str_at(&["spec", "resource", "namespace"]))
}

/// Checks that a stored binding may be turned into works.
pub fn check_propagated(binding: &Object, skipped: &SkippedNamespaces) -> Result<(), ScopeError> {
    check_stored(binding)?;
    let namespace = binding.namespace();
    match !namespace.is_empty() && skipped.contains(namespace) {
        true => Err(ScopeError::Skipped { namespace: namespace.to_owned() }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(binding: &str, resource: &str, expected: Option<&str>) {
        let object = Object::from_value(json!({"metadata": {"name": "b", "namespace": binding},
            "spec": {"resource": {"apiVersion": "v1", "kind": "X", "name": "x", "namespace": resource}}}));
        let refusal = check_propagated(&object.expect("an object"), &SkippedNamespaces::default()).err();
        let text = refusal.map(|error| error.to_string()).unwrap_or_default();
        match expected {
            Some(part) => assert!(text.contains(part), "{binding:?} {resource:?}: {text:?}"),
            None => assert_eq!(text, "", "{binding:?} {resource:?}"),
        }
    }

    #[test]
    fn bindings_reach_objects_of_their_own_scope_only() {
        check("tenant", "tenant", None);
        check("", "", None);
        check("tenant", "other", Some("must be \"tenant\""));
        check("tenant", "", Some("must be \"tenant\""));
        check("tenant", "karmada-cluster", Some("must be \"tenant\""));
        check("", "tenant", Some("cluster-scoped objects only"));
        for reserved in ["karmada-system", "karmada-cluster", "karmada-es-m1"] {
            check(reserved, reserved, Some("is reserved"));
        }
        check("kube-system", "kube-system", Some("--skipped-propagating-namespaces"));
    }
}
