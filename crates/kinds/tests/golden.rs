//! Compares our rules with a real kube-apiserver 1.36: every file under `testdata/{core,apps,batch}` is one request
//! and its response.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kinds::strategies::{self, core, metadata, shape};
use kinds::{Strategy, WriteContext};
use object::{FieldError, Object};
use serde_json::Value;

fn context() -> WriteContext {
    WriteContext {
        now: jiff::Timestamp::UNIX_EPOCH,
        user: "admin".to_owned(),
        uid: String::new(),
        groups: Vec::new(),
        extra: Vec::new(),
    }
}

/// The result of our rules for a request: the object as it would be stored, or the errors.
struct RuleResult {
    object: Object,
    errors: Vec<FieldError>,
    warnings: Vec<String>,
}

fn object(case: &Value, key: &str) -> Option<Object> {
    Object::from_value(case.get(key)?.clone())
}

fn answer(case: &Value) -> RuleResult {
    let ctx = context();
    if let Some(mut new) = object(case, "create") {
        new.set(&["metadata", "uid"], "UID");
        let rules = strategies::for_kind(&new.gvk());
        shape::settle(&mut new);
        rules.default(&mut new);
        rules.prepare_create(&mut new, &ctx);
        if rules.counts_generation() {
            new.set_generation(1);
        }
        let namespaced = !new.namespace().is_empty();
        let mut errors = metadata::validate_object_meta(&new, namespaced, |name| rules.validate_name(name));
        errors.extend(rules.validate_create(&new));
        let warnings = rules.warnings(&new, None);
        return RuleResult { object: new, errors, warnings };
    }
    let old = object(case, "stored").expect("a stored object");
    let rules = strategies::for_kind(&old.gvk());
    let (sub, mut new) = ["update", "status", "ephemeralcontainers", "resize"]
        .into_iter()
        .find_map(|sub| Some((sub, object(case, sub)?)))
        .expect("a request");
    shape::settle(&mut new);
    rules.default(&mut new);
    let mut errors = metadata::validate_object_meta_update(&new, &old);
    match sub {
        "update" => errors.extend(update(&*rules, &mut new, &old)),
        "status" => {
            keep(&mut new, &old, &["spec"]);
            rules.prepare_status(&mut new, &old, &ctx);
            errors.extend(rules.validate_status(&new, &old));
        }
        "ephemeralcontainers" => {
            core::pod::prepare_ephemeral_containers(&mut new, &old);
            errors.extend(core::pod::validate_ephemeral_containers(&new, &old));
        }
        _ => {
            core::pod::prepare_resize(&mut new, &old);
            errors.extend(core::pod::validate_resize(&new, &old));
        }
    }
    if sub == "ephemeralcontainers" || sub == "resize" {
        new.set_generation(old.generation() + i64::from(core::pod::spec_changed(&new, &old)));
    }
    let warnings = if sub == "update" { rules.warnings(&new, Some(&old)) } else { Vec::new() };
    RuleResult { object: new, errors, warnings }
}

fn update(rules: &dyn Strategy, new: &mut Object, old: &Object) -> Vec<FieldError> {
    keep(new, old, &["status"]);
    rules.prepare_update(new, old, &context());
    if rules.counts_generation() && desired(new) != desired(old) {
        new.set_generation(old.generation() + 1);
    }
    rules.validate_update(new, old)
}

/// All of an object except its metadata and status.
fn desired(object: &Object) -> Vec<(&String, &Value)> {
    object.as_map().iter().filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status")).collect()
}

/// Restores the part of an object that a request does not concern, as the server does.
fn keep(new: &mut Object, old: &Object, path: &[&str]) {
    match old.get(path) {
        Some(value) => new.set(path, value.clone()),
        None => {
            new.remove(path);
        }
    }
}

/// Removes fields that the server allocates or counts.
fn normalize(mut value: Value) -> Value {
    let is_service = value["kind"] == "Service";
    if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut)
        && is_service
    {
        let headless = spec.get("clusterIP").is_some_and(|ip| ip == "None");
        if !headless {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        spec.remove("healthCheckNodePort");
    }
    value
}

fn differences(path: &str, ours: &Value, theirs: &Value, out: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let (a, b) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
                differences(&format!("{path}.{key}"), a, b, out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}[{index}]"), a, b, out);
            }
        }
        _ if ours == theirs => {}
        _ => out.push(format!("{path}: ours {ours}, theirs {theirs}")),
    }
}

fn cause(field: &str, reason: &str, message: &str) -> String {
    format!("{field}: {} ({reason})", message)
}

/// All differences between our result and the recorded one.
fn check(case: &Value) -> Vec<String> {
    let (ours, expect) = (answer(case), &case["expect"]);
    let mut out = Vec::new();
    let mine: BTreeSet<String> =
        ours.errors.iter().map(|e| cause(e.path.as_str(), e.kind.reason(), &e.body())).collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let causes = expect["errors"].as_array().into_iter().flatten();
    let theirs: BTreeSet<String> =
        causes.map(|c| cause(&text(&c["field"]), &text(&c["reason"]), &text(&c["message"]))).collect();
    out.extend(mine.difference(&theirs).map(|e| format!("only ours: {e}")));
    out.extend(theirs.difference(&mine).map(|e| format!("only theirs: {e}")));
    if expect["object"].is_object() {
        let (mine, theirs) = (normalize(ours.object.into_value()), normalize(expect["object"].clone()));
        differences("", &mine, &theirs, &mut out);
        // The deprecation of a whole kind is known to the registry, not to the rules.
        let theirs = expect["warnings"].as_array().into_iter().flatten().map(text);
        let theirs: BTreeSet<String> = theirs.filter(|w| !w.starts_with("v1 Endpoints is deprecated")).collect();
        let mine: BTreeSet<String> = ours.warnings.into_iter().collect();
        out.extend(mine.difference(&theirs).map(|w| format!("only we warn: {w}")));
        out.extend(theirs.difference(&mine).map(|w| format!("only they warn: {w}")));
    }
    out
}

fn files(directory: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|e| e == "yaml") {
            out.push(path);
        }
    }
}

#[test]
fn every_recorded_response_matches() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut paths = Vec::new();
    ["core", "apps", "batch"].iter().for_each(|group| files(&root.join(group), &mut paths));
    paths.sort();
    assert!(paths.len() > 250, "only {} cases found", paths.len());
    let mut failed = String::new();
    for path in &paths {
        let text = fs::read_to_string(path).expect("a readable case");
        let case: Value = serde_saphyr::from_str(&text).expect("a case in YAML");
        let differences = check(&case);
        if !differences.is_empty() {
            let name = path.strip_prefix(&root).unwrap_or(path).display();
            failed.push_str(&format!("\n{name}\n  {}\n", differences.join("\n  ")));
        }
    }
    assert!(failed.is_empty(), "{failed}");
}

/// Defaults run again on every read and write, so they must be idempotent.
#[test]
fn defaults_are_idempotent() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut paths = Vec::new();
    ["core", "apps", "batch"].iter().for_each(|group| files(&root.join(group), &mut paths));
    for path in &paths {
        let text = fs::read_to_string(path).expect("a readable case");
        let case: Value = serde_saphyr::from_str(&text).expect("a case in YAML");
        let Some(mut once) = object(&case, "create") else { continue };
        let rules = strategies::for_kind(&once.gvk());
        rules.default(&mut once);
        let mut twice = once.clone();
        rules.default(&mut twice);
        assert_eq!(once, twice, "{}", path.display());
    }
}
