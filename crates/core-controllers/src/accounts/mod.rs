//! What pods and people find in every namespace: the default ServiceAccount, the root certificate, token secrets.

pub mod default_account;
pub mod root_certificate;
pub mod tokens;

use object::Object;
use reconcile::{Mirror, Source};

/// Namespaces take new objects only while they are active.
fn is_active(namespace: &Object) -> bool {
    !namespace.is_deleting() && namespace.str_at(&["status", "phase"]) != "Terminating"
}

/// Keys are namespaces: one wakes up for itself, and when the object it must have changes.
fn per_namespace(namespaces: &Mirror, kept: &Mirror) -> Vec<Source<String>> {
    vec![
        Source::new(namespaces, |change| vec![change.key.name.clone()]),
        Source::new(kept, |change| vec![change.key.namespace.clone()]),
    ]
}
