//! `up --host-cluster`: the control plane is a pod of a host cluster, the agents are pods of the members, and the commands of
//! Karmada's guides for pods, logs, exec and port-forward work.
//!
//! Needs root, containerd, runc and the CNI plugins; if skipped, prints what is missing.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::flotilla::{binary, programs};
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

/// The ports of Karmada's guides: registry, host cluster, members, the control plane as after `init`, and the forwarded port.
const GUIDE_PORTS: [u16; 6] = [32000, 16443, 16441, 16442, 32443, FORWARDED];
const FORWARDED: u16 = 5443;

/// Returns true if the ports of the guides are free. On a machine where one is taken the test goes on with others, and says so.
fn ports_of_guides() -> bool {
    let is_taken = |port: &&u16| std::net::TcpListener::bind(("127.0.0.1", **port)).is_err();
    let taken: Vec<&u16> = GUIDE_PORTS.iter().filter(is_taken).collect();
    if !taken.is_empty() {
        test_skip::skip(format_args!("ports {taken:?} of the guides are in use, so this test runs with other ports"));
    }
    taken.is_empty()
}

#[track_caller]
fn up(program: &Path, home: &Path, bed: &Testbed, ports: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(["up", "--host-cluster", "--members=2", "--timeout=4m", "--no-links", "--name=hosted"]);
    command.args(ports).arg("--home").arg(home);
    let output = command.env_remove("KUBECONFIG").stdin(Stdio::null()).output().expect("flotilla runs");
    let pods = bed.ask(HOST, &["-n", "karmada-system", "describe", "pods"]);
    assert!(output.status.success(), "{}\n{pods}\n{}", text(&output), bed.logs());
    text(&output)
}

/// `kubectl -n karmada-system` in a cluster.
fn system(bed: &Testbed, cluster: &str, arguments: &[&str]) -> String {
    bed.ask(cluster, &[&["-n", "karmada-system"], arguments].concat())
}

/// A guide's commands, run by a shell with the kubeconfig of a cluster. Their files in /tmp are in a directory of the test.
struct Guide<'a> {
    bed: &'a Testbed,
    directory: &'a Path,
}

