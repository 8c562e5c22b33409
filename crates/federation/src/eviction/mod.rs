//! Lets workloads leave members gracefully: a copy stays until its successors are well or its time is up.

mod failover;

use std::sync::Arc;

use api::cluster::CONDITION_READY;
use api::failover::ANNOTATION_HISTORY;
use api::work::{BindingSpec, BindingStatus};
use cluster_client::{Patch, WriteOptions};
use interpreter::Operation;
use jiff::Timestamp;
use object::{Object, conditions};
use propagation::eviction::{self, Care, ClusterState, ClusterStates, Settled, TaskOutcome};
use propagation::failover_history::History;
use reconcile::{Change, Controller, ObjectKey, Outcome, ReconcileError, Source};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::bindings::{Recorders, check_scope, mirror_of, template_of};
use crate::plane::{FIELD_MANAGER, Plane};
use crate::templates::Template;

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
    let controller = Controller::new("graceful-eviction").observed_by(&plane.metrics.controllers);
    let context = Arc::new(Context { plane, recorders });
    let reconcile = move |key| {
        let context = Arc::clone(&context);
        async move { context.reconcile(key).await }
    };
    controller.run(sources, workers, cancel, reconcile).await;
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
        if let Err(refusal) = check_scope(&self.plane, &binding) {
            tracing::debug!(binding = %key, %refusal, "the evictions of the binding are not completed");
            return Ok(Outcome::Done);
        }
        let spec: BindingSpec = api::read(&binding)?;
        let status: BindingStatus = api::read_at(&binding, &["status"])?;
        let now = self.plane.clock.now();
        let timeout = self.plane.settings.graceful_eviction_timeout;
        let generation = binding.generation();
        let assessment = match self.plane.features.resilient_failover {
            true => {
                let clusters = self.gather_cluster_states(&spec);
                let gvk = Template::from(&spec.resource).gvk();
                let is_judged = self.plane.interpreter.load().has_hook(&gvk, Operation::InterpretHealth);
                let care = Care { clusters: &clusters, is_judged };
                eviction::assess_with_care(&spec, &status, generation, now, timeout, care)
            }
            false => eviction::assess(&spec, &status, generation, now, timeout),
        };
        if assessment.outcomes.iter().any(|outcome| outcome.is_news()) {
            let settled = eviction::settle(&binding, &assessment, now);
            let options = WriteOptions::managed_by(FIELD_MANAGER);
            let patch = self.patch(&binding, &settled, now);
            self.plane.client.patch(mirror.target(&key), Patch::merge(patch), options).await?;
            for (cluster, outcome) in settled.ended {
                self.record_end(&key, &binding, &spec, &cluster, outcome);
            }
        }
        Ok(assessment.again_in.map_or(Outcome::Done, Outcome::After))
    }

    /// The members the workload leaves, and those it goes to.
    fn gather_cluster_states(&self, spec: &BindingSpec) -> ClusterStates {
        let targets = spec.clusters.iter().map(|target| &target.name);
        let left = spec.graceful_eviction_tasks.iter().map(|task| &task.from_cluster);
        let known = |name: &String| {
            let cluster = self.plane.clusters.get(&ObjectKey::new("", name))?;
            Some((name.clone(), cluster_state_of(&cluster)))
        };
        targets.chain(left).filter_map(known).collect()
    }

    fn patch(&self, binding: &Object, settled: &Settled, now: Timestamp) -> Value {
        let tasks = if settled.tasks.is_empty() { Value::Null } else { json!(settled.tasks) };
        let mut patch = json!({
            "metadata": {"resourceVersion": binding.resource_version(), "uid": binding.uid()},
            "spec": {"gracefulEvictionTasks": tasks},
        });
        if let Some(clusters) = &settled.clusters {
            patch["spec"]["clusters"] = json!(clusters);
        }
        let mut history = History::of(binding);
        let mut is_news = false;
        for (cluster, outcome) in &settled.ended {
            is_news |= history.end(cluster, outcome.name(), *outcome == TaskOutcome::Returned, now);
        }
        if is_news {
            patch["metadata"]["annotations"] = json!({ANNOTATION_HISTORY: history.text()});
        }
        patch
    }

    fn record_end(&self, key: &ObjectKey, binding: &Object, spec: &BindingSpec, cluster: &str, outcome: TaskOutcome) {
        let (reason, message) = match outcome {
            TaskOutcome::Returned => {
                let text = format!("Cluster {cluster} is well again and there was no other place: the workload stays.");
                ("EvictWorkloadFromClusterCancelled", text)
            }
            _ => ("EvictWorkloadFromClusterSucceed", format!("Evict from cluster {cluster} succeed.")),
        };
        let recorder = self.recorders.of(key);
        recorder.normal(binding, reason, message.clone());
        recorder.normal(template_of(&spec.resource), reason, message);
    }
}

fn cluster_state_of(cluster: &Object) -> ClusterState {
    let drives_out = |taint: &Value| taint["effect"] == "NoExecute";
    ClusterState {
        is_ready: !cluster.is_deleting() && conditions::is_true(cluster, CONDITION_READY),
        is_open: !cluster.is_deleting() && !cluster.items(&["spec", "taints"]).iter().any(drives_out),
    }
}

#[cfg(test)]
mod tests;
