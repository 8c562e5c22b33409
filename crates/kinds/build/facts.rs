//! Parses the table of facts and adds its keywords to the definitions.
//!
//! Keywords: `list:atomic|set|map(keys)`, `map:atomic`, `patch:STRATEGY(merge key)`, `enum:a,b`, `unions:JSON`,
//! `required:yes|no` if the source of the schemas differs, and `default:` with a JSON value that a server really
//! sets, `zero` for a default that is only shown, `none` to suppress one. The rule: plain values that are required,
//! or in a list or map, show their zero; so do structs in those positions and under `metadata`, `spec` and `status`,
//! unless their type has a custom encoding.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

pub type FactTable = BTreeMap<String, BTreeMap<String, Vec<String>>>;
/// Definition → field → the default a server sets.
pub type RealDefaults = BTreeMap<String, BTreeMap<String, Value>>;

const PREFIXES: [(&str, &str); 4] = [
    ("api.", "io.k8s.api."),
    ("machinery.", "io.k8s.apimachinery.pkg."),
    ("apiextensions.", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions."),
    ("apiregistration.", "io.k8s.kube-aggregator.pkg.apis.apiregistration."),
];

/// Types with custom marshalling show no zero.
const OWN_FORM: [&str; 4] = ["Quantity", "Time", "MicroTime", "IntOrString"];

pub fn read(text: &str) -> FactTable {
    let mut facts = FactTable::new();
    let mut definition = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match line.strip_prefix("  ") {
            None => definition = full_name(line),
            Some(rest) => {
                let mut words = rest.split(' ').map(str::to_owned);
                let field = words.next().expect("split yields at least one part");
                let field = if field == "." { String::new() } else { field };
                facts.entry(definition.clone()).or_default().insert(field, words.collect());
            }
        }
    }
    facts
}

fn full_name(short: &str) -> String {
    let (alias, full) = PREFIXES
        .iter()
        .find(|(alias, _)| short.starts_with(alias))
        .unwrap_or_else(|| panic!("{short} has no known prefix"));
    format!("{full}{}", &short[alias.len()..])
}

/// Adds every fact and every default of the rule. A fact without a target fails the build.
pub fn apply(facts: &FactTable, definitions: &mut BTreeMap<String, Value>) -> RealDefaults {
    for definition in facts.keys() {
        assert!(definitions.contains_key(definition), "facts name {definition}, which is not defined");
    }
    let mut defaults = RealDefaults::new();
    let none = BTreeMap::new();
    for (name, schema) in definitions {
        let mut walk =
            Walk { facts: facts.get(name).unwrap_or(&none), used: BTreeSet::new(), defaults: BTreeMap::new() };
        walk.visit("", schema, FactTarget::Definition);
        for field in walk.facts.keys() {
            assert!(walk.used.contains(field), "facts name {name} {field:?}, which does not exist");
        }
        defaults.insert(name.clone(), walk.defaults);
    }
    defaults
}

#[derive(Clone, Copy, PartialEq)]
enum FactTarget {
    Definition,
    Required,
    Optional,
    Element,
}

struct Walk<'a> {
    facts: &'a BTreeMap<String, Vec<String>>,
    used: BTreeSet<String>,
    defaults: BTreeMap<String, Value>,
}

