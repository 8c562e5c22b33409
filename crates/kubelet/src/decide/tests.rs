//! Test cases for the next actions of a pod.

use serde_json::json;

use super::*;
use crate::observed::Sandbox;
use crate::pod::pod_of;

/// `name attempt state code`, newest first: `a1:exited:3`.
fn observed(sandbox: Option<(u32, bool)>, containers: &[&str]) -> Observed {
    let sandboxes =
        sandbox.map(|(attempt, is_ready)| Sandbox { id: "s".into(), attempt, is_ready, ..Default::default() });
    let seen = |text: &&str| {
        let mut parts = text.split(':');
        let (name, attempt) = parts.next().expect("a name").split_at(1);
        let state = match parts.next().expect("a state") {
            "running" => ObservedState::Running,
            "exited" => ObservedState::Exited,
            _ => ObservedState::Created,
        };
        ObservedContainer {
            id: format!("{name}{attempt}"),
            name: name.to_owned(),
            attempt: attempt.parse().expect("a number"),
            sandbox_id: "s".into(),
            state,
            exit_code: parts.next().map_or(0, |code| code.parse().expect("a code")),
            hash: hash(&json!({"name": name, "image": "x"})),
            ..Default::default()
        }
    };
    Observed { sandboxes: sandboxes.into_iter().collect(), containers: containers.iter().map(seen).collect() }
}

struct Case {
    spec: Value,
    sandbox: Option<(u32, bool)>,
    containers: &'static [&'static str],
    busy: &'static [&'static str],
    health: BTreeMap<String, Health>,
    waits: BTreeMap<String, Duration>,
}

fn case(spec: Value, containers: &'static [&'static str]) -> Case {
    let (health, waits) = Default::default();
    Case { spec, sandbox: Some((0, true)), containers, busy: &[], health, waits }
}

/// The actions in short form: `sandbox 0; start a0; stop a0; wait a; end Done`.
fn done(case: &Case) -> String {
    let pod = pod_of(case.spec.clone());
    let observed = observed(case.sandbox, case.containers);
    let busy = case.busy.iter().map(|name| (*name).to_owned()).collect();
    let view = PodInputs {
        pod: &pod,
        observed: &observed,
        busy: &busy,
        health: &case.health,
        waits: &case.waits,
        is_past_deadline: false,
    };
    match decide(&view) {
        Next::End(end) => format!("end {:?}", end.why),
        Next::Go(work) => {
            let mut steps: Vec<String> = work.sandbox.map(|attempt| format!("sandbox {attempt}")).into_iter().collect();
            steps.extend(work.starts.iter().map(|start| format!("start {}{}", start.name, start.attempt)));
            steps.extend(work.stops.iter().map(|stop| format!("stop {}", stop.id)));
            steps.extend(work.waits.iter().map(|(name, _)| format!("wait {name}")));
            steps.join("; ")
        }
    }
}

#[track_caller]
fn check(case: Case, expected: &str) {
    assert_eq!(done(&case), expected, "{} with {:?}", case.spec, case.containers);
}

