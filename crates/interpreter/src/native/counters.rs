//! The counters in the statuses of built-in kinds: what members report, and what is summed over members.

use super::read::Zero;
use super::read::Zero::{Omitted, Written};

/// A field, and how Go serializes zero.
pub type Counter = (&'static str, Zero);

pub const DEPLOYMENT: &[Counter] = &[
    ("replicas", Omitted),
    ("readyReplicas", Omitted),
    ("updatedReplicas", Omitted),
    ("availableReplicas", Omitted),
    ("unavailableReplicas", Omitted),
];
pub const REPLICA_SET: &[Counter] =
    &[("replicas", Written), ("readyReplicas", Omitted), ("availableReplicas", Omitted)];
pub const DAEMON_SET: &[Counter] = &[
    ("currentNumberScheduled", Written),
    ("desiredNumberScheduled", Written),
    ("numberAvailable", Omitted),
    ("numberMisscheduled", Written),
    ("numberReady", Written),
    ("updatedNumberScheduled", Omitted),
    ("numberUnavailable", Omitted),
];
pub const STATEFUL_SET: &[Counter] = &[
    ("availableReplicas", Written),
    ("currentReplicas", Omitted),
    ("readyReplicas", Omitted),
    ("replicas", Written),
    ("updatedReplicas", Omitted),
];
pub const BUDGET: &[Counter] = &[
    ("currentHealthy", Written),
    ("desiredHealthy", Written),
    ("expectedPods", Written),
    ("disruptionsAllowed", Written),
];
pub const AUTOSCALER: &[Counter] = &[("currentReplicas", Omitted), ("desiredReplicas", Written)];
