//! ResourceBinding and ClusterResourceBinding between v1alpha1 and v1alpha2, which is the one that is stored.
//!
//! v1alpha1 holds less: what it has no place for is gone when a binding is read in it and written back, as in Karmada.

use object::Object;
use serde_json::{Map, Value, json};

const OLD: &str = "work.karmada.io/v1alpha1";
const NEW: &str = "work.karmada.io/v1alpha2";

/// From v1alpha1 to v1alpha2.
pub fn upgrade(mut object: Object) -> Object {
    object.set(&["apiVersion"], NEW);
    // The schema of v1alpha2 has a default here, but no schema is asked between versions.
    if object.get(&["spec", "conflictResolution"]).is_none() {
        object.set(&["spec", "conflictResolution"], "Abort");
    }
    let Some(reference) = object.as_map_mut().get_mut("spec").and_then(|spec| spec.get_mut("resource")) else {
        return object;
    };
    let Some(reference) = reference.as_object_mut() else { return object };
    let request = reference.remove("resourcePerReplicas");
    let replicas = reference.remove("replicas");
    if let Some(request) = request.filter(|request| request.as_object().is_some_and(|map| !map.is_empty())) {
        object.set(&["spec", "replicaRequirements"], json!({ "resourceRequest": request }));
    }
    if let Some(replicas) = replicas {
        object.set(&["spec", "replicas"], replicas);
    }
    object
}

/// From v1alpha2 to v1alpha1.
pub fn downgrade(mut object: Object) -> Object {
    object.set(&["apiVersion"], OLD);
    let request = object.get(&["spec", "replicaRequirements", "resourceRequest"]).cloned();
    let replicas = object.get(&["spec", "replicas"]).cloned();
    keep(&mut object, &["spec"], &["resource", "clusters"]);
    let clusters = object.as_map_mut().get_mut("spec").and_then(|spec| spec.get_mut("clusters"));
    for cluster in clusters.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
        cluster.remove("components");
    }
    keep(&mut object, &["spec", "resource"], &["apiVersion", "kind", "namespace", "name", "resourceVersion"]);
    if let Some(request) = request {
        object.set(&["spec", "resource", "resourcePerReplicas"], request);
    }
    if let Some(replicas) = replicas {
        object.set(&["spec", "resource", "replicas"], replicas);
    }
    if object.get(&["status"]).is_some() {
        keep(&mut object, &["status"], &["conditions", "aggregatedStatus"]);
        let items = object.as_map_mut().get_mut("status").and_then(|status| status.get_mut("aggregatedStatus"));
        for item in items.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut) {
            item.remove("health");
        }
    }
    object
}

fn keep(object: &mut Object, path: &[&str], fields: &[&str]) {
    let mut map: Option<&mut Map<String, Value>> = Some(object.as_map_mut());
    for step in path {
        map = map.and_then(|map| map.get_mut(*step)).and_then(Value::as_object_mut);
    }
    if let Some(map) = map {
        map.retain(|name, _| fields.contains(&name.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("an object")
    }

    #[test]
    fn fields_of_both_versions_round_trip() {
        let old = json!({
            "apiVersion": OLD, "kind": "ResourceBinding", "metadata": {"name": "nginx-deployment"},
            "spec": {
                "resource": {
                    "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": "nginx",
                    "resourcePerReplicas": {"cpu": "1"}, "replicas": 3,
                },
                "clusters": [{"name": "m1", "replicas": 3}],
            },
            "status": {"aggregatedStatus": [{"clusterName": "m1", "applied": true}]},
        });
        let new = upgrade(object(old.clone()));
        assert_eq!(new.get(&["spec", "replicaRequirements", "resourceRequest", "cpu"]), Some(&json!("1")));
        assert_eq!(new.get(&["spec", "replicas"]), Some(&json!(3)));
        assert_eq!(new.get(&["spec", "conflictResolution"]), Some(&json!("Abort")));
        assert_eq!(new.get(&["spec", "resource", "replicas"]), None);
        assert_eq!(downgrade(new).into_value(), old);
    }

    #[test]
    fn fields_v1alpha1_lacks_are_left_out() {
        let new = object(json!({
            "apiVersion": NEW, "kind": "ResourceBinding",
            "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}, "propagateDeps": true,
                "clusters": [{"name": "m1", "components": [{"name": "a", "replicas": 1}]}]},
            "status": {"schedulerObservedGeneration": 1, "aggregatedStatus": [{"clusterName": "m1", "health": "Healthy"}]},
        }));
        let old = downgrade(new).into_value();
        assert_eq!(
            old["spec"],
            json!({"resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}, "clusters": [{"name": "m1"}]})
        );
        assert_eq!(old["status"], json!({"aggregatedStatus": [{"clusterName": "m1"}]}));
    }
}
