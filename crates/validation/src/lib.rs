//! Karmada's kinds as this server serves them: schemas, defaults and rules, without looking anything up.

mod address;
mod bindings;
mod cluster;
pub mod quota;
mod rows;
pub mod rules;
pub mod schema;
mod search;

pub use cluster::name_problems as cluster_name_problems;
pub use rows::{Row, custom_kind, kinds};
