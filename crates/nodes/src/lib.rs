//! Simulated nodes: pods go through their phases without containers, as rules say.

mod addresses;
pub mod behaviour;
mod duration;
mod lifecycle;
pub mod settings;
mod shell;
mod usage;
