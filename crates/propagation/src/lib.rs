//! Decides what is propagated: policy match and claim, bindings, dependencies, overrides, works, roll-up.

pub mod binding;
pub mod binding_scope;
pub mod binding_trigger;
pub mod claim;
pub mod dependency;
pub mod eviction;
pub mod failback;
pub mod failover_history;
pub mod overrides;
pub mod policy;
pub mod policy_choice;
pub mod policy_index;
pub mod policy_preemption;
pub mod policy_selector;
pub mod quota;
pub mod rollup;
pub mod services;
pub mod skipped_apis;
pub mod skipped_namespaces;
pub mod state;
pub mod taint_eviction;
pub mod works;
