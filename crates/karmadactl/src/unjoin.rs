//! `unjoin`: removes a member from the control plane, says what it waits for, and never waits for ever.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use api::Resource;
use api::cluster::{CLUSTERS, ClusterSpec, SyncMode};
use api::names::{CLUSTER_NAMESPACE, execution_namespace};
use api::work::{BindingSpec, CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS, WORKS};
use clap::Args;
use cluster_client::{ClusterClient, DeleteOptions, Endpoint, ListOptions, Patch, ResourceRef, WriteOptions};
use object::Object;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::console::Console;
use crate::durations;
use crate::join::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, SERVICE_ACCOUNTS, role_of, service_account_of};
use crate::plane::{Plane, PlaneArgs, open_kubeconfig};

const POLL: Duration = Duration::from_millis(250);
/// How long an object whose finalizers were taken away gets to vanish.
const FORCED_PATIENCE: Duration = Duration::from_secs(10);
/// Names shown of what is waited for.
const NAMES_SHOWN_MAX: usize = 3;

/// Remove a cluster from Karmada control plane.
///
/// What the control plane put into the cluster is removed first, which needs the cluster to be reachable; the command
/// says what it waits for, and ends after --wait at the latest. With --force it then gives up on what is left.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Remove member1; service accounts made by join stay in the cluster
  flotilla unjoin member1

  # Remove member1 and what join made in the cluster
  flotilla unjoin member1 --cluster-kubeconfig=FILE --cluster-context=member1

  # Remove a cluster that is gone for good, after waiting 10 seconds for it
  flotilla unjoin member1 --wait=10s --force")]
pub struct UnjoinArgs {
    /// Name of the cluster
    #[arg(value_name = "CLUSTER_NAME")]
    name: Option<String>,
    #[command(flatten)]
    plane: PlaneArgs,
    /// Path of the cluster's kubeconfig, to remove what join made in it
    #[arg(long, value_name = "FILE")]
    cluster_kubeconfig: Option<PathBuf>,
    /// Context in that kubeconfig [default: the name of the cluster, else the only or current one]
    #[arg(long, value_name = "CONTEXT")]
    cluster_context: Option<String>,
    /// Namespace of the secrets, in the control plane and in the cluster
    #[arg(long, default_value = CLUSTER_NAMESPACE, value_name = "NAMESPACE")]
    cluster_namespace: String,
    /// Remove the cluster even if what it holds cannot be cleaned up in time; things may stay behind in it
    #[arg(long)]
    force: bool,
    /// How long to wait for the cleanup
    #[arg(long, default_value = "60s", value_parser = durations::parse, value_name = "DURATION")]
    wait: Duration,
    /// Check everything and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// What is removed, and how hard to try.
struct Leaving {
    name: String,
    namespace: String,
    wait: Duration,
    force: bool,
}

pub async fn run(console: &Console, args: UnjoinArgs) -> anyhow::Result<()> {
    let Some(name) = args.name.clone().filter(|name| !name.is_empty()) else { bail!("cluster name is required") };
    if args.wait.is_zero() {
        bail!("--wait must be a positive duration, e.g. 1m0s");
    }
    let plane = Plane::open(&args.plane)?;
    let member = args.open_member(&name)?;
    let leaving = Leaving { name, namespace: args.cluster_namespace, wait: args.wait, force: args.force };
    unjoin(console, &plane, &leaving, member.as_ref(), args.dry_run).await.map_err(|error| plane.explain(error))
}

impl UnjoinArgs {
    fn open_member(&self, name: &str) -> anyhow::Result<Option<ClusterClient>> {
        let Some(path) = &self.cluster_kubeconfig else { return Ok(None) };
        let open = |context: Option<&str>| open_kubeconfig(Some(path), context);
        let opened = match self.cluster_context.as_deref() {
            Some(context) => open(Some(context)),
            // Karmada takes the name of the cluster; a kubeconfig without such a context is no reason to fail.
            None => open(Some(name)).or_else(|_| open(None)),
        };
        let (_, remote) = opened.context("failed to get unjoining cluster config")?;
        Ok(Some(ClusterClient::connect(Endpoint::Remote(remote))?))
    }
}

async fn unjoin(
    console: &Console,
    plane: &Plane,
    leaving: &Leaving,
    member: Option<&ClusterClient>,
    dry_run: bool,
) -> anyhow::Result<()> {
    let name = &leaving.name;
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), name);
    let Some(cluster) = plane.client.find(target.clone()).await? else {
        bail!("no cluster object {name} found in karmada control Plane");
    };
    let spec: ClusterSpec = api::read(&cluster)?;
    if spec.sync_mode == SyncMode::Pull {
        bail!(
            "cluster {name} is a Pull mode member cluster, please use command `unregister` if you want to continue \
             unregistering the cluster"
        );
    }
    if dry_run {
        console.note(format!("cluster {name} would be removed; nothing was changed"));
        return Ok(());
    }
    match plane.client.delete(target, DeleteOptions::default()).await {
        Err(status) if !status.is_not_found() => return Err(status.into()),
        _ => {}
    }
    if let Some(remains) = wait_until_gone(console, &plane.client, name, leaving.wait).await? {
        if !leaving.force {
            bail!(
                "cluster {name} is not removed after {:?}: {remains}\nIts removal goes on as soon as that is gone. If the \
                 cluster will not come back, say `{} unjoin {name} --force`; what is left in the cluster then stays there",
                leaving.wait,
                console.program
            );
        }
        console
            .warn(format!("cluster {name} is not removed after {:?}: {remains}; removing it by force", leaving.wait));
        remove_by_force(console, &plane.client, name).await?;
    }
    console.note(format!("cluster({name}) is removed from the control plane"));
    match member {
        Some(member) => clean_member(console, leaving, member).await,
        None => {
            console.note(format!(
                "service account {} and its rights stay in the cluster; give --cluster-kubeconfig to remove them too",
                service_account_of(name)
            ));
            Ok(())
        }
    }
}

