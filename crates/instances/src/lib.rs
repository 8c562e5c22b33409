//! The life cycle of instances: control planes that the manager creates, runs or has imported.
//!
//! The `Karmada` object is the only truth. [`lifecycle`] gathers the object and the running plane, [`decide`] returns one step,
//! and the step is carried out. Every step can be repeated: a manager that is killed at any point continues where it stopped.

pub mod backups;
pub mod data_dir;
pub mod decide;
pub mod directory;
pub mod etcd_location;
mod existing_data;
pub mod import;
pub mod lifecycle;
mod ownership;
pub mod plane;
mod probe;
mod process;
mod readiness;
pub mod replica;
pub mod rights;
pub mod running;
pub mod secrets;
pub mod statistics;
mod status;
