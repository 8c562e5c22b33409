//! Simulated nodes: pods go through their phases without containers, driven by rules.

mod addresses;
mod backend;
pub mod behaviour;
pub mod duration;
mod lifecycle;
mod logs;
pub mod metrics;
mod node;
mod page;
mod pods;
mod registration;
mod sandbox;
pub mod settings;
mod shell;
mod simulation;
mod usage;

pub use settings::SimulatedNodeSettings;
pub use simulation::{Simulation, SimulationDeps, run};
