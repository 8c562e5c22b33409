//! The status of an autoscaler.

use jiff::Timestamp;
use object::conditions::{self, NewCondition};
use object::{Object, Status, time};
use serde_json::Value;

use crate::behavior::Bounded;
use crate::metrics::MetricFailure;

/// An autoscaler with its new status.
pub struct StatusDraft {
    pub object: Object,
    now: Timestamp,
}

impl StatusDraft {
    pub fn new(autoscaler: &Object, now: Timestamp) -> Self {
        let mut object = autoscaler.clone();
        for field in ["currentReplicas", "desiredReplicas"] {
            if object.get(&["status", field]).is_none() {
                object.set(&["status", field], 0);
            }
        }
        Self { object, now }
    }

    pub fn set_condition(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        conditions::set(&mut self.object, &NewCondition { kind, status, reason, message }, self.now);
    }

    /// The scale of the target was read.
    pub fn scale_was_read(&mut self, replicas: i64) {
        let message = "the HPA controller was able to get the target's current scale";
        self.set_condition("AbleToScale", "True", "SucceededGetScale", message);
        self.object.set(&["status", "currentReplicas"], replicas);
    }

    /// The target has no replicas and stays as it is.
    pub fn scaling_is_disabled(&mut self, replicas: i64) {
        let message = "scaling is disabled since the replica count of the target is zero";
        self.set_condition("ScalingActive", "False", "ScalingDisabled", message);
        self.set_desired(replicas);
    }

    /// No metric allows a decision; `first` is the first reason.
    pub fn metrics_failed(&mut self, first: &MetricFailure) {
        let message = format!("the HPA was unable to compute the replica count: {}", first.message);
        self.set_condition("ScalingActive", "False", first.reason, &message);
    }

    /// The metric led to a replica count, which was then bounded.
    pub fn replicas_were_computed(&mut self, metric: &str, bounded: &Bounded) {
        let message = format!("the HPA was able to successfully calculate a replica count from {metric}");
        self.set_condition("ScalingActive", "True", "ValidMetricFound", &message);
        self.set_condition("AbleToScale", "True", bounded.able.0, bounded.able.1);
        let is_limited = if bounded.is_limited { "True" } else { "False" };
        self.set_condition("ScalingLimited", is_limited, bounded.limited.0, bounded.limited.1);
    }

    /// The new scale was written.
    pub fn was_rescaled(&mut self, desired: i64) {
        let message = format!("the HPA controller was able to update the target scale to {desired}");
        self.set_condition("AbleToScale", "True", "SucceededRescale", &message);
        self.set_desired(desired);
        self.object.set(&["status", "lastScaleTime"], time::format_seconds(self.now));
    }

    /// The new scale could not be written.
    pub fn rescale_failed(&mut self, error: &Status) {
        let message = format!("the HPA controller was unable to update the target scale: {error}");
        self.set_condition("AbleToScale", "False", "FailedUpdateScale", &message);
    }

    pub fn set_desired(&mut self, replicas: i64) {
        self.object.set(&["status", "desiredReplicas"], replicas);
    }

    pub fn set_metrics(&mut self, statuses: Vec<Value>) {
        match statuses.is_empty() {
            true => drop(self.object.remove(&["status", "currentMetrics"])),
            false => self.object.set(&["status", "currentMetrics"], statuses),
        }
    }
}
