//! `join`: makes a cluster a member of the control plane, in push mode.

mod member;
mod register;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use api::cluster::{CLUSTERS, CONDITION_READY, ClusterStatus};
use api::core::find_condition;
use api::names::{CLUSTER_NAMESPACE, SYSTEM_NAMESPACE};
use clap::Args;
use cluster_client::{ClusterClient, Endpoint, RemoteConfig, ResourceRef, UserInfo};
use tokio::time::Instant;

use crate::console::Console;
use crate::durations;
use crate::plane::{Plane, PlaneArgs, open_kubeconfig};
use crate::whereabouts::WhereaboutsArgs;

pub use member::{
    CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, SECRETS, SERVICE_ACCOUNTS, role_of, service_account_of,
};

/// Longest name: the execution namespace puts a prefix before it.
const NAME_LENGTH_MAX: usize = 48;
/// How long a join looks on while the member becomes ready, when nothing was said about it.
const READY_LOOK: Duration = Duration::from_secs(10);
const READY_POLL: Duration = Duration::from_millis(200);

/// Register a cluster to Karmada control plane with Push mode.
///
/// Makes service accounts for the control plane in the cluster, keeps their tokens as secrets in the control plane, and
/// creates the Cluster object. A cluster is joined once: the same name or the same cluster a second time is refused.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Join the cluster of a kubeconfig's current context
  flotilla join member1 --cluster-kubeconfig=$HOME/.kube/member1.config

  # Join one of several contexts, say where it is, and wait until it is ready
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
    /// Name of cluster context in kubeconfig [default: the current one]
    #[arg(long, value_name = "CONTEXT")]
    cluster_context: Option<String>,
    /// Namespace in the control plane, and in the cluster, where secrets are stored
    #[arg(long, default_value = CLUSTER_NAMESPACE, value_name = "NAMESPACE")]
    cluster_namespace: String,
    #[command(flatten)]
    whereabouts: WhereaboutsArgs,
    /// Username to impersonate in the control plane
    #[arg(long, value_name = "USER")]
    karmada_as: Option<String>,
    /// Group to impersonate in the control plane; may be given several times
    #[arg(long, value_name = "GROUP")]
    karmada_as_group: Vec<String>,
    /// UID to impersonate in the control plane
    #[arg(long, value_name = "UID")]
    karmada_as_uid: Option<String>,
    /// Check everything and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Fail unless the cluster is ready within this time [default: look on for 10s and only report]
    #[arg(long, value_parser = durations::parse, value_name = "DURATION")]
    wait: Option<Duration>,
}

/// What is joined, and under which name.
pub struct Joining {
    pub name: String,
    pub namespace: String,
    pub provider: Option<String>,
    pub region: Option<String>,
    pub zones: Vec<String>,
    pub dry_run: bool,
}

/// The cluster as its kubeconfig describes it.
pub struct MemberAccess {
    pub client: ClusterClient,
    pub endpoint: String,
    pub insecure: bool,
    /// Of the kubeconfig itself; what the environment says is not the control plane's business.
    pub proxy: Option<String>,
    /// The CA the kubeconfig trusts.
    pub authority: Option<Vec<u8>>,
}

pub async fn run(console: &Console, args: JoinArgs) -> anyhow::Result<()> {
    let joining = args.joining(console)?;
    let plane = Plane::open_as(&args.plane, args.impersonated())?;
    let access = args.open_member(console).context("failed to get joining cluster config")?;
    let wait = args.wait;
    join(console, &plane, &joining, &access, wait).await.map_err(|error| plane.explain(error))
}

impl JoinArgs {
    fn joining(&self, console: &Console) -> anyhow::Result<Joining> {
        let Some(name) = self.name.clone().filter(|name| !name.is_empty()) else { bail!("cluster name is required") };
        check_name(&name)?;
        if self.cluster_namespace == SYSTEM_NAMESPACE {
            console.warn(
                "karmada-system is reserved for the control plane; secrets of member clusters kept there may be \
                 removed together with it",
            );
        }
        Ok(Joining {
            name,
            namespace: self.cluster_namespace.clone(),
            provider: Some(self.whereabouts.cluster_provider.clone()).filter(|provider| !provider.is_empty()),
            region: Some(self.whereabouts.cluster_region.clone()).filter(|region| !region.is_empty()),
            zones: self.whereabouts.zones(),
            dry_run: self.dry_run,
        })
    }

