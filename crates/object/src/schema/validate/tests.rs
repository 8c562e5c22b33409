//! Error texts of custom-resource validation.

use serde_json::json;

use super::*;

fn messages(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn check(spec_schema: Value, spec: Value, expected: &[&str]) {
    let schema =
        Schema::from_openapi(&json!({"type": "object", "properties": {"spec": spec_schema}})).expect("a schema");
    let found = messages(&validate(&schema, &json!({"spec": spec}), &FieldPath::root()));
    assert_eq!(found, expected, "schema {spec_schema} value {spec}");
}

#[test]
fn types_are_named_in_the_error() {
    let object = |inner: Value| json!({"type": "object", "properties": {"x": inner}});
    let error = |ty: &str, actual: &str| {
        format!("spec.x: Invalid value: \"{actual}\": spec.x in body must be of type {ty}: \"{actual}\"")
    };
    let cases = [
        (json!({"type": "integer"}), json!("a"), error("integer", "string")),
        (json!({"type": "integer"}), json!(1.5), error("integer", "number")),
        (json!({"type": "string"}), json!(1), error("string", "integer")),
        (json!({"type": "boolean"}), json!({}), error("boolean", "object")),
        (json!({"type": "array"}), json!(true), error("array", "boolean")),
        (json!({"type": "object"}), json!([]), error("object", "array")),
        (json!({"type": "string"}), json!(null), error("string", "null")),
        (json!({"x-kubernetes-int-or-string": true}), json!(true), error("integer,string", "boolean")),
    ];
    for (schema, value, expected) in cases {
        check(object(schema), json!({"x": value}), &[&expected]);
    }
    check(object(json!({"type": "integer"})), json!({"x": 2.0}), &[]);
    check(object(json!({"type": "number"})), json!({"x": 2}), &[]);
    check(object(json!({"type": "string", "nullable": true})), json!({"x": null}), &[]);
}

#[test]
fn bounds_and_patterns_are_quoted() {
    let object = |inner: Value| json!({"type": "object", "properties": {"x": inner}});
    let cases = [
        (
            json!({"type": "integer", "minimum": 1}),
            json!(0),
            "spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1",
        ),
        (
            json!({"type": "integer", "maximum": 5, "exclusiveMaximum": true}),
            json!(5),
            "spec.x: Invalid value: 5: spec.x in body should be less than 5",
        ),
        (
            json!({"type": "number", "maximum": 1.5}),
            json!(2.5),
            "spec.x: Invalid value: 2.5: spec.x in body should be less than or equal to 1.5",
        ),
        (
            json!({"type": "integer", "multipleOf": 3}),
            json!(4),
            "spec.x: Invalid value: 4: spec.x in body should be a multiple of 3",
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(3_000_000_000u64),
            "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.x",
        ),
        (
            json!({"type": "string", "pattern": "^a+$"}),
            json!("b"),
            "spec.x: Invalid value: \"b\": spec.x in body should match '^a+$'",
        ),
        (json!({"type": "string", "maxLength": 1}), json!("ab"), "spec.x: Too long: may not be more than 1 bytes"),
        (
            json!({"type": "string", "minLength": 3}),
            json!("ab"),
            "spec.x: Invalid value: \"ab\": spec.x in body should be at least 3 chars long",
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            "spec.x: Unsupported value: \"c\": supported values: \"a\", \"b\"",
        ),
        (
            json!({"type": "integer", "enum": [1, 2]}),
            json!(3),
            "spec.x: Unsupported value: 3: supported values: \"1\", \"2\"",
        ),
        (
            json!({"type": "array", "maxItems": 1, "items": {"type": "string"}}),
            json!(["a", "b"]),
            "spec.x: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "array", "minItems": 1, "items": {"type": "string"}}),
            json!([]),
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 items",
        ),
        (
            json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}}),
            json!(["a", "a"]),
            "spec.x: Invalid value: \"\": spec.x in body shouldn't contain duplicates",
        ),
        (
            json!({"type": "object", "minProperties": 1}),
            json!({}),
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 properties",
        ),
        (
            json!({"type": "object", "maxProperties": 1}),
            json!({"a": 1, "b": 1}),
            "spec.x: Too many: 2: must have at most 1 item",
        ),
        (json!({"type": "object", "required": ["y"]}), json!({}), "spec.x.y: Required value"),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("soon"),
            "spec.x: Invalid value: \"soon\": spec.x in body must be of type date-time: \"soon\"",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!([1]),
            "spec.x[0]: Invalid value: \"integer\": spec.x[0] in body must be of type string: \"integer\"",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"k": 1}),
            "spec.x.k: Invalid value: \"integer\": spec.x.k in body must be of type string: \"integer\"",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            json!(["a", "a", "a"]),
            "spec.x[1]: Duplicate value: \"a\"",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], "items": {"type": "object"}}),
            json!([{"n": 1}, {"n": 1}]),
            "spec.x[1]: Duplicate value: {\"n\":1}",
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            json!({"kind": "A"}),
            "spec.x.apiVersion: Required value",
        ),
    ];
    for (schema, value, expected) in cases {
        check(object(schema), json!({"x": value}), &[expected]);
    }
}

#[test]
fn compositions_name_the_place_and_the_closest_branch() {
    let one_of = json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    check(one_of.clone(), json!({"a": 1}), &[]);
    let none = "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found none valid";
    check(one_of.clone(), json!({}), &[none, "spec.a: Required value"]);
    let both = "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found 2 valid alternatives";
    check(one_of, json!({"a": 1, "b": 1}), &[both]);
    let any = "<nil>: Invalid value: \"\": \"spec\" must validate at least one schema (anyOf)";
    check(json!({"type": "object", "anyOf": [{"required": ["a"]}]}), json!({}), &[any, "spec.a: Required value"]);
    let all = "<nil>: Invalid value: \"\": \"spec\" must validate all the schemas (allOf). None validated";
    check(json!({"type": "object", "allOf": [{"required": ["a"]}]}), json!({}), &["spec.a: Required value", all]);
    let not = "<nil>: Invalid value: \"\": \"spec\" must not validate the schema (not)";
    check(json!({"type": "object", "not": {"required": ["a"]}}), json!({"a": 1}), &[not]);
}

#[test]
fn an_update_is_not_rejected_for_unchanged_fields() {
    let schema = Schema::from_openapi(&json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1},
        "b": {"type": "string", "maxLength": 1},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
            "items": {"type": "object", "properties": {"n": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}}},
    }}))
    .expect("a schema");
    let cases = [
        (json!({"a": "long"}), json!({"a": "long"}), 0),
        (json!({"a": "long"}), json!({"a": "longer"}), 1),
        (json!({"a": "long"}), json!({"a": "long", "b": "new"}), 1),
        (json!({"list": [{"n": "x", "v": 5}]}), json!({"list": [{"n": "y", "v": 1}, {"n": "x", "v": 5}]}), 0),
        (json!({"list": [{"n": "x", "v": 5}]}), json!({"list": [{"n": "x", "v": 6}]}), 1),
        (json!({"list": [{"n": "x"}, {"n": "x"}]}), json!({"list": [{"n": "x"}, {"n": "x"}], "a": "b"}), 0),
    ];
    for (old, new, count) in cases {
        let errors = validate_update(&schema, &new, &old, &FieldPath::root());
        assert_eq!(errors.len(), count, "{old} -> {new}: {:?}", messages(&errors));
    }
}
