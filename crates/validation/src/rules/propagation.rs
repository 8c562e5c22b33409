//! PropagationPolicy and ClusterPropagationPolicy.

use api::failover::ANNOTATION_FAILBACK;
use kinds::strategies::defaults::{map_at, map_at_path, maps_in, set_absent, set_empty_str, set_zero};
use kinds::strategies::fields::{Field, Report};
use object::{FieldError, Object, names};
use propagation::failback::Failback;
use serde_json::{Map, Value};

use super::Denial;
use super::placement::{refuse_foreign_namespaces, validate_placement};

/// Default grace period of a graceful application failover.
const GRACE_SECONDS: i64 = 600;

/// Sets the defaults of both kinds of policy, on create and update.
pub fn default(policy: &mut Object) {
    let Some(spec) = map_at(policy.as_map_mut(), "spec") else { return };
    // A webhook written in Go gives the struct back even where nothing is in it.
    set_absent(spec, "placement", Map::new());
    if selects_service_import(spec) {
        spec.insert("propagateDeps".to_owned(), true.into());
    }
    if let Some(placement) = map_at(spec, "placement") {
        for constraint in maps_in(placement, "spreadConstraints") {
            if constraint.get("spreadByLabel").and_then(Value::as_str).unwrap_or_default().is_empty() {
                set_empty_str(constraint, "spreadByField", "cluster");
            }
            set_zero(constraint, "minGroups", 1);
        }
        if let Some(strategy) = map_at(placement, "replicaScheduling")
            && strategy.get("replicaSchedulingType").is_some_and(|ty| ty == "Divided")
        {
            set_empty_str(strategy, "replicaDivisionPreference", "Weighted");
        }
    }
    if let Some(application) = map_at_path(spec, &["failover", "application"])
        && is_graceful(application.get("purgeMode"))
    {
        set_absent(application, "gracePeriodSeconds", GRACE_SECONDS);
    }
}

fn selects_service_import(spec: &Map<String, Value>) -> bool {
    let selectors = spec.get("resourceSelectors").and_then(Value::as_array).into_iter().flatten();
    let mut imports = selectors.filter(|selector| {
        selector["kind"] == "ServiceImport" && selector["apiVersion"] == "multicluster.x-k8s.io/v1alpha1"
    });
    imports.next().is_some()
}

fn is_graceful(purge_mode: Option<&Value>) -> bool {
    purge_mode.and_then(Value::as_str).is_some_and(|mode| mode == "Gracefully" || mode == "Graciously")
}

/// The scheduler and the permanent id stay what they were; the id has to be there.
pub fn check_identity(webhook: &'static str, label: &str, policy: &Object, old: Option<&Object>) -> Result<(), Denial> {
    if let Some(old) = old {
        let scheduler = |policy: &Object| policy.str_at(&["spec", "schedulerName"]).to_owned();
        if scheduler(policy) != scheduler(old) {
            return Err(Denial::forbidden(webhook, "the schedulerName should not be updated"));
        }
        if policy.label(label).unwrap_or_default() != old.label(label).unwrap_or_default() {
            let text = format!("label {label} is immutable, it can only be set by the system during creation");
            return Err(Denial::forbidden(webhook, text));
        }
    }
    if policy.label(label).is_none() {
        let text =
            format!("label {label} is required, it should be set by the mutating admission webhook during creation");
        return Err(Denial::forbidden(webhook, text));
    }
    Ok(())
}

pub fn validate(policy: &Object, namespace: &str) -> Vec<FieldError> {
    let report = Report::new();
    let spec = report.field(policy, "spec");
    validate_placement(spec.field("placement"));
    validate_application_failover(spec.path(&["failover", "application"]));
    validate_preserved_state(spec.path(&["failover", "cluster", "statePreservation"]));
    refuse_foreign_namespaces(spec.field("resourceSelectors"), namespace);
    if spec.field("preemption").text() == "Always" {
        for selector in spec.field("resourceSelectors").items().filter(|selector| selector.field("name").is_empty()) {
            selector.field("name").invalid_as(
                "",
                "name cannot be empty if preemption is Always, the empty name may cause unexpected resources preemption",
            );
        }
    }
    validate_suspension(spec.field("suspension"));
    report.finish()
}

