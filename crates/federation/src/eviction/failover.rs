//! Moves a workload out of members in which it has been unhealthy for longer than its policy tolerates.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::policy::ApplicationFailoverBehavior;
use api::work::{BindingSpec, BindingStatus};
use interpreter::Operation;
use object::Object;
use parking_lot::Mutex;
use propagation::eviction::{Eviction, Unhealthy, application_eviction, detect_failures, evict, evict_on_record};
use reconcile::{Change, Controller, ObjectKey, Outcome, ReconcileError, Source, commit_object};
use tokio_util::sync::CancellationToken;

use crate::bindings::{Recorders, check_scope, mirror_of, template_of};
use crate::plane::{FIELD_MANAGER, Plane};
use crate::templates::Template;

const PRODUCER: &str = "resource-binding-application-failover-controller";
const CLUSTER_PRODUCER: &str = "cluster-resource-binding-application-failover-controller";

/// Default of the schema.
const TOLERATED_SECONDS: i32 = 300;

struct Context {
    plane: Arc<Plane>,
    recorders: Recorders,
    /// Of bindings with application failover only. A restart resets the times, as in Karmada.
    unhealthy: Mutex<HashMap<ObjectKey, Unhealthy>>,
}

/// Runs until cancelled.
pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let recorders = Recorders::start(&plane, PRODUCER, CLUSTER_PRODUCER, &cancel);
    let sources = vec![Source::new(&plane.bindings, of_binding), Source::new(&plane.cluster_bindings, of_binding)];
    let workers = plane.settings.eviction_workers;
    let controller = Controller::new("application-failover").observed_by(&plane.metrics.controllers);
    let context = Arc::new(Context { plane, recorders, unhealthy: Mutex::default() });
    let reconcile = move |key| {
        let context = Arc::clone(&context);
        async move { context.reconcile(key).await }
    };
    controller.run(sources, workers, cancel, reconcile).await;
}

/// Any change of a binding that is or was to fail over.
fn of_binding(change: &Change) -> Vec<ObjectKey> {
    let fails_over = |binding: &Arc<Object>| binding.get(&["spec", "failover", "application"]).is_some();
    let is_meant = [&change.before, &change.now].into_iter().flatten().any(fails_over);
    if is_meant { vec![change.key.clone()] } else { Vec::new() }
}

impl Context {
    async fn reconcile(&self, key: ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some((binding, spec, behavior)) = self.gather(&key)? else {
            self.unhealthy.lock().remove(&key);
            return Ok(Outcome::Done);
        };
        let status: BindingStatus = api::read_at(&binding, &["status"])?;
        let seconds = behavior.decision_conditions.toleration_seconds.unwrap_or(TOLERATED_SECONDS);
        let tolerated = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let failover = {
            let mut unhealthy = self.unhealthy.lock();
            let since = unhealthy.entry(key.clone()).or_default();
            detect_failures(&spec, &status.aggregated_status, since, tolerated, self.plane.clock.now())
        };
        let mut desired = Object::clone(&binding);
        for cluster in &failover.evicted {
            let items = &status.aggregated_status;
            let eviction = application_eviction(&behavior, &spec, items, cluster, &self.plane.features);
            let eviction = eviction.map_err(ReconcileError::other)?;
            let eviction = Eviction { producer: producer_of(&key).to_owned(), ..eviction };
            match self.plane.features.resilient_failover {
                true => {
                    let message = format!("unhealthy for longer than {seconds} s");
                    let eviction = Eviction { message, ..eviction };
                    evict_on_record(&mut desired, cluster, eviction, self.plane.clock.now())
                }
                false => evict(&mut desired, cluster, eviction),
            };
        }
        if !failover.evicted.is_empty() {
            self.commit(&key, &binding, &desired, &spec, &failover.evicted).await?;
        }
        Ok(failover.again_in.map_or(Outcome::Done, Outcome::After))
    }

    /// The binding, where its workload can be judged and moved.
    fn gather(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<(Arc<Object>, BindingSpec, ApplicationFailoverBehavior)>, ReconcileError> {
        let acts_on = |binding: &Arc<Object>| !binding.is_deleting() && check_scope(&self.plane, binding).is_ok();
        let Some(binding) = mirror_of(&self.plane, key).get(key).filter(acts_on) else { return Ok(None) };
        let spec: BindingSpec = api::read(&binding)?;
        let behavior = spec.failover.as_ref().and_then(|failover| failover.application.clone());
        let is_known = !binding.items(&["status", "aggregatedStatus"]).is_empty();
        let gvk = Template::from(&spec.resource).gvk();
        let is_judged = self.plane.interpreter.load().has_hook(&gvk, Operation::InterpretHealth);
        // In Karmada what a namespaced workload needs must be able to follow it; policies that do without are refused
        // there, and taken here for what they say: see `validation::rules::propagation`.
        let is_free_to_go = self.plane.features.resilient_failover || key.namespace.is_empty();
        let takes_needs_along = spec.propagate_deps || is_free_to_go;
        Ok(behavior.filter(|_| is_known && is_judged && takes_needs_along).map(|behavior| (binding, spec, behavior)))
    }

    async fn commit(
        &self,
        key: &ObjectKey,
        binding: &Object,
        desired: &Object,
        spec: &BindingSpec,
        evicted: &[String],
    ) -> Result<(), ReconcileError> {
        let target = mirror_of(&self.plane, key).target(key);
        let Err(error) = commit_object(&self.plane.client, target, binding, desired, FIELD_MANAGER).await else {
            return Ok(());
        };
        for cluster in evicted.iter().filter(|_| !error.is_conflict()) {
            let message = format!("Evict from cluster {cluster} failed.");
            let recorder = self.recorders.of(key);
            recorder.warning(binding, "EvictWorkloadFromClusterFailed", message.clone());
            recorder.warning(template_of(&spec.resource), "EvictWorkloadFromClusterFailed", message);
        }
        Err(error.into())
    }
}

fn producer_of(key: &ObjectKey) -> &'static str {
    if key.namespace.is_empty() { CLUSTER_PRODUCER } else { PRODUCER }
}
