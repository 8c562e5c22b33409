//! Namespaces, roles and bindings that a control plane has in addition to those of Kubernetes.

use access::defaults;
use object::{GroupVersionKind, Object};

const NAMESPACES: [&str; 2] = [api::names::SYSTEM_NAMESPACE, api::names::CLUSTER_NAMESPACE];
/// Roles that granted more in earlier releases.
const EXACT_ROLES: [&str; 2] = ["karmada-view", "karmada-edit"];
const ROLES: &str = include_str!("karmada_roles.txt");

/// Returns the objects that the API server creates when they are missing.
pub fn objects() -> Vec<Object> {
    let namespaces = NAMESPACES.map(|name| Object::new(&GroupVersionKind::new("", "v1", "Namespace"), None, name));
    namespaces.into_iter().chain(roles()).collect()
}

fn roles() -> Vec<Object> {
    let mut roles = defaults::parse(ROLES);
    for role in roles.iter_mut().filter(|role| EXACT_ROLES.contains(&role.name())) {
        role.set_annotation(defaults::EXACT_ANNOTATION, "true");
    }
    roles
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
        for name in ["view", "edit", "admin"] {
            let role = all.iter().find(|role| role.name() == name).expect("a default role");
            let rules = aggregate(role, &all).expect("it aggregates");
            let works = rules.iter().find(|rule| rule.resources.iter().any(|r| r == "works" || r == "works/status"));
            assert!(works.is_none(), "{name} reads Secrets through Works: {works:?}");
        }
        let agent = all.iter().find(|object| object.name() == "system:karmada:agent-bootstrap").expect("a binding");
        assert_eq!(agent.str_at(&["roleRef", "name"]), "system:node-bootstrapper");
    }
}
