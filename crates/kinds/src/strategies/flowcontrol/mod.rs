//! Flow schemas and priority levels of API priority and fairness.

use std::collections::BTreeSet;
use std::sync::Arc;

use object::request::Verb;
use object::{FieldError, Object, names};
use serde_json::{Value, json};

use crate::strategies::defaults::{map_at, map_at_path, map_or_new, set_absent, set_zero, show_empty};
use crate::strategies::fields::{Field, Report, same};
use crate::strategy::{Strategy, WriteContext};

const VERBS: &[&str] = &[
    Verb::Create.as_str(),
    Verb::Delete.as_str(),
    Verb::DeleteCollection.as_str(),
    Verb::Get.as_str(),
    Verb::List.as_str(),
    Verb::Patch.as_str(),
    "proxy",
    Verb::Update.as_str(),
    Verb::Watch.as_str(),
];
const PRECEDENCE_MAX: i64 = 10_000;
const QUEUES_MAX: i64 = 10_000_000;
/// Shuffle sharding assigns the queues of a flow from this many bits of its hash.
const HASH_BITS: u32 = 60;

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    Some(match kind {
        "FlowSchema" => Arc::new(FlowSchema),
        "PriorityLevelConfiguration" => Arc::new(PriorityLevel),
        _ => return None,
    })
}

struct FlowSchema;

impl Strategy for FlowSchema {
    fn default(&self, schema: &mut Object) {
        show_empty(schema, "status");
        if let Some(spec) = map_or_new(schema.as_map_mut(), "spec") {
            set_zero(spec, "matchingPrecedence", 1000);
        }
    }

    fn prepare_create(&self, schema: &mut Object, _ctx: &WriteContext) {
        schema.set(&["status"], json!({}));
    }

    fn validate_create(&self, schema: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(schema, "spec");
        validate_schema(schema.name(), spec);
        if let Some(fixed) = mandatory_schema(schema.name())
            && !same(spec.value(), Some(&fixed))
        {
            spec.invalid(format!("spec of '{}' must equal the fixed value", schema.name()));
        }
        validate_conditions(report.field(schema, "status").field("conditions"));
        report.finish()
    }

    fn validate_status(&self, new: &Object, _old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_conditions(report.field(new, "status").field("conditions"));
        report.finish()
    }

    fn counts_generation(&self) -> bool {
        true
    }
}

/// The two mandatory schemas, so that every request matches one.
fn mandatory_schema(name: &str) -> Option<Value> {
    let everything = |groups: &[&str]| {
        let subjects: Vec<Value> = groups.iter().map(|g| json!({"kind": "Group", "group": {"name": g}})).collect();
        json!([{
            "subjects": subjects,
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }])
    };
    match name {
        "exempt" => Some(json!({
            "priorityLevelConfiguration": {"name": "exempt"},
            "matchingPrecedence": 1,
            "rules": everything(&["system:masters"]),
        })),
        "catch-all" => Some(json!({
            "priorityLevelConfiguration": {"name": "catch-all"},
            "matchingPrecedence": PRECEDENCE_MAX,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": everything(&["system:unauthenticated", "system:authenticated"]),
        })),
        _ => None,
    }
}

fn validate_schema(name: &str, spec: Field<'_>) {
    let precedence = spec.field("matchingPrecedence");
    let value = precedence.int_or(0);
    if value <= 0 {
        precedence.invalid("must be a positive value");
    }
    if value > PRECEDENCE_MAX {
        precedence.invalid(format!("must not be greater than {PRECEDENCE_MAX}"));
    }
    if value == 1 && name != "exempt" {
        precedence.invalid("only the schema named 'exempt' may have matchingPrecedence 1");
    }
    let method = spec.field("distinguisherMethod");
    if method.is_set() && !matches!(method.field("type").text(), "ByNamespace" | "ByUser") {
        let shown = json!({"Type": method.field("type").text()});
        let path = method.field("type").field_path();
        method.push(FieldError::not_supported(path, shown, &["ByNamespace", "ByUser"]));
    }
    let level = spec.path(&["priorityLevelConfiguration", "name"]);
    if level.require_because("must reference a priority level") {
        level.dns1123_subdomain();
    }
    spec.field("rules").items().for_each(validate_rule);
}

