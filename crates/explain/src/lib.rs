//! Answers `why`, `plan` and `failover simulate`: gathers the state of an object and prints the reasons of each
//! decision.
//!
//! Decisions return their reasons with their results; nothing is decided here. Past decisions are read from objects
//! and from the scheduler's record; predictions come from the same functions the controllers use.

pub mod advice;
mod document;
pub mod failover;
mod failover_text;
mod gather;
mod place;
pub mod plan;
#[cfg(test)]
mod plan_rights;
mod plan_text;
pub mod reason;
mod scheduling;
pub mod why;
mod why_text;

pub use document::{Stage, State, Subject};
pub use gather::{Explainer, ExplainerDeps, PropagationRules};
