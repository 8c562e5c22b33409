//! A control plane with real members joined to it.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::eventually::eventually;
use crate::flotilla::{Flotilla, binary};
use crate::member::{self, Member};

/// Timeout for anything that crosses from the control plane to the members or back.
pub const CROSSING: Duration = Duration::from_secs(60);

/// The Ready condition of a cluster or a node.
pub const READY: &str = r#"-o=jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
/// The ready replicas of a workload.
pub const READY_REPLICAS: &str = "-o=jsonpath={.status.readyReplicas}";

pub struct Fleet {
    pub plane: Flotilla,
    pub members: Vec<Member>,
}

impl Fleet {
    /// `None` if the real programs are not installed.
    pub fn start(names: &[&str], arguments: &[&str]) -> Option<Self> {
        let members = Member::start_all(names, 2)?;
        Some(Self::of(Flotilla::start_with(arguments), members))
    }

    /// Starts the control plane on a directory of the caller, to restart it on the same data.
    pub fn start_in(names: &[&str], data_dir: &Path) -> Option<Self> {
        let members = Member::start_all(names, 2)?;
        Some(Self::of(Flotilla::start_in(data_dir, &[]), members))
    }

    fn of(plane: Flotilla, members: Vec<Member>) -> Self {
        let fleet = Self { plane, members };
        for member in &fleet.members {
            fleet.join(member, &[]);
        }
        for member in &fleet.members {
            fleet.wait_ready(&member.name);
        }
        fleet
    }

    pub fn join(&self, member: &Member, arguments: &[&str]) {
        let kubeconfig = member.kubeconfig().to_str().expect("a path in UTF-8");
        let mut all = vec!["join", member.name.as_str(), "--cluster-kubeconfig", kubeconfig];
        all.extend(arguments);
        let output = self.flotilla(&all);
        assert!(output.status.success(), "join {}: {}", member.name, text(&output));
    }

    pub fn wait_ready(&self, cluster: &str) {
        let is_ready = || self.ask(&["get", "cluster", cluster, READY]) == "True";
        self.eventually(&format!("cluster {cluster} is ready"), is_ready);
    }

    /// Runs the flotilla CLI against this control plane.
    pub fn flotilla(&self, arguments: &[&str]) -> Output {
        run(&binary(), &self.plane.kubeconfig, arguments)
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        self.plane.kubectl(arguments)
    }

    /// Returns the trimmed output of kubectl on the control plane; empty on failure.
    pub fn ask(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.kubectl(arguments).stdout).trim().to_owned()
    }

    /// Applies documents on the control plane; they must be accepted.
    pub fn apply(&self, documents: &str) {
        let output = member::apply(&self.plane.kubeconfig, &["apply", "-f", "-"], documents);
        assert!(output.status.success(), "{}\n{documents}", text(&output));
    }

    /// Creates documents on the control plane, which is faster than applying many.
    pub fn create(&self, documents: &str) {
        let output = member::apply(&self.plane.kubeconfig, &["create", "-f", "-"], documents);
        assert!(output.status.success(), "{}", text(&output));
    }

    pub fn member(&self, name: &str) -> &Member {
        self.members.iter().find(|member| member.name == name).expect("a member of that name")
    }

    /// Waits for a condition; prints the control plane's log on a timeout.
    pub fn eventually(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| eventually(what, CROSSING, &mut holds)));
        if let Err(panic) = result {
            eprintln!("the plane's log:\n{}", tail(&self.plane.log(), 60));
            eprintln!("bindings:\n{}", self.ask(&["get", "rb,crb", "-A", "-o", "wide"]));
            eprintln!("works:\n{}", self.ask(&["get", "works", "-A"]));
            eprintln!("events:\n{}", tail(&self.ask(&["get", "events", "-A"]), 40));
            std::panic::resume_unwind(panic);
        }
    }

    /// Waits until kubectl in a member returns this output.
    pub fn in_member(&self, name: &str, arguments: &[&str], expected: &str) {
        let member = self.member(name);
        let what = format!("{name}: kubectl {} says {expected:?}", arguments.join(" "));
        self.eventually(&what, || member.ask(arguments) == expected);
    }

    /// Waits until kubectl on the control plane returns this output.
    pub fn on_plane(&self, arguments: &[&str], expected: &str) {
        let what = format!("kubectl {} says {expected:?}", arguments.join(" "));
        self.eventually(&what, || self.ask(arguments) == expected);
    }
}

/// A Deployment with two replicas, and a policy that propagates it to these clusters.
pub fn application(name: &str, clusters: &str) -> String {
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
    spec: {{containers: [{{name: main, image: 'nginx:1.27'}}]}}
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

/// Runs a program with KUBECONFIG set.
pub fn run(program: &Path, kubeconfig: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).env("KUBECONFIG", kubeconfig).env_remove("FLOTILLA_HOME");
    command.stdin(Stdio::null()).output().expect("the program runs")
}

/// The complete output of a program.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