fn validate_rule(rule: Field<'_>) {
    let subjects = rule.field("subjects");
    subjects.require_because("subjects must contain at least one value");
    subjects.items().for_each(validate_subject);
    let (resources, others) = (rule.field("resourceRules"), rule.field("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        rule.required("at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    resources.items().for_each(validate_resource_rule);
    for other in others.items() {
        validate_verbs(other.field("verbs"));
        let urls = other.field("nonResourceURLs");
        urls.require_because("nonResourceURLs must contain at least one value");
        if urls.texts().any(|url| url == "*") {
            urls.exclusive_wildcard("non-resource URLs");
        } else {
            urls.items().for_each(validate_url);
        }
    }
}

const SUBJECTS: [(&str, &str); 3] = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];

fn validate_subject(subject: Field<'_>) {
    let kind = subject.field("kind");
    let Some((name, part)) = SUBJECTS.iter().find(|(name, _)| *name == kind.text()) else {
        return kind.not_supported(&["Group", "ServiceAccount", "User"]);
    };
    let given = subject.field(part);
    if !given.is_set() {
        given.required(&format!("{part} is required when subject kind is '{name}'"));
    } else if given.field("name").require() && *name == "ServiceAccount" && given.field("name").text() != "*" {
        given.field("name").dns1123_subdomain();
    }
    if given.is_set() && *name == "ServiceAccount" {
        let namespace = given.field("namespace");
        if namespace.require_because("must specify namespace for service account") {
            namespace.dns1123_label();
        }
    }
    for (other, part) in SUBJECTS.iter().filter(|(other, _)| other != name) {
        if subject.field(part).is_set() {
            subject.field(part).forbidden(format!("{part} is forbidden when subject kind is not '{other}'"));
        }
    }
}

fn validate_verbs(verbs: Field<'_>) {
    if !verbs.require_because("verbs must contain at least one value") {
        return;
    }
    if verbs.texts().any(|verb| verb == "*") {
        verbs.exclusive_wildcard("verbs");
    } else if !verbs.texts().all(|verb| VERBS.contains(&verb)) {
        let shown = verbs.value().cloned().unwrap_or_default();
        verbs.push(FieldError::not_supported(verbs.field_path(), shown, VERBS));
    }
}

fn validate_resource_rule(rule: Field<'_>) {
    validate_verbs(rule.field("verbs"));
    let (groups, resources) = (rule.field("apiGroups"), rule.field("resources"));
    groups.require_because("resource rules must supply at least one api group");
    groups.exclusive_wildcard("api groups");
    resources.require_because("resource rules must supply at least one resource");
    resources.exclusive_wildcard("resources");
    let namespaces = rule.field("namespaces");
    if namespaces.is_empty() && !rule.field("clusterScope").flag() {
        namespaces.required("resource rules that are not cluster scoped must supply at least one namespace");
    } else if namespaces.texts().any(|namespace| namespace == "*") {
        namespaces.exclusive_wildcard("namespaces");
    } else {
        const INTRO: &str = "each member of this list must be '*' or a DNS-1123 label; ";
        for namespace in namespaces.items() {
            namespace.problems(names::dns1123_label(namespace.text()).iter().map(|p| format!("{INTRO}{p}")).collect());
        }
    }
}

fn validate_url(url: Field<'_>) {
    let text = url.text();
    let stars = text.matches('*').count();
    match text {
        "" => url.invalid("must not be empty"),
        "/" => {}
        text if !text.starts_with('/') => url.invalid("must start with slash"),
        text if text.contains(' ') => url.invalid("must not contain white-space"),
        text if text.contains("//") => url.invalid("must not contain double slash"),
        text if stars > 1 || (stars == 1 && !text.ends_with("/*")) => {
            url.invalid("wildcard can only do suffix matching")
        }
        _ => {}
    }
}

fn validate_conditions(conditions: Field<'_>) {
    let mut seen = BTreeSet::new();
    for ty in conditions.items().map(|condition| condition.field("type")) {
        if !seen.insert(ty.text()) {
            ty.duplicate_as(ty.text());
        }
        ty.require();
    }
}

struct PriorityLevel;

impl Strategy for PriorityLevel {
    fn default(&self, level: &mut Object) {
        show_empty(level, "status");
        let Some(spec) = map_or_new(level.as_map_mut(), "spec") else { return };
        if let Some(exempt) = map_at(spec, "exempt") {
            set_absent(exempt, "nominalConcurrencyShares", 0);
            set_absent(exempt, "lendablePercent", 0);
        }
        if let Some(limited) = map_at(spec, "limited") {
            set_absent(limited, "nominalConcurrencyShares", 30);
            set_absent(limited, "lendablePercent", 0);
        }
        if let Some(queuing) = map_at_path(spec, &["limited", "limitResponse", "queuing"]) {
            set_zero(queuing, "handSize", 8);
            set_zero(queuing, "queues", 64);
            set_zero(queuing, "queueLengthLimit", 50);
        }
    }

    fn prepare_create(&self, level: &mut Object, _ctx: &WriteContext) {
        level.set(&["status"], json!({}));
    }

    fn validate_create(&self, level: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let spec = report.field(level, "spec");
        validate_level(level.name(), spec);
        validate_mandatory_level(level.name(), spec);
        validate_conditions(report.field(level, "status").field("conditions"));
        report.finish()
    }

    fn validate_status(&self, new: &Object, _old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_conditions(report.field(new, "status").field("conditions"));
        report.finish()
    }

    fn counts_generation(&self) -> bool {
        true
    }
}

fn validate_mandatory_level(name: &str, spec: Field<'_>) {
    let fixed = match name {
        "exempt" => json!({"type": "Exempt"}),
        "catch-all" => json!({
            "type": "Limited",
            "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}},
        }),
        _ => return,
    };
    let mut given = spec.value().cloned().unwrap_or_default();
    let except = if name == "exempt" { " except the 'spec.exempt' field" } else { "" };
    if name == "exempt" {
        given.as_object_mut().map(|map| map.remove("exempt"));
    }
    if !same(Some(&given), Some(&fixed)) {
        spec.invalid(format!("spec of '{name}'{except} must equal the fixed value"));
    }
}

fn validate_level(name: &str, spec: Field<'_>) {
    let (ty, exempt, limited) = (spec.field("type"), spec.field("exempt"), spec.field("limited"));
    if (name == "exempt") != (ty.text() == "Exempt") {
        ty.invalid_as(ty.text(), "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    match ty.text() {
        "Exempt" => {
            if limited.is_set() {
                limited.forbidden("must be nil if the type is not Limited");
            }
            refuse_negative_shares(exempt);
            exempt.field("lendablePercent").in_range(0, 100);
        }
        "Limited" => {
            if exempt.is_set() {
                exempt.forbidden("must be nil if the type is Limited");
            }
            if !limited.is_set() {
                return limited.required("must not be empty when type is Limited");
            }
            refuse_negative_shares(limited);
            validate_response(limited.field("limitResponse"));
            limited.field("lendablePercent").in_range(0, 100);
            let borrowing = limited.field("borrowingLimitPercent");
            if borrowing.int().is_some_and(|percent| percent < 0) {
                borrowing.invalid("if specified, must be a non-negative integer");
            }
        }
        _ => ty.required_one_of(&["Exempt", "Limited"]),
    }
}

fn refuse_negative_shares(level: Field<'_>) {
    let shares = level.field("nominalConcurrencyShares");
    if shares.int().is_some_and(|shares| shares < 0) {
        shares.invalid("must be a non-negative integer");
    }
}

fn validate_response(response: Field<'_>) {
    let queuing = response.field("queuing");
    match response.field("type").text() {
        "Reject" if queuing.is_set() => {
            queuing.forbidden("must be nil if limited.limitResponse.type is not Limited");
        }
        "Reject" => {}
        "Queue" if !queuing.is_set() => {
            queuing.required("must not be empty if limited.limitResponse.type is Limited");
        }
        "Queue" => validate_queuing(queuing),
        _ => response.field("type").required_one_of(&["Queue", "Reject"]),
    }
}

fn validate_queuing(queuing: Field<'_>) {
    let (queues, hand, length) =
        (queuing.field("queues"), queuing.field("handSize"), queuing.field("queueLengthLimit"));
    if length.int_or(0) <= 0 {
        length.invalid("must be positive");
    }
    let deck = queues.int_or(0);
    if deck <= 0 {
        queues.invalid("must be positive");
    } else if deck > QUEUES_MAX {
        queues.invalid(format!("must not be greater than {QUEUES_MAX}"));
    }
    let cards = hand.int_or(0);
    if cards <= 0 {
        hand.invalid("must be positive");
    } else if cards > deck {
        hand.invalid(format!("should not be greater than queues ({deck})"));
    } else if entropy_bits(deck, cards) > HASH_BITS {
        hand.invalid(format!(
            "required entropy bits of deckSize {deck} and handSize {cards} should not be greater than {HASH_BITS}"
        ));
    }
}

/// The number of bits needed to deal a hand from a deck without replacement.
fn entropy_bits(deck: i64, hand: i64) -> u32 {
    let bits: f64 = (0..hand.min(128)).map(|drawn| ((deck - drawn) as f64).log2()).sum();
    bits.ceil() as u32
}
