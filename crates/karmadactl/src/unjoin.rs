//! `unjoin`: removes a push-mode member from the control plane.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use api::names::CLUSTER_NAMESPACE;
use clap::Args;
use cluster_client::{ClusterClient, Endpoint};
use membership::MembershipError;
use membership::credentials::service_account_of;
use membership::unjoin::{UnjoinOptions, UnjoinOutcome, unjoin};

use crate::console::Console;
use crate::durations;
use crate::membership_progress::to_anyhow;
use crate::plane::{PlaneArgs, PlaneClient, open_kubeconfig};

/// Remove a cluster from Karmada control plane.
///
/// Propagated objects are removed from the cluster first, which needs the cluster to be reachable. The command prints what
/// it waits for, and returns after --wait at the latest; with --force it then removes the cluster anyway.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Remove member1; the service accounts created by join remain in the cluster
  flotilla unjoin member1

  # Remove member1 and the objects join created in the cluster
  flotilla unjoin member1 --cluster-kubeconfig=FILE --cluster-context=member1

  # Remove a cluster that no longer exists, after waiting 10 seconds
  flotilla unjoin member1 --wait=10s --force")]
pub struct UnjoinArgs {
    /// Name of the cluster
    #[arg(value_name = "CLUSTER_NAME")]
    name: Option<String>,
    #[command(flatten)]
    plane: PlaneArgs,
    /// Path of the cluster's kubeconfig, to delete the objects join created in it
    #[arg(long, value_name = "FILE")]
    cluster_kubeconfig: Option<PathBuf>,
    /// Context in that kubeconfig [default: the name of the cluster, else the only or current one]
    #[arg(long, value_name = "CONTEXT")]
    cluster_context: Option<String>,
    /// Namespace of the secrets, in the control plane and in the cluster
    #[arg(long, default_value = CLUSTER_NAMESPACE, value_name = "NAMESPACE")]
    cluster_namespace: String,
    /// Remove the cluster even if its cleanup does not finish in time; objects may remain in it
    #[arg(long)]
    force: bool,
    /// Maximum time to wait for the cleanup
    #[arg(long, default_value = "60s", value_parser = durations::parse, value_name = "DURATION")]
    wait: Duration,
    /// Run all checks without changing anything
    #[arg(long)]
    dry_run: bool,
}

pub async fn run(console: &Console, args: UnjoinArgs) -> anyhow::Result<()> {
    let Some(name) = args.name.clone().filter(|name| !name.is_empty()) else { bail!("cluster name is required") };
    if args.wait.is_zero() {
        bail!("--wait must be a positive duration, e.g. 1m0s");
    }
    let plane = PlaneClient::open(&args.plane)?;
    let options = UnjoinOptions {
        control_plane: plane.client.clone(),
        member: args.open_member(&name)?,
        name,
        namespace: args.cluster_namespace.clone(),
        wait: args.wait,
        force: args.force,
        dry_run: args.dry_run,
    };
    unjoin_and_report(console, &options).await.map_err(|error| plane.explain(error))
}

impl UnjoinArgs {
    fn open_member(&self, name: &str) -> anyhow::Result<Option<ClusterClient>> {
        let Some(path) = &self.cluster_kubeconfig else { return Ok(None) };
        let open = |context: Option<&str>| open_kubeconfig(Some(path), context);
        let opened = match self.cluster_context.as_deref() {
            Some(context) => open(Some(context)),
            // Karmada uses the name of the cluster; a kubeconfig without such a context falls back to its current one.
            None => open(Some(name)).or_else(|_| open(None)),
        };
        let (_, remote) = opened.context("failed to get unjoining cluster config")?;
        Ok(Some(ClusterClient::connect(Endpoint::Remote(remote))?))
    }
}

async fn unjoin_and_report(console: &Console, options: &UnjoinOptions) -> anyhow::Result<()> {
    let name = &options.name;
    match unjoin(options, console).await {
        Ok(UnjoinOutcome::Checked) => console.note(format!("cluster {name} would be removed; nothing was changed")),
        Ok(UnjoinOutcome::Removed { member_is_clean: true }) => {}
        Ok(UnjoinOutcome::Removed { member_is_clean: false }) => console.note(format!(
            "service account {} and its permissions remain in the cluster; use --cluster-kubeconfig to delete them too",
            service_account_of(name)
        )),
        Err(error @ MembershipError::NotRemoved { .. }) => {
            return Err(anyhow!(
                "{error}\nIts removal continues as soon as that is gone. If the cluster will not come back, run `{} unjoin \
                 {name} --force`; objects left in the cluster then remain there",
                console.program
            ));
        }
        Err(error) => return Err(to_anyhow(error)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use api::cluster::{CLUSTERS, FINALIZER};
    use cluster_client::testing::MemoryApi;
    use serde_json::json;

    use super::*;
    use crate::console::testing;

    async fn check(finalizers: &[&str]) -> (Result<(), String>, String) {
        let api = MemoryApi::default();
        let mut cluster = CLUSTERS.object("", "m1");
        cluster.set(&["spec"], json!({"syncMode": "Push"}));
        for finalizer in finalizers {
            cluster.add_finalizer(finalizer);
        }
        api.seed(&CLUSTERS.gvr(), cluster);
        let options = UnjoinOptions {
            control_plane: api.client(),
            member: None,
            name: "m1".into(),
            namespace: CLUSTER_NAMESPACE.into(),
            wait: Duration::from_secs(20),
            force: false,
            dry_run: false,
        };
        let (console, _, err) = testing::console();
        let result = unjoin_and_report(&console, &options).await;
        (result.map_err(|error| error.to_string()), err.text())
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_that_is_not_removed_is_an_error_with_the_force_command() {
        let (result, _) = check(&[FINALIZER]).await;
        let error = result.unwrap_err();
        assert!(error.starts_with("cluster m1 is not removed after 20s"), "{error}");
        assert!(error.contains("flotilla unjoin m1 --force"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn remaining_service_accounts_are_mentioned() {
        let (result, text) = check(&[]).await;
        result.unwrap();
        assert!(text.contains("service account karmada-m1 and its permissions remain in the cluster"), "{text}");
    }
}
