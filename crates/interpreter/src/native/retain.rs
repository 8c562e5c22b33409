//! Fields that a member's object keeps when the template is applied over it.

use api::work::LABEL_RETAIN_REPLICAS;
use object::Object;
use serde_json::Value;

use super::Kind;
use crate::operation::{InterpretError, InterpretResult, Operation};

pub fn retain(kind: Kind, desired: &mut Object, observed: &Object) -> InterpretResult<()> {
    match kind {
        Kind::Deployment => return retain_replicas(desired, observed),
        Kind::Pod => retain_pod(desired, observed),
        Kind::Service => {
            // Allocated by the member and immutable from then on.
            if observed.i64_at(&["spec", "healthCheckNodePort"]).is_some_and(|port| port > 0) {
                keep(desired, observed, &["spec", "healthCheckNodePort"]);
            }
            if !observed.str_at(&["spec", "clusterIP"]).is_empty() {
                keep(desired, observed, &["spec", "clusterIP"]);
            }
        }
        Kind::ServiceAccount => {
            merge_by_name(desired, observed, "secrets");
            merge_by_name(desired, observed, "imagePullSecrets");
        }
        Kind::PersistentVolumeClaim => {
            if !observed.str_at(&["spec", "volumeName"]).is_empty() {
                keep(desired, observed, &["spec", "volumeName"]);
            }
        }
        Kind::PersistentVolume => keep(desired, observed, &["spec", "claimRef"]),
        Kind::Job => {
            keep(desired, observed, &["spec", "selector", "matchLabels"]);
            keep(desired, observed, &["spec", "template", "metadata", "labels"]);
        }
        Kind::Secret => {
            if desired.str_at(&["type"]) == "kubernetes.io/service-account-token" {
                keep(desired, observed, &["data"]);
            }
        }
        _ => return Err(super::no_rule(desired, Operation::Retain)),
    }
    Ok(())
}

/// Takes a field from the member if the member has it.
fn keep(desired: &mut Object, observed: &Object, path: &[&str]) {
    if let Some(value) = observed.get(path) {
        desired.set(path, value.clone());
    }
}

/// Takes a field from the member, or removes it if the member lacks it.
fn copy(desired: &mut Object, observed: &Object, path: &[&str]) {
    match observed.get(path) {
        Some(value) => desired.set(path, value.clone()),
        None => drop(desired.remove(path)),
    }
}

fn retain_replicas(desired: &mut Object, observed: &Object) -> InterpretResult<()> {
    if desired.label(LABEL_RETAIN_REPLICAS) != Some("true") {
        return Ok(());
    }
    let Some(replicas) = observed.i64_at(&["spec", "replicas"]) else {
        let (kind, namespace, name) = (observed.kind(), observed.namespace(), observed.name());
        return Err(InterpretError(format!("failed to get spec.replicas from {kind} {namespace}/{name}")));
    };
    desired.set(&["spec", "replicas"], replicas);
    Ok(())
}

fn retain_pod(desired: &mut Object, observed: &Object) {
    for field in ["nodeName", "serviceAccountName", "volumes"] {
        copy(desired, observed, &["spec", field]);
    }
    for field in ["containers", "initContainers"] {
        let Some(Value::Array(containers)) = desired.as_map_mut().get_mut("spec").and_then(|spec| spec.get_mut(field))
        else {
            continue;
        };
        for theirs in observed.items(&["spec", field]) {
            let Some(Value::Object(ours)) = containers.iter_mut().find(|ours| ours["name"] == theirs["name"]) else {
                continue;
            };
            match theirs.get("volumeMounts") {
                Some(mounts) => drop(ours.insert("volumeMounts".to_owned(), mounts.clone())),
                None => drop(ours.remove("volumeMounts")),
            }
        }
    }
}

/// Ours first, then those only the member has: a token secret created by the member must not be recreated endlessly.
fn merge_by_name(desired: &mut Object, observed: &Object, field: &str) {
    let known = |name: &Value, list: &[Value]| list.iter().any(|secret| secret["name"] == *name);
    let mut merged = desired.items(&[field]).to_vec();
    for secret in observed.items(&[field]) {
        if !known(&secret["name"], &merged) {
            merged.push(secret.clone());
        }
    }
    if !merged.is_empty() {
        desired.set(&[field], merged);
    }
}
