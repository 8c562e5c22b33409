//! The two planes: `flotilla server`, and Karmada as `tools/kube/karmada/up` starts it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use crate::options::Options;
use crate::propagation::members::Member;
use crate::server::{Server, Side, data_directory, target_of_kubeconfig};
use crate::wire::{Call, Target};

const JOIN_WAIT: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Which {
    Flotilla,
    Karmada,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flotilla => "flotilla",
            Self::Karmada => "karmada",
        })
    }
}

pub struct Plane {
    pub which: Which,
    pub target: Target,
    pub kubeconfig: PathBuf,
    pub pids: Vec<u32>,
    karmadactl: PathBuf,
    /// Whichever of the two it is; it ends with the plane.
    _server: Option<Server>,
    _processes: Option<Processes>,
}

struct Processes {
    pids: Vec<u32>,
    _directory: tempfile::TempDir,
}

impl Drop for Processes {
    fn drop(&mut self) {
        for pid in self.pids.iter().rev() {
            // It may have ended by itself.
            let _ = Command::new("kill").arg("-9").arg(pid.to_string()).status();
        }
    }
}

impl Plane {
    pub async fn start(which: Which, options: &Options) -> anyhow::Result<Self> {
        let karmadactl = options.kube_bin().join("karmadactl");
        match which {
            Which::Flotilla => Ok(Self::of(Server::start(Side::Flotilla, options).await?, karmadactl)),
            Which::Karmada => {
                let directory = data_directory(options)?;
                let output = Command::new("tools/kube/karmada/up").arg(directory.path()).output();
                let output = output.context("cannot run tools/kube/karmada/up from here")?;
                let pids = read_pids(&directory.path().join("pids"))?;
                let held = Processes { pids: pids.clone(), _directory: directory };
                if !output.status.success() {
                    bail!("karmada did not start: {}", String::from_utf8_lossy(&output.stderr));
                }
                let kubeconfig = held._directory.path().join("kubeconfig");
                let target = target_of_kubeconfig(&kubeconfig, options.protocol)?;
                Ok(Self { which, target, kubeconfig, pids, karmadactl, _server: None, _processes: Some(held) })
            }
        }
    }

    /// `flotilla server` with settings of its own.
    pub async fn start_flotilla(options: &Options, arguments: &[String]) -> anyhow::Result<Self> {
        Ok(Self::of(Server::start_flotilla(options, arguments).await?, options.kube_bin().join("karmadactl")))
    }

    fn of(server: Server, karmadactl: PathBuf) -> Self {
        let kubeconfig = server.directory().join("data/karmada-apiserver.config");
        let (target, pids) = (server.target.clone(), server.pids());
        let which = Which::Flotilla;
        Self { which, target, kubeconfig, pids, karmadactl, _server: Some(server), _processes: None }
    }

    /// Joins a member with Karmada's own command and waits until the plane takes it for ready.
    pub async fn join(&self, member: &Member) -> anyhow::Result<()> {
        let output = Command::new(&self.karmadactl)
            .args(["join", &member.name, "--kubeconfig"])
            .arg(&self.kubeconfig)
            .arg("--cluster-kubeconfig")
            .arg(&member.kubeconfig)
            .output()
            .context("cannot run karmadactl")?;
        if !output.status.success() {
            bail!("karmadactl join: {}", String::from_utf8_lossy(&output.stderr));
        }
        let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{}", member.name);
        let start = Instant::now();
        loop {
            let mut connection = self.target.connect().await?;
            let cluster: Value = serde_json::from_slice(&connection.read(Call::get(path.clone())).await?)?;
            let conditions = cluster["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let is_ready = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
            let is_tainted = cluster["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
            if is_ready && !is_tainted {
                return Ok(());
            }
            if start.elapsed() > JOIN_WAIT {
                bail!("{} is not ready: {}", member.name, cluster["status"]["conditions"]);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

fn read_pids(path: &Path) -> anyhow::Result<Vec<u32>> {
    let text = std::fs::read_to_string(path).context("karmada has no processes")?;
    text.lines().map(|line| line.rsplit(' ').next().unwrap_or_default().parse().context("a process id")).collect()
}
