//! Observability and its consumers: metrics, usage, templates, and descheduling of unschedulable replicas.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::eventually::eventually;
use e2e::fleet::{run, text};
use e2e::flotilla::{Flotilla, binary, kubectl};
use e2e::light_member::LightMember;
use e2e::member;
use e2e::raw_client::RawClient;

const LIMIT: Duration = Duration::from_secs(120);

/// A descheduler with short intervals, so that tests do not wait for minutes.
const QUICK: &[&str] = &[
    "--profiling",
    "--descheduler",
    "--descheduling-interval=1s",
    "--unschedulable-threshold=1s",
    "--cluster-status-update-frequency=1s",
    "--cluster-success-threshold=1s",
];

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, labels: {app: web}}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: 'nginx:1.27', resources: {requests: {cpu: 10m, memory: 16Mi}}}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement:
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference: {dynamicWeight: AvailableReplicas}
";

struct ObservedPlane {
    server: Flotilla,
    members: [(&'static str, LightMember); 2],
}

impl ObservedPlane {
    fn start() -> Self {
        let members = ["m1", "m2"].map(|name| (name, LightMember::start(&[])));
        let plane = Self { server: Flotilla::start_with(QUICK), members };
        for (name, member) in &plane.members {
            let kubeconfig = member.kubeconfig.to_str().expect("a path in UTF-8");
            plane.flotilla(&["join", name, "--cluster-kubeconfig", kubeconfig]);
        }
        for (name, _) in &plane.members {
            let path = r#"-o=jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
            plane.eventually("the members are ready", || plane.ask(&["get", "cluster", name, path]) == "True");
        }
        plane
    }

    #[track_caller]
    fn flotilla(&self, arguments: &[&str]) -> String {
        let output = run(&binary(), &self.server.kubeconfig, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn ask(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.server.kubectl(arguments).stdout).trim().to_owned()
    }

    fn eventually(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let waiting = std::panic::AssertUnwindSafe(|| eventually(what, LIMIT, &mut holds));
        if let Err(panic) = std::panic::catch_unwind(waiting) {
            eprintln!("bindings: {}", self.ask(&["get", "rb", "-A", "-o", "yaml"]));
            eprintln!("events: {}", self.ask(&["get", "events", "-A"]));
            std::panic::resume_unwind(panic);
        }
    }

    /// Runs the Deployment with all its replicas ready, some in each member.
    fn run_web(&self) {
        let output = member::apply(&self.server.kubeconfig, &["apply", "-f", "-"], WEB);
        assert!(output.status.success(), "{}", text(&output));
        let ready = || self.ask(&["get", "deploy", "web", "-o=jsonpath={.status.readyReplicas}"]) == "4";
        self.eventually("all replicas are ready", ready);
    }

    fn metrics(&self) -> String {
        self.ask(&["get", "--raw", "/metrics"]) + "\n"
    }
}

#[test]
fn metrics_usage_and_descheduling_work() {
    let plane = ObservedPlane::start();
    plane.run_web();
    metrics_have_karmadas_names(&plane);
    profiles_are_readable_and_protected(&plane);
    usage_includes_the_cluster(&plane);
    templates_print_what_kubectl_prints(&plane);
    unschedulable_replicas_move(&plane);
}

fn metrics_have_karmadas_names(plane: &ObservedPlane) {
    let metrics = plane.metrics();
    let expected = [
        "cluster_ready_state{member_cluster=\"m1\"} 1",
        "cluster_node_number{member_cluster=\"m2\"}",
        "cluster_cpu_allocatable_number{member_cluster=\"m1\"}",
        "cluster_sync_status_duration_seconds_count{member_cluster=\"m1\"}",
        "policy_apply_attempts_total{result=\"success\"}",
        "resource_match_policy_duration_seconds_bucket{le=\"0.001\"}",
        "resource_apply_policy_duration_seconds_count{result=\"success\"}",
        "binding_sync_work_duration_seconds_count{result=\"success\"}",
        "work_sync_workload_duration_seconds_count{result=\"success\"}",
        "create_resource_to_cluster{result=\"success\",apiversion=\"apps/v1\",kind=\"Deployment\",member_cluster=\"m1\",recreate=\"false\"} 1",
        "karmada_scheduler_schedule_attempts_total{result=\"scheduled\",schedule_type=\"ReconcileSchedule\"}",
        "karmada_scheduler_e2e_scheduling_duration_seconds_count{result=\"scheduled\",schedule_type=\"ReconcileSchedule\"}",
        "karmada_scheduler_scheduling_algorithm_duration_seconds_count{schedule_step=\"AssignReplicas\"}",
        "karmada_scheduler_queue_incoming_bindings_total{event=\"BindingAdd\"}",
        "scheduler_pending_bindings{queue=\"active\"} 0",
        "workqueue_adds_total{name=\"execution-controller\",controller=\"execution-controller\"}",
        "controller_runtime_reconcile_total{controller=\"resource-detector\",result=\"success\"}",
        "karmada_build_info{",
        "apiserver_request_total{",
    ];
    for line in expected {
        assert!(metrics.lines().any(|found| found.starts_with(line)), "{line} is not in\n{metrics}");
    }
    let Some(promtool) = found_on_path("promtool") else {
        test_skip::skip("promtool is not installed, so the format of the metrics is not checked");
        return;
    };
    let complaints = complaints(&promtool, &metrics);
    // Names are Karmada's, as used by dashboards.
    let of_karmada = ["create_resource_to_cluster", "update_resource_to_cluster", "delete_resource_from_cluster"];
    let ours: Vec<&str> =
        complaints.lines().filter(|line| !of_karmada.iter().any(|name| line.starts_with(name))).collect();
    assert!(ours.is_empty(), "{ours:?}");
}

fn found_on_path(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn complaints(promtool: &Path, metrics: &str) -> String {
    use std::io::Write;
    let mut command = Command::new(promtool);
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool runs");
    child.stdin.take().expect("a pipe").write_all(metrics.as_bytes()).expect("promtool reads");
    text(&child.wait_with_output().expect("promtool ends"))
}

fn usage_includes_the_cluster(plane: &ObservedPlane) {
    let rows = |text: &str| -> Vec<Vec<String>> {
        text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let pods = rows(&plane.flotilla(&["top", "pods", "-l", "app=web"]));
    assert_eq!(pods[0], ["NAME", "CLUSTER", "CPU(cores)", "MEMORY(bytes)"]);
    assert_eq!(pods.len(), 5, "{pods:?}");
    for cluster in ["m1", "m2"] {
        assert!(pods.iter().any(|row| row[1] == cluster), "{pods:?}");
    }
    let nodes = rows(&plane.flotilla(&["top", "nodes", "--clusters", "m2"]));
    assert_eq!(nodes[0], ["NAME", "CLUSTER", "CPU(cores)", "CPU%", "MEMORY(bytes)", "MEMORY%"]);
    assert!(nodes.len() > 1 && nodes[1..].iter().all(|row| row[1] == "m2" && row[3].ends_with('%')), "{nodes:?}");
    let clusters = rows(&plane.flotilla(&["top", "clusters", "--no-headers"]));
    assert_eq!(clusters.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["m1", "m2"]);
}

fn profiles_are_readable_and_protected(plane: &ObservedPlane) {
    let profile = "/debug/pprof/profile?seconds=3";
    let kubeconfig = plane.server.kubeconfig.clone();
    // Tried again if the other one is first.
    let recording = std::thread::spawn(move || {
        let mut recorded = kubectl(&kubeconfig, &["get", "--raw", profile]);
        eventually("a profile is recorded", LIMIT, || {
            if !recorded.status.success() {
                recorded = kubectl(&kubeconfig, &["get", "--raw", profile]);
            }
            recorded.status.success()
        });
        recorded
    });
    plane.eventually("a second profile is refused", || {
        let second = text(&plane.server.kubectl(&["get", "--raw", "/debug/pprof/profile?seconds=1"]));
        second.contains("another CPU profile")
    });
    // Handshakes are the load that is recorded.
    let anonymous = RawClient::of(&plane.server);
    while !recording.is_finished() {
        let _ = anonymous.get("/healthz");
    }
    let recorded = recording.join().expect("kubectl ends");
    assert!(recorded.status.success(), "{}", text(&recorded));
    let file = plane.server.data_dir.join("cpu.pprof");
    std::fs::write(&file, &recorded.stdout).expect("written");
    match found_on_path("go") {
        None => test_skip::skip("go is not installed, so the format of the profile is not checked"),
        Some(go) => {
            let read = Command::new(go).args(["tool", "pprof", "-raw"]).arg(&file).output().expect("go runs");
            let read = text(&read);
            for expected in
                ["PeriodType: cpu nanoseconds", "Period: 10000000", "samples/count cpu/nanoseconds", "tokio::"]
            {
                assert!(read.contains(expected), "{expected}: {}", read.chars().take(4000).collect::<String>());
            }
            assert!(!read.contains("perf_signal_handler"), "frames of the profiler are left out");
        }
    }

    let fails = |arguments: &[&str], expected: &str| {
        let answer = text(&plane.server.kubectl(arguments));
        assert!(answer.contains(expected), "{arguments:?}: {answer}");
    };
    fails(&["get", "--raw", "/debug/pprof/heap"], "mimalloc");
    fails(&["get", "--raw", "/debug/pprof/profile?seconds=1000"], "from 1 to 300");
    fails(&["get", "--raw", "/debug/pprof/profile", "--as=ann"], "forbidden");
    let role = ["create", "clusterrole", "profiles", "--verb=get", "--non-resource-url=/debug/pprof/*"];
    assert!(plane.server.kubectl(&role).status.success());
    let binding = ["create", "clusterrolebinding", "profiles", "--clusterrole=profiles", "--user=ann"];
    assert!(plane.server.kubectl(&binding).status.success());
    plane.eventually("the role holds", || {
        plane.ask(&["get", "--raw", "/debug/pprof/", "--as=ann"]).contains("CPU profile")
    });
    let refused = anonymous.get(profile).expect("an answer").code;
    assert!(matches!(refused, 401 | 403), "{refused}");
}

/// Compared with kubectl.
fn templates_print_what_kubectl_prints(plane: &ObservedPlane) {
    let templates = [
        "{{.metadata.name}} {{.spec.replicas}} {{.metadata.missing}}{{\"\\n\"}}",
        "{{range .spec.template.spec.containers}}{{.name}}={{.image}}{{end}}",
        "{{range $key, $value := .metadata.labels}}{{$key}}:{{$value}};{{end}}",
        "{{.metadata.labels}} {{.spec.template.spec.containers}}",
        "{{if eq .kind \"Deployment\"}}yes{{else}}no{{end}} {{with .spec.selector}}{{.matchLabels.app}}{{end}}",
        "{{printf \"%s|%-8s|%v|%d\" .metadata.name .kind .spec.replicas .spec.replicas}}",
        "{{len .spec.template.spec.containers}} {{index .spec.template.spec.containers 0 \"name\"}}",
        "{{- $n := .metadata.name -}} {{$n}} {{ print 1 2 \"a\" }}",
        "{{range $i, $c := .status.conditions}}{{if $i}},{{end}}{{$c.type}}={{.status}}{{else}}none{{end}}",
        "{{\"c2VjcmV0\" | base64decode}} {{and .metadata.name .kind}} {{or .missing .kind}} {{not .missing}}",
        "{{gt .spec.replicas 2}} {{ne .kind \"Pod\"}} {{1000000}} {{1e6}} {{1234567.5}} {{0.00001}}",
        "{{define \"one\"}}<{{.}}>{{end}}{{template \"one\" .metadata.name}}",
    ];
    for template in templates {
        let form = format!("-o=go-template={template}");
        let theirs = plane.server.kubectl(&["get", "deploy", "web", &form]);
        assert!(theirs.status.success(), "{template}: {}", text(&theirs));
        let ours = plane.flotilla(&["get", "deploy", "web", &form]);
        assert_eq!(ours, String::from_utf8_lossy(&theirs.stdout), "{template}");
    }
    let list = "--template={{range .items}}{{.metadata.name}} {{end}}";
    let theirs = plane.ask(&["get", "deploy", list]);
    assert_eq!(plane.flotilla(&["get", "deploy", list]).trim(), theirs);
}

fn unschedulable_replicas_move(plane: &ObservedPlane) {
    let (_, full) = &plane.members[0];
    let nodes = full.expect_kubectl(&["get", "nodes", "-o=jsonpath={.items[*].metadata.name}"]);
    let mut cordon = vec!["cordon"];
    cordon.extend(nodes.split_whitespace());
    full.expect_kubectl(&cordon);
    full.expect_kubectl(&["delete", "pods", "-l", "app=web", "--wait=false"]);
    let (_, other) = &plane.members[1];
    let path = "-o=jsonpath={.status.readyReplicas}";
    plane.eventually("all replicas are ready in m2", || other.ask(&["get", "deploy", "web", path]) == "4");
    let reason = "--field-selector=reason=DescheduleBindingSucceed";
    let message = plane.ask(&["get", "events", reason, "-o=jsonpath={.items[0].message}"]);
    assert!(message.starts_with("Binding has been descheduled, ") && message.contains("cluster(m1)"), "{message}");
}
