//! What a pod asks for, read from its object: containers, policies, volumes, names.

use object::{GroupVersionResource, Object};
use serde_json::Value;

/// Names the kubelet is known under to the API: field manager and event source.
pub(crate) const COMPONENT: &str = "kubelet";

/// Of a container of a pod: which of the pod's lists it stands in decides how it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs to its end before anything after it starts.
    Init,
    /// Stands among the init containers and keeps running beside the main ones.
    Sidecar,
    Main,
    /// Added to a pod that runs, for whoever looks for what is wrong with it. Runs once.
    Ephemeral,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

pub(crate) fn core(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new("", "v1", resource)
}

pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(crate) fn flag(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or_default()
}

pub(crate) fn number(value: &Value, field: &str) -> Option<i64> {
    value.get(field).and_then(Value::as_i64)
}

pub(crate) fn texts(value: &Value, field: &str) -> Vec<String> {
    list(value, field).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Containers of a pod in the order they are to start, with their roles.
pub(crate) fn containers(pod: &Object) -> Vec<(Role, &Value)> {
    let first = pod.items(&["spec", "initContainers"]).iter().map(|c| (init_role(c), c));
    let main = pod.items(&["spec", "containers"]).iter().map(|c| (Role::Main, c));
    let added = pod.items(&["spec", "ephemeralContainers"]).iter().map(|c| (Role::Ephemeral, c));
    first.chain(main).chain(added).collect()
}

fn init_role(container: &Value) -> Role {
    if text(container, "restartPolicy") == "Always" { Role::Sidecar } else { Role::Init }
}

pub(crate) fn container<'a>(pod: &'a Object, name: &str) -> Option<(Role, &'a Value)> {
    containers(pod).into_iter().find(|(_, container)| text(container, "name") == name)
}

pub(crate) fn restart_policy(pod: &Object) -> RestartPolicy {
    match pod.str_at(&["spec", "restartPolicy"]) {
        "Never" => RestartPolicy::Never,
        "OnFailure" => RestartPolicy::OnFailure,
        _ => RestartPolicy::Always,
    }
}

/// Whether a container that ended with this code is to run again.
pub(crate) fn restarts(policy: RestartPolicy, role: Role, exit_code: i32) -> bool {
    match (role, policy) {
        (Role::Sidecar, _) => true,
        // One that did its work is done, whatever the policy; one that failed is tried again unless never is.
        (Role::Init, RestartPolicy::Never) => false,
        (Role::Init, _) => exit_code != 0,
        (Role::Main, RestartPolicy::Always) => true,
        (Role::Main, RestartPolicy::OnFailure) => exit_code != 0,
        (Role::Main, RestartPolicy::Never) | (Role::Ephemeral, _) => false,
    }
}

/// How often a container was started again, as the pod's status has it; `None` when it never ran.
pub(crate) fn recorded_restarts(pod: &Object, name: &str) -> Option<u32> {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let entries = lists.iter().flat_map(|list| pod.items(&["status", list]));
    let entry =
        entries.into_iter().find(|entry| text(entry, "name") == name && !text(entry, "containerID").is_empty())?;
    Some(number(entry, "restartCount").and_then(|count| u32::try_from(count).ok()).unwrap_or_default())
}

pub(crate) fn is_finished(pod: &Object) -> bool {
    matches!(pod.str_at(&["status", "phase"]), "Failed" | "Succeeded")
}

pub(crate) fn uses_host_network(pod: &Object) -> bool {
    pod.bool_at(&["spec", "hostNetwork"]).unwrap_or_default()
}

/// What the pod's own processes see as their host name: at most 63 characters, without a trailing dash or dot.
pub(crate) fn hostname(pod: &Object) -> String {
    let asked = pod.str_at(&["spec", "hostname"]);
    let name = if asked.is_empty() { pod.name() } else { asked };
    let cut: String = name.chars().take(63).collect();
    cut.trim_end_matches(['-', '.']).to_owned()
}

/// How long its containers have to end, as asked for when it was deleted or else by its spec.
pub(crate) fn grace_seconds(pod: &Object) -> u64 {
    let asked = pod.i64_at(&["metadata", "deletionGracePeriodSeconds"]).filter(|_| pod.is_deleting());
    let spec = pod.i64_at(&["spec", "terminationGracePeriodSeconds"]);
    u64::try_from(asked.or(spec).unwrap_or(30)).unwrap_or_default()
}

/// A port by its number or by the name a container of the pod gives it.
pub(crate) fn port(container: &Value, port: Option<&Value>) -> Option<u16> {
    match port? {
        Value::Number(number) => number.as_u64().and_then(|n| u16::try_from(n).ok()),
        Value::String(name) => {
            let named = list(container, "ports").iter().find(|p| text(p, "name") == name);
            let number = named.and_then(|p| number(p, "containerPort"));
            number.and_then(|n| u16::try_from(n).ok()).or_else(|| name.parse().ok())
        }
        _ => None,
    }
}

/// Guaranteed, Burstable or BestEffort, from what its containers request and limit.
pub(crate) fn qos_class(pod: &Object) -> &'static str {
    let (mut any, mut all_guaranteed) = (false, true);
    for (_, container) in containers(pod) {
        let amounts = |kind: &str| container.get("resources").and_then(|r| r.get(kind)).and_then(Value::as_object);
        for name in ["cpu", "memory"] {
            let limit = amounts("limits").and_then(|m| m.get(name));
            let request = amounts("requests").and_then(|m| m.get(name)).or(limit);
            any |= limit.is_some() || request.is_some();
            all_guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (any, all_guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
pub(crate) fn pod_of(spec: Value) -> Object {
    let root = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
        "metadata": {"namespace": "default", "name": "web", "uid": "u1", "labels": {"app": "web"}}});
    Object::from_value(root).expect("a map")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_qos(resources: Value, expected: &str) {
        let pod = pod_of(json!({"containers": [{"name": "a", "resources": resources}]}));
        assert_eq!(qos_class(&pod), expected);
    }

    #[test]
    fn a_pod_is_as_sure_of_its_resources_as_its_least_sure_container() {
        check_qos(json!({}), "BestEffort");
        check_qos(json!({"requests": {"cpu": "1"}}), "Burstable");
        check_qos(json!({"limits": {"cpu": "1", "memory": "1Gi"}}), "Guaranteed");
        check_qos(json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}), "Burstable");
    }

    #[test]
    fn ports_are_found_by_number_and_by_name() {
        let container = json!({"ports": [{"name": "http", "containerPort": 8080}]});
        assert_eq!(port(&container, Some(&json!(81))), Some(81));
        assert_eq!(port(&container, Some(&json!("http"))), Some(8080));
        assert_eq!(port(&container, Some(&json!("other"))), None);
    }

    #[test]
    fn a_hostname_never_ends_in_a_dash() {
        let mut pod = pod_of(json!({}));
        pod.set_name(&format!("{}-x", "a".repeat(62)));
        assert_eq!(hostname(&pod), "a".repeat(62));
    }
}
