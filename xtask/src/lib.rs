//! Repository chores as code: what the house rules read of the workspace.

pub mod layers;
pub mod tidy;
