//! The schemas of a definition: the supported parts of OpenAPI v3, and the merge behavior of lists and maps.

use std::collections::BTreeSet;

use object::{FieldError, FieldPath, Object};
use serde_json::Value;

use super::schema_tree::{any, flag, is_convertible, schemas, type_of};
use super::{cel_rules, default_values, field_path, form, structural};
use crate::strategies::fields::Field;

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
const RULE_REASONS: &[&str] =
    &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Fields allowed at the root with a status subresource, named as in the message.
const ALLOWED_AT_ROOT: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";
const REFUSED_AT_ROOT: &[&str] = &[
    "id",
    "$schema",
    "$ref",
    "default",
    "maxProperties",
    "minProperties",
    "enum",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
    "additionalProperties",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
    "nullable",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

/// Existing errors of the stored definition are tolerated in updates.
pub(super) struct Tolerance {
    unknown_types: bool,
    unpruned_defaults: bool,
    loose_sets: bool,
    loose_map_keys: bool,
    stored: Vec<Value>,
}

impl Tolerance {
    pub(super) fn of(old: Option<&Object>) -> Self {
        let has = |predicate: &dyn Fn(&Value) -> bool| {
            old.is_some_and(|old| schemas(old).any(|schema| any(schema, predicate)))
        };
        let unknown_type = |schema: &Value| !type_of(schema).is_empty() && !TYPES.contains(&type_of(schema));
        let unpruned = old.is_some_and(|old| {
            schemas(old).filter(|schema| is_convertible(schema)).any(|schema| {
                let errors = default_values::validate(&FieldPath::root(), schema);
                errors.iter().any(|error| error.detail == "must not have unknown fields")
            })
        });
        Self {
            unknown_types: has(&unknown_type),
            unpruned_defaults: unpruned,
            loose_sets: has(&|schema| loose_set_items(schema).is_some()),
            loose_map_keys: has(&has_loose_keys),
            stored: old.into_iter().flat_map(schemas).cloned().collect(),
        }
    }

    /// Reports whether this exact schema is part of the stored definition.
    pub(super) fn is_stored(&self, schema: &Value) -> bool {
        self.stored.contains(schema)
    }
}

/// The position in a schema, as far as it affects the rules.
#[derive(Clone)]
struct SchemaPosition {
    root: bool,
    in_metadata: bool,
    defaults_refused: Option<String>,
}

/// Validates `{openAPIV3Schema: …}`.
pub(super) fn validate(validation: Field<'_>, has_status: bool, tolerance: &Tolerance) {
    let schema = validation.field("openAPIV3Schema");
    let Some(value) = schema.value() else { return };
    let errors_before = validation.report().len();
    if has_status {
        refuse_at_root(validation, schema, value);
    }
    if flag(value, "nullable") {
        validation.field("openAPIV3Schema.nullable").forbidden("nullable cannot be true at the root");
    }
    let path = schema.field_path();
    let convertible = is_convertible(value);
    let mut sound = false;
    if convertible {
        let mut errors = structural::validate(&path, value);
        if errors.is_empty() {
            errors = default_values::validate(&path, value);
            errors.retain(|error| !tolerance.unpruned_defaults || error.detail != "must not have unknown fields");
        }
        sound = errors.is_empty();
        validation.report().extend(errors);
    }
    let place = SchemaPosition { root: true, in_metadata: false, defaults_refused: None };
    let schema_errors_before = validation.report().len();
    validate_schema(schema, &place, tolerance);
    if sound && validation.report().len() == schema_errors_before {
        cel_rules::validate(schema, value, tolerance);
    }
    if !convertible && validation.report().len() == errors_before {
        schema.invalid_as("", "OpenAPIV3Schema 'schema' is not supported");
    }
}

/// The status is cut out of the root schema, so nothing at the root may refer to both.
fn refuse_at_root(validation: Field<'_>, schema: Field<'_>, value: &Value) {
    let is_set = |key: &&&str| match &value[**key] {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    if REFUSED_AT_ROOT.iter().any(|key| is_set(&key)) {
        let detail = format!(
            "only {ALLOWED_AT_ROOT} fields are allowed at the root of the schema if the status subresource is enabled"
        );
        return schema.invalid_shown(&form::shown_schema(value), &detail);
    }
    let ty = type_of(value);
    if !ty.is_empty() && ty != "object" {
        let at = validation.field("openAPIV3Schema.type");
        at.invalid_as(
            ty,
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
        );
    }
}

fn validate_schema(schema: Field<'_>, place: &SchemaPosition, tolerance: &Tolerance) {
    let Some(value) = schema.value() else { return };
    check_supported(schema, value, place, tolerance);
    if flag(value, "uniqueItems") {
        schema
            .field("uniqueItems")
            .forbidden("uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
    }
    validate_parts(schema, value, place, tolerance);
    let preserve = schema.field("x-kubernetes-preserve-unknown-fields");
    if preserve.value() == Some(&Value::Bool(false)) {
        preserve.invalid("must be true or undefined");
    }
    check_map_type(schema);
    check_list_type(schema, value, tolerance);
    if !tolerance.loose_map_keys {
        check_keys(schema, value);
    }
    schema.field("x-kubernetes-validations").items().for_each(|rule| check_rule(rule, value));
}

fn validate_parts(schema: Field<'_>, value: &Value, place: &SchemaPosition, tolerance: &Tolerance) {
    let below = SchemaPosition { root: false, ..place.clone() };
    let additional = schema.field("additionalProperties");
    if additional.is_set() {
        let restricts = additional.value() != Some(&Value::Bool(true));
        if !schema.field("properties").is_empty() && restricts {
            additional.forbidden("additionalProperties and properties are mutual exclusive");
        }
        let mut inner = below.clone();
        if place.in_metadata {
            inner.defaults_refused = Some("inside additionalProperties applying to object metadata".to_owned());
        }
        if additional.value().is_some_and(Value::is_object) {
            validate_schema(additional, &inner, tolerance);
        }
    }
    let is_resource = place.root || flag(value, "x-kubernetes-embedded-resource");
    for (name, property) in schema.field("properties").entries() {
        let mut inner = below.clone();
        if is_resource && matches!(name, "metadata" | "kind" | "apiVersion") {
            inner.in_metadata = true;
            if place.root {
                inner.defaults_refused = Some(format!("in top-level {name}"));
            }
        }
        validate_schema(property, &inner, tolerance);
    }
    validate_schema(schema.field("not"), &below, tolerance);
    for junctor in ["allOf", "oneOf", "anyOf"] {
        schema.field(junctor).items().for_each(|part| validate_schema(part, &below, tolerance));
    }
    let items = schema.field("items");
    match items.value() {
        Some(Value::Array(_)) => items.items().for_each(|item| validate_schema(item, &below, tolerance)),
        _ => validate_schema(items, &below, tolerance),
    }
}

/// The parts of OpenAPI v3 that are not supported.
fn check_supported(schema: Field<'_>, value: &Value, place: &SchemaPosition, tolerance: &Tolerance) {
    let ty = schema.field("type");
    if !tolerance.unknown_types && !ty.is_empty() && !TYPES.contains(&ty.text()) {
        ty.not_supported(TYPES);
    }
    if let Some(reason) = place.defaults_refused.as_ref().filter(|_| schema.field("default").is_set()) {
        schema.field("default").forbidden(format!("must not be set {reason}"));
    }
    for name in ["id", "patternProperties", "definitions"] {
        if !schema.field(name).is_empty() {
            schema.field(name).forbidden(format!("{name} is not supported"));
        }
    }
    for name in ["additionalItems", "dependencies", "$ref"] {
        if schema.field(name).is_set() {
            schema.field(name).forbidden(format!("{name} is not supported"));
        }
    }
    if ty.text() == "null" {
        ty.forbidden("type cannot be set to null, use nullable as an alternative");
    }
    if value["items"].as_array().is_some_and(|items| !items.is_empty()) {
        schema.field("items").forbidden("items must be a schema object and not an array");
    }
    if place.in_metadata && flag(value, "x-kubernetes-embedded-resource") {
        schema.field("x-kubernetes-embedded-resource").forbidden("must not be used inside of resource meta");
    }
}

fn check_map_type(schema: Field<'_>) {
    let map_type = schema.field("x-kubernetes-map-type");
    if !map_type.is_set() {
        return;
    }
    require_type(schema, "object", "must be object if x-kubernetes-map-type is specified");
    map_type.one_of(&["atomic", "granular"]);
}

/// Requires the given type; returns true if it matches.
fn require_type(schema: Field<'_>, wanted: &str, detail: &str) -> bool {
    let ty = schema.field("type");
    match ty.text() {
        "" => ty.required(detail),
        other if other != wanted => ty.invalid(detail),
        _ => return true,
    }
    false
}

fn check_list_type(schema: Field<'_>, value: &Value, tolerance: &Tolerance) {
    let list_type = schema.field("x-kubernetes-list-type");
    let keys = schema.field("x-kubernetes-list-map-keys");
    if list_type.is_set() {
        let is_array = require_type(schema, "array", "must be array if x-kubernetes-list-type is specified");
        if is_array
            && !tolerance.loose_sets
            && let Some(extension) = loose_set_items(value)
        {
            let shown = value["items"].get("x-kubernetes-list-type").cloned().unwrap_or_default();
            let at = schema.field("items").field(extension);
            at.invalid_as(shown, "must be atomic as item of a list with x-kubernetes-list-type=set");
        }
        list_type.one_of(&["atomic", "set", "map"]);
    }
    if !keys.is_empty() && list_type.text() != "map" {
        const DETAIL: &str = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type.is_set() {
            true => list_type.invalid(DETAIL),
            false => list_type.required(DETAIL),
        }
    }
    if list_type.text() == "map" {
        check_map_list(schema, keys);
    }
}

/// Items of a set that could merge, by the wrong or missing extension.
fn loose_set_items(schema: &Value) -> Option<&'static str> {
    if schema["x-kubernetes-list-type"] != "set" {
        return None;
    }
    let items = &schema["items"];
    match type_of(items) {
        "array" if items.get("x-kubernetes-list-type").is_some_and(|ty| *ty != "atomic") => {
            Some("x-kubernetes-list-type")
        }
        "object" if items["x-kubernetes-map-type"] != "atomic" => Some("x-kubernetes-map-type"),
        _ => None,
    }
}

fn check_map_list<'a>(schema: Field<'a>, keys: Field<'a>) {
    keys.require_because("must not be empty if x-kubernetes-list-type is map");
    let items = schema.field("items");
    let Some(item) = items.value() else {
        return items.required("must have a schema if x-kubernetes-list-type is map");
    };
    if item.is_array() {
        return items.invalid("must only have a single schema if x-kubernetes-list-type is map");
    }
    let ty = items.field("type");
    if ty.text() != "object" {
        return ty.invalid_as(ty.text(), "must be object if parent array's x-kubernetes-list-type is map");
    }
    let mut seen = BTreeSet::new();
    for key in keys.texts() {
        match item["properties"].get(key).map(type_of) {
            None => keys.invalid("entries must all be names of item properties"),
            Some("array" | "object") => {
                let at = items.field("properties").key(key).field("type");
                at.invalid_as(type_of(item), "must be a scalar type if parent array's x-kubernetes-list-type is map");
            }
            Some(_) => {}
        }
        if !seen.insert(key) {
            keys.invalid("must not contain duplicate entries");
        }
    }
}

/// Keys of a map list must be required or defaulted, or items would have no identity.
fn check_keys(schema: Field<'_>, value: &Value) {
    let list_type = schema.field("x-kubernetes-list-type");
    let item = &value["items"];
    if !item.is_object() || !matches!(list_type.text(), "set" | "map") {
        return;
    }
    let items = schema.field("items");
    if flag(item, "nullable") {
        items
            .field("nullable")
            .forbidden(format!("cannot be nullable when x-kubernetes-list-type is {}", list_type.text()));
    }
    if list_type.text() != "map" {
        return;
    }
    let required = |key: &str| item["required"].as_array().is_some_and(|required| required.iter().any(|r| r == key));
    for key in schema.field("x-kubernetes-list-map-keys").texts() {
        let property = items.field("properties").key(key);
        let Some(schema) = property.value() else { continue };
        if !required(key) && schema.get("default").is_none() {
            property.field("default").required(
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            );
        }
        if flag(schema, "nullable") {
            property
                .field("nullable")
                .forbidden("this property is in x-kubernetes-list-map-keys, so it cannot be nullable");
        }
    }
}

fn has_loose_keys(schema: &Value) -> bool {
    let report = crate::strategies::fields::Report::new();
    check_keys(report.at("", Some(schema)), schema);
    !report.is_empty()
}

/// The form of one `x-kubernetes-validations` entry; compilation is checked later.
fn check_rule(rule: Field<'_>, schema: &Value) {
    let has_breaks = |text: &str| text.contains(['\n', '\r']);
    let (expression, message) = (rule.field("rule"), rule.field("message"));
    if expression.text().trim().is_empty() {
        expression.required("rule is not specified");
    } else if !message.is_empty() && message.text().trim().is_empty() {
        message.invalid("must be non-empty if specified");
    } else if has_breaks(message.text().trim()) {
        message.invalid("must not contain line breaks");
    } else if has_breaks(expression.text().trim()) && message.text().trim().is_empty() {
        message.required("message must be specified if rule contains line breaks");
    }
    let message_expression = rule.field("messageExpression");
    if !message_expression.is_empty() && message_expression.text().trim().is_empty() {
        message_expression.required("messageExpression must be non-empty if specified");
    }
    rule.field("reason").optional_one_of(RULE_REASONS);
    let path = rule.field("fieldPath");
    if path.is_empty() {
        return;
    }
    if path.text().trim().is_empty() {
        path.invalid("must be non-empty if specified");
    }
    if has_breaks(path.text()) {
        path.invalid("must not contain line breaks");
    }
    if is_convertible(schema) && field_path::resolve(path.text(), schema, true).is_err() {
        path.push(FieldError::invalid(path.field_path(), path.text(), "must be a valid path"));
    }
}
