//! The internal form in which kube-apiserver validates a definition, and whose paths its errors use: parts shared by
//! all versions are moved from the versions to the spec.

use object::Object;
use serde_json::{Map, Value};

/// The moved fields, as (name in a version, name in the spec).
const SHARED: [(&str, &str); 4] = [
    ("subresources", "subresources"),
    ("schema", "validation"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

pub(super) fn internal(definition: &Object) -> Object {
    let mut internal = definition.clone();
    let Some(Value::Object(spec)) = internal.as_map_mut().get_mut("spec") else { return internal };
    lift_conversion(spec);
    let Some(Value::Array(mut versions)) = spec.remove("versions") else { return internal };
    if let Some(first) = versions.first().cloned() {
        spec.insert("version".to_owned(), first["name"].clone());
        for (in_version, in_spec) in SHARED {
            let shared = first.get(in_version).filter(|value| !value.is_null());
            let given = |version: &'_ Value| version.get(in_version).filter(|value| !value.is_null()).cloned();
            if versions.iter().all(|version| given(version).as_ref() == shared) {
                versions
                    .iter_mut()
                    .filter_map(Value::as_object_mut)
                    .for_each(|version| drop(version.remove(in_version)));
                if let Some(shared) = shared {
                    spec.insert(in_spec.to_owned(), shared.clone());
                }
            }
        }
    }
    spec.insert("versions".to_owned(), versions.into());
    internal
}

/// `conversion.webhook` becomes two fields of the conversion itself.
fn lift_conversion(spec: &mut Map<String, Value>) {
    let Some(Value::Object(conversion)) = spec.get_mut("conversion") else { return };
    if let Some(Value::Object(mut webhook)) = conversion.remove("webhook") {
        if let Some(client) = webhook.remove("clientConfig") {
            conversion.insert("webhookClientConfig".to_owned(), client);
        }
        if let Some(versions) = webhook.remove("conversionReviewVersions") {
            conversion.insert("conversionReviewVersions".to_owned(), versions);
        }
    }
}

/// The versions as shown in a message: the server's struct with all its fields, in order.
pub(super) fn shown_versions(versions: Option<&Value>) -> String {
    let shown: Vec<String> = versions.and_then(Value::as_array).into_iter().flatten().map(shown_version).collect();
    match versions {
        Some(Value::Array(_)) => format!("[{}]", shown.join(",")),
        _ => "null".to_owned(),
    }
}

fn shown_version(version: &Value) -> String {
    let or = |key: &str, otherwise: Value| version.get(key).cloned().unwrap_or(otherwise);
    let fields = [
        ("Name", or("name", "".into())),
        ("Served", or("served", false.into())),
        ("Storage", or("storage", false.into())),
        ("Deprecated", or("deprecated", false.into())),
        ("DeprecationWarning", or("deprecationWarning", Value::Null)),
        ("Schema", or("schema", Value::Null)),
        ("Subresources", or("subresources", Value::Null)),
        ("AdditionalPrinterColumns", or("additionalPrinterColumns", Value::Null)),
        ("SelectableFields", or("selectableFields", Value::Null)),
    ];
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// The fields of a schema in the server's order, each with its name in a definition and its text if absent.
const SCHEMA_FIELDS: &[(&str, &str, &str)] = &[
    ("ID", "id", "\"\""),
    ("Schema", "$schema", "\"\""),
    ("Ref", "$ref", "null"),
    ("Description", "description", "\"\""),
    ("Type", "type", "\"\""),
    ("Nullable", "nullable", "false"),
    ("Format", "format", "\"\""),
    ("Title", "title", "\"\""),
    ("Default", "default", "null"),
    ("Maximum", "maximum", "null"),
    ("ExclusiveMaximum", "exclusiveMaximum", "false"),
    ("Minimum", "minimum", "null"),
    ("ExclusiveMinimum", "exclusiveMinimum", "false"),
    ("MaxLength", "maxLength", "null"),
    ("MinLength", "minLength", "null"),
    ("Pattern", "pattern", "\"\""),
    ("MaxItems", "maxItems", "null"),
    ("MinItems", "minItems", "null"),
    ("UniqueItems", "uniqueItems", "false"),
    ("MultipleOf", "multipleOf", "null"),
    ("Enum", "enum", "null"),
    ("MaxProperties", "maxProperties", "null"),
    ("MinProperties", "minProperties", "null"),
    ("Required", "required", "null"),
    ("Items", "items", "null"),
    ("AllOf", "allOf", "null"),
    ("OneOf", "oneOf", "null"),
    ("AnyOf", "anyOf", "null"),
    ("Not", "not", "null"),
    ("Properties", "properties", "null"),
    ("AdditionalProperties", "additionalProperties", "null"),
    ("PatternProperties", "patternProperties", "null"),
    ("Dependencies", "dependencies", "null"),
    ("AdditionalItems", "additionalItems", "null"),
    ("Definitions", "definitions", "null"),
    ("ExternalDocs", "externalDocs", "null"),
    ("Example", "example", "null"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", "null"),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", "false"),
    ("XIntOrString", "x-kubernetes-int-or-string", "false"),
    ("XListMapKeys", "x-kubernetes-list-map-keys", "null"),
    ("XListType", "x-kubernetes-list-type", "null"),
    ("XMapType", "x-kubernetes-map-type", "null"),
    ("XValidations", "x-kubernetes-validations", "null"),
];

/// A schema as shown in a message.
pub(super) fn shown_schema(schema: &Value) -> String {
    let shown = |(name, key, absent): &(&str, &str, &str)| {
        let value = match schema.get(*key).filter(|value| !value.is_null()) {
            None => (*absent).to_owned(),
            Some(value) => shown_part(key, value),
        };
        format!("\"{name}\":{value}")
    };
    format!("{{{}}}", SCHEMA_FIELDS.iter().map(shown).collect::<Vec<_>>().join(","))
}

fn shown_part(key: &str, value: &Value) -> String {
    let list = |items: &[Value], show: fn(&Value) -> String| {
        format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(","))
    };
    match (key, value) {
        ("items", Value::Array(items)) => format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", list(items, shown_schema)),
        ("items", item) => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", shown_schema(item)),
        ("additionalProperties" | "additionalItems", Value::Bool(allows)) => {
            format!("{{\"Allows\":{allows},\"Schema\":null}}")
        }
        ("additionalProperties" | "additionalItems", schema) => {
            format!("{{\"Allows\":true,\"Schema\":{}}}", shown_schema(schema))
        }
        ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => list(schemas, shown_schema),
        ("not", schema) => shown_schema(schema),
        ("properties" | "patternProperties" | "definitions", Value::Object(map)) => {
            let entries =
                map.iter().map(|(name, schema)| format!("{}:{}", Value::from(name.as_str()), shown_schema(schema)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        ("x-kubernetes-validations", Value::Array(rules)) => list(rules, shown_rule),
        (_, value) => value.to_string(),
    }
}

/// A CEL rule as shown in a message.
pub(super) fn shown_rule(rule: &Value) -> String {
    let or = |key: &str, otherwise: Value| rule.get(key).cloned().unwrap_or(otherwise);
    let fields = [
        ("Rule", or("rule", "".into())),
        ("Message", or("message", "".into())),
        ("MessageExpression", or("messageExpression", "".into())),
        ("Reason", or("reason", Value::Null)),
        ("FieldPath", or("fieldPath", "".into())),
        ("OptionalOldSelf", or("optionalOldSelf", Value::Null)),
    ];
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}
