//! `unregister`: removes a pull-mode member from the control plane, and the agent from the member.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use api::names::{CLUSTER_NAMESPACE, SYSTEM_NAMESPACE};
use clap::Args;
use cluster_client::{ClusterClient, Endpoint};
use membership::agent_manifests::AGENT;
use membership::unregister::{ControlPlaneAccess, UnregisterOptions, UnregisterOutcome, connect_as_agent, unregister};

use crate::console::Console;
use crate::durations;
use crate::membership_progress::to_anyhow;
use crate::plane::open_kubeconfig;

/// Remove a pull mode cluster from Karmada control plane.
///
/// The agent removes the propagated objects from the cluster; then the Cluster and the agent itself are deleted.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Remove a cluster with the credentials of its agent
  flotilla unregister member3 --cluster-kubeconfig=FILE

  # Also remove the agent's permissions in the control plane
  flotilla unregister member3 --cluster-kubeconfig=FILE --karmada-config=FILE")]
pub struct UnregisterArgs {
    /// Name of the cluster
    #[arg(value_name = "CLUSTER_NAME")]
    name: Option<String>,
    /// Kubeconfig of the cluster
    #[arg(long, value_name = "FILE")]
    cluster_kubeconfig: Option<PathBuf>,
    /// Context in it [default: its current context]
    #[arg(long, value_name = "CONTEXT")]
    cluster_context: Option<String>,
    /// Kubeconfig of the control plane [default: the agent's own, from its secret]
    #[arg(long, value_name = "FILE")]
    karmada_config: Option<PathBuf>,
    /// Context in it [default: its current context]
    #[arg(long, value_name = "CONTEXT")]
    karmada_context: Option<String>,
    /// Namespace of the agent in the cluster
    #[arg(short, long, default_value = SYSTEM_NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// Name of the agent's Deployment
    #[arg(long, default_value = AGENT, value_name = "NAME")]
    agent_name: String,
    /// Namespace of the cluster's secrets
    #[arg(long, default_value = CLUSTER_NAMESPACE, value_name = "NAMESPACE")]
    cluster_namespace: String,
    /// Maximum time to wait for the cleanup
    #[arg(long, default_value = "60s", value_parser = durations::parse, value_name = "DURATION")]
    wait: Duration,
    /// Run all checks without changing anything
    #[arg(long)]
    dry_run: bool,
}

pub async fn run(console: &Console, args: UnregisterArgs) -> anyhow::Result<()> {
    let Some(name) = args.name.clone().filter(|name| !name.is_empty()) else { bail!("cluster name is required") };
    let Some(path) = &args.cluster_kubeconfig else {
        bail!("--cluster-kubeconfig is required to specify KUBECONFIG of the unregistering cluster");
    };
    if args.wait.is_zero() {
        bail!("--wait must be a positive duration, e.g. 1m0s");
    }
    let (_, remote) = open_kubeconfig(Some(path), args.cluster_context.as_deref())?;
    let member = ClusterClient::connect(Endpoint::Remote(remote))?;
    let options = UnregisterOptions {
        control_plane: args.open_control_plane(&member).await?,
        member,
        namespace: args.cluster_namespace,
        agent_namespace: args.namespace,
        agent_name: args.agent_name,
        wait: args.wait,
        dry_run: args.dry_run,
        name,
    };
    let name = &options.name;
    match unregister(&options, console).await.map_err(to_anyhow)? {
        UnregisterOutcome::Checked => console.note(format!("cluster {name} would be removed; nothing was changed")),
        UnregisterOutcome::Removed => console.line(format!("cluster({name}) is unregistered successfully"))?,
    }
    Ok(())
}

impl UnregisterArgs {
    /// Connects with the user's kubeconfig, or without one with the agent's.
    async fn open_control_plane(&self, member: &ClusterClient) -> anyhow::Result<ControlPlaneAccess> {
        let context = self.karmada_context.as_deref();
        match &self.karmada_config {
            Some(path) => {
                let (_, remote) = open_kubeconfig(Some(path), context)?;
                Ok(ControlPlaneAccess::User(ClusterClient::connect(Endpoint::Remote(remote))?))
            }
            None => Ok(ControlPlaneAccess::Agent(connect_as_agent(member, &self.namespace, context).await?)),
        }
    }
}
