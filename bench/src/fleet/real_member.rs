//! A cluster as a member: kube-apiserver on etcd, with or without controllers, scheduler and simulated nodes; or a light one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::json;

use crate::fleet::light_member::LightMember;
use crate::fleet::{create, eventually, get, has_condition};
use crate::options::BenchOptions;
use crate::server::{Children, Server};
use crate::wire::ServerTarget;

const CONTROLLERS: &str = "deployment-controller,replicaset-controller,namespace-controller,\
garbage-collector-controller,serviceaccount-controller,serviceaccount-token-controller,node-lifecycle-controller";
const NODES: usize = 4;
/// One large node whose pods are ready at once.
const LIGHT_ARGUMENTS: [&str; 8] = ["--nodes", "1", "--node-pods", "30000", "--node-cpu", "1000", "--pod-delay", "0s"];
const READY_WAIT: Duration = Duration::from_secs(60);

/// The handling of Deployments in a member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// Real controllers, scheduler and simulated nodes.
    Pods,
    /// None: the benchmark marks them as ready.
    Nothing,
    /// As `Pods`, by a `flotilla member` process instead of Kubernetes' own programs.
    Light,
}

pub struct Member {
    pub name: String,
    pub kubeconfig: PathBuf,
    machine: Machine,
}

enum Machine {
    Real { server: Box<Server>, children: Children },
    Light(Box<LightMember>),
}

impl Member {
    pub async fn start(name: &str, options: &BenchOptions, runs: Runs) -> anyhow::Result<Self> {
        if runs == Runs::Light {
            let light = LightMember::start(name, options, &LIGHT_ARGUMENTS.map(str::to_owned)).await?;
            let kubeconfig = light.kubeconfig.clone();
            return Ok(Self { name: name.to_owned(), kubeconfig, machine: Machine::Light(Box::new(light)) });
        }
        let server = Server::start_member(options).await.with_context(|| format!("member {name}"))?;
        let kubeconfig = server.directory().join("admin.kubeconfig");
        let mut starting = Starting { server: &server, kubeconfig: &kubeconfig, children: Children::default() };
        // A controller fills token secrets, which joining needs.
        let controllers = match runs {
            Runs::Pods => CONTROLLERS,
            Runs::Nothing | Runs::Light => "serviceaccount-token-controller,namespace-controller",
        };
        starting.start_controllers(options, controllers)?;
        if runs == Runs::Pods {
            starting.start_program(options, "kube-scheduler", &["--leader-elect=false", "--secure-port=0"])?;
            starting.start_program(
                options,
                "kwok",
                &["--manage-all-nodes=true", "--node-lease-duration-seconds=40"],
            )?;
            starting.make_nodes(name).await?;
        }
        let children = starting.children;
        let machine = Machine::Real { server: Box::new(server), children };
        Ok(Self { name: name.to_owned(), kubeconfig, machine })
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
        match &self.machine {
            Machine::Real { server, children } => server.pids().into_iter().chain(children.pids()).collect(),
            Machine::Light(light) => light.pids(),
        }
    }

    pub fn target(&self) -> &ServerTarget {
        match &self.machine {
            Machine::Real { server, .. } => &server.target,
            Machine::Light(light) => &light.target,
        }
    }

    pub fn is_light(&self) -> bool {
        matches!(self.machine, Machine::Light(_))
    }
}

/// The programs of a real member that is being started.
struct Starting<'a> {
    server: &'a Server,
    kubeconfig: &'a Path,
    children: Children,
}

impl Starting<'_> {
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
        command.arg("--kubeconfig").arg(self.kubeconfig).args(arguments).env("HOME", self.server.directory());
        self.children.spawn(command, &self.server.directory().join(format!("{name}.log")))?;
        Ok(())
    }

    async fn make_nodes(&self, member: &str) -> anyhow::Result<()> {
        for number in 0..NODES {
            let resources = json!({"cpu": "64", "memory": "512Gi", "pods": "20000"});
            let node = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": format!("node-{number}"), "annotations": {"kwok.x-k8s.io/node": "fake"}},
                "status": {"allocatable": resources, "capacity": resources},
            });
            create(&self.server.target, "/api/v1/nodes", &node).await.context("a node")?;
        }
        let are_ready = eventually(READY_WAIT, async || {
            let list = get(&self.server.target, "/api/v1/nodes").await.unwrap_or_default();
            let nodes = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            nodes.iter().filter(|node| has_condition(node, "Ready")).count() == NODES
        });
        ensure!(are_ready.await, "the nodes of {member} are not ready");
        Ok(())
    }
}
