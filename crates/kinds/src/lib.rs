//! What each built-in Kubernetes kind is: names, schema, defaults, validation, columns. Pure: looks nothing up.

pub mod kind;
pub mod printers;
pub mod strategies;
pub mod strategy;

pub use kind::{Column, Kind, SelectableField, Subresource, SubresourceKind};
pub use strategy::{Strategy, WriteContext};
