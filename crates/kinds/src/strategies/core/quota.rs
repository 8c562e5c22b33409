//! ResourceQuotas: the limitable resources and scopes.

use std::collections::BTreeSet;

use object::{FieldError, Object};
use serde_json::Value;

use crate::strategies::amount::{Amount, canonicalize_list};
use crate::strategies::defaults::{map_at, show_empty};
use crate::strategies::fields::{Field, IMMUTABLE, Report};
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategies::pod_spec::resources;
use crate::strategy::{Strategy, WriteContext};

pub struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn default(&self, object: &mut Object) {
        show_empty(object, "spec");
        show_empty(object, "status");
        for (part, lists) in [("spec", ["hard", ""]), ("status", ["hard", "used"])] {
            if let Some(part) = map_at(object.as_map_mut(), part) {
                lists.iter().for_each(|list| canonicalize_list(part, list));
            }
        }
    }

    fn prepare_create(&self, object: &mut Object, _ctx: &WriteContext) {
        object.set(&["status"], serde_json::json!({}));
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        validate_spec(report.field(object, "spec"));
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(new, "spec");
        validate_built_in_finalizers(new, &report);
        validate_spec(spec);
        let now: BTreeSet<&str> = spec.field("scopes").texts().collect();
        let before: BTreeSet<&str> = old.items(&["spec", "scopes"]).iter().filter_map(Value::as_str).collect();
        if now != before {
            spec.field("scopes").invalid_as(spec.field("scopes").value().cloned().unwrap_or_default(), IMMUTABLE);
        }
        report.finish()
    }

    fn validate_status(&self, new: &Object, _old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let status = report.field(new, "status");
        validate_amounts(status.field("hard"));
        validate_amounts(status.field("used"));
        report.finish()
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let hard = |name: &str| new.get(&["spec", "hard", name]).and_then(Amount::of);
        let mut out = Vec::new();
        for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
            let (mut name, limit_name) = (format!("requests.{resource}"), format!("limits.{resource}"));
            let mut request = hard(&name);
            if request.is_none() && matches!(resource, "cpu" | "memory") {
                name = resource.to_owned();
                request = hard(resource);
            }
            if let (Some(request), Some(limit)) = (request, hard(&limit_name))
                && request > limit
            {
                out.push(format!("ResourceQuota {name} ({request}) should be less than {limit_name} ({limit})"));
            }
        }
        out
    }
}

fn validate_amounts(list: Field<'_>) {
    for (name, amount) in list.entries() {
        resources::validate_name(amount, name);
        if !name.contains('/') && !resources::is_standard_quota(name) {
            amount.invalid_as(name, "must be a standard resource for quota");
        }
        resources::validate_amount(amount, name);
    }
}

fn validate_spec(spec: Field<'_>) {
    validate_amounts(spec.field("hard"));
    let names: Vec<&str> = spec.field("hard").names().collect();
    let scopes = spec.field("scopes");
    for scope in scopes.texts() {
        if !is_scope(scope) {
            scopes.invalid("unsupported scope");
        }
        for _ in names.iter().filter(|name| resources::is_standard_quota(name) && !covers(scope, name)) {
            scopes.invalid("unsupported scope applied to resource");
        }
    }
    refuse_opposites(scopes, scopes, &scopes.texts().collect::<Vec<_>>());
    validate_selector(spec, &names);
}

fn validate_selector(spec: Field<'_>, names: &[&str]) {
    let selector = spec.field("scopeSelector");
    let expressions = selector.field("matchExpressions");
    // Errors name the list of expressions, not the invalid one.
    for requirement in expressions.items() {
        let (scope, operator, values) =
            (requirement.field("scopeName").text(), requirement.field("operator").text(), requirement.field("values"));
        if !is_scope(scope) {
            expressions.field("scopeName").invalid_as(scope, "unsupported scope");
        }
        for _ in names.iter().filter(|name| resources::is_standard_quota(name) && !covers(scope, name)) {
            expressions
                .with(selector.value())
                .invalid_internal("SScopeSelector", "unsupported scope applied to resource");
        }
        if is_scope(scope) && !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && operator != "Exists" {
            expressions.field("operator").invalid_as(operator, "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity");
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => expressions
                .field("values")
                .required("must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"),
            "Exists" | "DoesNotExist" if !values.is_empty() => expressions.field("values").invalid_as(
                values.value().cloned().unwrap_or_default(),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => expressions.field("operator").invalid_as(operator, "not a valid selector operator"),
        }
    }
    let named: Vec<&str> = expressions.items().map(|r| r.field("scopeName").text()).collect();
    refuse_opposites(expressions, spec.field("scopes"), &named);
}

fn refuse_opposites(at: Field<'_>, shown: Field<'_>, scopes: &[&str]) {
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            at.invalid_as(shown.value().cloned().unwrap_or_default(), "conflicting scopes");
        }
    }
}

fn is_scope(scope: &str) -> bool {
    matches!(
        scope,
        "Terminating"
            | "NotTerminating"
            | "BestEffort"
            | "NotBestEffort"
            | "PriorityClass"
            | "CrossNamespacePodAffinity"
            | "VolumeAttributesClass"
    )
}

fn covers(scope: &str, resource: &str) -> bool {
    const COMPUTE: [&str; 6] = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            resource == "pods" || COMPUTE.contains(&resource)
        }
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}