/// Karmada refuses a policy with application failover that does not say `propagateDeps: true`. Policies in the field say
/// no such thing and mean it (what their workloads need is in every member already), so they are taken as they are.
/// Parts without effect are named.
pub fn warnings(policy: &Object) -> Vec<String> {
    let mut warnings = Vec::new();
    let failback = policy.annotation(ANNOTATION_FAILBACK).unwrap_or_default();
    if let Err(error) = Failback::parse(failback) {
        warnings.push(format!("metadata.annotations: {ANNOTATION_FAILBACK} is ignored: {error}"));
    }
    let fails_over = policy.get(&["spec", "failover", "application"]).is_some_and(|value| !value.is_null());
    if fails_over && !policy.bool_at(&["spec", "propagateDeps"]).unwrap_or(false) {
        let text = "spec.propagateDeps: application failover is set and propagateDeps is not: what the application needs \
                    does not move with it";
        warnings.push(text.to_owned());
    }
    warnings.extend(groupless_constraints(policy));
    warnings.extend(built_in_definitions(policy));
    warnings
}

/// Spread constraints that form no groups, here and in Karmada.
fn groupless_constraints(policy: &Object) -> impl Iterator<Item = String> {
    let constraints = policy.items(&["spec", "placement", "spreadConstraints"]).iter().enumerate();
    constraints.filter_map(|(index, constraint)| {
        let text = |field: &str| constraint[field].as_str().filter(|text| !text.is_empty());
        let what = match (text("spreadByLabel"), text("spreadByField")) {
            (Some(_), None) => "spreadByLabel",
            (None, Some(field @ ("provider" | "zone"))) => field,
            _ => return None,
        };
        Some(format!(
            "spec.placement.spreadConstraints[{index}]: {what} forms no groups of clusters; only cluster and region do"
        ))
    })
}

/// Selectors of definitions of built-in kinds, which Karmada has as objects.
fn built_in_definitions(policy: &Object) -> impl Iterator<Item = String> {
    let selectors = policy.items(&["spec", "resourceSelectors"]).iter().enumerate();
    selectors.filter_map(|(index, selector)| {
        let name = selector["name"].as_str().filter(|_| selector["kind"] == "CustomResourceDefinition")?;
        let is_built_in = name.ends_with(".multicluster.x-k8s.io") || name.ends_with(".karmada.io");
        is_built_in.then(|| {
            format!(
                "spec.resourceSelectors[{index}]: the kind of {name} is built in, so that this definition only exists as an \
                 object after you create it, for example from examples/service-export/crds.yaml"
            )
        })
    })
}

fn validate_application_failover(application: Field<'_>) {
    if !application.is_set() {
        return;
    }
    let toleration = application.path(&["decisionConditions", "tolerationSeconds"]);
    if toleration.int_or(0) < 0 {
        toleration.invalid("must be greater than or equal to 0");
    }
    let grace = application.field("gracePeriodSeconds");
    match (is_graceful(application.field("purgeMode").value()), grace.is_set()) {
        (false, true) => grace.invalid("only takes effect when purgeMode is gracefully"),
        (true, false) => grace.invalid_as(Value::Null, "should not be empty when purgeMode is gracefully"),
        _ => {}
    }
    if grace.int().is_some_and(|seconds| seconds <= 0) {
        grace.invalid("must be greater than 0");
    }
    validate_preserved_state(application.field("statePreservation"));
}

fn validate_preserved_state(preservation: Field<'_>) {
    for rule in preservation.field("rules").items() {
        let label = rule.field("aliasLabelName");
        label.problems_as(label.text(), names::qualified_name(label.text()));
    }
}

fn validate_suspension(suspension: Field<'_>) {
    let clusters = suspension.path(&["dispatchingOnClusters", "clusterNames"]);
    if suspension.field("dispatching").flag() && !clusters.is_empty() {
        let shown = suspension.value().cloned().unwrap_or_default();
        // The path has the word twice in Karmada too.
        suspension
            .field("suspension")
            .invalid_as(shown, "suspension dispatching cannot co-exist with dispatchingOnClusters.clusterNames");
    }
}
