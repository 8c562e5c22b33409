//! Settings of the controllers, with Karmada's flags and defaults.

use std::time::Duration;

use propagation::eviction::GRACEFUL_TIMEOUT;
use propagation::skipped_apis::SkippedApis;
use propagation::skipped_namespaces::SkippedNamespaces;

/// Settings of the controllers of this crate.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `--skipped-propagating-apis`.
    pub skipped_apis: SkippedApis,
    /// `--skipped-propagating-namespaces`.
    pub skipped_namespaces: SkippedNamespaces,
    /// Templates worked on at once. Workers wait for writes most of the time, and writes that wait together are
    /// committed together, so there are more than Karmada's five.
    pub template_workers: usize,
    /// Policies worked on at once, of either kind.
    pub policy_workers: usize,
    /// Bindings whose dependencies are worked on at once.
    pub dependency_workers: usize,
    /// Bindings that are turned into works at once.
    pub work_workers: usize,
    /// Bindings whose works are summed up at once.
    pub rollup_workers: usize,
    /// Bindings whose eviction tasks are looked at at once.
    pub eviction_workers: usize,
    /// `--graceful-eviction-timeout`.
    pub graceful_eviction_timeout: Duration,
    pub runs: EnabledControllers,
}

/// The controllers that run, by `--controllers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnabledControllers {
    /// `binding`: bindings become works.
    pub binding: bool,
    /// `bindingStatus`: the status of works becomes that of bindings and templates.
    pub binding_status: bool,
    /// `gracefulEviction`
    pub graceful_eviction: bool,
    /// `applicationFailover`
    pub application_failover: bool,
}

impl Default for EnabledControllers {
    fn default() -> Self {
        Self { binding: true, binding_status: true, graceful_eviction: true, application_failover: true }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            skipped_apis: SkippedApis::default(),
            skipped_namespaces: SkippedNamespaces::default(),
            template_workers: 32,
            policy_workers: 4,
            dependency_workers: 16,
            work_workers: 32,
            rollup_workers: 32,
            eviction_workers: 4,
            graceful_eviction_timeout: GRACEFUL_TIMEOUT,
            runs: EnabledControllers::default(),
        }
    }
}
