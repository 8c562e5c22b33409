//! Test cases for the status of a pod.

use serde_json::json;

use super::*;
use crate::observed::Sandbox;
use crate::pod::pod_of;

const SECOND: i64 = 1_000_000_000;

fn running(name: &str, attempt: u32) -> ObservedContainer {
    ObservedContainer {
        id: format!("{name}{attempt}"),
        name: name.into(),
        attempt,
        state: ObservedState::Running,
        started_at: 5 * SECOND,
        image_ref: "sha256:1".into(),
        ..Default::default()
    }
}

fn exited(name: &str, attempt: u32, exit_code: i32) -> ObservedContainer {
    ObservedContainer { state: ObservedState::Exited, exit_code, finished_at: 9 * SECOND, ..running(name, attempt) }
}

#[derive(Default)]
struct Scene {
    spec: Value,
    old: Value,
    containers: Vec<ObservedContainer>,
    health: BTreeMap<String, Health>,
    waiting: BTreeMap<String, WaitingReason>,
    termination_message: BTreeMap<String, String>,
    ending: Option<EndReason>,
}

fn scene(spec: Value, containers: Vec<ObservedContainer>) -> Scene {
    Scene { spec, containers, ..Default::default() }
}

impl Scene {
    fn status(&self) -> Value {
        let mut pod = pod_of(self.spec.clone());
        if !self.old.is_null() {
            pod.set(&["status"], self.old.clone());
        }
        let sandbox = Sandbox { id: "s".into(), is_ready: true, ..Default::default() };
        let observed = Observed { sandboxes: vec![sandbox], containers: self.containers.clone() };
        pod_status(&StatusInputs {
            pod: &pod,
            observed: &observed,
            health: &self.health,
            waiting: &self.waiting,
            termination_message: &self.termination_message,
            ending: self.ending,
            host_ip: "192.168.0.1",
            pod_ips: &["10.0.0.2".to_owned()],
            now: Timestamp::from_second(100).expect("a time"),
        })
    }

    fn phase(&self) -> String {
        self.status()["phase"].as_str().expect("a phase").to_owned()
    }
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a Value {
    let list = status["conditions"].as_array().expect("conditions");
    list.iter().find(|condition| condition["type"] == kind).expect("that condition")
}

fn one(policy: &str) -> Value {
    json!({"restartPolicy": policy, "containers": [{"name": "a", "image": "x"}]})
}

#[test]
fn a_running_pod_is_ready_with_its_addresses() {
    let status = scene(one("Always"), vec![running("a", 0)]).status();
    assert_eq!(status["phase"], "Running");
    assert_eq!((&status["podIP"], &status["hostIP"]), (&json!("10.0.0.2"), &json!("192.168.0.1")));
    for kind in ["Ready", "ContainersReady", "Initialized", "PodScheduled", "PodReadyToStartContainers"] {
        assert_eq!(condition(&status, kind)["status"], "True", "{kind}");
    }
    let entry = &status["containerStatuses"][0];
    assert_eq!(entry["state"], json!({"running": {"startedAt": "1970-01-01T00:00:05Z"}}));
    assert_eq!((&entry["ready"], &entry["containerID"]), (&json!(true), &json!("containerd://a0")));
}

#[test]
fn the_phase_follows_the_containers_and_the_policy() {
    let check = |spec: Value, containers: Vec<ObservedContainer>, expected: &str| {
        assert_eq!(scene(spec.clone(), containers.clone()).phase(), expected, "{spec} {containers:?}");
    };
    check(one("Always"), vec![], "Pending");
    check(one("Always"), vec![exited("a", 0, 1)], "Running");
    check(one("Never"), vec![exited("a", 0, 1)], "Failed");
    check(one("Never"), vec![exited("a", 0, 0)], "Succeeded");
    check(one("OnFailure"), vec![exited("a", 0, 1)], "Running");
    let with_init = |policy: &str| json!({"restartPolicy": policy, "containers": [{"name": "a"}], "initContainers": [{"name": "i"}]});
    check(with_init("Always"), vec![running("i", 0)], "Pending");
    check(with_init("Never"), vec![exited("i", 0, 3)], "Failed");
    check(with_init("Always"), vec![running("a", 0), exited("i", 0, 0)], "Running");
    let with_sidecar = json!({"restartPolicy": "Never", "containers": [{"name": "a"}],
        "initContainers": [{"name": "s", "restartPolicy": "Always"}]});
    check(with_sidecar.clone(), vec![exited("a", 0, 0), running("s", 0)], "Running");
    check(with_sidecar, vec![exited("a", 0, 0), exited("s", 0, 143)], "Succeeded");
}

#[test]
fn a_waiting_container_has_a_reason_and_its_last_state() {
    let mut scene = scene(one("Always"), vec![exited("a", 3, 7)]);
    scene.waiting.insert("a".into(), WaitingReason { reason: "CrashLoopBackOff".into(), message: "back-off".into() });
    scene.termination_message.insert("a3".into(), "goodbye".into());
    let status = scene.status();
    let entry = &status["containerStatuses"][0];
    assert_eq!(entry["state"], json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}));
    let ended = &entry["lastState"]["terminated"];
    assert_eq!(
        (&ended["exitCode"], &ended["reason"], &ended["message"]),
        (&json!(7), &json!("Error"), &json!("goodbye"))
    );
    assert_eq!(entry["restartCount"], 3);
    assert_eq!(condition(&status, "Ready")["message"], "containers with unready status: [a]");
}

