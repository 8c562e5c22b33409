//! A real Kubernetes cluster as a member: kube-apiserver on etcd, controllers, scheduler, and nodes without machines.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::options::Options;
use crate::propagation::PropagationOptions;
use crate::server::{Server, Side, end, spawn};
use crate::wire::{Call, Target};

const CONTROLLERS: &str = "deployment-controller,replicaset-controller,namespace-controller,\
garbage-collector-controller,serviceaccount-controller,serviceaccount-token-controller,node-lifecycle-controller";
const NODES: usize = 4;
const READY_WAIT: Duration = Duration::from_secs(60);

pub struct Member {
    pub name: String,
    pub kubeconfig: PathBuf,
    server: Server,
    children: Vec<Child>,
}

impl Member {
    pub async fn start(name: &str, options: &Options, own: &PropagationOptions) -> anyhow::Result<Self> {
        let server = Server::start(Side::Kube, options).await?;
        let kubeconfig = server.directory().join("admin.kubeconfig");
        let mut member = Self { name: name.to_owned(), kubeconfig, server, children: Vec::new() };
        // Token secrets are filled by a controller, and joining needs them.
        let controllers =
            if own.real_workloads { CONTROLLERS } else { "serviceaccount-token-controller,namespace-controller" };
        member.start_controllers(options, controllers)?;
        if own.real_workloads {
            member.start_program(options, "kube-scheduler", &["--leader-elect=false", "--secure-port=0"])?;
            member.start_program(options, "kwok", &["--manage-all-nodes=true", "--node-lease-duration-seconds=40"])?;
            member.make_nodes().await?;
        }
        Ok(member)
    }

    pub fn target(&self) -> &Target {
        &self.server.target
    }

    fn start_controllers(&mut self, options: &Options, controllers: &str) -> anyhow::Result<()> {
        let directory = self.server.directory();
        let key = format!("--service-account-private-key-file={}", directory.join("sa.key").display());
        let ca = format!("--root-ca-file={}", directory.join("ca.crt").display());
        let controllers = format!("--controllers={controllers}");
        let rates = ["--kube-api-qps=500", "--kube-api-burst=1000", "--concurrent-deployment-syncs=10"];
        let mut arguments = vec!["--leader-elect=false", "--secure-port=0", &key, &ca, &controllers];
        arguments.extend(rates);
        self.start_program(options, "kube-controller-manager", &arguments)
    }

    fn start_program(&mut self, options: &Options, name: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(options.kube_bin().join(name));
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments).env("HOME", self.server.directory());
        self.children.push(spawn(command, &self.server.directory().join(format!("{name}.log")))?);
        Ok(())
    }

    async fn make_nodes(&self) -> anyhow::Result<()> {
        let mut connection = self.target().connect().await?;
        for number in 0..NODES {
            let room = json!({"cpu": "64", "memory": "512Gi", "pods": "20000"});
            let node = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": format!("node-{number}"), "annotations": {"kwok.x-k8s.io/node": "fake"}},
                "status": {"allocatable": room, "capacity": room},
            });
            let body = Bytes::from(node.to_string());
            connection.read(Call::create("/api/v1/nodes".to_owned(), body)).await.context("a node")?;
        }
        let start = Instant::now();
        loop {
            let body = connection.read(Call::get("/api/v1/nodes".to_owned())).await?;
            let list: Value = serde_json::from_slice(&body).context("nodes")?;
            let nodes = list["items"].as_array().context("a list of nodes")?;
            let is_ready = |node: &&Value| {
                let conditions = node["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
                conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
            };
            if nodes.iter().filter(is_ready).count() == NODES {
                return Ok(());
            }
            if start.elapsed() > READY_WAIT {
                bail!("the nodes of {} are not ready", self.name);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        end(&mut self.children);
    }
}
