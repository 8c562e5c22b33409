//! Lets workloads leave members gracefully: a copy stays until its successors are well or its time is up.

mod failover;

use std::sync::Arc;

use api::work::{BindingSpec, BindingStatus};
use cluster_client::{Patch, WriteOptions};
use propagation::eviction::{self, Fate};
use reconcile::{Change, Controller, ObjectKey, Outcome, ReconcileError, Source};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::bindings::{Recorders, mirror_of, template_of};
use crate::plane::{FIELD_MANAGER, Plane};

pub use crate::eviction::failover::run as run_failover;

struct Context {
    plane: Arc<Plane>,
    recorders: Recorders,
}

/// Runs until cancelled.
pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let names =
        ("resource-binding-graceful-eviction-controller", "cluster-resource-binding-graceful-eviction-controller");
    let recorders = Recorders::start(&plane, names.0, names.1, &cancel);
    let sources = vec![Source::new(&plane.bindings, of_binding), Source::new(&plane.cluster_bindings, of_binding)];
    let workers = plane.settings.eviction_workers;
    let context = Arc::new(Context { plane, recorders });
    let reconcile = move |key| {
        let context = Arc::clone(&context);
        async move { context.reconcile(key).await }
    };
    Controller::new("graceful-eviction").run(sources, workers, cancel, reconcile).await;
}

/// Any change of a binding that has tasks: its health and its schedule both count.
fn of_binding(change: &Change) -> Vec<ObjectKey> {
    let has_tasks = change.now.as_ref().is_some_and(|now| !now.items(&["spec", "gracefulEvictionTasks"]).is_empty());
    if has_tasks { vec![change.key.clone()] } else { Vec::new() }
}

impl Context {
    async fn reconcile(&self, key: ObjectKey) -> Result<Outcome, ReconcileError> {
        let mirror = mirror_of(&self.plane, &key);
        let Some(binding) = mirror.get(&key).filter(|binding| !binding.is_deleting()) else {
            return Ok(Outcome::Done);
        };
        let spec: BindingSpec = api::read(&binding)?;
        let status: BindingStatus = api::read_at(&binding, &["status"])?;
        let now = self.plane.clock.now();
        let timeout = self.plane.settings.graceful_eviction_timeout;
        let assessment = eviction::assess(&spec, &status, binding.generation(), now, timeout);
        let is_news = |fate: &Fate| !matches!(fate, Fate::Wait { .. } | Fate::KeptByUser);
        if assessment.fates.iter().any(is_news) {
            let (kept, left) = eviction::settle(&binding, &assessment, now);
            let kept = if kept.is_empty() { Value::Null } else { Value::Array(kept) };
            let patch = json!({
                "metadata": {"resourceVersion": binding.resource_version(), "uid": binding.uid()},
                "spec": {"gracefulEvictionTasks": kept},
            });
            let options = WriteOptions::managed_by(FIELD_MANAGER);
            self.plane.client.patch(mirror.target(&key), Patch::merge(patch), options).await?;
            for cluster in left {
                let message = format!("Evict from cluster {cluster} succeed.");
                let recorder = self.recorders.of(&key);
                recorder.normal(&*binding, "EvictWorkloadFromClusterSucceed", message.clone());
                recorder.normal(template_of(&spec.resource), "EvictWorkloadFromClusterSucceed", message);
            }
        }
        Ok(assessment.again_in.map_or(Outcome::Done, Outcome::After))
    }
}

#[cfg(test)]
mod tests;
