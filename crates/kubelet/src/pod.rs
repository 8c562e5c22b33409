//! Accessors for the spec of a pod: containers, policies, volumes, names.

use object::Object;
use serde_json::Value;

/// The field manager and event source.
pub(crate) const COMPONENT: &str = "kubelet";

/// The role of a container, given by its list in the pod spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs to completion before later containers start.
    Init,
    /// A restartable init container that keeps running with the main ones.
    Sidecar,
    Main,
    /// Added to a running pod for debugging. Runs once.
    Ephemeral,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
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

/// Returns the containers in start order with their roles.
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

/// Reports whether a container with this exit code is restarted.
pub(crate) fn restarts(policy: RestartPolicy, role: Role, exit_code: i32) -> bool {
    match (role, policy) {
        (Role::Sidecar, _) => true,
        // A successful init container is done under any policy; a failed one is retried unless the policy is Never.
        (Role::Init, RestartPolicy::Never) => false,
        (Role::Init, _) => exit_code != 0,
        (Role::Main, RestartPolicy::Always) => true,
        (Role::Main, RestartPolicy::OnFailure) => exit_code != 0,
        (Role::Main, RestartPolicy::Never) | (Role::Ephemeral, _) => false,
    }
}

/// Returns the restart count in the pod's status; `None` if it never ran.
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

/// Returns the pod's host name: at most 63 characters, without a trailing dash or dot.
pub(crate) fn hostname(pod: &Object) -> String {
    let asked = pod.str_at(&["spec", "hostname"]);
    let name = if asked.is_empty() { pod.name() } else { asked };
    let cut: String = name.chars().take(63).collect();
    cut.trim_end_matches(['-', '.']).to_owned()
}

/// Returns the grace period of its deletion, or else of its spec.
pub(crate) fn grace_seconds(pod: &Object) -> u64 {
    let asked = pod.i64_at(&["metadata", "deletionGracePeriodSeconds"]).filter(|_| pod.is_deleting());
    let spec = pod.i64_at(&["spec", "terminationGracePeriodSeconds"]);
    u64::try_from(asked.or(spec).unwrap_or(30)).unwrap_or_default()
}

/// Resolves a port by number or container port name.
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

/// Returns Guaranteed, Burstable or BestEffort by the containers' requests and limits.
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
    fn the_qos_class_depends_on_all_containers() {
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
