//! Members that pull: our agent and Karmada's own, against our plane and against a real Karmada plane.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use e2e::agent::Agent;
use e2e::eventually::eventually;
use e2e::fleet::{CROSSING, Fleet};
use e2e::flotilla::{Flotilla, kubectl};
use e2e::member::{self, Member};

const READY_REPLICAS: &str = "-o=jsonpath={.status.readyReplicas}";
const READY: &str = r#"-o=jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;

fn application(name: &str, clusters: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default, labels: {{app: {name}}}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers: [{{name: main, image: 'nginx:1.27'}}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: default}}
spec:
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: {name}}}]
  placement: {{clusterAffinity: {{clusterNames: [{clusters}]}}}}
"
    )
}

#[test]
fn our_agent_and_karmadas_own_pull_from_our_plane() {
    let Some(members) = Member::start_all(&["ours", "karmadas"], 1) else { return };
    let fleet = Fleet { plane: Flotilla::start(), members };
    let plane = fleet.plane.kubeconfig.clone();
    let mut ours = Agent::ours(&plane, fleet.member("ours"), &["--cluster-region", "north"]);
    let Some(_karmadas) = Agent::karmadas(&plane, fleet.member("karmadas"), &[]) else { return };
    for cluster in ["ours", "karmadas"] {
        fleet.wait_ready(cluster);
        fleet.on_plane(&["get", "cluster", cluster, "-o=jsonpath={.spec.syncMode}"], "Pull");
        let uid = fleet.member(cluster).ask(&["get", "ns", "kube-system", "-o=jsonpath={.metadata.uid}"]);
        fleet.on_plane(&["get", "cluster", cluster, "-o=jsonpath={.spec.id}"], &uid);
        fleet.on_plane(&["-n=karmada-cluster", "get", "lease", cluster, "-o=jsonpath={.spec.holderIdentity}"], cluster);
        let owner = "-o=jsonpath={.metadata.ownerReferences[0].name}";
        fleet.on_plane(&["-n=karmada-cluster", "get", "secret", cluster, owner], cluster);
    }
    fleet.on_plane(&["get", "cluster", "ours", "-o=jsonpath={.spec.region}"], "north");
    fleet.apply(&application("pulled", "ours, karmadas"));
    for cluster in ["ours", "karmadas"] {
        fleet.in_member(cluster, &["get", "deploy", "pulled", READY_REPLICAS], "2");
    }
    fleet.on_plane(&["get", "deploy", "pulled", READY_REPLICAS], "4");

    // What was changed while the agent was away is put right by the next one; the same member is no duplicate.
    assert!(ours.ended().is_none(), "{}", ours.log());
    drop(ours);
    let scaled = fleet.member("ours").kubectl(&["scale", "deploy", "pulled", "--replicas=5"]);
    assert!(scaled.status.success());
    let _again = Agent::ours(&plane, fleet.member("ours"), &["--cluster-region", "south"]);
    fleet.in_member("ours", &["get", "deploy", "pulled", "-o=jsonpath={.spec.replicas}"], "2");
    fleet.on_plane(&["get", "cluster", "ours", "-o=jsonpath={.spec.region}"], "south");

    assert!(fleet.kubectl(&["delete", "deploy", "pulled"]).status.success());
    for cluster in ["ours", "karmadas"] {
        fleet.in_member(cluster, &["get", "deploy", "pulled", "--ignore-not-found", "-o=name"], "");
    }
}

#[test]
fn a_member_that_is_registered_under_another_name_is_refused() {
    let Some(members) = Member::start_all(&["first"], 1) else { return };
    let fleet = Fleet { plane: Flotilla::start(), members };
    let _first = Agent::ours(&fleet.plane.kubeconfig, fleet.member("first"), &[]);
    fleet.wait_ready("first");
    let mut second = Agent::ours(&fleet.plane.kubeconfig, fleet.member("first"), &["--cluster-name", "second"]);
    eventually("the second agent ends", CROSSING, || second.ended().is_some());
    assert!(second.log().contains("this cluster is registered as first"), "{}", second.log());
    assert_eq!(fleet.ask(&["get", "cluster", "second", "--ignore-not-found", "-o=name"]), "");
}

const READY_REASON: &str = r#"-o=jsonpath={.status.conditions[?(@.type=="Ready")].reason}"#;

/// A lease that tells of life every two seconds, so that a test need not wait for most of a minute.
const QUICK: &[&str] = &["--cluster-lease-duration=8s", "--cluster-status-update-frequency=2s"];

