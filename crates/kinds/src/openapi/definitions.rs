//! Selects the definitions a document needs.

use std::collections::{BTreeMap, BTreeSet};

use object::GroupVersion;
use serde_json::{Map, Value, json};

use super::custom::ObjectFields;
use crate::schemas;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Built-in definitions with descriptions, and those of custom kinds; references are bare names.
pub struct Definitions {
    known: Map<String, Value>,
}

impl Definitions {
    pub fn builtin() -> Self {
        Self { known: schemas::described() }
    }

    /// Adds the definitions of custom kinds; `custom` gets the common fields of all objects.
    pub fn with_custom(custom: impl FnOnce(&ObjectFields) -> Vec<(String, Value)>) -> Self {
        let mut known = schemas::described();
        for (name, schema) in custom(&ObjectFields::of(&known)) {
            known.entry(name).or_insert(schema);
        }
        Self { known }
    }

    /// DeleteOptions and WatchEvent are kinds of every group version that uses them.
    pub fn mark_shared(&mut self, gvs: &[GroupVersion]) {
        for kind in ["DeleteOptions", "WatchEvent"] {
            let gvks: Vec<Value> =
                gvs.iter().map(|gv| json!({ "group": gv.group, "version": gv.version, "kind": kind })).collect();
            if let Some(schema) = self.known.get_mut(&format!("{META}.{kind}")) {
                schema["x-kubernetes-group-version-kind"] = Value::Array(gvks);
            }
        }
    }

    /// Takes the named definitions (those used by paths) and everything they refer to.
    pub fn take_used(mut self, mut named: BTreeSet<String>) -> BTreeMap<String, Value> {
        let mut used = BTreeMap::new();
        while let Some(name) = named.pop_first() {
            // Already taken if it was named before.
            if let Some(schema) = self.known.remove(&name) {
                collect_references(&schema, &mut named);
                used.insert(name, schema);
            }
        }
        used
    }
}

fn collect_references(schema: &Value, found: &mut BTreeSet<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        found.insert(name.to_owned());
    }
    for (_, property) in schema["properties"].as_object().into_iter().flatten() {
        collect_references(property, found);
    }
    for inner in ["items", "additionalProperties"].iter().filter_map(|word| schema.get(word)) {
        collect_references(inner, found);
    }
}

/// Calls `visit` for a schema and all schemas inside it, innermost first.
pub fn each_schema(schema: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    if let Some(map) = schema.as_object_mut() {
        for (_, property) in map.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            each_schema(property, visit);
        }
        for word in ["items", "additionalProperties"] {
            if let Some(inner @ Value::Object(_)) = map.get_mut(word) {
                each_schema(inner, visit);
            }
        }
    }
    visit(schema);
}
