//! Flags of `karmadactl init` that have no meaning here: each is refused with the reason.

use anyhow::bail;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

const ONE_PROCESS: &str = "it is part of the control plane's process, whose image, replicas and flags are set with \
    --karmada-apiserver-image, --karmada-apiserver-replicas and --karmada-apiserver-extra-args";
const OWN_STORAGE: &str = "the control plane stores its data itself; --etcd-storage-mode sets where, and \
    --external-etcd-servers names an existing etcd";
const NO_KUBE_IMAGES: &str =
    "no image of Kubernetes is used; --private-image-registry sets the registry of the only image";

/// Flags and the reasons why they are refused.
const REFUSED: &[(&str, &str)] = &[
    ("kube-image-registry", NO_KUBE_IMAGES),
    ("kube-image-mirror-country", NO_KUBE_IMAGES),
    ("kube-image-tag", NO_KUBE_IMAGES),
    ("etcd-image", OWN_STORAGE),
    ("etcd-init-image", OWN_STORAGE),
    ("etcd-replicas", OWN_STORAGE),
    ("etcd-priority-class", OWN_STORAGE),
    ("etcd-extra-args", OWN_STORAGE),
    ("crds", "the control plane serves Karmada's API without CustomResourceDefinitions"),
    ("karmada-pki", "keys stay in the storage of the control plane; --ca-cert-file and --ca-key-file set a CA"),
    ("cert-validity-period", "certificates are renewed automatically"),
    ("karmada-aggregated-apiserver-image", ONE_PROCESS),
    ("karmada-aggregated-apiserver-replicas", ONE_PROCESS),
    ("karmada-aggregated-apiserver-priority-class", ONE_PROCESS),
    ("karmada-aggregated-apiserver-extra-args", ONE_PROCESS),
    ("karmada-kube-controller-manager-image", ONE_PROCESS),
    ("karmada-kube-controller-manager-replicas", ONE_PROCESS),
    ("karmada-kube-controller-manager-priority-class", ONE_PROCESS),
    ("karmada-kube-controller-manager-extra-args", ONE_PROCESS),
    ("karmada-controller-manager-image", ONE_PROCESS),
    ("karmada-controller-manager-replicas", ONE_PROCESS),
    ("karmada-controller-manager-priority-class", ONE_PROCESS),
    ("karmada-controller-manager-extra-args", ONE_PROCESS),
    ("karmada-scheduler-image", ONE_PROCESS),
    ("karmada-scheduler-replicas", ONE_PROCESS),
    ("karmada-scheduler-priority-class", ONE_PROCESS),
    ("karmada-scheduler-extra-args", ONE_PROCESS),
    ("karmada-webhook-image", ONE_PROCESS),
    ("karmada-webhook-replicas", ONE_PROCESS),
    ("karmada-webhook-priority-class", ONE_PROCESS),
    ("karmada-webhook-extra-args", ONE_PROCESS),
];

/// The flags that were given.
#[derive(Clone, Debug, Default)]
pub struct RefusedFlags(Vec<(&'static str, &'static str)>);

impl RefusedFlags {
    pub fn check(&self) -> anyhow::Result<()> {
        if let Some((flag, reason)) = self.0.first() {
            bail!("--{flag}: {reason}");
        }
        Ok(())
    }
}

impl Args for RefusedFlags {
    fn augment_args(command: Command) -> Command {
        let refused = |name: &'static str| Arg::new(name).long(name).hide(true).num_args(0..=1).value_name("VALUE");
        REFUSED.iter().fold(command, |command, (name, _)| command.arg(refused(name).allow_hyphen_values(true)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RefusedFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |(name, _): &&(&str, &str)| matches.value_source(name) == Some(ValueSource::CommandLine);
        Ok(Self(REFUSED.iter().filter(is_given).copied().collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the reason why a field of KarmadaInitConfig has no meaning here.
pub fn reason_of_field(path: &str) -> Option<&'static str> {
    const FIELDS: &[(&str, &str)] = &[
        ("spec.certificates.validityPeriod", "certificates are renewed automatically"),
        ("spec.etcd.local.", OWN_STORAGE),
        ("spec.hostCluster.apiEndpoint", "the address of the host cluster is in its kubeconfig"),
        ("spec.hostCluster.secretRef", "the credentials of the host cluster are in its kubeconfig"),
        ("spec.images.kubeImage", NO_KUBE_IMAGES),
        ("spec.components.karmadaAPIServer.", "set it in the values of the Helm chart"),
        ("spec.components.", ONE_PROCESS),
        ("spec.karmadaCRDs", "the control plane serves Karmada's API without CustomResourceDefinitions"),
        ("spec.karmadaPKIPath", "keys stay in the storage of the control plane"),
    ];
    FIELDS.iter().find(|(prefix, _)| path.starts_with(prefix)).map(|(_, reason)| *reason)
}
