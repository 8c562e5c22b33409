//! RBAC authorization: rules, a user and an action in, a decision with its reason out. Pure; does no I/O.

pub mod aggregation;
pub mod defaults;
pub mod escalation;
pub mod impersonation;
pub mod index;
pub mod rule;
pub mod user;

pub use index::{PolicyIndex, RulesReview};
pub use rule::PolicyRule;
pub use user::{AccessDecision, Action, User};

#[cfg(test)]
mod tests;