/// `None` once the Cluster is gone; else, when time is up, what it still waits for.
async fn wait_until_gone(
    console: &Console,
    client: &ClusterClient,
    name: &str,
    patience: Duration,
) -> anyhow::Result<Option<String>> {
    let deadline = Instant::now() + patience;
    let mut shown = String::new();
    let mut next_look = Instant::now() + Duration::from_secs(1);
    loop {
        let Some(cluster) = client.find(ResourceRef::cluster(&CLUSTERS.gvr(), name)).await? else { return Ok(None) };
        let is_late = Instant::now() >= deadline;
        if is_late || Instant::now() >= next_look {
            let remains = what_remains(client, &cluster).await?;
            if is_late {
                return Ok(Some(remains));
            }
            if remains != shown {
                console.note(format!("waiting for cluster {name} to be removed: {remains}"));
                shown = remains;
            }
            next_look = Instant::now() + Duration::from_secs(1);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Why a Cluster that is being deleted is still there.
async fn what_remains(client: &ClusterClient, cluster: &Object) -> anyhow::Result<String> {
    let name = cluster.name();
    let namespace = execution_namespace(name);
    let works = client.list_all(ResourceRef::within(&WORKS.gvr(), &namespace), ListOptions::default()).await?.items;
    if !works.is_empty() {
        let names = some_names(works.iter().map(|work| work.name()));
        return Ok(format!("{} object(s) in it are not cleaned up yet ({names})", works.len()));
    }
    if client.find(ResourceRef::cluster(&NAMESPACES.gvr(), &namespace)).await?.is_some() {
        return Ok(format!("namespace {namespace} is being removed"));
    }
    let mut bindings: Vec<String> = Vec::new();
    for resource in [&RESOURCE_BINDINGS, &CLUSTER_RESOURCE_BINDINGS] {
        let list = client.list_all(ResourceRef::all(&resource.gvr()), ListOptions::default()).await?;
        let placed = |binding: &Object| {
            api::read::<BindingSpec>(binding).is_ok_and(|spec| spec.clusters.iter().any(|target| target.name == name))
        };
        bindings.extend(list.items.iter().filter(|b| placed(b)).map(|b| format!("{}/{}", b.namespace(), b.name())));
    }
    if !bindings.is_empty() {
        let names = some_names(bindings.iter().map(|name| name.trim_start_matches('/')));
        return Ok(format!("{} workload(s) are still placed on it ({names})", bindings.len()));
    }
    let finalizers: Vec<&str> = cluster.finalizers().collect();
    Ok(format!("the controllers of {} have not let go of it", finalizers.join(", ")))
}

fn some_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    let is_cut = names.len() > NAMES_SHOWN_MAX;
    names.truncate(NAMES_SHOWN_MAX);
    names.join(", ") + if is_cut { ", …" } else { "" }
}

/// Takes away what holds the Cluster: the finalizers of its works, then its own.
async fn remove_by_force(console: &Console, client: &ClusterClient, name: &str) -> anyhow::Result<()> {
    let namespace = execution_namespace(name);
    let works = client.list_all(ResourceRef::within(&WORKS.gvr(), &namespace), ListOptions::default()).await?.items;
    for work in &works {
        let target = ResourceRef::namespaced(&WORKS.gvr(), &namespace, work.name());
        drop_finalizers(client, target.clone(), work).await?;
        if !work.is_deleting() {
            let deleted = client.delete(target, DeleteOptions::default()).await;
            deleted.map(drop).or_else(|status| if status.is_not_found() { Ok(()) } else { Err(status) })?;
        }
    }
    if !works.is_empty() {
        console.warn(format!("{} object(s) may be left behind in cluster {name}", works.len()));
    }
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), name);
    if let Some(cluster) = client.find(target.clone()).await? {
        drop_finalizers(client, target, &cluster).await?;
    }
    match wait_until_gone(console, client, name, FORCED_PATIENCE).await? {
        None => Ok(()),
        Some(remains) => bail!("cluster {name} could not be removed by force: {remains}"),
    }
}

