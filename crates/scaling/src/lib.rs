//! The arithmetic of horizontal pod autoscaling: metrics and pods → a replica count with its reasons.
//!
//! Used inside a cluster for HorizontalPodAutoscalers and across clusters for FederatedHPAs.

pub mod behavior;
pub mod calculator;
pub mod metrics;
pub mod pods;
pub mod samples;
pub mod status;

use std::time::Duration;

use object::Object;

/// The texts of a controller: those of Kubernetes 1.36 or of Karmada 1.18, which has older ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    #[default]
    Kubernetes,
    Karmada,
}

/// Settings of all autoscalers; the defaults are those of kube-controller-manager.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingSettings {
    /// Accepted deviation of usage from its target, unless the autoscaler sets one.
    pub tolerance: f64,
    pub downscale_stabilization: Duration,
    /// The cpu usage of a pod younger than this is ignored until it was ready once.
    pub cpu_initialization_period: Duration,
    /// A pod that became unready within this time after its start was never ready.
    pub initial_readiness_delay: Duration,
    pub dialect: Dialect,
}

impl Default for ScalingSettings {
    fn default() -> Self {
        Self {
            tolerance: 0.1,
            downscale_stabilization: Duration::from_secs(300),
            cpu_initialization_period: Duration::from_secs(300),
            initial_readiness_delay: Duration::from_secs(30),
            dialect: Dialect::Kubernetes,
        }
    }
}

/// The verdict of the bounds of an autoscaler, before any metric is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundsVerdict {
    /// The target has no replicas and the autoscaler may not start some.
    Disabled,
    /// The replicas are outside the bounds; with the reason of the change.
    Rescale(i64, &'static str),
    /// Metrics decide.
    Measure,
}

/// The least and the most replicas of an autoscaler.
pub fn bounds_of(autoscaler: &Object) -> (i64, i64) {
    let least = autoscaler.i64_at(&["spec", "minReplicas"]).unwrap_or(1);
    (least, autoscaler.i64_at(&["spec", "maxReplicas"]).unwrap_or(least))
}

/// The reason of a new replica count, as events name it.
pub fn reason_of(proposed: i64, current: i64, metric: &str) -> String {
    if proposed > current { format!("{metric} above target") } else { "All metrics below target".to_owned() }
}

/// `running` is the number of replicas in all clusters, which differs from the template's while a change is on its way.
pub fn check_bounds(running: i64, current: i64, (least, most): (i64, i64)) -> BoundsVerdict {
    if running == 0 && least != 0 {
        BoundsVerdict::Disabled
    } else if current > most {
        BoundsVerdict::Rescale(most, "Current number of replicas above Spec.MaxReplicas")
    } else if current < least {
        BoundsVerdict::Rescale(least, "Current number of replicas below Spec.MinReplicas")
    } else {
        BoundsVerdict::Measure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_come_before_metrics() {
        let above = BoundsVerdict::Rescale(5, "Current number of replicas above Spec.MaxReplicas");
        let below = BoundsVerdict::Rescale(2, "Current number of replicas below Spec.MinReplicas");
        let cases = [
            (0, 0, (2, 5), BoundsVerdict::Disabled),
            (0, 0, (0, 5), BoundsVerdict::Measure),
            (9, 9, (2, 5), above),
            (1, 1, (2, 5), below),
            (3, 3, (2, 5), BoundsVerdict::Measure),
        ];
        for (running, current, bounds, expected) in cases {
            assert_eq!(check_bounds(running, current, bounds), expected, "{running} {current} {bounds:?}");
        }
    }
}
