//! The requests a webhook or policy applies to.

use std::collections::BTreeSet;

use object::names;
use serde_json::{Map, Value, json};

use crate::strategies::defaults::{map_at, maps_in, set_absent};
use crate::strategies::fields::Field;

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
pub(super) const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
pub(super) const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
const MATCH_CONDITIONS_MAX: usize = 64;

/// Every rule applies to both scopes by default.
pub(super) fn default_rules(map: &mut Map<String, Value>, key: &str) {
    maps_in(map, key).for_each(|rule| set_absent(rule, "scope", "*"));
}

pub(super) fn default_matching(map: &mut Map<String, Value>) {
    set_absent(map, "matchPolicy", "Equivalent");
    set_absent(map, "namespaceSelector", json!({}));
    set_absent(map, "objectSelector", json!({}));
}

pub(super) fn default_match_resources(map: &mut Map<String, Value>, key: &str) {
    if let Some(resources) = map_at(map, key) {
        default_matching(resources);
        default_rules(resources, "resourceRules");
        default_rules(resources, "excludeResourceRules");
    }
}

pub(super) fn validate_rule(rule: Field<'_>) {
    let operations = rule.field("operations");
    operations.require();
    operations.exclusive_wildcard("operations");
    operations.items().for_each(|operation| operation.one_of(OPERATIONS));
    let groups = rule.field("apiGroups");
    groups.require();
    groups.exclusive_wildcard("API groups");
    let versions = rule.field("apiVersions");
    versions.require();
    versions.exclusive_wildcard("API versions");
    for version in versions.items() {
        version.require();
    }
    validate_resources(rule.field("resources"));
    rule.field("scope").optional_one_of(&["*", "Cluster", "Namespaced"]);
}

fn validate_resources(resources: Field<'_>) {
    resources.require();
    // Resources listed as `x/*` and subresources listed as `*/x`: both make later, narrower entries redundant.
    let (mut whole_resources, mut whole_subresources) = (BTreeSet::new(), BTreeSet::new());
    let (mut everything, mut all_plain, mut plain) = (false, false, false);
    for item in resources.items() {
        if !item.require() {
            continue;
        }
        everything |= item.text() == "*/*";
        all_plain |= item.text() == "*";
        let Some((resource, subresource)) = item.text().split_once('/') else {
            plain = item.text() != "*";
            continue;
        };
        if whole_resources.contains(resource) {
            item.invalid(format!("if '{resource}/*' is present, must not specify {}", item.text()));
        }
        if whole_subresources.contains(subresource) {
            item.invalid(format!("if '*/{subresource}' is present, must not specify {}", item.text()));
        }
        if subresource == "*" {
            whole_resources.insert(resource);
        }
        if resource == "*" {
            whole_subresources.insert(subresource);
        }
    }
    if resources.len() > 1 && everything {
        resources.invalid("if '*/*' is present, must not specify other resources");
    }
    if all_plain && plain {
        resources.invalid("if '*' is present, must not specify other resources without subresources");
    }
}

/// `matchConstraints` of a policy, `matchResources` of a binding.
pub(super) fn validate_match_resources(resources: Field<'_>) {
    if !resources.is_set() {
        return;
    }
    resources.field("matchPolicy").required_one_of(MATCH_POLICIES);
    for name in ["namespaceSelector", "objectSelector"] {
        let selector = resources.field(name);
        match selector.is_set() {
            true => selector.label_selector(),
            false => selector.required(""),
        }
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        for rule in resources.field(name).items() {
            validate_resource_names(rule.field("resourceNames"));
            validate_rule(rule);
        }
    }
}

fn validate_resource_names(resource_names: Field<'_>) {
    let mut seen = BTreeSet::new();
    for name in resource_names.items() {
        name.problems(names::path_segment(name.text()));
        if !seen.insert(name.text()) {
            name.duplicate();
        }
    }
}

/// Named expressions that must all be true for a webhook or policy to apply; `check` validates each expression.
pub(super) fn validate_match_conditions<'a>(conditions: Field<'a>, check: impl Fn(Field<'a>, &'a str)) {
    if conditions.len() > MATCH_CONDITIONS_MAX {
        conditions.too_many(conditions.len(), MATCH_CONDITIONS_MAX);
    }
    let mut seen = BTreeSet::new();
    for condition in conditions.items() {
        let expression = condition.field("expression");
        match expression.text().trim() {
            "" => expression.required(""),
            trimmed => check(expression, trimmed),
        }
        let name = condition.field("name");
        if name.require() {
            name.qualified_name();
            if !seen.insert(name.text()) {
                name.duplicate();
            }
        }
    }
}