/// Only the control plane's own: what others hold an object for is theirs to let go.
async fn drop_finalizers(client: &ClusterClient, target: ResourceRef, object: &Object) -> anyhow::Result<()> {
    let (own, others): (Vec<&str>, Vec<&str>) = object.finalizers().partition(|f| f.starts_with("karmada.io/"));
    if own.is_empty() {
        return Ok(());
    }
    let others = if others.is_empty() { Value::Null } else { json!(others) };
    let patch = Patch::merge(json!({"metadata": {"finalizers": others}}));
    match client.patch(target, patch, WriteOptions::default()).await {
        Err(status) if !status.is_not_found() => Err(status.into()),
        _ => Ok(()),
    }
}

/// Removes what join made in the cluster.
async fn clean_member(console: &Console, leaving: &Leaving, member: &ClusterClient) -> anyhow::Result<()> {
    let account = service_account_of(&leaving.name);
    let role = role_of(&account);
    let steps: [(&Resource, &str, &str); 4] = [
        (&CLUSTER_ROLE_BINDINGS, "", &role),
        (&CLUSTER_ROLES, "", &role),
        (&SERVICE_ACCOUNTS, &leaving.namespace, &account),
        (&NAMESPACES, "", &leaving.namespace),
    ];
    for (resource, namespace, name) in steps {
        let target = match namespace {
            "" => ResourceRef::cluster(&resource.gvr(), name),
            namespace => ResourceRef::namespaced(&resource.gvr(), namespace, name),
        };
        match member.delete(target, DeleteOptions::default()).await {
            Ok(_) => {}
            Err(status) if status.is_not_found() => {}
            Err(status) if leaving.force => {
                console.warn(format!("{} {name} stays in cluster {}: {status}", resource.kind, leaving.name));
            }
            Err(status) => {
                return Err(anyhow::Error::from(status)
                    .context(format!("cannot delete {} {name} in unjoining cluster {}", resource.kind, leaving.name)));
            }
        }
    }
    console.note(format!("service account {account} and its rights are removed from the cluster"));
    Ok(())
}

#[cfg(test)]
mod tests;
