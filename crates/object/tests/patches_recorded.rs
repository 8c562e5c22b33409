//! Replays patches recorded from kube-apiserver v1.36.4: results and errors must be the same.

use std::sync::Arc;

use object::patch::{PatchError, json, merge, strategic, undecodable};
use object::schema::{self, SchemaSet, SchemaSetBuilder};
use serde_json::Value;

const RECORDED: &str = include_str!("data/patches_recorded.json");
const BUILTIN: &str = include_str!("data/builtin_schemas.json");

fn builtin() -> Arc<SchemaSet> {
    let definitions: Value = serde_json::from_str(BUILTIN).expect("valid JSON");
    let mut builder = SchemaSetBuilder::default();
    for (name, schema) in definitions.as_object().expect("a map") {
        builder.define(name, schema).expect("a schema");
    }
    Arc::new(builder.finish().expect("complete"))
}

fn patched(set: &Arc<SchemaSet>, record: &Value) -> Result<Value, PatchError> {
    let mut document = record["before"].clone();
    let name = match record["kind"].as_str() {
        Some("Deployment") => "io.k8s.api.apps.v1.Deployment",
        _ => "io.k8s.api.core.v1.Service",
    };
    let schema = set.named(name).expect("defined");
    match record["type"].as_str() {
        Some("json-patch") => json::apply(&mut document, &record["patch"])?,
        Some("merge-patch") => merge::apply(&mut document, &record["patch"])?,
        _ => strategic::apply(&schema, &mut document, record["patch"].clone())?,
    }
    schema::drop_nulls(&schema, &mut document);
    Ok(document)
}

/// Reports whether theirs is ours plus the server's defaults; empty maps and lists count as absent, as Go omits them.
fn is_within(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let empty =
                |v: &Value| v.as_object().is_some_and(|m| m.is_empty()) || v.as_array().is_some_and(Vec::is_empty);
            a.iter().all(|(key, a)| match b.get(key) {
                Some(b) => is_within(a, b),
                None => empty(a),
            })
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_within(a, b)),
        _ => ours == theirs,
    }
}

fn check(set: &Arc<SchemaSet>, record: &Value) -> Result<(), String> {
    let code = record["code"].as_u64().expect("a code");
    let theirs = &record["response"];
    match patched(set, record) {
        Err(error) => {
            let status = error.to_status().to_value();
            let same = ["message", "code", "reason", "details"].iter().all(|key| status.get(key) == theirs.get(key));
            if same { Ok(()) } else { Err(format!("refused with {status}\n  theirs {theirs}")) }
        }
        Ok(ours) if theirs["message"].as_str().is_some_and(|text| text.starts_with(" \"\" is invalid: patch")) => {
            let name = if record["kind"] == "Deployment" { "apps.v1.Deployment" } else { "core.v1.Service" };
            let schema = set.named(&format!("io.k8s.api.{name}")).expect("defined");
            let why = schema::conversion_check(&schema, &ours).expect_err("does not fit");
            let status = undecodable(object::field::go_value(&record["patch"]), &why);
            if theirs["message"] == status.message { Ok(()) } else { Err(format!("{status}\n  theirs {theirs}")) }
        }
        // Validation, which comes after patching, rejected it.
        Ok(_)
            if code == 422 && theirs["message"] != "the server rejected our request due to an error in our request" =>
        {
            Ok(())
        }
        Ok(_) if code >= 300 => Err(format!("accepted, theirs {theirs}")),
        Ok(ours) => {
            for part in ["spec", "metadata"] {
                let mut ours = ours[part].clone();
                let mut theirs = theirs[part].clone();
                for side in [&mut ours, &mut theirs] {
                    for field in ["managedFields", "resourceVersion", "generation", "unknown"] {
                        side.as_object_mut().expect("a map").remove(field);
                    }
                }
                // Fields that were removed must be missing in both.
                let gone =
                    theirs.as_object().expect("a map").keys().filter(|key| record["before"][part].get(key).is_some());
                let missing: Vec<&String> = gone.filter(|key| ours.get(key).is_none()).collect();
                let defaulted = missing.iter().all(|key| matches!(key.as_str(), "replicas"));
                if !is_within(&ours, &theirs) || !defaulted {
                    return Err(format!("{part}\n  ours   {ours}\n  theirs {theirs}"));
                }
            }
            Ok(())
        }
    }
}

#[test]
fn every_recorded_patch_has_the_result_of_kube_apiserver() {
    let set = builtin();
    let records: Value = serde_json::from_str(RECORDED).expect("valid JSON");
    let mut failures = Vec::new();
    for record in records.as_array().expect("a list") {
        if let Err(why) = check(&set, record) {
            failures.push(format!("{} {}: {why}", record["type"], record["patch"]));
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}
