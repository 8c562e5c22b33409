//! A cluster that joins or registers: how it is reached, and where it runs.

use std::path::Path;

use cluster_client::remote::config::Pem;
use cluster_client::{ClusterClient, Endpoint, Kubeconfig, RemoteConfig};

use crate::MembershipError;

/// A cluster as its kubeconfig describes it.
pub struct MemberAccess {
    pub client: ClusterClient,
    pub endpoint: String,
    pub insecure: bool,
    /// Proxy set in the kubeconfig itself; the proxy of this process's environment does not apply to the control plane.
    pub proxy: Option<String>,
    /// CA the kubeconfig trusts, in PEM.
    pub authority: Option<Vec<u8>>,
}

impl MemberAccess {
    pub fn new(remote: RemoteConfig, proxy: Option<&str>) -> Result<Self, MembershipError> {
        Ok(Self {
            endpoint: remote.server.clone(),
            insecure: remote.insecure_skip_tls_verify,
            proxy: proxy.map(str::to_owned),
            authority: remote.ca.as_ref().map(Pem::read).transpose().map_err(MembershipError::ReadAuthority)?,
            client: ClusterClient::connect(Endpoint::Remote(remote))?,
        })
    }
}

/// Reads a kubeconfig that comes from another machine: it must not name programs or files of this one.
pub fn read_kubeconfig(text: &str) -> Result<RemoteConfig, String> {
    let kubeconfig = Kubeconfig::parse(text, Path::new("/nonexistent")).map_err(|error| error.to_string())?;
    let remote = kubeconfig.remote(None).map_err(|error| error.to_string())?;
    let is_file = |pem: &Pem| matches!(pem, Pem::File(_));
    let credentials = &remote.credentials;
    let pair = credentials.client_certificate.as_ref();
    if credentials.exec.is_some()
        || credentials.token_file.is_some()
        || remote.ca.as_ref().is_some_and(is_file)
        || pair.is_some_and(|pair| is_file(&pair.certificate) || is_file(&pair.key))
    {
        return Err("the kubeconfig must contain its credentials: programs and files are not accepted".to_owned());
    }
    Ok(remote)
}

/// Provider, region and zones of a cluster, used to spread workloads. Empty when unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterLocation {
    pub provider: String,
    pub region: String,
    pub zones: Vec<String>,
}

impl ClusterLocation {
    /// The flags that pass this location to an agent.
    pub fn flags(&self) -> [String; 3] {
        [
            format!("--cluster-provider={}", self.provider),
            format!("--cluster-region={}", self.region),
            format!("--cluster-zones={}", self.zones.join(",")),
        ]
    }
}
