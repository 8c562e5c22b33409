//! The rules of all groups but core, apps and batch.

use std::sync::Arc;

use crate::strategy::Strategy;

pub fn for_kind(_group: &str, _kind: &str, _version: &str) -> Option<Arc<dyn Strategy>> {
    None
}
