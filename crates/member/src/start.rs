//! Starts and stops a member: an API server and the other components of a Kubernetes cluster.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api_host::{Additions, ApiHost};
use apiserver::admission::claim_resize::ClaimResize;
use apiserver::admission::default_tolerations::DefaultTolerations;
use apiserver::admission::priority::Priorities;
use apiserver::admission::runtime_class::RuntimeClasses;
use apiserver::admission::storage_class::DefaultStorageClass;
use apiserver::server::Handlers;
use apiserver::usage::UsageApi;
use cluster_client::{ClusterClient, User};
use kubelet::Kubelet;
use kubelet::containerd::{Containerd, ContainerdSettings};
use reconcile::{Clock, Mirrors, SystemClock};
use simulated_nodes::Simulation;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backends::{Backends, Runner};
use crate::fault_injection::FaultInjection;
use crate::options::{Containers, MemberOptions, Runtime};
use crate::streams::{MemberUsage, PodStreams};

/// Grace period for work in progress when the member stops.
const END_WAIT_MAX: Duration = Duration::from_secs(5);

const CLUSTER: (&str, &[&str]) = ("system:kube-scheduler", &["system:masters", "system:authenticated"]);

/// A running member.
pub struct RunningMember {
    pub address: SocketAddr,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    host: ApiHost,
    components: JoinSet<()>,
    containers: Option<(Kubelet, Containerd)>,
    stop: CancellationToken,
}

impl RunningMember {
    /// Returns when the API is ready; nodes and their pods follow shortly after.
    pub async fn start(options: MemberOptions) -> anyhow::Result<Self> {
        // Requirements of this machine are checked before anything is created.
        if let (Runtime::Containerd(_), Some(unmet)) = (&options.runtime, kubelet::containerd::unmet()) {
            return Err(anyhow::Error::new(unmet).context("--runtime containerd is not supported on this machine"));
        }
        let backends = Backends::default();
        let host = ApiHost::open(&options.host, additions()).await?.serve(handlers(&backends))?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let stop = CancellationToken::new();
        let mut components = JoinSet::new();
        let (clients, parameters) = host.controllers(Arc::clone(&clock))?;
        components.spawn(core_controllers::run(clients, parameters, stop.clone()));
        let client = host.client(User::new(CLUSTER.0, CLUSTER.1))?;
        // One mirror per resource for all components.
        let mirrors = Mirrors::new(client.clone(), stop.clone());
        let parts = workloads::WorkloadDeps { mirrors: mirrors.clone(), clock: Arc::clone(&clock) };
        components.spawn(workloads::run(parts, stop.clone()));
        let services =
            cluster_services::ClusterServiceSettings { api_address: Some(host.address), ..options.services.clone() };
        let parts = cluster_services::ClusterServiceDeps {
            mirrors: mirrors.clone(),
            clock: Arc::clone(&clock),
            settings: services,
        };
        components.spawn(cluster_services::run(parts, stop.clone()));
        let containers = match &options.runtime {
            Runtime::Simulated(settings) => {
                let parts = simulated_nodes::SimulationDeps { mirrors, clock, settings: settings.clone() };
                let simulation = Simulation::start(parts);
                backends.run_by(Runner::Simulated(simulation.clone()));
                components.spawn(simulated_nodes::run(simulation, stop.clone()));
                None
            }
            Runtime::Containerd(containers) => {
                let (kubelet, containerd) =
                    start_containers(&options, containers, (client, clock, host.address), &mut components, &stop)
                        .await?;
                backends.run_by(Runner::Containers(kubelet.clone()));
                Some((kubelet, containerd))
            }
        };
        Ok(Self { address: host.address, kubeconfig: host.kubeconfig.clone(), host, components, containers, stop })
    }

    /// Returns the reason why the member must be restarted; pending until then.
    pub async fn broken(&self) -> anyhow::Error {
        self.host.broken().await
    }

    /// Finishes requests and writes, stops containers, then closes the store.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(END_WAIT_MAX, async {
            while let Some(ended) = self.components.join_next().await {
                if let Err(error) = ended {
                    tracing::error!(%error, "member component exited with an error");
                }
            }
        });
        if ended.await.is_err() {
            tracing::warn!("the member's controllers did not stop in time");
        }
        if let Some((kubelet, containerd)) = self.containers {
            kubelet.end_pods().await;
            containerd.stop().await;
        }
        self.host.stop().await;
    }
}

async fn start_containers(
    options: &MemberOptions,
    containers: &Containers,
    (client, clock, api): (ClusterClient, Arc<dyn Clock>, SocketAddr),
    components: &mut JoinSet<()>,
    stop: &CancellationToken,
) -> anyhow::Result<(Kubelet, Containerd)> {
    let settings = ContainerdSettings {
        directory: options.host.data_dir.join("containerd"),
        pod_cidr: containers.pod_cidr.clone(),
        registries: containers.registries.clone(),
    };
    let containerd = Containerd::start(&settings).await.context("failed to start the container runtime")?;
    let mut settings = kubelet::KubeletSettings::new(
        containerd.socket().to_owned(),
        options.host.data_dir.join("kubelet"),
        &containers.node_name,
        &containers.pod_cidr,
        &options.host.version.git_version,
    );
    settings.cgroup = containerd.cgroup().to_owned();
    settings.api_endpoint = Some(api);
    let (kubelet, running) = kubelet::start(kubelet::KubeletDeps { client, clock, settings }, stop.clone())?;
    components.spawn(running);
    Ok((kubelet, containerd))
}

/// Kinds and admission steps of a member in addition to those of every API server.
fn additions() -> Additions {
    Additions {
        kinds: apiserver::usage::kinds(),
        // Admission plugins of a cluster with nodes and volumes.
        judges: vec![
            Box::new(Priorities),
            Box::new(DefaultTolerations),
            Box::new(DefaultStorageClass),
            Box::new(ClaimResize),
            Box::new(RuntimeClasses),
        ],
        ..Additions::default()
    }
}

/// Subresources and paths of a member in addition to those of every API server.
fn handlers(backends: &Backends) -> Handlers {
    let usage = UsageApi { source: Arc::new(MemberUsage { backends: backends.clone() }) };
    Handlers {
        connect: vec![Box::new(PodStreams { backends: backends.clone() }), Box::new(usage)],
        extensions: vec![Box::new(FaultInjection)],
        ..Handlers::default()
    }
}
