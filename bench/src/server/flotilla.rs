//! `flotilla server` with default settings unless a measurement needs others, and its kubeconfig.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::options::{BenchOptions, Protocol};
use crate::server::{Children, POLL, Server, Side, check_alive, data_directory, free_ports, wait_until_ready};
use crate::wire::{Identity, ServerTarget};
use crate::{process, programs};

const MANAGER: &str = "manager";

pub async fn start(options: &BenchOptions, arguments: &[String]) -> anyhow::Result<Server> {
    let directory = data_directory(options)?;
    // A fixed port, so that members and clients find it after a restart.
    let [port] = free_ports()?;
    let mut command = Command::new(programs::flotilla(options)?);
    command.args(["server", "--bind", &format!("127.0.0.1:{port}"), "--data-dir"]).arg(directory.path().join("data"));
    command.args(arguments);
    let mut children = Children::default();
    let (target, ready_after) = run(command, directory.path(), &mut children, options.protocol).await?;
    Ok(Server { side: Side::Flotilla, target, ready_after, children, directory })
}

/// `flotilla manager` without instances.
pub async fn start_manager(options: &BenchOptions) -> anyhow::Result<Server> {
    let directory = data_directory(options)?;
    let [port] = free_ports()?;
    let mut command = Command::new(programs::flotilla(options)?);
    command.args([MANAGER, "--bind", &format!("127.0.0.1:{port}"), "--data-dir"]).arg(directory.path().join("data"));
    let mut children = Children::default();
    let (target, ready_after) = run(command, directory.path(), &mut children, options.protocol).await?;
    Ok(Server { side: Side::Flotilla, target, ready_after, children, directory })
}

/// Starts it and waits until it is ready.
async fn run(
    command: Command,
    directory: &Path,
    children: &mut Children,
    protocol: Protocol,
) -> anyhow::Result<(ServerTarget, Duration)> {
    let log = directory.join("server.log");
    let is_manager = command.get_args().next().is_some_and(|word| word == MANAGER);
    let start = Instant::now();
    children.spawn(command, &log)?;
    let kubeconfig = directory.join(if is_manager { "data/manager.config" } else { "data/karmada-apiserver.config" });
    let ready = async {
        let target = wait_for_kubeconfig(&kubeconfig, protocol, children, &log).await?;
        wait_until_ready(&target, children, &log).await?;
        anyhow::Ok(target)
    };
    let target = ready.await.context("flotilla server")?;
    Ok((target, start.elapsed()))
}

impl Server {
    /// Kills `flotilla server` and restarts it on its data; returns the time to ready.
    pub async fn start_again(&mut self, options: &BenchOptions) -> anyhow::Result<Duration> {
        let pid = *self.pids().first().context("the server has a process")?;
        let mut arguments = process::command_line(pid)?.into_iter();
        let mut command = Command::new(arguments.next().context("the server has a program")?);
        command.args(arguments);
        self.children.end();
        let (target, ready_after) = run(command, self.directory.path(), &mut self.children, options.protocol).await?;
        self.target = target;
        Ok(ready_after)
    }
}

pub async fn wait_for_kubeconfig(
    path: &Path,
    protocol: Protocol,
    children: &mut Children,
    log: &Path,
) -> anyhow::Result<ServerTarget> {
    let start = Instant::now();
    loop {
        // The file may be incomplete while the server writes it.
        if let Ok(text) = std::fs::read_to_string(path)
            && let Ok(target) = read_kubeconfig(&text, protocol)
        {
            return Ok(target);
        }
        check_alive(children, start, log)?;
        tokio::time::sleep(POLL).await;
    }
}

/// Reads a kubeconfig, with embedded certificates or file references.
pub fn target_of_kubeconfig(path: &Path, protocol: Protocol) -> anyhow::Result<ServerTarget> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    read_kubeconfig(&text, protocol)
}

fn read_kubeconfig(text: &str, protocol: Protocol) -> anyhow::Result<ServerTarget> {
    let config: Value = serde_saphyr::from_str(text).context("the kubeconfig is not YAML")?;
    let cluster = &config["clusters"][0]["cluster"];
    let user = &config["users"][0]["user"];
    let url = cluster["server"].as_str().context("the kubeconfig has no server")?;
    let authority = url.strip_prefix("https://").context("the server is not reached by https")?.trim_end_matches('/');
    let identity = Identity {
        ca: &decode(cluster, "certificate-authority-data")?,
        certificate: &decode(user, "client-certificate-data")?,
        key: &decode(user, "client-key-data")?,
    };
    ServerTarget::new(authority.to_owned(), &identity, protocol)
}

fn decode(part: &Value, field: &str) -> anyhow::Result<Vec<u8>> {
    if let Some(file) = part[field.trim_end_matches("-data")].as_str() {
        return std::fs::read(file).with_context(|| format!("cannot read {file}"));
    }
    let text = part[field].as_str().with_context(|| format!("the kubeconfig has no {field}"))?;
    BASE64_STANDARD.decode(text).with_context(|| format!("{field} is not base64"))
}
