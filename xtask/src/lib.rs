//! Repository tasks as code: the rules checked over the workspace, and the runner of all tests.

pub mod codegen;
pub mod dependencies;
pub mod inventory;
pub mod layers;
pub mod links;
pub mod public_items;
pub mod purity;
pub mod ratchet;
pub mod source;
pub mod tests_runner;
pub mod tidy;
pub mod type_names;
pub mod words;