#[test]
fn an_agent_outlives_its_plane_and_a_plane_notices_the_silence_of_its_agent() {
    let Some(members) = Member::start_all(&["m1"], 1) else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let grace = ["--cluster-monitor-grace-period=10s", "--cluster-monitor-period=1s"];
    let mut fleet = Fleet { plane: Flotilla::start_in(directory.path(), &grace), members };
    let agent = Agent::ours(&fleet.plane.kubeconfig, fleet.member("m1"), QUICK);
    fleet.wait_ready("m1");
    fleet.apply(&application("pulled", "m1"));
    fleet.in_member("m1", &["get", "deploy", "pulled", READY_REPLICAS], "2");

    // Without its plane the agent keeps the member as it was told, and nothing goes.
    let port = fleet.plane.port();
    fleet.plane.kill();
    let member = &fleet.members[0];
    assert!(member.kubectl(&["scale", "deploy", "pulled", "--replicas=7"]).status.success());
    eventually("what was changed is put right while the plane is away", CROSSING, || {
        member.ask(&["get", "deploy", "pulled", "-o=jsonpath={.spec.replicas}"]) == "2"
    });
    fleet.plane = Flotilla::start_at(directory.path(), port, &grace);
    fleet.on_plane(&["get", "cluster", "m1", READY], "True");
    assert!(fleet.kubectl(&["scale", "deploy", "pulled", "--replicas=3"]).status.success());
    fleet.in_member("m1", &["get", "deploy", "pulled", READY_REPLICAS], "3");

    drop(agent);
    fleet.on_plane(&["get", "cluster", "m1", READY_REASON], "ClusterStatusUnknown");
    let _again = Agent::ours(&fleet.plane.kubeconfig, fleet.member("m1"), QUICK);
    fleet.on_plane(&["get", "cluster", "m1", READY_REASON], "ClusterReady");
    fleet.in_member("m1", &["get", "deploy", "pulled", READY_REPLICAS], "3");
}

/// The real Karmada, as processes.
struct Karmada {
    directory: tempfile::TempDir,
}

impl Karmada {
    fn start() -> Option<Self> {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tools/kube/karmada/up");
        for program in ["karmada-controller-manager", "karmada-aggregated-apiserver", "karmada-webhook", "etcd"] {
            if !e2e::flotilla::programs().join(program).exists() {
                eprintln!("SKIPPED: {program} is missing; `make test` builds it");
                return None;
            }
        }
        let karmada = Self { directory: tempfile::tempdir().expect("a temporary directory") };
        let output = Command::new(script).arg(karmada.directory.path()).output().expect("the script runs");
        assert!(output.status.success(), "{}", e2e::fleet::text(&output));
        Some(karmada)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    fn ask(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&kubectl(&self.kubeconfig(), arguments).stdout).trim().to_owned()
    }
}

impl Drop for Karmada {
    fn drop(&mut self) {
        let pids = std::fs::read_to_string(self.directory.path().join("pids")).unwrap_or_default();
        for pid in pids.lines().rev().filter_map(|line| line.split_whitespace().nth(1)) {
            let _ = Command::new("kill").args(["-9", pid]).status();
        }
    }
}

fn agent_pulls_from(plane: &Path, ask: impl Fn(&[&str]) -> String, member: &Member) {
    let wait = |what: &str, arguments: &[&str], expected: &str| {
        eventually(what, Duration::from_secs(90), || ask(arguments) == expected);
    };
    wait("the cluster is ready", &["get", "cluster", &member.name, READY], "True");
    let output = member::apply(plane, &["apply", "-f", "-"], &application("pulled", &member.name));
    assert!(output.status.success(), "{}", e2e::fleet::text(&output));
    eventually("the deployment runs in the member", CROSSING, || {
        member.ask(&["get", "deploy", "pulled", READY_REPLICAS]) == "2"
    });
    wait("its status comes back", &["get", "deploy", "pulled", READY_REPLICAS], "2");
    assert!(kubectl(plane, &["delete", "deploy", "pulled"]).status.success());
    eventually("the deployment goes from the member", CROSSING, || {
        member.ask(&["get", "deploy", "pulled", "--ignore-not-found", "-o=name"]).is_empty()
    });
}

#[test]
fn our_agent_pulls_from_a_real_karmada() {
    let Some(members) = Member::start_all(&["ours"], 1) else { return };
    let Some(karmada) = Karmada::start() else { return };
    let _agent = Agent::ours(&karmada.kubeconfig(), &members[0], &[]);
    agent_pulls_from(&karmada.kubeconfig(), |arguments| karmada.ask(arguments), &members[0]);
    leaves(&karmada, &members[0]);
}

/// By our command, with the agent still at work.
fn leaves(karmada: &Karmada, member: &Member) {
    let [cluster, plane] = [member.kubeconfig(), &karmada.kubeconfig()].map(|path| path.display().to_string());
    let arguments = ["unregister", &member.name, "--cluster-kubeconfig", &cluster, "--karmada-config", &plane];
    let output = e2e::fleet::run(&e2e::flotilla::binary(), Path::new("/nonexistent"), &arguments);
    assert!(output.status.success(), "{}", e2e::fleet::text(&output));
    assert_eq!(karmada.ask(&["get", "cluster", &member.name, "--ignore-not-found", "-o=name"]), "");
    eventually("the member is as it was before", CROSSING, || {
        member.ask(&["get", "ns", "karmada-cluster", "--ignore-not-found", "-o=name"]).is_empty()
    });
}