fn main_only(policy: &str) -> Value {
    json!({"restartPolicy": policy, "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]})
}

fn with_init(policy: &str) -> Value {
    json!({"restartPolicy": policy, "containers": [{"name": "a", "image": "x"}],
        "initContainers": [{"name": "i", "image": "x"}, {"name": "s", "image": "x", "restartPolicy": "Always"},
            {"name": "j", "image": "x"}]})
}

#[test]
fn a_pod_gets_a_sandbox_first_and_then_its_containers() {
    check(Case { sandbox: None, ..case(main_only("Always"), &[]) }, "sandbox 0");
    check(case(main_only("Always"), &[]), "start a0; start b0");
    check(case(main_only("Always"), &["a0:running"]), "start b0");
    check(case(main_only("Always"), &["a0:running", "b0:running"]), "");
    check(Case { busy: &["a", "b"], ..case(main_only("Always"), &[]) }, "");
}

#[test]
fn containers_lost_by_the_runtime_keep_counting_or_are_final() {
    let decided = |policy: &str, sandbox: Option<Sandbox>| {
        let mut pod = pod_of(main_only(policy));
        let ran = |name: &str| json!({"name": name, "containerID": "containerd://x", "restartCount": 4});
        pod.set(&["status", "containerStatuses"], json!([ran("a"), ran("b")]));
        let observed = Observed { sandboxes: sandbox.into_iter().collect(), containers: Vec::new() };
        let (busy, health, waits) = Default::default();
        let view = PodInputs {
            pod: &pod,
            observed: &observed,
            busy: &busy,
            health: &health,
            waits: &waits,
            is_past_deadline: false,
        };
        decide(&view)
    };
    let fresh = Sandbox { id: "s".into(), is_ready: true, ..Default::default() };
    let Next::Go(work) = decided("Always", Some(fresh)) else { panic!("the pod continues") };
    assert_eq!(work.starts[0], Start { name: "a".into(), attempt: 5 });
    assert!(matches!(decided("Never", None), Next::End(End { why: EndReason::Done, .. })));
}

#[test]
fn a_lost_sandbox_stops_its_containers() {
    let lost = Case { sandbox: Some((2, false)), ..case(main_only("Always"), &["a0:running", "b0:exited:1"]) };
    check(lost, "sandbox 3; stop a0");
}

#[test]
fn the_restart_policy_is_applied() {
    check(case(main_only("Always"), &["a0:exited:0", "b0:running"]), "start a1");
    check(case(main_only("OnFailure"), &["a0:exited:0", "b0:running"]), "");
    check(case(main_only("OnFailure"), &["a0:exited:1", "b0:running"]), "start a1");
    check(case(main_only("Never"), &["a0:exited:1", "b0:running"]), "");
    check(case(main_only("Never"), &["a0:exited:1", "b0:exited:0"]), "end Done");
    check(case(main_only("OnFailure"), &["a0:exited:0", "b0:exited:0"]), "end Done");
    let mut waiting = case(main_only("Always"), &["a1:exited:1", "b0:running"]);
    waiting.waits.insert("a".into(), Duration::from_secs(9));
    check(waiting, "wait a");
}

#[test]
fn init_containers_run_one_after_the_other_and_sidecars_stay() {
    check(case(with_init("Always"), &[]), "start i0");
    check(case(with_init("Always"), &["i0:running"]), "");
    check(case(with_init("Always"), &["i0:exited:0"]), "start s0");
    check(case(with_init("Always"), &["s0:running", "i0:exited:0"]), "start j0");
    check(case(with_init("Always"), &["j0:exited:0", "s0:running", "i0:exited:0"]), "start a0");
    check(case(with_init("Always"), &["a0:running", "s0:exited:1"]), "start s1");
    let mut starting = case(with_init("Always"), &["s0:running", "i0:exited:0"]);
    starting.health.insert("s0".into(), Health { is_starting: true, ..Default::default() });
    check(starting, "");
}

#[test]
fn a_failed_init_container_is_retried_or_fails_the_pod() {
    check(case(with_init("Always"), &["i0:exited:1"]), "start i1");
    check(case(with_init("OnFailure"), &["i0:exited:1"]), "start i1");
    check(case(with_init("Never"), &["i0:exited:1"]), "end Done");
    check(case(with_init("Never"), &["a0:exited:0", "s0:running"]), "end Done");
}

#[test]
fn an_ephemeral_container_runs_once() {
    let mut spec = main_only("Always");
    spec["ephemeralContainers"] = json!([{"name": "e", "image": "x"}]);
    check(case(spec.clone(), &["a0:running", "b0:running"]), "start e0");
    check(case(spec.clone(), &["e0:exited:1", "a0:running", "b0:running"]), "");
    spec["restartPolicy"] = "Never".into();
    check(case(spec, &["e0:running", "a0:exited:0", "b0:exited:0"]), "end Done");
}

#[test]
fn an_unhealthy_or_changed_container_is_stopped() {
    let mut unhealthy = case(main_only("Always"), &["a0:running", "b0:running"]);
    unhealthy.health.insert("b0".into(), Health { unhealthy: Some("liveness".into()), ..Default::default() });
    check(unhealthy, "stop b0");
    let mut spec = main_only("Always");
    spec["containers"][0]["image"] = "y".into();
    check(case(spec, &["a0:running", "b0:running"]), "stop a0");
}

#[test]
fn a_deleted_or_finished_pod_is_stopped() {
    let mut pod = pod_of(main_only("Always"));
    let observed = observed(Some((0, true)), &["a0:running"]);
    let (busy, health, waits) = Default::default();
    let decided = |pod: &Object, is_past_deadline| {
        decide(&PodInputs { pod, observed: &observed, busy: &busy, health: &health, waits: &waits, is_past_deadline })
    };
    let end = |why, seconds| Next::End(End { grace: Duration::from_secs(seconds), why });
    assert_eq!(decided(&pod, true), end(EndReason::PastDeadline, 30));
    pod.set(&["status", "phase"], "Failed");
    assert_eq!(decided(&pod, false), end(EndReason::Done, 30));
    pod.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    pod.set(&["metadata", "deletionGracePeriodSeconds"], 5);
    assert_eq!(decided(&pod, false), end(EndReason::Deleted, 5));
}
