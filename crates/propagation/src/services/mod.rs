//! Services across clusters: which slices are collected from a member, where they are copied to, and which clusters may provide them.
//!
//! Works in the execution namespace of a pull member can be written by its agent. Everything that leaves such a Work for
//! another member or another namespace is checked here against objects an agent cannot write.

pub mod collection;
pub mod dispatch;
pub mod exposure;
pub mod imports;
mod slices;

pub use crate::services::slices::{
    SLICE_BYTES_MAX, SLICES_PER_SERVICE_MAX, SliceRefusal, carried_slice, is_collected, is_made_by_karmada,
};

/// Kind of EndpointSlices.
pub const SLICE_KIND: &str = "EndpointSlice";
/// The only version of EndpointSlices that is collected.
pub const SLICE_VERSION: &str = "discovery.k8s.io/v1";
