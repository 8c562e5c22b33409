//! Decides where a binding runs: filter, score, spread, divide, and the reasons.
//!
//! No I/O, no waiting, no clock, no chance: the same snapshot and the same binding always give the same decision.

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

pub use explanation::{Explanation, Step};
pub use need::{Need, need};
pub use plugins::{Plugin, Plugins};
pub use reservations::RESERVATION_LIFE;
pub use schedule::{Decision, Options, Peers, Request, ScheduleError, explain, explain_paced, schedule};
pub use snapshot::Snapshot;

/// What the `Scheduled` condition says when all went well.
pub const SUCCESS_MESSAGE: &str = "Binding has been scheduled successfully.";
