//! Turns the schemas of the `k8s-openapi` crate into two compressed documents embedded in the library: one with
//! descriptions (for OpenAPI and `kubectl explain`) and one without, for decoding and merging objects. No upstream
//! text is committed.
#![allow(clippy::print_stdout)] // Build scripts print directives for cargo.

#[path = "build/facts.rs"]
mod facts;
#[path = "build/roots.rs"]
mod roots;

use std::collections::{BTreeMap, hash_map::DefaultHasher};
use std::hash::Hasher;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::{Map, Value, json};

const FACTS: &str = "src/builtin/facts.txt";
/// Inputs of the documents: a change here must change their hashes, which clients cache by.
const SHAPERS: [&str; 3] = ["src/openapi", "src/builtin", "build"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for folder in SHAPERS {
        println!("cargo:rerun-if-changed={folder}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut definitions = collect();
    let facts = facts::read(&fs::read_to_string(FACTS).expect("the table of facts is next to the sources"));
    let defaults = facts::apply(&facts, &mut definitions);
    let described = encode(&definitions);
    let compact = encode(&without_texts(&definitions, &defaults));
    write_compressed(&out.join("described.json.gz"), &described);
    write_compressed(&out.join("compact.json.gz"), &compact);
    fs::write(out.join("fingerprint"), fingerprint(&described)).expect("OUT_DIR is writable");
}

/// All definitions the built-in kinds need, with references as bare names and the source's quirks normalized.
fn collect() -> BTreeMap<String, Value> {
    let mut roots = roots::Roots::default();
    roots::add_all(&mut roots);
    let mut definitions: BTreeMap<String, Value> = roots
        .generator
        .take_definitions(false)
        .into_iter()
        .map(|(name, mut schema)| {
            shorten_references(&mut schema);
            even_out(&name, &mut schema);
            (name, schema)
        })
        .collect();
    for kind in roots.kinds {
        let schema = definitions.get_mut(&kind.definition).expect("every root was collected");
        schema["x-kubernetes-group-version-kind"] = gvk(&kind.group, &kind.version, &kind.kind);
        if let Some(list_kind) = &kind.list_kind {
            let list = list_of(&kind, list_kind, &schema["properties"]);
            let prefix = kind.definition.rsplit_once('.').expect("definition names are dotted").0;
            definitions.insert(format!("{prefix}.{list_kind}"), list);
        }
    }
    definitions.insert(format!("{META}.WatchEvent"), watch_event());
    definitions
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

fn gvk(group: &str, version: &str, kind: &str) -> Value {
    json!([{ "group": group, "kind": kind, "version": version }])
}

/// `k8s-openapi` has one generic list type; the documents have a list definition per kind.
fn list_of(kind: &roots::Root, list_kind: &str, of_item: &Value) -> Value {
    json!({
        "description": format!("{list_kind} is a list of {} objects.", kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": of_item["apiVersion"],
            "kind": of_item["kind"],
            "metadata": { "description": "Resource version and paging of the list.", "$ref": format!("{META}.ListMeta") },
            "items": {
                "description": format!("The {} objects of the list.", kind.kind),
                "type": "array",
                "items": { "$ref": kind.definition },
            },
        },
        "x-kubernetes-group-version-kind": gvk(&kind.group, &kind.version, list_kind),
    })
}

fn watch_event() -> Value {
    json!({
        "description": "One change seen by a watch.",
        "type": "object",
        "required": ["type", "object"],
        "properties": {
            "object": {
                "description": "The object after the change, its last state when it was deleted, or a Status when the watch failed.",
                "$ref": "io.k8s.apimachinery.pkg.runtime.RawExtension",
            },
            "type": { "type": "string" },
        },
    })
}

fn shorten_references(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map.iter_mut() {
                match inner {
                    Value::String(text) if key == "$ref" => {
                        *text = text.rsplit('/').next().expect("split yields at least one part").to_owned();
                    }
                    _ => shorten_references(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(shorten_references),
        _ => {}
    }
}

/// Fixes differences between the source and a server's documents: types with several shapes, and `metadata` marked as
/// required.
fn even_out(name: &str, schema: &mut Value) {
    let map = schema.as_object_mut().expect("a definition is an object");
    let short = name.rsplit('.').next().expect("split yields at least one part");
    match short {
        "Quantity" | "IntOrString" => {
            map.remove("x-kubernetes-int-or-string");
            map.insert("type".into(), json!("string"));
            if short == "IntOrString" {
                map.insert("format".into(), json!("int-or-string"));
            }
        }
        "JSON" => drop(map.remove("type")),
        "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            drop(map.remove("oneOf"))
        }
        _ => {}
    }
    if let Some(Value::Array(required)) = map.get_mut("required") {
        required.retain(|field| field != "metadata");
        if required.is_empty() {
            map.remove("required");
        }
    }
}

/// The schemas for decoding objects: types, structure, merge keywords and real defaults. Required fields and
/// enumerations are omitted, because the strategies check them as in Kubernetes; so are defaults that are only shown.
fn without_texts(definitions: &BTreeMap<String, Value>, defaults: &facts::RealDefaults) -> BTreeMap<String, Value> {
    definitions
        .iter()
        .filter(|(name, _)| !is_list(definitions, name))
        .map(|(name, schema)| {
            let mut schema = schema.clone();
            strip(&mut schema);
            for (field, value) in defaults.get(name).into_iter().flatten() {
                schema["properties"][field]["default"] = value.clone();
            }
            let map = schema.as_object_mut().expect("a definition is an object");
            for (key, value) in decoding_words(name) {
                map.insert(key.into(), value);
            }
            (name.clone(), schema)
        })
        .collect()
}

fn is_list(definitions: &BTreeMap<String, Value>, name: &str) -> bool {
    name.strip_suffix("List").is_some_and(|item| definitions.contains_key(item))
}

fn strip(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    keep_zeros(map);
    for word in ["description", "required", "enum", "default", "x-kubernetes-group-version-kind", "x-kubernetes-unions"]
    {
        map.remove(word);
    }
    for (_, property) in map.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        strip(property);
    }
    for word in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(word) {
            strip(inner);
        }
    }
}

/// Go writes structs and required fields even if they are unset; managed fields are computed against that.
fn keep_zeros(map: &mut Map<String, Value>) {
    let required = map.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| required.as_array().is_some_and(|names| names.iter().any(|known| known == name));
    for (name, property) in map.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        let zeros = [json!({}), json!(""), json!(0), json!(false)];
        let zero = match property.get("default") {
            Some(shown) => zeros.contains(shown).then(|| shown.clone()),
            None => {
                let list_or_map = property["type"] == "array" || property.get("additionalProperties").is_some();
                (list_or_map && is_required(name)).then_some(Value::Null)
            }
        };
        if let (Some(zero), Some(property)) = (zero, property.as_object_mut()) {
            property.insert("x-zero".into(), zero);
        }
    }
}

/// Decoding keywords for types with a custom encoding, which the published documents lack.
fn decoding_words(name: &str) -> Vec<(&'static str, Value)> {
    match name.rsplit('.').next().expect("split yields at least one part") {
        "Quantity" => vec![("x-kubernetes-int-or-string", json!(true)), ("format", json!("quantity"))],
        "IntOrString" => vec![("x-kubernetes-int-or-string", json!(true))],
        "MicroTime" => vec![("format", json!("micro-time"))],
        "RawExtension"
        | "FieldsV1"
        | "Patch"
        | "JSON"
        | "JSONSchemaPropsOrArray"
        | "JSONSchemaPropsOrBool"
        | "JSONSchemaPropsOrStringArray" => vec![("x-kubernetes-preserve-unknown-fields", json!(true))],
        _ => Vec::new(),
    }
}

fn encode(definitions: &BTreeMap<String, Value>) -> Vec<u8> {
    let map: Map<String, Value> = definitions.iter().map(|(name, schema)| (name.clone(), schema.clone())).collect();
    serde_json::to_vec(&map).expect("a tree of JSON values encodes")
}

fn write_compressed(path: &Path, bytes: &[u8]) {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).expect("writing to memory");
    fs::write(path, encoder.finish().expect("writing to memory")).expect("OUT_DIR is writable");
}

fn fingerprint(described: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(described);
    for folder in SHAPERS {
        let mut files: Vec<PathBuf> =
            fs::read_dir(folder).into_iter().flatten().filter_map(|entry| entry.ok().map(|e| e.path())).collect();
        files.sort();
        for file in files.iter().filter(|path| path.is_file()) {
            hasher.write(&fs::read(file).expect("sources are readable"));
        }
    }
    format!("{:016x}", hasher.finish())
}
