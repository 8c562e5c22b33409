//! `flotilla agent`: the agent of a pull-mode member, with the flags of karmada-agent.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::agent::{AgentDeps, AgentReplicas, AgentSettings};
use ::karmadactl::cluster_location::ClusterLocationArgs;
use ::karmadactl::console::Console;
use ::karmadactl::durations;
use ::karmadactl::register::manifest::{self, ManifestArgs};
use anyhow::{Context, bail};
use api::features::Features;
use api::names::{CLUSTER_NAMESPACE, SYSTEM_NAMESPACE};
use clap::{ArgAction, Args, Subcommand};
use cluster_client::remote::limit::RateLimit;
use cluster_client::{ClusterClient, Endpoint, Kubeconfig, RemoteConfig};
use control_plane::settings::{Controllers, EnabledSyncs, EstimatorServerSettings};
use membership::ClusterLocation;
use membership::agent_manifests::KUBECONFIG_SECRET;
use membership::registration::{Registration, ReportSecrets};
use membership::renewal::AgentKubeconfig;
use tokio_util::sync::CancellationToken;

use crate::estimator_flags::EstimatorServerArgs;
use crate::karmada_flags::{OfAgent, UnusedFlags, without_logging_gates};
use crate::propagation::{collect_settings, rate_limit};
use crate::termination::Termination;

/// Karmada's name of the renewal of certificates.
const ROTATION: &str = "certRotation";
/// File with the namespace of the pod this runs in.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The controllers of karmada-agent.
const CONTROLLERS: &[&str] =
    &["clusterStatus", "execution", "workStatus", "serviceExport", "endpointsliceCollect", "certRotation"];

// As with Go's flags, the last value of a repeated flag wins: manifests are often appended to.
#[derive(Args)]
#[command(
    args_override_self = true,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
The agent connects to the member and to the control plane; it needs no inbound connections. It registers the member as
a cluster with syncMode Pull, applies its works, and reports status and capacity. While the control plane is
unreachable, it keeps the member in its last known desired state and retries."
)]
pub struct AgentArgs {
    #[command(subcommand)]
    command: Option<AgentCommand>,
    #[command(flatten)]
    agent: Option<RunArgs>,
    // Not part of RunArgs: clap treats an optional group with flattened arguments as absent.
    #[command(flatten)]
    location: ClusterLocationArgs,
    #[command(flatten)]
    estimator: EstimatorServerArgs,
    #[command(flatten)]
    unused: UnusedFlags<OfAgent>,
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
    /// Name of the cluster.
    #[arg(long, value_name = "NAME")]
    cluster_name: String,
    /// Namespace of the cluster's secrets, in the control plane and in the member.
    #[arg(long, default_value = CLUSTER_NAMESPACE, value_name = "NAMESPACE")]
    cluster_namespace: String,
    /// URL at which the control plane reaches the member's API.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL")]
    cluster_api_endpoint: String,
    /// Proxy through which the control plane reaches the member.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URL")]
    proxy_server_address: String,
    /// Secrets reported to the control plane: KubeCredentials, KubeImpersonator, or None.
    #[arg(long, value_delimiter = ',', default_value = "KubeCredentials,KubeImpersonator", value_name = "NAME,...")]
    report_secrets: Vec<String>,
    /// Feature gates, such as Failover=true.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME=BOOL,...")]
    feature_gates: String,
    /// Interval for updating the member's status.
    #[arg(long, default_value = "10s", value_parser = durations::parse, value_name = "DURATION")]
    cluster_status_update_frequency: Duration,
    /// Duration of the lease that the agent renews as its heartbeat.
    #[arg(long, default_value = "40s", value_parser = durations::parse, value_name = "DURATION")]
    cluster_lease_duration: Duration,
    /// Fraction of the lease duration after which the lease is renewed.
    #[arg(long, default_value_t = 0.25, value_name = "FRACTION")]
    cluster_lease_renew_interval_fraction: f64,
    /// Time the member must be healthy before it is ready again.
    #[arg(long, default_value = "30s", value_parser = durations::parse, value_name = "DURATION")]
    cluster_success_threshold: Duration,
    /// Time the member must fail before it is not ready.
    #[arg(long, default_value = "30s", value_parser = durations::parse, value_name = "DURATION")]
    cluster_failure_threshold: Duration,
    /// Number of works applied concurrently.
    #[arg(long, default_value_t = 16, value_name = "N")]
    concurrent_work_syncs: usize,
    /// Watch nodes and pods to estimate the capacity of the member.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    enable_cluster_resource_modeling: bool,
    /// Elect one active agent among several of the same member, with a Lease in the member.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    leader_elect: bool,
    /// Namespace of that Lease.
    #[arg(long, default_value = SYSTEM_NAMESPACE, value_name = "NAMESPACE")]
    leader_elect_resource_namespace: String,
    /// Address for /healthz and /readyz; 0 disables it.
    #[arg(long, default_value = "0", value_name = "HOST:PORT")]
    health_probe_bind_address: String,
    /// Controllers to run: `*` enables all, NAME enables one, -NAME disables one: clusterStatus, execution, workStatus,
    /// serviceExport, endpointsliceCollect, certRotation.
    #[arg(long, default_value = "*", allow_hyphen_values = true, value_name = "NAMES")]
    controllers: String,
    /// Requests per second to the member; a negative number removes the limit.
    #[arg(long, allow_negative_numbers = true, default_value_t = 2000.0, value_name = "RATE")]
    cluster_api_qps: f64,
    /// Requests to the member that may exceed that rate at once [default: twice the rate].
    #[arg(long, value_name = "N")]
    cluster_api_burst: Option<u32>,
    /// Requests per second to the control plane; a negative number removes the limit.
    #[arg(long, allow_negative_numbers = true, default_value_t = 200.0, value_name = "RATE")]
    kube_api_qps: f64,
    /// Requests to the control plane that may exceed that rate at once [default: twice the rate].
    #[arg(long, value_name = "N")]
    kube_api_burst: Option<u32>,
    /// Open a tunnel through which the control plane reaches the member for proxy, logs, exec and port-forward.
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    tunnel: bool,
    /// Renew the agent's certificate for the control plane after two thirds of its lifetime.
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    rotate_certificate: bool,
    /// Secret that --karmada-kubeconfig is mounted from; a renewed certificate is stored there if the file cannot be
    /// written.
    #[arg(long, default_value = KUBECONFIG_SECRET, value_name = "NAME")]
    karmada_kubeconfig_secret: String,
    /// Address for /metrics; 0 disables it.
    #[arg(long, default_value = "0", value_name = "HOST:PORT")]
    metrics_bind_address: String,
}

