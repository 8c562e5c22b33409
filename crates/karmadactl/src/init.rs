//! `init`: installs the control plane in a host cluster, with the flags of karmadactl.

mod config;
pub mod hosting;
mod keys_at_rest;
mod refused;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use api::names::SYSTEM_NAMESPACE;
use clap::Args;
use cluster_client::{ClusterClient, Endpoint};
use membership::agent_manifests::{IMAGE, LOCAL_IMAGE};
use membership::plane_manifests::{EtcdTls, ExternalEtcd, KeyPair, PlaneInstallation, PlaneStorage};
use object::yaml;

use crate::console::Console;
use crate::init::refused::RefusedFlags;
use crate::plane::open_kubeconfig;

/// Install the Karmada control plane in a Kubernetes cluster.
///
/// The control plane runs as one pod with its own storage, or as several on an external etcd. Its kubeconfig is written to
/// --karmada-data, and to the Secret karmada-kubeconfig in the host cluster. Running it again updates the installation.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Examples:
  # Install the control plane in the cluster of the current context
  flotilla init --karmada-data ~/karmada

  # With an image from a private registry, and data in volumes of a storage class
  flotilla init --private-image-registry registry.example.net --etcd-storage-mode PVC --storage-classes-name fast

  # Three replicas on an existing etcd
  flotilla init --karmada-apiserver-replicas 3 --external-etcd-servers https://10.0.0.1:2379,https://10.0.0.2:2379 \\
    --external-etcd-ca-cert-path ca.crt --external-etcd-client-cert-path tls.crt --external-etcd-client-key-path tls.key

  # Print the manifests instead of applying them
  flotilla init --print-manifest-only > control-plane.yaml

Flags of karmadactl for components that do not exist here are refused with the reason.")]
pub struct InitArgs {
    /// Kubeconfig of the host cluster [default: $KUBECONFIG, then ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context in it [default: its current context]
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// Namespace to install into
    #[arg(short, long, default_value = SYSTEM_NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// File of kind KarmadaInitConfig; its values take precedence over flags
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// DNS domain of the host cluster
    #[arg(long, default_value = "cluster.local", value_name = "DOMAIN")]
    host_cluster_domain: String,
    /// Image of the control plane
    #[arg(long, default_value = IMAGE, value_name = "IMAGE")]
    karmada_apiserver_image: String,
    /// Registry put before the default image
    #[arg(long, value_name = "REGISTRY")]
    private_image_registry: Option<String>,
    /// When to pull the image: Always, Never or IfNotPresent
    #[arg(long, default_value = "IfNotPresent", value_parser = ["Always", "Never", "IfNotPresent"], value_name = "POLICY")]
    image_pull_policy: String,
    /// Secrets for pulling the image
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    image_pull_secrets: Vec<String>,
    /// Number of servers; more than one requires --external-etcd-servers
    #[arg(long, default_value_t = 1, value_name = "N")]
    karmada_apiserver_replicas: u32,
    /// Address at which clients reach the nodes [default: that of a control-plane node]
    #[arg(long, value_name = "ADDRESS")]
    karmada_apiserver_advertise_address: Option<String>,
    /// Priority class of the pods
    #[arg(long, value_name = "NAME")]
    karmada_apiserver_priority_class: Option<String>,
    /// Additional flags of `flotilla server`, as --flag=value
    #[arg(long, value_name = "FLAG,...", allow_hyphen_values = true)]
    karmada_apiserver_extra_args: Vec<String>,
    /// Port on the nodes
    #[arg(short, long, default_value_t = 32443, value_name = "PORT")]
    port: u16,
    /// Directory for the kubeconfig karmada-apiserver.config; other files in it are kept
    #[arg(short = 'd', long, default_value = "/etc/karmada", value_name = "DIR")]
    karmada_data: PathBuf,
    /// Additional addresses in the certificate
    #[arg(long, value_delimiter = ',', value_name = "IP,...")]
    cert_external_ip: Vec<String>,
    /// Additional names in the certificate
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    cert_external_dns: Vec<String>,
    /// CA certificate to use instead of a new one
    #[arg(long, value_name = "FILE", requires = "ca_key_file")]
    ca_cert_file: Option<PathBuf>,
    /// Key of that CA
    #[arg(long, value_name = "FILE", requires = "ca_cert_file")]
    ca_key_file: Option<PathBuf>,
    /// Storage of the data: hostPath (a directory of the node), PVC or emptyDir
    #[arg(long, default_value = "hostPath", value_parser = ["hostPath", "PVC", "emptyDir"], value_name = "MODE")]
    etcd_storage_mode: String,
    /// Directory of the node, with storage mode hostPath
    #[arg(long, default_value = "/var/lib/karmada-etcd", value_name = "DIR")]
    etcd_data: String,
    /// Size of the volume, with storage mode PVC
    #[arg(long, default_value = "5Gi", value_name = "SIZE")]
    etcd_pvc_size: String,
    /// Storage class, with storage mode PVC [default: the cluster's]
    #[arg(long, value_name = "NAME")]
    storage_classes_name: Option<String>,
    /// Labels of the nodes that may run the control plane
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE,...")]
    etcd_node_selector_labels: Vec<String>,
    /// Endpoints of an external etcd
    #[arg(long, value_delimiter = ',', value_name = "URL,...")]
    external_etcd_servers: Vec<String>,
    /// CA certificate of the external etcd
    #[arg(long, value_name = "FILE", requires = "external_etcd_client_cert_path")]
    external_etcd_ca_cert_path: Option<PathBuf>,
    /// Client certificate for the external etcd
    #[arg(long, value_name = "FILE", requires = "external_etcd_client_key_path")]
    external_etcd_client_cert_path: Option<PathBuf>,
    /// Key of that certificate
    #[arg(long, value_name = "FILE", requires = "external_etcd_ca_cert_path")]
    external_etcd_client_key_path: Option<PathBuf>,
    /// Prefix of all keys in the external etcd
    #[arg(long, default_value = "/registry", value_name = "PREFIX")]
    external_etcd_key_prefix: String,
    /// Maximum time to wait for the control plane, in seconds; 0 waits without a limit
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    wait_component_ready_timeout: u64,
    /// Print the manifests instead of applying them
    #[arg(long)]
    print_manifest_only: bool,
    #[command(flatten)]
    refused: RefusedFlags,
}

