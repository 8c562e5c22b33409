//! Pods over time: each case is a pod and its expected status at some moments after its creation.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::Timestamp;
use object::Object;
use serde_json::{Value, json};

use super::*;
use crate::settings::{Delays, SimulatedNodeSettings};

/// A node with one pod, and a clock.
struct SimulatedPod {
    pod: Object,
    settings: SimulatedNodeSettings,
    marks: PodTimestamps,
    now: Timestamp,
    ended: HashMap<String, i32>,
    events: Vec<String>,
    writes: usize,
    is_gone: bool,
}

impl SimulatedPod {
    fn new(annotations: Value, spec: Value) -> Self {
        let pod = json!({"metadata": {"name": "p", "namespace": "a", "uid": "u", "annotations": annotations},
            "spec": spec, "status": {"phase": "Pending", "qosClass": "BestEffort"}});
        let mut pod = Object::from_value(pod).expect("a map");
        if pod.str_at(&["spec", "restartPolicy"]).is_empty() {
            pod.set(&["spec", "restartPolicy"], "Always");
        }
        Self {
            pod,
            settings: SimulatedNodeSettings::default(),
            marks: PodTimestamps::default(),
            now: "2026-01-01T00:00:00.250Z".parse().expect("a time"),
            ended: HashMap::new(),
            events: Vec::new(),
            writes: 0,
            is_gone: false,
        }
    }

    fn decide(&mut self) -> Option<Timestamp> {
        let known = DecisionInputs {
            settings: &self.settings,
            now: self.now,
            host_ip: Ipv4Addr::new(172, 18, 0, 2),
            pod_ip: Some(Ipv4Addr::new(10, 64, 0, 2)),
            marks: &self.marks,
            ended: &self.ended,
        };
        let decision = decide(&known, &self.pod);
        if let Some(status) = decision.status {
            self.pod.set(&["status"], status);
            self.writes += 1;
        }
        self.marks = decision.marks;
        self.is_gone = decision.is_gone;
        self.events.extend(decision.events.into_iter().map(|event| event.reason.to_owned()));
        decision.wake
    }

    /// Advances the time, deciding whenever a decision requested it.
    fn pass(&mut self, length: Duration) -> &mut Self {
        let end = plus(self.now, length);
        let mut rounds = 0;
        while let Some(wake) = self.decide() {
            assert!(wake > self.now, "an immediate wake-up would never end");
            rounds += 1;
            assert!(rounds < 1000, "too many wake-ups");
            if wake > end {
                break;
            }
            self.now = wake;
        }
        self.now = end;
        self.decide();
        self
    }

    fn phase(&self) -> &str {
        self.pod.str_at(&["status", "phase"])
    }

    /// For example `running`, `waiting:CrashLoopBackOff` or `terminated:3`.
    fn state(&self, list: &str, index: usize) -> String {
        let status = &self.pod.items(&["status", list])[index];
        let state = &status["state"];
        if let Some(waiting) = state.get("waiting") {
            return format!("waiting:{}", waiting["reason"].as_str().unwrap_or_default());
        }
        match state.get("terminated") {
            Some(end) => format!("terminated:{}", end["exitCode"]),
            None => "running".to_owned(),
        }
    }

    fn main(&self) -> String {
        self.state("containerStatuses", 0)
    }

    fn condition(&self, kind: &str) -> &str {
        let conditions = self.pod.items(&["status", "conditions"]);
        conditions.iter().find(|c| c["type"] == kind).and_then(|c| c["status"].as_str()).unwrap_or("none")
    }

