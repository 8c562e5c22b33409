//! Who may do what: RBAC rules, users and actions in, a verdict and its reason out. Pure; looks nothing up.

pub mod aggregation;
pub mod defaults;
pub mod escalation;
pub mod impersonation;
pub mod index;
pub mod rule;
pub mod user;

pub use index::{PolicyIndex, RulesReview};
pub use rule::PolicyRule;
pub use user::{Action, User, Verdict};

#[cfg(test)]
mod tests;
