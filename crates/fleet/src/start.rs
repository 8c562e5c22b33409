//! Starts the controllers that are switched on, over shared mirrors.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use api::features::Features;
use cluster_client::ClusterClient;
use reconcile::Clock;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::plane::Plane;
use crate::settings::Settings;
use crate::{access, health, lifecycle};

/// What the room works with.
pub struct Parts {
    /// The plane's own API.
    pub client: ClusterClient,
    pub features: Arc<Features>,
    pub clock: Arc<dyn Clock>,
    pub settings: Settings,
}

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;
type Start = fn(Arc<Plane>, CancellationToken) -> Running;

/// Runs until cancelled.
pub async fn run(parts: Parts, cancel: CancellationToken) {
    let Parts { client, features, clock, settings } = parts;
    let plane = Plane::start(client, clock, features, settings, &cancel);
    let mut running = JoinSet::new();
    for (name, start) in enabled(&plane.features, &plane.settings) {
        tracing::debug!(controller = name, "starting");
        running.spawn(start(Arc::clone(&plane), cancel.clone()));
    }
    while let Some(ended) = running.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a controller ended badly");
        }
    }
}

/// The controllers that run, under the names `--controllers` has for them.
fn enabled(features: &Features, settings: &Settings) -> Vec<(&'static str, Start)> {
    let all: &[(&'static str, bool, Start)] = &[
        ("cluster", true, |plane, cancel| Box::pin(lifecycle::run(plane, cancel))),
        ("cluster", true, |plane, cancel| Box::pin(health::run(plane, cancel))),
        ("unifiedAuth", true, |plane, cancel| Box::pin(access::run(plane, cancel))),
    ];
    let is_on =
        |(name, is_possible, _): &&(&'static str, bool, Start)| *is_possible && settings.controllers.is_enabled(name);
    let _ = features;
    all.iter().filter(is_on).map(|(name, _, start)| (*name, *start)).collect()
}
