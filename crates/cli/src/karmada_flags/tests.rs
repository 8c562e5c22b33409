//! Tests of the flags of Karmada's programs.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    unused: UnusedFlags<OfAgent>,
    #[arg(long)]
    own: Option<String>,
}

#[test]
fn flags_of_karmada_are_accepted_with_and_without_values() {
    let check = |line: &str, expected: &[&str]| {
        let line = Line::try_parse_from(std::iter::once("agent").chain(line.split_whitespace()));
        let line = line.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(line.unused.given, expected);
        line.own
    };
    assert_eq!(check("--own x", &[]).as_deref(), Some("x"));
    check("--resync-period=40s --rate-limiter-qps 60", &["resync-period", "rate-limiter-qps"]);
    assert_eq!(check("--enable-pprof --own x", &["enable-pprof"]).as_deref(), Some("x"));
    check("--resync-period=1s --resync-period=2s --rate-limiter-qps -1", &["resync-period", "rate-limiter-qps"]);
    check("--logtostderr --log_dir=/var/log --vmodule a=5", &["log_dir", "logtostderr", "vmodule"]);
    assert!(Line::try_parse_from(["agent", "--nonsense=1"]).is_err());
}

/// Parses a command line with flags in all forms that Go accepts.
fn check_accepted(command: &[&str], program: &[Flag], except: &[&str]) {
    let flags = || LOGGING_OF_ALL.iter().chain(program).filter(|(name, _)| !except.contains(name));
    let with_equals = |boolean: &str| {
        let form = |(name, value): &Flag| format!("--{name}={}", if value.is_empty() { boolean } else { value });
        flags().map(form).collect::<Vec<_>>()
    };
    let separated = flags().flat_map(|(name, value)| {
        let value = (!value.is_empty()).then(|| (*value).to_owned());
        std::iter::once(format!("--{name}")).chain(value)
    });
    for line in [with_equals("true"), with_equals("false"), separated.collect()] {
        let line = command.iter().map(|word| (*word).to_owned()).chain(line);
        if let Err(error) = crate::dispatch::Cli::try_parse_from(line) {
            panic!("{command:?}: {error}");
        }
    }
}

#[test]
fn the_agent_accepts_every_flag_of_karmada_agent() {
    check_accepted(&["flotilla", "agent"], AGENT, &[]);
}

#[test]
fn the_server_accepts_the_flags_of_the_programs_it_replaces() {
    let server = &["flotilla", "server"];
    check_accepted(server, CONTROLLER_MANAGER, NOT_OF_A_CLIENT);
    check_accepted(server, SCHEDULER, NOT_OF_A_CLIENT);
    check_accepted(server, DESCHEDULER, NOT_OF_A_CLIENT);
    check_accepted(server, WEBHOOK, &[NOT_OF_A_CLIENT, OF_WEBHOOK_LISTENER].concat());
}

#[test]
fn flags_that_would_mislead_are_refused() {
    for name in NOT_OF_A_CLIENT.iter().chain(OF_WEBHOOK_LISTENER) {
        let line = ["flotilla".to_owned(), "server".to_owned(), format!("--{name}=value")];
        assert!(crate::dispatch::Cli::try_parse_from(line).is_err(), "{name}");
    }
}

/// The server is the control plane: it cannot be a client of another one.
const NOT_OF_A_CLIENT: &[&str] = &["kubeconfig", "master"];

/// Webhooks have no listener of their own here: `--bind` and `--tls-cert-file` are the ones of the API.
const OF_WEBHOOK_LISTENER: &[&str] =
    &["bind-address", "secure-port", "cert-dir", "tls-cert-file-name", "tls-private-key-file-name"];

#[test]
fn gates_that_cannot_be_switched_off_are_found() {
    let check = |gates: &str, expected: &[&str]| assert_eq!(switched_off(gates), expected, "{gates}");
    check("ControllerPriorityQueue=false, Failover=false", &["ControllerPriorityQueue"]);
    check("SchedulingOvercommitProtection=true", &[]);
    check("", &[]);
}

#[test]
fn logging_gates_are_dropped() {
    assert_eq!(without_logging_gates("Failover=true,LoggingBetaOptions=true, ContextualLogging=true"), "Failover=true");
    assert_eq!(without_logging_gates(""), "");
}

/// A flag and a value for it; none if it is a boolean.
type Flag = (&'static str, &'static str);

/// Of every program of Karmada 1.18.2, as its `--help` lists them.
const LOGGING_OF_ALL: &[Flag] = &[
    ("add-dir-header", ""),
    ("alsologtostderr", ""),
    ("log-backtrace-at", "file.go:123"),
    ("log-dir", "/var/log"),
    ("log-file", "/var/log/karmada.log"),
    ("log-file-max-size", "1800"),
    ("log-flush-frequency", "5s"),
    ("log-json-info-buffer-size", "64Ki"),
    ("log-json-split-stream", ""),
    ("log-text-info-buffer-size", "64Ki"),
    ("log-text-split-stream", ""),
    ("logging-format", "text"),
    ("logtostderr", ""),
    ("one-output", ""),
    ("skip-headers", ""),
    ("skip-log-headers", ""),
    ("stderrthreshold", "2"),
    ("v", "4"),
    ("vmodule", "scheduler=5,detector=4"),
];

