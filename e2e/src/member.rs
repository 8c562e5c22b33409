//! A real Kubernetes cluster as a member: API server, controllers, scheduler, and simulated nodes.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::eventually::eventually;
use crate::flotilla::programs;
use crate::kube_apiserver::KubeApiServer;

/// The programs of a member that runs simulated workloads.
const PROGRAMS: &[&str] = &["kube-controller-manager", "kube-scheduler", "kwok"];

/// The controllers that tests rely on.
const CONTROLLERS: &str = "deployment-controller,replicaset-controller,statefulset-controller,daemonset-controller,\
job-controller,cronjob-controller,namespace-controller,garbage-collector-controller,serviceaccount-controller,\
serviceaccount-token-controller,node-lifecycle-controller,endpointslice-controller,resourcequota-controller,disruption-controller";

pub struct Member {
    pub name: String,
    pub api: KubeApiServer,
    children: Vec<Child>,
}

impl Member {
    /// `None` if the programs are not installed.
    pub fn start(name: &str, nodes: usize) -> Option<Self> {
        let bin = programs();
        if let Some(missing) = PROGRAMS.iter().find(|program| !bin.join(program).exists()) {
            test_skip::skip(format_args!("{missing} is not in {}; `make test` builds it", bin.display()));
            return None;
        }
        let api = KubeApiServer::start()?;
        let mut member = Self { name: name.to_owned(), api, children: Vec::new() };
        member.start_controllers();
        member.start_scheduler();
        member.start_nodes(nodes);
        Some(member)
    }

    /// Starts several concurrently, since each takes seconds.
    pub fn start_all(names: &[&str], nodes: usize) -> Option<Vec<Self>> {
        std::thread::scope(|scope| {
            let starting: Vec<_> = names.iter().map(|name| scope.spawn(move || Self::start(name, nodes))).collect();
            starting.into_iter().map(|started| started.join().expect("a member starts")).collect()
        })
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        self.api.kubectl(arguments)
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.api.kubeconfig
    }

    /// Returns the trimmed output; empty if kubectl fails.
    pub fn ask(&self, arguments: &[&str]) -> String {
        let output = self.kubectl(arguments);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn start_controllers(&mut self) {
        let directory = self.api.directory().to_owned();
        let mut command = Command::new(programs().join("kube-controller-manager"));
        command.arg("--kubeconfig").arg(&self.api.kubeconfig).args(["--leader-elect=false", "--secure-port=0"]);
        command.arg(format!("--controllers={CONTROLLERS}"));
        command.arg("--service-account-private-key-file").arg(directory.join("sa.key"));
        command.arg("--root-ca-file").arg(directory.join("certs/apiserver.crt"));
        command.args(["--kube-api-qps=200", "--kube-api-burst=400"]);
        self.spawn(command, "controllers.log");
    }

    fn start_scheduler(&mut self) {
        let mut command = Command::new(programs().join("kube-scheduler"));
        command.arg("--kubeconfig").arg(&self.api.kubeconfig).args(["--leader-elect=false", "--secure-port=0"]);
        command.args(["--kube-api-qps=200", "--kube-api-burst=400"]);
        self.spawn(command, "scheduler.log");
    }

    fn start_nodes(&mut self, count: usize) {
        let mut command = Command::new(programs().join("kwok"));
        command.arg("--kubeconfig").arg(&self.api.kubeconfig).arg("--manage-all-nodes=true");
        command.arg("--node-lease-duration-seconds=40").env("HOME", self.api.directory());
        self.spawn(command, "kwok.log");
        for number in 0..count {
            self.add_node(&format!("node-{number}"));
        }
        eventually("the nodes of a member are ready", Duration::from_secs(60), || {
            let path = r#"-o=jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}"#;
            self.ask(&["get", "nodes", path]).split_whitespace().filter(|ready| *ready == "True").count() == count
        });
    }

    fn add_node(&self, name: &str) {
        let node = format!(
            r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}","annotations":{{"kwok.x-k8s.io/node":"fake"}},
            "labels":{{"kubernetes.io/hostname":"{name}","kubernetes.io/os":"linux"}}}},
            "status":{{"allocatable":{{"cpu":"32","memory":"256Gi","pods":"5000"}},
            "capacity":{{"cpu":"32","memory":"256Gi","pods":"5000"}}}}}}"#
        );
        let made = apply(&self.api.kubeconfig, &["create", "-f", "-"], &node);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn spawn(&mut self, mut command: Command, log: &str) {
        let log = File::create(self.api.directory().join(log)).expect("a log file");
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().expect("a second handle")).stderr(log).spawn();
        self.children.push(child.expect("the program starts"));
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have exited by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs kubectl with a document on stdin.
pub fn apply(kubeconfig: &Path, arguments: &[&str], document: &str) -> Output {
    use std::io::Write;
    let mut command = Command::new(programs().join("kubectl"));
    command.arg("--kubeconfig").arg(kubeconfig).args(arguments);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("kubectl runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(document.as_bytes()).expect("kubectl reads");
    drop(stdin);
    child.wait_with_output().expect("kubectl ends")
}
