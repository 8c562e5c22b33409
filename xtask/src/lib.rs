//! Repository chores as code: what the house rules read of the workspace, and how the tests are run.

pub mod layers;
pub mod tests_runner;
pub mod tidy;
