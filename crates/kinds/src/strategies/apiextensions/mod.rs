//! CustomResourceDefinitions.

mod cel_rules;
mod default_values;
mod field_path;
mod form;
mod openapi;
mod schema_tree;
mod spec;
mod structural;

use std::sync::Arc;

use object::field::go_quote;
use object::{FieldError, FieldPath, Object, names};
use serde_json::{Value, json};

use crate::strategies::defaults::{map_at, map_at_path, map_or_new, set_absent, set_empty_str};
use crate::strategies::fields::Report;
use crate::strategy::{Strategy, WriteContext};

const APPROVAL: &str = "api-approved.kubernetes.io";

pub(super) fn for_kind(kind: &str) -> Option<Arc<dyn Strategy>> {
    match kind {
        "CustomResourceDefinition" => Some(Arc::new(Definition)),
        _ => None,
    }
}

struct Definition;

impl Strategy for Definition {
    fn default(&self, definition: &mut Object) {
        let map = definition.as_map_mut();
        if let Some(spec) = map_or_new(map, "spec") {
            if let Some(names) = map_or_new(spec, "names") {
                let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
                if !kind.is_empty() {
                    set_empty_str(names, "singular", &kind.to_lowercase());
                    set_empty_str(names, "listKind", &format!("{kind}List"));
                }
            }
            set_absent(spec, "conversion", json!({"strategy": "None"}));
            if let Some(service) = map_at_path(spec, &["conversion", "webhook", "clientConfig", "service"]) {
                set_absent(service, "port", 443);
            }
            // Pruning is the default in v1, so it is omitted.
            if spec.get("preserveUnknownFields") == Some(&Value::Bool(false)) {
                spec.remove("preserveUnknownFields");
            }
        }
        show_status(definition);
        record_storage_version(definition, |stored| stored.is_empty());
    }

    fn prepare_create(&self, definition: &mut Object, _ctx: &WriteContext) {
        definition.remove(&["status"]);
        show_status(definition);
        record_storage_version(definition, |_| true);
    }

    fn prepare_update(&self, new: &mut Object, old: &Object, _ctx: &WriteContext) {
        match old.get(&["status"]) {
            Some(status) => new.set(&["status"], status.clone()),
            None => drop(new.remove(&["status"])),
        }
        record_storage_version(new, |_| true);
    }

    fn validate_create(&self, definition: &Object) -> Vec<FieldError> {
        let mut errors = validate_full_name(definition);
        errors.extend(spec::validate(definition, None));
        errors.extend(validate_approval(definition, None));
        errors
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = spec::validate(new, Some(old));
        errors.extend(validate_approval(new, Some(old)));
        errors
    }

    fn validate_status(&self, new: &Object, _old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        spec::validate_names(report.field(new, "status").field("acceptedNames"));
        report.finish()
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Vec<String> {
        let known = old.map(schema_tree::unrecognized_formats).unwrap_or_default();
        let formats = schema_tree::unrecognized_formats(new).into_iter().filter(|format| !known.contains(format));
        formats.map(|format| format!("unrecognized format {}", go_quote(&format))).collect()
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

/// The parts of the status that are always shown.
fn show_status(definition: &mut Object) {
    let Some(status) = map_or_new(definition.as_map_mut(), "status") else { return };
    set_absent(status, "acceptedNames", json!({"kind": "", "plural": ""}));
    if let Some(names) = map_at(status, "acceptedNames") {
        set_absent(names, "kind", "");
        set_absent(names, "plural", "");
    }
    status.entry("conditions").or_insert(Value::Null);
    status.entry("storedVersions").or_insert(Value::Null);
}

/// Records the storage version before objects are written in it, so that the version is not removed while they exist.
fn record_storage_version(definition: &mut Object, when: fn(&[Value]) -> bool) {
    let mut stored = definition.items(&["status", "storedVersions"]).to_vec();
    let storage = definition.items(&["spec", "versions"]).iter().find(|v| v["storage"] == true);
    let Some(name) = storage.map(|version| version["name"].clone()) else { return };
    if when(&stored) && !stored.contains(&name) {
        stored.push(name);
        definition.set(&["status", "storedVersions"], stored);
    }
}

fn validate_full_name(definition: &Object) -> Vec<FieldError> {
    let wanted =
        format!("{}.{}", definition.str_at(&["spec", "names", "plural"]), definition.str_at(&["spec", "group"]));
    if definition.name() == wanted {
        return Vec::new();
    }
    let detail = "must be spec.names.plural+\".\"+spec.group";
    vec![FieldError::invalid(FieldPath::new("metadata.name"), definition.name(), detail)]
}

/// Kinds in Kubernetes' own groups need an approval annotation.
fn validate_approval(new: &Object, old: Option<&Object>) -> Vec<FieldError> {
    let group = new.str_at(&["spec", "group"]);
    let protected = ["k8s.io", "kubernetes.io"];
    if !protected.iter().any(|domain| group == *domain || group.ends_with(&format!(".{domain}"))) {
        return Vec::new();
    }
    let state = |object: &Object| match object.annotation(APPROVAL).unwrap_or_default() {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Given,
        text if text.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty()) => {
            Approval::Given
        }
        _ => Approval::Invalid,
    };
    let now = state(new);
    if old.is_some_and(|old| state(old) == now) {
        return Vec::new();
    }
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let path = FieldPath::new("metadata.annotations").key(APPROVAL);
    match now {
        Approval::Given => Vec::new(),
        Approval::Missing => {
            vec![FieldError::required(
                path,
                format!("protected groups must have approval annotation \"{APPROVAL}\", {SEE}"),
            )]
        }
        Approval::Invalid => vec![FieldError::invalid(
            path,
            new.annotation(APPROVAL).unwrap_or_default(),
            format!(
                "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a reason starting with \"unapproved\", {SEE}"
            ),
        )],
    }
}

#[derive(PartialEq)]
enum Approval {
    Missing,
    Given,
    Invalid,
}

/// Problems of a DNS label joined to one text, as definitions report them.
fn label_problems(text: &str) -> Option<String> {
    let problems = names::dns1035_label(text);
    (!problems.is_empty()).then(|| problems.join(","))
}
