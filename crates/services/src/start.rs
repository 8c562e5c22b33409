//! Starts the controllers that are switched on, over shared mirrors.

use std::sync::Arc;

use api::features::Features;
use plane_metrics::PlaneMetrics;
use reconcile::{Clock, Mirrors};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::plane::ServicePlane;
use crate::settings::ServiceSettings;
use crate::{derived, dispatch, exposure, imports};

/// Dependencies of the controllers.
pub struct ServiceDeps {
    /// Of the plane's own API.
    pub mirrors: Mirrors,
    pub features: Arc<Features>,
    pub clock: Arc<dyn Clock>,
    pub metrics: PlaneMetrics,
    pub settings: ServiceSettings,
}

/// Runs until cancelled.
pub async fn run(parts: ServiceDeps, cancel: CancellationToken) {
    let has_services = parts.features.multi_cluster_service;
    let plane = ServicePlane::start(parts);
    let is_on = |name: &str| plane.settings.is_enabled(name);
    let mut running = JoinSet::new();
    if has_services && is_on("multiclusterservice") {
        running.spawn(exposure::run(Arc::clone(&plane), cancel.clone()));
    }
    if has_services && is_on("endpointsliceDispatch") {
        running.spawn(dispatch::run(Arc::clone(&plane), cancel.clone()));
    }
    if is_on("endpointSlice") {
        running.spawn(imports::run(Arc::clone(&plane), cancel.clone()));
    }
    if is_on("serviceImport") {
        running.spawn(derived::run(Arc::clone(&plane), cancel.clone()));
    }
    while let Some(ended) = running.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a controller of services exited with an error");
        }
    }
}
