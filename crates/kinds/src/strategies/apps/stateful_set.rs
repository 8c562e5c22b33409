//! StatefulSets: pods with stable names and claims.

use object::{FieldError, FieldPath, Object, names};
use serde_json::{Map, Value, json};

use super::{count_of, validate_selector, validate_selects};
use crate::strategies::core::{claims, validate_always_restarts, validate_collisions, validate_replica_counts};
use crate::strategies::defaults::{map_or_new, maps_in, set_absent, set_empty_str};
use crate::strategies::fields::{Field, Report, same};
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategies::pod_spec::{self, Setting, warnings};
use crate::strategy::{Strategy, WriteContext};

const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub struct StatefulSet;

impl Strategy for StatefulSet {
    fn default(&self, object: &mut Object) {
        let Some(spec) = map_or_new(object.as_map_mut(), "spec") else { return };
        set_empty_str(spec, "podManagementPolicy", "OrderedReady");
        default_update_strategy(spec);
        if let Some(policy) = map_or_new(spec, "persistentVolumeClaimRetentionPolicy") {
            set_empty_str(policy, "whenDeleted", "Retain");
            set_empty_str(policy, "whenScaled", "Retain");
        }
        set_absent(spec, "replicas", 1);
        set_absent(spec, "revisionHistoryLimit", 10);
        // Always shown, although it is no longer required.
        set_absent(spec, "serviceName", "");
        pod_spec::default_template(spec, "template");
        for claim in maps_in(spec, "volumeClaimTemplates") {
            default_claim_template(claim);
        }
    }

    fn prepare_create(&self, object: &mut Object, _ctx: &WriteContext) {
        object.set(&["status"], json!({"availableReplicas": 0, "replicas": 0}));
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        validate_spec(report.field(object, "spec"), true);
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(new, &report);
        validate_spec(report.field(new, "spec"), false);
        let fixed = |object: &Object| {
            let spec = object.get(&["spec"]).and_then(Value::as_object);
            let kept = spec.into_iter().flatten().filter(|(key, _)| !MUTABLE.contains(&key.as_str()));
            Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>())
        };
        if !same(Some(&fixed(new)), Some(&fixed(old))) {
            report.push(FieldError::forbidden(FieldPath::new("spec"), "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"));
        }
        report.finish()
    }

    fn validate_status(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let status = report.field(new, "status");
        validate_replica_counts(status, &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"]);
        validate_collisions(status.field("collisionCount"), old);
        let mut errors = report.finish();
        for error in &mut errors {
            // Here the message has the full path of the field.
            if error.detail == "cannot be greater than readyReplicas" {
                error.detail = "cannot be greater than status.readyReplicas".to_owned();
            }
        }
        errors
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Vec<String> {
        let mut out = Vec::new();
        if old.is_none_or(|old| old.get(&["spec"]) != new.get(&["spec"])) {
            out.extend(warnings::of_template("spec.template", new.get(&["spec", "template"])));
        }
        let report = Report::new();
        for claim in report.field(new, "spec").field("volumeClaimTemplates").items() {
            let at = if old.is_some() { claim.field("Spec") } else { claim };
            warnings::of_claim_spec(at.with(claim.field("spec").value()), &mut out);
        }
        if new.i64_at(&["spec", "revisionHistoryLimit"]).is_some_and(|n| n < 0) {
            out.push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".to_owned());
        }
        out
    }

    fn validate_name(&self, name: &str) -> Vec<String> {
        names::dns1123_label(name)
    }

    fn counts_generation(&self) -> bool {
        true
    }
}

fn default_update_strategy(spec: &mut Map<String, Value>) {
    let Some(strategy) = map_or_new(spec, "updateStrategy") else { return };
    if strategy.get("type").and_then(Value::as_str).unwrap_or_default().is_empty() {
        strategy.insert("type".into(), "RollingUpdate".into());
        set_absent(strategy, "rollingUpdate", json!({}));
    }
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate")
        && let Some(rolling) = strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut)
    {
        set_absent(rolling, "partition", 0);
        // Known, but disabled in this version of Kubernetes.
        rolling.remove("maxUnavailable");
    }
}

fn default_claim_template(claim: &mut Map<String, Value>) {
    set_absent(claim, "apiVersion", "v1");
    set_absent(claim, "kind", "PersistentVolumeClaim");
    claims::default_claim(claim);
    if let Some(status) = map_or_new(claim, "status") {
        set_empty_str(status, "phase", "Pending");
    }
}

fn validate_spec(spec: Field<'_>, is_new: bool) {
    let policy = spec.field("podManagementPolicy");
    if policy.require() && !matches!(policy.text(), "OrderedReady" | "Parallel") {
        policy.invalid("must be 'OrderedReady' or 'Parallel'");
    }
    validate_update_strategy(spec.field("updateStrategy"));
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    for when in ["whenDeleted", "whenScaled"] {
        if retention.is_set() {
            retention.field(when).one_of(&["Retain", "Delete"]);
        }
    }
    if is_new {
        for claim in spec.field("volumeClaimTemplates").items() {
            claims::validate_spec(claim.field("spec"));
        }
    }
    spec.field("replicas").non_negative();
    spec.field("minReadySeconds").non_negative();
    spec.field("ordinals").field("start").non_negative();
    if is_new && !spec.field("serviceName").is_empty() {
        spec.field("serviceName").dns1123_label();
    }
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    validate_selector(selector, "statefulset");
    if validate_selects(selector, template, "") {
        // The claims of the set can be mounted like volumes of the template.
        let added_claims = Some(spec.field("volumeClaimTemplates"));
        pod_spec::validate_template(template, Setting { added_claims, ignores_hostname: true, ..Setting::default() });
    }
    validate_always_restarts(template, "StatefulSet");
}

fn validate_update_strategy(strategy: Field<'_>) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "" => strategy.required(""),
        "OnDelete" => {
            if rolling.is_set() {
                rolling.invalid_internal(
                    "SRollingUpdateStatefulSetStrategy",
                    "only allowed for updateStrategy 'RollingUpdate'",
                );
            }
        }
        "RollingUpdate" => {
            rolling.field("partition").non_negative();
            let unavailable = rolling.field("maxUnavailable");
            if unavailable.is_set() {
                unavailable.positive_int_or_percent();
                if count_of(unavailable) == 0 {
                    unavailable.invalid("cannot be 0");
                }
                unavailable.at_most_hundred_percent();
            }
        }
        _ => strategy.invalid_internal("SStatefulSetUpdateStrategy", "must be 'RollingUpdate' or 'OnDelete'"),
    }
}
