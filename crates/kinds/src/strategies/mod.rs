//! Which rules each kind follows on writes; a kind without rules of its own follows the plain ones.

pub mod addresses;
pub mod amount;
pub mod apps;
pub mod batch;
pub mod core;
pub mod defaults;
pub mod diff;
pub mod fields;
pub mod internal;
pub mod metadata;
pub mod other_groups;
pub mod pod_spec;
pub mod shape;

use std::sync::Arc;

use object::GroupVersionKind;

use crate::strategy::Strategy;

/// The rules every kind shares and nothing more.
pub struct Plain;

impl Strategy for Plain {}

/// The rules of a built-in kind; [`Plain`] when it has none of its own.
pub fn for_kind(gvk: &GroupVersionKind) -> Arc<dyn Strategy> {
    let found = match gvk.group.as_str() {
        "" => core::for_kind(&gvk.kind, &gvk.version),
        "apps" => apps::for_kind(&gvk.kind, &gvk.version),
        "batch" => batch::for_kind(&gvk.kind, &gvk.version),
        group => other_groups::for_kind(group, &gvk.kind, &gvk.version),
    };
    found.unwrap_or_else(|| Arc::new(Plain))
}
