//! Decides where a binding runs: filter, score, select, divide, with the reasons.
//!
//! No I/O, no clock, no randomness: the same snapshot and the same binding always give the same decision.

mod affinity;
pub mod capacity;
mod claim;
mod divide;
mod estimate;
pub mod explanation;
mod filter;
mod groups;
pub mod need;
pub mod plugins;
mod quota;
mod reservations;
mod schedule;
mod set;
mod snapshot;
mod spread;
mod webster;

pub use estimate::places_whole_sets;
pub use explanation::{Explanation, ScheduleStage};
pub use need::{Need, need};
pub use plugins::{Plugin, Plugins};
pub use reservations::RESERVATION_LIFE;
pub use schedule::{
    Decision, Peers, Request, ScheduleError, SchedulerOptions, candidates, explain, explain_timed, schedule,
};
pub use snapshot::ClusterSnapshot;

/// Message of the `Scheduled` condition on success.
pub const SUCCESS_MESSAGE: &str = "Binding has been scheduled successfully.";
