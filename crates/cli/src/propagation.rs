//! Flags of `flotilla server` for propagation and cluster health, with the names and defaults of Karmada's components.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use api::features::Features;
use clap::{Args, ValueEnum};
use cluster_client::Kubeconfig;
use cluster_client::remote::limit::RateLimit;
use control_plane::Propagation;
use control_plane::settings::{self, PurgeMode};

use crate::estimator_flags::{EstimatorClientArgs, EstimatorServerArgs};

/// The set of defaults in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Compat {
    #[value(name = "karmada-1.18")]
    Karmada118,
    #[value(name = "karmada-1.19")]
    Karmada119,
}

/// Default evictions per second: a control plane full of applications leaves a failed cluster within minutes, without
/// overloading the API servers of the others.
const EVICTION_RATE: f32 = 10.0;

#[derive(Args)]
#[command(next_help_heading = "Propagation")]
pub struct PropagationArgs {
    /// Use Karmada's defaults: cluster failover only with the feature gate Failover and
    /// --enable-no-execute-taint-eviction, no NoExecute taints without a policy, and evicted replicas removed after the
    /// grace period even if their replacements are not ready. With karmada-1.19 also priority-based scheduling, rescheduling
    /// from the first affinity group, results per component, and no purge modes Immediately and Graciously.
    #[arg(long, value_enum, value_name = "VERSION")]
    compat: Option<Compat>,
    /// Feature gates, such as Failover=true,WorkloadAffinity=true.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME=BOOL,...")]
    feature_gates: String,
    /// Agent certificates that are approved automatically: only those for the cluster a bootstrap token was created for
    /// with `token create --cluster NAME` (bound), or those any bootstrap token requests, as in Karmada, which gives the
    /// holder of a token full access to the control plane (any) [default: bound; with --compat: any].
    #[arg(long, value_parser = ["any", "bound"], value_name = "WHICH")]
    agent_approval: Option<String>,
    /// Objects of members that search.karmada.io shows: those that the caller can read in the member through
    /// clusters/NAME/proxy (caller), or every cached object to every caller with permission for search or proxying, as in
    /// Karmada (all) [default: caller; with --compat: all].
    #[arg(long, value_parser = ["caller", "all"], value_name = "WHICH")]
    search_access: Option<String>,
    /// Controllers to run: `*` enables those on by default, NAME enables one, -NAME disables one.
    #[arg(long, default_value = "*", allow_hyphen_values = true, value_name = "NAMES")]
    controllers: String,
    /// APIs that are not propagated: GROUP, GROUP/VERSION or GROUP/VERSION/KIND,KIND, separated by `;`.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "APIS")]
    skipped_propagating_apis: String,
    /// Namespaces that are not propagated, as regular expressions that match the whole name.
    #[arg(long, value_delimiter = ',', default_value = "kube-.*", value_name = "REGEX,...")]
    skipped_propagating_namespaces: Vec<String>,
    /// Interval for updating the status of push-mode clusters.
    #[arg(long, value_parser = duration, default_value = "10s", value_name = "DURATION")]
    cluster_status_update_frequency: Duration,
    /// Time a cluster must fail before it is not ready.
    #[arg(long, value_parser = duration, default_value = "30s", value_name = "DURATION")]
    cluster_failure_threshold: Duration,
    /// Time a cluster must be healthy before it is ready again.
    #[arg(long, value_parser = duration, default_value = "30s", value_name = "DURATION")]
    cluster_success_threshold: Duration,
    /// Interval for checking the leases of pull-mode clusters.
    #[arg(long, value_parser = duration, default_value = "5s", value_name = "DURATION")]
    cluster_monitor_period: Duration,
    /// Grace period after the last heartbeat of a pull-mode cluster before its status is unknown.
    #[arg(long, value_parser = duration, default_value = "40s", value_name = "DURATION")]
    cluster_monitor_grace_period: Duration,
    /// Grace period before the first heartbeat of a pull-mode cluster.
    #[arg(long, value_parser = duration, default_value = "60s", value_name = "DURATION")]
    cluster_startup_grace_period: Duration,
    /// Maximum time a gracefully evicted workload may keep running in its old cluster.
    #[arg(long, value_parser = duration, default_value = "10m", value_name = "DURATION")]
    graceful_eviction_timeout: Duration,
    /// Interval for recalculating the usage of federated quotas; 0 disables it.
    #[arg(long, value_parser = duration, default_value = "5m", value_name = "DURATION")]
    federated_resource_quota_sync_period: Duration,
    /// Watch the nodes and pods of members to estimate their capacity.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true",
        value_name = "BOOL")]
    enable_cluster_resource_modeling: bool,
    /// Enable the NoExecute taint manager (needs the feature gate Failover).
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true",
        value_name = "BOOL")]
    enable_taint_manager: bool,
    /// Evict workloads that do not tolerate a NoExecute taint of their cluster (needs the feature gate Failover) [default:
    /// true; with --compat: false].
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    enable_no_execute_taint_eviction: Option<bool>,
    /// Default purge mode for evictions: Gracefully or Directly.
    #[arg(long, default_value = "Gracefully", value_name = "MODE")]
    no_execute_taint_eviction_purge_mode: String,
    /// Allow ClusterTaintPolicies to add NoExecute taints [default: true; with --compat: false].
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    allow_no_execute_taint_policy: Option<bool>,
    /// Evictions per second; 0 means one every 30 minutes [default: 10; with --compat: 0.5 per worker].
    #[arg(long, value_name = "RATE")]
    resource_eviction_rate: Option<f32>,
    /// Default toleration of workloads for a cluster that is not ready or has no ready node.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    default_not_ready_toleration_seconds: u64,
    /// Default toleration of workloads for an unreachable cluster.
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    default_unreachable_toleration_seconds: u64,
    /// Name of this scheduler; only bindings that request it are scheduled.
    #[arg(long, default_value = "default-scheduler", value_name = "NAME")]
    scheduler_name: String,
    /// Scheduler plugins: `*` enables all, NAME enables one, -NAME disables one.
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true, value_name = "NAMES")]
    plugins: Vec<String>,
    /// Move replicas of Deployments that are divided by available capacity away from clusters where their pods cannot be
    /// scheduled.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true",
        value_name = "BOOL")]
    descheduler: bool,
    /// Interval of the descheduler.
    #[arg(long, value_parser = duration, default_value = "2m", value_name = "DURATION")]
    descheduling_interval: Duration,
    /// Time a pod must be unschedulable before it is descheduled.
    #[arg(long, value_parser = duration, default_value = "5m", value_name = "DURATION")]
    unschedulable_threshold: Duration,
    /// Propagate workloads with zero replicas to every selected cluster.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true",
        value_name = "BOOL")]
    enable_empty_workload_propagation: bool,
    /// Requests per second to each push-mode cluster; a negative number removes the limit.
    #[arg(long, allow_negative_numbers = true, default_value_t = 2000.0, value_name = "RATE")]
    cluster_api_qps: f64,
    /// Requests that may exceed that rate at once [default: twice the rate].
    #[arg(long, value_name = "N")]
    cluster_api_burst: Option<u32>,
    /// Kubeconfig of a management cluster of Cluster API: clusters it provisions join in push mode by themselves.
    #[arg(long, value_name = "FILE")]
    cluster_api_kubeconfig: Option<PathBuf>,
    /// Context to use in --cluster-api-kubeconfig [default: its current one].
    #[arg(long, value_name = "NAME", requires = "cluster_api_kubeconfig")]
    cluster_api_context: Option<String>,
    #[command(flatten)]
    estimators: EstimatorClientArgs,
    #[command(flatten)]
    estimator_server: EstimatorServerArgs,
}

