//! Computes the status of a pod from its state in the runtime and recorded failures. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use object::Object;
use object::conditions::is_true_in;
use object::time::format_seconds;
use serde_json::{Map, Value, json};

use crate::decide::{EndReason, Health, outcome};
use crate::observed::{Observed, ObservedContainer, ObservedState};
use crate::pod::{Role, containers, qos_class, text};

/// The waiting state of a container: reason such as `CrashLoopBackOff`, and message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitingReason {
    pub reason: String,
    pub message: String,
}

/// Reported for a container the runtime lost: as if it was killed.
const LOST_EXIT_CODE: i32 = 137;

/// The inputs of a status.
pub(crate) struct StatusInputs<'a> {
    pub pod: &'a Object,
    pub observed: &'a Observed,
    pub health: &'a BTreeMap<String, Health>,
    /// By container name.
    pub waiting: &'a BTreeMap<String, WaitingReason>,
    /// Termination messages by container id.
    pub termination_message: &'a BTreeMap<String, String>,
    pub ending: Option<EndReason>,
    pub host_ip: &'a str,
    pub pod_ips: &'a [String],
    pub now: Timestamp,
}

/// Returns the whole status. Fields owned by others (readiness gates, nominations) are kept.
pub(crate) fn pod_status(report: &StatusInputs) -> Value {
    let pod = report.pod;
    let mut status = pod.get(&["status"]).and_then(Value::as_object).cloned().unwrap_or_default();
    let (mut init, mut main, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for (role, container) in containers(pod) {
        let entry = container_status(report, role, container);
        match role {
            Role::Init | Role::Sidecar => init.push(entry),
            Role::Main => main.push(entry),
            Role::Ephemeral => added.push(entry),
        }
    }
    let phase = phase(report, &init, &main);
    for (field, list) in
        [("initContainerStatuses", &init), ("containerStatuses", &main), ("ephemeralContainerStatuses", &added)]
    {
        if list.is_empty() {
            status.remove(field);
        } else {
            status.insert(field.to_owned(), list.clone().into());
        }
    }
    if report.ending == Some(EndReason::PastDeadline) {
        status.insert("reason".to_owned(), "DeadlineExceeded".into());
        status.insert("message".to_owned(), "Pod was active on the node longer than the specified deadline".into());
    }
    let conditions = conditions(report, &phase, &init, &main, status.get("conditions"));
    status.insert("conditions".to_owned(), conditions);
    status.insert("phase".to_owned(), phase.into());
    status.insert("hostIP".to_owned(), report.host_ip.into());
    status.insert("hostIPs".to_owned(), json!([{"ip": report.host_ip}]));
    if let Some(first) = report.pod_ips.first() {
        status.insert("podIP".to_owned(), first.as_str().into());
        let all: Vec<Value> = report.pod_ips.iter().map(|ip| json!({"ip": ip})).collect();
        status.insert("podIPs".to_owned(), all.into());
    }
    status.entry("startTime").or_insert_with(|| format_seconds(report.now).into());
    status.entry("qosClass").or_insert_with(|| qos_class(pod).into());
    if pod.generation() > 0 {
        status.insert("observedGeneration".to_owned(), pod.generation().into());
    }
    Value::Object(status)
}

fn phase(report: &StatusInputs, init: &[Value], main: &[Value]) -> String {
    let current = report.pod.str_at(&["status", "phase"]);
    if matches!(current, "Failed" | "Succeeded") {
        return current.to_owned();
    }
    let still_runs = report.observed.running().next().is_some();
    match (report.ending, outcome(report.pod, report.observed)) {
        // Finished only when nothing runs any more, sidecars included.
        (_, Some(_)) | (Some(EndReason::PastDeadline), _) if still_runs => "Running",
        (Some(EndReason::PastDeadline), _) => "Failed",
        (_, Some(true)) => "Succeeded",
        (_, Some(false)) => "Failed",
        // Ended by its deletion: the exit codes decide.
        (Some(EndReason::Deleted), None) if !still_runs && main.iter().any(has_run) => {
            let well = |entry: &Value| {
                entry.get("state").and_then(|s| s.get("terminated")).and_then(|t| t.get("exitCode")) == Some(&json!(0))
            };
            if main.iter().all(well) { "Succeeded" } else { "Failed" }
        }
        _ if is_initialized(report, init) && main.iter().any(has_run) => "Running",
        _ => "Pending",
    }
    .to_owned()
}

fn has_run(entry: &Value) -> bool {
    let is = |field: &str, state: &str| entry.get(field).and_then(|s| s.get(state)).is_some();
    is("state", "running") || is("state", "terminated") || is("lastState", "terminated")
}

/// Reports whether all init containers completed and all sidecars started.
fn is_initialized(report: &StatusInputs, init: &[Value]) -> bool {
    let roles: BTreeMap<&str, Role> = containers(report.pod).into_iter().map(|(r, c)| (text(c, "name"), r)).collect();
    let has_begun = containers(report.pod)
        .iter()
        .any(|(role, c)| *role == Role::Main && report.observed.latest(text(c, "name")).is_some());
    has_begun
        || init.iter().all(|entry| match roles.get(text(entry, "name")) {
            Some(Role::Sidecar) => entry.get("started") == Some(&Value::Bool(true)),
            _ => {
                let ended = entry.get("state").and_then(|s| s.get("terminated"));
                ended.and_then(|t| t.get("exitCode")).and_then(Value::as_i64) == Some(0)
            }
        })
}

fn container_status(report: &StatusInputs, role: Role, container: &Value) -> Value {
    let name = text(container, "name");
    let Some(seen) = report.observed.latest(name) else { return unseen(report, role, container) };
    let health = report.health.get(&seen.id);
    let is_running = seen.state == ObservedState::Running;
    let started = is_running && health.is_none_or(|health| !health.is_starting);
    let ready = match role {
        // A completed init container is ready; a running one is not.
        Role::Init => seen.state == ObservedState::Exited && seen.exit_code == 0,
        Role::Ephemeral => false,
        _ => started && health.is_none_or(|health| health.is_ready),
    };
    let waiting = report.waiting.get(name).filter(|_| !is_running);
    let (state, last) = match (waiting, seen.state) {
        (Some(waiting), ObservedState::Exited) => (waiting_state(waiting), Some(terminated(report, seen))),
        (Some(waiting), _) => (waiting_state(waiting), previous(report, name)),
        (None, ObservedState::Created) => (waiting_state(&creating(role)), previous(report, name)),
        (None, ObservedState::Running) => {
            (json!({"running": {"startedAt": time(seen.started_at)}}), previous(report, name))
        }
        (None, ObservedState::Exited) => (terminated(report, seen), previous(report, name)),
    };
    let image =
        if seen.image.is_empty() || seen.image.starts_with("sha256:") { text(container, "image") } else { &seen.image };
    json!({
        "name": name,
        "state": state,
        "lastState": last.unwrap_or_else(|| json!({})),
        "ready": ready,
        "started": started,
        "restartCount": seen.attempt,
        "image": image,
        "imageID": seen.image_ref,
        "containerID": format!("containerd://{}", seen.id),
    })
}

/// The status of a container unknown to the runtime: not created yet, or lost since the last status.
fn unseen(report: &StatusInputs, role: Role, container: &Value) -> Value {
    let name = text(container, "name");
    let known = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"]
        .iter()
        .flat_map(|field| report.pod.items(&["status", field]))
        .find(|entry| text(entry, "name") == name);
    let waiting = report.waiting.get(name);
    if let (Some(known), None) = (known, waiting)
        && known.get("state").and_then(|s| s.get("terminated")).is_some()
    {
        return known.clone();
    }
    if let (Some(known), Some(_)) = (known, report.ending)
        && known.get("state").and_then(|s| s.get("running")).is_some()
    {
        let mut lost = known.clone();
        lost["state"] = json!({"terminated": {"exitCode": LOST_EXIT_CODE, "reason": "ContainerStatusUnknown",
            "message": "The container could not be located when the pod was terminated"}});
        lost["ready"] = false.into();
        lost["started"] = false.into();
        return lost;
    }
    let waiting = waiting.cloned().unwrap_or_else(|| {
        let needs_init = !report.pod.items(&["spec", "initContainers"]).is_empty();
        if needs_init && role != Role::Ephemeral { named("PodInitializing") } else { creating(role) }
    });
    let restarts = known.and_then(|known| known.get("restartCount")).cloned().unwrap_or_else(|| 0.into());
    json!({"name": name, "state": waiting_state(&waiting), "lastState": {}, "ready": false, "started": false,
        "restartCount": restarts, "image": text(container, "image"), "imageID": ""})
}

fn creating(role: Role) -> WaitingReason {
    named(if matches!(role, Role::Main | Role::Ephemeral) { "ContainerCreating" } else { "PodInitializing" })
}

fn named(reason: &str) -> WaitingReason {
    WaitingReason { reason: reason.to_owned(), message: String::new() }
}

fn waiting_state(waiting: &WaitingReason) -> Value {
    let mut state = json!({"waiting": {"reason": waiting.reason}});
    if !waiting.message.is_empty() {
        state["waiting"]["message"] = waiting.message.as_str().into();
    }
    state
}

fn previous(report: &StatusInputs, name: &str) -> Option<Value> {
    let seen = report.observed.previous(name).filter(|seen| seen.state == ObservedState::Exited)?;
    Some(terminated(report, seen))
}

fn terminated(report: &StatusInputs, seen: &ObservedContainer) -> Value {
    let reason = match (seen.reason.as_str(), seen.exit_code) {
        ("", 0) => "Completed",
        ("", _) => "Error",
        (reason, _) => reason,
    };
    let mut ended = json!({"exitCode": seen.exit_code, "reason": reason, "startedAt": time(seen.started_at),
        "finishedAt": time(seen.finished_at), "containerID": format!("containerd://{}", seen.id)});
    let message = report.termination_message.get(&seen.id).unwrap_or(&seen.message);
    if !message.is_empty() {
        ended["message"] = message.as_str().into();
    }
    json!({"terminated": ended})
}

/// Formats nanoseconds since 1970; zero is null.
fn time(nanoseconds: i64) -> Value {
    match Timestamp::from_nanosecond(nanoseconds.into()) {
        Ok(time) if nanoseconds > 0 => format_seconds(time).into(),
        _ => Value::Null,
    }
}

fn conditions(report: &StatusInputs, phase: &str, init: &[Value], main: &[Value], old: Option<&Value>) -> Value {
    let is_over = matches!(phase, "Failed" | "Succeeded");
    let unready: Vec<&str> =
        main.iter().filter(|e| e.get("ready") != Some(&Value::Bool(true))).map(|e| text(e, "name")).collect();
    let verdict = |holds: bool, reason: &str, message: String| {
        if holds { (true, String::new(), String::new()) } else { (false, reason.to_owned(), message) }
    };
    let unready_message = format!("containers with unready status: [{}]", unready.join(" "));
    let completed = is_over && phase == "Succeeded";
    let reason = match (is_over, completed) {
        (true, true) => "PodCompleted",
        (true, false) => "PodFailed",
        _ => "ContainersNotReady",
    };
    let message = if is_over { String::new() } else { unready_message };
    let containers_ready = verdict(!is_over && unready.is_empty(), reason, message);
    let unmet = unmet_gate(report.pod, old);
    let ready = match (containers_ready.0, unmet) {
        (true, Some(gate)) => {
            let message = format!("corresponding condition of pod readiness gate {gate:?} does not exist.");
            (false, "ReadinessGatesNotReady".to_owned(), message)
        }
        _ => containers_ready.clone(),
    };
    let not_done: Vec<&str> =
        init.iter().filter(|e| e.get("ready") != Some(&Value::Bool(true))).map(|e| text(e, "name")).collect();
    let incomplete = format!("containers with incomplete status: [{}]", not_done.join(" "));
    let initialized = verdict(is_initialized(report, init) || completed, "ContainersNotInitialized", incomplete);
    let has_sandbox = report.observed.sandbox().is_some_and(|sandbox| sandbox.is_ready);
    let mut list: Vec<Value> = old.and_then(Value::as_array).cloned().unwrap_or_default();
    for (kind, verdict) in [
        ("PodReadyToStartContainers", (has_sandbox, String::new(), String::new())),
        ("Initialized", initialized),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", (true, String::new(), String::new())),
    ] {
        set_condition(&mut list, kind, verdict, report);
    }
    list.into()
}

fn unmet_gate(pod: &Object, conditions: Option<&Value>) -> Option<String> {
    let list = conditions.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_met = |gate: &str| is_true_in(list, gate);
    let gates = pod.items(&["spec", "readinessGates"]).iter().map(|gate| text(gate, "conditionType"));
    gates.filter(|gate| !is_met(gate)).map(str::to_owned).next()
}

fn set_condition(
    list: &mut Vec<Value>,
    kind: &str,
    (holds, reason, message): (bool, String, String),
    report: &StatusInputs,
) {
    let status = if holds { "True" } else { "False" };
    let old = list.iter().position(|condition| text(condition, "type") == kind);
    let since = old.map(|at| &list[at]).filter(|old| text(old, "status") == status);
    let since = since.and_then(|old| old.get("lastTransitionTime")).cloned();
    let mut condition = Map::new();
    condition.insert("type".into(), kind.into());
    condition.insert("status".into(), status.into());
    condition.insert("lastProbeTime".into(), Value::Null);
    condition.insert("lastTransitionTime".into(), since.unwrap_or_else(|| format_seconds(report.now).into()));
    if report.pod.generation() > 0 {
        condition.insert("observedGeneration".into(), report.pod.generation().into());
    }
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            condition.insert(field.into(), text.into());
        }
    }
    match old {
        Some(at) => list[at] = Value::Object(condition),
        None => list.push(Value::Object(condition)),
    }
}

#[cfg(test)]
mod tests;
