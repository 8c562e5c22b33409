//! The parsed spec of a StatefulSet, and its pods and claims.

use object::{GroupVersionKind, Object};
use serde_json::{Map, Value, json};

use crate::templates::{pod_from, scaled};

pub const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
pub const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";
pub const REVISION_LABEL: &str = "controller-revision-hash";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatefulSetStrategy {
    OnDelete,
    /// Updates pods from the partition on, at most `maxUnavailable` at a time.
    Rolling {
        partition: Option<i64>,
        unavailable_max: Option<i64>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatefulSetSpec {
    pub replicas: i64,
    pub start: i64,
    /// One pod after another, each ready before the next.
    pub is_ordered: bool,
    pub ready_seconds_min: i64,
    pub strategy: StatefulSetStrategy,
    pub history_max: i64,
}

impl StatefulSetSpec {
    pub fn of(set: &Object) -> Self {
        let replicas = set.i64_at(&["spec", "replicas"]).unwrap_or(1);
        let rolling = set.get(&["spec", "updateStrategy", "rollingUpdate"]);
        let unavailable_max = rolling.and_then(|rolling| scaled(rolling.get("maxUnavailable"), replicas, false));
        let strategy = match set.str_at(&["spec", "updateStrategy", "type"]) {
            "OnDelete" => StatefulSetStrategy::OnDelete,
            _ => StatefulSetStrategy::Rolling {
                partition: rolling.map(|rolling| rolling["partition"].as_i64().unwrap_or(0)),
                unavailable_max: unavailable_max.map(|max| max.max(1)),
            },
        };
        Self {
            replicas,
            start: set.i64_at(&["spec", "ordinals", "start"]).unwrap_or(0),
            is_ordered: set.str_at(&["spec", "podManagementPolicy"]) != "Parallel",
            ready_seconds_min: set.i64_at(&["spec", "minReadySeconds"]).unwrap_or(0),
            strategy,
            history_max: set.i64_at(&["spec", "revisionHistoryLimit"]).unwrap_or(10),
        }
    }

    pub fn has_ordinal(&self, ordinal: i64) -> bool {
        (self.start..self.start + self.replicas).contains(&ordinal)
    }
}

/// Returns the ordinal of a pod if its name has the form `SET-ORDINAL`.
pub fn ordinal_of(set: &Object, pod: &Object) -> Option<i64> {
    let (parent, ordinal) = pod.name().rsplit_once('-')?;
    let is_number = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
    (parent == set.name() && is_number).then(|| ordinal.parse::<i32>().ok().map(i64::from))?
}

pub fn is_member(set: &Object, pod: &Object) -> bool {
    ordinal_of(set, pod).is_some()
}

pub fn claim_templates(set: &Object) -> &[Value] {
    set.items(&["spec", "volumeClaimTemplates"])
}

pub fn claim_name(set: &Object, template: &Value, ordinal: i64) -> String {
    format!("{}-{}-{ordinal}", template["metadata"]["name"].as_str().unwrap_or_default(), set.name())
}

/// Returns the claim of one pod for one template.
pub fn claim_from(set: &Object, template: &Value, ordinal: i64) -> Object {
    let gvk = GroupVersionKind::new("", "v1", "PersistentVolumeClaim");
    let mut claim = Object::new(&gvk, Some(set.namespace()), &claim_name(set, template, ordinal));
    let mut labels = template["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    if let Some(selected) = set.get(&["spec", "selector", "matchLabels"]).and_then(Value::as_object) {
        labels.extend(selected.clone());
    }
    if !labels.is_empty() {
        claim.set(&["metadata", "labels"], labels);
    }
    if let Some(annotations) = template["metadata"].get("annotations").filter(|annotations| !annotations.is_null()) {
        claim.set(&["metadata", "annotations"], annotations.clone());
    }
    claim.set(&["spec"], template.get("spec").cloned().unwrap_or_else(|| Value::Object(Map::new())));
    claim
}

/// Returns the pod of one ordinal.
pub fn pod_of(set: &Object, template: &Value, revision: &str, ordinal: i64) -> Object {
    let mut pod = pod_from(template, set);
    let name = format!("{}-{ordinal}", set.name());
    pod.set_name(&name);
    identify(&mut pod, ordinal);
    pod.set_label(REVISION_LABEL, revision);
    pod.set(&["spec", "hostname"], name);
    let service = set.str_at(&["spec", "serviceName"]);
    if !service.is_empty() {
        pod.set(&["spec", "subdomain"], service);
    }
    let claimed = claim_templates(set).iter().map(|template| {
        json!({"name": template["metadata"]["name"], "persistentVolumeClaim":
            {"claimName": claim_name(set, template, ordinal)}})
    });
    let mut volumes: Vec<Value> = claimed.collect();
    let is_claimed = |volume: &&Value| volumes.iter().any(|claimed| claimed["name"] == volume["name"]);
    let others: Vec<Value> = pod.items(&["spec", "volumes"]).iter().filter(|v| !is_claimed(v)).cloned().collect();
    volumes.extend(others);
    if !volumes.is_empty() {
        pod.set(&["spec", "volumes"], volumes);
    }
    pod
}

/// Adds the identity labels of a pod.
pub fn identify(pod: &mut Object, ordinal: i64) {
    let name = pod.name().to_owned();
    pod.set_label(POD_NAME_LABEL, &name);
    pod.set_label(POD_INDEX_LABEL, &ordinal.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> Object {
        Object::from_value(json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": "db", "namespace": "a", "uid": "u"},
            "spec": {"serviceName": "dbs", "selector": {"matchLabels": {"app": "db"}},
                "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"x": "y"}},
                    "spec": {"accessModes": ["ReadWriteOnce"]}}]}}))
        .expect("a map")
    }

    #[test]
    fn the_ordinal_is_parsed_from_the_name() {
        let check = |name: &str, expected| {
            let pod = Object::from_value(json!({"metadata": {"name": name}})).expect("a map");
            assert_eq!(ordinal_of(&set(), &pod), expected, "{name}");
        };
        check("db-0", Some(0));
        check("db-12", Some(12));
        check("db", None);
        check("db-x", None);
        check("db-+1", None);
        check("other-1", None);
        check("db-99999999999", None);
    }

    #[test]
    fn a_pod_has_its_name_its_host_name_and_its_claims() {
        let template = json!({"metadata": {"labels": {"app": "db"}}, "spec": {"volumes": [
            {"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]}});
        let pod = pod_of(&set(), &template, "db-abc", 1);
        let expected = json!({"app": "db", "statefulset.kubernetes.io/pod-name": "db-1",
            "apps.kubernetes.io/pod-index": "1", "controller-revision-hash": "db-abc"});
        assert_eq!(pod.get(&["metadata", "labels"]), Some(&expected));
        let expected = json!({"hostname": "db-1", "subdomain": "dbs", "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}, {"name": "tmp", "emptyDir": {}}]});
        assert_eq!(pod.get(&["spec"]), Some(&expected));
        let claim = claim_from(&set(), &claim_templates(&set())[0], 1);
        let expected = json!({"name": "data-db-1", "namespace": "a", "labels": {"x": "y", "app": "db"}});
        assert_eq!(claim.get(&["metadata"]), Some(&expected));
    }
}
