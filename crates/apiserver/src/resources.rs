//! The stored objects and the kinds they are served as: what most steps of a request read.

use crate::served_resources::ServedResources;
use crate::storage::Objects;

/// A view of the objects and kinds of a server.
#[derive(Clone, Copy)]
pub struct Resources<'a> {
    pub objects: &'a Objects,
    pub registry: &'a ServedResources,
}
