//! Namespaces, roles and bindings that a control plane has in addition to those of Kubernetes.

use access::defaults;
use object::{GroupVersionKind, Object};

const NAMESPACES: [&str; 2] = [api::names::SYSTEM_NAMESPACE, api::names::CLUSTER_NAMESPACE];
const ROLES: &str = include_str!("karmada_roles.txt");

/// Returns the objects that the API server creates when they are missing.
pub fn objects() -> Vec<Object> {
    let namespaces = NAMESPACES.map(|name| Object::new(&GroupVersionKind::new("", "v1", "Namespace"), None, name));
    namespaces.into_iter().chain(roles()).collect()
}

fn roles() -> Vec<Object> {
    defaults::parse(ROLES)
}

#[cfg(test)]
mod tests {
    use access::aggregation::aggregate;

    use super::*;

    #[test]
    fn karmada_roles_aggregate_into_those_of_kubernetes() {
        let roles = roles();
        let names: Vec<&str> = roles.iter().filter(|role| role.kind() == "ClusterRole").map(Object::name).collect();
        assert!(names.contains(&"karmada-view") && names.contains(&"cluster-proxy-admin"), "{names:?}");
        let mut all = defaults::all();
        all.extend(roles);
        let view = all.iter().find(|role| role.name() == "view").expect("view");
        let rules = aggregate(view, &all).expect("it aggregates");
        assert!(rules.iter().any(|rule| rule.resources.iter().any(|resource| resource == "propagationpolicies")));
        let agent = all.iter().find(|object| object.name() == "system:karmada:agent-bootstrap").expect("a binding");
        assert_eq!(agent.str_at(&["roleRef", "name"]), "system:node-bootstrapper");
    }
}
