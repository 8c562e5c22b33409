//! The metrics of an autoscaler: what must be read for each, and the replica count that follows from all.

use std::sync::Arc;

use object::Object;
use object::quantity::{Quantity, QuantityFormat};
use object::selector::LabelSelector;
use serde_json::{Value, json};

use crate::calculator::{
    CalculationError, Limits, Measure, MetricTarget, Proposal, Tolerance, UsageSamples, propose, propose_for_share,
    propose_for_value,
};
use crate::pods::ScaledPod;
use crate::samples::milli;
use crate::{Dialect, ScalingSettings};

/// The values that a metric needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricQuery {
    /// Usage of a resource by the pods, of one container or (`""`) of all.
    Usage {
        resource: String,
        container: String,
    },
    /// A custom metric of the pods.
    Pods {
        metric: String,
        selector: String,
    },
    /// A custom metric of an object in the namespace of the autoscaler.
    Object {
        api_version: String,
        kind: String,
        name: String,
        metric: String,
        selector: String,
    },
    External {
        metric: String,
        selector: String,
    },
}

/// Values that were read.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// For each pod.
    Samples(UsageSamples),
    /// One for all, in milli-units.
    Value(i64),
}

/// A metric with its values, or with the error that kept them from being read.
pub struct MeasuredMetric<'a> {
    pub spec: &'a Value,
    pub reading: Result<Reading, String>,
}

/// The scaled workload.
pub struct Workload<'a> {
    pub namespace: &'a str,
    pub pods: &'a [Arc<ScaledPod>],
    /// Replicas of the template.
    pub current: i64,
    /// Pods as the controllers of the workload report them.
    pub reported_pods: i64,
}

/// A metric that could not be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricFailure {
    /// Reason of the condition `ScalingActive` and of the event.
    pub reason: &'static str,
    /// Message of the event.
    pub message: String,
    /// The message as part of the combined error.
    in_summary: String,
}

/// The combined result of all metrics.
#[derive(Debug, Default, PartialEq)]
pub struct Computed {
    /// `None` if nothing may change.
    pub replicas: Option<i64>,
    /// The metric that demands most.
    pub metric: String,
    pub statuses: Vec<Value>,
    pub failures: Vec<MetricFailure>,
    /// Summarizes the failures.
    pub error: Option<String>,
}

