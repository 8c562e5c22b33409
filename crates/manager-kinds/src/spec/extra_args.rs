//! Flags of Karmada's components in the spec of an instance, translated to flags of `flotilla server`.

use object::{FieldError, FieldPath, Object};

use super::{SpecReading, entries};

/// A component with `extraArgs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    ApiServer,
    AggregatedApiServer,
    KubeControllerManager,
    ControllerManager,
    Scheduler,
    Webhook,
    Descheduler,
    Search,
    MetricsAdapter,
}

impl Component {
    pub const ALL: &[Self] = &[
        Self::ApiServer,
        Self::AggregatedApiServer,
        Self::KubeControllerManager,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Webhook,
        Self::Descheduler,
        Self::Search,
        Self::MetricsAdapter,
    ];

    fn field(self) -> &'static str {
        match self {
            Self::ApiServer => "karmadaAPIServer",
            Self::AggregatedApiServer => "karmadaAggregatedAPIServer",
            Self::KubeControllerManager => "kubeControllerManager",
            Self::ControllerManager => "karmadaControllerManager",
            Self::Scheduler => "karmadaScheduler",
            Self::Webhook => "karmadaWebhook",
            Self::Descheduler => "karmadaDescheduler",
            Self::Search => "karmadaSearch",
            Self::MetricsAdapter => "karmadaMetricsAdapter",
        }
    }

    /// Returns the flags that `flotilla server` has under the same name.
    fn same_flags(self) -> &'static [&'static str] {
        match self {
            Self::ApiServer => &[
                "max-requests-inflight",
                "max-mutating-requests-inflight",
                "anonymous-auth",
                "oidc-issuer-url",
                "oidc-client-id",
                "oidc-username-claim",
                "oidc-username-prefix",
                "oidc-groups-claim",
                "oidc-groups-prefix",
                "oidc-required-claim",
                "oidc-signing-algs",
                "tls-min-version",
                "tls-cipher-suites",
            ],
            Self::ControllerManager => &[
                "controllers",
                "skipped-propagating-apis",
                "skipped-propagating-namespaces",
                "cluster-status-update-frequency",
                "cluster-failure-threshold",
                "cluster-success-threshold",
                "cluster-monitor-period",
                "cluster-monitor-grace-period",
                "cluster-startup-grace-period",
                "graceful-eviction-timeout",
                "federated-resource-quota-sync-period",
                "enable-cluster-resource-modeling",
                "enable-taint-manager",
                "enable-no-execute-taint-eviction",
                "no-execute-taint-eviction-purge-mode",
                "resource-eviction-rate",
                "default-not-ready-toleration-seconds",
                "default-unreachable-toleration-seconds",
            ],
            Self::Scheduler => &["plugins", "scheduler-name"],
            Self::Webhook => &[
                "allow-no-execute-taint-policy",
                "default-not-ready-toleration-seconds",
                "default-unreachable-toleration-seconds",
            ],
            Self::Descheduler => &["descheduling-interval", "unschedulable-threshold"],
            Self::AggregatedApiServer | Self::KubeControllerManager | Self::Search | Self::MetricsAdapter => &[],
        }
    }
}

/// Flags of kube-apiserver that name a file of the host.
const FILE_SUFFIXES: &[&str] = &["-file", "-path", "-config", "-dir", "-cafile", "-certfile", "-keyfile"];
const FILE_FLAGS: &[&str] =
    &["tls-sni-cert-key", "kubelet-certificate-authority", "kubelet-client-certificate", "kubelet-client-key"];

/// Reads the flags of one component.
pub fn read(reading: &mut SpecReading, instance: &Object, component: Component) {
    let path = FieldPath::new("spec").child("components").child(component.field()).child("extraArgs");
    for (name, value) in entries(instance, &["spec", "components", component.field(), "extraArgs"]) {
        read_flag(reading, component, (name, &value), &path.key(name));
    }
}

fn read_flag(reading: &mut SpecReading, component: Component, (name, value): (&str, &str), path: &FieldPath) {
    if component.same_flags().contains(&name) {
        return reading.flag(name, value);
    }
    match (component, name) {
        (Component::ApiServer, "encryption-provider-config") => {
            let why = "is not supported: Secrets would be stored in clear although the spec asks for encryption";
            reading.refuse(FieldError::forbidden(path.clone(), why));
        }
        // The gates of the control plane are read from fields and flags together.
        (Component::ApiServer | Component::ControllerManager | Component::Scheduler, "feature-gates") => {}
        (Component::ApiServer, _) if names_file(name) => {
            reading
                .refuse(FieldError::forbidden(path.clone(), "names a file of the host, which an instance cannot read"));
        }
        (Component::ApiServer, _) if name.starts_with("audit-") => {
            reading.ignore(path, "has no effect: an instance has no audit log of its own in a file");
        }
        (Component::ApiServer, "event-ttl") => match seconds(value) {
            Ok(seconds) => reading.flag("event-ttl", seconds),
            Err(problem) => reading.refuse(FieldError::invalid(path.clone(), value, problem)),
        },
        (Component::ApiServer, "etcd-prefix") => match &mut reading.plane.etcd {
            Some(etcd) => etcd.prefix = Some(value.to_owned()),
            None => reading.ignore(path, "has no effect: the storage is not an etcd"),
        },
        (Component::ApiServer, "enable-admission-plugins") => {
            for plugin in value.split(',').map(str::trim) {
                match plugin {
                    "ServiceAccount" => reading.flag("enable-admission-plugins", plugin),
                    _ => reading.ignore(path, &format!("{plugin} has no effect: it cannot be enabled")),
                }
            }
        }
        (Component::ApiServer, "disable-admission-plugins") => reading.flag("disable-admission-plugins", value),
        (Component::ControllerManager, "failover-eviction-timeout") => match seconds(value) {
            Ok(seconds) => {
                reading.flag("default-not-ready-toleration-seconds", seconds);
                reading.flag("default-unreachable-toleration-seconds", seconds);
            }
            Err(problem) => reading.refuse(FieldError::invalid(path.clone(), value, problem)),
        },
        (Component::Scheduler, "enable-empty-workload-propagation") => match value {
            "true" => reading.plane.flags.push("--enable-empty-workload-propagation".to_owned()),
            "false" => {}
            _ => reading.refuse(FieldError::invalid(path.clone(), value, "must be true or false")),
        },
        (Component::Scheduler, "enable-scheduler-estimator") if value == "true" => {}
        _ => reading.ignore(path, "has no effect: the control plane has no such flag"),
    }
}

fn names_file(flag: &str) -> bool {
    FILE_FLAGS.contains(&flag) || FILE_SUFFIXES.iter().any(|suffix| flag.ends_with(suffix))
}

fn seconds(value: &str) -> Result<i64, String> {
    let duration = object::duration::parse(value)?;
    if duration.is_negative() { Err("must not be negative".to_owned()) } else { Ok(duration.as_secs()) }
}
