//! Which fields of the built-in kinds a `fieldSelector` may name. Others are refused, as on a real server.

use object::{GroupVersionKind, Object};
use serde_json::Value;

use crate::kind::SelectableField;

pub fn fields_of(gvk: &GroupVersionKind, namespaced: bool) -> Vec<SelectableField> {
    let mut fields = vec![SelectableField::path("metadata.name")];
    if namespaced {
        fields.push(SelectableField::path("metadata.namespace"));
    }
    let paths = |names: &[&str]| names.iter().map(|name| SelectableField::path(name)).collect::<Vec<_>>();
    fields.extend(match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Pod") => pod_fields(),
        ("", "Node") => vec![SelectableField::function("spec.unschedulable", |o| flag(o, &["spec", "unschedulable"]))],
        ("", "Namespace") => paths(&["status.phase"]),
        ("", "Secret") => paths(&["type"]),
        ("", "Service") => paths(&["spec.clusterIP", "spec.type"]),
        ("", "ReplicationController") => {
            vec![SelectableField::function("status.replicas", |o| count(o, &["status", "replicas"]))]
        }
        ("batch", "Job") => {
            vec![SelectableField::function("status.successful", |o| count(o, &["status", "succeeded"]))]
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => paths(&["spec.signerName"]),
        ("resource.k8s.io", "ResourceSlice") => paths(&["spec.nodeName", "spec.driver"]),
        ("", "Event") => core_event_fields(),
        ("events.k8s.io", "Event") => event_fields(),
        _ => Vec::new(),
    });
    fields
}

fn pod_fields() -> Vec<SelectableField> {
    let mut fields: Vec<SelectableField> = [
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ]
    .iter()
    .map(|name| SelectableField::path(name))
    .collect();
    fields.push(SelectableField::function("spec.hostNetwork", |o| flag(o, &["spec", "hostNetwork"])));
    // The name `spec.nodeName` had before v1; old kubelets still ask by it.
    fields.push(SelectableField::function("spec.host", |o| text(o, &["spec", "nodeName"])));
    fields
}

fn core_event_fields() -> Vec<SelectableField> {
    let mut fields: Vec<SelectableField> = [
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "type",
    ]
    .iter()
    .map(|name| SelectableField::path(name))
    .collect();
    fields.push(SelectableField::function("source", |o| {
        first(text(o, &["source", "component"]), text(o, &["reportingComponent"]))
    }));
    fields
}

/// The same events under their newer names; the stored form is the older one, so both are read.
fn event_fields() -> Vec<SelectableField> {
    macro_rules! regarding {
        ($($part:literal),+) => {
            [$(SelectableField::function(concat!("regarding.", $part), |o| {
                first(text(o, &["regarding", $part]), text(o, &["involvedObject", $part]))
            })),+]
        };
    }
    let mut fields =
        Vec::from(regarding!("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"));
    fields.push(SelectableField::path("reason"));
    fields.push(SelectableField::path("type"));
    fields.push(SelectableField::function("reportingController", |o| {
        first(text(o, &["reportingController"]), text(o, &["reportingComponent"]))
    }));
    fields
}

fn text(object: &Object, path: &[&str]) -> String {
    object.get(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn flag(object: &Object, path: &[&str]) -> String {
    object.get(path).and_then(Value::as_bool).unwrap_or(false).to_string()
}

fn count(object: &Object, path: &[&str]) -> String {
    object.get(path).and_then(Value::as_i64).unwrap_or(0).to_string()
}

fn first(preferred: String, fallback: String) -> String {
    if preferred.is_empty() { fallback } else { preferred }
}
