//! `register`: makes a cluster a member that pulls, from within the cluster and with nothing but a bootstrap token.

mod discovery;
mod invitation;
mod kubeconfig;
pub mod manifest;
mod manifests;
mod rights;
mod signing;

use std::path::PathBuf;
use std::time::Duration;

use agent::credentials::{NAMESPACES, SECRETS, SERVICE_ACCOUNTS};
use agent::{Registration, ReportSecrets, registration};
use anyhow::{Context, bail};
use api::Resource;
use api::cluster::{CLUSTERS, ClusterSpec};
use api::names::{CLUSTER_NAMESPACE, SYSTEM_NAMESPACE, execution_namespace};
use api::work::WORKS;
use clap::Args;
use cluster_client::{ClusterClient, Endpoint, ListOptions, ResourceRef, WriteOptions};
use object::{Object, yaml};
use tokio::time::Instant;

use crate::Exit;
use crate::console::Console;
use crate::durations;
use crate::join::check_name;
use crate::plane::open_kubeconfig;
use crate::register::discovery::{Discovered, Token};
use crate::register::manifests::{AgentFlags, Installation, PlaneAccess};
use crate::register::signing::{Keyed, Requested};
use crate::whereabouts::WhereaboutsArgs;

pub use invitation::{Invitation, cluster_of as cluster_of_groups};
pub use manifests::{AGENT, AGENT_ACCOUNT, DEPLOYMENTS, KUBECONFIG_SECRET};
pub use rights::Rights;

const POLL: Duration = Duration::from_millis(500);
/// The identity rights are given with; every bootstrap token can get it that was made for no cluster in particular.
const RIGHTS_USER: &str = "system:karmada:agent:rbac-generator";

/// Register a cluster to Karmada control plane with Pull mode.
///
/// Run it with access to the cluster that registers. The control plane is recognised by the hash of its CA and by a
/// signature made with the token; the agent gets a certificate of its own, with rights to this cluster's objects only.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # On the control plane: print the command to run, with a token that is good for this cluster only
  flotilla token create --cluster member3 --print-register-command

  # In the cluster that registers
  flotilla register 10.0.0.1:5443 --cluster-name member3 --token abcdef.0123456789abcdef \\
    --discovery-token-ca-cert-hash sha256:...

  # For GitOps: make everything on the control plane, and print what belongs into the cluster instead of creating it
  flotilla register 10.0.0.1:5443 ... --print-manifest-only > agent.yaml")]
pub struct RegisterArgs {
    /// Address of the control plane
    #[arg(value_name = "HOST:PORT")]
    server: String,
    /// Kubeconfig of the cluster that registers [default: $KUBECONFIG, then ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context in it [default: its current context]
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// Name of the cluster [default: the one of the kubeconfig's context]
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// Namespace of the agent in the cluster
    #[arg(short, long, default_value = SYSTEM_NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// Namespace in the control plane where the cluster's secrets are stored
    #[arg(long, default_value = CLUSTER_NAMESPACE, value_name = "NAMESPACE")]
    cluster_namespace: String,
    #[command(flatten)]
    whereabouts: WhereaboutsArgs,
    /// Bootstrap token, from `flotilla token create`
    #[arg(long, value_name = "TOKEN")]
    token: String,
    /// Hash of the control plane's CA, like sha256:<hex>; any of several may match
    #[arg(long, value_delimiter = ',', value_name = "HASH")]
    discovery_token_ca_cert_hash: Vec<String>,
    /// Trust whoever can sign with the token, without knowing the CA
    #[arg(long)]
    discovery_token_unsafe_skip_ca_verification: bool,
    /// How long to wait for the control plane, for certificates and for the agent
    #[arg(long, default_value = "5m", value_parser = durations::parse, value_name = "DURATION")]
    discovery_timeout: Duration,
    /// How long the agent's certificate is good for
    #[arg(long, default_value_t = 365 * 24 * 3600, value_name = "SECONDS")]
    cert_expiration_seconds: i32,
    /// Image of the agent; it must have `flotilla` in its path
    #[arg(long, default_value = manifests::IMAGE, value_name = "IMAGE")]
    karmada_agent_image: String,
    /// Agents to run; one of them works
    #[arg(long, default_value_t = 1, value_name = "N")]
    karmada_agent_replicas: u32,
    /// Proxy through which others reach the cluster
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL")]
    proxy_server_address: String,
    /// Check the cluster and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print what belongs into the cluster instead of creating it
    #[arg(long)]
    print_manifest_only: bool,
}

