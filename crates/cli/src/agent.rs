//! `flotilla agent`: looks after one member from beside it, with the flags of karmada-agent.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::agent::renewal::Kept;
use ::agent::{Parts, Registration, Replicas, ReportSecrets, Settings};
use ::karmadactl::console::Console;
use ::karmadactl::durations;
use ::karmadactl::register::KUBECONFIG_SECRET;
use ::karmadactl::register::manifest::{self, ManifestArgs};
use ::karmadactl::whereabouts::WhereaboutsArgs;
use anyhow::{Context, bail};
use api::features::Features;
use api::names::{CLUSTER_NAMESPACE, SYSTEM_NAMESPACE};
use clap::{ArgAction, Args, Subcommand};
use cluster_client::{ClusterClient, Endpoint, Kubeconfig, RemoteConfig};
use tokio_util::sync::CancellationToken;

use crate::termination::Termination;

/// Where a pod finds the name of its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

// As with Go's flags, the last of several counts: manifests are often added to.
#[derive(Args)]
#[command(
    args_override_self = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
The agent opens connections to the member and to the control plane, and needs none to itself. It registers the member as
a cluster with syncMode Pull, applies its works, and reports status and capacity. While the control plane cannot be
reached it keeps the member as it was last told, and tries again for ever."
)]
pub struct AgentArgs {
    #[command(subcommand)]
    command: Option<AgentCommand>,
    #[command(flatten)]
    agent: Option<RunArgs>,
    // Not within the above: clap takes optional flags that hold other flags for absent, whatever is said.
    #[command(flatten)]
    whereabouts: WhereaboutsArgs,
}

#[derive(Subcommand)]
enum AgentCommand {
    Manifest(Box<ManifestArgs>),
}

#[derive(Args)]
struct RunArgs {
    /// Kubeconfig of the control plane.
    #[arg(long, value_name = "FILE")]
    karmada_kubeconfig: PathBuf,
    /// Context in it [default: its current context].
    #[arg(long, value_name = "CONTEXT")]
    karmada_context: Option<String>,
    /// Kubeconfig of the member [default: $KUBECONFIG, then the cluster this runs in, then ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context in the member's kubeconfig [default: its current context].
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// Name of the member.
    #[arg(long, value_name = "NAME")]
    cluster_name: String,
    /// Namespace of the control plane and of the member that holds the member's secrets.
    #[arg(long, default_value = CLUSTER_NAMESPACE, value_name = "NAMESPACE")]
    cluster_namespace: String,
    /// Where others reach the member's API, when they can.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL")]
    cluster_api_endpoint: String,
    /// Proxy through which others reach it.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL")]
    proxy_server_address: String,
    /// Secrets of the member the control plane may have: KubeCredentials, KubeImpersonator, or None.
    #[arg(long, value_delimiter = ',', default_value = "KubeCredentials,KubeImpersonator", value_name = "NAME,...")]
    report_secrets: Vec<String>,
    /// Features to switch on or off.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME=BOOL,...")]
    feature_gates: String,
    /// How often the member's status is looked at.
    #[arg(long, default_value = "10s", value_parser = durations::parse, value_name = "DURATION")]
    cluster_status_update_frequency: Duration,
    /// How long the control plane believes in the agent without hearing of it.
    #[arg(long, default_value = "40s", value_parser = durations::parse, value_name = "DURATION")]
    cluster_lease_duration: Duration,
    /// The part of that time after which the lease is renewed.
    #[arg(long, default_value_t = 0.25, value_name = "FRACTION")]
    cluster_lease_renew_interval_fraction: f64,
    /// How long the member must answer before it counts as ready again.
    #[arg(long, default_value = "30s", value_parser = durations::parse, value_name = "DURATION")]
    cluster_success_threshold: Duration,
    /// How long the member must fail before it counts as not ready.
    #[arg(long, default_value = "30s", value_parser = durations::parse, value_name = "DURATION")]
    cluster_failure_threshold: Duration,
    /// Works applied at the same time.
    #[arg(long, default_value_t = 16, value_name = "N")]
    concurrent_work_syncs: usize,
    /// Watch nodes and pods to know what the member can take.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    enable_cluster_resource_modeling: bool,
    /// Agree with other agents of the same member on one that works, by a Lease in the member.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    leader_elect: bool,
    /// Namespace of that Lease.
    #[arg(long, default_value = SYSTEM_NAMESPACE, value_name = "NAMESPACE")]
    leader_elect_resource_namespace: String,
    /// Answer /healthz and /readyz here; 0 for not at all.
    #[arg(long, default_value = "0", value_name = "HOST:PORT")]
    health_probe_bind_address: String,
    /// Taken for the sake of manifests made for karmada-agent; everything it could switch always runs.
    #[arg(long, hide = true)]
    controllers: Option<String>,
    /// Open a way through which the control plane reaches the member for its proxy, logs, exec and port-forward.
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    tunnel: bool,
    /// Renew the agent's certificate for the control plane when two thirds of its life have passed.
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    rotate_certificate: bool,
    /// Secret beside the agent that --karmada-kubeconfig is mounted from; a new certificate goes there when the file
    /// cannot be written.
    #[arg(long, default_value = KUBECONFIG_SECRET, value_name = "NAME")]
    karmada_kubeconfig_secret: String,
    /// Answer /metrics here; 0 for not at all.
    #[arg(long, default_value = "0", value_name = "HOST:PORT")]
    metrics_bind_address: String,
}

