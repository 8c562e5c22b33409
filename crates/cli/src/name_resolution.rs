//! `flotilla service-name-resolution-detector`: detects that Services of a member cannot be resolved by name.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::agent::name_resolution::{self, DetectorDeps, DetectorSettings, SystemLookup};
use ::karmadactl::durations;
use anyhow::{Context, ensure};
use clap::{ArgAction, Args};
use cluster_client::{ClusterClient, Endpoint};
use control_plane::settings::Controllers;
use reconcile::{LeaderElection, SystemClock};
use tokio_util::sync::CancellationToken;

use crate::agent::{member_connection, plane_connection};
use crate::termination::Termination;

/// Karmada's name of the detector.
const DETECTOR: &str = "coredns-detector";

/// Detect that Services of a member cannot be resolved by name.
///
/// Runs on each node of a member, as a DaemonSet. Each detector looks up a Service and publishes the condition
/// ServiceDomainNameResolutionReady of its Node; one of them sets the condition of the Cluster: False when no ready node can resolve
/// names. ClusterTaintPolicies and Remedies act on it.
#[derive(Args)]
#[command(args_override_self = true)]
pub struct DetectorArgs {
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
    /// Name of the Cluster.
    #[arg(long, value_name = "NAME")]
    cluster_name: String,
    /// Name of the Node this runs on [default: the host name].
    #[arg(long, value_name = "NAME")]
    host_name: Option<String>,
    /// Address for /healthz.
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    bind_address: IpAddr,
    /// Port for /healthz; 0 disables it.
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    healthz_port: u16,
    /// Detectors to run: `*` enables all, NAME enables one, -NAME disables one: coredns-detector.
    #[arg(long, default_value = "*", allow_hyphen_values = true, value_name = "NAMES")]
    detectors: String,
    /// Name that is looked up.
    #[arg(long, default_value = "kubernetes.default", value_name = "NAME")]
    lookup_name: String,
    /// Interval of lookups.
    #[arg(long, default_value = "5s", value_parser = durations::parse, value_name = "DURATION")]
    coredns_detect_period: Duration,
    /// Time lookups must succeed before the node is ready again.
    #[arg(long, default_value = "30s", value_parser = durations::parse, value_name = "DURATION")]
    coredns_success_threshold: Duration,
    /// Time lookups must fail before the node is not ready.
    #[arg(long, default_value = "30s", value_parser = durations::parse, value_name = "DURATION")]
    coredns_failure_threshold: Duration,
    /// Age at which the condition of a node counts as unknown.
    #[arg(long, default_value = "1m", value_parser = durations::parse, value_name = "DURATION")]
    coredns_stale_threshold: Duration,
    #[command(flatten)]
    election: ElectionArgs,
}

/// Election of the detector that reports the condition of the Cluster.
#[derive(Args)]
#[command(next_help_heading = "Leader election")]
struct ElectionArgs {
    /// Elect one detector of the member that reports the condition of the Cluster, with a Lease in the member.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true",
        value_name = "BOOL")]
    leader_elect: bool,
    /// Time after the last renewal when another detector takes over.
    #[arg(long, default_value = "15s", value_parser = durations::parse, value_name = "DURATION")]
    leader_elect_lease_duration: Duration,
    /// Time without a renewal after which the leader stops.
    #[arg(long, default_value = "10s", value_parser = durations::parse, value_name = "DURATION")]
    leader_elect_renew_deadline: Duration,
    /// Interval of renewals and of attempts to lead.
    #[arg(long, default_value = "2s", value_parser = durations::parse, value_name = "DURATION")]
    leader_elect_retry_period: Duration,
    /// Kind of the lock; only leases exist.
    #[arg(long, default_value = "leases", value_parser = ["leases"], hide = true)]
    leader_elect_resource_lock: String,
    /// Name of the Lease, followed by -coredns-detector.
    #[arg(long, default_value = "cluster-problem-detector", value_name = "NAME")]
    leader_elect_resource_name: String,
    /// Namespace of the Lease.
    #[arg(long, default_value = "kube-system", value_name = "NAMESPACE")]
    leader_elect_resource_namespace: String,
}

pub async fn run(args: DetectorArgs) -> anyhow::Result<()> {
    let mut termination = Termination::listen()?;
    let cancel = CancellationToken::new();
    let health = (args.healthz_port > 0).then(|| SocketAddr::new(args.bind_address, args.healthz_port));
    let deps = args.deps()?;
    if let Some(address) = health {
        ::agent::probe::serve(address, cancel.clone()).await.with_context(|| format!("cannot listen on {address}"))?;
    }
    let working = name_resolution::run(deps, cancel.clone());
    tokio::pin!(working);
    tokio::select! {
        () = &mut working => return Ok(()),
        () = termination.asked() => {}
    }
    cancel.cancel();
    working.await;
    Ok(())
}