/// Returns which slices of members are reported, by the names of Karmada's controllers.
pub fn collect_settings(controllers: &settings::Controllers) -> settings::CollectSettings {
    settings::CollectSettings {
        exports: controllers.is_enabled("serviceExport"),
        services: controllers.is_enabled("endpointsliceCollect"),
    }
}

impl PropagationArgs {
    pub fn read(self) -> anyhow::Result<Propagation> {
        let defaults = match self.compat {
            Some(Compat::Karmada118) => Features::default(),
            Some(Compat::Karmada119) => Features::karmada_1_19(),
            None => Features::flotilla(),
        };
        crate::karmada_flags::warn_always_on_gates(&self.feature_gates);
        let mut chosen = Propagation {
            features: Arc::new(
                defaults
                    .with(&crate::karmada_flags::without_logging_gates(&self.feature_gates))
                    .context("--feature-gates")?,
            ),
            allow_no_execute_taint_policy: self.allow_no_execute_taint_policy.unwrap_or(self.compat.is_none()),
            agent_approval: match (&self.agent_approval, &self.compat) {
                (Some(which), _) => which.parse().map_err(anyhow::Error::msg)?,
                (None, Some(_)) => settings::AgentApproval::Any,
                (None, None) => settings::AgentApproval::Bound,
            },
            search_access: match (self.search_access.as_deref(), &self.compat) {
                (Some("all"), _) | (None, Some(_)) => settings::SearchAccess::All,
                (Some(_), _) | (None, None) => settings::SearchAccess::Caller,
            },
            ..Propagation::default()
        };
        let namespaces = self.skipped_propagating_namespaces.iter().map(String::as_str);
        let namespaces = settings::SkippedNamespaces::parse(namespaces).context("--skipped-propagating-namespaces")?;
        chosen.federation.skipped_apis = settings::SkippedApis::parse(&self.skipped_propagating_apis)?;
        chosen.federation.skipped_namespaces = namespaces.clone();
        chosen.services.skipped_namespaces = namespaces.clone();
        chosen.fleet.skipped_namespaces = namespaces;
        chosen.fleet.controllers = settings::Controllers::parse(&self.controllers);
        let mut known = settings::controller_names();
        known.extend(settings::SERVICE_CONTROLLERS);
        let checked = chosen.fleet.controllers.check(&known);
        checked.map_err(|problem| anyhow::anyhow!("--controllers: {problem}"))?;
        let is_off = |name: &&'static str| !chosen.fleet.controllers.is_enabled(name);
        chosen.services.off = settings::SERVICE_CONTROLLERS.into_iter().filter(is_off).collect();
        chosen.member_sync.collect = collect_settings(&chosen.fleet.controllers);
        switch_controllers(&mut chosen);
        self.set_fleet(&mut chosen.fleet)?;
        chosen.federation.graceful_eviction_timeout = self.graceful_eviction_timeout;
        chosen.member_sync.heartbeat = self.cluster_status_update_frequency;
        chosen.member_sync.failure_threshold = self.cluster_failure_threshold;
        chosen.member_sync.success_threshold = self.cluster_success_threshold;
        chosen.member_sync.resource_modeling = self.enable_cluster_resource_modeling;
        chosen.member_sync.rate_limit = rate_limit("--cluster-api-qps", self.cluster_api_qps, self.cluster_api_burst)?;
        chosen.cluster_api = match &self.cluster_api_kubeconfig {
            Some(path) => {
                let kubeconfig = Kubeconfig::load(std::slice::from_ref(path)).context("--cluster-api-kubeconfig")?;
                Some(kubeconfig.remote(self.cluster_api_context.as_deref()).context("--cluster-api-kubeconfig")?)
            }
            None => None,
        };
        chosen.estimator_server = self.estimator_server.read()?;
        chosen.scheduling.estimators = self.estimators.read()?;
        chosen.scheduling.descheduling = self.descheduler.then_some(settings::Descheduling {
            interval: self.descheduling_interval,
            threshold: self.unschedulable_threshold,
        });
        chosen.scheduling.scheduler_name = self.scheduler_name;
        chosen.scheduling.plugins = self.plugins;
        chosen.scheduling.empty_workload_propagation = self.enable_empty_workload_propagation;
        Ok(chosen)
    }

