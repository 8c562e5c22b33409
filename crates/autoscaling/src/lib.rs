//! Scales templates by the load of their pods in all members.

mod federated_hpa;

use std::sync::Arc;
use std::time::Duration;

use metrics_adapter::MetricsAdapter;
use plane_metrics::PlaneMetrics;
use reconcile::{Clock, Mirrors};
use scaling::{Dialect, ScalingSettings};
use tokio_util::sync::CancellationToken;

/// The name of the controller in `--controllers`.
pub const FEDERATED_HPA_CONTROLLER: &str = "federatedHorizontalPodAutoscaler";

#[derive(Clone, Debug)]
pub struct AutoscalingSettings {
    /// Interval of reading metrics.
    pub sync_period: Duration,
    pub scaling: ScalingSettings,
}

impl Default for AutoscalingSettings {
    fn default() -> Self {
        let scaling = ScalingSettings { dialect: Dialect::Karmada, ..ScalingSettings::default() };
        Self { sync_period: Duration::from_secs(15), scaling }
    }
}

pub struct AutoscalingDeps {
    /// Of the control plane's own API.
    pub mirrors: Mirrors,
    pub adapter: MetricsAdapter,
    pub clock: Arc<dyn Clock>,
    pub metrics: PlaneMetrics,
    pub settings: AutoscalingSettings,
}

/// Runs until cancelled.
pub async fn run(deps: AutoscalingDeps, cancel: CancellationToken) {
    federated_hpa::run(deps, cancel).await;
}
