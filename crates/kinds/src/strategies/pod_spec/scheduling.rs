//! Scheduling constraints: affinity, tolerations, spreading, gates.

use std::collections::BTreeSet;

use object::names;

use super::super::fields::Field;

pub const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const WEIGHT: &str = "must be in the range 1-100";

pub fn validate_affinity(affinity: Field<'_>) {
    let node = affinity.field("nodeAffinity");
    if node.field(REQUIRED).is_set() {
        validate_node_selector(node.field(REQUIRED));
    }
    for term in node.field(PREFERRED).items() {
        validate_weight(term);
        // Invalid label values only cause a warning here: an impossible preference is harmless.
        validate_node_term(term.field("preference"), false);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for term in affinity.field(kind).field(REQUIRED).items() {
            validate_pod_term(term);
        }
        for term in affinity.field(kind).field(PREFERRED).items() {
            validate_weight(term);
            validate_pod_term(term.field("podAffinityTerm"));
        }
    }
}

fn validate_weight(term: Field<'_>) {
    let weight = term.field("weight").int_or(0);
    if !(1..=100).contains(&weight) {
        term.field("weight").invalid_as(weight, WEIGHT);
    }
}

pub fn validate_node_selector(selector: Field<'_>) {
    let terms = selector.field("nodeSelectorTerms");
    if terms.is_empty() {
        return terms.required("must have at least one node selector term");
    }
    for term in terms.items() {
        validate_node_term(term, true);
    }
}

fn validate_node_term(term: Field<'_>, checks_values: bool) {
    for requirement in term.field("matchExpressions").items() {
        validate_node_requirement(requirement, checks_values);
    }
    for requirement in term.field("matchFields").items() {
        let (operator, values) = (requirement.field("operator"), requirement.field("values"));
        match operator.text() {
            "In" | "NotIn" if values.len() != 1 => {
                values.required("must be only one value when `operator` is 'In' or 'NotIn' for node field selector");
            }
            "In" | "NotIn" => {}
            _ => operator.invalid("not a valid selector operator"),
        }
        if requirement.field("key").text() == "metadata.name" {
            values.items().for_each(Field::dns1123_subdomain);
        } else {
            requirement.field("key").invalid("not a valid field selector key");
        }
    }
}

fn validate_node_requirement(requirement: Field<'_>, checks_values: bool) {
    let (operator, values) = (requirement.field("operator"), requirement.field("values"));
    match operator.text() {
        "In" | "NotIn" => {
            values.require_because("must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
        }
        "Gt" | "Lt" => {
            if values.len() != 1 {
                values.required("must be specified single value when `operator` is 'Lt' or 'Gt'");
            }
        }
        _ => operator.invalid("not a valid selector operator"),
    }
    requirement.field("key").qualified_name();
    if checks_values {
        for value in values.items() {
            value.problems(names::label_value(value.text()));
        }
    }
}

fn validate_pod_term(term: Field<'_>) {
    term.field("labelSelector").label_selector();
    term.field("namespaceSelector").label_selector();
    for namespace in term.field("namespaces").texts() {
        term.field("namespace").problems_as(namespace, names::dns1123_label(namespace));
    }
    validate_label_keys(term, &["matchLabelKeys", "mismatchLabelKeys"]);
    let key = term.field("topologyKey");
    key.require_because("can not be empty");
    key.qualified_name();
}

/// Keys whose values come from the pod; they require a selector and must be unique.
fn validate_label_keys(term: Field<'_>, lists: &[&'static str]) {
    let selector = term.field("labelSelector");
    for list in lists {
        let keys = term.field(list);
        if keys.is_empty() {
            continue;
        }
        if !selector.is_set() {
            keys.forbidden("must not be specified when labelSelector is not set");
            continue;
        }
        keys.items().for_each(Field::qualified_name);
    }
    let matched: Vec<&str> = term.field("matchLabelKeys").texts().collect();
    let mut selected: BTreeSet<&str> = selector.field("matchLabels").names().collect();
    for expression in selector.field("matchExpressions").items() {
        let key = expression.field("key").text();
        if selected.contains(key)
            && let Some(index) = matched.iter().rposition(|k| *k == key)
        {
            term.index(index).invalid_as(key, "exists in both matchLabelKeys and labelSelector");
        }
        selected.insert(key);
    }
    let mismatched: BTreeSet<&str> = term.field("mismatchLabelKeys").texts().collect();
    for (index, key) in matched.iter().enumerate().filter(|(_, key)| mismatched.contains(*key)) {
        term.field("matchLabelKeys")
            .index(index)
            .invalid_as(*key, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

pub fn validate_gates(gates: Field<'_>) {
    let mut seen = BTreeSet::new();
    for gate in gates.items() {
        let name = gate.field("name").text();
        gate.problems_as(name, names::qualified_name(name));
        if !seen.insert(name) {
            gate.duplicate_as(name);
        }
    }
}

pub fn validate_tolerations(tolerations: Field<'_>) {
    for toleration in tolerations.items() {
        let (key, operator, value, effect) = (
            toleration.field("key"),
            toleration.field("operator"),
            toleration.field("value"),
            toleration.field("effect"),
        );
        if !key.is_empty() {
            key.qualified_name();
        }
        if key.is_empty() && operator.text() != "Exists" {
            operator
                .invalid("operator must be Exists when `key` is empty, which means \"match all values and all keys\"");
        }
        if toleration.field("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            effect.invalid("effect must be 'NoExecute' when `tolerationSeconds` is set");
        }
        match operator.text() {
            "Equal" | "" => {
                let problems = names::label_value(value.text());
                if !problems.is_empty() {
                    operator.invalid_as(value.text(), problems.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                operator.invalid_as(value.text(), "value must be empty when `operator` is 'Exists'");
            }
            "Exists" => {}
            "Lt" | "Gt" => operator.not_supported(&["Equal", "Exists", "Lt", "Gt"]),
            _ => operator.not_supported(&["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            effect.one_of(&TAINT_EFFECTS);
        }
    }
}

pub fn validate_spread(constraints: Field<'_>) {
    for (index, constraint) in constraints.items().enumerate() {
        let (skew, key, action) =
            (constraint.field("maxSkew"), constraint.field("topologyKey"), constraint.field("whenUnsatisfiable"));
        if skew.int_or(0) <= 0 {
            skew.invalid_as(skew.int_or(0), "must be greater than zero");
        }
        key.require_because("can not be empty");
        action.one_of(&["DoNotSchedule", "ScheduleAnyway"]);
        let repeats = constraints.items().skip(index + 1).any(|other| {
            other.field("topologyKey").text() == key.text() && other.field("whenUnsatisfiable").text() == action.text()
        });
        if repeats {
            constraint.field("{topologyKey, whenUnsatisfiable}").duplicate_as(format!(
                "{{{}, {}}}",
                key.text(),
                action.text()
            ));
        }
        validate_min_domains(constraint.field("minDomains"), action.text());
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            constraint.field(policy).optional_one_of(&["Honor", "Ignore"]);
        }
        validate_label_keys(constraint, &["matchLabelKeys"]);
        constraint.field("labelSelector").label_selector();
    }
}

fn validate_min_domains(domains: Field<'_>, action: &str) {
    let Some(count) = domains.int() else { return };
    if count <= 0 {
        domains.invalid("must be greater than zero");
    }
    if action != "DoNotSchedule" {
        domains.invalid(format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"));
    }
}
