//! Pods made reachable on ports of this host: kept in a file, led by the supervisor, to whichever pod is there now.

pub mod pod;
mod tunnel;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use provisioners::process::forward::ForwardedPort;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::expose::pod::Following;
use crate::place::TestbedDir;
use crate::spec::write_file;

/// Ports one testbed may open for pods.
const EXPOSURES_MAX: usize = 256;
const LOOK_PATIENCE: Duration = Duration::from_secs(2);

/// A port of this host that leads to a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exposure {
    pub name: String,
    pub cluster: String,
    /// The kubeconfig of the cluster.
    pub kubeconfig: PathBuf,
    pub namespace: String,
    pub pod: PodChoice,
    pub listen: u16,
    /// Address of this host that the port listens on.
    #[serde(default = "localhost")]
    pub bind: IpAddr,
    /// Of the pod.
    pub port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodChoice {
    /// Any ready pod with these labels.
    Selector(String),
    /// This one, under whichever identity it comes back.
    Name(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExposureReport {
    #[serde(flatten)]
    pub exposure: Exposure,
    /// The pod connections are led to now, and how.
    pub leads_to: Option<String>,
    /// Why there is none.
    pub problem: Option<String>,
}

fn localhost() -> IpAddr {
    IpAddr::V4(Ipv4Addr::LOCALHOST)
}

impl Exposure {
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.bind, self.listen)
    }
}

/// All exposures of a testbed, with their ports open.
pub struct Exposures {
    place: TestbedDir,
    open: Mutex<BTreeMap<String, Open>>,
}

struct Open {
    exposure: Exposure,
    following: Arc<Following>,
    /// `None` where the port could not be had, and why.
    lead: Result<ForwardedPort, String>,
}

/// Returns the forwards in the file of the testbed.
pub fn saved(place: &TestbedDir) -> Vec<Exposure> {
    let Ok(text) = std::fs::read(place.exposures_file()) else { return Vec::new() };
    serde_json::from_slice(&text).unwrap_or_else(|error| {
        tracing::error!(%error, file = %place.exposures_file().display(), "the list of forwards is damaged");
        Vec::new()
    })
}

impl Exposures {
    /// Opens what was exposed before. A port that is taken now shows in the reports.
    pub async fn load(place: &TestbedDir) -> Self {
        let mut open = BTreeMap::new();
        for exposure in saved(place) {
            let opened = Open::new(exposure).await;
            open.insert(opened.exposure.name.clone(), opened);
        }
        Self { place: place.clone(), open: Mutex::new(open) }
    }

    /// Adds one, or replaces the one of that name.
    pub async fn add(&self, exposure: Exposure) -> anyhow::Result<()> {
        let mut open = self.open.lock().await;
        if open.get(&exposure.name).is_some_and(|known| known.exposure == exposure && known.lead.is_ok()) {
            return Ok(());
        }
        if let Some(old) = open.remove(&exposure.name)
            && let Ok(lead) = old.lead
        {
            lead.close().await;
        }
        if open.len() >= EXPOSURES_MAX {
            bail!("there are {EXPOSURES_MAX} forwards already");
        }
        let opened = Open::new(exposure).await;
        if let Err(problem) = &opened.lead {
            bail!("{problem}");
        }
        open.insert(opened.exposure.name.clone(), opened);
        self.save(&open)
    }

    pub async fn remove(&self, name: &str) -> anyhow::Result<()> {
        let mut open = self.open.lock().await;
        let Some(gone) = open.remove(name) else {
            let names: Vec<&str> = open.keys().map(String::as_str).collect();
            bail!("there is no forward {name}; there are: {}", names.join(", "));
        };
        if let Ok(lead) = gone.lead {
            lead.close().await;
        }
        self.save(&open)
    }

    pub async fn reports(&self) -> Vec<ExposureReport> {
        let open = self.open.lock().await;
        let mut reports = Vec::new();
        for Open { exposure, following, lead } in open.values() {
            let found = match lead {
                Err(problem) => Err(problem.clone()),
                Ok(_) => match tokio::time::timeout(LOOK_PATIENCE, following.find()).await {
                    Ok(found) => found.map(|found| found.describe(exposure.port)).map_err(|error| format!("{error:#}")),
                    Err(_) => Err(format!("{} does not answer", exposure.cluster)),
                },
            };
            let (leads_to, problem) = (found.as_ref().ok().cloned(), found.err());
            reports.push(ExposureReport { exposure: exposure.clone(), leads_to, problem });
        }
        reports
    }

    /// Closes the ports; what was exposed stays in the file.
    pub async fn close(&self) {
        for open in std::mem::take(&mut *self.open.lock().await).into_values() {
            if let Ok(lead) = open.lead {
                lead.close().await;
            }
        }
    }

    fn save(&self, open: &BTreeMap<String, Open>) -> anyhow::Result<()> {
        let all: Vec<&Exposure> = open.values().map(|open| &open.exposure).collect();
        write_file(&self.place.exposures_file(), &serde_json::to_vec_pretty(&all)?)
            .context("the port is open, but only until the supervisor ends")
    }
}

impl Open {
    async fn new(exposure: Exposure) -> Self {
        let following = Arc::new(Following::new(exposure.clone()));
        let address = exposure.address();
        let lead = ForwardedPort::open(address, following.clone()).await;
        let lead = lead.map_err(|error| format!("cannot listen on {address}: {error}"));
        Self { exposure, following, lead }
    }
}