/// A cluster that registers.
struct Registering {
    name: String,
    server: String,
    token: Token,
    member: ClusterClient,
    endpoint: String,
    insecure: bool,
    /// Of the kubeconfig itself.
    proxy: Option<String>,
}

pub async fn run(console: &Console, args: RegisterArgs) -> anyhow::Result<()> {
    let registering = args.registering()?;
    console.note("[preflight] Running pre-flight checks");
    let problems = preflight(&registering.member, &args.namespace).await?;
    if !problems.is_empty() && !args.print_manifest_only {
        console.note("error execution phase preflight: [preflight] Some fatal errors occurred:");
        for problem in problems {
            console.note(format!("\t[ERROR]: {problem}"));
        }
        console.note("\n[preflight] Please check the above errors");
        return Err(Exit(1).into());
    }
    console.note("[preflight] All pre-flight checks were passed");
    if args.dry_run {
        return Ok(());
    }
    console.note("[karmada-agent-start] Waiting to perform the TLS Bootstrap");
    let deadline = Instant::now() + args.discovery_timeout;
    let trust = args.trust();
    let discovered = discovery::discover(console, &registering.server, &registering.token, &trust, deadline)
        .await
        .context("couldn't validate the identity of the API Server")?;
    register(console, &args, &registering, &discovered, deadline).await
}

impl RegisterArgs {
    fn registering(&self) -> anyhow::Result<Registering> {
        let context = self.context.as_deref().filter(|context| !context.is_empty());
        let (kubeconfig, remote) = open_kubeconfig(self.kubeconfig.as_deref(), context)?;
        let named = self.cluster_name.clone().filter(|name| !name.is_empty());
        let name = named.or_else(|| kubeconfig.cluster_name(context).map(str::to_owned));
        let name = name.context("say --cluster-name: the kubeconfig names no cluster")?;
        check_name(&name)?;
        if !self.discovery_token_unsafe_skip_ca_verification && self.discovery_token_ca_cert_hash.is_empty() {
            bail!("need to verify CACertHashes, or set --discovery-token-unsafe-skip-ca-verification=true");
        }
        let server = self.server.trim_start_matches("https://").trim_end_matches('/');
        Ok(Registering {
            name,
            server: format!("https://{server}"),
            token: Token::parse(&self.token)?,
            endpoint: remote.server.clone(),
            insecure: remote.insecure_skip_tls_verify,
            proxy: kubeconfig.proxy_url(context).map(str::to_owned),
            member: ClusterClient::connect(Endpoint::Remote(remote))?,
        })
    }

    fn trust(&self) -> discovery::Trust {
        match self.discovery_token_unsafe_skip_ca_verification {
            true => discovery::Trust::Signature,
            false => discovery::Trust::Pins(self.discovery_token_ca_cert_hash.clone()),
        }
    }

    /// What the agent would say of its cluster.
    fn registration(&self, registering: &Registering) -> Registration {
        Registration {
            name: registering.name.clone(),
            namespace: self.cluster_namespace.clone(),
            report: ReportSecrets::default(),
            api_endpoint: registering.endpoint.clone(),
            proxy: registering.proxy.clone().unwrap_or_else(|| self.proxy_server_address.clone()),
            insecure: registering.insecure,
            provider: self.whereabouts.cluster_provider.clone(),
            region: self.whereabouts.cluster_region.clone(),
            zones: self.whereabouts.zones(),
            authority: None,
        }
    }

    fn installation(&self, registering: &Registering, kubeconfig: String) -> Installation {
        let flags = AgentFlags {
            cluster_name: &registering.name,
            cluster_api_endpoint: &registering.endpoint,
            whereabouts: &self.whereabouts,
            proxy_server_address: &self.proxy_server_address,
            cluster_namespace: &self.cluster_namespace,
            namespace: &self.namespace,
        };
        Installation {
            namespace: self.namespace.clone(),
            kubeconfig: PlaneAccess::Given(kubeconfig),
            image: self.karmada_agent_image.clone(),
            replicas: self.karmada_agent_replicas,
            arguments: flags.arguments(),
        }
    }
}

