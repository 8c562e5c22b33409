//! Job specs, in a Job itself or in the template of a CronJob.

use object::FieldError;
use serde_json::{Map, Value};

use super::{failure_policy, indexes};
use crate::strategies::defaults::{is_set, map_at, maps_in, set_absent, set_empty_str};
use crate::strategies::fields::Field;
use crate::strategies::pod_spec::{self, Setting};

const MANY_COMPLETIONS: i64 = 100_000;
const PARALLELISM_MAX_OF_MANY: i64 = 10_000;
const FAILED_INDEXES_MAX_OF_MANY: i64 = 10_000;
const INDEXED_MAX: i64 = 100_000;

/// Defaults of a Job; a template in a CronJob gets only those of [`default_template`].
pub fn default_job(spec: &mut Map<String, Value>) {
    if !is_set(spec, "completions") && !is_set(spec, "parallelism") {
        set_absent(spec, "completions", 1);
    }
    set_absent(spec, "parallelism", 1);
    let backoff = if is_set(spec, "backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    set_absent(spec, "backoffLimit", backoff);
    set_absent(spec, "completionMode", "NonIndexed");
    set_absent(spec, "suspend", false);
    let replacement = if is_set(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    set_absent(spec, "podReplacementPolicy", replacement);
    set_absent(spec, "manualSelector", false);
    default_template(spec);
}

pub fn default_template(spec: &mut Map<String, Value>) {
    pod_spec::default_template(spec, "template");
    if let Some(policy) = map_at(spec, "podFailurePolicy") {
        for rule in maps_in(policy, "rules") {
            for pattern in maps_in(rule, "onPodConditions") {
                set_empty_str(pattern, "status", "True");
            }
        }
    }
}

pub fn validate(spec: Field<'_>) {
    for count in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
    ] {
        spec.field(count).non_negative();
    }
    let failed = spec.field("maxFailedIndexes");
    if failed.is_set() {
        failed.non_negative();
        if !spec.field("backoffLimitPerIndex").is_set() {
            spec.field("backoffLimitPerIndex").required("when maxFailedIndexes is specified");
        }
    }
    validate_manager(spec.field("managedBy"));
    validate_completion_mode(spec);
    if spec.field("podFailurePolicy").is_set() {
        failure_policy::validate(spec);
    }
    validate_success_policy(spec);
    validate_replacement(spec);
    let template = spec.field("template");
    pod_spec::validate_template(template, Setting::default());
    validate_restart_policy(spec, template.field("spec").field("restartPolicy"));
}

/// `domain/path`, of at most 63 characters.
fn validate_manager(manager: Field<'_>) {
    if !manager.is_set() {
        return;
    }
    match manager.text().split_once('/') {
        _ if manager.is_empty() => manager.required(""),
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            manager.problems_as(domain, object::names::dns1123_subdomain(domain));
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
            if !path.bytes().all(allowed) {
                manager.invalid_as(
                    path,
                    object::names::regex_message("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]),
                );
            }
        }
        _ => manager.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
    if manager.len() > 63 {
        manager.too_long(63);
    }
}

fn validate_completion_mode(spec: Field<'_>) {
    let (mode, completions) = (spec.field("completionMode"), spec.field("completions"));
    mode.optional_one_of(&["NonIndexed", "Indexed"]);
    if mode.text() == "Indexed" {
        if !completions.is_set() {
            completions.required("when completion mode is Indexed");
        }
        validate_indexed(spec);
    }
    if matches!(mode.text(), "" | "NonIndexed") {
        for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if spec.field(name).is_set() {
                spec.field(name).invalid("requires indexed completion mode");
            }
        }
    }
}

fn validate_indexed(spec: Field<'_>) {
    let (completions, parallelism, failed) =
        (spec.field("completions"), spec.field("parallelism"), spec.field("maxFailedIndexes"));
    let above = |field: Field<'_>, max: i64| field.int().is_some_and(|n| n > max);
    if above(parallelism, INDEXED_MAX) {
        parallelism.invalid(format!("must be less than or equal to {INDEXED_MAX} when completion mode is Indexed"));
    }
    if completions.int().is_some_and(|n| above(failed, n)) {
        failed.invalid("must be less than or equal to completions");
    }
    if above(failed, INDEXED_MAX) {
        failed.invalid(format!("must be less than or equal to {INDEXED_MAX}"));
    }
    if !above(completions, MANY_COMPLETIONS) || !spec.field("backoffLimitPerIndex").is_set() {
        return;
    }
    if !failed.is_set() {
        failed.required(&format!("must be specified when completions is above {MANY_COMPLETIONS}"));
    }
    for (field, max) in [(parallelism, PARALLELISM_MAX_OF_MANY), (failed, FAILED_INDEXES_MAX_OF_MANY)] {
        if above(field, max) {
            field.invalid(format!("must be less than or equal to {max} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"));
        }
    }
}

fn validate_success_policy(spec: Field<'_>) {
    let policy = spec.field("successPolicy");
    if !policy.is_set() {
        return;
    }
    if spec.field("completionMode").text() != "Indexed" {
        return policy.invalid_internal("SSuccessPolicy", "requires indexed completion mode");
    }
    let rules = policy.field("rules");
    rules.require_because("at least one rules must be specified when the successPolicy is specified");
    if rules.len() > 20 {
        rules.too_many(rules.len(), 20);
    }
    let completions = spec.field("completions").int_or(0);
    for rule in rules.items() {
        validate_success_rule(rule, completions);
    }
}

fn validate_success_rule(rule: Field<'_>, completions: i64) {
    let (count, list) = (rule.field("succeededCount"), rule.field("succeededIndexes"));
    if !count.is_set() && !list.is_set() {
        rule.required("at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if list.is_set() {
        if list.len() > 64 * 1024 {
            list.too_long(64 * 1024);
        }
        match indexes::count(list.text(), completions) {
            Ok(found) => total = found,
            Err(problem) => list.invalid(format!("error parsing succeededIndexes: {problem}")),
        }
    }
    if let Some(wanted) = count.int() {
        count.non_negative();
        if wanted > completions {
            count.invalid(format!("must be less than or equal to {completions} (the number of specified completions)"));
        }
        if list.is_set() && wanted > total {
            count.invalid(format!(
                "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            ));
        }
    }
}

fn validate_replacement(spec: Field<'_>) {
    let policy = spec.field("podReplacementPolicy");
    if spec.field("podFailurePolicy").is_set() {
        policy.optional_one_of(&["Failed"]);
    } else {
        policy.optional_one_of(&["Failed", "TerminatingOrFailed"]);
    }
}

fn validate_restart_policy(spec: Field<'_>, policy: Field<'_>) {
    match policy.text() {
        "Always" | "" => policy.required("valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.field("podFailurePolicy").is_set() => {
            policy.invalid("only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        other => {
            policy.push(FieldError::not_supported(policy.field_path(), other, &["OnFailure", "Never"]));
        }
    }
}
