//! The fields `fieldSelector=` supports for each built-in kind, and the error for any other.

use object::field::go_quote;
use object::{GroupVersionKind, Object};

use crate::kind::SelectableField;

/// Every selectable field of the kind, including `metadata.name` and `metadata.namespace` if supported.
pub fn fields_of(gvk: &GroupVersionKind) -> Vec<SelectableField> {
    let (paths, functions) = special(gvk).unwrap_or((&["metadata.name", "metadata.namespace"], &[]));
    let functions = functions.iter().map(|(name, read)| SelectableField::function(name, *read));
    paths.iter().map(|path| SelectableField::path(path)).chain(functions).collect()
}

/// kube-apiserver's error for an unsupported field, for built-in and custom kinds.
pub fn unsupported(gvk: &GroupVersionKind, field: &str) -> String {
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("batch", "Job") => format!("field label {} not supported for Job", go_quote(field)),
        ("resource.k8s.io", "ResourceSlice") => format!("field label not supported for {gvk}: {field}"),
        _ if special(gvk).is_some() || crate::builtin::priority(&gvk.group_version()).is_none() => {
            format!("field label not supported: {field}")
        }
        _ => {
            let quoted = go_quote(field);
            format!("{quoted} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }
    }
}

/// Returns the name of the field in stored objects if the served version has another: events.k8s.io renamed fields of events.
pub fn stored_name(gvk: &GroupVersionKind, field: &str) -> Option<String> {
    match (gvk.group.as_str(), gvk.kind.as_str(), field) {
        ("events.k8s.io", "Event", "reportingController") => Some("reportingComponent".to_owned()),
        ("events.k8s.io", "Event", _) => field.strip_prefix("regarding.").map(|key| format!("involvedObject.{key}")),
        _ => None,
    }
}

type Functions = &'static [(&'static str, fn(&Object) -> String)];

/// Kinds with their own list. It is exhaustive: a node, for example, has no selectable namespace.
fn special(gvk: &GroupVersionKind) -> Option<(&'static [&'static str], Functions)> {
    Some(match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Pod") => (POD, POD_COMPUTED),
        ("", "Node") => (&["metadata.name"], &[("spec.unschedulable", |node| flag(node, "unschedulable"))]),
        ("", "Namespace") => (&["metadata.name", "status.phase"], &[]),
        ("", "Secret") => (&["metadata.name", "metadata.namespace", "type"], &[]),
        ("", "Service") => (&["metadata.name", "metadata.namespace", "spec.clusterIP", "spec.type"], &[]),
        ("", "ReplicationController") => {
            (&["metadata.name", "metadata.namespace"], &[("status.replicas", |rc| count(rc, "replicas"))])
        }
        ("", "Event") => (EVENT, EVENT_COMPUTED),
        ("events.k8s.io", "Event") => (NEW_EVENT, NEW_EVENT_COMPUTED),
        ("batch", "Job") => {
            (&["metadata.name", "metadata.namespace"], &[("status.successful", |job| count(job, "succeeded"))])
        }
        ("certificates.k8s.io", "CertificateSigningRequest" | "ClusterTrustBundle") => {
            (&["metadata.name", "spec.signerName"], &[])
        }
        ("certificates.k8s.io", "PodCertificateRequest") => {
            (&["metadata.name", "metadata.namespace", "spec.signerName", "spec.podName", "spec.nodeName"], &[])
        }
        ("resource.k8s.io", "ResourceSlice") => (&["metadata.name", "spec.nodeName", "spec.driver"], &[]),
        _ => return None,
    })
}

const POD: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.nominatedNodeName",
];

const POD_COMPUTED: Functions = &[
    ("spec.hostNetwork", |pod| flag(pod, "hostNetwork")),
    ("status.podIP", |pod| {
        let first = pod.items(&["status", "podIPs"]).first().and_then(|ip| ip["ip"].as_str());
        first.unwrap_or_default().to_owned()
    }),
    // Accepted, but never matches: the server has no single text for a list of addresses.
    ("status.podIPs", |_| String::new()),
    // The name of `spec.nodeName` before v1, still used by old clients.
    ("spec.host", |pod| pod.str_at(&["spec", "nodeName"]).to_owned()),
];

const EVENT: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
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
];

const EVENT_COMPUTED: Functions = &[("source", source)];

const NEW_EVENT: &[&str] = &["metadata.name", "metadata.namespace", "reason", "type"];

