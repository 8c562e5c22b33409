//! Settings of the fleet controllers, with Karmada's defaults.

use std::time::Duration;

use propagation::skipped_namespaces::SkippedNamespaces;
use propagation::taint_eviction::DefaultTolerations;

/// Karmada leaves these off unless they are named.
const OFF_BY_DEFAULT: &[&str] = &["hpaScaleTargetMarker", "deploymentReplicasSyncer"];

/// Controllers of Karmada's `--controllers` that other crates run.
pub const ELSEWHERE: &[&str] = &[
    "clusterStatus",
    "binding",
    "bindingStatus",
    "execution",
    "workStatus",
    "gracefulEviction",
    "applicationFailover",
    "agentcsrapproving",
];

/// Which controllers run: `--controllers` with `*`, `name` and `-name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers(Vec<String>);

/// Purge mode of workloads evicted by a taint, unless a policy sets one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PurgeMode {
    #[default]
    Gracefully,
    Directly,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub controllers: Controllers,
    pub skipped_namespaces: SkippedNamespaces,
    /// Interval for checking the leases of pull-mode clusters.
    pub cluster_monitor_period: Duration,
    /// Grace period after the last heartbeat of a pull-mode cluster.
    pub cluster_monitor_grace_period: Duration,
    /// Grace period before the first heartbeat of a pull-mode cluster.
    pub cluster_startup_grace_period: Duration,
    /// Interval for checking the removal of a cluster, in addition to its triggers.
    pub removal_check_every: Duration,
    /// Time without progress after which the removal of a cluster abandons what blocks it.
    /// Karmada waits forever.
    pub removal_patience: Duration,
    pub enable_taint_manager: bool,
    pub enable_no_execute_taint_eviction: bool,
    pub no_execute_taint_eviction_purge_mode: PurgeMode,
    /// Evictions per second, of each worker as in Karmada or, with the gate ResilientFailover, of all; 0 is one in half
    /// an hour.
    pub resource_eviction_rate: f32,
    /// Default tolerations for clusters that are not ready or unreachable. Only
    /// with the gate ResilientFailover: otherwise an untolerated taint evicts at once.
    pub default_tolerations: DefaultTolerations,
    /// Interval for recalculating quota usage; zero disables it.
    pub federated_resource_quota_sync_period: Duration,
    pub concurrent_cluster_syncs: usize,
    pub concurrent_namespace_syncs: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            controllers: Controllers::default(),
            skipped_namespaces: SkippedNamespaces::default(),
            cluster_monitor_period: Duration::from_secs(5),
            cluster_monitor_grace_period: Duration::from_secs(40),
            cluster_startup_grace_period: Duration::from_secs(60),
            removal_check_every: Duration::from_secs(10),
            removal_patience: Duration::from_secs(300),
            enable_taint_manager: true,
            enable_no_execute_taint_eviction: false,
            no_execute_taint_eviction_purge_mode: PurgeMode::Gracefully,
            resource_eviction_rate: 0.5,
            default_tolerations: DefaultTolerations::default(),
            federated_resource_quota_sync_period: Duration::from_secs(300),
            concurrent_cluster_syncs: 5,
            // Karmada has one worker that writes to all clusters at once; here each cluster is a key of its own.
            concurrent_namespace_syncs: 8,
        }
    }
}

impl Default for Controllers {
    fn default() -> Self {
        Self(vec!["*".to_owned()])
    }
}

impl Controllers {
    /// Reads `*,-namespace,hpaScaleTargetMarker`. See [`Self::check`] for unknown names.
    pub fn parse(text: &str) -> Self {
        Self(text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::to_owned).collect())
    }

    /// Rejects names that are not among `known`.
    pub fn check(&self, known: &[&str]) -> Result<(), String> {
        for entry in self.0.iter().filter(|entry| *entry != "*") {
            let name = entry.strip_prefix('-').unwrap_or(entry);
            if !known.contains(&name) {
                return Err(format!("unknown controller {name:?}; known controllers: {}", known.join(", ")));
            }
        }
        Ok(())
    }

    /// The first entry that names the controller decides; `*` stands for those that are on by default.
    pub fn is_enabled(&self, name: &str) -> bool {
        for entry in &self.0 {
            if entry == name {
                return true;
            }
            if entry.strip_prefix('-') == Some(name) {
                return false;
            }
        }
        self.0.iter().any(|entry| entry == "*") && !OFF_BY_DEFAULT.contains(&name)
    }
}

impl PurgeMode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gracefully => "Gracefully",
            Self::Directly => "Directly",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, name: &str, expected: bool) {
        assert_eq!(Controllers::parse(text).is_enabled(name), expected, "{text:?} {name}");
    }

    #[test]
    fn the_first_entry_that_names_a_controller_decides() {
        check("*", "cluster", true);
        check("*", "hpaScaleTargetMarker", false);
        check("*,hpaScaleTargetMarker", "hpaScaleTargetMarker", true);
        check("*,-cluster", "cluster", false);
        check("-cluster,*", "cluster", false);
        check("-cluster,cluster,*", "cluster", false);
        check("cluster,-cluster", "cluster", true);
        check("cluster", "namespace", false);
        check("", "cluster", false);
        check(" * , -remedy ", "remedy", false);
        check("*,unknown", "cluster", true);
    }
}
