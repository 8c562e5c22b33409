//! The built-in Kubernetes kinds: names, schemas, defaults, validation, columns. Pure; does no I/O.

pub mod builtin;
pub mod catalog;
pub mod discovery;
pub mod kind;
pub mod openapi;
pub mod pod_security;
pub mod printers;
pub mod protobuf;
pub mod quota;
pub mod schemas;
pub mod selectable;
pub mod strategies;
pub mod strategy;

pub use builtin::builtin;
pub use catalog::Catalog;
pub use kind::{Column, Kind, OwnSchema, Priority, SelectableField, ServedSubresource, SubresourceKind};
pub use strategy::{Strategy, WriteContext};
