//! Renders the pod status as a kubelet writes it: phase, conditions, addresses and container states.

use jiff::Timestamp;
use object::{Object, conditions};
use serde_json::{Value, json};

use super::advance::LifecycleRun;
use super::container::{ContainerState, Role, status_of};

/// Returns the whole status. Fields of other owners are kept.
pub fn status(run: &LifecycleRun<'_>) -> Value {
    let mut status = run.pod.get(&["status"]).and_then(Value::as_object).cloned().unwrap_or_default();
    let phase = phase(run);
    status.insert("phase".into(), phase.into());
    status.insert("startTime".into(), run.start_time.as_str().into());
    let host = run.known.host_ip.to_string();
    status.insert("hostIPs".into(), json!([{"ip": host}]));
    status.insert("hostIP".into(), host.into());
    if !run.pod_ip.is_empty() {
        status.insert("podIP".into(), run.pod_ip.as_str().into());
        status.insert("podIPs".into(), json!([{"ip": run.pod_ip}]));
    }
    if run.pod.generation() > 0 {
        status.insert("observedGeneration".into(), run.pod.generation().into());
    }
    if let Some((reason, message)) = &run.failure {
        status.insert("reason".into(), (*reason).into());
        status.insert("message".into(), message.as_str().into());
    }
    let lists = [
        ("initContainerStatuses", &[Role::Init, Role::Sidecar][..]),
        ("containerStatuses", &[Role::Main][..]),
        ("ephemeralContainerStatuses", &[Role::Ephemeral][..]),
    ];
    for (name, roles) in lists {
        let chosen = run.containers.iter().filter(|container| roles.contains(&container.role));
        let statuses: Vec<Value> = chosen.map(|container| status_of(container, run.pod)).collect();
        if !statuses.is_empty() {
            status.insert(name.into(), statuses.into());
        }
    }
    let conditions = conditions(run, phase, status.get("conditions"));
    status.insert("conditions".into(), conditions);
    Value::Object(status)
}

fn phase(run: &LifecycleRun<'_>) -> &'static str {
    if run.is_over() {
        return if run.pod.str_at(&["status", "phase"]) == "Failed" { "Failed" } else { "Succeeded" };
    }
    if run.is_failed {
        return "Failed";
    }
    let mains = || run.containers.iter().filter(|container| container.role == Role::Main);
    let is_waiting_first = |container: &super::container::Container<'_>| {
        matches!(container.state, ContainerState::Waiting { .. }) && container.last.is_none()
    };
    if !is_initialized(run) || mains().any(is_waiting_first) {
        return "Pending";
    }
    let is_deleting = run.pod.is_deleting();
    let ended = run.containers.iter().enumerate().filter(|(_, container)| container.role == Role::Main);
    let all_final = ended.clone().all(|(index, container)| match is_deleting {
        true => container.exit_code().is_some(),
        false => run.is_final(index),
    });
    match (all_final, ended.clone().all(|(_, container)| container.exit_code() == Some(0))) {
        (true, true) => "Succeeded",
        (true, false) => "Failed",
        (false, _) => "Running",
    }
}

/// Reports whether init containers have completed, or had completed when the others started.
fn is_initialized(run: &LifecycleRun<'_>) -> bool {
    let mut mains = run.containers.iter().filter(|container| container.role == Role::Main);
    let has_begun = mains.any(|main| main.last.is_some() || !matches!(main.state, ContainerState::Waiting { .. }));
    let inits = run.containers.iter().filter(|container| matches!(container.role, Role::Init | Role::Sidecar));
    has_begun || inits.map(|container| container.is_initialized()).min().unwrap_or(true)
}

struct StatusCondition {
    kind: &'static str,
    is_true: bool,
    reason: &'static str,
    message: String,
}

impl StatusCondition {
    fn met(kind: &'static str) -> Self {
        Self { kind, is_true: true, reason: "", message: String::new() }
    }

    fn missing(kind: &'static str, reason: &'static str, message: String) -> Self {
        Self { kind, is_true: false, reason, message }
    }
}

fn conditions(run: &LifecycleRun<'_>, phase: &str, known: Option<&Value>) -> Value {
    let is_over = matches!(phase, "Succeeded" | "Failed");
    let serving = run.containers.iter().filter(|container| matches!(container.role, Role::Main | Role::Sidecar));
    let unready: Vec<&str> =
        serving.filter(|container| !container.is_ready).map(|container| container.name()).collect();
    let inits = run.containers.iter().filter(|container| matches!(container.role, Role::Init | Role::Sidecar));
    let incomplete: Vec<&str> = inits.filter(|container| !container.is_initialized()).map(|c| c.name()).collect();
    let unready_text = format!("containers with unready status: [{}]", unready.join(" "));
    let containers_ready = |kind: &'static str| match (phase, unready.is_empty()) {
        ("Succeeded", _) => StatusCondition::missing(kind, "PodCompleted", String::new()),
        ("Failed", _) => StatusCondition::missing(kind, "PodFailed", String::new()),
        (_, true) => StatusCondition::met(kind),
        _ => StatusCondition::missing(kind, "ContainersNotReady", unready_text.clone()),
    };
    let initialized = match (phase, is_initialized(run)) {
        ("Succeeded", _) => StatusCondition { reason: "PodCompleted", ..StatusCondition::met("Initialized") },
        (_, true) => StatusCondition::met("Initialized"),
        _ => {
            let text = format!("containers with incomplete status: [{}]", incomplete.join(" "));
            StatusCondition::missing("Initialized", "ContainersNotInitialized", text)
        }
    };
    let ready = match closed_gate(run.pod) {
        Some(gate) if unready.is_empty() && !is_over => {
            let text = format!("corresponding condition of pod readiness gate {gate:?} does not exist or is not True.");
            StatusCondition::missing("Ready", "ReadinessGatesNotReady", text)
        }
        _ => containers_ready("Ready"),
    };
    let sandbox = match !run.pod_ip.is_empty() && !is_over {
        true => StatusCondition::met("PodReadyToStartContainers"),
        false => StatusCondition::missing("PodReadyToStartContainers", "", String::new()),
    };
    let mut list = known.and_then(Value::as_array).cloned().unwrap_or_default();
    if conditions::find_in(&list, "PodScheduled").is_none() {
        put(&mut list, &StatusCondition::met("PodScheduled"), run.known.now);
    }
    for condition in [sandbox, initialized, ready, containers_ready("ContainersReady")] {
        put(&mut list, &condition, run.known.now);
    }
    list.into()
}

/// Returns a readiness gate whose condition is not true.
fn closed_gate(pod: &Object) -> Option<&str> {
    let gates = pod.items(&["spec", "readinessGates"]).iter().filter_map(|gate| gate["conditionType"].as_str());
    gates.into_iter().find(|gate| !conditions::is_true(pod, gate))
}

/// Sets a condition; its transition time is kept while the status is unchanged.
fn put(list: &mut Vec<Value>, new: &StatusCondition, now: Timestamp) {
    conditions::edit_in(list, new.kind, |condition| {
        condition.set_status(if new.is_true { "True" } else { "False" }, now);
        condition.set_text("reason", new.reason);
        condition.set_text("message", &new.message);
    });
}
