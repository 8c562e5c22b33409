//! Failover scenarios with three pull-mode clusters and one application with a preference order. They run against any
//! fleet that implements the trait.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::eventually::eventually;
use crate::fleet::{run, text};
use crate::flotilla::{binary, kubectl};
use crate::member;
use crate::ready::{self, ReadyReplicasWatch};

pub const CLUSTER_NAMES: [&str; 3] = ["ottawa", "robbinsdale", "stpetersburg"];
pub const READY_REPLICAS: &str = "-o=jsonpath={.status.readyReplicas}";
pub const TAINTS: &str = "-o=jsonpath={.spec.taints[*].key}";
pub const PLACED: &str = "-o=jsonpath={.spec.clusters[*].name}";
pub const TASKS: &str = "-o=jsonpath={.spec.gracefulEvictionTasks[*].fromCluster}";
const UID: &str = "-o=jsonpath={.metadata.uid}";
const READY: &str = r#"-o=jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
const UNREACHABLE: &str = "cluster.karmada.io/unreachable cluster.karmada.io/unreachable";

/// Timeout for anything that crosses from the control plane to the members or back, on a busy machine.
const CROSSING: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Printed when a condition is not met.
const CLUSTERS: [&str; 3] = ["get", "clusters", "-o=yaml"];
const BINDINGS: [&str; 3] = ["get", "rb", "-o=yaml"];

/// A policy as written by a Karmada user, word for word.
pub const POLICY: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: my-app-failover
spec:
  resourceSelectors:
    - apiVersion: apps/v1
      kind: Deployment
      name: my-app
  placement:
    clusterAffinity:
      clusterNames:
        - ottawa
        - robbinsdale
        - stpetersburg
    replicaScheduling:
      replicaDivisionPreference: Weighted
      replicaSchedulingType: Divided
      weightPreference:
        staticWeightList:
          - targetCluster:
              clusterNames:
                - ottawa
            weight: 1
          - targetCluster:
              clusterNames:
                - robbinsdale
            weight: 0
          - targetCluster:
              clusterNames:
                - stpetersburg
            weight: 0
    spreadConstraints:
      - maxGroups: 1
        minGroups: 1
        spreadByField: cluster
  failover:
    application:
      decisionConditions:
        tolerationSeconds: 60
      purgeMode: Gracefully
";

pub fn deployment(name: &str, extra: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      {extra}
      containers: [{{name: main, image: 'nginx:1.27'}}]
---"
    )
}

/// The same policy for another application and toleration time.
pub fn policy_for(name: &str, patience: u32) -> String {
    let policy = POLICY.replace("my-app", name);
    policy.replace("tolerationSeconds: 60", &format!("tolerationSeconds: {patience}"))
}

/// A control plane and three clusters with their agents.
pub trait FailoverFleet {
    /// The kubeconfig of the control plane.
    fn plane(&self) -> PathBuf;
    /// The kubeconfig of a cluster, by a route that works while its agent is disconnected.
    fn member_kubeconfig(&self, name: &str) -> PathBuf;
    /// Logs of the programs, for failure messages.
    fn journal(&self) -> String;
    /// Kills the API server of a cluster for good; its agent keeps running.
    fn kill_member(&mut self, member: &str);
    fn start_member(&mut self, member: &str);
    /// Disconnects a cluster, which keeps running, from the control plane.
    fn disconnect(&mut self, member: &str);
    fn reconnect(&mut self, member: &str);
    /// Kills an agent and starts another one for the same member.
    fn replace_agent(&mut self, member: &str);
    /// Kills the control plane and restarts it on the same data; returns when it is ready.
    fn replace_plane(&mut self);

    fn kubectl(&self, arguments: &[&str]) -> Output {
        kubectl(&self.plane(), arguments)
    }

    /// Runs the flotilla CLI against this control plane.
    fn flotilla(&self, arguments: &[&str]) -> Output {
        run(&binary(), &self.plane(), arguments)
    }

