//! Jobs: generated selectors, immutable templates, and counts that only grow.

use object::{FieldError, FieldPath, Object, names};
use serde_json::{Value, json};

use super::{job_spec, job_status};
use crate::strategies::apps::selects;
use crate::strategies::defaults::{map_or_new, set_absent};
use crate::strategies::fields::{Field, IMMUTABLE, Report, same};
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategies::pod_spec::warnings;
use crate::strategy::{Strategy, WriteContext};

const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

pub struct Job;

impl Strategy for Job {
    fn default(&self, object: &mut Object) {
        let Some(spec) = map_or_new(object.as_map_mut(), "spec") else { return };
        job_spec::default_job(spec);
        let labels = object.get(&["spec", "template", "metadata", "labels"]).filter(|l| l.is_object()).cloned();
        if let Some(labels) = labels
            && object.labels().next().is_none()
        {
            object.set(&["metadata", "labels"], labels);
        }
    }

    fn prepare_create(&self, object: &mut Object, _ctx: &WriteContext) {
        let template_labels = ["spec", "template", "metadata", "labels"];
        let follows =
            object.labels().next().is_none() || object.get(&["metadata", "labels"]) == object.get(&template_labels);
        if object.bool_at(&["spec", "manualSelector"]) != Some(true) {
            generate_selector(object);
        }
        // A Job without labels gets those of its pods, including the generated ones.
        if follows && let Some(labels) = object.get(&template_labels).cloned() {
            object.set(&["metadata", "labels"], labels);
        }
        object.set(&["status"], json!({}));
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        validate(&report, object, true);
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(new, &report);
        let labels = old.get(&["spec", "template", "metadata", "labels"]);
        let has_prefixed = |label: &str| labels.is_some_and(|l| l.get(label).is_some());
        validate(&report, new, has_prefixed(NAME_LABELS[1]) && has_prefixed(UID_LABELS[1]));
        validate_change(report.field(new, "spec"), old);
        report.finish()
    }

    fn validate_status(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        job_status::validate(&report, new, old);
        report.finish()
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Vec<String> {
        let mut out = Vec::new();
        match old {
            None => out.extend(warnings::hostname_warning(new.name(), "Pod names and hostnames")),
            Some(old) if same(old.get(&["spec"]), new.get(&["spec"])) => return out,
            Some(_) => {}
        }
        out.extend(spec_warnings("spec", new.get(&["spec"])));
        out
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn orphans_by_default(&self) -> bool {
        true
    }
}

/// Warnings for the Job spec at `path`.
pub fn spec_warnings(path: &str, spec: Option<&Value>) -> Vec<String> {
    let mut out = Vec::new();
    let number = |key: &str| spec.and_then(|s| s.get(key)).and_then(Value::as_i64).unwrap_or(0);
    let is_indexed = spec.is_some_and(|s| s["completionMode"].as_str() == Some("Indexed"));
    if is_indexed && number("completions") > 100_000 && number("parallelism") > 10_000 {
        out.push(format!("{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"));
    }
    out.extend(warnings::of_template(&format!("{path}.template"), spec.and_then(|s| s.get("template"))));
    out
}

/// Pods of a Job are selected by the Job's uid, so that no two Jobs select the same pods.
fn generate_selector(object: &mut Object) {
    let (name, uid) = (object.name().to_owned(), object.uid().to_owned());
    let Some(spec) = map_or_new(object.as_map_mut(), "spec") else { return };
    let template = map_or_new(spec, "template").and_then(|t| map_or_new(t, "metadata"));
    if let Some(labels) = template.and_then(|m| map_or_new(m, "labels")) {
        NAME_LABELS.iter().for_each(|label| set_absent(labels, label, name.as_str()));
        UID_LABELS.iter().for_each(|label| set_absent(labels, label, uid.as_str()));
    }
    if let Some(labels) = map_or_new(spec, "selector").and_then(|s| map_or_new(s, "matchLabels")) {
        set_absent(labels, UID_LABELS[1], uid.as_str());
    }
}

fn validate<'a>(report: &'a Report<'a>, job: &'a Object, requires_prefixed: bool) {
    let spec = report.field(job, "spec");
    if !spec.field("manualSelector").flag() && spec.field("selector").is_set() {
        validate_generated(spec, job, requires_prefixed);
    }
    job_spec::validate(spec);
    let selector = spec.field("selector");
    if selector.is_set() {
        selector.label_selector();
    } else {
        selector.required("");
    }
    let labels = spec.path(&["template", "metadata", "labels"]);
    if !selector.is_set() || selects(selector, labels) == Some(false) {
        labels.invalid_as(labels.value().cloned().unwrap_or_default(), "`selector` does not match template `labels`");
    }
    let completions = spec.field("completions").int_or(0);
    if spec.field("completionMode").text() == "Indexed" && completions > 0 {
        let longest = format!("{}-{}", job.name(), completions - 1);
        if !names::dns1123_label(&longest).is_empty() {
            report.push(FieldError::invalid(
                FieldPath::new("metadata.name"),
                job.name(),
                format!("will not able to create pod with invalid DNS label: {longest}"),
            ));
        }
    }
}

fn validate_generated<'a>(spec: Field<'a>, job: &'a Object, requires_prefixed: bool) {
    if job.uid().is_empty() {
        spec.push(FieldError::required(FieldPath::new("metadata.uid"), ""));
    }
    let labels = spec.path(&["template", "metadata", "labels"]);
    let mut expected = vec![(UID_LABELS[0], job.uid()), (NAME_LABELS[0], job.name())];
    if requires_prefixed {
        expected.extend([(UID_LABELS[1], job.uid()), (NAME_LABELS[1], job.name())]);
    }
    for (label, value) in &expected {
        let at = labels.key(label);
        if !at.is_set() {
            at.required(&format!("must be '{value}'"));
        } else if at.text() != *value {
            at.invalid_as(labels.value().cloned().unwrap_or_default(), format!("must be '{value}'"));
        }
    }
    let expected: Value = expected.iter().map(|(label, value)| ((*label).to_owned(), json!(value))).collect();
    let selector = spec.field("selector");
    let matches = {
        let report = Report::new();
        selects(report.at("", selector.value()), report.at("", Some(&expected)))
    };
    if matches == Some(false) {
        selector.invalid_internal("SLabelSelector", "`selector` not auto-generated");
    }
}