#[test]
fn probes_decide_whether_a_running_container_is_ready() {
    let mut scene = scene(one("Always"), vec![running("a", 0)]);
    let mut check = |health: Health, started: bool, ready: bool| {
        scene.health.insert("a0".into(), health);
        let status = scene.status();
        let entry = &status["containerStatuses"][0];
        assert_eq!((&entry["started"], &entry["ready"]), (&json!(started), &json!(ready)));
        assert_eq!(condition(&status, "Ready")["status"], if ready { "True" } else { "False" });
    };
    check(Health { is_starting: true, is_ready: true, unhealthy: None }, false, false);
    check(Health { is_starting: false, is_ready: false, unhealthy: None }, true, false);
    check(Health { is_starting: false, is_ready: true, unhealthy: None }, true, true);
}

#[test]
fn fields_of_other_owners_are_kept() {
    let mut scene = scene(one("Always"), vec![running("a", 0)]);
    scene.spec["readinessGates"] = json!([{"conditionType": "shop/open"}]);
    scene.old = json!({"startTime": "1970-01-01T00:00:01Z", "conditions": [
        {"type": "ContainersReady", "status": "True", "lastTransitionTime": "1970-01-01T00:00:02Z"},
        {"type": "shop/open", "status": "False"}]});
    let status = scene.status();
    assert_eq!(status["startTime"], "1970-01-01T00:00:01Z");
    assert_eq!(condition(&status, "ContainersReady")["lastTransitionTime"], "1970-01-01T00:00:02Z");
    assert_eq!(condition(&status, "shop/open")["status"], "False");
    assert_eq!(condition(&status, "Ready")["reason"], "ReadinessGatesNotReady");
}

#[test]
fn a_pod_past_its_deadline_fails_once_nothing_runs() {
    let mut scene = scene(one("Always"), vec![running("a", 0)]);
    scene.ending = Some(EndReason::PastDeadline);
    assert_eq!(scene.phase(), "Running");
    scene.containers = vec![exited("a", 0, 137)];
    assert_eq!(scene.phase(), "Failed");
    assert_eq!(scene.status()["reason"], "DeadlineExceeded");
}

#[test]
fn a_lost_container_does_not_run_twice() {
    let mut scene = scene(one("Never"), vec![]);
    scene.old = json!({"phase": "Running", "containerStatuses": [{"name": "a", "containerID": "containerd://x",
        "restartCount": 0, "state": {"running": {}}, "ready": true}]});
    scene.ending = Some(EndReason::Done);
    let status = scene.status();
    assert_eq!(status["phase"], "Failed");
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["reason"], "ContainerStatusUnknown");
}

#[test]
fn the_phase_of_a_deleted_pod_follows_its_exit_codes() {
    let mut scene = scene(one("Always"), vec![exited("a", 0, 0)]);
    scene.ending = Some(EndReason::Deleted);
    assert_eq!(scene.phase(), "Succeeded");
    scene.containers = vec![exited("a", 0, 143)];
    assert_eq!(scene.phase(), "Failed");
    scene.containers = vec![];
    assert_eq!(scene.phase(), "Pending");
}
