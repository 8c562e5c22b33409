//! `up --host-cluster`: the control plane is a pod of a host cluster, the agents are pods of the members, and the commands of
//! Karmada's guides for pods, logs, exec and port-forward work.
//!
//! Needs root, containerd, runc and the CNI plugins; if skipped, prints what is missing.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::flotilla::{binary, kubectl, programs};
use e2e::testbed::{CROSSING, Testbed};

const MEMBERS: [&str; 2] = ["member1", "member2"];
const PLANE: &str = "karmada-apiserver";
const HOST: &str = "host";

/// Returns the reason why containers cannot run here, with the check of `up` itself.
fn missing(home: &Path) -> Option<String> {
    let bed = Testbed::at(home, "check");
    let flags = ["--runtime=containerd", "--members=0", "--no-registry", "--no-links", "--port=0"];
    let checked = bed.flotilla(&[&["up"], &flags[..]].concat());
    let strip = Command::new("strip").arg("--version").output();
    match (checked.status.success(), strip) {
        (false, _) => Some(text(&checked).trim().to_owned()),
        (true, Err(_)) => Some("strip is not installed".to_owned()),
        (true, Ok(_)) => None,
    }
}

/// The program without symbols: it is copied into four image stores.
fn stripped(directory: &Path) -> PathBuf {
    let program = directory.join("flotilla");
    let stripped = Command::new("strip").arg("-o").arg(&program).arg(binary()).output().expect("strip runs");
    assert!(stripped.status.success(), "{}", text(&stripped));
    program
}

#[track_caller]
fn up(program: &Path, home: &Path, bed: &Testbed) -> String {
    let mut command = Command::new(program);
    command.args(["up", "--host-cluster", "--members=2", "--timeout=4m", "--no-links", "--name=hosted"]);
    command.args(["--port=0", "--registry-port=0", "--member-port=0", "--home"]).arg(home);
    let output = command.env_remove("KUBECONFIG").stdin(Stdio::null()).output().expect("flotilla runs");
    let pods = bed.ask(HOST, &["-n", "karmada-system", "describe", "pods"]);
    assert!(output.status.success(), "{}\n{pods}\n{}", text(&output), bed.logs());
    text(&output)
}

/// `kubectl -n karmada-system` in a cluster.
fn system(bed: &Testbed, cluster: &str, arguments: &[&str]) -> String {
    bed.ask(cluster, &[&["-n", "karmada-system"], arguments].concat())
}

/// The commands of Karmada's guides for agents.
fn check_agent(bed: &Testbed, member: &str) {
    let pods = system(bed, member, &["get", "pods"]);
    assert!(pods.contains("karmada-agent-") && pods.contains("Running"), "{member}: {pods}");
    eventually("the agent logs", CROSSING, || {
        !system(bed, member, &["logs", "-l", "app=karmada-agent", "--tail=1"]).is_empty()
    });
    // The image has no shell and no curl: the program itself asks the control plane.
    let own = ["--kubeconfig=/etc/kubeconfig/karmada-kubeconfig"];
    let ask = [&["exec", "deploy/karmada-agent", "--", "flotilla", "get", "cluster", member], &own[..]].concat();
    let said = system(bed, member, &ask);
    assert!(said.contains(member), "{member}: {said}");
    let secret = system(bed, member, &["get", "secret", "karmada-agent-kubeconfig", "-o=yaml"]);
    assert!(secret.contains("karmada-kubeconfig:"), "{secret}");
}

