//! HorizontalPodAutoscalers: scale any scalable resource by the usage of its pods.

mod metrics;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use cluster_client::{Patch, ResourceRef, WriteOptions};
use object::Object;
use object::builtin;
use object::selector::LabelSelector;
use parking_lot::Mutex;
use reconcile::{Change, Controller, ObjectKey, Outcome, ReconcileError, Recorder, Source, commit_status};
use scaling::behavior::{ScaleHistory, bound};
use scaling::calculator::Limits;
use scaling::metrics::{Computed, MeasuredMetric, Workload};
use scaling::pods::ScaledPod;
use scaling::status::StatusDraft;
use scaling::{BoundsVerdict, bounds_of, check_bounds, reason_of};
use serde_json::json;
use tokio::time::Instant;

use crate::autoscaling::metrics::{MetricSource, PodSelection};
use crate::mirrors::{ClusterMirrors, FIELD_MANAGER};
use crate::scales::{Scale, Scales};
use crate::selected_pods::SelectedPods;
use crate::start::Service;

const WORKERS: usize = 5;

struct Autoscaling {
    mirrors: Arc<ClusterMirrors>,
    recorder: Recorder,
    scales: Scales,
    selected_pods: SelectedPods<ScaledPod>,
    /// One per autoscaler.
    histories: Mutex<HashMap<ObjectKey, ScaleHistory>>,
    metrics: MetricSource,
    /// Times in histories count from here.
    started: Instant,
}

pub fn start(mirrors: &Arc<ClusterMirrors>) -> Service {
    let autoscaling = Arc::new(Autoscaling {
        recorder: mirrors.recorder("horizontal-pod-autoscaler"),
        scales: Scales::new(mirrors.client.clone()),
        selected_pods: SelectedPods::new(scaling::pods::read),
        histories: Mutex::default(),
        metrics: MetricSource::new(mirrors.client.clone()),
        started: Instant::now(),
        mirrors: Arc::clone(mirrors),
    });
    let listener = Arc::clone(&autoscaling);
    // Pod events only update the index; usage is read periodically.
    let on_pod = move |change: &Change| drop(listener.selected_pods.pod_changed(change));
    Service::new(run(autoscaling)).on_pods(on_pod)
}

async fn run(autoscaling: Arc<Autoscaling>) {
    // Own status updates do not trigger a reconcile.
    let source = Source::new(&autoscaling.mirrors.autoscalers, |change| match (&change.before, &change.now) {
        (Some(before), Some(now)) if before.generation() == now.generation() && before.uid() == now.uid() => Vec::new(),
        _ => vec![change.key.clone()],
    });
    let cancel = autoscaling.mirrors.cancel.clone();
    let reconcile = move |key: ObjectKey| {
        let autoscaling = Arc::clone(&autoscaling);
        async move { autoscaling.reconcile(&key).await }
    };
    Controller::new("horizontal-pod-autoscaler").run(vec![source], WORKERS, cancel, reconcile).await;
}

