//! Decides what is propagated: policy match and claim, bindings, dependencies, overrides, works, roll-up.

pub mod overrides;
pub mod policy_selector;
pub mod works;
