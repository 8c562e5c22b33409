//! Reason codes of `why`: each names a cause with the data its advice needs.

use api::work::ApplyFailure;
use object::taints::Taint;
use propagation::skipped_namespaces::NotSynced;
use serde::Serialize;

/// The cause why an object is not where its policy wants it, or will not stay there.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "code", rename_all_fields = "camelCase")]
pub enum Reason {
    TemplateMissing,
    /// Objects of this API are never propagated: Karmada's own kinds, events, leases, and those a flag names.
    ApiNotPropagated {
        is_cluster: bool,
    },
    NamespaceNotSynced {
        #[serde(serialize_with = "as_debug")]
        why: NotSynced,
    },
    /// Objects in this namespace are not propagated: `--skipped-propagating-namespaces`.
    NamespaceSkipped,

    NoPolicy {
        /// A policy nearly selects the object.
        has_near_miss: bool,
    },
    PolicyDeleting,
    PolicySelectsOther,
    PolicyGone,

    SchedulingSuspended,
    OtherScheduler {
        name: String,
    },
    NoClusters,
    /// The policy names clusters that do not exist.
    ClustersMissing {
        names: Vec<String>,
        known: Vec<String>,
    },
    KindNotServed {
        cluster: String,
    },
    Tainted {
        cluster: String,
        /// Those that the placement does not tolerate.
        taints: Vec<Taint>,
    },
    AffinityMismatch {
        cluster: String,
    },
    TopologyMissing {
        cluster: String,
    },
    RecentlyEvicted {
        cluster: String,
    },
    ClusterLeaving {
        cluster: String,
    },
    WorkloadAffinity {
        cluster: String,
    },
    NoCapacity {
        replicas: i32,
    },
    PlacementUnsatisfiable,

    OverrideFailed {
        namespace: String,
        name: String,
    },
    DispatchSuspended,
    NotApplied {
        cluster: String,
        failure: ApplyFailure,
    },

    /// A binding still has a cluster that was unregistered.
    ClusterRemoved {
        cluster: String,
    },
    ClusterNotReady {
        cluster: String,
        eviction: PendingEviction,
    },
    /// A NoExecute taint will evict the workload.
    EvictionPending {
        cluster: String,
        taints: Vec<Taint>,
        eviction: PendingEviction,
    },
    PodsUnschedulable {
        cluster: String,
        replicas: i64,
        division: ReplicaDivision,
        /// The pod requests more than any node of the cluster has in total.
        exceeds_nodes: bool,
    },
    Unhealthy {
        cluster: String,
    },
    /// The workload left a cluster and does not return by itself.
    NoFailback {
        clusters: Vec<String>,
    },
}

/// The time until NoExecute taints evict a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "when", rename_all_fields = "camelCase")]
pub enum PendingEviction {
    /// Evictions are disabled, or the placement tolerates the taints without a limit.
    Never,
    InSeconds {
        seconds: u64,
    },
    Now,
}

/// The distribution of replicas among the clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ReplicaDivision {
    Duplicated,
    StaticWeights,
    ByCapacity,
}

fn as_debug<S: serde::Serializer>(why: &NotSynced, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{why:?}"))
}

impl std::fmt::Display for PendingEviction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Never => write!(f, "it stays there"),
            Self::InSeconds { seconds } => write!(f, "it is moved to other clusters in {}", duration(*seconds)),
            Self::Now => write!(f, "it is being moved to other clusters"),
        }
    }
}

/// A duration as Kubernetes prints it: `42s`, `4m10s`, `2h5m`.
fn duration(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m"),
    }
}
