//! Placement rules that propagation and override policies share.

use kinds::strategies::fields::Field;
use object::field::go_quote;
use object::names;
use serde_json::Value;

pub fn validate_placement(placement: Field<'_>) {
    let (affinity, affinities) = (placement.field("clusterAffinity"), placement.field("clusterAffinities"));
    if affinity.is_set() && affinities.is_set() {
        placement.invalid("clusterAffinities cannot co-exist with clusterAffinity");
    }
    if !allows_overflow(placement.field("replicaScheduling")) {
        for overflow in affinities.items().map(|term| term.field("overflowAffinities")).filter(|list| list.is_set()) {
            overflow
                .invalid("overflowAffinities can only be used together with dynamic weight or aggregated scheduling");
        }
    }
    field_selector(affinity);
    validate_terms(affinities);
    validate_spread(placement.field("spreadConstraints"));
    validate_workload_affinity(placement.field("workloadAffinity"));
    for toleration in placement.field("clusterTolerations").items() {
        let operator = toleration.field("operator");
        if ["Lt", "Gt"].contains(&operator.text()) {
            operator.not_supported(&["", "Exists", "Equal"]);
        }
    }
}

/// A policy of a namespace selects nothing outside it. Cluster policies have no namespace and select anywhere.
pub fn refuse_foreign_namespaces(selectors: Field<'_>, namespace: &str) {
    if namespace.is_empty() {
        return;
    }
    for selector in selectors.items().filter(|selector| selector.field("namespace").text() != namespace) {
        let at = selector.field("namespace");
        at.invalid_as(at.text(), "namespace of resource selector must be the same as the namespace of the policy");
    }
}

/// The field selector of a cluster affinity knows three keys and two operators.
pub fn field_selector(affinity: Field<'_>) {
    let selector = affinity.field("fieldSelector");
    let problem = selector.field("matchExpressions").items().find_map(|requirement| {
        let (key, operator) = (requirement.field("key").text(), requirement.field("operator").text());
        if !["provider", "region", "zone"].contains(&key) {
            return Some(format!("unsupported key {}, must be provider, region, or zone", go_quote(key)));
        }
        let known = ["In", "NotIn"].contains(&operator);
        (!known).then(|| format!("unsupported operator {}, must be In or NotIn", go_quote(operator)))
    });
    if let Some(problem) = problem {
        selector.invalid(problem);
    }
}

fn allows_overflow(strategy: Field<'_>) -> bool {
    let dynamic = !strategy.path(&["weightPreference", "dynamicWeight"]).is_empty();
    strategy.field("replicaSchedulingType").text() == "Divided"
        && match strategy.field("replicaDivisionPreference").text() {
            "Aggregated" => true,
            "Weighted" => dynamic,
            _ => false,
        }
}

fn validate_terms(terms: Field<'_>) {
    let mut seen: Vec<&str> = Vec::new();
    for term in terms.items() {
        let name = term.field("affinityName").text();
        term.problems_as(name, names::qualified_name(name));
        if seen.contains(&name) {
            terms.invalid("each affinity term in a policy must have a unique name");
        } else {
            seen.push(name);
        }
        field_selector(term);
        validate_overflow(term, name);
    }
}

fn validate_overflow<'a>(term: Field<'a>, primary: &'a str) {
    let overflow = term.field("overflowAffinities");
    if !overflow.is_set() {
        return;
    }
    let says_nothing = !term.field("labelSelector").is_set()
        && !term.field("fieldSelector").is_set()
        && term.field("clusterNames").is_empty()
        && term.field("exclude").is_empty();
    if says_nothing {
        overflow.invalid("overflowAffinities can only be used together with the inline ClusterAffinity");
    }
    let mut seen = vec![primary];
    for extra in overflow.items() {
        let name = extra.field("affinityName");
        name.problems_as(name.text(), names::qualified_name(name.text()));
        if seen.contains(&name.text()) {
            name.invalid(
                "overflow affinity name must be unique and must not duplicate the primary group's affinityName",
            );
        } else {
            seen.push(name.text());
        }
        field_selector(extra);
    }
}

fn validate_spread(constraints: Field<'_>) {
    // Each field that is used, and whether its repetition was already reported.
    let mut fields: Vec<(&str, bool)> = Vec::new();
    for constraint in constraints.items() {
        let field = constraint.field("spreadByField").text();
        let (min, max) = (constraint.field("minGroups").int_or(0), constraint.field("maxGroups").int_or(0));
        if !field.is_empty() && !constraint.field("spreadByLabel").is_empty() {
            constraint.invalid("spreadByLabel should not co-exist with spreadByField");
        }
        if min < 0 {
            constraint.invalid("minGroups lower than 0 is not allowed");
        }
        if max < 0 {
            constraint.invalid("maxGroups lower than 0 is not allowed");
        }
        if max > 0 && max < min {
            constraint.invalid("maxGroups lower than minGroups is not allowed");
        }
        if field.is_empty() {
            continue;
        }
        match fields.iter_mut().find(|(known, _)| *known == field) {
            None => fields.push((field, false)),
            Some((_, reported)) if !*reported => {
                constraints.invalid(format!("multiple {field} spread constraints are not allowed"));
                *reported = true;
            }
            Some(_) => {}
        }
    }
    if !fields.is_empty() && !fields.iter().any(|(field, _)| *field == "cluster") {
        let shown = constraints.value().cloned().unwrap_or(Value::Null);
        let text = "the cluster spread constraint must be enabled in one of the constraints in case of SpreadByField is enabled";
        constraints.invalid_as(shown, text);
    }
}

fn validate_workload_affinity(affinity: Field<'_>) {
    let keys: Vec<Field<'_>> = ["affinity", "antiAffinity"]
        .into_iter()
        .map(|side| affinity.field(side))
        .filter(|side| side.is_set())
        .map(|side| side.field("groupByLabelKey"))
        .collect();
    for key in &keys {
        key.problems_as(key.text(), names::qualified_name(key.text()));
    }
    if let [one, other] = keys[..]
        && one.text() == other.text()
    {
        affinity.invalid("affinity and antiAffinity must not use the same groupByLabelKey");
    }
}
