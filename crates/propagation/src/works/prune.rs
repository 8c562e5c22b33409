//! Takes out of a manifest what belongs to one API server only and must not travel.

use object::Object;
use serde_json::Value;

/// Fields that the API server sets, for all kinds.
const SERVER_METADATA: [&str; 10] = [
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
    "ownerReferences",
    "finalizers",
];

const JOB_SELECTOR_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const JOB_TEMPLATE_LABELS: [&str; 4] =
    ["controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name"];

/// Makes a manifest of an object as it is stored. Kinds are identified by their name alone, in any group, as in Karmada.
///
/// A job also loses its time to live: its member would delete it, and it would be created again, endlessly.
pub fn prune(object: &mut Object) {
    prune_server_fields(object);
    if object.kind() == "Job" {
        object.remove(&["spec", "ttlSecondsAfterFinished"]);
    }
}

/// `prune` for an object that comes the other way, from a member to the control plane, where its time to live holds.
pub fn prune_server_fields(object: &mut Object) {
    if let Some(metadata) = object.as_map_mut().get_mut("metadata").and_then(Value::as_object_mut) {
        for field in SERVER_METADATA {
            metadata.remove(field);
        }
    }
    object.remove(&["status"]);
    match object.kind() {
        "Deployment" => {
            remove_annotation(object, "deployment.kubernetes.io/revision");
            remove_annotation(object, "deployment.kubernetes.io/revision-history");
        }
        "Job" => prune_job(object),
        "Secret" => prune_secret(object),
        "ServiceAccount" => prune_service_account(object),
        "Service" => prune_service(object),
        "PersistentVolumeClaim" => remove_annotation(object, "volume.kubernetes.io/selected-node"),
        _ => {}
    }
}

/// The selector and labels a server generates, unless the user chose the selector.
fn prune_job(job: &mut Object) {
    if job.bool_at(&["spec", "manualSelector"]) == Some(true) {
        return;
    }
    for label in JOB_SELECTOR_LABELS {
        job.remove(&["spec", "selector", "matchLabels", label]);
    }
    for label in JOB_TEMPLATE_LABELS {
        job.remove(&["spec", "template", "metadata", "labels", label]);
    }
}

/// A token is good for the server that signed it only.
fn prune_secret(secret: &mut Object) {
    if secret.str_at(&["type"]) == "kubernetes.io/service-account-token" {
        remove_annotation(secret, "kubernetes.io/service-account.uid");
        secret.set(&["data"], Value::Null);
    }
}

fn prune_service_account(account: &mut Object) {
    let prefix = format!("{}-token-", account.name());
    if let Some(secrets) = account.as_map_mut().get_mut("secrets").and_then(Value::as_array_mut) {
        secrets.retain(|secret| !secret["name"].as_str().is_some_and(|name| name.starts_with(&prefix)));
    }
}

/// Addresses are given out by each cluster, but "none" is the user's wish.
fn prune_service(service: &mut Object) {
    let has_address = service.get(&["spec", "clusterIP"]).is_some_and(Value::is_string);
    if has_address && service.str_at(&["spec", "clusterIP"]) != "None" {
        service.remove(&["spec", "clusterIP"]);
        service.remove(&["spec", "clusterIPs"]);
    }
}

fn remove_annotation(object: &mut Object, key: &str) {
    object.remove(&["metadata", "annotations", key]);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(object: Value, expected: Value) {
        let mut object = Object::from_value(object).expect("a map");
        prune(&mut object);
        assert_eq!(object.to_value(), expected);
        let once = object.clone();
        prune(&mut object);
        assert_eq!(object, once, "pruning twice changes nothing");
    }

    #[test]
    fn server_set_fields_are_not_propagated() {
        check(
            json!({"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b", "labels": {"x": "y"},
                "creationTimestamp": "t", "deletionTimestamp": "t", "deletionGracePeriodSeconds": 1, "generation": 2,
                "managedFields": [], "resourceVersion": "3", "selfLink": "/", "uid": "u", "ownerReferences": [{}],
                "finalizers": ["f"]}, "data": {"k": "v"}, "status": {"s": 1}}),
            json!({"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b", "labels": {"x": "y"}},
                "data": {"k": "v"}}),
        );
    }

    #[test]
    fn cluster_specific_fields_are_removed_for_each_kind() {
        check(
            json!({"kind": "Deployment", "metadata": {"annotations": {"deployment.kubernetes.io/revision": "1",
                "deployment.kubernetes.io/revision-history": "2", "kept": "x"}}}),
            json!({"kind": "Deployment", "metadata": {"annotations": {"kept": "x"}}}),
        );
        let generated = json!({"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u", "job-name": "j",
            "batch.kubernetes.io/job-name": "j", "kept": "x"});
        check(
            json!({"kind": "Job", "spec": {"selector": {"matchLabels": {"controller-uid": "u",
                "batch.kubernetes.io/controller-uid": "u", "kept": "x"}},
                "template": {"metadata": {"labels": generated}}, "ttlSecondsAfterFinished": 9}}),
            json!({"kind": "Job", "spec": {"selector": {"matchLabels": {"kept": "x"}},
                "template": {"metadata": {"labels": {"kept": "x"}}}}}),
        );
        check(
            json!({"kind": "Job", "spec": {"manualSelector": true, "ttlSecondsAfterFinished": 9,
                "selector": {"matchLabels": {"controller-uid": "u"}}}}),
            json!({"kind": "Job", "spec": {"manualSelector": true,
                "selector": {"matchLabels": {"controller-uid": "u"}}}}),
        );
        check(
            json!({"kind": "Secret", "type": "kubernetes.io/service-account-token", "data": {"token": "t"},
                "metadata": {"annotations": {"kubernetes.io/service-account.uid": "u", "kept": "x"}}}),
            json!({"kind": "Secret", "type": "kubernetes.io/service-account-token", "data": null,
                "metadata": {"annotations": {"kept": "x"}}}),
        );
        check(
            json!({"kind": "Secret", "type": "Opaque", "data": {"a": "b"}}),
            json!({"kind": "Secret", "type": "Opaque", "data": {"a": "b"}}),
        );
        check(
            json!({"kind": "ServiceAccount", "metadata": {"name": "foo"},
                "secrets": [{"name": "foo-token-1"}, {"name": "foo-token-2"}, {"name": "other"}]}),
            json!({"kind": "ServiceAccount", "metadata": {"name": "foo"}, "secrets": [{"name": "other"}]}),
        );
        check(
            json!({"kind": "Service", "spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "type": "ClusterIP"}}),
            json!({"kind": "Service", "spec": {"type": "ClusterIP"}}),
        );
        check(
            json!({"kind": "Service", "spec": {"clusterIP": "None", "clusterIPs": ["None"]}}),
            json!({"kind": "Service", "spec": {"clusterIP": "None", "clusterIPs": ["None"]}}),
        );
        check(
            json!({"kind": "PersistentVolumeClaim",
                "metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}}),
            json!({"kind": "PersistentVolumeClaim", "metadata": {"annotations": {}}}),
        );
    }
}