/// What stands in the way in the cluster: an agent is there already.
async fn preflight(member: &ClusterClient, namespace: &str) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    let things: [(&Resource, &str); 3] =
        [(&SECRETS, KUBECONFIG_SECRET), (&SERVICE_ACCOUNTS, AGENT_ACCOUNT), (&DEPLOYMENTS, AGENT)];
    for (resource, name) in things {
        match member.find(ResourceRef::namespaced(&resource.gvr(), namespace, name)).await {
            Ok(None) => {}
            Ok(Some(_)) => problems.push(format!("{namespace}/{name} {} already exists", resource.kind)),
            Err(status) => problems.push(status.to_string()),
        }
    }
    Ok(problems)
}

async fn register(
    console: &Console,
    args: &RegisterArgs,
    registering: &Registering,
    discovered: &Discovered,
    deadline: Instant,
) -> anyhow::Result<()> {
    let name = &registering.name;
    let bootstrap = discovered.connect_with_token(&registering.server, &registering.token)?;
    let bound_to = invitation::bound_to(&bootstrap).await?;
    let way = Way { console, args, registering, discovered, bootstrap, deadline };
    match bound_to {
        Some(bound) if bound != *name => bail!(
            "this token was made for cluster {bound}, not for {name}: say --cluster-name {bound}, or use another token"
        ),
        Some(_) => way.register_invited().await?,
        None => way.register_uninvited().await?,
    }
    if !args.print_manifest_only {
        console.line(format!("\ncluster({name}) is joined successfully"))?;
    }
    Ok(())
}

/// The way from a token to an agent at work.
struct Way<'a> {
    console: &'a Console,
    args: &'a RegisterArgs,
    registering: &'a Registering,
    discovered: &'a Discovered,
    /// The control plane, called with the token.
    bootstrap: ClusterClient,
    deadline: Instant,
}

impl Way<'_> {
    /// With a token that was made for any cluster: it gives the agent its rights, by an identity that may do everything.
    async fn register_uninvited(&self) -> anyhow::Result<()> {
        let Self { console, args, registering, .. } = self;
        let name = &registering.name;
        let csr = format!("agent-rbac-generator-{name}{}", crate::token::random(5)?);
        let keyed = self.certificate(csr.clone(), RIGHTS_USER).await?;
        let giver = self.discovered.connect_with_certificate(&registering.server, &keyed)?;
        signing::forget(console, &giver, &csr).await;
        console.note("[karmada-agent-start] Waiting to check cluster exists");
        let id = self.member_id().await?;
        refuse_duplicates(&giver, name, &id).await?;
        console.note("[karmada-agent-start] Assign the necessary RBAC permissions to the agent");
        let rights = Rights::new(name, &args.cluster_namespace);
        let outcome = async {
            let cluster = registration::cluster_object(None, &args.registration(registering), &id)?;
            rights.give(&giver, cluster).await?;
            let keyed = self.agent_certificate().await?;
            self.finish(&keyed).await
        };
        if let Err(error) = outcome.await {
            console.note(format!("{} register failed and started deleting the created resources", console.program));
            rights.take(console, &giver, true).await;
            return Err(error);
        }
        Ok(())
    }

    /// With a token that was made for this cluster: the agent has its rights already. What a try that failed has left is
    /// used by the next.
    async fn register_invited(&self) -> anyhow::Result<()> {
        let Self { console, args, registering, .. } = self;
        let name = &registering.name;
        console.note("[karmada-agent-start] Waiting to check cluster exists");
        let id = self.member_id().await?;
        if let Some(known) = self.bootstrap.find(ResourceRef::cluster(&CLUSTERS.gvr(), name)).await?
            && api::read::<ClusterSpec>(&known)?.id != id
        {
            bail!("failed to register as cluster with name {name} already exists");
        }
        let keyed = self.agent_certificate().await?;
        let agent = self.discovered.connect_with_certificate(&registering.server, &keyed)?;
        require_rights(&agent, name).await?;
        let cluster = registration::cluster_object(None, &args.registration(registering), &id)?;
        Rights::new(name, &args.cluster_namespace).make_own(&self.bootstrap, cluster).await?;
        self.finish(&keyed).await
    }

    async fn member_id(&self) -> anyhow::Result<String> {
        let target = ResourceRef::cluster(&NAMESPACES.gvr(), "kube-system");
        Ok(self.registering.member.get(target).await?.uid().to_owned())
    }

    async fn agent_certificate(&self) -> anyhow::Result<Keyed> {
        self.console.note("[karmada-agent-start] Waiting to construct karmada-agent kubeconfig");
        let name = &self.registering.name;
        self.certificate(format!("{name}-{}", crate::token::random(5)?), &format!("system:karmada:agent:{name}")).await
    }

    async fn certificate(&self, csr: String, user: &str) -> anyhow::Result<Keyed> {
        let seconds = self.args.cert_expiration_seconds;
        let asked = Requested { csr, user: user.to_owned(), seconds, deadline: self.deadline };
        signing::certificate(self.console, &self.bootstrap, asked).await
    }

    /// What belongs into the cluster.
    async fn finish(&self, keyed: &Keyed) -> anyhow::Result<()> {
        let Self { console, args, registering, discovered, .. } = self;
        let kubeconfig = kubeconfig::write(&registering.server, &registering.name, &discovered.authority, keyed);
        let installation = args.installation(registering, kubeconfig);
        match args.print_manifest_only {
            true => print(console, &installation),
            false => install(console, &registering.member, &installation, self.deadline).await,
        }
    }
}

