//! The two control planes, `flotilla server` and Karmada, and joining members.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::fleet::karmada::Karmada;
use crate::fleet::real_member::Member;
use crate::fleet::{eventually, get, has_condition};
use crate::options::BenchOptions;
use crate::programs;
use crate::server::{Server, Side};
use crate::wire::ServerTarget;

const JOIN_WAIT: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ValueEnum)]
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

pub enum BenchPlane {
    Flotilla(Server),
    Karmada(Karmada),
}

impl BenchPlane {
    pub async fn start(which: Which, options: &BenchOptions) -> anyhow::Result<Self> {
        match which {
            Which::Flotilla => Ok(Self::Flotilla(Server::start(Side::Flotilla, options).await?)),
            Which::Karmada => Ok(Self::Karmada(Karmada::start(options).await?)),
        }
    }

    /// `flotilla server` with additional flags.
    pub async fn start_flotilla(options: &BenchOptions, arguments: &[String]) -> anyhow::Result<Self> {
        Ok(Self::Flotilla(Server::start_flotilla(options, arguments).await?))
    }

    pub fn which(&self) -> Which {
        match self {
            Self::Flotilla(_) => Which::Flotilla,
            Self::Karmada(_) => Which::Karmada,
        }
    }

    pub fn target(&self) -> &ServerTarget {
        match self {
            Self::Flotilla(server) => &server.target,
            Self::Karmada(karmada) => &karmada.target,
        }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        match self {
            Self::Flotilla(server) => server.directory().join("data/karmada-apiserver.config"),
            Self::Karmada(karmada) => karmada.kubeconfig.clone(),
        }
    }

    pub fn ready_after(&self) -> Duration {
        match self {
            Self::Flotilla(server) => server.ready_after,
            Self::Karmada(karmada) => karmada.ready_after,
        }
    }

    /// Names and process ids of all its processes.
    pub fn processes(&self) -> Vec<(String, u32)> {
        match self {
            Self::Flotilla(server) => server.pids().into_iter().map(|pid| ("flotilla".to_owned(), pid)).collect(),
            Self::Karmada(karmada) => karmada.processes(),
        }
    }

    pub fn pids(&self) -> Vec<u32> {
        self.processes().into_iter().map(|(_, pid)| pid).collect()
    }

    /// Joins members one after the other, real ones with karmadactl, and waits until they are ready.
    pub async fn join_all(&self, members: &[Member], options: &BenchOptions) -> anyhow::Result<()> {
        for member in members {
            let mut command = match member.is_light() {
                true => Command::new(programs::flotilla(options)?),
                false => Command::new(options.kube_bin().join("karmadactl")),
            };
            command.args(["join", &member.name, "--kubeconfig"]).arg(self.kubeconfig());
            command.arg("--cluster-kubeconfig").arg(&member.kubeconfig);
            let output = command.kill_on_drop(true).output().await.context("failed to join a member")?;
            if !output.status.success() {
                bail!("join: {}", String::from_utf8_lossy(&output.stderr));
            }
        }
        for member in members {
            ensure!(self.wait_until_ready(&member.name, JOIN_WAIT).await, "{} is not ready", member.name);
        }
        Ok(())
    }

    /// Waits until a cluster is ready and has no taints.
    pub async fn wait_until_ready(&self, cluster: &str, limit: Duration) -> bool {
        let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}");
        eventually(limit, async || {
            let cluster = get(self.target(), &path).await.unwrap_or_default();
            let is_tainted = cluster["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
            has_condition(&cluster, "Ready") && !is_tainted
        })
        .await
    }
}