    fn set_fleet(&self, fleet: &mut settings::FleetSettings) -> anyhow::Result<()> {
        fleet.cluster_monitor_period = self.cluster_monitor_period;
        fleet.cluster_monitor_grace_period = self.cluster_monitor_grace_period;
        fleet.cluster_startup_grace_period = self.cluster_startup_grace_period;
        fleet.federated_resource_quota_sync_period = self.federated_resource_quota_sync_period;
        fleet.enable_taint_manager = self.enable_taint_manager;
        fleet.enable_no_execute_taint_eviction = self.enable_no_execute_taint_eviction.unwrap_or(self.compat.is_none());
        let rate = if self.compat.is_some() { fleet.resource_eviction_rate } else { EVICTION_RATE };
        fleet.resource_eviction_rate = self.resource_eviction_rate.unwrap_or(rate);
        if !fleet.resource_eviction_rate.is_finite() || fleet.resource_eviction_rate < 0.0 {
            bail!("--resource-eviction-rate cannot be {}", fleet.resource_eviction_rate);
        }
        fleet.default_tolerations.not_ready = Duration::from_secs(self.default_not_ready_toleration_seconds);
        fleet.default_tolerations.unreachable = Duration::from_secs(self.default_unreachable_toleration_seconds);
        fleet.no_execute_taint_eviction_purge_mode = match self.no_execute_taint_eviction_purge_mode.as_str() {
            "Gracefully" => PurgeMode::Gracefully,
            "Directly" => PurgeMode::Directly,
            other => bail!("--no-execute-taint-eviction-purge-mode must be Gracefully or Directly, not {other:?}"),
        };
        Ok(())
    }
}

/// Switches the controllers that do not belong to the fleet.
fn switch_controllers(chosen: &mut Propagation) {
    let is_on = |name: &str| chosen.fleet.controllers.is_enabled(name);
    chosen.federation.runs = settings::FederationControllers {
        binding: is_on("binding"),
        binding_status: is_on("bindingStatus"),
        graceful_eviction: is_on("gracefulEviction"),
        application_failover: is_on("applicationFailover"),
    };
    chosen.member_sync.runs = settings::EnabledSyncs {
        cluster_status: is_on("clusterStatus"),
        execution: is_on("execution"),
        work_status: is_on("workStatus"),
    };
    if !is_on("agentcsrapproving") {
        chosen.agent_approval = settings::AgentApproval::Off;
    }
}