fn validate_change(spec: Field<'_>, old: &Object) {
    let stored = |key: &str| old.get(&["spec", key]);
    let completions = spec.field("completions");
    if spec.field("completionMode").text() != "Indexed" {
        completions.immutable(stored("completions"));
    } else if completions.is_set()
        && completions.value() != stored("completions")
        && completions.int() != spec.field("parallelism").int()
    {
        completions.invalid("can only be modified in tandem with spec.parallelism");
    }
    spec.field("selector").immutable_selector(stored("selector"));
    validate_template_change(spec, old);
    for field in ["completionMode", "backoffLimitPerIndex", "managedBy"] {
        spec.field(field).immutable(stored(field));
    }
    for (field, kind) in [("podFailurePolicy", "*SPodFailurePolicy"), ("successPolicy", "*SSuccessPolicy")] {
        if !same(spec.field(field).value(), stored(field)) {
            spec.field(field).invalid_internal(kind, IMMUTABLE);
        }
    }
}

/// The scheduling and resources of a suspended Job may still change.
fn validate_template_change(spec: Field<'_>, old: &Object) {
    let template = spec.field("template");
    let (Some(now), Some(before)) = (template.value(), old.get(&["spec", "template"])) else { return };
    if same(Some(now), Some(before)) {
        return;
    }
    let suspended = old.bool_at(&["spec", "suspend"]) == Some(true);
    let not_started = old.get(&["status", "startTime"]).is_none() || job_status::is_true(old, "Suspended");
    let open = suspended && not_started && old.i64_at(&["status", "active"]).unwrap_or(0) == 0;
    let mut before = before.clone();
    if open {
        allow_scheduling(&mut before, now);
        allow_resources(&mut before, now);
        if !same(now.get("spec"), before.get("spec")) {
            spec.field("template.spec").with(now.get("spec")).invalid_internal("SPodSpec", IMMUTABLE);
        }
    } else {
        template.invalid_internal("SPodTemplateSpec", IMMUTABLE);
    }
}

fn allow_scheduling(before: &mut Value, now: &Value) {
    for key in ["labels", "annotations"] {
        copy(&mut before["metadata"], &now["metadata"], key);
    }
    let wanted = now["spec"]["affinity"]["nodeAffinity"].clone();
    let affinity = &mut before["spec"]["affinity"];
    if !wanted.is_null() || affinity.is_object() {
        affinity["nodeAffinity"] = wanted;
    }
    if affinity.as_object().is_some_and(|a| a.values().all(Value::is_null)) {
        *affinity = Value::Null;
    }
    for key in ["nodeSelector", "tolerations", "schedulingGates"] {
        copy(&mut before["spec"], &now["spec"], key);
    }
}

fn allow_resources(before: &mut Value, now: &Value) {
    for list in ["containers", "initContainers"] {
        let wanted = now["spec"][list].as_array().cloned().unwrap_or_default();
        let Some(stored) = before["spec"][list].as_array_mut() else { continue };
        if stored.len() != wanted.len() {
            continue;
        }
        for (stored, wanted) in stored.iter_mut().zip(wanted).filter(|(s, w)| s["name"] == w["name"]) {
            copy(stored, &wanted, "resources");
        }
    }
}

fn copy(target: &mut Value, source: &Value, key: &str) {
    if target.is_null() {
        *target = json!({});
    }
    if let Some(map) = target.as_object_mut() {
        match source.get(key) {
            Some(value) => map.insert(key.to_owned(), value.clone()),
            None => map.remove(key),
        };
    }
}
