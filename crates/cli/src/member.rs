//! `flotilla member`: runs a lightweight Kubernetes cluster until it is terminated.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use member::{Containers, MemberOptions, RunningMember, Runtime, SimulatedNodeSettings};

use crate::termination::Termination;

#[derive(Args)]
pub struct MemberArgs {
    /// Directory for state, keys and the administrator's kubeconfig (member.config).
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Address to listen on; port 0 picks a free port.
    #[arg(long, default_value = "127.0.0.1:16443", value_name = "HOST:PORT")]
    bind: SocketAddr,
    /// Name of the cluster in its kubeconfig.
    #[arg(long, default_value = "member", value_name = "NAME")]
    cluster_name: String,
    /// Additional DNS name or IP address for the server certificate (can be repeated).
    #[arg(long = "tls-san", value_name = "NAME")]
    names: Vec<String>,
    /// URL written into the kubeconfig, if clients do not reach the member at --bind.
    #[arg(long, value_name = "URL")]
    advertise_url: Option<String>,
    /// Runtime of pods: simulated, or containerd for real containers (needs root, containerd and runc).
    #[arg(long, value_enum, default_value_t = RuntimeKind::Simulated)]
    runtime: RuntimeKind,
    /// Number of simulated nodes.
    #[arg(long, default_value_t = 1, value_name = "N")]
    nodes: u32,
    /// Prefix of node names: NAME-1, NAME-2 and so on [default: the cluster's name and `-node`].
    #[arg(long, value_name = "NAME")]
    node_prefix: Option<String>,
    /// CPUs of each simulated node.
    #[arg(long, default_value = "8", value_name = "QUANTITY")]
    node_cpu: String,
    /// Memory of each simulated node.
    #[arg(long, default_value = "32Gi", value_name = "QUANTITY")]
    node_memory: String,
    /// Maximum number of pods on each simulated node.
    #[arg(long, default_value_t = 110, value_name = "N")]
    node_pods: u32,
    /// Comma-separated zones of the simulated nodes.
    #[arg(long, value_delimiter = ',', value_name = "ZONE")]
    zones: Vec<String>,
    /// Region of the simulated nodes.
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// Delay until the containers of a simulated pod start, and again until the pod is ready.
    #[arg(long, default_value = "200ms", value_name = "DURATION", value_parser = ::karmadactl::durations::parse)]
    pod_delay: Duration,
    /// Address range of pods, with --runtime containerd.
    #[arg(long, default_value = "10.86.0.0/16", value_name = "CIDR")]
    pod_cidr: String,
    /// Registry to pull from over plain HTTP, as HOST:PORT or HOST:PORT=URL (can be repeated).
    #[arg(long, default_value = "localhost:32000=http://127.0.0.1:32000", value_name = "HOST:PORT[=URL]")]
    registry: Vec<String>,
    /// Kubernetes version to report, such as 1.33.2.
    #[arg(long, value_name = "VERSION")]
    kubernetes_version: Option<String>,
    /// Keep objects in memory only; they are lost when the process ends.
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
    let member = RunningMember::start(args.into_options()?).await?;
    tracing::info!(
        address = %member.address,
        kubeconfig = %member.kubeconfig.display(),
        took = ?started.elapsed(),
        "the member is ready"
    );
    let ending = termination.asked_unless(member.broken()).await;
    tracing::info!("shutting down, waiting for requests in flight");
    member.stop().await;
    ending
}

impl MemberArgs {
    fn into_options(self) -> anyhow::Result<MemberOptions> {
        let mut options = MemberOptions::new(&self.cluster_name, &self.data_dir, self.bind);
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
        let mut settings = SimulatedNodeSettings {
            cluster_name: self.cluster_name.clone(),
            nodes: self.nodes,
            name_prefix: prefix,
            zones: self.zones.clone(),
            regions: self.region.iter().cloned().collect(),
            ..SimulatedNodeSettings::default()
        };
        settings.capacity.cpu.clone_from(&self.node_cpu);
        settings.capacity.memory.clone_from(&self.node_memory);
        settings.capacity.pods = self.node_pods;
        (settings.delays.create, settings.delays.ready) = (self.pod_delay, self.pod_delay);
        Runtime::Simulated(settings)
    }
}
