//! Where the clusters of a testbed run: one trait, and an implementation per kind of place.

mod machine;
pub mod process;

pub use machine::{Condition, Error, Forward, Machine, Output, Provisioner};