impl Autoscaling {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(autoscaler) = self.mirrors.autoscalers.get(key).filter(|autoscaler| !autoscaler.is_deleting()) else {
            self.selected_pods.remove_selector(key);
            self.histories.lock().remove(key);
            return Ok(Outcome::Done);
        };
        let mut draft = StatusDraft::new(&autoscaler, self.mirrors.now());
        draft.object.set(&["status", "observedGeneration"], autoscaler.generation());
        self.sync(key, &autoscaler, &mut draft).await;
        let target = ResourceRef::of(&builtin::horizontal_pod_autoscalers(), &autoscaler);
        commit_status(&self.mirrors.client, target, &autoscaler, &draft.object, FIELD_MANAGER).await?;
        Ok(Outcome::After(self.mirrors.settings.autoscaler_sync_period))
    }

    /// One sync: reads scale and metrics, then rescales. The result goes into the draft and events.
    async fn sync(&self, key: &ObjectKey, autoscaler: &Object, draft: &mut StatusDraft) {
        let reference = |field: &str| autoscaler.str_at(&["spec", "scaleTargetRef", field]);
        let found =
            self.scales.get(reference("apiVersion"), reference("kind"), &key.namespace, reference("name")).await;
        let scale = match found {
            Ok(scale) => scale,
            Err(error) => {
                self.recorder.warning(autoscaler, "FailedGetScale", error.to_string());
                let message = format!("the HPA controller was unable to get the target's current scale: {error}");
                draft.set_condition("AbleToScale", "False", "FailedGetScale", &message);
                return;
            }
        };
        let current = scale.scale.i64_at(&["spec", "replicas"]).unwrap_or(0);
        draft.scale_was_read(current);
        let now = self.started.elapsed();
        self.with_history(key, |history| history.begin(current, now));
        let (desired, reason) = match check_bounds(current, current, bounds_of(autoscaler)) {
            BoundsVerdict::Disabled => return draft.scaling_is_disabled(0),
            BoundsVerdict::Rescale(to, reason) => (to, reason.to_owned()),
            BoundsVerdict::Measure => match self.desire(key, autoscaler, &scale, current, draft).await {
                Some(desired) => desired,
                None => return,
            },
        };
        draft.set_desired(desired);
        if desired != current {
            self.commit_scale(key, autoscaler, &scale, (current, desired), &reason, draft).await;
        }
    }

    fn with_history<R>(&self, key: &ObjectKey, act: impl FnOnce(&mut ScaleHistory) -> R) -> R {
        act(self.histories.lock().entry(key.clone()).or_default())
    }

    /// Computes the replica count from metrics and its reason; `None` if the metrics do not allow a decision.
    async fn desire(
        &self,
        key: &ObjectKey,
        autoscaler: &Object,
        scale: &Scale,
        current: i64,
        draft: &mut StatusDraft,
    ) -> Option<(i64, String)> {
        let text = scale.scale.str_at(&["status", "selector"]);
        let selector = match LabelSelector::parse(text) {
            Ok(selector) if !text.is_empty() => selector,
            _ => {
                self.recorder.warning(autoscaler, "SelectorRequired", "selector is required");
                let message = "the HPA target's scale is missing a selector";
                draft.set_condition("ScalingActive", "False", "InvalidSelector", message);
                return None;
            }
        };
        self.selected_pods.set_selector(key, selector, &self.mirrors.pods);
        let pods = self.selected_pods.of(key);
        let computed = self.compute(autoscaler, (&scale.scale, text), &pods, current).await;
        let Computed { replicas, metric, statuses, failures, error } = computed;
        for failure in &failures {
            self.recorder.warning(autoscaler, failure.reason, failure.message.clone());
        }
        if let (Some(error), Some(first), None) = (error, failures.first(), replicas) {
            draft.metrics_failed(first);
            self.recorder.warning(autoscaler, "FailedComputeMetricsReplicas", error);
            return None;
        }
        draft.set_metrics(statuses);
        let proposed = replicas?;
        let (settings, now) = (&self.mirrors.settings.autoscaler, self.started.elapsed());
        let bounded = self.with_history(key, |history| bound(autoscaler, history, current, proposed, settings, now));
        draft.replicas_were_computed(&metric, &bounded);
        Some((bounded.replicas, reason_of(proposed, current, &metric)))
    }

    /// Reads and evaluates all metrics.
    async fn compute(
        &self,
        autoscaler: &Object,
        (scale, selector): (&Object, &str),
        pods: &[Arc<ScaledPod>],
        current: i64,
    ) -> Computed {
        let namespace = autoscaler.namespace();
        let specs = scaling::metrics::specs(autoscaler);
        let mut measured = Vec::with_capacity(specs.len());
        for spec in &specs {
            let reading = match scaling::metrics::query(spec) {
                Some(Ok(query)) => self.metrics.read(&query, PodSelection { namespace, selector }).await,
                Some(Err(error)) => Err(error),
                None => Err("unknown metric source type".to_owned()),
            };
            measured.push(MeasuredMetric { spec, reading });
        }
        let reported_pods = scale.i64_at(&["status", "replicas"]).unwrap_or(0);
        let workload = Workload { namespace, pods, current, reported_pods };
        let settings = &self.mirrors.settings.autoscaler;
        let tolerance = scaling::metrics::tolerance_of(autoscaler, settings);
        let limits = Limits { tolerance, settings, calibration: 1.0, now: self.mirrors.now() };
        scaling::metrics::compute(measured, &workload, limits)
    }

    async fn commit_scale(
        &self,
        key: &ObjectKey,
        autoscaler: &Object,
        scale: &Scale,
        (current, desired): (i64, i64),
        reason: &str,
        draft: &mut StatusDraft,
    ) {
        // Conditional on the version that was read, so that a concurrent change of the scale is not overwritten.
        let version = scale.scale.resource_version();
        let body = json!({"metadata": {"resourceVersion": version}, "spec": {"replicas": desired}});
        let options = WriteOptions::managed_by(FIELD_MANAGER);
        match self.mirrors.client.patch(scale.target.clone(), Patch::merge(body), options).await {
            Ok(_) => {
                draft.was_rescaled(desired);
                self.recorder.normal(autoscaler, "SuccessfulRescale", format!("New size: {desired}; reason: {reason}"));
                self.with_history(key, |history| history.scaled(current, desired, self.started.elapsed()));
            }
            Err(error) => {
                let message = format!("New size: {desired}; reason: {reason}; error: {error}");
                self.recorder.warning(autoscaler, "FailedRescale", message);
                draft.rescale_failed(&error);
                draft.set_desired(autoscaler.i64_at(&["status", "desiredReplicas"]).unwrap_or(current));
            }
        }
    }
}
