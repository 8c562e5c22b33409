//! Parsed requests: the path as a resource or a plain URL, and the query as options.

mod info;
mod options;

pub use info::RequestInfo;
pub use options::{Deletion, ListSelection, parse_revision, patch_kind, write_options};
