//! A node with real containers: pods run through the container runtime interface.

mod backend;
mod cgroups;
mod container;
pub mod containerd;
mod cri;
mod decide;
mod ending;
mod env;
mod fields;
mod handlers;
mod host_ports;
mod images;
mod logs;
mod machine;
mod netns;
mod node;
mod observed;
mod pod;
mod probes;
mod references;
mod register;
mod relist;
mod sandbox;
mod services;
mod starting;
mod state;
mod status;
mod sync;
mod usage;
mod volumes;

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::ClusterClient;
use object::builtin;
use reconcile::{Clock, Controller, Mirror, MirrorSpec, Recorder, Source};
use tokio_util::sync::CancellationToken;

use crate::cri::Runtime;
use crate::machine::{MachineInfo, own_address};
use crate::node::{KubeletNode, PULLS_MAX};
use crate::pod::COMPONENT;
use crate::probes::Prober;
use crate::sandbox::{LABEL_UID, NodeDns, parse_resolv_conf};
use crate::services::{DNS_ADDRESS, ServiceNetwork, Services, parse_range};
use crate::volumes::tokens::TokenKeeper;

pub use crate::backend::Kubelet;
pub use crate::node::KubeletSettings;
pub use crate::usage::{NodeUsage, PodUsage, ResourceUsage};

/// Maximum number of concurrent pod reconciles.
const SYNCS_MAX: usize = 32;
/// Timeout for stopping all pods at shutdown.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// The dependencies of a node.
pub struct KubeletDeps {
    pub client: ClusterClient,
    pub clock: Arc<dyn Clock>,
    pub settings: KubeletSettings,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("failed to create {0}")]
    Root(std::path::PathBuf, #[source] std::io::Error),
    #[error("{0}")]
    Socket(String),
}

/// Starts a node. It runs as long as the future is polled and the token is not cancelled. Pods outlive it; call
/// `Kubelet::end_pods` first to stop them.
pub fn start(
    parts: KubeletDeps,
    cancel: CancellationToken,
) -> Result<(Kubelet, impl Future<Output = ()> + Send + use<>), StartError> {
    let KubeletDeps { client, clock, settings } = parts;
    std::fs::create_dir_all(&settings.root_dir).map_err(|e| StartError::Root(settings.root_dir.clone(), e))?;
    let runtime = Runtime::connect(&settings.socket).map_err(|e| StartError::Socket(e.to_string()))?;
    let recorder = Recorder::start(client.clone(), COMPONENT, Arc::clone(&clock), cancel.clone());
    let spec = MirrorSpec::new(&builtin::pods()).fields(&format!("spec.nodeName={}", settings.node_name));
    let resolv_conf = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let host = parse_resolv_conf(&resolv_conf);
    let range = settings.service_cidr.as_deref().and_then(parse_range);
    let services = range.map(|range| {
        let resolvers = host.servers.iter().filter_map(|server| server.parse().ok()).collect();
        let domain = settings.cluster_domain.clone();
        let network = ServiceNetwork { range, domain, resolvers, api: settings.api_endpoint };
        Arc::new(Services::start(&client, network, &cancel))
    });
    let mut cluster_dns = settings.cluster_dns.clone();
    if cluster_dns.is_empty() && services.is_some() {
        cluster_dns.push(DNS_ADDRESS.to_string());
    }
    let resolving = NodeDns { cluster_dns, cluster_domain: settings.cluster_domain.clone(), host };
    let node = Arc::new(KubeletNode {
        pods: Mirror::start(client.clone(), spec, cancel.clone()),
        prober: Prober::new(recorder.clone()),
        tokens: TokenKeeper::new(Arc::clone(&clock)),
        machine: MachineInfo::read(&settings.root_dir),
        address: settings.node_address.unwrap_or_else(own_address),
        controller: Controller::new("kubelet"),
        states: Default::default(),
        samples: Default::default(),
        pulls: tokio::sync::Semaphore::new(PULLS_MAX),
        client,
        clock,
        runtime,
        settings,
        recorder,
        resolving,
        services,
    });
    let kubelet = Kubelet { node: Arc::clone(&node), execs: Arc::default() };
    Ok((kubelet, run(node, cancel)))
}

async fn run(node: Arc<KubeletNode>, cancel: CancellationToken) {
    let syncs = async {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = node.pods.synced() => {}
        }
        remove_forgotten(&node).await;
        let sources = vec![Source::each(&node.pods)];
        let shared = Arc::clone(&node);
        let reconcile = move |key| sync::reconcile(Arc::clone(&shared), key);
        node.controller.clone().run(sources, SYNCS_MAX, cancel.clone(), reconcile).await;
    };
    futures::join!(
        syncs,
        register::run(&node, cancel.clone()),
        relist::run(&node, cancel.clone()),
        usage::run(&node, cancel.clone()),
    );
}

/// Removes directories of pods deleted while the node was down. Pods still in the runtime are cleaned up elsewhere.
async fn remove_forgotten(node: &KubeletNode) {
    let Ok(sandboxes) = node.runtime.list_sandboxes(Default::default()).await else { return };
    let pods = node.pods.list();
    let mut known: BTreeSet<&str> = pods.iter().map(|pod| pod.uid()).collect();
    known.extend(sandboxes.iter().filter_map(|sandbox| sandbox.labels.get(LABEL_UID)).map(String::as_str));
    let entries = std::fs::read_dir(node.settings.root_dir.join("pods")).into_iter().flatten().flatten();
    for uid in entries.filter_map(|entry| entry.file_name().into_string().ok()) {
        if !known.contains(uid.as_str())
            && let Err(error) = volumes::remove_pod_folder(&node.settings.root_dir, &uid)
        {
            tracing::warn!(uid, %error, "failed to remove directory of a deleted pod");
        }
    }
}

impl Kubelet {
    /// Stops every pod in the runtime, as at a machine shutdown, for a node that does not return. The API is not
    /// updated.
    pub async fn end_pods(&self) {
        let runtime = &self.node.runtime;
        self.node.states.end_all();
        let end = async {
            let sandboxes = runtime.list_sandboxes(Default::default()).await?;
            let ends = sandboxes.iter().map(|sandbox| async {
                runtime.stop_sandbox(&sandbox.id).await?;
                runtime.remove_sandbox(&sandbox.id).await
            });
            futures::future::try_join_all(ends).await
        };
        match tokio::time::timeout(END_TIMEOUT, end).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "failed to stop all pods"),
            Err(_) => tracing::warn!("pods did not stop in time"),
        }
        if let Err(error) = volumes::unmount_below(&self.node.settings.root_dir.join("pods")) {
            tracing::warn!(%error, "failed to unmount volume");
        }
        cgroups::remove(&self.node.settings.cgroup);
    }
}
