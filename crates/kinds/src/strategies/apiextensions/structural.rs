//! Structural schemas: every field is described once outside of `allOf`, `anyOf`, `oneOf` and `not`, which only restrict it.

use object::schema::CompiledPattern;
use object::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::schema_tree::{flag, type_of};
use crate::strategies::fields::{Field, Report};

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// The errors of a schema, in the order of their texts.
pub(super) fn validate(base: &FieldPath, schema: &Value) -> Vec<FieldError> {
    let report = Report::new();
    let root = report.at(base.as_str(), Some(schema));
    check_invariants(root, Level::Root);
    check_completeness(root, Some(schema), base);
    let mut errors = report.finish();
    errors.sort_by_key(ToString::to_string);
    errors
}

fn schema_of(field: Field<'_>) -> &Value {
    field.value().unwrap_or(&Value::Null)
}

fn check_invariants(schema: Field<'_>, level: Level) {
    let Some(value) = schema.value() else { return };
    let items = schema.field("items");
    if type_of(value) == "array" && !items.is_set() {
        items.required("must be specified");
    }
    check_invariants(items, Level::Item);
    schema.field("properties").entries().for_each(|(_, property)| check_invariants(property, Level::Field));
    let additional = schema.field("additionalProperties");
    if additional.is_set() {
        if level == Level::Root {
            additional.forbidden("must not be used at the root");
        }
        if additional.value().is_some_and(Value::is_object) {
            check_invariants(additional, Level::Field);
        }
    }
    check_extensions(schema);
    check_value_rules(schema, is_int_or_string(value.get("anyOf")), is_int_or_string(value["allOf"][0].get("anyOf")));
    check_type(schema, level);
    check_metadata(schema, level);
    let embedded = flag(value, "x-kubernetes-embedded-resource");
    if embedded && additional.is_set() {
        additional.forbidden("must not be used if x-kubernetes-embedded-resource is set");
    }
    let preserves = flag(value, "x-kubernetes-preserve-unknown-fields");
    if embedded && !preserves && schema.field("properties").is_empty() {
        schema.field("properties").required(
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        );
    }
}

/// The only case where types may be in `anyOf`: int-or-string.
fn is_int_or_string(any_of: Option<&Value>) -> bool {
    any_of.is_some_and(|any_of| *any_of == json!([{"type": "integer"}, {"type": "string"}]))
}

fn check_extensions(schema: Field<'_>) {
    let value = schema_of(schema);
    if !flag(value, "x-kubernetes-int-or-string") {
        return;
    }
    for extension in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if flag(value, extension) {
            schema.field(extension).invalid("must be false if x-kubernetes-int-or-string is true");
        }
    }
}

fn check_type(schema: Field<'_>, level: Level) {
    let (value, ty) = (schema_of(schema), schema.field("type"));
    let embedded = flag(value, "x-kubernetes-embedded-resource");
    let free = flag(value, "x-kubernetes-int-or-string") || flag(value, "x-kubernetes-preserve-unknown-fields");
    const EMBEDDED: &str = "must be object if x-kubernetes-embedded-resource is true";
    match ty.text() {
        "" if embedded => ty.required(EMBEDDED),
        other if embedded && other != "object" => ty.invalid(EMBEDDED),
        "" if !free => ty.required(match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        }),
        _ => {}
    }
    if level == Level::Root && !ty.is_empty() && ty.text() != "object" {
        ty.invalid("must be object at the root");
    }
}

/// A definition must not describe the common object fields again.
fn check_metadata(schema: Field<'_>, level: Level) {
    let is_object = level == Level::Root || flag(schema_of(schema), "x-kubernetes-embedded-resource");
    let properties = schema.field("properties");
    for name in ["kind", "apiVersion"] {
        let property = properties.key(name);
        if is_object && property.is_set() && property.field("type").text() != "string" {
            property.field("type").invalid_as(property.field("type").text(), "must be string");
        }
    }
    let metadata = properties.key("metadata");
    if !metadata.is_set() {
        return;
    }
    let ty = metadata.field("type");
    if is_object && ty.text() != "object" {
        ty.invalid_as(ty.text(), "must be object");
    }
    if level == Level::Root && says_too_much(schema_of(metadata)) {
        metadata.forbidden(
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        );
    }
}

