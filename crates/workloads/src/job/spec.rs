//! The parsed spec of a Job, and its pods.

use object::Object;
use serde_json::{Value, json};

use crate::pods::Pod;
use crate::templates::{GENERATED_PREFIX_MAX, pod_from};

/// Held by every pod of a Job until the Job has counted it.
pub const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const INDEX_IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The controller of Jobs that name none.
const CONTROLLER: &str = "kubernetes.io/job-controller";

#[derive(Clone, Debug)]
pub struct JobSpec {
    pub parallelism: i64,
    pub completions: Option<i64>,
    pub is_indexed: bool,
    pub backoff_limit: i64,
    pub backoff_limit_per_index: Option<i64>,
    pub failed_indexes_max: Option<i64>,
    pub deadline_seconds: Option<i64>,
    pub is_suspended: bool,
    /// Terminating pods are replaced only once they have failed.
    pub replaces_only_failed: bool,
    pub restarts_on_failure: bool,
    pub failure_policy: Option<Vec<Value>>,
    pub success_policy: Option<Vec<Value>>,
}

impl JobSpec {
    pub fn of(job: &Object) -> Self {
        let number = |field| job.i64_at(&["spec", field]);
        let rules = |policy| job.get(&["spec", policy, "rules"]).and_then(Value::as_array).cloned();
        let failure_policy = rules("podFailurePolicy");
        Self {
            parallelism: number("parallelism").unwrap_or(1),
            completions: number("completions"),
            is_indexed: job.str_at(&["spec", "completionMode"]) == "Indexed",
            backoff_limit: number("backoffLimit").unwrap_or(6),
            backoff_limit_per_index: number("backoffLimitPerIndex"),
            failed_indexes_max: number("maxFailedIndexes"),
            deadline_seconds: number("activeDeadlineSeconds"),
            is_suspended: job.bool_at(&["spec", "suspend"]).unwrap_or(false),
            replaces_only_failed: job.str_at(&["spec", "podReplacementPolicy"]) == "Failed" || failure_policy.is_some(),
            restarts_on_failure: job.str_at(&["spec", "template", "spec", "restartPolicy"]) == "OnFailure",
            failure_policy,
            success_policy: rules("successPolicy"),
        }
    }

    /// Returns the number of indexes of an indexed Job.
    pub fn indexes(&self) -> i64 {
        self.completions.unwrap_or(0)
    }

    /// Reports whether the pod failed, or is terminating where that counts as failed.
    pub fn is_failed(&self, pod: &Pod) -> bool {
        pod.is_failed() || (!self.replaces_only_failed && pod.is_deleting() && !pod.is_succeeded())
    }

    /// Returns the valid index of a pod.
    pub fn index_of(&self, pod: &Pod) -> Option<i64> {
        index_of(pod).filter(|index| *index < self.indexes())
    }
}

/// Reports whether another controller manages the Job.
pub fn is_managed_elsewhere(job: &Object) -> bool {
    let manager = job.str_at(&["spec", "managedBy"]);
    !manager.is_empty() && manager != CONTROLLER
}

pub fn is_tracked(pod: &Object) -> bool {
    pod.has_finalizer(TRACKING_FINALIZER)
}

pub fn index_of(pod: &Pod) -> Option<i64> {
    pod.annotation(INDEX).and_then(|index| index.parse().ok()).filter(|index| *index >= 0)
}

/// Returns the earlier failures of the pod's index, counted and ignored.
pub fn failures_of(pod: &Pod) -> (i64, i64) {
    let count = |key| pod.annotation(key).and_then(|count| count.parse::<u32>().ok()).map_or(0, i64::from);
    (count(INDEX_FAILURES), count(INDEX_IGNORED_FAILURES))
}

/// Returns a pod of the Job, with its index if indexed.
pub fn pod_of(job: &Object, index: Option<i64>, failures: Option<(i64, i64)>) -> Object {
    let template = job.get(&["spec", "template"]).cloned().unwrap_or_default();
    let mut pod = pod_from(&template, job);
    pod.add_finalizer(TRACKING_FINALIZER);
    let Some(index) = index else { return pod };
    for list in ["initContainers", "containers"] {
        let mut containers = pod.items(&["spec", list]).to_vec();
        if !containers.is_empty() {
            containers.iter_mut().for_each(add_index_variable);
            pod.set(&["spec", list], containers);
        }
    }
    let text = index.to_string();
    pod.set_annotation(INDEX, &text);
    pod.set_label(INDEX, &text);
    pod.set(&["spec", "hostname"], format!("{}-{index}", job.name()));
    pod.set(&["metadata", "generateName"], name_prefix(job.name(), index));
    if let Some((counted, ignored)) = failures {
        pod.set_annotation(INDEX_FAILURES, &counted.to_string());
        if ignored > 0 {
            pod.set_annotation(INDEX_IGNORED_FAILURES, &ignored.to_string());
        }
    }
    pod
}

fn add_index_variable(container: &mut Value) {
    let mut variables = container["env"].as_array().cloned().unwrap_or_default();
    if variables.iter().all(|variable| variable["name"] != INDEX_VARIABLE) {
        let field = json!({"fieldRef": {"fieldPath": format!("metadata.labels['{INDEX}']")}});
        variables.push(json!({"name": INDEX_VARIABLE, "valueFrom": field}));
        container["env"] = variables.into();
    }
}

/// The index must survive the truncation of generated names.
fn name_prefix(job: &str, index: i64) -> String {
    let suffix = format!("-{index}-");
    let length = job.len().min(GENERATED_PREFIX_MAX - suffix.len());
    format!("{}{suffix}", job.get(..length).unwrap_or(job))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_indexed_pod_carries_its_index() {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x".repeat(63), "uid": "u"},
            "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}}});
        let pod = pod_of(&Object::from_value(job).expect("a map"), Some(12), Some((1, 0)));
        assert_eq!(pod.generate_name(), format!("{}-12-", "x".repeat(54)));
        assert_eq!(pod.label(INDEX), Some("12"));
        assert_eq!(pod.annotation(INDEX_FAILURES), Some("1"));
        assert_eq!(pod.annotation(INDEX_IGNORED_FAILURES), None);
        let variable = &pod.items(&["spec", "containers"])[0]["env"][0];
        let path = &variable["valueFrom"]["fieldRef"]["fieldPath"];
        assert_eq!(path, "metadata.labels['batch.kubernetes.io/job-completion-index']");
        assert!(is_tracked(&pod));
    }
}