/// Returns the metrics of an autoscaler; the default is a cpu utilization of 80 percent.
pub fn specs(autoscaler: &Object) -> Vec<Value> {
    match autoscaler.items(&["spec", "metrics"]) {
        [] => vec![json!({"type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}})],
        given => given.to_vec(),
    }
}

/// Returns the deviation the autoscaler accepts.
pub fn tolerance_of(autoscaler: &Object, settings: &ScalingSettings) -> Tolerance {
    let own = |side: &str| {
        let value = autoscaler.get(&["spec", "behavior", side, "tolerance"])?;
        Quantity::parse(value.as_str()?).ok().map(|quantity| quantity.as_f64())
    };
    let default = settings.tolerance;
    Tolerance { up: own("scaleUp").unwrap_or(default), down: own("scaleDown").unwrap_or(default) }
}

/// Returns what must be read for a metric; `None` for an unknown type, which `compute` reports.
pub fn query(spec: &Value) -> Option<Result<MetricQuery, String>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let source = &spec[field_of(spec)?];
    let metric = text(&source["metric"]["name"]);
    let selector = || match &source["metric"]["selector"] {
        // No selector selects everything, as opposed to LabelSelectors of workloads.
        Value::Null => Ok(String::new()),
        given => LabelSelector::from_value(Some(given)).map(|s| s.to_string()).map_err(|error| error.to_string()),
    };
    Some(match spec["type"].as_str() {
        Some("Pods") => selector().map(|selector| MetricQuery::Pods { metric, selector }),
        Some("Object") => selector().map(|selector| {
            let described = &source["describedObject"];
            let (api_version, kind, name) =
                (text(&described["apiVersion"]), text(&described["kind"]), text(&described["name"]));
            MetricQuery::Object { api_version, kind, name, metric, selector }
        }),
        Some("External") => selector().map(|selector| MetricQuery::External { metric, selector }),
        _ => Ok(MetricQuery::Usage { resource: text(&source["name"]), container: text(&source["container"]) }),
    })
}

/// Returns the highest proposal. If a metric is unavailable, nothing is scaled down; if all are, nothing changes.
pub fn compute(metrics: Vec<MeasuredMetric<'_>>, workload: &Workload<'_>, limits: Limits<'_>) -> Computed {
    let mut computed = Computed::default();
    let count = metrics.len();
    for MeasuredMetric { spec, reading } in metrics {
        match compute_one(spec, reading, workload, limits) {
            Ok((replicas, name, status)) => {
                computed.statuses.push(status);
                if computed.replicas.is_none_or(|known| replicas > known) {
                    computed.replicas = Some(replicas);
                    computed.metric = name;
                }
            }
            Err(failure) => computed.failures.push(failure),
        }
    }
    if let Some(first) = computed.failures.first() {
        let (failed, text) = (computed.failures.len(), &first.in_summary);
        computed.error = Some(format!("invalid metrics ({failed} invalid out of {count}), first error is: {text}"));
        computed.replicas = computed.replicas.filter(|replicas| *replicas >= workload.current);
    }
    computed
}

fn field_of(spec: &Value) -> Option<&'static str> {
    Some(match spec["type"].as_str()? {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        "External" => "external",
        _ => return None,
    })
}

/// Returns replicas, name and status of a metric.
fn compute_one(
    spec: &Value,
    reading: Result<Reading, String>,
    workload: &Workload<'_>,
    limits: Limits<'_>,
) -> Result<(i64, String, Value), MetricFailure> {
    let Some(field) = field_of(spec) else {
        let message =
            format!("unknown metric source type {}", object::field::go_quote(spec["type"].as_str().unwrap_or("")));
        return Err(MetricFailure { reason: "InvalidMetricSourceType", in_summary: message.clone(), message });
    };
    let source = &spec[field];
    match field {
        "resource" | "containerResource" => usage_metric(field, source, reading, workload, limits),
        "pods" => pods_metric(source, reading, workload, limits),
        _ => value_metric(field, source, reading, workload, limits),
    }
}

fn usage_metric(
    field: &'static str,
    source: &Value,
    reading: Result<Reading, String>,
    workload: &Workload<'_>,
    limits: Limits<'_>,
) -> Result<(i64, String, Value), MetricFailure> {
    let dialect = limits.settings.dialect;
    let resource = source["name"].as_str().unwrap_or_default();
    let container = source["container"].as_str().unwrap_or_default();
    let (reason, what) = match field {
        "resource" => ("FailedGetResourceMetric", format!("{resource} resource")),
        _ => ("FailedGetContainerResourceMetric", format!("{container} container")),
    };
    let fail = |message: String| MetricFailure {
        reason,
        in_summary: format!("failed to get {what} metric value: {message}"),
        message,
    };
    let wrap = |error: String| fail(format!("failed to get {resource} utilization: {error}"));
    let target = read_target(&source["target"]).ok_or_else(|| {
        let missing = "neither an average utilization target nor an average value target was set";
        fail(format!("invalid resource metric source: {missing}"))
    })?;
    let samples =
        samples_of(reading).map_err(|error| wrap(format!("unable to get metrics for resource {resource}: {error}")))?;
    let measure = Measure { resource, container, target };
    let found = propose(&measure, workload.pods, samples, workload.current, limits);
    let proposal = found.map_err(|error| wrap(say(&error, dialect)))?;
    let of = if field == "resource" { "resource" } else { "container resource" };
    let name = match (target, dialect) {
        (MetricTarget::Utilization(_), _) => format!("{resource} {of} utilization (percentage of request)"),
        (MetricTarget::AverageValue(_), Dialect::Kubernetes) => format!("{resource} {of}"),
        (MetricTarget::AverageValue(_), Dialect::Karmada) => format!("{resource} resource"),
    };
    Ok((proposal.replicas, name, usage_status(field, &measure, &proposal)))
}

fn pods_metric(
    source: &Value,
    reading: Result<Reading, String>,
    workload: &Workload<'_>,
    limits: Limits<'_>,
) -> Result<(i64, String, Value), MetricFailure> {
    let metric = source["metric"]["name"].as_str().unwrap_or_default();
    let fail = |message: String| MetricFailure {
        reason: "FailedGetPodsMetric",
        in_summary: format!("failed to get pods metric value: {message}"),
        message,
    };
    let samples = samples_of(reading).map_err(|error| fail(format!("unable to get metric {metric}: {error}")))?;
    let target = milli(&source["target"]["averageValue"])
        .ok_or_else(|| fail("invalid pods metric source: no average value target was set".to_owned()))?;
    let measure = Measure { resource: "", container: "", target: MetricTarget::AverageValue(target) };
    let found = propose(&measure, workload.pods, samples, workload.current, limits);
    let proposal = found.map_err(|error| fail(say(&error, limits.settings.dialect)))?;
    let status = json!({"type": "Pods", "pods": {"metric": identifier(source),
        "current": {"averageValue": shown(proposal.average)}}});
    Ok((proposal.replicas, format!("pods metric {metric}"), status))
}

/// Object and external metrics: one value for all pods.
fn value_metric(
    field: &'static str,
    source: &Value,
    reading: Result<Reading, String>,
    workload: &Workload<'_>,
    limits: Limits<'_>,
) -> Result<(i64, String, Value), MetricFailure> {
    let metric = source["metric"]["name"].as_str().unwrap_or_default();
    let selector = &source["metric"]["selector"];
    let (kind, reason) = match field {
        "object" => ("Object", "FailedGetObjectMetric"),
        _ => ("External", "FailedGetExternalMetric"),
    };
    let average = milli(&source["target"]["averageValue"]);
    let whole = milli(&source["target"]["value"]);
    let fail = |message: String| {
        // The summary of a total leaves this part out for objects only.
        let inner = match average.is_some() && whole.is_none() || field == "external" {
            true => format!("failed to get {metric} {field} metric: {message}"),
            false => message.clone(),
        };
        MetricFailure { reason, in_summary: format!("failed to get {field} metric value: {inner}"), message }
    };
    let usage = match reading {
        Ok(Reading::Value(value)) => value,
        Ok(Reading::Samples(_)) => return Err(fail("one value is needed, not one for each pod".to_owned())),
        Err(error) => return Err(fail(unread_value(field, source, workload.namespace, &error))),
    };
    let mut status = json!({"metric": identifier(source)});
    if field == "object" {
        status["describedObject"] = source["describedObject"].clone();
    }
    let by_selector = format!("external metric {metric}({})", go_selector(selector));
    let (replicas, name) = if let Some(target) = whole {
        let found = propose_for_value((usage, target), workload.pods, workload.current, limits);
        let replicas = found.map_err(|error| fail(format!("unable to calculate ready pods: {error}")))?;
        status["current"] = json!({"value": shown(usage)});
        let described = source["describedObject"]["kind"].as_str().unwrap_or_default();
        (replicas, if field == "object" { format!("{described} metric {metric}") } else { by_selector })
    } else if let Some(target) = average {
        let proposal = propose_for_share((usage, target), workload.reported_pods, limits);
        status["current"] = json!({"averageValue": shown(proposal.average)});
        (proposal.replicas, by_selector)
    } else {
        let missing = "neither a value target nor an average value target was set";
        return Err(fail(format!("invalid {field} metric source: {missing}")));
    };
    Ok((replicas, name, json!({"type": kind, field: status})))
}

fn unread_value(field: &str, source: &Value, namespace: &str, error: &str) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metric = text(&source["metric"]["name"]);
    if field == "external" {
        let selector = go_selector(&source["metric"]["selector"]);
        return format!("unable to get external metric {namespace}/{metric}/{selector}: {error}");
    }
    // The order of the words is that of Kubernetes and Karmada.
    let (kind, name) = (text(&source["describedObject"]["kind"]), text(&source["describedObject"]["name"]));
    format!("unable to get metric {metric}: {kind} on {namespace} {name}/{error}")
}

