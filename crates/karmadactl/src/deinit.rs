//! `deinit`: removes the control plane from its host cluster; its data is kept.

use std::io::BufRead;
use std::path::PathBuf;

use anyhow::Context;
use api::names::SYSTEM_NAMESPACE;
use clap::Args;
use cluster_client::{ClusterClient, DeleteOptions, Endpoint, ListOptions, ResourceRef};
use membership::credentials::{NAMESPACES, SECRETS};
use membership::plane_manifests::{ADMIN_SECRET, LABEL_BOOTSTRAPPING, PLANE_RESOURCES};

use crate::console::Console;
use crate::plane::open_kubeconfig;

/// Remove the Karmada control plane from the Kubernetes cluster.
///
/// Removes what `init` has created. The data in volumes and directories of nodes is kept, and members are not changed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Show what would be removed
  flotilla deinit --dry-run

  # Remove the control plane and its namespace without asking
  flotilla deinit --force --purge-namespace")]
pub struct DeinitArgs {
    /// Kubeconfig of the host cluster [default: $KUBECONFIG, then ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context in it [default: its current context]
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// Namespace of the control plane
    #[arg(short, long, default_value = SYSTEM_NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// Print what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    force: bool,
    /// Remove the namespace with everything in it
    #[arg(long)]
    purge_namespace: bool,
}

pub async fn run(console: &Console, args: DeinitArgs) -> anyhow::Result<()> {
    let (_, remote) = open_kubeconfig(args.kubeconfig.as_deref(), args.context.as_deref())
        .context("cannot use the kubeconfig of the host cluster (--kubeconfig)")?;
    let host = ClusterClient::connect(Endpoint::Remote(remote))?;
    console.note("removes Karmada from Kubernetes");
    if !args.dry_run && !args.force && !confirmed(console)? {
        console.note("nothing was removed");
        return Ok(());
    }
    let removed = remove(console, &host, &args).await?;
    if removed == 0 {
        console.note(format!("there is no control plane in the namespace {}", args.namespace));
    } else if !args.dry_run && !args.purge_namespace {
        console.note("volumes and directories of nodes with the data are kept");
    }
    Ok(())
}

fn confirmed(console: &Console) -> anyhow::Result<bool> {
    console.note("Please type (y)es or (n)o and then press enter:");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Removes the objects, workloads first, and returns their number.
async fn remove(console: &Console, host: &ClusterClient, args: &DeinitArgs) -> anyhow::Result<usize> {
    let mut targets = Vec::new();
    for resource in PLANE_RESOURCES.iter().rev() {
        let options = ListOptions { label_selector: Some(LABEL_BOOTSTRAPPING.to_owned()), ..ListOptions::default() };
        let listed = host.list_all(ResourceRef::within(&resource.gvr(), &args.namespace), options).await;
        let listed = listed.with_context(|| format!("cannot list {}", resource.plural))?;
        targets.extend(listed.items.iter().map(|object| (*resource, object.name().to_owned())));
    }
    // The server wrote its kubeconfig itself; without a control plane the Secret may be another's.
    let kubeconfig = ResourceRef::namespaced(&SECRETS.gvr(), &args.namespace, ADMIN_SECRET);
    if !targets.is_empty() && host.find(kubeconfig).await?.is_some() {
        targets.push((SECRETS, ADMIN_SECRET.to_owned()));
    }
    if args.purge_namespace && host.find(ResourceRef::cluster(&NAMESPACES.gvr(), &args.namespace)).await?.is_some() {
        targets.push((NAMESPACES, args.namespace.clone()));
    }
    for (resource, name) in &targets {
        let kind = resource.kind.to_lowercase();
        console.note(format!("delete {kind} {name:?}"));
        if args.dry_run {
            continue;
        }
        let target = match resource.namespaced {
            true => ResourceRef::namespaced(&resource.gvr(), &args.namespace, name),
            false => ResourceRef::cluster(&resource.gvr(), name),
        };
        match host.delete(target, DeleteOptions::default()).await {
            Err(status) if status.code != 404 => {
                return Err(anyhow::Error::new(status).context(format!("cannot delete {kind} {name:?}")));
            }
            _ => {}
        }
    }
    Ok(targets.len())
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;
    use membership::plane_manifests::{PLANE, SERVICES, STATEFUL_SETS};

    use super::*;

    fn args(dry_run: bool) -> DeinitArgs {
        let namespace = SYSTEM_NAMESPACE.to_owned();
        DeinitArgs { kubeconfig: None, context: None, namespace, dry_run, force: true, purge_namespace: false }
    }

    #[tokio::test]
    async fn only_what_init_created_is_removed() {
        let api = MemoryApi::default();
        let seed = |resource: &api::Resource, name: &str, is_labelled: bool| {
            let mut object = resource.object(SYSTEM_NAMESPACE, name);
            if is_labelled {
                object.set_label(LABEL_BOOTSTRAPPING, "app-defaults");
            }
            api.seed(&resource.gvr(), object);
        };
        seed(&STATEFUL_SETS, PLANE, true);
        seed(&SERVICES, PLANE, true);
        seed(&SERVICES, "other", false);
        seed(&SECRETS, ADMIN_SECRET, false);
        let (console, ..) = crate::console::testing::console();
        let host = api.client();
        assert_eq!(remove(&console, &host, &args(true)).await.expect("a list"), 3);
        let has = async |resource: &api::Resource, name: &str| {
            let target = ResourceRef::namespaced(&resource.gvr(), SYSTEM_NAMESPACE, name);
            host.find(target).await.expect("an answer").is_some()
        };
        assert!(has(&STATEFUL_SETS, PLANE).await, "a dry run removes nothing");
        assert_eq!(remove(&console, &host, &args(false)).await.expect("removed"), 3);
        assert!(
            !has(&STATEFUL_SETS, PLANE).await && !has(&SERVICES, PLANE).await && !has(&SECRETS, ADMIN_SECRET).await
        );
        assert!(has(&SERVICES, "other").await);
        assert_eq!(remove(&console, &host, &args(false)).await.expect("nothing"), 0);
    }
}