    fn restarts(&self) -> i64 {
        self.pod.items(&["status", "containerStatuses"])[0]["restartCount"].as_i64().expect("a number")
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn plain() -> Value {
    json!({"containers": [{"name": "web", "image": "nginx"}]})
}

#[test]
fn a_plain_pod_is_created_then_becomes_ready() {
    let mut world = SimulatedPod::new(json!({}), plain());
    let wake = world.decide();
    assert_eq!((world.phase(), world.main().as_str()), ("Pending", "waiting:ContainerCreating"));
    assert_eq!(wake, Some(plus(world.now, world.settings.delays.create)));
    assert_eq!(world.condition("PodReadyToStartContainers"), "False");
    world.pass(seconds(1));
    assert_eq!((world.phase(), world.main().as_str(), world.condition("Ready")), ("Running", "running", "True"));
    assert_eq!(world.pod.str_at(&["status", "podIP"]), "10.64.0.2");
    assert_eq!(world.pod.str_at(&["status", "hostIP"]), "172.18.0.2");
    assert_eq!(world.pod.str_at(&["status", "qosClass"]), "BestEffort");
    assert_eq!(world.events, ["Pulled", "Created", "Started"]);
    let writes = world.writes;
    world.pass(seconds(3600));
    assert_eq!(world.writes, writes, "an unchanged pod is not written");
    assert_eq!(world.decide(), None);
}

#[test]
fn without_delays_one_write_is_enough() {
    let mut world = SimulatedPod::new(json!({}), plain());
    world.settings.delays = Delays::none();
    world.decide();
    assert_eq!((world.writes, world.phase(), world.condition("Ready")), (1, "Running", "True"));
}

#[test]
fn readiness_waits_for_the_probe() {
    let probe = json!({"initialDelaySeconds": 5});
    let spec = json!({"containers": [{"name": "web", "image": "nginx", "readinessProbe": probe}]});
    let mut world = SimulatedPod::new(json!({}), spec);
    assert_eq!(world.pass(seconds(4)).condition("Ready"), "False");
    assert_eq!(world.phase(), "Running");
    assert_eq!(world.pass(seconds(3)).condition("Ready"), "True");
}

#[test]
fn init_containers_run_in_order_and_sidecars_stay() {
    let spec = json!({
        "initContainers": [
            {"name": "first", "image": "i", "command": ["sh", "-c", "sleep 10"]},
            {"name": "proxy", "image": "p", "restartPolicy": "Always"},
            {"name": "last", "image": "i"}],
        "containers": [{"name": "web", "image": "nginx"}]});
    let mut world = SimulatedPod::new(json!({}), spec);
    world.pass(seconds(5));
    assert_eq!((world.phase(), world.main().as_str()), ("Pending", "waiting:PodInitializing"));
    assert_eq!(world.state("initContainerStatuses", 0), "running");
    assert_eq!(world.state("initContainerStatuses", 1), "waiting:PodInitializing");
    assert_eq!(world.condition("Initialized"), "False");
    world.pass(seconds(10));
    let states: Vec<String> = (0..3).map(|index| world.state("initContainerStatuses", index)).collect();
    assert_eq!(states, ["terminated:0", "running", "terminated:0"]);
    assert_eq!((world.phase(), world.condition("Initialized"), world.condition("Ready")), ("Running", "True", "True"));
}

#[test]
fn a_failed_init_container_fails_a_pod_that_never_restarts() {
    let init = json!([{"name": "first", "image": "i", "command": ["false"]}]);
    let spec = json!({"restartPolicy": "Never", "initContainers": init, "containers": [{"name": "c", "image": "i"}]});
    let mut world = SimulatedPod::new(json!({}), spec);
    world.pass(seconds(5));
    assert_eq!((world.phase(), world.main().as_str()), ("Failed", "waiting:PodInitializing"));
}

#[test]
fn a_job_completes() {
    let cases = [
        (json!({}), json!(["echo", "hi"]), "Never", "Succeeded", "terminated:0"),
        (json!({}), json!(["unknown-program"]), "Never", "Succeeded", "terminated:0"),
        (json!({}), json!(["sh", "-c", "exit 3"]), "Never", "Failed", "terminated:3"),
        (json!({"flotilla.dev/exit-code": "7"}), json!([]), "Never", "Failed", "terminated:7"),
        (json!({"flotilla.dev/run-for": "1h"}), json!([]), "Never", "Running", "running"),
        (json!({}), json!(["sh", "-c", "exit 3"]), "OnFailure", "Running", "waiting:CrashLoopBackOff"),
        (json!({"flotilla.dev/simulate": "oom"}), json!([]), "Never", "Failed", "terminated:137"),
    ];
    for (annotations, command, policy, phase, state) in cases {
        let container = json!({"name": "c", "image": "i", "command": command});
        let mut world =
            SimulatedPod::new(annotations.clone(), json!({"restartPolicy": policy, "containers": [container]}));
        world.pass(seconds(8));
        assert_eq!((world.phase(), world.main().as_str()), (phase, state), "{annotations} {command} {policy}");
    }
}

#[test]
fn sidecars_end_with_their_job() {
    let spec = json!({"restartPolicy": "Never",
        "initContainers": [{"name": "proxy", "image": "p", "restartPolicy": "Always"}],
        "containers": [{"name": "c", "image": "i", "command": ["sleep", "2"]}]});
    let mut world = SimulatedPod::new(json!({}), spec);
    world.pass(seconds(5));
    assert_eq!((world.phase(), world.state("initContainerStatuses", 0).as_str()), ("Succeeded", "terminated:0"));
}

#[test]
fn crashes_are_restarted_with_backoff() {
    let mut world = SimulatedPod::new(json!({"flotilla.dev/simulate": "crash"}), plain());
    world.pass(seconds(5));
    assert_eq!((world.phase(), world.main().as_str()), ("Running", "waiting:CrashLoopBackOff"));
    assert_eq!((world.restarts(), world.condition("Ready")), (1, "False"));
    let status = &world.pod.items(&["status", "containerStatuses"])[0];
    assert_eq!(status["state"]["waiting"]["message"], "back-off 10s restarting failed container=web pod=p_a(u)");
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(world.pass(seconds(10)).restarts(), 2);
    assert_eq!(world.pass(seconds(15)).restarts(), 2);
    assert_eq!(world.pass(seconds(10)).restarts(), 3);
    assert!(world.events.contains(&"BackOff".to_owned()));
}

#[test]
fn faults_are_reported_as_by_a_kubelet() {
    let cases = [
        ("not-ready", "Running", "running", "False"),
        ("hang", "Running", "running", "True"),
        ("image-pull-error", "Pending", "waiting:ImagePullBackOff", "False"),
        ("stuck", "Pending", "waiting:ContainerCreating", "False"),
        ("fail", "Failed", "terminated:1", "False"),
        ("oom", "Running", "waiting:CrashLoopBackOff", "False"),
        ("other=crash", "Running", "running", "True"),
    ];
    for (fault, phase, state, ready) in cases {
        let mut world = SimulatedPod::new(json!({"flotilla.dev/simulate": fault}), plain());
        world.pass(seconds(6));
        assert_eq!((world.phase(), world.main().as_str(), world.condition("Ready")), (phase, state, ready), "{fault}");
    }
}

#[test]
fn a_pod_recovers_when_its_fault_is_removed() {
    for fault in ["image-pull-error", "stuck", "not-ready"] {
        let mut world = SimulatedPod::new(json!({"flotilla.dev/simulate": fault}), plain());
        world.pass(seconds(6));
        world.pod.remove(&["metadata", "annotations"]);
        world.pass(seconds(6));
        assert_eq!((world.phase(), world.condition("Ready")), ("Running", "True"), "{fault}");
    }
}

#[test]
fn a_hanging_process_is_restarted_by_its_liveness_probe() {
    let probe = json!({"periodSeconds": 2, "failureThreshold": 2});
    let spec = json!({"containers": [{"name": "web", "image": "nginx", "livenessProbe": probe}]});
    let mut world = SimulatedPod::new(json!({"flotilla.dev/simulate": "hang"}), spec);
    world.pass(seconds(6));
    assert_eq!(world.restarts(), 1);
    assert!(world.events.contains(&"Unhealthy".to_owned()) && world.events.contains(&"Killing".to_owned()));
}

#[test]
fn a_pod_past_its_deadline_fails() {
    let mut spec = plain();
    spec["activeDeadlineSeconds"] = 5.into();
    let mut world = SimulatedPod::new(json!({}), spec);
    assert_eq!(world.pass(seconds(4)).phase(), "Running");
    assert_eq!(world.pass(seconds(2)).phase(), "Failed");
    assert_eq!(world.pod.str_at(&["status", "reason"]), "DeadlineExceeded");
}

#[test]
fn ending_the_process_ends_its_container() {
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "stdin": true, "command": ["sh"]}]});
    let mut world = SimulatedPod::new(json!({}), spec);
    assert_eq!(world.pass(seconds(60)).phase(), "Running");
    world.ended.insert("c".into(), 4);
    world.pass(seconds(1));
    assert_eq!((world.phase(), world.main().as_str()), ("Failed", "terminated:4"));
}