pub async fn run(console: &Console, args: AgentArgs) -> anyhow::Result<()> {
    match args {
        AgentArgs { command: Some(AgentCommand::Manifest(args)), .. } => manifest::run(console, &args),
        AgentArgs { agent: Some(args), location, estimator, unused, .. } => {
            unused.warn();
            run_agent(args, location.location(), estimator.read()?).await
        }
        AgentArgs { .. } => bail!("--karmada-kubeconfig FILE and --cluster-name NAME are required"),
    }
}

async fn run_agent(
    args: RunArgs,
    location: ClusterLocation,
    estimator: Option<EstimatorServerSettings>,
) -> anyhow::Result<()> {
    let mut termination = Termination::listen()?;
    let cancel = CancellationToken::new();
    let metrics = plane_metrics::PlaneMetrics::default();
    metrics.build(concat!("v", env!("CARGO_PKG_VERSION")));
    if let Some(address) = listen_address("--metrics-bind-address", &args.metrics_bind_address)? {
        let serving = ::agent::probe::serve_metrics(address, metrics.clone(), cancel.clone());
        serving.await.with_context(|| format!("cannot listen on {address}"))?;
    }
    if let Some(address) = listen_address("--health-probe-bind-address", &args.health_probe_bind_address)? {
        ::agent::probe::serve(address, cancel.clone()).await.with_context(|| format!("cannot listen on {address}"))?;
    }
    let working = ::agent::run(AgentDeps { estimator, ..args.deps(location, metrics)? }, cancel.clone());
    tokio::pin!(working);
    tokio::select! {
        ended = &mut working => return Ok(ended?),
        () = termination.asked() => {}
    }
    tracing::info!("shutting down, waiting for work in progress");
    cancel.cancel();
    Ok(working.await?)
}

