//! The state of a pod as controllers use it: active, ready, available.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use object::{Object, conditions, time};
use serde_json::Value;

/// A pod as its owner knows it, possibly ahead of the mirror.
#[derive(Clone, Debug)]
pub struct Pod {
    pub object: Arc<Object>,
    /// Its deletion was requested and the mirror does not show it yet.
    is_deleting_soon: bool,
}

impl Deref for Pod {
    type Target = Object;

    fn deref(&self) -> &Object {
        &self.object
    }
}

impl Pod {
    pub fn new(object: Arc<Object>) -> Self {
        Self { object, is_deleting_soon: false }
    }

    pub fn deleting(object: Arc<Object>) -> Self {
        Self { object, is_deleting_soon: true }
    }

    pub fn is_deleting(&self) -> bool {
        self.is_deleting_soon || self.object.is_deleting()
    }

    pub fn phase(&self) -> &str {
        self.object.str_at(&["status", "phase"])
    }

    pub fn is_succeeded(&self) -> bool {
        self.phase() == "Succeeded"
    }

    pub fn is_failed(&self) -> bool {
        self.phase() == "Failed"
    }

    /// Reports whether the pod has finished and will not restart.
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase(), "Succeeded" | "Failed")
    }

    /// Reports whether the pod runs or may start.
    pub fn is_active(&self) -> bool {
        !self.is_terminal() && !self.is_deleting()
    }

    /// Reports whether the pod is being deleted and has not finished.
    pub fn is_terminating(&self) -> bool {
        self.is_deleting() && !self.is_terminal()
    }

    pub fn node_name(&self) -> &str {
        self.object.str_at(&["spec", "nodeName"])
    }

    pub fn created(&self) -> Option<Timestamp> {
        time::parse(self.object.creation_timestamp())
    }

    pub fn is_ready(&self) -> bool {
        conditions::is_true(&self.object, "Ready")
    }

    pub fn ready_since(&self) -> Option<Timestamp> {
        conditions::find(&self.object, "Ready").filter(|ready| ready.is_true())?.last_transition()
    }

    /// Reports whether the pod has been ready for `minReadySeconds`.
    pub fn is_available(&self, ready_seconds_min: i64, now: Timestamp) -> bool {
        self.is_ready() && self.available_after(ready_seconds_min, now).is_some_and(|wait| wait.is_zero())
    }

    /// Returns the time until a ready pod counts as available; `None` if unknown.
    pub fn available_after(&self, ready_seconds_min: i64, now: Timestamp) -> Option<Duration> {
        if !self.is_ready() {
            return None;
        }
        if ready_seconds_min == 0 {
            return Some(Duration::ZERO);
        }
        let due = self.ready_since()?.checked_add(SignedDuration::from_secs(ready_seconds_min)).ok()?;
        let left = due.duration_since(now);
        Some(if left.is_positive() { left.unsigned_abs() } else { Duration::ZERO })
    }

    pub fn deletion_cost(&self) -> i64 {
        let cost = self.object.annotation("controller.kubernetes.io/pod-deletion-cost");
        cost.and_then(|cost| cost.parse().ok()).unwrap_or(0)
    }

    pub fn container_statuses(&self) -> &[Value] {
        self.object.items(&["status", "containerStatuses"])
    }

    pub fn init_container_statuses(&self) -> &[Value] {
        self.object.items(&["status", "initContainerStatuses"])
    }

    /// Returns when the pod finished, from the most to the least reliable source.
    pub fn finished(&self) -> Option<Timestamp> {
        let ready = conditions::find(&self.object, "Ready");
        let not_ready = || ready.filter(|ready| ready.is_false())?.last_transition();
        let deleted = || {
            let deadline = time::parse(self.object.deletion_timestamp()?)?;
            let grace = self.object.i64_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
            deadline.checked_sub(SignedDuration::from_secs(grace)).ok()
        };
        self.finished_containers().or_else(not_ready).or_else(deleted).or_else(|| self.created())
    }

    /// Returns the end of the last container if all have finished.
    fn finished_containers(&self) -> Option<Timestamp> {
        let mut last = None;
        for status in self.container_statuses() {
            let end = status["state"]["terminated"]["finishedAt"].as_str().and_then(time::parse)?;
            last = last.max(Some(end));
        }
        last
    }
}