fn samples_of(reading: Result<Reading, String>) -> Result<UsageSamples, String> {
    match reading? {
        Reading::Samples(samples) => Ok(samples),
        Reading::Value(_) => Err("one value for each pod is needed".to_owned()),
    }
}

fn say(error: &CalculationError, dialect: Dialect) -> String {
    match (error, dialect) {
        (CalculationError::NoMetrics, Dialect::Karmada) => "did not receive metrics for any ready pods".to_owned(),
        _ => error.to_string(),
    }
}

fn read_target(target: &Value) -> Option<MetricTarget> {
    let average = milli(&target["averageValue"]).map(MetricTarget::AverageValue);
    average.or_else(|| target["averageUtilization"].as_i64().map(MetricTarget::Utilization))
}

fn usage_status(field: &str, measure: &Measure<'_>, proposal: &Proposal) -> Value {
    let mut metric = json!({"name": measure.resource, "current": {"averageValue": shown(proposal.average)}});
    if let Some(utilization) = proposal.utilization {
        metric["current"]["averageUtilization"] = utilization.into();
    }
    if !measure.container.is_empty() {
        metric["container"] = measure.container.into();
    }
    let kind = if field == "resource" { "Resource" } else { "ContainerResource" };
    json!({"type": kind, field: metric})
}

fn identifier(source: &Value) -> Value {
    let mut metric = json!({"name": source["metric"]["name"]});
    if source["metric"]["selector"].is_object() {
        metric["selector"] = source["metric"]["selector"].clone();
    }
    metric
}

fn shown(milli: i64) -> String {
    Quantity::from_milli(milli, QuantityFormat::DecimalSi).to_string()
}

/// A LabelSelector as Go prints it, for the names of metrics in events.
fn go_selector(selector: &Value) -> String {
    if !selector.is_object() {
        return "nil".to_owned();
    }
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default())).collect();
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten().map(|expression| {
        let text = |key: &str| expression[key].as_str().unwrap_or_default();
        let values = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let values = values.collect::<Vec<_>>().join(" ");
        format!("LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},", text("key"), text("operator"))
    });
    let expressions: String = expressions.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

#[cfg(test)]
mod tests;