pub async fn run(console: &Console, args: InitArgs) -> anyhow::Result<()> {
    args.refused.check()?;
    let mut args = args;
    if let Some(path) = args.config.clone() {
        config::read(&mut args, &path)?;
    }
    let mut installation = args.installation()?;
    if args.print_manifest_only {
        installation.encryption = keys_at_rest::for_new(&installation)?;
        for object in installation.objects() {
            console.print(&format!("---\n{}", yaml::to_string(&object.into_value())))?;
        }
        return Ok(());
    }
    let (_, remote) = open_kubeconfig(args.kubeconfig.as_deref(), args.context.as_deref())
        .context("cannot use the kubeconfig of the host cluster (--kubeconfig)")?;
    let host = ClusterClient::connect(Endpoint::Remote(remote))?;
    installation.encryption = keys_at_rest::of(console, &host, &installation).await?;
    hosting::install(console, &host, &args, installation).await
}

impl InitArgs {
    fn installation(&self) -> anyhow::Result<PlaneInstallation> {
        let names = self.cert_external_ip.iter().chain(&self.cert_external_dns);
        let names = names.chain(&self.karmada_apiserver_advertise_address).filter(|name| !name.is_empty());
        Ok(PlaneInstallation {
            namespace: self.namespace.clone(),
            image: self.image(),
            image_pull_policy: self.image_pull_policy.clone(),
            image_pull_secrets: self.image_pull_secrets.clone(),
            storage: self.storage()?,
            node_port: Some(self.port),
            host_port: None,
            advertise_url: None,
            domain: self.host_cluster_domain.clone(),
            tls_names: names.cloned().collect(),
            authority: key_pair(self.ca_cert_file.as_deref(), self.ca_key_file.as_deref())?,
            encryption: None,
            priority_class: self.karmada_apiserver_priority_class.clone().filter(|name| !name.is_empty()),
            node_selector: selector(&self.etcd_node_selector_labels)?,
            arguments: extra_arguments(&self.karmada_apiserver_extra_args)?,
        })
    }

    /// The registry replaces that of the default image only, as in karmadactl.
    fn image(&self) -> String {
        match self.private_image_registry.as_deref().filter(|registry| !registry.is_empty()) {
            Some(registry) if self.karmada_apiserver_image == IMAGE => {
                format!("{}/{LOCAL_IMAGE}", registry.trim_end_matches('/'))
            }
            _ => self.karmada_apiserver_image.clone(),
        }
    }

    fn storage(&self) -> anyhow::Result<PlaneStorage> {
        if !self.external_etcd_servers.is_empty() {
            let client = key_pair(
                self.external_etcd_client_cert_path.as_deref(),
                self.external_etcd_client_key_path.as_deref(),
            )?;
            let authority = self.external_etcd_ca_cert_path.as_deref().map(text_of).transpose()?;
            return Ok(PlaneStorage::Etcd(ExternalEtcd {
                servers: self.external_etcd_servers.clone(),
                prefix: self.external_etcd_key_prefix.clone(),
                tls: client.zip(authority).map(|(client, authority)| EtcdTls { authority, client }),
                replicas: self.karmada_apiserver_replicas,
            }));
        }
        if self.karmada_apiserver_replicas != 1 {
            bail!(
                "--karmada-apiserver-replicas {}: several servers need an etcd that they share; name one with \
                 --external-etcd-servers, or use the Helm chart, which can install one",
                self.karmada_apiserver_replicas
            );
        }
        let class = self.storage_classes_name.clone().filter(|class| !class.is_empty());
        Ok(match self.etcd_storage_mode.as_str() {
            "hostPath" => PlaneStorage::HostPath(self.etcd_data.clone()),
            "PVC" => PlaneStorage::Claim { class, size: self.etcd_pvc_size.clone() },
            _ => PlaneStorage::EmptyDir,
        })
    }
}

fn text_of(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn key_pair(certificate: Option<&Path>, key: Option<&Path>) -> anyhow::Result<Option<KeyPair>> {
    let (Some(certificate), Some(key)) = (certificate, key) else { return Ok(None) };
    Ok(Some(KeyPair { certificate: text_of(certificate)?, key: text_of(key)? }))
}

fn selector(labels: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let pair = |label: &String| {
        let (key, value) = label
            .split_once('=')
            .with_context(|| format!("--etcd-node-selector-labels: {label:?} must be KEY=VALUE"))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    labels.iter().filter(|label| !label.is_empty()).map(pair).collect()
}

/// Splits lists of flags at commas; a part that is not a flag belongs to the value before it, as in karmadactl.
fn extra_arguments(given: &[String]) -> anyhow::Result<Vec<String>> {
    let mut arguments: Vec<String> = Vec::new();
    for part in given.iter().flat_map(|list| list.split(',')) {
        match arguments.last_mut() {
            _ if part.starts_with("--") => arguments.push(part.to_owned()),
            Some(last) => *last = format!("{last},{part}"),
            None => bail!("--karmada-apiserver-extra-args: {part:?} must be a flag, such as --event-ttl=60"),
        }
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests;
