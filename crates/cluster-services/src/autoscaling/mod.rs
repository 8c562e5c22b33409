//! HorizontalPodAutoscalers: scale any scalable resource by the usage of its pods.

mod behavior;
mod calculator;
mod metrics;
mod status;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use cluster_client::{Patch, ResourceRef, WriteOptions};
use object::builtin;
use object::selector::LabelSelector;
use object::{Object, time};
use parking_lot::Mutex;
use reconcile::{Change, Controller, ObjectKey, Outcome, ReconcileError, Recorder, Source, commit_status};
use serde_json::json;
use tokio::time::Instant;

use crate::autoscaling::behavior::{ScaleHistory, bound};
use crate::autoscaling::calculator::ScaledPod;
use crate::autoscaling::status::{Computed, Draft};
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
}

pub fn start(mirrors: &Arc<ClusterMirrors>) -> Service {
    let autoscaling = Arc::new(Autoscaling {
        recorder: mirrors.recorder("horizontal-pod-autoscaler"),
        scales: Scales::new(mirrors.client.clone()),
        selected_pods: SelectedPods::new(calculator::read),
        histories: Mutex::default(),
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
        let mut draft = Draft::new(&autoscaler, self.mirrors.now());
        self.sync(key, &autoscaler, &mut draft).await;
        let target = ResourceRef::of(&builtin::horizontal_pod_autoscalers(), &autoscaler);
        commit_status(&self.mirrors.client, target, &autoscaler, &draft.object, FIELD_MANAGER).await?;
        Ok(Outcome::After(self.mirrors.settings.autoscaler_sync_period))
    }

    /// One sync: reads scale and metrics, then rescales. The result goes into the draft and events.
    async fn sync(&self, key: &ObjectKey, autoscaler: &Object, draft: &mut Draft) {
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
        let message = "the HPA controller was able to get the target's current scale";
        draft.set_condition("AbleToScale", "True", "SucceededGetScale", message);
        let current = scale.scale.i64_at(&["spec", "replicas"]).unwrap_or(0);
        draft.set_current(current);
        let now = Instant::now();
        self.with_history(key, |history| history.begin(current, now));
        let least = autoscaler.i64_at(&["spec", "minReplicas"]).unwrap_or(1);
        let most = autoscaler.i64_at(&["spec", "maxReplicas"]).unwrap_or(least);
        if current == 0 && least != 0 {
            let message = "scaling is disabled since the replica count of the target is zero";
            draft.set_condition("ScalingActive", "False", "ScalingDisabled", message);
            draft.set_desired(0);
            return;
        }
        let (desired, reason) = if current > most {
            (most, "Current number of replicas above Spec.MaxReplicas".to_owned())
        } else if current < least {
            (least, "Current number of replicas below Spec.MinReplicas".to_owned())
        } else {
            match self.desire(key, autoscaler, &scale, current, draft).await {
                Some(desired) => desired,
                None => return,
            }
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
        draft: &mut Draft,
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
        let usage = metrics::MeasuredUsage::gather(&self.mirrors.client, &key.namespace, text).await;
        let limits = (&self.mirrors.settings, self.mirrors.now());
        let Computed { replicas, metric, statuses, failure } =
            status::compute(autoscaler, &pods, usage, current, limits);
        draft.set_metrics(statuses);
        if let Some((reason, error)) = failure {
            self.recorder.warning(autoscaler, reason, error.clone());
            if replicas.is_none() {
                let message = format!("the HPA was unable to compute the replica count: {error}");
                draft.set_condition("ScalingActive", "False", reason, &message);
                draft.keep_desired(current);
                self.recorder.warning(autoscaler, "FailedComputeMetricsReplicas", error);
            }
        }
        let proposed = replicas?;
        let message = format!("the HPA was able to successfully calculate a replica count from {metric}");
        draft.set_condition("ScalingActive", "True", "ValidMetricFound", &message);
        let reason = match proposed.cmp(&current) {
            std::cmp::Ordering::Greater => format!("{metric} above target"),
            _ => "All metrics below target".to_owned(),
        };
        let settings = &self.mirrors.settings;
        let bounded =
            self.with_history(key, |history| bound(autoscaler, history, current, proposed, settings, Instant::now()));
        draft.set_condition("AbleToScale", "True", bounded.able.0, bounded.able.1);
        let is_limited = if bounded.is_limited { "True" } else { "False" };
        draft.set_condition("ScalingLimited", is_limited, bounded.limited.0, bounded.limited.1);
        Some((bounded.replicas, reason))
    }

    async fn commit_scale(
        &self,
        key: &ObjectKey,
        autoscaler: &Object,
        scale: &Scale,
        (current, desired): (i64, i64),
        reason: &str,
        draft: &mut Draft,
    ) {
        // Conditional on the version that was read, so that a concurrent change of the scale is not overwritten.
        let version = scale.scale.resource_version();
        let body = json!({"metadata": {"resourceVersion": version}, "spec": {"replicas": desired}});
        let options = WriteOptions::managed_by(FIELD_MANAGER);
        match self.mirrors.client.patch(scale.target.clone(), Patch::merge(body), options).await {
            Ok(_) => {
                let message = format!("the HPA controller was able to update the target scale to {desired}");
                draft.set_condition("AbleToScale", "True", "SucceededRescale", &message);
                draft.object.set(&["status", "lastScaleTime"], time::format_seconds(self.mirrors.now()));
                self.recorder.normal(autoscaler, "SuccessfulRescale", format!("New size: {desired}; reason: {reason}"));
                self.with_history(key, |history| history.scaled(current, desired, Instant::now()));
            }
            Err(error) => {
                let message = format!("New size: {desired}; reason: {reason}; error: {error}");
                self.recorder.warning(autoscaler, "FailedRescale", message);
                let message = format!("the HPA controller was unable to update the target scale: {error}");
                draft.set_condition("AbleToScale", "False", "FailedUpdateScale", &message);
                draft.keep_desired(current);
            }
        }
    }
}
