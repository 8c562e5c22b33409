//! `flotilla member`: runs a light Kubernetes cluster until it is told to stop.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use member::{Containers, Member, NodeSettings, Options, Runtime};

use crate::termination::Termination;

#[derive(Args)]
pub struct MemberArgs {
    /// State, keys and the administrator's kubeconfig (member.config) are kept here.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Address to listen on; port 0 picks a free one.
    #[arg(long, default_value = "127.0.0.1:16443", value_name = "HOST:PORT")]
    bind: SocketAddr,
    /// What the cluster is called in its kubeconfig.
    #[arg(long, default_value = "member", value_name = "NAME")]
    cluster_name: String,
    /// Further DNS names or addresses the server certificate is valid for; may be given several times.
    #[arg(long = "tls-san", value_name = "NAME")]
    names: Vec<String>,
    /// URL written into the kubeconfig, when clients reach the member by another way than --bind.
    #[arg(long, value_name = "URL")]
    advertise_url: Option<String>,
    /// What pods run on: simulated nodes, or a node with real containers (needs root, containerd and runc).
    #[arg(long, value_enum, default_value_t = RuntimeKind::Simulated)]
    runtime: RuntimeKind,
    /// How many simulated nodes there are.
    #[arg(long, default_value_t = 1, value_name = "N")]
    nodes: u32,
    /// What nodes are called: NAME-1, NAME-2 and so on [default: the cluster's name and `-node`].
    #[arg(long, value_name = "NAME")]
    node_prefix: Option<String>,
    /// What each simulated node has.
    #[arg(long, default_value = "8", value_name = "QUANTITY")]
    node_cpu: String,
    #[arg(long, default_value = "32Gi", value_name = "QUANTITY")]
    node_memory: String,
    #[arg(long, default_value_t = 110, value_name = "N")]
    node_pods: u32,
    /// Zones the simulated nodes are spread over, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "ZONE")]
    zones: Vec<String>,
    /// The region the simulated nodes are in.
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// How long a simulated pod takes until its containers start, and once more until it is ready.
    #[arg(long, default_value = "200ms", value_name = "DURATION", value_parser = ::karmadactl::durations::parse)]
    pod_delay: Duration,
    /// Addresses of pods, with real containers.
    #[arg(long, default_value = "10.86.0.0/16", value_name = "CIDR")]
    pod_cidr: String,
    /// A registry containers come from over plain HTTP, as HOST:PORT or HOST:PORT=URL; may be given several times.
    #[arg(long, default_value = "localhost:32000=http://127.0.0.1:32000", value_name = "HOST:PORT[=URL]")]
    registry: Vec<String>,
    /// The Kubernetes version to report, such as 1.33.2.
    #[arg(long, value_name = "VERSION")]
    kubernetes_version: Option<String>,
    /// Keep objects in memory only: they are gone when the process ends.
    #[arg(long)]
    in_memory: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RuntimeKind {
    Simulated,
    Containerd,
}

pub async fn run(args: MemberArgs) -> anyhow::Result<()> {
    let mut termination = Termination::listen()?;
    let started = std::time::Instant::now();
    let member = Member::start(args.into_options()?).await?;
    tracing::info!(
        address = %member.address,
        kubeconfig = %member.kubeconfig.display(),
        took = ?started.elapsed(),
        "the member is ready"
    );
    let ending = termination.asked_unless(member.broken()).await;
    tracing::info!("stopping: requests under way may finish");
    member.stop().await;
    ending
}

impl MemberArgs {
    fn into_options(self) -> anyhow::Result<Options> {
        let mut options = Options::new(&self.cluster_name, &self.data_dir, self.bind);
        options.runtime = self.runtime();
        options.host.names = self.names;
        options.host.advertise = self.advertise_url;
        if let Some(version) = &self.kubernetes_version {
            options.report_version(version)?;
        }
        if self.in_memory {
            options.host.storage = api_host::Storage::Memory;
        }
        Ok(options)
    }

    fn runtime(&self) -> Runtime {
        let prefix = self.node_prefix.clone().unwrap_or_else(|| format!("{}-node", self.cluster_name));
        if self.runtime == RuntimeKind::Containerd {
            let registries = self.registry.iter().map(|registry| match registry.split_once('=') {
                Some((host, url)) => (host.to_owned(), url.to_owned()),
                None => (registry.clone(), format!("http://{registry}")),
            });
            return Runtime::Containerd(Containers {
                node_name: format!("{prefix}-1"),
                pod_cidr: self.pod_cidr.clone(),
                registries: registries.collect(),
            });
        }
        let mut settings = NodeSettings {
            cluster_name: self.cluster_name.clone(),
            nodes: self.nodes,
            name_prefix: prefix,
            zones: self.zones.clone(),
            regions: self.region.iter().cloned().collect(),
            ..NodeSettings::default()
        };
        settings.capacity.cpu.clone_from(&self.node_cpu);
        settings.capacity.memory.clone_from(&self.node_memory);
        settings.capacity.pods = self.node_pods;
        (settings.delays.create, settings.delays.ready) = (self.pod_delay, self.pod_delay);
        Runtime::Simulated(settings)
    }
}