pub async fn run(console: &Console, args: AgentArgs) -> anyhow::Result<()> {
    match args {
        AgentArgs { command: Some(AgentCommand::Manifest(args)), .. } => manifest::run(console, &args),
        AgentArgs { agent: Some(args), whereabouts, .. } => look_after(args, &whereabouts).await,
        AgentArgs { .. } => bail!("say --karmada-kubeconfig FILE and --cluster-name NAME"),
    }
}

async fn look_after(args: RunArgs, whereabouts: &WhereaboutsArgs) -> anyhow::Result<()> {
    let mut termination = Termination::listen()?;
    let cancel = CancellationToken::new();
    let metrics = metrics::Metrics::default();
    metrics.build(concat!("v", env!("CARGO_PKG_VERSION")));
    if let Some(address) = listen_address("--metrics-bind-address", &args.metrics_bind_address)? {
        let serving = ::agent::probe::serve_metrics(address, metrics.clone(), cancel.clone());
        serving.await.with_context(|| format!("cannot listen on {address}"))?;
    }
    if let Some(address) = listen_address("--health-probe-bind-address", &args.health_probe_bind_address)? {
        ::agent::probe::serve(address, cancel.clone()).await.with_context(|| format!("cannot listen on {address}"))?;
    }
    let working = ::agent::run(args.parts(whereabouts, metrics)?, cancel.clone());
    tokio::pin!(working);
    tokio::select! {
        ended = &mut working => return Ok(ended?),
        () = termination.asked() => {}
    }
    tracing::info!("stopping: work under way may finish");
    cancel.cancel();
    Ok(working.await?)
}

impl RunArgs {
    fn parts(self, whereabouts: &WhereaboutsArgs, metrics: metrics::Metrics) -> anyhow::Result<Parts> {
        let plane = Kubeconfig::load(std::slice::from_ref(&self.karmada_kubeconfig)).context("--karmada-kubeconfig")?;
        let plane = plane.remote(self.karmada_context.as_deref()).context("--karmada-kubeconfig")?;
        let (member, proxy) = self.member()?;
        let report = ReportSecrets::parse(self.report_secrets.iter().map(String::as_str));
        let report = report.map_err(|problem| anyhow::anyhow!("--report-secrets: {problem}"))?;
        let registration = Registration {
            report,
            proxy: proxy.unwrap_or_else(|| self.proxy_server_address.clone()),
            insecure: member.insecure_skip_tls_verify,
            authority: member.ca.as_ref().map(|ca| ca.read()).transpose().context("the member's CA")?,
            api_endpoint: self.cluster_api_endpoint.clone(),
            provider: whereabouts.cluster_provider.clone(),
            region: whereabouts.cluster_region.clone(),
            zones: whereabouts.zones(),
            name: self.cluster_name.clone(),
            namespace: self.cluster_namespace.clone(),
        };
        let settings = self.settings()?;
        let member = RemoteConfig {
            request_timeout: settings.sync.request_timeout,
            rate_limit: settings.sync.rate_limit,
            ..member
        };
        let reachable_at = (self.tunnel && member.proxy.is_none()).then(|| member.server.clone());
        Ok(Parts {
            reachable_at,
            kept: self.rotate_certificate.then(|| self.kept()),
            plane: ClusterClient::connect(Endpoint::Remote(plane)).context("--karmada-kubeconfig")?,
            member: ClusterClient::connect(Endpoint::Remote(member)).context("the member")?,
            registration,
            features: Arc::new(Features::flotilla().with(&self.feature_gates).context("--feature-gates")?),
            clock: Arc::new(reconcile::SystemClock),
            metrics,
            settings,
        })
    }