impl Walk<'_> {
    fn visit(&mut self, path: &str, schema: &mut Value, place: FactTarget) {
        self.describe(path, schema, place);
        let required = self.correct_required(path, schema);
        for (name, property) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            let inner = join(path, name);
            self.visit(
                &inner,
                property,
                if required.contains(name) { FactTarget::Required } else { FactTarget::Optional },
            );
        }
        for (word, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
            if let Some(inner @ Value::Object(_)) = schema.get_mut(word) {
                self.visit(&format!("{path}{suffix}"), inner, FactTarget::Element);
            }
        }
    }

    fn correct_required(&self, path: &str, schema: &mut Value) -> Vec<String> {
        let mut required: Vec<String> = match &schema["required"] {
            Value::Array(names) => names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            _ => Vec::new(),
        };
        for name in schema["properties"].as_object().into_iter().flat_map(|properties| properties.keys()) {
            let words = self.facts.get(&join(path, name)).map(Vec::as_slice).unwrap_or_default();
            for word in words {
                match word.as_str() {
                    "required:yes" => required.push(name.clone()),
                    "required:no" => required.retain(|other| other != name),
                    _ => {}
                }
            }
        }
        match (&required[..], schema.as_object_mut()) {
            ([], Some(map)) => drop(map.remove("required")),
            (names, Some(map)) => drop(map.insert("required".into(), json!(names))),
            (_, None) => {}
        }
        required
    }

    fn describe(&mut self, path: &str, schema: &mut Value, place: FactTarget) {
        let mut shown = shown_default(path, schema, place);
        if let Some(words) = self.facts.get(path) {
            self.used.insert(path.to_owned());
            for word in words {
                match word.split_once(':') {
                    Some(("default", "none")) => shown = None,
                    Some(("default", "zero")) => shown = Some(zero(schema)),
                    Some(("default", text)) => {
                        let value: Value = serde_json::from_str(text).expect("defaults in facts are JSON");
                        self.defaults.insert(path.to_owned(), value.clone());
                        shown = Some(value);
                    }
                    Some((key, text)) => write_word(schema, key, text),
                    None => panic!("{word} is not a fact"),
                }
            }
        }
        if let Some(default) = shown {
            schema["default"] = default;
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn write_word(schema: &mut Value, key: &str, text: &str) {
    let (head, keys) = match text.split_once('(') {
        Some((head, rest)) if key != "unions" => (head, Some(rest.trim_end_matches(')'))),
        _ => (text, None),
    };
    match key {
        "list" => {
            schema["x-kubernetes-list-type"] = json!(head);
            if let Some(keys) = keys {
                schema["x-kubernetes-list-map-keys"] = keys.split(',').collect();
            }
        }
        "map" => schema["x-kubernetes-map-type"] = json!(head),
        "patch" => {
            schema["x-kubernetes-patch-strategy"] = json!(head);
            if let Some(key) = keys {
                schema["x-kubernetes-patch-merge-key"] = json!(key);
            }
        }
        "enum" => write_enumeration(schema, text),
        // Handled while visiting the parent.
        "required" => {}
        "unions" => schema["x-kubernetes-unions"] = serde_json::from_str(text).expect("unions in facts are JSON"),
        _ => panic!("{key} is not a fact"),
    }
}

fn write_enumeration(schema: &mut Value, text: &str) {
    let values: Vec<String> = text.split(',').map(|value| value.replace('~', " ")).collect();
    if let Some(description) = schema["description"].as_str() {
        let lines: Vec<String> = values.iter().map(|value| format!(" - `{value:?}`")).collect();
        schema["description"] = json!(format!("{description}\n\nPossible enum values:\n{}", lines.join("\n")));
    }
    schema["enum"] = json!(values);
}

fn shown_default(path: &str, schema: &Value, place: FactTarget) -> Option<Value> {
    if place == FactTarget::Definition {
        return None;
    }
    if let Some(target) = schema["$ref"].as_str() {
        let short = target.rsplit('.').next().expect("split yields at least one part");
        let held_by_value = place != FactTarget::Optional || matches!(path, "metadata" | "spec" | "status");
        return (held_by_value && !OWN_FORM.contains(&short)).then(|| json!({}));
    }
    let plain = matches!(schema["type"].as_str(), Some("string" | "integer" | "number" | "boolean"));
    (plain && place != FactTarget::Optional && schema["format"] != "byte").then(|| zero(schema))
}

fn zero(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("string") => json!(""),
        Some("integer" | "number") => json!(0),
        Some("boolean") => json!(false),
        _ => json!({}),
    }
}
