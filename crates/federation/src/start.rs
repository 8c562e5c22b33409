//! Starts the controllers of this crate on mirrors they share.

use std::sync::Arc;

use api::features::Features;
use plane_metrics::PlaneMetrics;
use reconcile::{Clock, Mirrors};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::plane::Plane;
use crate::settings::Settings;
use crate::{binding, dependencies, eviction, rollup, work};

/// Dependencies of the controllers.
#[derive(Clone)]
pub struct FederationDeps {
    /// Of the control plane, with the rights of karmada-controller-manager.
    pub mirrors: Mirrors,
    pub interpreter: interpreter_runtime::SharedInterpreter,
    pub features: Arc<Features>,
    pub clock: Arc<dyn Clock>,
    pub metrics: PlaneMetrics,
    pub settings: Settings,
}

/// Runs until cancelled.
pub async fn run(deps: FederationDeps, cancel: CancellationToken) {
    let plane = Plane::start(deps, &cancel);
    let stop = || cancel.clone();
    let mut running = JoinSet::new();
    running.spawn(Arc::clone(&plane.templates).run());
    running.spawn(binding::run(Arc::clone(&plane), stop()));
    if plane.features.propagate_deps {
        running.spawn(dependencies::run(Arc::clone(&plane), stop()));
    }
    let runs = plane.settings.runs;
    if runs.binding {
        running.spawn(work::run(Arc::clone(&plane), stop()));
    }
    if runs.binding_status {
        running.spawn(rollup::run(Arc::clone(&plane), stop()));
    }
    if runs.application_failover {
        running.spawn(eviction::run_failover(Arc::clone(&plane), stop()));
    }
    if plane.features.graceful_eviction && runs.graceful_eviction {
        running.spawn(eviction::run(Arc::clone(&plane), stop()));
    }
    while let Some(ended) = running.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a controller exited with an error");
        }
    }
}
