//! The row of a pod: one status word that summarizes its phase and its containers.

use jiff::Timestamp;
use object::Object;
use object::conditions::{find_in, is_true_in};
use serde_json::{Value, json};

use super::cells::{age_of, str_of, text_or};
use super::{AGE, Col, NAME, PrinterTable, age, text};

const COLUMNS: &[Col] = &[
    NAME,
    text("Ready", "How many containers are ready, of how many."),
    text("Status", "One word for the state of the pod and its containers."),
    text("Restarts", "How often containers were restarted, and when last."),
    AGE,
    text("IP", "The address of the pod.").wide(),
    text("Node", "The node the pod is bound to.").wide(),
    text("Nominated Node", "The node on which preemption frees capacity for this pod.").wide(),
    text("Readiness Gates", "How many additional readiness conditions hold, of how many.").wide(),
];

pub(super) const TABLE: PrinterTable = PrinterTable::new(COLUMNS, row).with_conditions(completed);

fn row(pod: &Object, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let restarts = match &summary.last_restart {
        Some(time) if summary.restarts != 0 => format!("{} ({} ago)", summary.restarts, age::since(time, now)),
        _ => summary.restarts.to_string(),
    };
    let ip = pod.items(&["status", "podIPs"]).first().map(|ip| str_of(ip, "ip")).unwrap_or_default();
    vec![
        pod.name().into(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts.into(),
        age_of(pod, now),
        text_or(ip, "<none>").into(),
        text_or(pod.str_at(&["spec", "nodeName"]), "<none>").into(),
        text_or(pod.str_at(&["status", "nominatedNodeName"]), "<none>").into(),
        readiness_gates(pod).into(),
    ]
}

/// A finished pod is marked, so that clients can hide it.
fn completed(pod: &Object) -> Vec<Value> {
    let (reason, message) = match pod.str_at(&["status", "phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return Vec::new(),
    };
    vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

fn readiness_gates(pod: &Object) -> String {
    let gates = pod.items(&["spec", "readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let conditions = pod.items(&["status", "conditions"]);
    let open = gates.iter().filter(|gate| is_true_in(conditions, str_of(gate, "conditionType"))).count();
    format!("{open}/{}", gates.len())
}

struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<String>,
}

/// Restarts of some containers.
#[derive(Clone, Default)]
struct Restarts {
    count: i64,
    last: Option<String>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += status["restartCount"].as_i64().unwrap_or(0);
        let finished = str_of(&status["lastState"]["terminated"], "finishedAt");
        // RFC 3339 in UTC to the second sorts as text.
        if !finished.is_empty() && self.last.as_deref().is_none_or(|last| last < finished) {
            self.last = Some(finished.to_owned());
        }
    }
}

impl Summary {
    fn of(pod: &Object) -> Self {
        let init_containers = pod.items(&["spec", "initContainers"]);
        let sidecars = init_containers.iter().filter(|c| is_sidecar(c)).count();
        let conditions = pod.items(&["status", "conditions"]);
        let mut reason = text_or(pod.str_at(&["status", "reason"]), pod.str_at(&["status", "phase"]));
        if find_in(conditions, "PodScheduled").is_some_and(|c| c.reason() == "SchedulingGated") {
            reason = "SchedulingGated".to_owned();
        }
        let mut summary = Self {
            reason,
            ready: 0,
            total: pod.items(&["spec", "containers"]).len() + sidecars,
            restarts: 0,
            last_restart: None,
        };
        let (initializing, init, sidecar) = summary.read_init_containers(pod, init_containers);
        let mut restarts = init;
        if !initializing || is_true_in(conditions, "Initialized") {
            restarts = sidecar;
            summary.read_containers(pod, &mut restarts);
        }
        summary.restarts = restarts.count;
        summary.last_restart = restarts.last;
        summary.read_deletion(pod);
        summary
    }

    /// Visits the init containers up to the first that is not done; returns whether there is one, and the restarts of
    /// all visited init containers and of the sidecars among them.
    fn read_init_containers(&mut self, pod: &Object, specs: &[Value]) -> (bool, Restarts, Restarts) {
        let (mut all, mut of_sidecars) = (Restarts::default(), Restarts::default());
        for (index, status) in pod.items(&["status", "initContainerStatuses"]).iter().enumerate() {
            let name = str_of(status, "name");
            let sidecar = specs.iter().any(|spec| str_of(spec, "name") == name && is_sidecar(spec));
            all.add(status);
            if sidecar {
                of_sidecars.add(status);
            }
            let state = &status["state"];
            let terminated = state.get("terminated").filter(|t| t.is_object());
            if terminated.is_some_and(|t| exit_code(t) == 0) {
                continue;
            }
            if sidecar && status["started"].as_bool() == Some(true) {
                self.ready += usize::from(status["ready"].as_bool() == Some(true));
                continue;
            }
            let waiting = str_of(&state["waiting"], "reason");
            self.reason = match terminated {
                Some(terminated) => format!("Init:{}", termination(terminated)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{index}/{}", specs.len()),
            };
            return (true, all, of_sidecars);
        }
        (false, all, of_sidecars)
    }

    fn read_containers(&mut self, pod: &Object, restarts: &mut Restarts) {
        let mut running = false;
        let mut failure = None;
        for status in pod.items(&["status", "containerStatuses"]).iter().rev() {
            restarts.add(status);
            let state = &status["state"];
            let waiting = str_of(&state["waiting"], "reason");
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if state["terminated"].is_object() {
                self.reason = termination(&state["terminated"]);
                if exit_code(&state["terminated"]) != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if status["ready"].as_bool() == Some(true) && state["running"].is_object() {
                running = true;
                self.ready += 1;
            }
        }
        // One container may be done while another still runs: then the pod is not completed.
        if self.reason == "Completed" {
            let ready = is_true_in(pod.items(&["status", "conditions"]), "Ready");
            match failure {
                _ if running && ready => self.reason = "Running".to_owned(),
                Some(failure) => self.reason = failure,
                None if running => self.reason = "NotReady".to_owned(),
                None => {}
            }
        }
    }

    fn read_deletion(&mut self, pod: &Object) {
        if !pod.is_deleting() {
            return;
        }
        if pod.str_at(&["status", "reason"]) == "NodeLost" {
            self.reason = "Unknown".to_owned();
        } else if !matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed") {
            self.reason = "Terminating".to_owned();
        }
    }
}

/// An init container that keeps running along with the others.
fn is_sidecar(container: &Value) -> bool {
    str_of(container, "restartPolicy") == "Always"
}

fn exit_code(terminated: &Value) -> i64 {
    terminated["exitCode"].as_i64().unwrap_or(0)
}

fn termination(terminated: &Value) -> String {
    let reason = str_of(terminated, "reason");
    match terminated["signal"].as_i64().unwrap_or(0) {
        _ if !reason.is_empty() => reason.to_owned(),
        0 => format!("ExitCode:{}", exit_code(terminated)),
        signal => format!("Signal:{signal}"),
    }
}

/// Names, images and labels of a PodTemplate.
pub(super) const POD_TEMPLATE: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Containers", "The containers of the template, by name."),
        text("Images", "The images of the template's containers."),
        text("Pod Labels", "The labels pods made from the template get."),
    ],
    |template, _| {
        let (names, images) = super::cells::containers(template.items(&["template", "spec", "containers"]));
        let labels = super::cells::labels(template.get(&["template", "metadata", "labels"]));
        vec![template.name().into(), names, images, labels.into()]
    },
);

/// The health of a component; for old clients.
pub(super) const COMPONENT_STATUS: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Status", "Whether the component is healthy."),
        text("Message", "What the component said."),
        text("Error", "Why the component could not be asked."),
    ],
    |component, _| {
        let conditions = component.items(&["conditions"]);
        let Some(healthy) = find_in(conditions, "Healthy") else {
            return vec![component.name().into(), "Unknown".into(), "".into(), "".into()];
        };
        let status = if healthy.is_true() { "Healthy" } else { "Unhealthy" };
        vec![component.name().into(), status.into(), healthy.message().into(), healthy.text("error").into()]
    },
);