    /// Returns the trimmed output of kubectl on the control plane; empty on failure.
    fn ask(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.kubectl(arguments).stdout).trim().to_owned()
    }

    fn ask_member(&self, member: &str, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&kubectl(&self.member_kubeconfig(member), arguments).stdout).trim().to_owned()
    }

    /// Runs kubectl in a cluster; it must succeed.
    fn expect_kubectl_in(&self, member: &str, arguments: &[&str]) {
        let output = kubectl(&self.member_kubeconfig(member), arguments);
        assert!(output.status.success(), "{member}: {}", text(&output));
    }

    /// Applies documents on the control plane; they must be accepted.
    fn apply(&self, documents: &str) {
        let output = member::apply(&self.plane(), &["apply", "-f", "-"], documents);
        assert!(output.status.success(), "{}\n{documents}", text(&output));
    }

    fn ready_in(&self, member: &str, name: &str) -> u32 {
        self.ask_member(member, &["get", "deploy", name, READY_REPLICAS]).parse().unwrap_or(0)
    }

    /// Waits for a condition; prints diagnostics on a timeout.
    fn wait(&self, what: &str, holds: &mut dyn FnMut() -> bool) {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| eventually(what, CROSSING, holds)));
        if let Err(panic) = result {
            eprintln!("{}\n{}\n{}", self.ask(&BINDINGS), self.ask(&CLUSTERS), self.journal());
            std::panic::resume_unwind(panic);
        }
    }

    fn on_plane(&self, arguments: &[&str], expected: &str) {
        let what = format!("kubectl {} says {expected:?}", arguments.join(" "));
        self.wait(&what, &mut || self.ask(arguments) == expected);
    }

    fn in_cluster(&self, member: &str, arguments: &[&str], expected: &str) {
        let what = format!("{member}: kubectl {} says {expected:?}", arguments.join(" "));
        self.wait(&what, &mut || self.ask_member(member, arguments) == expected);
    }

    fn is_gone_from(&self, member: &str, name: &str) {
        self.in_cluster(member, &["get", "deploy", name, "--ignore-not-found", "-o=name"], "");
    }

    /// Waits until every cluster is a ready member without taints.
    fn wait_until_ready(&self) {
        for member in CLUSTER_NAMES {
            self.on_plane(&["get", "cluster", member, READY], "True");
            self.on_plane(&["get", "cluster", member, TAINTS], "");
        }
    }

    /// Watches for a moment without a ready replica while every cluster is reachable.
    fn never_none(&self, name: &str) -> ReadyReplicasWatch {
        ReadyReplicasWatch::start(
            1,
            CLUSTER_NAMES.iter().map(|member| ready::in_cluster(&self.member_kubeconfig(member), name)).collect(),
        )
    }
}

