//! Events of the newer group, stored in the form of the core group.

use std::sync::Arc;

use object::{FieldError, GroupVersionKind, Object, names};
use serde_json::Value;

use crate::strategies::defaults::show_empty;
use crate::strategies::fields::{Field, Report, same};
use crate::strategy::Strategy;

const SHORT_TEXT_MAX: usize = 128;
const NOTE_MAX: usize = 1024;

/// The name of a field here and in the core group.
const RENAMED: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    match kind {
        "Event" => Some(Arc::new(Event)),
        _ => None,
    }
}

struct Event;

impl Strategy for Event {
    /// Parts that are always shown, even if empty.
    fn default(&self, event: &mut Object) {
        for (part, _) in RENAMED.iter().filter(|(name, _)| matches!(*name, "regarding" | "deprecatedSource")) {
            show_empty(event, part);
        }
        for time in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp"] {
            event.as_map_mut().entry(time).or_insert(Value::Null);
        }
        event.as_map_mut().entry("eventTime").or_insert(Value::Null);
    }

    fn validate_create(&self, event: &Object) -> Vec<FieldError> {
        let event = to_core(event.clone());
        let report = Report::new();
        validate_always(&report, &event);
        validate_series(report.field(&event, "series"));
        report.field(&event, "eventTime").require();
        let ty = event.str_at(&["type"]);
        if !matches!(ty, "Normal" | "Warning") {
            report.field(&event, "type").invalid_as("", format!("has invalid value: {ty}"));
        }
        for name in ["firstTimestamp", "lastTimestamp", "count", "source"] {
            let field = report.field(&event, name);
            if !field.is_empty() && field.int() != Some(0) {
                field.invalid_as("", "needs to be unset");
            }
        }
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let (new, old) = (to_core(new.clone()), to_core(old.clone()));
        let report = Report::new();
        validate_always(&report, &new);
        if !same(new.get(&["series"]), old.get(&["series"])) {
            validate_series(report.field(&new, "series"));
        }
        for name in [
            "involvedObject",
            "reason",
            "message",
            "source",
            "firstTimestamp",
            "lastTimestamp",
            "count",
            "reason",
            "type",
        ] {
            report.field(&new, name).immutable(old.get(&[name]));
        }
        for name in ["eventTime", "action", "related"] {
            report.field(&new, name).immutable(old.get(&[name]));
        }
        let controller = report.at("reportingController", new.get(&["reportingComponent"]));
        controller.immutable(old.get(&["reportingComponent"]));
        report.field(&new, "reportingInstance").immutable(old.get(&["reportingInstance"]));
        report.finish()
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn to_storage(&self, event: Object) -> Object {
        to_core(event)
    }

    fn from_storage(&self, event: Object) -> Object {
        from_core(event)
    }
}

fn to_core(mut event: Object) -> Object {
    event.set_gvk(&GroupVersionKind::new("", "v1", "Event"));
    rename(&mut event, RENAMED.iter().map(|(new, core)| (*new, *core)));
    for text in ["reportingComponent", "reportingInstance"] {
        event.as_map_mut().entry(text).or_insert_with(|| "".into());
    }
    event
}

fn from_core(mut event: Object) -> Object {
    event.set_gvk(&GroupVersionKind::new("events.k8s.io", "v1", "Event"));
    rename(&mut event, RENAMED.iter().map(|(new, core)| (*core, *new)));
    for text in ["reportingController", "reportingInstance"] {
        if event.str_at(&[text]).is_empty() {
            event.remove(&[text]);
        }
    }
    event
}

fn rename<'a>(event: &mut Object, names: impl Iterator<Item = (&'a str, &'a str)>) {
    for (from, to) in names {
        if let Some(value) = event.remove(&[from]) {
            event.as_map_mut().insert(to.to_owned(), value);
        }
    }
}

fn validate_series(series: Field<'_>) {
    if !series.is_set() {
        return;
    }
    let report = series.report();
    if series.field("count").int_or(0) < 2 {
        report.at("series.count", None).invalid_as("", "should be at least 2");
    }
    if series.field("lastObservedTime").is_empty() {
        report.at("series.lastObservedTime", None).required("");
    }
}

/// The common rules for events of either group. `event` is in the form of the core group.
fn validate_always<'a>(report: &'a Report<'a>, event: &'a Object) {
    let about = report.field(event, "involvedObject").field("namespace");
    let namespace = event.namespace();
    let new_style = !event.str_at(&["eventTime"]).is_empty();
    let matches = match (about.text(), new_style) {
        ("", true) => matches!(namespace, "default" | "kube-system"),
        ("", false) => matches!(namespace, "" | "default"),
        (other, false) => other == namespace,
        (_, true) => true,
    };
    if !matches {
        about.invalid_as(about.text(), "does not match event.namespace");
    }
    if new_style {
        let controller = report.at("reportingController", event.get(&["reportingComponent"]));
        controller.require();
        controller.problems_as(controller.text(), names::qualified_name(controller.text()));
        for name in ["reportingInstance", "action", "reason"] {
            let field = report.field(event, name);
            field.require();
            refuse_longer(field, SHORT_TEXT_MAX);
        }
        refuse_longer(report.field(event, "message"), NOTE_MAX);
    }
    report.at("namespace", None).problems_as(namespace, names::dns1123_subdomain(namespace));
}

fn refuse_longer(field: Field<'_>, max: usize) {
    if field.len() > max {
        field.invalid_as("", format!("can have at most {max} characters"));
    }
}
