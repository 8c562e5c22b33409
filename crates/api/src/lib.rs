//! Karmada's words: the kinds of every group as types, and the labels, annotations, finalizers and names that go with them.

pub mod affinity;
pub mod capacity;
pub mod cluster;
pub mod config;
pub mod core;
pub mod features;
pub mod names;
pub mod policy;
pub mod resource;
pub mod work;

pub use resource::{Resource, read, read_at};
