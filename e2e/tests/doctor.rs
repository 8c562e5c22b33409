//! `flotilla doctor` and `flotilla prepare`: problems are found and reported with a repair that works.

use std::process::{Command, Stdio};

use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::flotilla::{Flotilla, binary};
use e2e::member;
use e2e::testbed::{CROSSING, Testbed};
use serde_json::Value;

const PLANE: &str = "karmada-apiserver";

fn examine(bed: &Testbed) -> (Value, bool) {
    let output = bed.flotilla(&["doctor", "--json"]);
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    (report, output.status.success())
}

/// Returns the findings of a layer as `subject problem`.
fn found(report: &Value, layer: &str) -> Vec<String> {
    let findings = report["findings"].as_array().cloned().unwrap_or_default();
    let of_layer = findings.iter().filter(|finding| finding["layer"] == layer);
    of_layer.map(|finding| format!("{} {}", finding["subject"], finding["what"]).replace('"', "")).collect()
}

/// Waits until the doctor reports this problem, and returns its repair.
fn wait_for(bed: &Testbed, layer: &str, what: &str) -> String {
    let mut last = Value::Null;
    let mut command = String::new();
    let label = format!("the doctor finds {what:?} in {layer}");
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        eventually(&label, CROSSING, || {
            let (report, well) = examine(bed);
            let findings = report["findings"].as_array().cloned().unwrap_or_default();
            let says = |finding: &&Value| {
                finding["layer"] == layer
                    && format!("{} {}", finding["subject"], finding["what"]).replace('"', "").contains(what)
            };
            let finding = findings.iter().find(says).cloned();
            last = report;
            command = finding.as_ref().and_then(|finding| finding["command"].as_str()).unwrap_or_default().to_owned();
            finding.is_some_and(|finding| well == (finding["severity"] == "note"))
        });
    }));
    if let Err(panic) = result {
        eprintln!("{last:#}");
        std::panic::resume_unwind(panic);
    }
    command
}

fn wait_until_well(bed: &Testbed) {
    let mut last = Value::Null;
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        eventually("the doctor finds nothing", CROSSING, || {
            let (report, well) = examine(bed);
            last = report;
            well
        });
    }));
    if let Err(panic) = result {
        eprintln!("{last:#}");
        std::panic::resume_unwind(panic);
    }
    assert_eq!(last["healthy"], true);
}

/// Runs a repair as a user would paste it.
fn paste(command: &str) {
    let binary = binary();
    let folder = binary.parent().expect("a folder").display().to_string();
    let path =
        format!("{folder}:{}:{}", e2e::flotilla::programs().display(), std::env::var("PATH").unwrap_or_default());
    let output =
        Command::new("sh").args(["-c", command]).env("PATH", path).stdin(Stdio::null()).output().expect("sh runs");
    assert!(output.status.success(), "{command}: {}", text(&output));
}

#[test]
fn problems_of_a_testbed_are_found_and_their_repairs_work() {
    let bed = Testbed::up(&["--no-registry"]);
    wait_until_well(&bed);

    // A stopped member.
    bed.run_ok(&["stop", "member1"]);
    let command = wait_for(&bed, "machines", "member1 is stopped");
    assert!(command.starts_with("flotilla start member1 "), "{command}");
    paste(&command);
    wait_until_well(&bed);

    // A kubeconfig with a wrong address.
    let config = bed.config("member2");
    let run_ok = std::fs::read_to_string(&config).expect("a kubeconfig");
    let lines = run_ok.lines().map(|line| match line.split_once("server:") {
        Some((indent, _)) => format!("{indent}server: https://127.0.0.1:1"),
        None => line.to_owned(),
    });
    std::fs::write(&config, lines.collect::<Vec<_>>().join("\n")).expect("it can be written");
    paste(&wait_for(&bed, "ports", "has the server https://127.0.0.1:1"));
    wait_until_well(&bed);

    // A partitioned member.
    bed.run_ok(&["fault", "member2", "partition"]);
    paste(&wait_for(&bed, "members", "member2 is healthy, but its forwarded port is broken"));
    wait_until_well(&bed);

    pods_are_found_with_their_events(&bed);

    // A testbed that is down.
    bed.run_ok(&["down"]);
    let command = wait_for(&bed, "machines", "the testbed is not running");
    assert!(command.starts_with("flotilla up "), "{command}");
    paste(&command);
    wait_until_well(&bed);
}

