//! Many `flotilla member` processes with simulated nodes, and their agents.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::options::BenchOptions;
use crate::programs;
use crate::server::{Children, data_directory, wait_for_kubeconfig, wait_until_ready};
use crate::wire::ServerTarget;

pub struct LightMember {
    pub name: String,
    pub kubeconfig: PathBuf,
    pub target: ServerTarget,
    children: Children,
    directory: tempfile::TempDir,
}

impl LightMember {
    /// Uses an in-memory store; returns when its API is ready.
    pub async fn start(name: &str, options: &BenchOptions, arguments: &[String]) -> anyhow::Result<Self> {
        let directory = data_directory(options)?;
        let mut command = Command::new(programs::flotilla(options)?);
        command.args(["member", "--in-memory", "--bind", "127.0.0.1:0", "--log", "warn", "--cluster-name", name]);
        command.args(arguments).arg("--data-dir").arg(directory.path());
        let log = directory.path().join("member.log");
        let mut children = Children::default();
        children.spawn(command, &log)?;
        let kubeconfig = directory.path().join("member.config");
        let target = wait_for_kubeconfig(&kubeconfig, options.protocol, &mut children, &log);
        let target = target.await.with_context(|| format!("member {name}"))?;
        wait_until_ready(&target, &mut children, &log).await.with_context(|| format!("member {name}"))?;
        Ok(Self { name: name.to_owned(), kubeconfig, target, children, directory })
    }

    /// Starts its agent, which registers it with a control plane.
    pub fn start_agent(&self, plane: &Path, options: &BenchOptions) -> anyhow::Result<Agent> {
        let mut command = Command::new(programs::flotilla(options)?);
        command.args(["agent", "--log", "warn", "--cluster-name", &self.name, "--karmada-kubeconfig"]).arg(plane);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        let mut children = Children::default();
        children.spawn(command, &self.directory.path().join("agent.log"))?;
        Ok(Agent { children })
    }

    pub fn pids(&self) -> Vec<u32> {
        self.children.pids()
    }
}

pub struct Agent {
    children: Children,
}

impl Agent {
    pub fn pids(&self) -> Vec<u32> {
        self.children.pids()
    }
}