impl DetectorArgs {
    fn deps(self) -> anyhow::Result<DetectorDeps> {
        let node = match &self.host_name {
            Some(name) => name.clone(),
            None => std::fs::read_to_string("/proc/sys/kernel/hostname").context("--host-name is required")?,
        };
        let settings = self.settings(node.trim())?;
        let plane = plane_connection(&self.karmada_kubeconfig, self.karmada_context.as_deref())?;
        let (member, _) = member_connection(self.kubeconfig.as_ref(), self.context.as_deref())?;
        Ok(DetectorDeps {
            plane: ClusterClient::connect(Endpoint::Remote(plane)).context("--karmada-kubeconfig")?,
            member: ClusterClient::connect(Endpoint::Remote(member)).context("cannot connect to the member")?,
            lookup: Arc::new(SystemLookup),
            clock: Arc::new(SystemClock),
            settings,
        })
    }

    fn settings(&self, node: &str) -> anyhow::Result<DetectorSettings> {
        let detectors = Controllers::parse(&self.detectors);
        detectors.check(&[DETECTOR]).map_err(|problem| anyhow::anyhow!("--detectors: {problem}"))?;
        ensure!(detectors.is_enabled(DETECTOR), "--detectors enables none: use `*` or {DETECTOR}");
        ensure!(!self.coredns_detect_period.is_zero(), "--coredns-detect-period must be positive");
        ensure!(
            self.coredns_stale_threshold > self.coredns_detect_period,
            "--coredns-stale-threshold must be longer than --coredns-detect-period"
        );
        Ok(DetectorSettings {
            cluster: self.cluster_name.clone(),
            node: node.to_owned(),
            service: self.lookup_name.clone(),
            period: self.coredns_detect_period,
            success_threshold: self.coredns_success_threshold,
            failure_threshold: self.coredns_failure_threshold,
            stale_threshold: self.coredns_stale_threshold,
            election: self.election.read(node)?,
        })
    }
}

impl ElectionArgs {
    fn read(&self, node: &str) -> anyhow::Result<Option<LeaderElection>> {
        if !self.leader_elect {
            return Ok(None);
        }
        ensure!(
            self.leader_elect_retry_period < self.leader_elect_renew_deadline
                && self.leader_elect_renew_deadline < self.leader_elect_lease_duration,
            "--leader-elect-retry-period must be shorter than --leader-elect-renew-deadline, and that shorter than \
             --leader-elect-lease-duration"
        );
        let name = format!("{}-{DETECTOR}", self.leader_elect_resource_name);
        tracing::debug!(lock = self.leader_elect_resource_lock, name, "electing the detector that reports");
        let election = LeaderElection::new(&self.leader_elect_resource_namespace, &name, node);
        Ok(Some(LeaderElection {
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
            ..election
        }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: DetectorArgs,
    }

    fn settings(flags: &str) -> anyhow::Result<DetectorSettings> {
        let line = format!("detector --karmada-kubeconfig=f --cluster-name=m1 {flags}");
        Line::try_parse_from(line.split_whitespace())?.args.settings("n1")
    }

    #[test]
    fn flags_of_karmadas_manifest_are_read() {
        let settings = settings(
            "--karmada-context=c --host-name=n1 --bind-address=10.0.0.1 --healthz-port=8081 --detectors=* \
             --coredns-detect-period=1s --coredns-success-threshold=20s --coredns-failure-threshold=10s \
             --coredns-stale-threshold=60s",
        );
        let settings = settings.expect("settings");
        assert_eq!((settings.period, settings.stale_threshold), (Duration::from_secs(1), Duration::from_secs(60)));
        assert_eq!(settings.success_threshold + settings.failure_threshold, Duration::from_secs(30));
        let election = settings.election.expect("an election");
        assert_eq!(
            (election.namespace.as_str(), election.name.as_str(), election.identity.as_str()),
            ("kube-system", "cluster-problem-detector-coredns-detector", "n1")
        );
    }

    #[test]
    fn flags_that_cannot_work_are_rejected_with_the_flag() {
        let check = |flags: &str, expected: &str| {
            let error = settings(flags).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(expected), "{flags}: {error}");
        };
        check("--detectors=-coredns-detector", "--detectors");
        check("--detectors=dns", "--detectors");
        check("--coredns-detect-period=0s", "--coredns-detect-period");
        check("--coredns-stale-threshold=5s", "--coredns-stale-threshold");
        check("--leader-elect-renew-deadline=20s", "--leader-elect-renew-deadline");
        check("--leader-elect-resource-lock=endpoints", "--leader-elect-resource-lock");
        assert!(settings("--leader-elect=false").is_ok_and(|settings| settings.election.is_none()));
    }
}
