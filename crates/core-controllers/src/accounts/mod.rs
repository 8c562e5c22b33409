//! Objects every namespace has: the default ServiceAccount, the root CA ConfigMap, and token secrets.

pub mod default_account;
pub mod root_certificate;
pub mod tokens;

use object::Object;
use reconcile::{Mirror, Source};

/// Namespaces accept new objects only while they are active.
fn is_active(namespace: &Object) -> bool {
    !namespace.is_deleting() && namespace.str_at(&["status", "phase"]) != "Terminating"
}

/// Sources keyed by namespace: a change of the namespace or of the object it must contain.
fn per_namespace(namespaces: &Mirror, kept: &Mirror) -> Vec<Source<String>> {
    vec![
        Source::new(namespaces, |change| vec![change.key.name.clone()]),
        Source::new(kept, |change| vec![change.key.namespace.clone()]),
    ]
}
