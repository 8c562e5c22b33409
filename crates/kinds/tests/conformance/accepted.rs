//! Every accepted difference from a real server, with its reason; removed from both sides before comparing.

use serde_json::{Map, Value};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// Definitions whose descriptions are ours: `k8s-openapi`, the source of all others, lacks them.
pub fn own_words(definition: &str) -> bool {
    definition == format!("{META}.WatchEvent")
}

/// - Descriptions of paths, parameters and list kinds are our own.
/// - DeleteOptions and WatchEvent name the served group versions; a real server names all it ever knew.
pub fn v3(mut document: Value) -> Value {
    forget_descriptions(&mut document);
    forget_shared_kinds(&mut document["components"]["schemas"]);
    sort_required(&mut document);
    document
}

/// As for v3, and:
/// - The names of shared parameters are internal to the document: parameters are inlined.
pub fn v2(mut document: Value) -> Value {
    let shared = document["parameters"].take();
    if let Some(map) = document.as_object_mut() {
        map.remove("parameters");
    }
    place_parameters(&mut document["paths"], shared.as_object().expect("shared parameters"));
    forget_descriptions(&mut document);
    forget_shared_kinds(&mut document["definitions"]);
    sort_required(&mut document);
    document
}

/// - Resources of custom kinds have no order; they are sorted.
/// - Kinds a real server still stores in an older version, to allow rollback, have another storage hash.
pub fn resource_list(mut document: Value) -> Value {
    let older = ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "customresourcedefinitions"];
    if let Some(Value::Array(resources)) = document.get_mut("resources") {
        resources.sort_by_key(|resource| resource["name"].to_string());
        for resource in resources.iter_mut().filter(|resource| older.iter().any(|name| resource["name"] == *name)) {
            assert!(resource["storageVersionHash"].take().is_string(), "a stored kind has a hash");
        }
    }
    document
}

fn place_parameters(value: &mut Value, shared: &Map<String, Value>) {
    match value {
        Value::Object(map) => {
            if let Some(name) =
                map.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/parameters/"))
            {
                *value = shared[name].clone();
                return;
            }
            map.values_mut().for_each(|inner| place_parameters(inner, shared));
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| place_parameters(inner, shared)),
        _ => {}
    }
}

fn forget_descriptions(value: &mut Value) {
    match value {
        Value::Object(map) => {
            // A property may itself be called `description`; then it is a schema, not a text.
            if map.get("description").is_some_and(Value::is_string) {
                map.remove("description");
            }
            map.values_mut().for_each(forget_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_descriptions),
        _ => {}
    }
}

fn forget_shared_kinds(definitions: &mut Value) {
    for kind in ["DeleteOptions", "WatchEvent"] {
        if let Some(Value::Object(schema)) = definitions.get_mut(format!("{META}.{kind}")) {
            let named = schema.remove("x-kubernetes-group-version-kind");
            assert!(named.is_some(), "{kind} names the kinds it is");
        }
    }
}

fn sort_required(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Array(names)) = map.get_mut("required") {
                names.sort_by_key(|name| name.to_string());
            }
            map.values_mut().for_each(sort_required);
        }
        Value::Array(items) => items.iter_mut().for_each(sort_required),
        _ => {}
    }
}
