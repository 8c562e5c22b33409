//! The other replicas of this manager: managers on the same storage, which share its keys.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::remote::config::{ClientCertificate, Credentials, Pem};
use cluster_client::{ClusterClient, Endpoint, RemoteConfig};
use instances::replica::{OtherReplicas, ReplicaName};
use jiff::Timestamp;
use object::request::user::MASTERS_GROUP;
use parking_lot::Mutex;
use pki::authority::{CertificateAuthority, CertificateRequest};
use tokio::time::Instant;

/// Path for requests of other replicas to instances of this one; the UID of the instance and the path in it follow. Without
/// them it returns the name of the replica.
pub const INSTANCES_PATH: &str = "/flotilla/v1alpha1/replica-instances/";
/// The same for requests with a credential of the instance itself.
pub const CREDENTIALS_PATH: &str = "/flotilla/v1alpha1/replica-credentials/";
/// The user a replica connects to another as. No certificate can be requested for its group.
pub const REPLICA: &str = "system:flotilla:manager-replica";
/// A name in the serving certificate of every replica.
const SERVER_NAME: &str = "kubernetes.default.svc";
/// File with the name of this replica, in its data directory.
const NAME_FILE: &str = "replica-name";
const NAME_LENGTH: usize = 12;
/// Longest wait for the name of another replica.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Watches may last long after a connection was made.
const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(24 * 3600);
const CERTIFICATE_KEPT: Duration = Duration::from_secs(3600);

/// This replica and the keys that it shares with the others.
pub struct ManagerReplicas {
    pub own: ReplicaName,
    pub ca_pem: String,
    pub authority: Arc<CertificateAuthority>,
    /// The certificate of this replica for others, and when it was made.
    pub certificate: Mutex<Option<(Instant, ClientCertificate)>>,
}

/// Returns the name of the replica with a data directory. It moves with the data of its instances.
pub fn name_of(directory: &Path) -> anyhow::Result<String> {
    let file = directory.join(NAME_FILE);
    let cannot = || format!("cannot use {}", file.display());
    if !file.exists() {
        let name = pki::token::random_lowercase(NAME_LENGTH)?;
        pki::key_dir::write_if_absent(&file, name.as_bytes(), pki::key_dir::PUBLIC).with_context(cannot)?;
    }
    Ok(std::fs::read_to_string(&file).with_context(cannot)?.trim().to_owned())
}

impl ManagerReplicas {
    fn certificate(&self) -> Result<ClientCertificate, String> {
        let mut kept = self.certificate.lock();
        if let Some((_, certificate)) = kept.as_ref().filter(|(made, _)| made.elapsed() < CERTIFICATE_KEPT) {
            return Ok(certificate.clone());
        }
        let request = CertificateRequest {
            duration: CERTIFICATE_LIFETIME,
            ..CertificateRequest::client(REPLICA, &[MASTERS_GROUP.to_owned()])
        };
        let pair = self.authority.issue(&request, Timestamp::now()).map_err(|error| error.to_string())?;
        let certificate = Pem::Text(pair.certificate.to_pem().into_bytes());
        let made = ClientCertificate { certificate, key: Pem::Text(pair.key.to_pem().into_bytes()) };
        *kept = Some((Instant::now(), made.clone()));
        Ok(made)
    }

    /// Returns the connection to a path of another replica.
    fn connect(&self, other: &ReplicaName, path: &str) -> Result<RemoteConfig, String> {
        let mut config = RemoteConfig::new(format!("https://{}{}", other.address, path.trim_end_matches('/')));
        config.ca = Some(Pem::Text(self.ca_pem.clone().into_bytes()));
        config.tls_server_name = Some(SERVER_NAME.to_owned());
        config.credentials = Credentials { client_certificate: Some(self.certificate()?), ..Credentials::default() };
        // The clients behind it have limits of their own.
        config.rate_limit = None;
        Ok(config)
    }
}

#[async_trait]
impl OtherReplicas for ManagerReplicas {
    fn own(&self) -> &ReplicaName {
        &self.own
    }

    async fn answers(&self, other: &ReplicaName) -> bool {
        let asked = async {
            let client = ClusterClient::connect(Endpoint::Remote(self.connect(other, "").ok()?)).ok()?;
            let request = http::Request::get(INSTANCES_PATH).body(Bytes::new()).ok()?;
            client.raw(request).await.ok()
        };
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, asked).await.ok().flatten();
        answer.is_some_and(|answer| answer.status().is_success() && answer.body() == other.name.as_bytes())
    }

    fn connection(&self, other: &ReplicaName, uid: &str) -> Result<RemoteConfig, String> {
        self.connect(other, &format!("{INSTANCES_PATH}{uid}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_keeps_its_name() {
        let [a, b] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        let name = name_of(a.path()).expect("made");
        assert_eq!(name.len(), NAME_LENGTH);
        assert_eq!(name_of(a.path()).expect("read"), name);
        assert_ne!(name_of(b.path()).expect("made"), name);
    }
}