    fn impersonated(&self) -> Option<UserInfo> {
        let name = self.karmada_as.clone()?;
        Some(UserInfo {
            name,
            uid: self.karmada_as_uid.clone().unwrap_or_default(),
            groups: self.karmada_as_group.clone(),
            ..UserInfo::default()
        })
    }

    fn open_member(&self, console: &Console) -> anyhow::Result<MemberAccess> {
        let context = self.cluster_context.as_deref().filter(|context| !context.is_empty());
        let (kubeconfig, remote) = open_kubeconfig(self.cluster_kubeconfig.as_deref(), context)?;
        if remote.tls_server_name.is_some() {
            console.warn(
                "the kubeconfig sets tls-server-name, which a Cluster object cannot keep: the control plane will expect \
                 the name in the cluster's address",
            );
        }
        MemberAccess::new(remote, kubeconfig.proxy_url(context))
    }
}

impl MemberAccess {
    fn new(remote: RemoteConfig, proxy: Option<&str>) -> anyhow::Result<Self> {
        Ok(Self {
            endpoint: remote.server.clone(),
            insecure: remote.insecure_skip_tls_verify,
            proxy: proxy.map(str::to_owned),
            authority: remote.ca.as_ref().map(cluster_client::remote::config::Pem::read).transpose()?,
            client: ClusterClient::connect(Endpoint::Remote(remote))?,
        })
    }
}

pub fn check_name(name: &str) -> anyhow::Result<()> {
    let problems = match name.len() {
        length if length > NAME_LENGTH_MAX => vec![object::names::too_many_characters(NAME_LENGTH_MAX)],
        _ => object::names::dns1123_label(name),
    };
    if !problems.is_empty() {
        bail!("invalid cluster name({name}): {}", problems.join(";"));
    }
    Ok(())
}

/// The whole of it, once both sides can be talked to.
pub async fn join(
    console: &Console,
    plane: &Plane,
    joining: &Joining,
    access: &MemberAccess,
    wait: Option<Duration>,
) -> anyhow::Result<()> {
    let id = member::cluster_id(&access.client, &access.endpoint).await?;
    register::refuse_duplicates(plane, joining, &id).await?;
    if joining.dry_run {
        console.note(format!(
            "cluster {} at {} (ID {id}) can be joined; nothing was changed",
            joining.name, access.endpoint
        ));
        return Ok(());
    }
    console.note(format!("preparing service accounts in cluster {} at {}", joining.name, access.endpoint));
    let credentials = member::prepare(console, joining, access).await?;
    console.note(format!("registering cluster {} in the control plane", joining.name));
    register::register(plane, joining, access, &id, &credentials).await?;
    console.line(format!("cluster({}) is joined successfully", joining.name))?;
    watch_until_ready(console, plane, &joining.name, wait).await
}

/// Looks on until the member is ready, and says why it is not.
async fn watch_until_ready(console: &Console, plane: &Plane, name: &str, wait: Option<Duration>) -> anyhow::Result<()> {
    let (patience, must) = (wait.unwrap_or(READY_LOOK), wait.is_some());
    let deadline = Instant::now() + patience;
    let mut shown = String::new();
    loop {
        let state = readiness(&plane.client, name).await?;
        let Err(why) = state else {
            console.note(format!("cluster {name} is ready"));
            return Ok(());
        };
        if why != shown {
            console.note(format!("waiting for cluster {name} to be ready: {why}"));
            shown = why.clone();
        }
        if Instant::now() >= deadline {
            if must {
                bail!(
                    "cluster {name} is joined but not ready after {patience:?}: {why}; look with `{} describe cluster \
                     {name}`",
                    console.program
                );
            }
            console.warn(format!(
                "cluster {name} is joined but not ready yet: {why}; look with `{} get clusters`",
                console.program
            ));
            return Ok(());
        }
        tokio::time::sleep(READY_POLL).await;
    }
}

/// Is the member ready, and if not, why not.
async fn readiness(client: &ClusterClient, name: &str) -> anyhow::Result<Result<(), String>> {
    let cluster = client.get(ResourceRef::cluster(&CLUSTERS.gvr(), name)).await?;
    let status: ClusterStatus = api::read_at(&cluster, &["status"])?;
    if status.is_ready() {
        return Ok(Ok(()));
    }
    Ok(Err(match find_condition(&status.conditions, CONDITION_READY) {
        Some(ready) => format!("{}: {}", ready.reason, ready.message),
        None => "the control plane has not looked at it yet".to_owned(),
    }))
}

#[cfg(test)]
mod tests;