#[test]
fn deletion_waits_for_the_stop_delay() {
    let mut world = SimulatedPod::new(json!({}), plain());
    world.pass(seconds(2));
    world.pod.set(&["metadata", "deletionTimestamp"], object::time::format_seconds(plus(world.now, seconds(30))));
    world.pod.set(&["metadata", "deletionGracePeriodSeconds"], 30);
    let writes = world.writes;
    assert_eq!(world.decide(), Some(plus(world.now, world.settings.delays.stop)));
    assert!(!world.is_gone);
    world.pass(seconds(1));
    assert!(world.is_gone && world.writes == writes, "no write for a pod without finalizers");
    assert_eq!(world.events.iter().filter(|reason| *reason == "Killing").count(), 1);
}

#[test]
fn setting_the_clock_back_delays_no_pod() {
    for annotation in ["", "hang"] {
        let mut world = SimulatedPod::new(json!({"flotilla.dev/simulate": annotation}), plain());
        world.now = plus(world.now, seconds(3600));
        world.decide();
        world.now -= jiff::SignedDuration::from_secs(3600);
        assert_eq!(world.pass(seconds(2)).phase(), "Running");
        world.now = plus(world.now, seconds(3600));
        let asked = plus(world.now, seconds(30));
        world.pod.set(&["metadata", "deletionTimestamp"], object::time::format_seconds(asked));
        world.pod.set(&["metadata", "deletionGracePeriodSeconds"], 30);
        world.decide();
        world.now -= jiff::SignedDuration::from_secs(3600);
        world.pass(seconds(32));
        assert!(world.is_gone, "{annotation:?}");
    }
}

#[test]
fn a_hanging_container_is_killed_at_the_deadline() {
    let mut world = SimulatedPod::new(json!({"flotilla.dev/simulate": "hang"}), plain());
    world.pass(seconds(2));
    world.pod.set(&["metadata", "finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
    world.pod.set(&["metadata", "deletionTimestamp"], object::time::format_seconds(plus(world.now, seconds(30))));
    world.pass(seconds(20));
    assert!(!world.is_gone);
    world.pass(seconds(11));
    assert_eq!((world.is_gone, world.phase(), world.main().as_str()), (true, "Failed", "terminated:137"));
    world.pod.set(&["metadata", "deletionGracePeriodSeconds"], 0);
    world.pass(seconds(1));
    assert!(!world.is_gone, "the finalizer holds the pod");
}

#[test]
fn a_pod_resumes_from_its_status() {
    let mut world = SimulatedPod::new(json!({"flotilla.dev/simulate": "crash"}), plain());
    world.pass(seconds(5));
    world.marks = PodTimestamps::default();
    assert_eq!(world.main(), "waiting:CrashLoopBackOff");
    world.pass(seconds(10));
    assert_eq!(world.restarts(), 2);
}
