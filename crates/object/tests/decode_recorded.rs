//! Replays bodies kube-apiserver v1.36.4 could not decode, and compares the messages.

use object::schema::{self, SchemaSetBuilder};
use serde_json::{Value, json};

const RECORDED: &str = include_str!("data/decode_recorded.json");
const BUILTIN: &str = include_str!("data/builtin_schemas.json");

#[test]
fn every_recorded_body_is_rejected_with_kube_apiservers_message() {
    let definitions: Value = serde_json::from_str(BUILTIN).expect("valid JSON");
    let mut builder = SchemaSetBuilder::default();
    for (name, schema) in definitions.as_object().expect("a map") {
        builder.define(name, schema).expect("a schema");
    }
    let set = std::sync::Arc::new(builder.finish().expect("complete"));
    let records: Value = serde_json::from_str(RECORDED).expect("valid JSON");
    let mut failures = Vec::new();
    for record in records.as_array().expect("a list") {
        let kind = record["kind"].as_str().expect("a kind");
        let group = if kind == "Deployment" { "apps" } else { "core" };
        let schema = set.named(&format!("io.k8s.api.{group}.v1.{kind}")).expect("defined");
        let ours = schema::decode_check(&schema, &record["object"]).err();
        let theirs = record["message"].as_str().filter(|_| record["code"] == 400);
        let theirs =
            theirs.and_then(|text| text.split_once(&format!("cannot be handled as a {kind}: "))).map(|(_, t)| t);
        // Named string types are not in the published schemas.
        let theirs = theirs.map(|text| text.replace("v1.SecretType", "string").replace("v1.ServiceType", "string"));
        if ours != theirs {
            failures.push(format!("{}\n  ours   {ours:?}\n  theirs {theirs:?}", record["object"]));
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn values_are_formatted_as_in_go() {
    let schema = json!({"type": "object", "properties": {
        "q": {"$ref": "#/io.k8s.apimachinery.pkg.api.resource.Quantity"},
        "t": {"$ref": "#/io.k8s.apimachinery.pkg.apis.meta.v1.Time"},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "s": {"$ref": "#/io.x.S", "default": {}}, "l": {"type": "array", "items": {"type": "string"}}, "n": {"type": "string"},
    }, "required": ["l"]});
    let mut builder = SchemaSetBuilder::default();
    builder.define("io.x.Root", &schema).expect("a schema");
    builder
        .define("io.x.S", &json!({"type": "object", "properties": {"z": {"type": "integer", "default": 0}}}))
        .expect("a schema");
    builder.define("io.k8s.apimachinery.pkg.api.resource.Quantity", &json!({"type": "string"})).expect("a schema");
    builder
        .define("io.k8s.apimachinery.pkg.apis.meta.v1.Time", &json!({"type": "string", "format": "date-time"}))
        .expect("a schema");
    let set = std::sync::Arc::new(builder.finish().expect("complete"));
    let schema = set.named("io.x.Root").expect("defined");
    let mut value = json!({"q": 0.5, "t": "2026-01-01T02:00:00+02:00", "m": {"a": null}, "n": null});
    schema::drop_nulls(&schema, &mut value);
    schema::canonicalize(&schema, &mut value);
    assert_eq!(value, json!({"q": "500m", "t": "2026-01-01T00:00:00Z", "m": {"a": ""}}));
    schema::fill_zeros(&schema, &mut value);
    assert_eq!((&value["s"], &value["l"]), (&json!({"z": 0}), &Value::Null));
}
