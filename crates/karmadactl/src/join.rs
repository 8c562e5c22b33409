//! `join`: adds a cluster to the control plane in push mode.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use api::names::{CLUSTER_NAMESPACE, SYSTEM_NAMESPACE};
use clap::Args;
use cluster_client::User;
use membership::cluster_name::check_name;
use membership::join::{JoinOptions, JoinOutcome, Readiness, join, wait_until_ready};
use membership::{MemberAccess, MembershipError};

use crate::cluster_location::ClusterLocationArgs;
use crate::console::Console;
use crate::durations;
use crate::membership_progress::to_anyhow;
use crate::plane::{PlaneArgs, PlaneClient, open_kubeconfig};

/// Time to wait for the member to be ready without --wait.
const READY_WAIT: Duration = Duration::from_secs(10);

/// Register a cluster to Karmada control plane with Push mode.
///
/// Creates service accounts for the control plane in the cluster, stores their tokens as secrets in the control plane,
/// and creates the Cluster object. A name that is in use and a cluster that is already joined are refused.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Join the cluster of a kubeconfig's current context
  flotilla join member1 --cluster-kubeconfig=$HOME/.kube/member1.config

  # Join one of several contexts, set its location, and wait until it is ready
  flotilla join member1 --cluster-kubeconfig=FILE --cluster-context=member1 \\
    --cluster-provider=aws --cluster-region=eu-1 --cluster-zones=a,b --wait=2m")]
pub struct JoinArgs {
    /// Name of the cluster, at most 48 characters
    #[arg(value_name = "CLUSTER_NAME")]
    name: Option<String>,
    #[command(flatten)]
    plane: PlaneArgs,
    /// Path of the cluster's kubeconfig
    #[arg(long, value_name = "FILE")]
    cluster_kubeconfig: Option<PathBuf>,
    /// Name of cluster context in kubeconfig [default: the current context]
    #[arg(long, value_name = "CONTEXT")]
    cluster_context: Option<String>,
    /// Namespace in the control plane, and in the cluster, where secrets are stored
    #[arg(long, default_value = CLUSTER_NAMESPACE, value_name = "NAMESPACE")]
    cluster_namespace: String,
    #[command(flatten)]
    location: ClusterLocationArgs,
    /// Username to impersonate in the control plane
    #[arg(long, value_name = "USER")]
    karmada_as: Option<String>,
    /// Group to impersonate in the control plane (can be repeated)
    #[arg(long, value_name = "GROUP")]
    karmada_as_group: Vec<String>,
    /// UID to impersonate in the control plane
    #[arg(long, value_name = "UID")]
    karmada_as_uid: Option<String>,
    /// Run all checks without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Fail unless the cluster is ready within this time [default: wait 10s and only report]
    #[arg(long, value_parser = durations::parse, value_name = "DURATION")]
    wait: Option<Duration>,
}

pub async fn run(console: &Console, args: JoinArgs) -> anyhow::Result<()> {
    let name = args.name(console)?;
    let plane = PlaneClient::open_as(&args.plane, args.impersonated())?;
    let member = args.open_member(console).context("failed to get joining cluster config")?;
    let options = JoinOptions {
        control_plane: plane.client.clone(),
        member,
        name,
        namespace: args.cluster_namespace.clone(),
        location: args.location.location(),
        dry_run: args.dry_run,
    };
    join_and_wait(console, &options, args.wait).await.map_err(|error| plane.explain(error))
}

impl JoinArgs {
    fn name(&self, console: &Console) -> anyhow::Result<String> {
        let Some(name) = self.name.clone().filter(|name| !name.is_empty()) else { bail!("cluster name is required") };
        check_name(&name)?;
        if self.cluster_namespace == SYSTEM_NAMESPACE {
            console.warn(
                "karmada-system is reserved for the control plane; secrets of member clusters in it may be deleted \
                 together with it",
            );
        }
        Ok(name)
    }

    fn impersonated(&self) -> Option<User> {
        let name = self.karmada_as.clone()?;
        Some(User {
            name,
            uid: self.karmada_as_uid.clone().unwrap_or_default(),
            groups: self.karmada_as_group.clone(),
            ..User::default()
        })
    }

    fn open_member(&self, console: &Console) -> anyhow::Result<MemberAccess> {
        let context = self.cluster_context.as_deref().filter(|context| !context.is_empty());
        let (kubeconfig, remote) = open_kubeconfig(self.cluster_kubeconfig.as_deref(), context)?;
        if remote.tls_server_name.is_some() {
            console.warn(
                "the kubeconfig sets tls-server-name, which a Cluster object cannot store: the control plane will verify \
                 the host name of the cluster's address instead",
            );
        }
        Ok(MemberAccess::new(remote, kubeconfig.proxy_url(context))?)
    }
}

async fn join_and_wait(console: &Console, options: &JoinOptions, wait: Option<Duration>) -> anyhow::Result<()> {
    let name = &options.name;
    match join(options, console).await {
        Ok(JoinOutcome::Checked { id }) => {
            let endpoint = &options.member.endpoint;
            console.note(format!("cluster {name} at {endpoint} (ID {id}) can be joined; nothing was changed"));
            return Ok(());
        }
        Ok(JoinOutcome::Joined { .. }) => {}
        Err(error @ MembershipError::ReachMember { .. }) => {
            return Err(anyhow!("{:#}; check --cluster-kubeconfig", anyhow::Error::from(error)));
        }
        Err(error) => return Err(to_anyhow(error)),
    }
    console.line(format!("cluster({name}) is joined successfully"))?;
    let ready = wait_until_ready(&options.control_plane, name, wait.unwrap_or(READY_WAIT), console).await;
    match (ready.map_err(to_anyhow)?, wait) {
        (Readiness::Ready, _) => console.note(format!("cluster {name} is ready")),
        (Readiness::NotReady(reason), Some(wait)) => bail!(
            "cluster {name} is joined but not ready after {wait:?}: {reason}; see `{} describe cluster {name}`",
            console.program
        ),
        (Readiness::NotReady(reason), None) => console.warn(format!(
            "cluster {name} is joined but not ready yet: {reason}; see `{} get clusters`",
            console.program
        )),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