/// A limit as client-go understands it: a negative rate means none.
pub fn rate_limit(flag: &str, qps: f64, burst: Option<u32>) -> anyhow::Result<Option<RateLimit>> {
    if qps < 0.0 {
        return Ok(None);
    }
    if !qps.is_finite() || qps == 0.0 {
        bail!("{flag} must be a positive number, or negative for no limit, not {qps}");
    }
    let burst = burst.unwrap_or((2.0 * qps).ceil() as u32);
    if burst == 0 {
        bail!("the burst of {flag} must be at least 1");
    }
    Ok(Some(RateLimit { per_second: qps, burst }))
}

fn duration(text: &str) -> Result<Duration, String> {
    karmadactl::durations::parse(text)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use control_plane::settings::SearchAccess;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: PropagationArgs,
    }

    fn read(line: &str) -> Propagation {
        let words = std::iter::once("server").chain(line.split_whitespace());
        Line::try_parse_from(words).expect(line).args.read().expect(line)
    }

    #[test]
    fn compat_selects_karmadas_defaults_and_flags_override_them() {
        let ours = read("");
        assert!(ours.features.failover && ours.features.resilient_failover && ours.allow_no_execute_taint_policy);
        assert!(ours.fleet.enable_no_execute_taint_eviction);
        assert!((ours.fleet.resource_eviction_rate - EVICTION_RATE).abs() < f32::EPSILON);
        assert_eq!(ours.agent_approval, settings::AgentApproval::Bound);
        assert_eq!(read("--agent-approval any").agent_approval, settings::AgentApproval::Any);
        let karmadas = read("--compat karmada-1.18");
        assert_eq!(karmadas.agent_approval, settings::AgentApproval::Any);
        assert_eq!(read("--compat karmada-1.18 --agent-approval bound").agent_approval, settings::AgentApproval::Bound);
        let access = |line: &str| read(line).search_access;
        assert_eq!((access(""), access("--search-access all")), (SearchAccess::Caller, SearchAccess::All));
        assert_eq!(access("--compat karmada-1.18"), SearchAccess::All);
        assert_eq!(access("--compat karmada-1.18 --search-access caller"), SearchAccess::Caller);
        assert_eq!(*karmadas.features, Features::default());
        assert!(!karmadas.features.failover && !karmadas.allow_no_execute_taint_policy);
        assert!(!karmadas.fleet.enable_no_execute_taint_eviction);
        assert!((karmadas.fleet.resource_eviction_rate - 0.5).abs() < f32::EPSILON);
        let mixed = read(
            "--compat karmada-1.18 --feature-gates Failover=true --enable-no-execute-taint-eviction \
             --resource-eviction-rate 3 --allow-no-execute-taint-policy=true",
        );
        assert!(mixed.features.failover && !mixed.features.resilient_failover);
        assert!(mixed.fleet.enable_no_execute_taint_eviction && mixed.allow_no_execute_taint_policy);
        let newer = read("--compat karmada-1.19").features;
        assert_eq!(*newer, Features::karmada_1_19());
        assert!(newer.priority_based_scheduling && !newer.failover && !newer.deprecated_purge_modes);
        assert!(ours.features.priority_based_scheduling && ours.features.deprecated_purge_modes);
        let off = read("--feature-gates Failover=false --enable-no-execute-taint-eviction=false");
        assert!(!off.features.failover && !off.fleet.enable_no_execute_taint_eviction);
    }

    #[test]
    fn every_controller_is_switched_by_its_name_in_karmada() {
        let all = read("");
        assert_eq!(all.federation.runs, settings::FederationControllers::default());
        assert_eq!(all.member_sync.runs, settings::EnabledSyncs::default());
        let some = read("--controllers *,-binding,-gracefulEviction,-workStatus,-agentcsrapproving");
        assert!(!some.federation.runs.binding && !some.federation.runs.graceful_eviction);
        assert!(some.federation.runs.binding_status && some.federation.runs.application_failover);
        assert!(!some.member_sync.runs.work_status && some.member_sync.runs.execution);
        assert_eq!(some.agent_approval, settings::AgentApproval::Off);
        let none = read("--controllers=cluster");
        assert!(!none.member_sync.runs.cluster_status);
    }

    #[test]
    fn requests_to_members_are_limited_as_configured() {
        let limit = |line: &str| read(line).member_sync.rate_limit.map(|limit| (limit.per_second as u32, limit.burst));
        assert_eq!(limit(""), Some((2000, 4000)));
        assert_eq!(limit("--cluster-api-qps=40 --cluster-api-burst=60"), Some((40, 60)));
        assert_eq!(limit("--cluster-api-qps=-1"), None);
        assert!(rate_limit("--cluster-api-qps", 0.0, None).is_err());
    }
}
