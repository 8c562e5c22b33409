//! Which rules each kind follows on writes; a kind without rules of its own follows the plain ones.

use std::sync::Arc;

use object::GroupVersionKind;

use crate::strategy::Strategy;

/// The rules every kind shares and nothing more.
pub struct Plain;

impl Strategy for Plain {}

pub fn for_kind(_gvk: &GroupVersionKind) -> Arc<dyn Strategy> {
    Arc::new(Plain)
}
