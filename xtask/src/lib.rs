//! Repository chores as code: what the house rules read of the workspace, and how the whole-system tests are run.

pub mod layers;
pub mod tidy;
pub mod whole_system;
