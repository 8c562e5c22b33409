//! Estimates from the nodes of members, under the names, labels and buckets of karmada-scheduler-estimator
//! (v1.18, `pkg/estimator/server/metrics`).

use std::time::{Duration, Instant};

use metrics::{Counter, Histogram, Registry, exponential};

use crate::plane::result;

const POINT: &str = "estimating_plugin_extension_point";

/// The kind of a request to an estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimateType {
    MaxAvailableReplicas,
    MaxAvailableComponentSets,
    GetUnschedulableReplicas,
}

/// The point at which plugins of an estimator run. It has none for unschedulable replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimatePoint {
    Replicas,
    Components,
}

/// A part of an estimate that Karmada has as a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimatePlugin {
    Nodes,
    Quotas,
}

#[derive(Clone)]
pub struct EstimatorMetrics {
    requests: Counter,
    algorithm: Histogram,
    extension_point: Histogram,
    plugin: Histogram,
}

impl EstimatorMetrics {
    pub fn new(registry: &Registry) -> Self {
        Self {
            requests: registry.counter(
                "karmada_scheduler_estimator_estimating_request_total",
                &["result", "type"],
                "Number of scheduler estimator requests",
            ),
            algorithm: registry.histogram(
                "karmada_scheduler_estimator_estimating_algorithm_duration_seconds",
                &["result", "type", "step"],
                &exponential(0.001, 2.0, 10),
                "Estimating algorithm latency in seconds for each step",
            ),
            extension_point: registry.histogram(
                "karmada_scheduler_estimator_estimating_plugin_extension_point_duration_seconds",
                &[POINT],
                &exponential(0.0001, 2.0, 12),
                "Latency for running all plugins of a specific extension point.",
            ),
            plugin: registry.histogram(
                "karmada_scheduler_estimator_estimating_plugin_execution_duration_seconds",
                &["estimating_plugin", POINT],
                &exponential(0.000_01, 1.5, 20),
                "Duration for running a plugin at a specific extension point.",
            ),
        }
    }

    /// Counts a request that the estimator service answered.
    pub fn answered(&self, kind: EstimateType, is_ok: bool, took: Duration) {
        let (result, kind) = (result(is_ok), kind.text());
        self.requests.add_one(&[result, kind]);
        self.algorithm.observe(&[result, kind, "Total"], took);
    }

    /// Counts estimates that the scheduler of this process made itself. Their durations are not known: decisions read no clock.
    pub fn made(&self, kind: EstimateType, count: usize) {
        if count > 0 {
            self.requests.with(&[result(true), kind.text()]).add(count as u64);
        }
    }

    /// Measures all plugins of an estimate.
    pub fn all_plugins<T>(&self, point: EstimatePoint, run: impl FnOnce() -> T) -> T {
        let since = Instant::now();
        let outcome = run();
        self.extension_point.observe(&[point.text()], since.elapsed());
        outcome
    }

    pub fn plugin<T>(&self, point: EstimatePoint, plugin: EstimatePlugin, run: impl FnOnce() -> T) -> T {
        let since = Instant::now();
        let outcome = run();
        let name = match plugin {
            EstimatePlugin::Nodes => "NodeResourceEstimator",
            EstimatePlugin::Quotas => "ResourceQuotaEstimator",
        };
        self.plugin.observe(&[name, point.text()], since.elapsed());
        outcome
    }
}

impl EstimateType {
    fn text(self) -> &'static str {
        match self {
            Self::MaxAvailableReplicas => "MaxAvailableReplicas",
            Self::MaxAvailableComponentSets => "MaxAvailableComponentSets",
            Self::GetUnschedulableReplicas => "GetUnschedulableReplicas",
        }
    }
}

impl EstimatePoint {
    fn text(self) -> &'static str {
        match self {
            Self::Replicas => "estimate_replicas",
            Self::Components => "estimate_components",
        }
    }
}
