//! One container of a pod: its spec and its current state.

use jiff::Timestamp;
use object::{Object, time};
use serde_json::{Value, json};

use crate::behaviour::{Behaviour, behaviour};
use crate::lifecycle::DecisionInputs;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Init,
    /// An init container that keeps running with the main containers.
    Sidecar,
    Main,
    Ephemeral,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    Waiting { reason: String, message: String },
    Running { started: String },
    Terminated(Terminated),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terminated {
    pub exit_code: i32,
    pub reason: String,
    pub message: String,
    pub started: String,
    pub finished: String,
    pub id: String,
}

pub struct Container<'a> {
    pub spec: &'a Value,
    pub role: Role,
    pub behaviour: Behaviour,
    pub state: ContainerState,
    /// The previous termination.
    pub last: Option<Terminated>,
    pub restarts: i64,
    pub is_started: bool,
    pub is_ready: bool,
    /// When its state last changed.
    pub since: Timestamp,
    pub slot: u16,
}

impl<'a> Container<'a> {
    pub fn name(&self) -> &'a str {
        self.spec["name"].as_str().unwrap_or_default()
    }

    pub fn image(&self) -> &'a str {
        self.spec["image"].as_str().unwrap_or_default()
    }

    pub fn is_running(&self) -> bool {
        matches!(self.state, ContainerState::Running { .. })
    }

    pub fn exit_code(&self) -> Option<i32> {
        match &self.state {
            ContainerState::Terminated(end) => Some(end.exit_code),
            _ => None,
        }
    }

    /// Reports whether later init containers need not wait for this one any more.
    pub fn is_initialized(&self) -> bool {
        match self.role {
            Role::Init => self.exit_code() == Some(0),
            _ => self.is_running() && self.is_started,
        }
    }

    /// Returns the id of this run of the container.
    pub fn id(&self, pod: &Object) -> String {
        format!("simulated://{}-{}-{}", pod.uid(), self.name(), self.restarts)
    }

    pub fn waits_for(&self, reason: &str) -> bool {
        matches!(&self.state, ContainerState::Waiting { reason: known, .. } if known == reason)
    }
}

/// Returns all containers in start order, with their state from the status.
pub fn read_all<'a>(known: &DecisionInputs<'_>, pod: &'a Object) -> Vec<Container<'a>> {
    let lists = [
        ("initContainers", "initContainerStatuses"),
        ("containers", "containerStatuses"),
        ("ephemeralContainers", "ephemeralContainerStatuses"),
    ];
    let has_init = !pod.items(&["spec", "initContainers"]).is_empty();
    let waiting = if has_init { "PodInitializing" } else { "ContainerCreating" };
    let mut all = Vec::new();
    for (specs, statuses) in lists {
        for spec in pod.items(&["spec", specs]) {
            let role = match specs {
                "initContainers" if spec["restartPolicy"] == "Always" => Role::Sidecar,
                "initContainers" => Role::Init,
                "containers" => Role::Main,
                _ => Role::Ephemeral,
            };
            let status = pod.items(&["status", statuses]).iter().find(|status| status["name"] == spec["name"]);
            let slot = all.len() as u16;
            let waiting = if role == Role::Ephemeral { "ContainerCreating" } else { waiting };
            all.push(read(known, pod, spec, role, status.unwrap_or(&Value::Null), slot, waiting));
        }
    }
    all
}

fn read<'a>(
    known: &DecisionInputs<'_>,
    pod: &Object,
    spec: &'a Value,
    role: Role,
    status: &Value,
    slot: u16,
    waiting: &str,
) -> Container<'a> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let state = &status["state"];
    let last = terminated(&status["lastState"]["terminated"]);
    let state = if let Some(running) = state.get("running") {
        ContainerState::Running { started: text(&running["startedAt"]) }
    } else if let Some(end) = terminated(&state["terminated"]) {
        ContainerState::Terminated(end)
    } else if let Some(wait) = state.get("waiting") {
        ContainerState::Waiting { reason: text(&wait["reason"]), message: text(&wait["message"]) }
    } else {
        ContainerState::Waiting { reason: waiting.to_owned(), message: String::new() }
    };
    let started_at = match (&state, &last) {
        (ContainerState::Running { started }, _) => time::parse(started),
        (ContainerState::Terminated(end), _) | (ContainerState::Waiting { .. }, Some(end)) => {
            time::parse(&end.finished)
        }
        (ContainerState::Waiting { .. }, None) => None,
    };
    Container {
        spec,
        role,
        behaviour: behaviour(known.settings, pod, spec),
        restarts: status["restartCount"].as_i64().unwrap_or(0),
        is_started: status["started"].as_bool().unwrap_or(false),
        is_ready: status["ready"].as_bool().unwrap_or(false),
        since: known.marks.get(slot).or(started_at).unwrap_or(known.now),
        state,
        last,
        slot,
    }
}

fn terminated(value: &Value) -> Option<Terminated> {
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    value.is_object().then(|| Terminated {
        exit_code: value["exitCode"].as_i64().unwrap_or(0) as i32,
        reason: text("reason"),
        message: text("message"),
        started: text("startedAt"),
        finished: text("finishedAt"),
        id: text("containerID"),
    })
}

impl Terminated {
    fn to_value(&self) -> Value {
        let mut value = json!({"exitCode": self.exit_code, "reason": self.reason, "startedAt": self.started,
            "finishedAt": self.finished, "containerID": self.id});
        if !self.message.is_empty() {
            value["message"] = self.message.as_str().into();
        }
        value
    }
}

/// Returns the container's entry in the pod status.
pub fn status_of(container: &Container<'_>, pod: &Object) -> Value {
    let state = match &container.state {
        ContainerState::Waiting { reason, message } if message.is_empty() => json!({"waiting": {"reason": reason}}),
        ContainerState::Waiting { reason, message } => json!({"waiting": {"reason": reason, "message": message}}),
        ContainerState::Running { started } => json!({"running": {"startedAt": started}}),
        ContainerState::Terminated(end) => json!({"terminated": end.to_value()}),
    };
    let last = container.last.as_ref().map_or_else(|| json!({}), |end| json!({"terminated": end.to_value()}));
    let has_run = container.last.is_some() || !matches!(container.state, ContainerState::Waiting { .. });
    let image_id = if has_run { format!("simulated://{}", container.image()) } else { String::new() };
    let id = match &container.state {
        ContainerState::Running { .. } => container.id(pod),
        ContainerState::Terminated(end) => end.id.clone(),
        ContainerState::Waiting { .. } => container.last.as_ref().map(|end| end.id.clone()).unwrap_or_default(),
    };
    let mut status = json!({"name": container.name(), "image": container.image(), "imageID": image_id,
        "state": state, "lastState": last, "ready": container.is_ready, "restartCount": container.restarts,
        "started": container.is_started});
    if !id.is_empty() {
        status["containerID"] = id.into();
    }
    status
}
