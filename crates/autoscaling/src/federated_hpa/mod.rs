//! FederatedHPAs: replicas of a template follow the load of its pods in all members.
//!
//! Woken by changes of a FederatedHPA's spec and by the sync period. Writes the scale of the target and the status of the
//! FederatedHPA. Conditions and events are worded as in Karmada.

mod gather;
mod metrics;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use api::autoscaling::FEDERATED_HPAS;
use cluster_client::{ClusterClient, Patch, ResourceRef, RestMapper, WriteOptions};
use metrics_adapter::MetricsAdapter;
use object::Object;
use object::selector::LabelSelector;
use parking_lot::Mutex;
use plane_metrics::AutoscalingMetrics;
use reconcile::{
    Change, Clock, Controller, Index, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError, Recorder, Source,
    commit_status,
};
use scaling::behavior::{ScaleHistory, bound};
use scaling::metrics::Computed;
use scaling::status::StatusDraft;
use scaling::{BoundsVerdict, bounds_of, check_bounds, reason_of};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::federated_hpa::gather::{BoundTarget, ScaledWorkload};
use crate::{AutoscalingDeps, AutoscalingSettings};

const COMPONENT: &str = "federatedHPA-controller";
const FIELD_MANAGER: &str = "karmada-controller-manager";
const WORKERS: usize = 5;

struct FederatedHpaController {
    client: ClusterClient,
    mapper: RestMapper,
    adapter: MetricsAdapter,
    clock: Arc<dyn Clock>,
    events: Recorder,
    metrics: AutoscalingMetrics,
    settings: AutoscalingSettings,
    clusters: Mirror,
    /// ResourceBindings by the object they place.
    bindings: Index<BoundTarget>,
    /// One per FederatedHPA.
    histories: Mutex<HashMap<ObjectKey, ScaleHistory>>,
    /// The pods each FederatedHPA scales by, to find two that scale the same.
    selectors: Mutex<HashMap<ObjectKey, LabelSelector>>,
    /// Times in histories count from here.
    started: Instant,
}

/// Why a sync ended early: already in the status and in events.
struct Reported;

pub async fn run(deps: AutoscalingDeps, cancel: CancellationToken) {
    let AutoscalingDeps { mirrors, adapter, clock, metrics, settings } = deps;
    let client = mirrors.client().clone();
    let autoscalers = mirrors.get(MirrorSpec::new(&FEDERATED_HPAS.gvr()));
    let bindings = mirrors.packed(&api::work::RESOURCE_BINDINGS.gvr()).index(gather::bound_targets);
    let controller = Arc::new(FederatedHpaController {
        mapper: RestMapper::new(client.clone()),
        events: Recorder::start(client.clone(), COMPONENT, Arc::clone(&clock), cancel.clone()),
        metrics: metrics.autoscaling.clone(),
        clusters: mirrors.of(&api::cluster::CLUSTERS.gvr()),
        bindings,
        histories: Mutex::default(),
        selectors: Mutex::default(),
        started: Instant::now(),
        client,
        adapter,
        clock,
        settings,
    });
    let source = Source::new(&autoscalers, specs_changed);
    let reconcile = move |key: ObjectKey| {
        let controller = Arc::clone(&controller);
        async move { controller.reconcile(&key).await }
    };
    Controller::new(COMPONENT).observed_by(&metrics.controllers).run(vec![source], WORKERS, cancel, reconcile).await;
}

/// Own status updates do not trigger a reconcile.
fn specs_changed(change: &Change) -> Vec<ObjectKey> {
    match (&change.before, &change.now) {
        (Some(before), Some(now)) if before.generation() == now.generation() && before.uid() == now.uid() => Vec::new(),
        _ => vec![change.key.clone()],
    }
}

