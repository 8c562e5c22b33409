//! `unregister`: removes a pull member from the control plane, and the agent from the member.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::credentials::{
    CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, SECRETS, SERVICE_ACCOUNTS, role_of, service_account_of,
};
use anyhow::{Context, bail};
use api::Resource;
use api::cluster::{CLUSTERS, ClusterSpec, SyncMode};
use api::names::{CLUSTER_NAMESPACE, SYSTEM_NAMESPACE, execution_namespace};
use api::work::WORKS;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use cluster_client::{ClusterClient, DeleteOptions, Endpoint, Kubeconfig, ListOptions, ResourceRef};
use tokio::time::Instant;

use crate::console::Console;
use crate::durations;
use crate::plane::open_kubeconfig;
use crate::register::{AGENT, AGENT_ACCOUNT, DEPLOYMENTS, Invitation, KUBECONFIG_SECRET, Rights};

const POLL: Duration = Duration::from_millis(250);

/// Remove a pull mode cluster from Karmada control plane.
///
/// What the control plane put into the cluster is removed by its agent, then the Cluster, then the agent itself.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Remove a cluster with the credentials of its agent
  flotilla unregister member3 --cluster-kubeconfig=FILE

  # Remove also the agent's rights in the control plane
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
    /// How long to wait for the cleanup
    #[arg(long, default_value = "60s", value_parser = durations::parse, value_name = "DURATION")]
    wait: Duration,
    /// Check everything and change nothing
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
    let plane = open_plane(&args, &member).await?;
    unregister(console, &args, &name, &plane, &member).await
}

/// With the user's own kubeconfig, or the agent's.
async fn open_plane(args: &UnregisterArgs, member: &ClusterClient) -> anyhow::Result<ClusterClient> {
    let context = args.karmada_context.as_deref();
    if let Some(path) = &args.karmada_config {
        let (_, remote) = open_kubeconfig(Some(path), context)?;
        return Ok(ClusterClient::connect(Endpoint::Remote(remote))?);
    }
    let target = ResourceRef::namespaced(&SECRETS.gvr(), &args.namespace, KUBECONFIG_SECRET);
    let secret = member.get(target).await.context("the agent's kubeconfig; give --karmada-config instead")?;
    let text = STANDARD.decode(secret.str_at(&["data", KUBECONFIG_SECRET])).context("the agent's kubeconfig")?;
    let text = String::from_utf8(text).context("the agent's kubeconfig")?;
    let remote = Kubeconfig::parse(&text, Path::new("/"))?.remote(context)?;
    Ok(ClusterClient::connect(Endpoint::Remote(remote))?)
}

async fn unregister(
    console: &Console,
    args: &UnregisterArgs,
    name: &str,
    plane: &ClusterClient,
    member: &ClusterClient,
) -> anyhow::Result<()> {
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), name);
    let Some(cluster) = plane.find(target.clone()).await? else {
        bail!("no cluster object {name} found in karmada control Plane");
    };
    if api::read::<ClusterSpec>(&cluster)?.sync_mode == SyncMode::Push {
        bail!(
            "cluster {name} is a Push mode member cluster, please use command `unjoin` if you want to continue \
             unjoining the cluster"
        );
    }
    if args.dry_run {
        console.note(format!("cluster {name} would be removed; nothing was changed"));
        return Ok(());
    }
    let deadline = Instant::now() + args.wait;
    // Its works go with it, and the agent, which still runs, takes away what they brought. Deleting them before would
    // only have them made again.
    ignore_missing(plane.delete(target.clone(), DeleteOptions::default()).await)?;
    while plane.find(target.clone()).await?.is_some() {
        if Instant::now() >= deadline {
            let works = ResourceRef::within(&WORKS.gvr(), &execution_namespace(name));
            let left = plane.list_all(works, ListOptions::default()).await.map_or(0, |list| list.items.len());
            bail!(
                "cluster {name} is not removed after {:?}: {left} object(s) in it are not cleaned up yet; does its agent \
                 run? The removal goes on",
                args.wait
            );
        }
        tokio::time::sleep(POLL).await;
    }
    console.note(format!("cluster({name}) is removed from the control plane"));
    let rights = Rights::new(name, &args.cluster_namespace);
    match args.karmada_config {
        Some(_) => {
            rights.take(console, plane, false).await;
            Invitation::new(name, &args.cluster_namespace)?.take(console, plane).await;
        }
        None => console.warn(format!(
            "the agent may not remove its own rights; remove them with --karmada-config, or by hand: {}",
            rights.names().join(", ")
        )),
    }
    clean_member(args, name, member).await?;
    console.line(format!("cluster({name}) is unregistered successfully"))?;
    Ok(())
}

async fn clean_member(args: &UnregisterArgs, name: &str, member: &ClusterClient) -> anyhow::Result<()> {
    let (own, impersonator) = (service_account_of(name), service_account_of("impersonator"));
    let role = role_of(&own);
    let (secrets, agents) = (args.cluster_namespace.as_str(), args.namespace.as_str());
    let things: [(&Resource, &str, &str); 12] = [
        (&DEPLOYMENTS, agents, &args.agent_name),
        (&SERVICE_ACCOUNTS, secrets, &own),
        (&SECRETS, secrets, &own),
        (&CLUSTER_ROLE_BINDINGS, "", &role),
        (&CLUSTER_ROLES, "", &role),
        (&SERVICE_ACCOUNTS, secrets, &impersonator),
        (&SECRETS, secrets, &impersonator),
        (&NAMESPACES, "", secrets),
        (&SERVICE_ACCOUNTS, agents, AGENT_ACCOUNT),
        (&CLUSTER_ROLE_BINDINGS, "", AGENT),
        (&CLUSTER_ROLES, "", AGENT),
        (&SECRETS, agents, KUBECONFIG_SECRET),
    ];
    for (resource, namespace, name) in things {
        let target = match namespace {
            "" => ResourceRef::cluster(&resource.gvr(), name),
            namespace => ResourceRef::namespaced(&resource.gvr(), namespace, name),
        };
        let deleted = ignore_missing(member.delete(target, DeleteOptions::default()).await);
        deleted.with_context(|| format!("cannot delete {} {name} in the cluster", resource.kind))?;
    }
    Ok(())
}

fn ignore_missing<T>(answer: Result<T, object::Status>) -> Result<(), object::Status> {
    match answer {
        Err(status) if !status.is_not_found() => Err(status),
        _ => Ok(()),
    }
}
