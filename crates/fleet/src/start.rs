//! Starts the controllers that are switched on, over shared mirrors.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use api::features::Features;
use plane_metrics::PlaneMetrics;
use reconcile::{Clock, Mirrors};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::plane::Plane;
use crate::settings::{ELSEWHERE, Settings};
use crate::{
    access, cron, eviction, figures, health, lifecycle, namespaces, profiles, quota, rebalance, remedies, replicas,
    scale_targets, taint_policies,
};

/// Dependencies of the controllers.
pub struct FleetDeps {
    /// Of the plane's own API.
    pub mirrors: Mirrors,
    pub features: Arc<Features>,
    pub clock: Arc<dyn Clock>,
    pub metrics: PlaneMetrics,
    pub settings: Settings,
}

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;
type Start = fn(Arc<Plane>, CancellationToken) -> Running;

/// Runs until cancelled.
pub async fn run(deps: FleetDeps, cancel: CancellationToken) {
    let plane = Plane::start(deps);
    let mut running = JoinSet::new();
    running.spawn(figures::run(Arc::clone(&plane), cancel.clone()));
    running.spawn(profiles::run(Arc::clone(&plane), cancel.clone()));
    for (name, start) in enabled(&plane.features, &plane.settings) {
        tracing::debug!(controller = name, "starting");
        running.spawn(start(Arc::clone(&plane), cancel.clone()));
    }
    while let Some(ended) = running.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a controller exited with an error");
        }
    }
}

/// Returns the names `--controllers` accepts, with those of controllers that other crates run.
pub fn controller_names() -> Vec<&'static str> {
    let mut names: Vec<&'static str> =
        controllers(&Features::default(), &Settings::default()).into_iter().map(|(name, _, _)| name).collect();
    names.dedup();
    names.extend(ELSEWHERE);
    names
}

/// Returns the controllers that run.
fn enabled(features: &Features, settings: &Settings) -> Vec<(&'static str, Start)> {
    let is_on =
        |(name, is_possible, _): &(&'static str, bool, Start)| *is_possible && settings.controllers.is_enabled(name);
    controllers(features, settings).into_iter().filter(is_on).map(|(name, _, start)| (name, start)).collect()
}

/// All controllers under their names in `--controllers`, and whether the feature gates allow them.
fn controllers(features: &Features, settings: &Settings) -> Vec<(&'static str, bool, Start)> {
    vec![
        ("cluster", true, |plane, cancel| Box::pin(lifecycle::run(plane, cancel))),
        ("cluster", true, |plane, cancel| Box::pin(health::run(plane, cancel))),
        ("cluster", features.failover && settings.enable_taint_manager, |plane, cancel| {
            Box::pin(eviction::run(plane, cancel))
        }),
        ("clustertaintpolicy", features.failover, |plane, cancel| Box::pin(taint_policies::run(plane, cancel))),
        ("namespace", true, |plane, cancel| Box::pin(namespaces::run(plane, cancel))),
        ("unifiedAuth", true, |plane, cancel| Box::pin(access::run(plane, cancel))),
        ("federatedResourceQuotaSync", true, |plane, cancel| Box::pin(quota::assign::run(plane, cancel))),
        ("federatedResourceQuotaStatus", true, |plane, cancel| Box::pin(quota::status::run(plane, cancel))),
        ("federatedResourceQuotaEnforcement", features.federated_quota_enforcement, |plane, cancel| {
            Box::pin(quota::enforce::run(plane, cancel))
        }),
        ("remedy", true, |plane, cancel| Box::pin(remedies::run(plane, cancel))),
        ("workloadRebalancer", true, |plane, cancel| Box::pin(rebalance::run(plane, cancel))),
        ("cronFederatedHorizontalPodAutoscaler", true, |plane, cancel| Box::pin(cron::run(plane, cancel))),
        ("hpaScaleTargetMarker", true, |plane, cancel| Box::pin(scale_targets::run(plane, cancel))),
        ("deploymentReplicasSyncer", true, |plane, cancel| Box::pin(replicas::run(plane, cancel))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Controllers;

    #[track_caller]
    fn check(gates: &str, controllers: &str, expected: usize) {
        let features = Features::parse(gates).expect("gates");
        let settings = Settings { controllers: Controllers::parse(controllers), ..Settings::default() };
        assert_eq!(enabled(&features, &settings).len(), expected, "{gates} {controllers}");
    }

    #[test]
    fn enabled_controllers_follow_feature_gates_and_the_list() {
        check("", "*", 9);
        check("Failover=true", "*", 11);
        check("FederatedQuotaEnforcement=true", "*", 10);
        check("", "*,hpaScaleTargetMarker,deploymentReplicasSyncer", 11);
        check("", "*,-cluster", 7);
        check("Failover=true", "cluster", 3);
        check("", "", 0);
    }

    #[test]
    fn unknown_controllers_are_rejected_with_the_known_names() {
        let check = |text: &str| Controllers::parse(text).check(&controller_names());
        assert_eq!(check("*,-cluster, remedy"), Ok(()));
        let refused = check("*,foo").expect_err("unknown");
        assert!(refused.starts_with("unknown controller \"foo\"; known controllers: cluster, "), "{refused}");
        assert!(check("-Cluster").is_err(), "names are case-sensitive");
        assert_eq!(check("*,-binding,-agentcsrapproving"), Ok(()));
    }
}