/// The fields events.k8s.io renamed, read from either form of the object.
const NEW_EVENT_COMPUTED: Functions = &[
    ("regarding.kind", |event| regarding(event, "kind")),
    ("regarding.namespace", |event| regarding(event, "namespace")),
    ("regarding.name", |event| regarding(event, "name")),
    ("regarding.uid", |event| regarding(event, "uid")),
    ("regarding.apiVersion", |event| regarding(event, "apiVersion")),
    ("regarding.resourceVersion", |event| regarding(event, "resourceVersion")),
    ("regarding.fieldPath", |event| regarding(event, "fieldPath")),
    ("reportingController", reporting_controller),
    ("source", source),
];

fn reporting_controller(event: &Object) -> String {
    first_of(event, [&["reportingController"], &["reportingComponent"]])
}

/// The component of an event; events of the newer API have only a controller.
fn source(event: &Object) -> String {
    match first_of(event, [&["source", "component"], &["deprecatedSource", "component"]]).as_str() {
        "" => reporting_controller(event),
        component => component.to_owned(),
    }
}

fn regarding(event: &Object, key: &str) -> String {
    first_of(event, [&["regarding", key], &["involvedObject", key]])
}

fn first_of(event: &Object, paths: [&[&str]; 2]) -> String {
    let texts = paths.map(|path| event.str_at(path));
    texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
}

fn flag(object: &Object, field: &str) -> String {
    object.bool_at(&["spec", field]).unwrap_or(false).to_string()
}

fn count(object: &Object, field: &str) -> String {
    object.i64_at(&["status", field]).unwrap_or(0).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(gvk: (&str, &str, &str), object: serde_json::Value, expected: &[(&str, &str)]) {
        let gvk = GroupVersionKind::new(gvk.0, gvk.1, gvk.2);
        let fields = fields_of(&gvk);
        let object = Object::from_value(object).expect("a map");
        for (name, value) in expected {
            let field = fields.iter().find(|f| f.name == *name).unwrap_or_else(|| panic!("{gvk}: no field {name}"));
            assert_eq!(field.value(&object), *value, "{gvk} {name}");
        }
    }

    #[test]
    fn fields_read_as_the_server_compares_them() {
        let pod =
            json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"podIPs": [{"ip": "10.0.0.1"}]}});
        let expected =
            [("metadata.name", "p"), ("spec.hostNetwork", "false"), ("status.podIP", "10.0.0.1"), ("spec.host", "n")];
        check(("", "v1", "Pod"), pod, &expected);
        check(("", "v1", "Node"), json!({"spec": {"unschedulable": true}}), &[("spec.unschedulable", "true")]);
        check(("batch", "v1", "Job"), json!({"status": {"succeeded": 3}}), &[("status.successful", "3")]);
        let event = json!({"involvedObject": {"kind": "Pod"}, "reportingComponent": "kubelet"});
        check(("", "v1", "Event"), event.clone(), &[("involvedObject.kind", "Pod"), ("source", "kubelet")]);
        let renamed = [("regarding.kind", "Pod"), ("reportingController", "kubelet"), ("source", "kubelet")];
        check(("events.k8s.io", "v1", "Event"), event, &renamed);
        check(("apps", "v1", "Deployment"), json!({"metadata": {"namespace": "x"}}), &[("metadata.namespace", "x")]);
    }

    /// kube-apiserver's `AddFieldLabelConversionsForEvent` (pkg/apis/events/v1/conversion.go).
    #[test]
    fn fields_of_events_have_their_stored_names() {
        let gvk = |group: &str| GroupVersionKind::new(group, "v1", "Event");
        let stored = fields_of(&gvk(""));
        for field in fields_of(&gvk("events.k8s.io")) {
            let name = stored_name(&gvk("events.k8s.io"), &field.name).unwrap_or(field.name);
            assert!(stored.iter().any(|field| field.name == name), "{name}");
        }
        let name = |group: &str, field: &str| stored_name(&gvk(group), field);
        assert_eq!(name("events.k8s.io", "regarding.uid").as_deref(), Some("involvedObject.uid"));
        assert_eq!(name("events.k8s.io", "reportingController").as_deref(), Some("reportingComponent"));
        assert_eq!(name("events.k8s.io", "type"), None);
        assert_eq!(name("example.com", "regarding.name"), None);
    }

    #[test]
    fn other_fields_are_rejected_with_the_servers_message() {
        let cases = [
            (("example.com", "v1", "Widget"), "field label not supported: metadata.namespace"),
            (("", "v1", "Node"), "field label not supported: metadata.namespace"),
            (("batch", "v1", "Job"), "field label \"metadata.namespace\" not supported for Job"),
            (
                ("resource.k8s.io", "v1", "ResourceSlice"),
                "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: metadata.namespace",
            ),
            (
                ("apps", "v1", "ReplicaSet"),
                "\"metadata.namespace\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
        ];
        for ((group, version, kind), expected) in cases {
            assert_eq!(unsupported(&GroupVersionKind::new(group, version, kind), "metadata.namespace"), expected);
        }
    }
}
