//! Starts the controllers over shared mirrors.

use std::sync::Arc;
use std::time::Duration;

use reconcile::{Clock, Controller, Mirrors, Outcome};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;
use crate::dispatch::{self, Routes};
use crate::{cron_job, daemon_set, deployment, job, replica_set, stateful_set};

/// The dependencies of the workload controllers.
pub struct WorkloadDeps {
    /// Of the cluster whose workloads are managed.
    pub mirrors: Mirrors,
    pub clock: Arc<dyn Clock>,
}

/// Runs until cancelled. Only one instance may run per cluster.
pub async fn run(parts: WorkloadDeps, cancel: CancellationToken) {
    let cluster = Cluster::start(&parts.mirrors, parts.clock, &cancel);
    // Acting before the mirrors are complete would create pods twice.
    tokio::select! {
        () = cancel.cancelled() => return,
        () = cluster.synced() => {}
    }
    let mut running = JoinSet::new();
    let deployments = deployment::controller_of_deployments();
    running.spawn(deployment::run(Arc::clone(&cluster), deployments.clone()));
    let strays = Controller::new("job-strays");
    running.spawn(job::run_strays(Arc::clone(&cluster), strays.clone()));
    let mut owners = Vec::new();
    for sort in [replica_set::REPLICA_SETS, replica_set::REPLICATION_CONTROLLERS] {
        let (route, controller) = replica_set::start(&cluster, sort);
        owners.push(route);
        running.spawn(controller);
    }
    let (route, controller) = stateful_set::start(&cluster);
    owners.push(route);
    running.spawn(controller);
    let (route, controller) = daemon_set::start(&cluster);
    owners.push(route);
    running.spawn(controller);
    let (route, controller) = job::start(&cluster);
    owners.push(route);
    running.spawn(controller);
    running.spawn(cron_job::run(Arc::clone(&cluster)));
    let routes = Routes { owners, deployments, strays };
    running.spawn(dispatch::run(Arc::clone(&cluster), routes, cancel.clone()));
    while let Some(ended) = running.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "controller exited with an error");
        }
    }
}

/// Returns the earlier of an outcome and a wait.
pub fn sooner(outcome: Outcome, wait: Option<Duration>) -> Outcome {
    match (outcome, wait) {
        (Outcome::After(first), Some(second)) => Outcome::After(first.min(second)),
        (Outcome::Done, Some(wait)) => Outcome::After(wait),
        (outcome, _) => outcome,
    }
}
