//! The state of pods that scaling depends on.

use jiff::Timestamp;
use object::quantity::Quantity;
use object::{Object, conditions, time};
use serde_json::Value;

/// The state of a scaled pod.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaledPod {
    /// Empty inside a cluster.
    pub cluster: String,
    pub name: String,
    pub phase: String,
    pub is_deleting: bool,
    /// `Ready` and its transition time.
    pub ready: Option<(bool, Option<Timestamp>)>,
    pub started: Option<Timestamp>,
    /// Container, resource, milli-units.
    pub requests: Vec<(String, String, i64)>,
    pub containers: Vec<String>,
    /// Pod-level requests: resource, milli-units.
    pub pod_requests: Vec<(String, i64)>,
}

impl ScaledPod {
    /// Names the pod in samples: pods of several clusters may have the same name.
    pub fn key(&self) -> String {
        sample_key(&self.cluster, &self.name)
    }

    pub fn is_ready(&self) -> bool {
        self.ready.is_some_and(|(is_ready, _)| is_ready)
    }
}

/// The key of a pod's sample; the cluster is empty inside a cluster.
pub fn sample_key(cluster: &str, name: &str) -> String {
    if cluster.is_empty() { name.to_owned() } else { format!("{cluster}/{name}") }
}

/// Reads a pod; `None` if it is of no interest because it has succeeded.
pub fn read(pod: &Object) -> Option<ScaledPod> {
    if pod.str_at(&["status", "phase"]) == "Succeeded" {
        return None;
    }
    let milli = |value: &Value| value.as_str().and_then(|text| Quantity::parse(text).ok()).map(|q| q.milli_value());
    let sidecars = pod.items(&["spec", "initContainers"]).iter().filter(|c| c["restartPolicy"] == "Always");
    let containers: Vec<&Value> = pod.items(&["spec", "containers"]).iter().chain(sidecars).collect();
    let name_of = |container: &Value| container["name"].as_str().unwrap_or_default().to_owned();
    let requests = containers.iter().flat_map(|container| {
        let list = container["resources"]["requests"].as_object().into_iter().flatten();
        list.filter_map(|(resource, value)| Some((name_of(container), resource.clone(), milli(value)?)))
            .collect::<Vec<_>>()
    });
    let whole = pod.get(&["spec", "resources", "requests"]).and_then(Value::as_object).into_iter().flatten();
    let ready = conditions::find(pod, "Ready");
    Some(ScaledPod {
        cluster: String::new(),
        name: pod.name().to_owned(),
        phase: pod.str_at(&["status", "phase"]).to_owned(),
        is_deleting: pod.is_deleting(),
        ready: ready.map(|condition| (condition.is_true(), condition.last_transition())),
        started: time::parse(pod.str_at(&["status", "startTime"])),
        requests: requests.collect(),
        containers: containers.iter().map(|container| name_of(container)).collect(),
        pod_requests: whole.filter_map(|(resource, value)| Some((resource.clone(), milli(value)?))).collect(),
    })
}