impl RunArgs {
    fn deps(self, location: ClusterLocation, metrics: plane_metrics::PlaneMetrics) -> anyhow::Result<AgentDeps> {
        let mut plane = plane_connection(&self.karmada_kubeconfig, self.karmada_context.as_deref())?;
        plane.rate_limit = self.plane_rate_limit()?;
        let controllers = self.controllers()?;
        let (member, proxy) = member_connection(self.kubeconfig.as_ref(), self.context.as_deref())?;
        let report = ReportSecrets::parse(self.report_secrets.iter().map(String::as_str));
        let report = report.map_err(|problem| anyhow::anyhow!("--report-secrets: {problem}"))?;
        let registration = Registration {
            report,
            proxy: proxy.unwrap_or_else(|| self.proxy_server_address.clone()),
            insecure: member.insecure_skip_tls_verify,
            authority: member.ca.as_ref().map(|ca| ca.read()).transpose().context("cannot read the member's CA")?,
            api_endpoint: self.cluster_api_endpoint.clone(),
            location,
            name: self.cluster_name.clone(),
            namespace: self.cluster_namespace.clone(),
        };
        let mut settings = self.settings()?;
        settings.sync.collect = collect_settings(&controllers);
        let is_rotated = self.rotate_certificate && controllers.is_enabled(ROTATION);
        let member = RemoteConfig {
            request_timeout: settings.sync.request_timeout,
            rate_limit: settings.sync.rate_limit,
            ..member
        };
        let reachable_at = (self.tunnel && member.proxy.is_none()).then(|| member.server.clone());
        Ok(AgentDeps {
            reachable_at,
            kubeconfig: is_rotated.then(|| self.agent_kubeconfig()),
            estimator: None,
            plane: ClusterClient::connect(Endpoint::Remote(plane)).context("--karmada-kubeconfig")?,
            member: ClusterClient::connect(Endpoint::Remote(member)).context("cannot connect to the member")?,
            registration,
            features: Arc::new(
                Features::flotilla().with(&without_logging_gates(&self.feature_gates)).context("--feature-gates")?,
            ),
            clock: Arc::new(reconcile::SystemClock),
            metrics,
            settings,
        })
    }

    fn plane_rate_limit(&self) -> anyhow::Result<Option<RateLimit>> {
        rate_limit("--kube-api-qps", self.kube_api_qps, self.kube_api_burst)
    }

    /// Reads `--controllers` with the names of karmada-agent.
    fn controllers(&self) -> anyhow::Result<Controllers> {
        let controllers = Controllers::parse(&self.controllers);
        controllers.check(CONTROLLERS).map_err(|problem| anyhow::anyhow!("--controllers: {problem}"))?;
        Ok(controllers)
    }

    /// Returns the kubeconfig whose certificate is renewed.
    fn agent_kubeconfig(&self) -> AgentKubeconfig {
        let own = std::fs::read_to_string(NAMESPACE_FILE).ok().map(|text| text.trim().to_owned());
        let own = own.filter(|namespace| !namespace.is_empty());
        AgentKubeconfig {
            path: self.karmada_kubeconfig.clone(),
            context: self.karmada_context.clone(),
            namespace: own.unwrap_or_else(|| self.leader_elect_resource_namespace.clone()),
            secret: self.karmada_kubeconfig_secret.clone(),
        }
    }

    fn settings(&self) -> anyhow::Result<AgentSettings> {
        let fraction = self.cluster_lease_renew_interval_fraction;
        if !(fraction > 0.0 && fraction < 1.0) {
            bail!("--cluster-lease-renew-interval-fraction must be between 0 and 1");
        }
        let mut settings = AgentSettings {
            lease_duration: self.cluster_lease_duration,
            lease_renew_every: self.cluster_lease_duration.mul_f64(fraction),
            ..AgentSettings::default()
        };
        settings.sync.heartbeat = self.cluster_status_update_frequency;
        settings.sync.success_threshold = self.cluster_success_threshold;
        settings.sync.failure_threshold = self.cluster_failure_threshold;
        settings.sync.resource_modeling = self.enable_cluster_resource_modeling;
        settings.sync.workers = self.concurrent_work_syncs.max(1);
        settings.sync.rate_limit = rate_limit("--cluster-api-qps", self.cluster_api_qps, self.cluster_api_burst)?;
        let controllers = self.controllers()?;
        settings.sync.runs = EnabledSyncs {
            cluster_status: controllers.is_enabled("clusterStatus"),
            execution: controllers.is_enabled("execution"),
            work_status: controllers.is_enabled("workStatus"),
        };
        settings.replicas = self
            .leader_elect
            .then(|| AgentReplicas { namespace: self.leader_elect_resource_namespace.clone(), identity: identity() });
        Ok(settings)
    }
}