/// Flags of karmada-agent of Karmada 1.18.2.
const AGENT: &[Flag] = &[
    ("cert-rotation-checking-interval", "5m0s"),
    ("cert-rotation-remaining-time-threshold", "0.2"),
    ("cluster-api-burst", "60"),
    ("cluster-api-endpoint", "https://10.0.0.1:6443"),
    ("cluster-api-qps", "40"),
    ("cluster-cache-sync-timeout", "1m0s"),
    ("cluster-failure-threshold", "1m0s"),
    ("cluster-lease-duration", "1m0s"),
    ("cluster-lease-renew-interval-fraction", "0.25"),
    ("cluster-name", "value"),
    ("cluster-namespace", "value"),
    ("cluster-provider", "value"),
    ("cluster-region", "value"),
    ("cluster-status-update-frequency", "1m0s"),
    ("cluster-success-threshold", "1m0s"),
    ("cluster-zones", "a,b"),
    ("concurrent-cluster-syncs", "60"),
    ("concurrent-work-syncs", "60"),
    ("controllers", "*,-certRotation"),
    ("enable-cluster-resource-modeling", ""),
    ("enable-pprof", ""),
    ("feature-gates", "AllAlpha=true,Failover=false"),
    ("health-probe-bind-address", "0.0.0.0:10357"),
    ("karmada-context", "value"),
    ("karmada-kubeconfig", "value"),
    ("karmada-kubeconfig-namespace", "value"),
    ("kube-api-burst", "60"),
    ("kube-api-qps", "40"),
    ("kubeconfig", "value"),
    ("leader-elect", ""),
    ("leader-elect-lease-duration", "1m0s"),
    ("leader-elect-renew-deadline", "1m0s"),
    ("leader-elect-resource-namespace", "value"),
    ("leader-elect-retry-period", "1m0s"),
    ("metrics-bind-address", ":8080"),
    ("profiling-bind-address", ":6060"),
    ("proxy-server-address", "http://10.0.0.2:3128"),
    ("rate-limiter-base-delay", "1m0s"),
    ("rate-limiter-bucket-size", "60"),
    ("rate-limiter-max-delay", "1m0s"),
    ("rate-limiter-qps", "60"),
    ("report-secrets", "None"),
    ("resync-period", "1m0s"),
];

/// Flags of karmada-controller-manager of Karmada 1.18.2.
const CONTROLLER_MANAGER: &[Flag] = &[
    ("cluster-api-burst", "60"),
    ("cluster-api-context", "value"),
    ("cluster-api-kubeconfig", "value"),
    ("cluster-api-qps", "40"),
    ("cluster-cache-sync-timeout", "1m0s"),
    ("cluster-failure-threshold", "1m0s"),
    ("cluster-monitor-grace-period", "1m0s"),
    ("cluster-monitor-period", "1m0s"),
    ("cluster-startup-grace-period", "1m0s"),
    ("cluster-status-update-frequency", "1m0s"),
    ("cluster-success-threshold", "1m0s"),
    ("concurrent-cluster-propagation-policy-syncs", "60"),
    ("concurrent-cluster-syncs", "60"),
    ("concurrent-clusterresourcebinding-syncs", "60"),
    ("concurrent-dependent-resource-syncs", "60"),
    ("concurrent-namespace-syncs", "60"),
    ("concurrent-propagation-policy-syncs", "60"),
    ("concurrent-resource-template-syncs", "60"),
    ("concurrent-resourcebinding-syncs", "60"),
    ("concurrent-work-syncs", "60"),
    ("controllers", "*,-certRotation"),
    ("enable-cluster-resource-modeling", ""),
    ("enable-no-execute-taint-eviction", ""),
    ("enable-pprof", ""),
    ("enable-taint-manager", ""),
    ("feature-gates", "AllAlpha=true,Failover=false"),
    ("federated-resource-quota-sync-period", "1m0s"),
    ("graceful-eviction-timeout", "1m0s"),
    ("health-probe-bind-address", "0.0.0.0:10357"),
    ("horizontal-pod-autoscaler-cpu-initialization-period", "1m0s"),
    ("horizontal-pod-autoscaler-downscale-delay", "5m0s"),
    ("horizontal-pod-autoscaler-downscale-stabilization", "1m0s"),
    ("horizontal-pod-autoscaler-initial-readiness-delay", "1m0s"),
    ("horizontal-pod-autoscaler-sync-period", "1m0s"),
    ("horizontal-pod-autoscaler-tolerance", "0.1"),
    ("horizontal-pod-autoscaler-upscale-delay", "3m0s"),
    ("kube-api-burst", "60"),
    ("kube-api-qps", "40"),
    ("kubeconfig", "value"),
    ("leader-elect", ""),
    ("leader-elect-lease-duration", "1m0s"),
    ("leader-elect-renew-deadline", "1m0s"),
    ("leader-elect-resource-namespace", "value"),
    ("leader-elect-retry-period", "1m0s"),
    ("metrics-bind-address", ":8080"),
    ("no-execute-taint-eviction-purge-mode", "Directly"),
    ("profiling-bind-address", ":6060"),
    ("rate-limiter-base-delay", "1m0s"),
    ("rate-limiter-bucket-size", "60"),
    ("rate-limiter-max-delay", "1m0s"),
    ("rate-limiter-qps", "60"),
    ("resource-eviction-rate", "0.5"),
    ("resync-period", "1m0s"),
    ("skipped-propagating-apis", "cert-manager.io"),
    ("skipped-propagating-namespaces", "kube-.*"),
];