impl Guide<'_> {
    fn command(&self, cluster: &str, script: &str) -> Command {
        let script = script.replace("/tmp/", &format!("{}/", self.directory.display()));
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command.args(["-o", "pipefail", "-c", &script]).current_dir(self.directory);
        command.env("PATH", format!("{}:{}:{path}", self.directory.display(), programs().display()));
        command.env("KUBECONFIG", self.bed.config(cluster)).stdin(Stdio::null());
        command
    }

    /// Returns the output of commands that must succeed.
    #[track_caller]
    fn run(&self, cluster: &str, script: &str) -> String {
        let output = self.command(cluster, script).output().expect("bash runs");
        assert!(output.status.success(), "{cluster}: {script}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts a command that goes on until it is stopped, and returns it with its first line.
    #[track_caller]
    fn follow(&self, cluster: &str, script: &str) -> (Following, String) {
        let mut command = self.command(cluster, &format!("exec {script}"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("bash runs");
        let output = child.stdout.take().expect("a pipe");
        let (sender, lines) = std::sync::mpsc::channel();
        // Ends with the command.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let following = Following(child);
        let first = lines.recv_timeout(CROSSING);
        (following, first.unwrap_or_else(|_| panic!("{cluster}: {script} prints nothing")))
    }
}

/// A command that is stopped with the test.
struct Following(Child);

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The commands of Karmada's guides for agents.
fn check_agent(guide: &Guide<'_>, member: &str) {
    let pods = guide.run(member, "kubectl -n karmada-system get pods");
    assert!(pods.contains("karmada-agent-") && pods.contains("Running"), "{member}: {pods}");
    guide.follow(member, "kubectl -n karmada-system logs -l app=karmada-agent -f");
    let secret = guide.run(member, "kubectl -n karmada-system get secret karmada-agent-kubeconfig -o yaml");
    assert!(secret.contains("karmada-kubeconfig:"), "{secret}");
    // The address that the agent uses.
    let path = r"{.data.karmada-kubeconfig}";
    let read =
        format!("kubectl -n karmada-system get secret karmada-agent-kubeconfig -o jsonpath='{path}' | base64 -d");
    let kubeconfig = guide.run(member, &read);
    let server = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("server: "));
    let server = server.unwrap_or_else(|| panic!("no server in the agent's kubeconfig")).trim_matches('"');
    let ask = format!("kubectl -n karmada-system exec -it deploy/karmada-agent -- curl -k {server}/healthz");
    assert_eq!(guide.run(member, &ask).trim(), "ok", "{member}: {ask}");
    // With the agent's own credentials.
    let ask = format!(
        "kubectl -n karmada-system exec deploy/karmada-agent -- flotilla get cluster {member} \
         --kubeconfig=/etc/kubeconfig/karmada-kubeconfig"
    );
    assert!(guide.run(member, &ask).contains(member));
}

/// The steps of the guide for the control plane: pods, log, kubeconfig, credentials of an agent, forwarded port.
fn check_plane(guide: &Guide<'_>, has_ports: bool) {
    let pods = guide.run(HOST, "kubectl -n karmada-system get pods");
    assert!(pods.contains("karmada-apiserver-0") && pods.contains("Running"), "{pods}");
    guide.follow(HOST, "kubectl -n karmada-system logs -l app=karmada-controller-manager -f");
    guide.run(
        HOST,
        "kubectl -n karmada-system get secret karmada-kubeconfig -o jsonpath='{.data.kubeconfig}' | base64 -d \
         > /tmp/karmada.kubeconfig",
    );
    let authority = guide.run(
        HOST,
        "kubectl --kubeconfig=/tmp/karmada.kubeconfig config view --raw \
         -o jsonpath='{.clusters[0].cluster.certificate-authority-data}' | base64 -d",
    );
    assert!(authority.starts_with("-----BEGIN CERTIFICATE-----"), "{authority}");
    let forward = "kubectl -n karmada-system port-forward svc/karmada-apiserver";
    let ports = if has_ports { "5443:5443" } else { ":5443" };
    let (_forward, said) = guide.follow(HOST, &format!("{forward} {ports}"));
    let address = said.split_whitespace().nth(2).unwrap_or_else(|| panic!("no address: {said}"));
    assert!(!has_ports || address == "127.0.0.1:5443", "{said}");
    assert_eq!(guide.run(HOST, &format!("curl -sk https://{address}/healthz")).trim(), "ok");
    for server in [String::new(), format!(" --server=https://{address}")] {
        let listed = guide.run(HOST, &format!("kubectl --kubeconfig=/tmp/karmada.kubeconfig get clusters{server}"));
        for member in MEMBERS {
            let line = listed.lines().find(|line| line.starts_with(member)).unwrap_or_else(|| panic!("{listed}"));
            assert!(line.contains("Pull") && line.contains("True"), "{listed}");
        }
    }
    let described = guide.run(HOST, "kubectl --kubeconfig=/tmp/karmada.kubeconfig describe cluster member1");
    assert!(described.contains("ClusterReady"), "{described}");
    guide.run(HOST, "kubectl --kubeconfig=/tmp/karmada.kubeconfig get rb -A");
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
    let has_ports = ports_of_guides();
    let ports: &[&str] = if has_ports { &[] } else { &["--port=0", "--registry-port=0", "--member-port=0"] };
    let said = up(&program, directory.path(), &bed, ports);
    assert!(said.contains("the control plane and the agents are pods too"), "{said}");
    if has_ports {
        let host = std::fs::read_to_string(bed.config(HOST)).expect("a kubeconfig");
        assert!(host.contains("https://127.0.0.1:16443"), "{host}");
        let image = std::fs::read_to_string(bed.directory().join("images/flotilla.reference")).expect("a reference");
        assert!(image.starts_with("localhost:32000/"), "{image}");
    }
    propagate(&bed);
    eprintln!("from `up --host-cluster` to the first propagated workload: {:?}", started.elapsed());
    let guide = Guide { bed: &bed, directory: directory.path() };
    check_plane(&guide, has_ports);
    for member in MEMBERS {
        check_agent(&guide, member);
    }

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
    up(&program, directory.path(), &bed, ports);
    assert_eq!(bed.status()["ready"], true);

    bed.run_ok(&["down", "--delete"]);
    let left: Vec<String> = bed.processes().into_iter().filter(|line| !line.contains("/check")).collect();
    assert_eq!(left, Vec::<String>::new());
    let mounts = std::fs::read_to_string("/proc/mounts").expect("a list of mounts");
    assert!(!mounts.contains(&bed.directory().display().to_string()), "{mounts}");
}
