//! Replays writes recorded from kube-apiserver v1.36.4 and compares ownership, conflicts and merged objects.

use std::sync::Arc;

use object::Object;
use object::patch::apply::{ApplyContext, apply, update_managers};
use object::patch::fieldset::{Path, Set};
use object::schema::{self, Schema, SchemaSet, SchemaSetBuilder};
use serde_json::Value;

const RECORDED: &str = include_str!("data/apply_recorded.json");
const BUILTIN: &str = include_str!("data/builtin_schemas.json");
const WIDGET: &str = include_str!("data/widget_schema.json");

fn builtin() -> Arc<SchemaSet> {
    let definitions: Value = serde_json::from_str(BUILTIN).expect("valid JSON");
    let mut builder = SchemaSetBuilder::default();
    for (name, schema) in definitions.as_object().expect("a map") {
        builder.define(name, schema).expect("a schema");
    }
    Arc::new(builder.finish().expect("complete"))
}

fn schema_of(set: &Arc<SchemaSet>, kind: &str) -> Schema {
    let name = match kind {
        "Widget" => {
            return Schema::from_openapi(&serde_json::from_str(WIDGET).expect("valid JSON")).expect("a schema");
        }
        "Deployment" => "io.k8s.api.apps.v1.Deployment".to_owned(),
        core => format!("io.k8s.api.core.v1.{core}"),
    };
    set.named(&name).expect("defined")
}

/// The fields each endpoint resets, as declared by Kubernetes' strategies.
fn reset_fields(kind: &str, subresource: &str) -> Set {
    let paths: &[&[&str]] = match (kind, subresource) {
        ("ConfigMap", _) => &[],
        ("Deployment", "status") => &[&["spec"], &["metadata", "labels"]],
        (_, "status") => &[&["spec"]],
        _ => &[&["status"]],
    };
    paths.iter().map(|path| Path::fields(path)).collect()
}

fn timeless(fields: Option<&Value>) -> Vec<Value> {
    let mut entries = fields.and_then(Value::as_array).cloned().unwrap_or_default();
    for entry in &mut entries {
        entry.as_object_mut().expect("an entry").remove("time");
    }
    entries.sort_by_key(ToString::to_string);
    entries
}

fn times(fields: Option<&Value>) -> Vec<(String, bool)> {
    let entries = fields.and_then(Value::as_array).cloned().unwrap_or_default();
    let mut times: Vec<(String, bool)> =
        entries.iter().map(|e| (format!("{}{}", e["manager"], e["operation"]), e.get("time").is_some())).collect();
    times.sort();
    times
}

const MANAGED: &[&str] = &["metadata", "managedFields"];

fn check(set: &Arc<SchemaSet>, kind: &str, step: &Value) -> Result<(), String> {
    let schema = schema_of(set, kind);
    let text = |key: &str| step[key].as_str().unwrap_or_default();
    let reset = reset_fields(kind, text("subresource"));
    let versions = |_: &str| Some(schema.clone());
    let ctx = ApplyContext {
        schema: &schema,
        versions: &versions,
        subresource: text("subresource"),
        now: "2030-01-01T00:00:00Z".parse().expect("a time"),
        reset_fields: Some(&reset),
    };
    let object = |key: &str| Object::from_value(step[key].clone());
    let (before, response) = (object("before"), object("response").expect("an answer"));
    let code = step["code"].as_u64().expect("a code");
    if text("op") == "apply" {
        let ours =
            apply(ctx, before.as_ref(), &object("body").expect("a body"), text("manager"), step["force"] == true);
        return match ours {
            Err(error) => {
                let (mut status, mut theirs) = (error.to_status().to_value(), step["response"].clone());
                // Their order of causes is that of a hash map.
                for side in [&mut status, &mut theirs] {
                    if let Some(causes) = side.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
                        causes.sort_by_key(ToString::to_string);
                    }
                }
                let same =
                    ["message", "code", "reason", "details"].iter().all(|key| status.get(key) == theirs.get(key));
                if same { Ok(()) } else { Err(format!("refused with {status}, theirs {theirs}")) }
            }
            // Later steps of the server (validation) may reject a successful merge.
            Ok(_) if code == 422 => Ok(()),
            Ok(_) if code >= 300 => Err(format!("accepted, theirs {}", step["response"])),
            Ok(ours) => compare(kind, &schema, ours, &response, true),
        };
    }
    let mut ours = response.clone();
    ours.remove(MANAGED);
    let body = object("body").expect("a body");
    if let Some(sent) = body.get(MANAGED).filter(|_| text("op") == "update" && body.kind() == kind) {
        ours.set(MANAGED, sent.clone());
    }
    update_managers(ctx, before.as_ref(), &mut ours, text("manager"));
    compare(kind, &schema, ours, &response, false)
}

fn compare(kind: &str, schema: &Schema, ours: Object, theirs: &Object, merged: bool) -> Result<(), String> {
    let (a, b) = (timeless(ours.get(MANAGED)), timeless(theirs.get(MANAGED)));
    if a != b {
        return Err(format!("managed fields\n  ours   {}\n  theirs {}", Value::from(a), Value::from(b)));
    }
    let (a, b) = (times(ours.get(MANAGED)), times(theirs.get(MANAGED)));
    if a != b {
        return Err(format!("times\n  ours   {a:?}\n  theirs {b:?}"));
    }
    if !merged {
        return Ok(());
    }
    let mut value = ours.into_value();
    if kind == "Widget" {
        schema::apply_defaults(schema, &mut value);
    }
    let ours = Object::from_value(value).expect("a map");
    let mut paths: Vec<&[&str]> =
        vec![&["metadata", "labels"], &["metadata", "annotations"], &["metadata", "finalizers"], &["data"]];
    if kind == "Widget" {
        paths.push(&["spec"]);
    }
    for path in paths {
        if ours.get(path) != theirs.get(path) {
            return Err(format!("{path:?}\n  ours   {:?}\n  theirs {:?}", ours.get(path), theirs.get(path)));
        }
    }
    Ok(())
}

#[test]
fn every_recorded_write_has_the_result_of_kube_apiserver() {
    let set = builtin();
    let records: Value = serde_json::from_str(RECORDED).expect("valid JSON");
    let mut failures = Vec::new();
    for record in records.as_array().expect("a list") {
        let kind = record["kind"].as_str().expect("a kind");
        for (index, step) in record["steps"].as_array().expect("steps").iter().enumerate() {
            if let Err(why) = check(&set, kind, step) {
                let title = &record["title"];
                failures.push(format!("{title} step {index} ({} by {}): {why}", step["op"], step["manager"]));
            }
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}
