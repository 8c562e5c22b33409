//! The status of an autoscaler, and the evaluation of its metrics.

use std::sync::Arc;

use jiff::Timestamp;
use object::conditions::{self, NewCondition};
use object::quantity::{Quantity, QuantityFormat};
use object::{Object, Status};
use serde_json::{Value, json};

use crate::autoscaling::calculator::{Measure, MetricTarget, Proposal, ScaledPod, Tolerance, propose};
use crate::autoscaling::metrics::MeasuredUsage;
use crate::settings::ClusterServiceSettings;

/// The autoscaler with its new status.
pub struct Draft {
    pub object: Object,
    now: Timestamp,
}

impl Draft {
    pub fn new(autoscaler: &Object, now: Timestamp) -> Self {
        let mut object = autoscaler.clone();
        object.set(&["status", "observedGeneration"], autoscaler.generation());
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

    pub fn set_current(&mut self, replicas: i64) {
        self.object.set(&["status", "currentReplicas"], replicas);
    }

    pub fn set_desired(&mut self, replicas: i64) {
        self.object.set(&["status", "desiredReplicas"], replicas);
    }

    /// Keeps the previous desired replicas, or the current ones if there are none.
    pub fn keep_desired(&mut self, current: i64) {
        if self.object.i64_at(&["status", "desiredReplicas"]).unwrap_or(0) == 0 {
            self.set_desired(current);
        }
    }

    pub fn set_metrics(&mut self, statuses: Vec<Value>) {
        match statuses.is_empty() {
            true => drop(self.object.remove(&["status", "currentMetrics"])),
            false => self.object.set(&["status", "currentMetrics"], statuses),
        }
    }
}

/// The combined result of all metrics.
#[derive(Debug, Default, PartialEq)]
pub struct Computed {
    /// `None` if nothing may change.
    pub replicas: Option<i64>,
    pub metric: String,
    pub statuses: Vec<Value>,
    /// Reason and message of the first unavailable metric.
    pub failure: Option<(&'static str, String)>,
}

/// Returns the highest proposal. If a metric is unavailable, nothing is scaled down; if all are, nothing changes.
pub fn compute(
    autoscaler: &Object,
    pods: &[Arc<ScaledPod>],
    usage: Result<MeasuredUsage, Status>,
    current: i64,
    (settings, now): (&ClusterServiceSettings, Timestamp),
) -> Computed {
    let mut computed = Computed::default();
    let mut failures = Vec::new();
    let specs = autoscaler.items(&["spec", "metrics"]);
    let fallback = [json!({"type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}})];
    let specs = if specs.is_empty() { &fallback[..] } else { specs };
    let tolerance = tolerance_of(autoscaler, settings);
    for spec in specs {
        match compute_one(spec, pods, &usage, current, (tolerance, settings, now)) {
            Ok((proposal, name, status)) => {
                computed.statuses.push(status);
                if computed.replicas.is_none_or(|known| proposal.replicas > known) {
                    computed.replicas = Some(proposal.replicas);
                    computed.metric = name;
                }
            }
            Err(failure) => failures.push(failure),
        }
    }
    if let Some((reason, first)) = failures.first() {
        let text =
            format!("invalid metrics ({} invalid out of {}), first error is: {first}", failures.len(), specs.len());
        computed.failure = Some((*reason, text));
        computed.replicas = computed.replicas.filter(|replicas| *replicas >= current);
    }
    computed
}

fn tolerance_of(autoscaler: &Object, settings: &ClusterServiceSettings) -> Tolerance {
    let own = |side: &str| {
        let value = autoscaler.get(&["spec", "behavior", side, "tolerance"])?;
        Quantity::parse(value.as_str()?).ok().map(|quantity| quantity.as_f64())
    };
    let default = settings.autoscaler_tolerance;
    Tolerance { up: own("scaleUp").unwrap_or(default), down: own("scaleDown").unwrap_or(default) }
}

type Failure = (&'static str, String);

fn compute_one(
    spec: &Value,
    pods: &[Arc<ScaledPod>],
    usage: &Result<MeasuredUsage, Status>,
    current: i64,
    limits: (Tolerance, &ClusterServiceSettings, Timestamp),
) -> Result<(Proposal, String, Value), Failure> {
    let (field, reason) = match spec["type"].as_str() {
        Some("Resource") => ("resource", "FailedGetResourceMetric"),
        Some("ContainerResource") => ("containerResource", "FailedGetContainerResourceMetric"),
        Some("Pods") => return Err(unserved("FailedGetPodsMetric", "custom.metrics.k8s.io")),
        Some("Object") => return Err(unserved("FailedGetObjectMetric", "custom.metrics.k8s.io")),
        Some("External") => return Err(unserved("FailedGetExternalMetric", "external.metrics.k8s.io")),
        other => return Err(("InvalidMetricSourceType", format!("unknown metric source type {other:?}"))),
    };
    let source = &spec[field];
    let resource = source["name"].as_str().unwrap_or_default();
    let container = source["container"].as_str().unwrap_or_default();
    let fail = |error: String| {
        let what = if container.is_empty() { format!("{resource} resource") } else { format!("{container} container") };
        (reason, format!("failed to get {what} metric value: {error}"))
    };
    let target = read_target(&source["target"]).ok_or_else(|| fail("invalid metric source: no target".to_owned()))?;
    let no_metrics =
        |error: &dyn std::fmt::Display| fail(format!("unable to get metrics for resource {resource}: {error}"));
    let usage = match usage {
        Ok(usage) if usage.is_empty() => return Err(no_metrics(&"no metrics returned from resource metrics API")),
        Ok(usage) => usage.of(resource, container),
        Err(status) => {
            let error = format!("unable to fetch metrics from resource metrics API: {status}");
            return Err(no_metrics(&error));
        }
    };
    let measure = Measure { resource, container, target };
    let proposal = propose(&measure, pods, usage, current, limits).map_err(fail)?;
    Ok((proposal, name_of(&measure), status_of(field, &measure, &proposal)))
}

fn unserved(reason: &'static str, group: &str) -> Failure {
    (reason, format!("unable to fetch metrics: no metrics known: the server does not serve {group}"))
}

fn read_target(target: &Value) -> Option<MetricTarget> {
    if let Some(percent) = target["averageUtilization"].as_i64() {
        return Some(MetricTarget::Utilization(percent));
    }
    let text = target["averageValue"].as_str()?;
    Quantity::parse(text).ok().map(|quantity| MetricTarget::AverageValue(quantity.milli_value()))
}

fn name_of(measure: &Measure<'_>) -> String {
    let of = if measure.container.is_empty() { "resource" } else { "container resource" };
    match measure.target {
        MetricTarget::Utilization(_) => format!("{} {of} utilization (percentage of request)", measure.resource),
        MetricTarget::AverageValue(_) => format!("{} {of}", measure.resource),
    }
}

fn status_of(field: &str, measure: &Measure<'_>, proposal: &Proposal) -> Value {
    let average = Quantity::from_milli(proposal.average, QuantityFormat::DecimalSi).to_string();
    let mut metric = json!({"name": measure.resource, "current": {"averageValue": average}});
    if let Some(utilization) = proposal.utilization {
        metric["current"]["averageUtilization"] = utilization.into();
    }
    if !measure.container.is_empty() {
        metric["container"] = measure.container.into();
    }
    let kind = if measure.container.is_empty() { "Resource" } else { "ContainerResource" };
    json!({"type": kind, field: metric})
}