    /// Where the certificate for the control plane is renewed.
    fn kept(&self) -> Kept {
        let own = std::fs::read_to_string(NAMESPACE_FILE).ok().map(|text| text.trim().to_owned());
        let own = own.filter(|namespace| !namespace.is_empty());
        Kept {
            kubeconfig: self.karmada_kubeconfig.clone(),
            context: self.karmada_context.clone(),
            namespace: own.unwrap_or_else(|| self.leader_elect_resource_namespace.clone()),
            secret: self.karmada_kubeconfig_secret.clone(),
        }
    }

    /// How the member is reached, and the proxy its kubeconfig asks for.
    fn member(&self) -> anyhow::Result<(RemoteConfig, Option<String>)> {
        let is_named = self.kubeconfig.is_some() || std::env::var_os("KUBECONFIG").is_some_and(|v| !v.is_empty());
        if !is_named && let Ok(in_cluster) = RemoteConfig::in_cluster() {
            return Ok((in_cluster, None));
        }
        let kubeconfig = match &self.kubeconfig {
            Some(path) => Kubeconfig::load(std::slice::from_ref(path)),
            None => Kubeconfig::load_default(),
        };
        let kubeconfig = kubeconfig.context("the member: say --kubeconfig FILE where this does not run in it")?;
        let context = self.context.as_deref();
        let proxy = kubeconfig.proxy_url(context).map(str::to_owned);
        Ok((kubeconfig.remote(context).context("--kubeconfig")?, proxy))
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        let fraction = self.cluster_lease_renew_interval_fraction;
        if !(fraction > 0.0 && fraction < 1.0) {
            bail!("--cluster-lease-renew-interval-fraction must be between 0 and 1");
        }
        let mut settings = Settings {
            lease_duration: self.cluster_lease_duration,
            lease_renew_every: self.cluster_lease_duration.mul_f64(fraction),
            ..Settings::default()
        };
        settings.sync.heartbeat = self.cluster_status_update_frequency;
        settings.sync.success_threshold = self.cluster_success_threshold;
        settings.sync.failure_threshold = self.cluster_failure_threshold;
        settings.sync.resource_modeling = self.enable_cluster_resource_modeling;
        settings.sync.workers = self.concurrent_work_syncs.max(1);
        settings.replicas = self
            .leader_elect
            .then(|| Replicas { namespace: self.leader_elect_resource_namespace.clone(), identity: identity() });
        Ok(settings)
    }
}

/// No two agents of a member share it.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "agent".to_owned());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{host}_{}_{:x}", std::process::id(), now.as_nanos())
}

/// `:10357` is every address, as in Go; `0` and nothing are none.
fn listen_address(flag: &str, text: &str) -> anyhow::Result<Option<SocketAddr>> {
    if matches!(text, "" | "0") {
        return Ok(None);
    }
    let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    let found = full.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    Ok(Some(found.with_context(|| format!("{flag}: {text:?} is no address"))?))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: AgentArgs,
    }

    #[test]
    fn flags_are_those_of_an_agent_or_of_a_command() {
        let read =
            |line: &str| Line::try_parse_from(std::iter::once("agent").chain(line.split(' '))).map(|line| line.args);
        let args = read("--karmada-kubeconfig f --cluster-name m --cluster-region north --cluster-zones=a,b")
            .expect("an agent");
        assert_eq!(args.agent.map(|agent| agent.cluster_name).as_deref(), Some("m"));
        assert_eq!((args.whereabouts.cluster_region.as_str(), args.whereabouts.zones().len()), ("north", 2));
        let args = read("manifest --cluster-name m --cluster-region north").expect("a manifest");
        assert!(args.agent.is_none() && args.command.is_some());
        assert!(read("--cluster-name m").is_err());
    }

    #[test]
    fn the_probe_listens_where_karmadas_manifests_say() {
        let address =
            |text: &str| listen_address("--flag", text).ok().map(|found| found.map(|found| found.to_string()));
        assert_eq!(address("0"), Some(None));
        assert_eq!(address(":10357"), Some(Some("0.0.0.0:10357".into())));
        assert_eq!(address("127.0.0.1:1"), Some(Some("127.0.0.1:1".into())));
        assert_eq!(address("nowhere"), None);
    }
}
