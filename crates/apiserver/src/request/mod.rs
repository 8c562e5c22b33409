//! What a request asks for: the path read into a resource or a plain URL, and the query read into options.

mod info;
mod options;

pub use info::RequestInfo;
pub use options::{
    DeleteOptions, ListOptions, Propagation, Query, ResourceVersionMatch, Validation, WriteOptions, parse_revision,
};