fn says_too_much(metadata: &Value) -> bool {
    let Some(map) = metadata.as_object() else { return false };
    map.iter().any(|(key, value)| match (key.as_str(), value) {
        ("type" | "default", _) | (_, Value::Null | Value::Bool(false)) => false,
        ("properties", Value::Object(properties)) => {
            properties.keys().any(|name| name != "name" && name != "generateName")
        }
        (_, Value::String(text)) => !text.is_empty(),
        (_, Value::Array(items)) => !items.is_empty(),
        _ => true,
    })
}

/// Value rules: junctors, which only restrict, and the pattern.
fn check_value_rules(schema: Field<'_>, skip_any_of: bool, skip_first_all_of: bool) {
    if !skip_any_of {
        schema.field("anyOf").items().for_each(|nested| check_nested(nested, false));
    }
    for (index, nested) in schema.field("allOf").items().enumerate() {
        check_nested(nested, skip_first_all_of && index == 0);
    }
    schema.field("oneOf").items().for_each(|nested| check_nested(nested, false));
    check_nested(schema.field("not"), false);
    let pattern = schema.field("pattern");
    if let Some(problem) = pattern_problem(pattern.text()) {
        pattern.invalid(format!("must be a valid regular expression, but isn't: error parsing regexp: {problem}"));
    }
}

/// Go's error for an invalid pattern, as closely as another parser can determine it.
fn pattern_problem(pattern: &str) -> Option<String> {
    let error = CompiledPattern::default().is_match(pattern, "").err()?;
    let problem = error.trim_start_matches("error: ");
    Some(match problem {
        "unclosed character class" => format!("missing closing ]: `{}`", &pattern[pattern.rfind('[').unwrap_or(0)..]),
        "unclosed group" => format!("missing closing ): `{pattern}`"),
        "unopened group" => format!("unexpected ): `{pattern}`"),
        "repetition operator missing expression" => {
            let operator: String = pattern.chars().filter(|c| "*+?".contains(*c)).take(1).collect();
            format!("missing argument to repetition operator: `{operator}`")
        }
        other => format!("{other}: `{pattern}`"),
    })
}

fn check_nested(nested: Field<'_>, skip_any_of: bool) {
    let Some(value) = nested.value() else { return };
    check_value_rules(nested, skip_any_of, false);
    check_nested(nested.field("items"), false);
    nested.field("properties").entries().for_each(|(_, property)| check_nested(property, false));
    const EMPTY: &str = "must be empty to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    const FALSE: &str = "must be false to be structural";
    if !nested.field("type").is_empty() {
        nested.field("type").forbidden(EMPTY);
    }
    if value.get("additionalProperties").is_some_and(|additional| additional.is_object() || *additional == true) {
        nested.field("additionalProperties").forbidden(UNDEFINED);
    }
    for name in ["default", "x-kubernetes-list-type", "x-kubernetes-map-type"] {
        if nested.field(name).is_set() {
            nested.field(name).forbidden(UNDEFINED);
        }
    }
    for name in ["title", "description", "x-kubernetes-list-map-keys", "x-kubernetes-validations"] {
        if !nested.field(name).is_empty() {
            nested.field(name).forbidden(EMPTY);
        }
    }
    let flags = [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ];
    for name in flags {
        if nested.field(name).flag() {
            nested.field(name).forbidden(FALSE);
        }
    }
    let metadata = nested.field("properties").key("metadata");
    if value["properties"].get("metadata").is_some() {
        metadata.forbidden("must not be specified in a nested context");
    }
}

/// Everything a junctor restricts must be described outside of it.
fn check_completeness(rules: Field<'_>, schema: Option<&Value>, path: &FieldPath) {
    check_nested_completeness(rules.field("not"), schema, path);
    for junctor in ["allOf", "anyOf", "oneOf"] {
        rules.field(junctor).items().for_each(|nested| check_nested_completeness(nested, schema, path));
    }
}

fn check_nested_completeness(nested: Field<'_>, schema: Option<&Value>, path: &FieldPath) {
    if !nested.is_set() {
        return;
    }
    let undescribed = |path: FieldPath, nested: Field<'_>| {
        nested.push(FieldError::required(path, format!("because it is defined in {}", nested.field_path())));
    };
    let Some(schema) = schema else { return undescribed(path.clone(), nested) };
    check_completeness(nested, Some(schema), path);
    check_nested_completeness(nested.field("items"), schema.get("items"), &path.child("items"));
    for (name, property) in nested.field("properties").entries() {
        let path = path.child("properties").key(name);
        match schema["properties"].get(name) {
            Some(schema) => check_nested_completeness(property, Some(schema), &path),
            None => undescribed(path, property),
        }
    }
}
