//! Replays custom resources sent to kube-apiserver v1.36.4: rejections with their messages, and stored objects.

use object::schema::{self, Schema};
use object::{FieldPath, Status};
use serde_json::{Value, json};

const RECORDED: &str = include_str!("data/validation_recorded.json");

/// The errors of the object, or its stored form; and the unknown fields.
fn take_in(schema: &Schema, spec: &Value) -> (Result<Value, Vec<String>>, Vec<String>) {
    let mut object = json!({"apiVersion": "example.com/v1", "kind": "Check", "metadata": {"name": "c"}, "spec": spec});
    if let Err(error) = schema::coerce(schema, &mut object) {
        return (Err(vec![error.to_string()]), Vec::new());
    }
    let unknown = schema::unknown_fields(schema, &object);
    let pruned = schema::prune(schema, &mut object);
    assert_eq!(pruned.len(), unknown.len());
    schema::drop_forbidden_nulls(schema, &mut object);
    schema::apply_defaults(schema, &mut object);
    let errors = schema::validate(schema, &object, &FieldPath::root());
    if errors.is_empty() {
        schema::normalize_numbers(&mut object);
        return (Ok(object["spec"].clone()), unknown);
    }
    let mut texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.sort();
    (Err(texts), unknown)
}

fn check(schema: &Schema, case: &Value) -> Result<(), String> {
    let (ours, unknown) = take_in(schema, &case["spec"]);
    if let Some(strict) = case["strict"].as_str().and_then(|text| text.split_once("strict decoding error: ")) {
        if strict.1 != unknown.join(", ") {
            return Err(format!("unknown fields\n  ours   {unknown:?}\n  theirs {}", strict.1));
        }
    } else if !unknown.is_empty() {
        return Err(format!("unknown fields {unknown:?}, theirs none"));
    }
    match (ours, case["code"].as_u64()) {
        (Ok(ours), Some(201)) if ours == case["result"] => Ok(()),
        (Ok(ours), Some(201)) => Err(format!("stored\n  ours   {ours}\n  theirs {}", case["result"])),
        (Err(errors), Some(422)) => {
            let cause = |cause: &Value| {
                format!("{}: {}", cause["field"].as_str().unwrap_or("?"), cause["message"].as_str().unwrap_or("?"))
            };
            let mut theirs: Vec<String> = case["causes"].as_array().expect("causes").iter().map(cause).collect();
            theirs.sort();
            if errors == theirs { Ok(()) } else { Err(format!("errors\n  ours   {errors:?}\n  theirs {theirs:?}")) }
        }
        (Err(errors), Some(400)) => {
            let theirs = case["message"].as_str().unwrap_or_default();
            if theirs.ends_with(&errors.join(", ")) { Ok(()) } else { Err(format!("{errors:?}, theirs {theirs}")) }
        }
        (ours, code) => Err(format!("{ours:?}, theirs {code:?} {}", case["message"])),
    }
}

#[test]
fn every_recorded_custom_resource_is_validated_as_by_kube_apiserver() {
    let recorded: Value = serde_json::from_str(RECORDED).expect("valid JSON");
    let schema = Schema::from_openapi(&recorded["schema"]).expect("a schema");
    let mut failures = Vec::new();
    for case in recorded["cases"].as_array().expect("cases") {
        if let Err(why) = check(&schema, case) {
            failures.push(format!("{}: {why}", case["spec"]));
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_recorded_update_gets_kube_apiservers_errors() {
    let recorded: Value = serde_json::from_str(include_str!("data/ratchet_recorded.json")).expect("valid JSON");
    let schema = Schema::from_openapi(&recorded["schema"]).expect("a schema");
    let object = |spec: &Value| json!({"apiVersion": "example.com/v1", "kind": "Ratchet", "metadata": {"name": "r"}, "spec": spec});
    for case in recorded["cases"].as_array().expect("cases") {
        let errors =
            schema::validate_update(&schema, &object(&case["new"]), &object(&recorded["old"]), &FieldPath::root());
        let mut ours: Vec<String> = errors.iter().map(|error| format!("{}: {}", error.path, error.body())).collect();
        let cause = |cause: &Value| {
            format!("{}: {}", cause["field"].as_str().unwrap_or("?"), cause["message"].as_str().unwrap_or("?"))
        };
        let mut theirs: Vec<String> = case["causes"].as_array().into_iter().flatten().map(cause).collect();
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "{}", case["new"]);
    }
}

#[test]
fn the_message_lists_all_errors() {
    let schema =
        Schema::from_openapi(&json!({"type": "object", "properties": {"a": {"type": "string"}}})).expect("a schema");
    let errors = schema::validate(&schema, &json!({"a": 1}), &FieldPath::root());
    let status = Status::invalid(&object::GroupKind::new("example.com", "Check"), "c", &errors);
    let text = "Check.example.com \"c\" is invalid: a: Invalid value: \"integer\": a in body must be of type string: \"integer\"";
    assert_eq!(status.message, text);
}
