//! Flags of Karmada's programs that have no meaning here. They are accepted with one warning each, so that existing
//! manifests and scripts start unchanged.

use std::marker::PhantomData;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

/// Feature gates of Karmada's logging library; `--log` and `--log-format` replace them.
const LOGGING_GATES: [&str; 3] = ["LoggingAlphaOptions", "LoggingBetaOptions", "ContextualLogging"];

/// Feature gates of Karmada whose behaviour cannot be switched off here.
const ALWAYS_ON_GATES: [&str; 2] = ["ControllerPriorityQueue", "SchedulingOvercommitProtection"];

/// Flags of all of Karmada's programs for klog, which writes their logs, and for component-base. Older manifests have
/// klog's own spelling, with underscores.
const LOGGING: &[&str] = &[
    "add-dir-header",
    "add_dir_header",
    "alsologtostderr",
    "legacy-stderr-threshold-behavior",
    "legacy_stderr_threshold_behavior",
    "log-backtrace-at",
    "log_backtrace_at",
    "log-dir",
    "log_dir",
    "log-file",
    "log_file",
    "log-file-max-size",
    "log_file_max_size",
    "log-flush-frequency",
    "log-json-info-buffer-size",
    "log-json-split-stream",
    "log-text-info-buffer-size",
    "log-text-split-stream",
    "logging-format",
    "logtostderr",
    "one-output",
    "one_output",
    "skip-headers",
    "skip_headers",
    "skip-log-headers",
    "skip_log_headers",
    "stderrthreshold",
    "vmodule",
];

/// Flags of one of Karmada's programs.
pub trait FlagSet {
    /// Names other than those of `LOGGING`.
    const NAMES: &'static [&'static str];
}

fn names<S: FlagSet>() -> impl Iterator<Item = &'static str> {
    LOGGING.iter().chain(S::NAMES).copied()
}

/// Flags of karmada-agent.
pub struct OfAgent;

/// Flags of karmada-controller-manager, karmada-scheduler and karmada-webhook.
pub struct OfServer;

impl FlagSet for OfAgent {
    const NAMES: &'static [&'static str] = &[
        "cluster-cache-sync-timeout",
        "resync-period",
        "concurrent-cluster-syncs",
        "rate-limiter-base-delay",
        "rate-limiter-max-delay",
        "rate-limiter-qps",
        "rate-limiter-bucket-size",
        "leader-elect-lease-duration",
        "leader-elect-renew-deadline",
        "leader-elect-retry-period",
        "leader-elect-resource-name",
        "cert-rotation-checking-interval",
        "cert-rotation-remaining-time-threshold",
        "karmada-kubeconfig-namespace",
        "enable-pprof",
        "profiling-bind-address",
    ];
}

impl FlagSet for OfServer {
    const NAMES: &'static [&'static str] = &[
        "kube-api-qps",
        "kube-api-burst",
        "cluster-cache-sync-timeout",
        "resync-period",
        "concurrent-cluster-syncs",
        "concurrent-clusterresourcebinding-syncs",
        "concurrent-resourcebinding-syncs",
        "concurrent-work-syncs",
        "concurrent-namespace-syncs",
        "concurrent-propagation-policy-syncs",
        "concurrent-cluster-propagation-policy-syncs",
        "concurrent-resource-template-syncs",
        "concurrent-dependent-resource-syncs",
        "rate-limiter-base-delay",
        "rate-limiter-max-delay",
        "rate-limiter-qps",
        "rate-limiter-bucket-size",
        // Karmada's controller manager accepts these two and does not read them.
        "horizontal-pod-autoscaler-upscale-delay",
        "horizontal-pod-autoscaler-downscale-delay",
        "leader-elect",
        "leader-elect-lease-duration",
        "leader-elect-renew-deadline",
        "leader-elect-retry-period",
        "leader-elect-resource-name",
        "leader-elect-resource-namespace",
        // Profiles are served by the API only, to callers with the right to read them.
        "profiling-bind-address",
    ];
}

/// The flags of a set that were given.
pub struct UnusedFlags<S> {
    given: Vec<&'static str>,
    set: PhantomData<S>,
}

impl<S: FlagSet> UnusedFlags<S> {
    /// Logs one warning for each flag that was given.
    pub fn warn(&self) {
        for name in &self.given {
            tracing::warn!("--{name} has no effect here; it is accepted for compatibility with Karmada");
        }
    }
}

impl<S: FlagSet> Args for UnusedFlags<S> {
    fn augment_args(command: Command) -> Command {
        // As with Go's flags, the last value of a repeated flag wins, and a value can be a negative number.
        let unused = |name: &'static str| {
            let arg = Arg::new(name).long(name).hide(true).num_args(0..=1).default_missing_value("true");
            arg.value_name("VALUE").overrides_with(name).allow_negative_numbers(true)
        };
        names::<S>().fold(command, |command, name| command.arg(unused(name)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: FlagSet> FromArgMatches for UnusedFlags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |name: &&'static str| matches.value_source(name) == Some(ValueSource::CommandLine);
        Ok(Self { given: names::<S>().filter(is_given).collect(), set: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Logs one warning for each gate that is switched off although its behaviour is always on.
pub fn warn_always_on_gates(gates: &str) {
    for name in switched_off(gates) {
        tracing::warn!("--feature-gates {name}=false has no effect here: the behaviour is always on");
    }
}

fn switched_off(gates: &str) -> Vec<&str> {
    let given = gates.split(',').filter_map(|item| item.split_once('='));
    let off = given.filter(|(_, value)| value.trim().eq_ignore_ascii_case("false")).map(|(name, _)| name.trim());
    off.filter(|name| ALWAYS_ON_GATES.contains(name)).collect()
}

/// Removes Karmada's logging gates from a list of feature gates, with one warning each.
pub fn without_logging_gates(gates: &str) -> String {
    let is_logging = |item: &&str| {
        let name = item.split('=').next().unwrap_or_default().trim();
        let is_logging = LOGGING_GATES.contains(&name);
        if is_logging {
            tracing::warn!("the feature gate {name} has no effect here; use --log and --log-format");
        }
        !is_logging
    };
    gates.split(',').filter(is_logging).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