impl FederatedHpaController {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let target = ResourceRef::namespaced(&FEDERATED_HPAS.gvr(), &key.namespace, &key.name);
        let autoscaler = self.client.find(target.clone()).await?;
        let Some(autoscaler) = autoscaler.filter(|autoscaler| !autoscaler.is_deleting()) else {
            self.histories.lock().remove(key);
            self.selectors.lock().remove(key);
            return Ok(Outcome::Done);
        };
        // Decisions before the mirrors are complete would rest on bindings and clusters that are missing only here.
        self.bindings.mirror().synced().await;
        self.clusters.synced().await;
        let started = Instant::now();
        let mut draft = StatusDraft::new(&autoscaler, self.clock.now());
        let synced = self.sync(key, &autoscaler, &mut draft).await;
        let committed = commit_status(&self.client, target, &autoscaler, &draft.object, FIELD_MANAGER).await;
        self.metrics.processed(synced.is_ok() && committed.is_ok(), started.elapsed());
        match committed {
            Ok(_) => Ok(Outcome::After(self.settings.sync_period)),
            Err(status) => {
                if !status.is_conflict() && !status.is_not_found() {
                    self.events.warning(&*autoscaler, "FailedUpdateStatus", status.to_string());
                }
                Err(status.into())
            }
        }
    }

    /// One sync: gathers, decides and rescales. The result goes into the draft and events.
    async fn sync(&self, key: &ObjectKey, autoscaler: &Object, draft: &mut StatusDraft) -> Result<(), Reported> {
        let workload = self.gather(key, autoscaler, draft).await?;
        let current = workload.current;
        draft.scale_was_read(current);
        let now = self.started.elapsed();
        self.with_history(key, |history| history.begin(current, now));
        let (desired, reason) = match check_bounds(workload.running, current, bounds_of(autoscaler)) {
            BoundsVerdict::Disabled => {
                draft.set_metrics(Vec::new());
                draft.scaling_is_disabled(current);
                return Ok(());
            }
            BoundsVerdict::Rescale(to, reason) => {
                draft.set_metrics(Vec::new());
                (to, reason.to_owned())
            }
            BoundsVerdict::Measure => self.desire(key, autoscaler, &workload, draft).await?,
        };
        if desired == current {
            draft.set_desired(current);
            return Ok(());
        }
        self.commit_scale(key, autoscaler, &workload, desired, &reason, draft).await
    }

    fn with_history<R>(&self, key: &ObjectKey, act: impl FnOnce(&mut ScaleHistory) -> R) -> R {
        act(self.histories.lock().entry(key.clone()).or_default())
    }

    /// Computes the replica count from metrics, within the bounds and the behavior, with its reason.
    async fn desire(
        &self,
        key: &ObjectKey,
        autoscaler: &Object,
        workload: &ScaledWorkload,
        draft: &mut StatusDraft,
    ) -> Result<(i64, String), Reported> {
        self.check_selector(key, autoscaler, workload, draft)?;
        let computed = self.compute(autoscaler, workload).await;
        let Computed { replicas, metric, statuses, failures, error } = computed;
        for failure in &failures {
            self.events.warning(autoscaler, failure.reason, failure.message.clone());
        }
        let Some(proposed) = replicas else {
            if let Some(first) = failures.first() {
                draft.metrics_failed(first);
            }
            self.events.warning(autoscaler, "FailedComputeMetricsReplicas", error.unwrap_or_default());
            return Err(Reported);
        };
        draft.set_metrics(statuses);
        let current = workload.current;
        let (settings, now) = (&self.settings.scaling, self.started.elapsed());
        let bounded = self.with_history(key, |history| bound(autoscaler, history, current, proposed, settings, now));
        draft.replicas_were_computed(&metric, &bounded);
        Ok((bounded.replicas, reason_of(proposed, current, &metric)))
    }

    /// Writes the scale of the template, in the version that was read: a concurrent change is not overwritten.
    async fn commit_scale(
        &self,
        key: &ObjectKey,
        autoscaler: &Object,
        workload: &ScaledWorkload,
        desired: i64,
        reason: &str,
        draft: &mut StatusDraft,
    ) -> Result<(), Reported> {
        let current = workload.current;
        let body = json!({"metadata": {"resourceVersion": workload.version}, "spec": {"replicas": desired}});
        let options = WriteOptions::managed_by(FIELD_MANAGER);
        if let Err(error) = self.client.patch(workload.scale.clone(), Patch::merge(body), options).await {
            let message = format!("New size: {desired}; reason: {reason}; error: {error}");
            self.events.warning(autoscaler, "FailedRescale", message);
            draft.rescale_failed(&error);
            return Err(Reported);
        }
        draft.was_rescaled(desired);
        self.events.normal(autoscaler, "SuccessfulRescale", format!("New size: {desired}; reason: {reason}"));
        let now = self.started.elapsed();
        self.with_history(key, |history| history.scaled(current, desired, now));
        Ok(())
    }
}
