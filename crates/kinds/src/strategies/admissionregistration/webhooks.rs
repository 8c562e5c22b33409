//! Webhook configurations: address, rules and failure policy.

use std::collections::BTreeSet;

use object::{FieldError, Object, names};
use serde_json::Value;

use super::expressions::{self, Variables};
use super::rules::{self, FAILURE_POLICIES, MATCH_POLICIES};
use crate::strategies::defaults::{map_at, map_at_path, maps_in, set_absent};
use crate::strategies::fields::{Field, Report, same};
use crate::strategies::webhook_client;
use crate::strategy::Strategy;

const NO_SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];
const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];

pub(super) struct Webhooks {
    pub(super) mutating: bool,
}

/// Existing errors of a stored configuration are tolerated in updates.
struct Tolerance<'a> {
    side_effects: bool,
    review_versions: bool,
    repeated_names: bool,
    same_conditions: bool,
    known_expressions: BTreeSet<&'a str>,
}

impl Strategy for Webhooks {
    fn default(&self, configuration: &mut Object) {
        for hook in maps_in(configuration.as_map_mut(), "webhooks") {
            set_absent(hook, "failurePolicy", "Fail");
            rules::default_matching(hook);
            set_absent(hook, "timeoutSeconds", 10);
            if self.mutating {
                set_absent(hook, "reinvocationPolicy", "Never");
            }
            rules::default_rules(hook, "rules");
            if let Some(service) = map_at_path(hook, &["clientConfig", "service"]) {
                set_absent(service, "port", 443);
            }
            // The client configuration is always shown, even if empty.
            if map_at(hook, "clientConfig").is_none() {
                set_absent(hook, "clientConfig", serde_json::json!({}));
            }
        }
    }

    fn validate_create(&self, configuration: &Object) -> Vec<FieldError> {
        let none = BTreeSet::new();
        let tolerance = Tolerance {
            side_effects: false,
            review_versions: false,
            repeated_names: false,
            same_conditions: false,
            known_expressions: none,
        };
        self.validate(configuration, &tolerance)
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        self.validate(new, &Tolerance::of(new, old))
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

impl<'a> Tolerance<'a> {
    fn of(new: &Object, old: &'a Object) -> Self {
        let hooks = old.items(&["webhooks"]);
        let text = |hook: &'a Value, key: &str| hook[key].as_str().unwrap_or_default();
        let unknown_versions = |hook: &Value| {
            let versions = hook["admissionReviewVersions"].as_array().map(Vec::as_slice).unwrap_or_default();
            !versions.is_empty() && !versions.iter().any(|v| REVIEW_VERSIONS.iter().any(|known| v == known))
        };
        let names: BTreeSet<&str> = hooks.iter().map(|hook| text(hook, "name")).collect();
        let new_hooks = new.items(&["webhooks"]);
        let unchanged = |(a, b): (&Value, &Value)| same(a.get("matchConditions"), b.get("matchConditions"));
        let conditions = hooks.iter().filter_map(|hook| hook["matchConditions"].as_array()).flatten();
        Self {
            side_effects: hooks.iter().any(|hook| !NO_SIDE_EFFECTS.contains(&text(hook, "sideEffects"))),
            review_versions: hooks.iter().any(unknown_versions),
            repeated_names: names.len() != hooks.len(),
            same_conditions: new_hooks.len() == hooks.len() && new_hooks.iter().zip(hooks).all(unchanged),
            known_expressions: conditions.map(|condition| text(condition, "expression")).collect(),
        }
    }
}

impl Webhooks {
    fn validate(&self, configuration: &Object, tolerance: &Tolerance<'_>) -> Vec<FieldError> {
        let report = Report::new();
        let mut seen = BTreeSet::new();
        for hook in report.field(configuration, "webhooks").items() {
            self.validate_hook(hook, tolerance);
            validate_review_versions(hook.field("admissionReviewVersions"), tolerance);
            let name = hook.field("name");
            if !tolerance.repeated_names && !name.is_empty() && !seen.insert(name.text()) {
                name.duplicate();
            }
        }
        report.finish()
    }

    fn validate_hook(&self, hook: Field<'_>, tolerance: &Tolerance<'_>) {
        validate_hook_name(hook.field("name"));
        hook.field("rules").items().for_each(rules::validate_rule);
        hook.field("failurePolicy").optional_one_of(FAILURE_POLICIES);
        hook.field("matchPolicy").optional_one_of(MATCH_POLICIES);
        let allowed = if tolerance.side_effects { SIDE_EFFECTS } else { NO_SIDE_EFFECTS };
        let side_effects = hook.field("sideEffects");
        match side_effects.is_set() {
            true => side_effects.one_of(allowed),
            false => side_effects.required(&format!("must specify one of {}", allowed.join(", "))),
        }
        let timeout = hook.field("timeoutSeconds");
        if timeout.int().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
            timeout.invalid("the timeout value must be between 1 and 30 seconds");
        }
        hook.field("namespaceSelector").label_selector();
        hook.field("objectSelector").label_selector();
        if self.mutating {
            hook.field("reinvocationPolicy").optional_one_of(&["IfNeeded", "Never"]);
        }
        webhook_client::validate(hook.field("clientConfig"));
        if !tolerance.same_conditions {
            rules::validate_match_conditions(hook.field("matchConditions"), |field, expression| {
                if !tolerance.known_expressions.contains(field.text()) {
                    expressions::check_condition(field, expression, Variables::without_params());
                }
            });
        }
    }
}

fn validate_hook_name(name: Field<'_>) {
    if !name.require() {
        return;
    }
    let problems = names::dns1123_subdomain(name.text());
    if !problems.is_empty() {
        name.invalid(problems.join(","));
    } else if name.text().split('.').count() < 3 {
        name.invalid("should be a domain with at least three segments separated by dots");
    }
}

fn validate_review_versions(versions: Field<'_>, tolerance: &Tolerance<'_>) {
    let known = REVIEW_VERSIONS.join(", ");
    if !versions.require_because(&format!("must specify one of {known}")) {
        return;
    }
    let mut seen = BTreeSet::new();
    for version in versions.items() {
        if !seen.insert(version.text()) {
            version.invalid("duplicate version");
            continue;
        }
        version.problems(names::dns1035_label(version.text()));
    }
    if !tolerance.review_versions && !REVIEW_VERSIONS.iter().any(|known| seen.contains(known)) {
        versions.invalid(format!("must include at least one of {known}"));
    }
}