/// Rights that were given in advance went with the Cluster, if it was removed since.
async fn require_rights(agent: &ClusterClient, name: &str) -> anyhow::Result<()> {
    let works = ResourceRef::within(&WORKS.gvr(), &execution_namespace(name));
    match agent.list(works, ListOptions { limit: Some(1), ..ListOptions::default() }).await {
        Err(status) if status.code == 403 => bail!(
            "the agent of {name} has no rights in the control plane: they went when the cluster was removed. Make a new \
             token for it, with `token create --cluster {name}`"
        ),
        answer => answer.map(drop).context("the agent cannot read its works"),
    }
}

/// A cluster is registered once, under one name.
async fn refuse_duplicates(plane: &ClusterClient, name: &str, id: &str) -> anyhow::Result<()> {
    let clusters = plane.list_all(ResourceRef::all(&CLUSTERS.gvr()), ListOptions::default()).await?;
    for cluster in clusters.items {
        if cluster.name() == name {
            bail!("failed to register as cluster with name {name} already exists");
        }
        if api::read::<ClusterSpec>(&cluster)?.id == id {
            bail!("failed to register as this cluster is registered already, with name {}", cluster.name());
        }
    }
    Ok(())
}

fn print(console: &Console, installation: &Installation) -> anyhow::Result<()> {
    for object in installation.objects() {
        console.print(&format!("---\n{}", yaml::to_string(&object.into_value())))?;
    }
    Ok(())
}

async fn install(
    console: &Console,
    member: &ClusterClient,
    installation: &Installation,
    deadline: Instant,
) -> anyhow::Result<()> {
    console.note("[karmada-agent-start] Waiting the necessary secret and RBAC");
    for object in installation.objects() {
        if object.kind() == DEPLOYMENTS.kind {
            console.note("[karmada-agent-start] Waiting karmada-agent Deployment");
        }
        put(member, object).await?;
    }
    let target = ResourceRef::namespaced(&DEPLOYMENTS.gvr(), &installation.namespace, AGENT);
    loop {
        let deployment = member.get(target.clone()).await?;
        let count = |field: &str| deployment.i64_at(&["status", field]).unwrap_or_default();
        if count("observedGeneration") >= deployment.generation()
            && count("updatedReplicas") >= i64::from(installation.replicas)
            && count("availableReplicas") >= i64::from(installation.replicas)
        {
            return Ok(());
        }
        if Instant::now() >= deadline {
            bail!(
                "the agent does not run in time: see `kubectl -n {} describe deploy {AGENT}`",
                installation.namespace
            );
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Creates, or replaces what an earlier try left.
async fn put(member: &ClusterClient, object: Object) -> anyhow::Result<()> {
    let resource = manifests::resource_of(&object).context("an object of the agent")?;
    let described = format!("cannot create {} {}", object.kind(), object.name());
    let collection = match object.namespace() {
        "" => ResourceRef::all(&resource.gvr()),
        namespace => ResourceRef::within(&resource.gvr(), namespace),
    };
    match member.create(collection, object.clone(), WriteOptions::default()).await {
        Err(status) if status.is_already_exists() && resource != NAMESPACES => {}
        Err(status) if status.is_already_exists() => return Ok(()),
        answer => return answer.map(drop).context(described),
    }
    let target = ResourceRef::of(&resource.gvr(), &object);
    member.update(target, object, WriteOptions::default()).await.map(drop).context(described)
}
