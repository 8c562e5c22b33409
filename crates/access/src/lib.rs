//! RBAC authorization: rules, a user and an action in, a decision with its reason out. Pure; does no I/O.

mod action;
pub mod aggregation;
pub mod defaults;
pub mod escalation;
pub mod impersonation;
pub mod index;
pub mod rule;

pub use action::{AccessDecision, Action, ResourceAction};
pub use index::{PolicyIndex, RulesReview};
pub use rule::PolicyRule;

#[cfg(test)]
mod tests;
