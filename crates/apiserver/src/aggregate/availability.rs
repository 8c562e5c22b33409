//! Probes every aggregated server and writes the result into the APIService's status.

use std::sync::{Arc, Weak};
use std::time::Duration;

use object::conditions::{self, NewCondition};
use object::{Object, Status};

use super::{Aggregator, External, fetch, local, services};
use crate::cache::Filter;
use crate::outgoing::OutgoingError;
use crate::resources::Resources;
use crate::server::Server;
use crate::storage;

/// Interval of probes.
const CHECK_EVERY: Duration = Duration::from_secs(30);

/// Registers the local groups, then follows the APIServices until the server stops.
pub async fn start(server: &Arc<Server>) -> Result<(), Status> {
    local::register(server.resources()).await?;
    server.aggregator.refresh(&services(&server.registry).await?);
    tokio::spawn(follow(Arc::downgrade(server), server.stop.clone()));
    Ok(())
}

async fn follow(server: Weak<Server>, stop: tokio_util::sync::CancellationToken) {
    loop {
        let Some(strong) = server.upgrade() else { return };
        let Some(resource) = strong.registry.find("apiregistration.k8s.io", "v1", "apiservices") else { return };
        let (_, mut watcher) = resource.cache.state_and_watch(Filter::default());
        if let Err(status) = step(&strong.aggregator, strong.resources()).await {
            tracing::warn!(%status, "aggregated APIs could not be checked; trying again");
        }
        let generation = strong.registry.snapshot().generation;
        drop(strong);
        let registry_changed = wait_for_registry(&server, generation);
        tokio::select! {
            () = stop.cancelled() => return,
            _ = watcher.next() => {}
            () = registry_changed => {}
            () = tokio::time::sleep(CHECK_EVERY) => {}
        }
    }
}

/// Resolves when CRDs have added or removed a group version.
async fn wait_for_registry(server: &Weak<Server>, generation: u64) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        match server.upgrade() {
            Some(server) if server.registry.snapshot().generation == generation => {}
            _ => return,
        }
    }
}

async fn step(aggregator: &Aggregator, resources: Resources<'_>) -> Result<(), Status> {
    local::register(resources).await?;
    let services = services(resources.registry).await?;
    aggregator.refresh(&services);
    let checks = services.iter().filter_map(|service| Some((service, External::read(service)?)));
    let checks = checks.map(|(service, external)| check(aggregator, resources, service, external));
    futures::future::join_all(checks).await;
    aggregator.refresh(&super::services(resources.registry).await?);
    Ok(())
}

async fn check(aggregator: &Aggregator, resources: Resources<'_>, service: &Object, external: External) {
    let (group, version) = (&external.group, &external.version);
    let answered = fetch(aggregator, resources, &external, &format!("/apis/{group}/{version}")).await;
    let (status, reason, message) = match answered {
        Ok(_) => ("True", "Passed", "all checks passed".to_owned()),
        Err(problem @ OutgoingError::ServiceNotFound { .. }) => ("False", "ServiceNotFound", problem.to_string()),
        Err(problem) => ("False", "FailedDiscoveryCheck", format!("failing or missing response: {problem}")),
    };
    let mut new = service.clone();
    let condition = NewCondition { kind: "Available", status, reason, message: &message };
    conditions::set(&mut new, &condition, jiff::Timestamp::now());
    if new == *service {
        return;
    }
    let Some(resource) = resources.registry.find("apiregistration.k8s.io", "v1", "apiservices") else { return };
    let revision = service.resource_version().parse().unwrap_or(0);
    let key = resource.key("", service.name());
    if let Err(status) = resources.objects.update(&key, storage::encode(&new), revision, None).await {
        tracing::warn!(name = service.name(), %status, "the availability of an aggregated API could not be written");
    }
}