/// Waits until the application is ready in another cluster, always with at least one ready replica.
pub fn moves(fleet: &dyn FailoverFleet, name: &str, from: &str, to: &str, limit: Duration) {
    let start = Instant::now();
    loop {
        let (old, new) = (fleet.ready_in(from, name), fleet.ready_in(to, name));
        assert!(old + new > 0, "{name} has no ready replica {:?} after leaving {from}", start.elapsed());
        if new == 2 {
            return;
        }
        if start.elapsed() > limit {
            let known = [fleet.ask(&BINDINGS), fleet.ask(&CLUSTERS), fleet.journal()];
            panic!("{name} did not move to {to} within {limit:?}:\n{}", known.join("\n"));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// From the setup to the failover test of a user: the nodes of the first cluster are cordoned, the application moves
/// after its toleration of one minute, and returns on request.
pub fn run_cordoned_cluster(fleet: &dyn FailoverFleet) {
    let clusters = fleet.ask(&["get", "clusters"]);
    for member in CLUSTER_NAMES {
        let line = clusters.lines().find(|line| line.starts_with(member)).unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(words.len() >= 4 && words[2] == "Pull" && words[3] == "True", "{clusters}");
    }
    fleet.apply(&deployment("my-app", ""));
    fleet.apply(POLICY);
    fleet.in_cluster("ottawa", &["get", "deploy", "my-app", READY_REPLICAS], "2");
    fleet.on_plane(&["get", "rb", "my-app-deployment", PLACED], "ottawa");

    let foreseen =
        fleet.flotilla(&["failover", "simulate", "--cluster", "ottawa", "-o=jsonpath={.bindings[0].to[0].name}"]);
    assert_eq!(text(&foreseen).trim(), "robbinsdale");

    let watch = fleet.never_none("my-app");
    let start = Instant::now();
    fleet.expect_kubectl_in("ottawa", &["cordon", "-l", "kubernetes.io/os=linux"]);
    moves(fleet, "my-app", "ottawa", "robbinsdale", Duration::from_secs(95));
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("cordoned to ready elsewhere: {seconds:.1} s");
    assert!((59.0..90.0).contains(&seconds), "about sixty seconds, not {seconds}");
    fleet.is_gone_from("ottawa", "my-app");
    fleet.on_plane(&["get", "rb", "my-app-deployment", PLACED], "robbinsdale");
    fleet.on_plane(&["get", "cluster", "ottawa", TAINTS], "flotilla.dev/unschedulable");

    fleet.expect_kubectl_in("ottawa", &["uncordon", "-l", "kubernetes.io/os=linux"]);
    fleet.on_plane(&["get", "cluster", "ottawa", TAINTS], "");
    scale(fleet, "robbinsdale", 3);
    scale(fleet, "robbinsdale", 2);
    let why = text(&fleet.flotilla(&["why", "deployment/my-app"]));
    assert!(why.contains("from ottawa to robbinsdale 2: the cluster has flotilla.dev/unschedulable=cordoned"), "{why}");

    let asked = ["annotate", "propagationpolicy", "my-app-failover", "flotilla.dev/failback=after=5s"];
    assert!(fleet.kubectl(&asked).status.success());
    moves(fleet, "my-app", "robbinsdale", "ottawa", CROSSING);
    fleet.is_gone_from("robbinsdale", "my-app");
    fleet.on_plane(&["get", "rb", "my-app-deployment", PLACED], "ottawa");
    watch.end();
}

/// Scales the application and checks that all replicas are in its cluster.
fn scale(fleet: &dyn FailoverFleet, member: &str, replicas: u32) {
    let replicas = replicas.to_string();
    assert!(fleet.kubectl(&["scale", "deploy", "my-app", "--replicas", &replicas]).status.success());
    fleet.in_cluster(member, &["get", "deploy", "my-app", READY_REPLICAS], &replicas);
    fleet.on_plane(&["get", "rb", "my-app-deployment", PLACED], member);
}

/// Kills members, agents and the control plane, and disconnects a cluster: the application keeps running.
pub fn run_crashes_and_partitions(fleet: &mut dyn FailoverFleet) {
    fleet.apply(&deployment("my-app", ""));
    fleet.apply(&policy_for("my-app", 5));
    fleet.in_cluster("ottawa", &["get", "deploy", "my-app", READY_REPLICAS], "2");

    let watch = fleet.never_none("my-app");
    killed_member(fleet);
    disconnected_member(fleet, "robbinsdale", "ottawa", |_| {});
    killed_agent(fleet, "ottawa");
    // The restarted control plane continues the failover.
    disconnected_member(fleet, "ottawa", "robbinsdale", |fleet| fleet.replace_plane());
    watch.end();
}

/// The member itself is killed: its agent reports it, and the application moves to the next cluster. After recovery
/// the member is cleaned up.
fn killed_member(fleet: &mut dyn FailoverFleet) {
    fleet.kill_member("ottawa");
    fleet.in_cluster("robbinsdale", &["get", "deploy", "my-app", READY_REPLICAS], "2");
    fleet.on_plane(&["get", "rb", "my-app-deployment", PLACED], "robbinsdale");
    fleet.start_member("ottawa");
    fleet.on_plane(&["get", "cluster", "ottawa", TAINTS], "");
    fleet.is_gone_from("ottawa", "my-app");
    assert_eq!(fleet.ready_in("robbinsdale", "my-app"), 2);
    // Its controllers need some time to notice that their API server is back.
    let probe = member::apply(&fleet.member_kubeconfig("ottawa"), &["apply", "-f", "-"], &deployment("probe", ""));
    assert!(probe.status.success(), "{}", text(&probe));
    fleet.in_cluster("ottawa", &["get", "deploy", "probe", READY_REPLICAS], "2");
}

/// A disconnected cluster keeps its replicas, and loses them only after it is connected again. `meanwhile` runs while
/// the application is about to move.
fn disconnected_member(fleet: &mut dyn FailoverFleet, from: &str, to: &str, meanwhile: fn(&mut dyn FailoverFleet)) {
    let uid = ["get", "deploy", "my-app", UID];
    let copy = fleet.ask_member(from, &uid);
    fleet.disconnect(from);
    fleet.on_plane(&["get", "cluster", from, TAINTS], UNREACHABLE);
    let noticed = Instant::now();
    meanwhile(fleet);
    moves(fleet, "my-app", from, to, CROSSING);
    eprintln!("unreachable to ready elsewhere: {:.1} s with 5 s of patience", noticed.elapsed().as_secs_f64());
    fleet.on_plane(&["get", "rb", "my-app-deployment", TASKS], "");
    assert_eq!(fleet.ask_member(from, &uid), copy, "a disconnected cluster keeps its replicas");
    assert_eq!(fleet.ready_in(from, "my-app"), 2);
    fleet.reconnect(from);
    fleet.is_gone_from(from, "my-app");
    fleet.on_plane(&["get", "cluster", from, TAINTS], "");
    assert_eq!(fleet.ready_in(to, "my-app"), 2);
}

/// A restarted agent resumes without deleting anything.
fn killed_agent(fleet: &mut dyn FailoverFleet, member: &str) {
    let uid = ["get", "deploy", "my-app", UID];
    let copy = fleet.ask_member(member, &uid);
    fleet.replace_agent(member);
    scale(fleet, member, 3);
    scale(fleet, member, 2);
    assert_eq!(fleet.ask_member(member, &uid), copy, "the replicas are unchanged");
    fleet.on_plane(&["get", "cluster", member, TAINTS], "");
}

/// Like `kill` in a shell.
pub fn signal(pid: u64, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().expect("kill runs").success());
}
