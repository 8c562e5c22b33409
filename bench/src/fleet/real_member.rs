//! A real Kubernetes cluster as a member: kube-apiserver on etcd, controllers, scheduler, and simulated nodes.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::json;

use crate::fleet::{create, eventually, get, has_condition};
use crate::options::BenchOptions;
use crate::server::{Children, Server};
use crate::wire::ServerTarget;

const CONTROLLERS: &str = "deployment-controller,replicaset-controller,namespace-controller,\
garbage-collector-controller,serviceaccount-controller,serviceaccount-token-controller,node-lifecycle-controller";
const NODES: usize = 4;
const READY_WAIT: Duration = Duration::from_secs(60);

/// The handling of Deployments in a member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// Real controllers, scheduler and simulated nodes.
    Pods,
    /// None: the benchmark marks them as ready.
    Nothing,
}

pub struct Member {
    pub name: String,
    pub kubeconfig: PathBuf,
    server: Server,
    children: Children,
}

impl Member {
    pub async fn start(name: &str, options: &BenchOptions, runs: Runs) -> anyhow::Result<Self> {
        let server = Server::start_member(options).await.with_context(|| format!("member {name}"))?;
        let kubeconfig = server.directory().join("admin.kubeconfig");
        let mut member = Self { name: name.to_owned(), kubeconfig, server, children: Children::default() };
        // A controller fills token secrets, which joining needs.
        let controllers = match runs {
            Runs::Pods => CONTROLLERS,
            Runs::Nothing => "serviceaccount-token-controller,namespace-controller",
        };
        member.start_controllers(options, controllers)?;
        if runs == Runs::Pods {
            member.start_program(options, "kube-scheduler", &["--leader-elect=false", "--secure-port=0"])?;
            member.start_program(options, "kwok", &["--manage-all-nodes=true", "--node-lease-duration-seconds=40"])?;
            member.make_nodes().await?;
        }
        Ok(member)
    }

    /// Starts one member for each name.
    pub async fn start_all(names: &[&str], options: &BenchOptions, runs: Runs) -> anyhow::Result<Vec<Self>> {
        let mut members = Vec::new();
        for name in names {
            members.push(Self::start(name, options, runs).await?);
        }
        Ok(members)
    }

    pub fn pids(&self) -> Vec<u32> {
        self.server.pids().into_iter().chain(self.children.pids()).collect()
    }

    pub fn target(&self) -> &ServerTarget {
        &self.server.target
    }

    fn start_controllers(&mut self, options: &BenchOptions, controllers: &str) -> anyhow::Result<()> {
        let directory = self.server.directory();
        let key = format!("--service-account-private-key-file={}", directory.join("sa.key").display());
        let ca = format!("--root-ca-file={}", directory.join("ca.crt").display());
        let controllers = format!("--controllers={controllers}");
        let rates = ["--kube-api-qps=500", "--kube-api-burst=1000", "--concurrent-deployment-syncs=10"];
        let mut arguments = vec!["--leader-elect=false", "--secure-port=0", &key, &ca, &controllers];
        arguments.extend(rates);
        self.start_program(options, "kube-controller-manager", &arguments)
    }

    fn start_program(&mut self, options: &BenchOptions, name: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(options.kube_bin().join(name));
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments).env("HOME", self.server.directory());
        self.children.spawn(command, &self.server.directory().join(format!("{name}.log")))?;
        Ok(())
    }

    async fn make_nodes(&self) -> anyhow::Result<()> {
        for number in 0..NODES {
            let resources = json!({"cpu": "64", "memory": "512Gi", "pods": "20000"});
            let node = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": format!("node-{number}"), "annotations": {"kwok.x-k8s.io/node": "fake"}},
                "status": {"allocatable": resources, "capacity": resources},
            });
            create(self.target(), "/api/v1/nodes", &node).await.context("a node")?;
        }
        let are_ready = eventually(READY_WAIT, async || {
            let list = get(self.target(), "/api/v1/nodes").await.unwrap_or_default();
            let nodes = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            nodes.iter().filter(|node| has_condition(node, "Ready")).count() == NODES
        });
        ensure!(are_ready.await, "the nodes of {} are not ready", self.name);
        Ok(())
    }
}
