//! The rules of the apps group, one file per kind.

mod daemon_set;
mod deployment;
mod replica_set;
mod revision;
mod stateful_set;

use std::sync::Arc;

use object::selector::LabelSelector;
use object::{FieldError, Object};
use serde_json::{Map, Value};

use super::defaults::{map_or_new, set_empty_str};
use super::fields::{Field, IntOrText, Report, percent};
use super::internal;
use super::metadata::validate_built_in_finalizers;
use crate::strategy::Strategy;

pub fn for_kind(kind: &str, _version: &str) -> Option<Arc<dyn Strategy>> {
    Some(match kind {
        "Deployment" => Arc::new(deployment::Deployment),
        "ReplicaSet" => Arc::new(replica_set::ReplicaSet),
        "StatefulSet" => Arc::new(stateful_set::StatefulSet),
        "DaemonSet" => Arc::new(daemon_set::DaemonSet),
        "ControllerRevision" => Arc::new(revision::ControllerRevision),
        _ => return None,
    })
}

/// Makes RollingUpdate the default type of a strategy, and returns its parameters if that is the type.
fn rolling_update<'a>(spec: &'a mut Map<String, Value>, field: &str) -> Option<&'a mut Map<String, Value>> {
    let strategy = map_or_new(spec, field)?;
    set_empty_str(strategy, "type", "RollingUpdate");
    let is_rolling = strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate");
    if is_rolling { map_or_new(strategy, "rollingUpdate") } else { None }
}

/// Refuses the type of a strategy; `shape` is its Go type, which the message shows.
fn refuse_strategy(strategy: Field<'_>, shape: &str, supported: &[&str]) {
    let shown = internal::compact(shape, strategy.value());
    let refused = FieldError::not_supported(strategy.field_path(), "", supported);
    let detail = format!("{shown}: {}", refused.detail);
    strategy.push(FieldError { value: None, detail, ..refused });
}

/// The update of a controller whose selector is immutable.
fn validate_update(new: &Object, old: &Object, validate_spec: fn(Field<'_>)) -> Vec<FieldError> {
    let report = Report::new();
    validate_built_in_finalizers(new, &report);
    let spec = report.field(new, "spec");
    validate_spec(spec);
    spec.field("selector").immutable_selector(old.get(&["spec", "selector"]));
    report.finish()
}

/// A selector must be set and not empty; `kind` is its name in the message.
fn validate_selector(selector: Field<'_>, kind: &str) {
    if !selector.is_set() {
        return selector.required("");
    }
    selector.label_selector();
    if selector.is_empty_selector() {
        selector.invalid_internal("SLabelSelector", &format!("empty selector is invalid for {kind}"));
    }
}

/// The selector must match the labels of the pod template. Returns false if the selector is invalid; then the
/// template is not checked.
pub fn validate_selects<'a>(selector: Field<'a>, template: Field<'a>, unreadable: &str) -> bool {
    let labels = template.path(&["metadata", "labels"]);
    // A missing selector selects nothing, an empty one everything.
    let matches = if selector.is_set() { selects(selector, labels) } else { Some(false) };
    match matches {
        None => selector.invalid_internal("SLabelSelector", unreadable),
        Some(false) => labels
            .invalid_as(labels.value().cloned().unwrap_or_default(), "`selector` does not match template `labels`"),
        Some(true) => {}
    }
    matches.is_some()
}

/// Reports whether the selector matches the labels; `None` if it is invalid.
pub fn selects(selector: Field<'_>, labels: Field<'_>) -> Option<bool> {
    let plain = selector.field("matchLabels").entries();
    let label = |key: &str| labels.value().and_then(|l| l.get(key)).and_then(Value::as_str);
    if selector.field("matchExpressions").is_empty() {
        return Some(plain.into_iter().all(|(key, value)| label(key) == Some(value.text())));
    }
    let parsed = LabelSelector::from_value(selector.value()).ok()?;
    Some(parsed.matches_with(label))
}

/// The number in a count or percentage; other text counts as zero.
fn count_of(field: Field<'_>) -> i64 {
    match field.int_or_text() {
        Some(IntOrText::Int(n)) => n,
        Some(IntOrText::Text(text)) => percent(text).unwrap_or_else(|| text.parse().unwrap_or(0)),
        None => 0,
    }
}