/// Reads the kubeconfig from the Secret of the host cluster, and uses it through a forwarded port of the Service.
fn check_port_forward(bed: &Testbed, directory: &Path) {
    let path = "-o=jsonpath={.data.kubeconfig}";
    let encoded = system(bed, HOST, &["get", "secret", "karmada-kubeconfig", path]);
    let file = directory.join("karmada.kubeconfig");
    let decode = format!("echo {encoded} | base64 -d > {}", file.display());
    assert!(Command::new("sh").args(["-c", &decode]).status().expect("sh runs").success());
    let mut forward = Command::new(programs().join("kubectl"))
        .arg("--kubeconfig")
        .arg(bed.config(HOST))
        .args(["-n", "karmada-system", "port-forward", "svc/karmada-apiserver", ":5443"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("kubectl runs");
    let mut said = String::new();
    let mut words = BufReader::new(forward.stdout.take().expect("a pipe"));
    words.read_line(&mut said).expect("a line with the address");
    let address = said.split_whitespace().nth(2).unwrap_or_else(|| panic!("no address: {said}"));
    let server = format!("--server=https://{address}");
    for server in [&[][..], &[server.as_str()]] {
        let listed = kubectl(&file, &[&["get", "clusters"], server].concat());
        let listed = text(&listed);
        for member in MEMBERS {
            let line = listed.lines().find(|line| line.starts_with(member)).unwrap_or_else(|| panic!("{listed}"));
            assert!(line.contains("Pull") && line.contains("True"), "{listed}");
        }
    }
    let _ = forward.kill();
    let _ = forward.wait();
}

/// A Deployment with the only image that is there: a registry that listens in its pod.
fn propagate(bed: &Testbed) {
    let image = std::fs::read_to_string(bed.directory().join("images/flotilla.reference")).expect("a reference");
    let command = "[flotilla, registry, '--bind=127.0.0.1:5000', --data-dir=/tmp/registry]";
    bed.apply(&format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: default}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers: [{{name: web, image: '{image}', command: {command}}}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: web, namespace: default}}
spec:
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: web}}]
  placement: {{clusterAffinity: {{clusterNames: [member1, member2]}}}}
"
    ));
    bed.wait(PLANE, &["get", "deploy", "web", "-o=jsonpath={.status.readyReplicas}"], "2");
}

#[test]
fn the_control_plane_and_the_agents_run_as_pods() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    if let Some(missing) = missing(directory.path()) {
        test_skip::skip(format_args!("{missing}; run `make test` as root to install it"));
        return;
    }
    let program = stripped(directory.path());
    let bed = Testbed::at(directory.path(), "hosted");
    let started = std::time::Instant::now();
    let said = up(&program, directory.path(), &bed);
    assert!(said.contains("the control plane and the agents are pods too"), "{said}");
    let pods = system(&bed, HOST, &["get", "pods"]);
    assert!(pods.contains("karmada-apiserver-0") && pods.contains("Running"), "{pods}");
    assert!(!system(&bed, HOST, &["logs", "-l", "app=karmada-apiserver", "--tail=1"]).is_empty());
    for member in MEMBERS {
        check_agent(&bed, member);
    }
    propagate(&bed);
    eprintln!("from `up --host-cluster` to the first propagated workload: {:?}", started.elapsed());
    check_port_forward(&bed, directory.path());

    let status = bed.status();
    assert_eq!(status["ready"], true, "{status}");
    assert_eq!(bed.part("karmada")["role"], "control plane (pod)");
    assert_eq!(bed.part("member1-agent")["state"], "Running");
    let doctor = bed.flotilla(&["doctor"]);
    assert!(doctor.status.success(), "{}", text(&doctor));
    let refused = bed.flotilla(&["fault", "member1", "partition"]);
    assert!(!refused.status.success() && text(&refused).contains("they are pods"), "{}", text(&refused));

    // An agent that is gone is reported, and `up` repairs it.
    system(&bed, "member1", &["delete", "deploy", "karmada-agent"]);
    eventually("the agent is missing", CROSSING, || bed.part("member1-agent")["state"] == "Missing");
    let doctor = text(&bed.flotilla(&["doctor"]));
    assert!(doctor.contains("member1-agent"), "{doctor}");
    up(&program, directory.path(), &bed);
    assert_eq!(bed.status()["ready"], true);

    bed.run_ok(&["down", "--delete"]);
    let left: Vec<String> = bed.processes().into_iter().filter(|line| !line.contains("/check")).collect();
    assert_eq!(left, Vec::<String>::new());
    let mounts = std::fs::read_to_string("/proc/mounts").expect("a list of mounts");
    assert!(!mounts.contains(&bed.directory().display().to_string()), "{mounts}");
}