/// The connection to the control plane by its kubeconfig.
pub fn plane_connection(kubeconfig: &PathBuf, context: Option<&str>) -> anyhow::Result<RemoteConfig> {
    let plane = Kubeconfig::load(std::slice::from_ref(kubeconfig)).context("--karmada-kubeconfig")?;
    plane.remote(context).context("--karmada-kubeconfig")
}

/// Returns the connection to the member, and the proxy of its kubeconfig.
pub fn member_connection(
    kubeconfig: Option<&PathBuf>,
    context: Option<&str>,
) -> anyhow::Result<(RemoteConfig, Option<String>)> {
    let is_named = kubeconfig.is_some() || std::env::var_os("KUBECONFIG").is_some_and(|v| !v.is_empty());
    if !is_named && let Ok(in_cluster) = RemoteConfig::in_cluster() {
        return Ok((in_cluster, None));
    }
    let kubeconfig = match kubeconfig {
        Some(path) => Kubeconfig::load(std::slice::from_ref(path)),
        None => Kubeconfig::load_default(),
    };
    let kubeconfig =
        kubeconfig.context("cannot reach the member: use --kubeconfig FILE when this does not run in the member")?;
    let proxy = kubeconfig.proxy_url(context).map(str::to_owned);
    Ok((kubeconfig.remote(context).context("--kubeconfig")?, proxy))
}

/// Returns an identity that no two agents of a member share.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "agent".to_owned());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{host}_{}_{:x}", std::process::id(), now.as_nanos())
}

/// Parses a listen address: `:10357` means all addresses, as in Go; `0` and an empty text mean none.
pub fn listen_address(flag: &str, text: &str) -> anyhow::Result<Option<SocketAddr>> {
    if matches!(text, "" | "0") {
        return Ok(None);
    }
    let full = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    let found = full.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    Ok(Some(found.with_context(|| format!("{flag}: {text:?} is not an address"))?))
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
    fn flags_belong_to_the_agent_or_to_a_subcommand() {
        let read =
            |line: &str| Line::try_parse_from(std::iter::once("agent").chain(line.split(' '))).map(|line| line.args);
        let args = read("--karmada-kubeconfig f --cluster-name m --cluster-region north --cluster-zones=a,b")
            .expect("an agent");
        assert_eq!(args.agent.map(|agent| agent.cluster_name).as_deref(), Some("m"));
        let location = args.location.location();
        assert_eq!((location.region.as_str(), location.zones.len()), ("north", 2));
        let karmadas = "--karmada-kubeconfig=f --cluster-name=m --controllers=*,certRotation --kube-api-qps=40 \
            --cert-rotation-checking-interval=5m --leader-elect-lease-duration=15s --concurrent-cluster-syncs=5";
        let args = read(karmadas).expect("an agent with the flags of karmada-agent");
        assert!(args.agent.is_some());
        let args = read("manifest --cluster-name m --cluster-region north").expect("a manifest");
        assert!(args.agent.is_none() && args.command.is_some());
        assert!(read("--cluster-name m").is_err());
    }

    #[test]
    fn rate_and_burst_of_the_control_plane_are_set_apart() {
        let limit = |flags: &str| {
            let line = format!("agent --karmada-kubeconfig=f --cluster-name=m {flags}");
            let args = Line::try_parse_from(line.split_whitespace()).unwrap_or_else(|error| panic!("{error}")).args;
            let limit = args.agent.expect("an agent").plane_rate_limit().expect("a limit");
            limit.map(|limit| (limit.per_second, limit.burst))
        };
        assert_eq!(limit(""), Some((200.0, 400)));
        assert_eq!(limit("--kube-api-burst=60"), Some((200.0, 60)));
        assert_eq!(limit("--kube-api-qps=40"), Some((40.0, 80)));
        assert_eq!(limit("--kube-api-qps=40 --kube-api-burst=60"), Some((40.0, 60)));
        assert_eq!(limit("--kube-api-qps=-1 --kube-api-burst=60"), None);
    }

    #[test]
    fn listen_addresses_are_parsed_as_in_karmada_manifests() {
        let address =
            |text: &str| listen_address("--flag", text).ok().map(|found| found.map(|found| found.to_string()));
        assert_eq!(address("0"), Some(None));
        assert_eq!(address(":10357"), Some(Some("0.0.0.0:10357".into())));
        assert_eq!(address("127.0.0.1:1"), Some(Some("127.0.0.1:1".into())));
        assert_eq!(address("nowhere"), None);
    }
}