/// Returns the time until the next ready pod becomes available.
pub fn next_availability(pods: &[Pod], ready_seconds_min: i64, now: Timestamp) -> Option<Duration> {
    let waits = pods.iter().filter_map(|pod| pod.available_after(ready_seconds_min, now));
    waits.filter(|wait| !wait.is_zero()).min()
}

/// Keeps only the fields used here: most of a pod's spec matters only to its node, and a member has many pods.
pub fn trim(pod: &mut Object) {
    pod.remove(&["metadata", "managedFields"]);
    let Some(spec) = pod.as_map_mut().get_mut("spec").and_then(Value::as_object_mut) else { return };
    spec.retain(|field, _| {
        matches!(field.as_str(), "nodeName" | "affinity" | "volumes" | "hostname" | "subdomain" | "restartPolicy")
    });
    if let Some(affinity) = spec.get_mut("affinity").and_then(Value::as_object_mut) {
        affinity.retain(|field, _| field == "nodeAffinity");
    }
    if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
        volumes.retain(|volume| volume.get("persistentVolumeClaim").is_some());
    }
    if let Some(status) = pod.as_map_mut().get_mut("status").and_then(Value::as_object_mut) {
        let kept = ["phase", "reason", "conditions", "containerStatuses", "initContainerStatuses"];
        status.retain(|field, _| kept.contains(&field.as_str()));
        for list in ["containerStatuses", "initContainerStatuses"] {
            let statuses = status.get_mut(list).and_then(Value::as_array_mut);
            for status in statuses.into_iter().flatten().filter_map(Value::as_object_mut) {
                status.retain(|field, _| matches!(field.as_str(), "name" | "restartCount" | "state"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(value: Value) -> Pod {
        Pod::new(Arc::new(Object::from_value(value).expect("a map")))
    }

    #[track_caller]
    fn check(status: Value, ready_seconds_min: i64, expected: Option<u64>) {
        let now = "2026-01-01T00:01:00Z".parse().expect("a time");
        let wait = pod(json!({"status": status})).available_after(ready_seconds_min, now);
        assert_eq!(wait, expected.map(Duration::from_secs));
    }

    #[test]
    fn a_pod_is_available_after_min_ready_seconds() {
        let ready = |status| {
            json!({"conditions": [{"type": "Ready", "status": status,
            "lastTransitionTime": "2026-01-01T00:00:40Z"}]})
        };
        check(json!({}), 0, None);
        check(ready("False"), 0, None);
        check(ready("True"), 0, Some(0));
        check(ready("True"), 20, Some(0));
        check(ready("True"), 30, Some(10));
    }

    #[track_caller]
    fn check_finished(pod_value: Value, expected: &str) {
        let finished = pod(pod_value).finished().map(|time| time.to_string());
        assert_eq!(finished.as_deref(), Some(expected));
    }

    #[test]
    fn a_pod_finished_with_its_last_container() {
        let ended = |times: &[&str]| {
            let state = |time: &&str| json!({"state": {"terminated": {"finishedAt": time}}});
            json!({"containerStatuses": times.iter().map(state).collect::<Vec<_>>()})
        };
        let created = json!({"creationTimestamp": "2026-01-01T00:00:00Z"});
        let deleted = json!({"creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-01T00:05:30Z", "deletionGracePeriodSeconds": 30});
        check_finished(json!({"metadata": created}), "2026-01-01T00:00:00Z");
        check_finished(json!({"metadata": deleted}), "2026-01-01T00:05:00Z");
        let status = ended(&["2026-01-01T00:03:00Z", "2026-01-01T00:02:00Z"]);
        check_finished(json!({"metadata": deleted, "status": status}), "2026-01-01T00:03:00Z");
    }

    #[test]
    fn trimming_keeps_the_fields_owners_read() {
        let mut pod = Object::from_value(json!({
            "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "c"}], "nodeName": "n", "volumes": [{"name": "x", "emptyDir": {}},
                {"name": "y", "persistentVolumeClaim": {"claimName": "z"}}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1",
                "containerStatuses": [{"name": "c", "image": "i", "restartCount": 1}]}}))
        .expect("a map");
        trim(&mut pod);
        let expected = json!({"metadata": {"name": "a"},
            "spec": {"nodeName": "n", "volumes": [{"name": "y", "persistentVolumeClaim": {"claimName": "z"}}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 1}]}});
        assert_eq!(pod.into_value(), expected);
    }
}
