//! The rules of authorization.k8s.io: access reviews, which are not stored.

use std::sync::Arc;

use object::{FieldError, Object, names};
use serde_json::{Value, json};

use crate::strategies::fields::{Field, Report};
use crate::strategy::Strategy;

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    Some(match kind {
        "SubjectAccessReview" => Arc::new(AccessReview { subject: true, local: false }),
        "LocalSubjectAccessReview" => Arc::new(AccessReview { subject: true, local: true }),
        "SelfSubjectAccessReview" => Arc::new(AccessReview { subject: false, local: false }),
        _ => return None,
    })
}

struct AccessReview {
    /// About a given user, not the caller.
    subject: bool,
    /// About one namespace.
    local: bool,
}

impl Strategy for AccessReview {
    fn validate_create(&self, review: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(review, "spec");
        let (resource, other) = (spec.field("resourceAttributes"), spec.field("nonResourceAttributes"));
        if resource.is_set() && other.is_set() {
            other.invalid_shown(&shown_path(other), "cannot be specified in combination with resourceAttributes");
        }
        if !resource.is_set() && !other.is_set() {
            resource.invalid_as(
                Value::Null,
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            );
        }
        if self.subject && spec.field("user").is_empty() && spec.field("groups").is_empty() {
            spec.field("user").invalid_as("", "at least one of user or group must be specified");
        }
        validate_selector(resource.field("fieldSelector"), validate_field_requirement);
        validate_selector(resource.field("labelSelector"), validate_label_requirement);
        self.validate_metadata(&report, review);
        if self.local {
            validate_local(review, resource, other);
        }
        report.finish()
    }
}

impl AccessReview {
    fn validate_metadata<'a>(&self, report: &'a Report<'a>, review: &'a Object) {
        let allowed = |key: &str| key == "managedFields" || (self.local && key == "namespace");
        let metadata = review.get(&["metadata"]).and_then(Value::as_object);
        let says_something = metadata.into_iter().flatten().any(|(key, value)| {
            !allowed(key) && !value.is_null() && *value != json!("") && *value != json!({}) && *value != json!([])
        });
        if says_something {
            let detail = if self.local { "must be empty except for namespace" } else { "must be empty" };
            report.field(review, "metadata").invalid(detail);
        }
    }
}

fn validate_local<'a>(review: &Object, resource: Field<'a>, other: Field<'a>) {
    let namespace = resource.field("namespace");
    if resource.is_set() && namespace.text() != review.namespace() {
        namespace.invalid_as(namespace.text(), "must match metadata.namespace");
    }
    if other.is_set() {
        other.invalid_shown(&shown_path(other), "disallowed on this kind of request");
    }
}

fn shown_path(attributes: Field<'_>) -> String {
    let text = |name: &'static str| Value::from(attributes.field(name).text());
    format!("{{\"Path\":{},\"Verb\":{}}}", text("path"), text("verb"))
}

fn validate_selector(selector: Field<'_>, requirement: fn(Field<'_>)) {
    if !selector.is_set() {
        return;
    }
    let (raw, requirements) = (selector.field("rawSelector"), selector.field("requirements"));
    match (raw.is_empty(), requirements.is_empty()) {
        (false, false) => raw.invalid("may not specified at the same time as requirements"),
        (true, true) => requirements
            .required(&format!("when {} is specified, requirements or rawSelector is required", selector.field_path())),
        _ => {}
    }
    requirements.items().for_each(requirement);
}

fn validate_values(requirement: Field<'_>) {
    let values = requirement.field("values");
    match requirement.field("operator").text() {
        "In" | "NotIn" => {
            values.require_because("must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        _ => {}
    }
}

fn validate_field_requirement(requirement: Field<'_>) {
    requirement.field("key").require_because("must be specified");
    validate_values(requirement);
}

fn validate_label_requirement(requirement: Field<'_>) {
    validate_values(requirement);
    let key = requirement.field("key");
    key.problems_as(key.text(), names::qualified_name(key.text()));
    for value in requirement.field("values").items() {
        value.problems(names::label_value(value.text()));
    }
}