/// A pod without a kubelet keeps the status it is given.
fn pods_are_found_with_their_events(bed: &Testbed) {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: sick, namespace: default},
        spec: {schedulerName: none, containers: [{name: main, image: 'registry.invalid/none:1'}]}}";
    let event =
        "{apiVersion: v1, kind: Event, metadata: {name: sick.1, namespace: default}, type: Warning, reason: Failed,
        message: 'manifest unknown', involvedObject: {apiVersion: v1, kind: Pod, namespace: default, name: sick},
        lastTimestamp: '2026-01-01T00:00:00Z', source: {component: kubelet}}";
    for document in [pod, event] {
        let made = member::apply(&bed.config("member1"), &["create", "-f", "-"], document);
        assert!(made.status.success(), "{}", text(&made));
    }
    let status = r#"{"status":{"phase":"Pending","containerStatuses":[{"name":"main","image":"registry.invalid/none:1","imageID":"",
        "ready":false,"restartCount":0,"state":{"waiting":{"reason":"ImagePullBackOff","message":"back-off"}}}]}}"#;
    let patched =
        bed.kubectl("member1", &["patch", "pod", "sick", "--subresource=status", "--type=merge", "-p", status]);
    assert!(patched.status.success(), "{}", text(&patched));
    wait_for(
        bed,
        "pods",
        "member1: default/sick container main cannot get image registry.invalid/none:1 (ImagePullBackOff)",
    );
    let said = text(&bed.flotilla(&["doctor"]));
    assert!(said.contains("why:  Failed: manifest unknown"), "{said}");
    assert!(bed.kubectl("member1", &["delete", "pod", "sick", "--force", "--grace-period=0"]).status.success());
    wait_until_well(bed);
}

#[test]
fn an_agent_that_does_not_report_and_a_stale_token_are_found() {
    let bed = Testbed::up(&["--no-registry"]);
    wait_until_well(&bed);
    // "stale" in base64.
    let patch = r#"{"data":{"token":"c3RhbGU="}}"#;
    let secret = bed.ask(PLANE, &["get", "cluster", "member1", "-o=jsonpath={.spec.secretRef.name}"]);
    let patched = bed.kubectl(PLANE, &["patch", "secret", &secret, "-n=karmada-cluster", "--type=merge", "-p", patch]);
    assert!(patched.status.success(), "{}", text(&patched));
    wait_for(&bed, "registrations", "member1 rejects the token it was joined with");
    bed.run_ok(&["fault", "member3", "partition"]);
    wait_for(&bed, "registrations", "member3 its agent does not report");
    let (report, _) = examine(&bed);
    assert_eq!(found(&report, "registrations").len(), 2, "{report:#}");
}

#[test]
fn any_control_plane_can_be_examined_by_its_kubeconfig() {
    let plane = Flotilla::start();
    let doctor = |arguments: &[&str]| {
        let mut command = Command::new(binary());
        command.args(["doctor", "--kubeconfig"]).arg(&plane.kubeconfig).args(arguments).env_remove("FLOTILLA_HOME");
        command.stdin(Stdio::null()).output().expect("flotilla runs")
    };
    let output = doctor(&[]);
    assert!(output.status.success() && text(&output).contains("No problems found."), "{}", text(&output));
    let cluster = "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: lost},
        spec: {syncMode: Push, apiEndpoint: 'https://127.0.0.1:1', secretRef: {namespace: karmada-cluster, name: lost}}}";
    let made = member::apply(&plane.kubeconfig, &["create", "-f", "-"], cluster);
    assert!(made.status.success(), "{}", text(&made));
    let output = doctor(&["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(found(&report, "registrations"), ["lost has no credentials"]);
    plane.kill();
}

#[test]
fn prepare_prints_its_plan_and_changes_nothing() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(binary());
        command.arg("prepare").args(arguments).stdin(Stdio::null()).output().expect("flotilla runs")
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port().to_string();
    let output = run(&["--dry-run", "--json", "--ports", &port]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert_eq!((output.status.code(), &report["ready"]), (Some(1), &Value::Bool(false)), "{report:#}");
    let checks = report["checks"].as_array().cloned().unwrap_or_default();
    let taken = checks.iter().find(|check| check["name"] == port.as_str()).expect("the port was checked");
    assert!(taken["detail"].as_str().is_some_and(|detail| detail.starts_with("in use by ")), "{taken}");
    drop(listener);
    let done = report["repairs"].as_array().into_iter().flatten().any(|repair| repair["outcome"] != "would");
    assert!(!done, "{report:#}");
    let output = run(&["--dry-run", "--ports", &port]);
    assert!(output.status.success() && text(&output).contains("This host is ready."), "{}", text(&output));
}
