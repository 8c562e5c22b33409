//! Repository automation: source checks and the test runner.

pub mod layers;
pub mod tests_runner;
pub mod tidy;