/// Flags of karmada-scheduler of Karmada 1.18.2.
const SCHEDULER: &[Flag] = &[
    ("disable-scheduler-estimator-in-pull-mode", ""),
    ("enable-empty-workload-propagation", ""),
    ("enable-pprof", ""),
    ("enable-scheduler-estimator", ""),
    ("feature-gates", "AllAlpha=true,Failover=false"),
    ("health-probe-bind-address", "0.0.0.0:10357"),
    ("insecure-skip-estimator-verify", ""),
    ("kube-api-burst", "60"),
    ("kube-api-qps", "40"),
    ("kubeconfig", "value"),
    ("leader-elect", ""),
    ("leader-elect-lease-duration", "1m0s"),
    ("leader-elect-renew-deadline", "1m0s"),
    ("leader-elect-resource-name", "value"),
    ("leader-elect-resource-namespace", "value"),
    ("leader-elect-retry-period", "1m0s"),
    ("master", "value"),
    ("metrics-bind-address", ":8080"),
    ("plugins", "*,-ClusterLocality"),
    ("profiling-bind-address", ":6060"),
    ("rate-limiter-base-delay", "1m0s"),
    ("rate-limiter-bucket-size", "60"),
    ("rate-limiter-max-delay", "1m0s"),
    ("rate-limiter-qps", "60"),
    ("scheduler-estimator-ca-file", "value"),
    ("scheduler-estimator-cert-file", "value"),
    ("scheduler-estimator-key-file", "value"),
    ("scheduler-estimator-port", "60"),
    ("scheduler-estimator-service-namespace", "value"),
    ("scheduler-estimator-service-prefix", "value"),
    ("scheduler-estimator-timeout", "1m0s"),
    ("scheduler-name", "default-scheduler"),
];

/// Flags of karmada-webhook of Karmada 1.18.2.
const WEBHOOK: &[Flag] = &[
    ("allow-no-execute-taint-policy", ""),
    ("bind-address", "value"),
    ("cert-dir", "value"),
    ("enable-pprof", ""),
    ("feature-gates", "AllAlpha=true,Failover=false"),
    ("health-probe-bind-address", "0.0.0.0:10357"),
    ("kube-api-burst", "60"),
    ("kube-api-qps", "40"),
    ("kubeconfig", "value"),
    ("metrics-bind-address", ":8080"),
    ("profiling-bind-address", ":6060"),
    ("secure-port", "60"),
    ("tls-cert-file-name", "value"),
    ("tls-min-version", "1.3"),
    ("tls-private-key-file-name", "value"),
];

/// Flags of karmada-descheduler of Karmada 1.18.2.
const DESCHEDULER: &[Flag] = &[
    ("descheduling-interval", "1m0s"),
    ("enable-pprof", ""),
    ("health-probe-bind-address", "0.0.0.0:10357"),
    ("insecure-skip-estimator-verify", ""),
    ("kube-api-burst", "60"),
    ("kube-api-qps", "40"),
    ("kubeconfig", "value"),
    ("leader-elect", ""),
    ("leader-elect-lease-duration", "1m0s"),
    ("leader-elect-renew-deadline", "1m0s"),
    ("leader-elect-resource-namespace", "value"),
    ("leader-elect-retry-period", "1m0s"),
    ("master", "value"),
    ("metrics-bind-address", ":8080"),
    ("profiling-bind-address", ":6060"),
    ("scheduler-estimator-ca-file", "value"),
    ("scheduler-estimator-cert-file", "value"),
    ("scheduler-estimator-key-file", "value"),
    ("scheduler-estimator-port", "60"),
    ("scheduler-estimator-service-namespace", "value"),
    ("scheduler-estimator-service-prefix", "value"),
    ("scheduler-estimator-timeout", "1m0s"),
    ("unschedulable-threshold", "1m0s"),
];
