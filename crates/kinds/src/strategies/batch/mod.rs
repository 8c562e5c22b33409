//! The rules of the `batch` group, one file per kind.

use std::sync::Arc;

use crate::strategy::Strategy;

pub fn for_kind(_kind: &str, _version: &str) -> Option<Arc<dyn Strategy>> {
    None
}
