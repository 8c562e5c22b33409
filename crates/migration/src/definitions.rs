//! CustomResourceDefinitions as kube-apiserver keeps them in etcd: in the form of v1beta1, which no API server serves any more.

use object::Object;
use serde_json::{Map, Value, json};

const V1: &str = "apiextensions.k8s.io/v1";
const V1BETA1: &str = "apiextensions.k8s.io/v1beta1";
/// Fields that v1beta1 has once for all versions, with their names in a version.
const SHARED: [(&str, &str); 3] = [
    ("validation", "schema"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
];

pub fn is_definition(object: &Object) -> bool {
    object.kind() == "CustomResourceDefinition" && [V1, V1BETA1].contains(&object.api_version())
}

/// Converts a definition of v1beta1 to v1; others stay as they are.
pub fn to_v1(mut definition: Object) -> Object {
    if !is_definition(&definition) || definition.api_version() != V1BETA1 {
        return definition;
    }
    definition.set(&["apiVersion"], V1);
    let Some(Value::Object(mut spec)) = definition.remove(&["spec"]) else { return definition };
    let shared = SHARED.map(|(field, name)| (name, spec.remove(field)));
    let first = spec.remove("version");
    let mut versions = match spec.remove("versions") {
        Some(Value::Array(versions)) if !versions.is_empty() => versions,
        _ => vec![json!({"name": first, "served": true, "storage": true})],
    };
    for version in versions.iter_mut().filter_map(Value::as_object_mut) {
        for (name, value) in &shared {
            if let Some(value) = value.as_ref().filter(|_| !version.contains_key(*name)) {
                version.insert((*name).to_owned(), value.clone());
            }
        }
        rename_paths(version);
    }
    spec.insert("versions".to_owned(), versions.into());
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) {
        convert_webhook(conversion);
    }
    definition.set(&["spec"], Value::Object(spec));
    definition
}

/// The path of a column is `JSONPath` in v1beta1 and `jsonPath` in v1.
fn rename_paths(version: &mut Map<String, Value>) {
    let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(path) = column.remove("JSONPath") {
            column.insert("jsonPath".to_owned(), path);
        }
    }
}

fn convert_webhook(conversion: &mut Map<String, Value>) {
    let client = conversion.remove("webhookClientConfig");
    let versions = conversion.remove("conversionReviewVersions");
    if conversion.get("strategy").is_some_and(|strategy| strategy == "Webhook") {
        conversion.insert("webhook".to_owned(), json!({"clientConfig": client, "conversionReviewVersions": versions}));
    }
}
