//! A server under measurement: its processes, address and time to ready.

mod flotilla;
mod kube;

pub use flotilla::{target_of_kubeconfig, wait_for_kubeconfig};

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::options::BenchOptions;
use crate::wire::{Call, Connection, ServerTarget};

const START_TIMEOUT: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Flotilla,
    Kube,
}

pub struct Server {
    pub side: Side,
    pub target: ServerTarget,
    /// From the start of the first process until /readyz succeeded.
    pub ready_after: Duration,
    children: Children,
    /// Keeps the data alive.
    directory: tempfile::TempDir,
}

/// Waiting for the disk is part of the measurement, except where the server is only a member.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    Disk,
    /// Writes may be lost with the machine: the disk is left to the system under test.
    None,
}

impl Server {
    /// The directory of its data, keys and logs.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Starts on an empty directory and waits until it is ready.
    pub async fn start(side: Side, options: &BenchOptions) -> anyhow::Result<Self> {
        match side {
            Side::Flotilla => flotilla::start(options, &[]).await,
            Side::Kube => kube::start(options, Durability::Disk).await,
        }
    }

    /// kube-apiserver for a member.
    pub async fn start_member(options: &BenchOptions) -> anyhow::Result<Self> {
        kube::start(options, Durability::None).await
    }

    /// `flotilla server` with additional flags.
    pub async fn start_flotilla(options: &BenchOptions, arguments: &[String]) -> anyhow::Result<Self> {
        flotilla::start(options, arguments).await
    }

    /// `flotilla manager` on an empty directory.
    pub async fn start_manager(options: &BenchOptions) -> anyhow::Result<Self> {
        flotilla::start_manager(options).await
    }

    pub fn pids(&self) -> Vec<u32> {
        self.children.pids()
    }
}

/// Started programs; killed on drop, in reverse order.
#[derive(Default)]
pub struct Children(Vec<Child>);

impl Children {
    pub fn spawn(&mut self, mut command: Command, log: &Path) -> anyhow::Result<u32> {
        let file = std::fs::File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
        let second = file.try_clone().context("cannot share the log file")?;
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).stdout(file).stderr(second).spawn();
        let child = child.with_context(|| format!("cannot start {program}"))?;
        let pid = child.id();
        self.0.push(child);
        Ok(pid)
    }

    pub fn pids(&self) -> Vec<u32> {
        self.0.iter().map(Child::id).collect()
    }

    pub fn one_has_ended(&mut self) -> bool {
        self.0.iter_mut().any(|child| child.try_wait().is_ok_and(|status| status.is_some()))
    }

    /// Kills them, as in a power failure. They may have exited by themselves.
    pub fn end(&mut self) {
        for child in self.0.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.0.clear();
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.end();
    }
}

pub fn data_directory(options: &BenchOptions) -> anyhow::Result<tempfile::TempDir> {
    let parent = &options.data;
    std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    let parent = parent.canonicalize().with_context(|| format!("cannot find {}", parent.display()))?;
    tempfile::tempdir_in(parent).context("cannot make a data directory")
}

/// Polls /readyz over one connection, reopened when it breaks, until it succeeds.
pub async fn wait_until_ready(target: &ServerTarget, children: &mut Children, log: &Path) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut connection = None;
    loop {
        if is_ready(target, &mut connection).await {
            return Ok(());
        }
        check_alive(children, start, log)?;
        tokio::time::sleep(POLL).await;
    }
}

async fn is_ready(target: &ServerTarget, connection: &mut Option<Connection>) -> bool {
    if connection.is_none() {
        *connection = target.connect().await.ok();
    }
    let Some(open) = connection else { return false };
    match open.call(Call::get("/readyz".to_owned())).await {
        Ok(answer) => answer.status.is_success(),
        Err(_) => {
            *connection = None;
            false
        }
    }
}

fn check_alive(children: &mut Children, start: Instant, log: &Path) -> anyhow::Result<()> {
    if children.one_has_ended() || start.elapsed() > START_TIMEOUT {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let tail: Vec<&str> = text.lines().rev().take(20).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        bail!("the server did not become ready; the end of its log:\n{}", tail.join("\n"));
    }
    Ok(())
}

/// Sends a request to a plain HTTP server at HOST:PORT.
pub async fn answers_ok(address: &str, path: &str) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    ask.await.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

/// All listeners are open at once, so that the ports differ.
pub fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    let mut ports = [0; N];
    let mut listeners = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
        *port = listener.local_addr().context("no free port")?.port();
        listeners.push(listener);
    }
    Ok(ports)
}
