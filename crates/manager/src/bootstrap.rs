//! Namespaces and roles that the manager's API has from the start.

use access::defaults;
use manager_kinds::INSTANCE_NAMESPACE;
use object::{GroupVersionKind, Object};

/// Namespace of access tokens and password hashes.
pub const CREDENTIAL_NAMESPACE: &str = "flotilla-credentials";

const ROLES: &str = include_str!("manager_roles.txt");

/// Returns the objects that the API server creates when they are missing.
pub fn objects() -> Vec<Object> {
    let namespace = |name: &str| Object::new(&GroupVersionKind::new("", "v1", "Namespace"), None, name);
    let namespaces = [INSTANCE_NAMESPACE, CREDENTIAL_NAMESPACE].map(namespace);
    namespaces.into_iter().chain(defaults::parse(ROLES)).collect()
}
