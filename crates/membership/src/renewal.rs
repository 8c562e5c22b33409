//! Renewal of the agent's certificate: requests a new one before it expires, stores it, and uses it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::Resource;
use api::cluster::LABEL_SYSTEM;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::remote::config::{ClientCertificate, Pem};
use cluster_client::{ClusterClient, Kubeconfig, KubeconfigError, Patch, ResourceRef, WriteOptions};
use jiff::Timestamp;
use object::{Object, Status, conditions, yaml};
use pki::certificate::Certificate;
use pki::csr::create_csr;
use pki::error::PkiError;
use pki::key::PrivateKey;
use pki::subject::AlternativeNames;
use reconcile::Clock;
use reconcile::backoff::{Backoff, jittered};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::credentials::SECRETS;
use crate::registration::FIELD_MANAGER;

pub const REQUESTS: Resource =
    Resource::cluster("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests");
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Group of all agents: the control plane approves only requests of its members.
pub const GROUP: &str = "system:karmada:agents";
/// Interval for checking the certificate, to notice a suspended machine or a renewal by another replica.
const CHECK_INTERVAL: Duration = Duration::from_secs(3600);
const RETRY: Backoff = Backoff { base: Duration::from_secs(5), max: Duration::from_secs(600) };
/// Timeout for the approval of a request; then a new one is created.
const ISSUE_TIMEOUT: Duration = Duration::from_secs(300);
const ISSUE_POLL: Duration = Duration::from_secs(1);
/// Minimum lifetime that can be requested.
const LIFE_SECONDS_MIN: i32 = 600;
/// Fraction of the lifetime (1/N) over which the renewals of many agents are spread.
const SPREAD: u32 = 15;

/// The agent's kubeconfig for the control plane, where its certificate is stored.
#[derive(Clone, Debug)]
pub struct AgentKubeconfig {
    pub path: PathBuf,
    pub context: Option<String>,
    /// Namespace of the secret in the member that the file is mounted from, used when the file cannot be written. The
    /// key in it is the name of the file.
    pub namespace: String,
    pub secret: String,
}

#[derive(Debug, thiserror::Error)]
pub enum RenewalError {
    #[error("{0}")]
    Api(#[from] Status),
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error("cannot read the certificate")]
    Read(#[from] std::io::Error),
    #[error("the certificate request {0} was denied: {1}")]
    Denied(String, String),
    #[error("the certificate request {0} was not answered within {ISSUE_TIMEOUT:?}")]
    NotIssued(String),
    #[error("{0}")]
    Unusable(&'static str),
    #[error("cannot write {}: {file}, nor the secret: {secret}", path.display())]
    NotStored { path: PathBuf, file: std::io::Error, secret: Box<RenewalError> },
}

/// Renews the certificate of one agent.
pub struct Renewal {
    pub plane: ClusterClient,
    pub member: ClusterClient,
    pub cluster: String,
    pub kubeconfig: AgentKubeconfig,
    pub clock: Arc<dyn Clock>,
}

/// A certificate with its key, in PEM.
struct HeldCertificate {
    facts: Certificate,
    certificate: Vec<u8>,
    key: Vec<u8>,
    /// Shifts the renewal, so that agents created together do not renew together.
    spread: Duration,
    is_stored: bool,
}

/// Returns the time until a certificate is due: two thirds of its lifetime. One that is not valid yet is due at once, so
/// that a clock that was set back does not extend it.
pub fn when(not_before: Timestamp, not_after: Timestamp, now: Timestamp) -> Duration {
    if now < not_before {
        return Duration::ZERO;
    }
    let life = life(not_before, not_after);
    (life - life / 3).saturating_sub(now.duration_since(not_before).unsigned_abs())
}

fn life(not_before: Timestamp, not_after: Timestamp) -> Duration {
    Duration::try_from(not_after.duration_since(not_before)).unwrap_or_default()
}

/// Renews until cancelled. Returns at once when the kubeconfig has no certificate of an agent.
pub async fn keep(renewal: Renewal, cancel: CancellationToken) {
    let mut held = match renewal.start() {
        Ok(Some(held)) => held,
        Ok(None) => return,
        Err(error) => {
            tracing::warn!(%error, "cannot read the agent's certificate; it will not be renewed");
            return;
        }
    };
    let mut failures = 0;
    loop {
        let wait = tokio::select! {
            () = cancel.cancelled() => return,
            step = renewal.step(&mut held) => match step {
                Ok(wait) => {
                    failures = 0;
                    wait
                }
                Err(error) => {
                    failures += 1;
                    let ends = held.facts.not_after();
                    tracing::warn!(%error, %ends, "cannot renew the agent's certificate, will retry");
                    RETRY.jittered(failures)
                }
            },
        };
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(wait.min(CHECK_INTERVAL)) => {}
        }
    }
}

impl Renewal {
    fn start(&self) -> Result<Option<HeldCertificate>, RenewalError> {
        let Some(held) = self.kubeconfig.read()? else { return Ok(None) };
        if !held.facts.subject().organizations.iter().any(|group| group == GROUP) {
            let ends = held.facts.not_after();
            tracing::info!(%ends, "the certificate is not an agent's certificate and will not be renewed");
            return Ok(None);
        }
        // Another replica may have renewed it since this process started.
        self.plane.use_certificate(&held.certificate, &held.key)?;
        Ok(Some(held))
    }

    /// Does what is due, and returns the time until the next check.
    async fn step(&self, held: &mut HeldCertificate) -> Result<Duration, RenewalError> {
        if held.is_stored
            && let Ok(Some(found)) = self.kubeconfig.read()
            && found.facts.not_after() > held.facts.not_after()
        {
            self.plane.use_certificate(&found.certificate, &found.key)?;
            *held = found;
        }
        if held.due(self.clock.now()).is_zero() {
            let fresh = self.request(held).await?;
            self.plane.use_certificate(&fresh.certificate, &fresh.key)?;
            tracing::info!(ends = %fresh.facts.not_after(), "renewed the agent's certificate");
            *held = fresh;
        }
        if !held.is_stored {
            self.store(held).await?;
            held.is_stored = true;
        }
        Ok(held.due(self.clock.now()))
    }

    async fn request(&self, held: &HeldCertificate) -> Result<HeldCertificate, RenewalError> {
        let key = PrivateKey::generate()?;
        let subject = held.facts.subject();
        let text = create_csr(&key, subject, &AlternativeNames::default())?;
        let name = format!("{}-{:x}", self.cluster, self.clock.now().as_nanosecond());
        let seconds = life(held.facts.not_before(), held.facts.not_after()).as_secs();
        let seconds = i32::try_from(seconds).unwrap_or(i32::MAX).max(LIFE_SECONDS_MIN);
        let request = signing_request(&name, &text, seconds);
        let options = WriteOptions::managed_by(FIELD_MANAGER);
        self.plane.create(ResourceRef::all(&REQUESTS.gvr()), request, options).await?;
        let certificate = self.issued(name).await?;
        let facts = Certificate::from_pem(&certificate)?;
        if !facts.belongs_to(&key) || facts.subject().common_name != subject.common_name {
            return Err(RenewalError::Unusable(
                "the control plane issued a certificate that does not match the request",
            ));
        }
        if facts.not_after() <= held.facts.not_after() {
            return Err(RenewalError::Unusable(
                "the control plane issued a certificate that expires no later than the old one",
            ));
        }
        Ok(HeldCertificate::new(facts, certificate, key.to_pem().into_bytes(), false))
    }

    async fn issued(&self, name: String) -> Result<Vec<u8>, RenewalError> {
        let deadline = Instant::now() + ISSUE_TIMEOUT;
        loop {
            let request = self.plane.get(ResourceRef::cluster(&REQUESTS.gvr(), &name)).await?;
            let signed = request.str_at(&["status", "certificate"]);
            if !signed.is_empty() {
                return STANDARD.decode(signed).map_err(|_| RenewalError::Unusable("the certificate is not base64"));
            }
            if let Some(end) = conditions::all(&request).find(|condition| condition.kind() != "Approved") {
                return Err(RenewalError::Denied(name, end.message().to_owned()));
            }
            if Instant::now() >= deadline {
                return Err(RenewalError::NotIssued(name));
            }
            tokio::time::sleep(ISSUE_POLL).await;
        }
    }

    /// Stores the certificate in the agent's kubeconfig file, or, when that is a mounted secret, in the secret.
    async fn store(&self, held: &HeldCertificate) -> Result<(), RenewalError> {
        let path = &self.kubeconfig.path;
        let Err(file) = self.kubeconfig.write(held)? else { return Ok(()) };
        match self.store_in_secret(held).await {
            Ok(()) => Ok(()),
            Err(error) => Err(RenewalError::NotStored { path: path.clone(), file, secret: Box::new(error) }),
        }
    }

    async fn store_in_secret(&self, held: &HeldCertificate) -> Result<(), RenewalError> {
        let file = self.kubeconfig.path.file_name().and_then(|name| name.to_str());
        let key = file.ok_or(RenewalError::Unusable("the kubeconfig has no file name"))?;
        let target = ResourceRef::namespaced(&SECRETS.gvr(), &self.kubeconfig.namespace, &self.kubeconfig.secret);
        let secret = self.member.get(target.clone()).await?;
        let text = kubeconfig_in(&secret, key).ok_or(RenewalError::Unusable("the secret holds no kubeconfig"))?;
        let text = with_certificate(&text, self.kubeconfig.context.as_deref(), held)?;
        let patch = json!({
            "metadata": {"resourceVersion": secret.resource_version()},
            "data": {key: STANDARD.encode(text)},
        });
        self.member.patch(target, Patch::merge(patch), WriteOptions::managed_by(FIELD_MANAGER)).await?;
        Ok(())
    }
}

impl HeldCertificate {
    fn new(facts: Certificate, certificate: Vec<u8>, key: Vec<u8>, is_stored: bool) -> Self {
        let part = life(facts.not_before(), facts.not_after()) / SPREAD;
        let spread = jittered(part, 1.0).saturating_sub(part);
        Self { facts, certificate, key, spread, is_stored }
    }

    fn due(&self, now: Timestamp) -> Duration {
        let at = now.checked_sub(self.spread).unwrap_or(now).max(self.facts.not_before().min(now));
        when(self.facts.not_before(), self.facts.not_after(), at)
    }
}

impl AgentKubeconfig {
    fn certificate(&self) -> Result<Option<ClientCertificate>, RenewalError> {
        let kubeconfig = Kubeconfig::load(std::slice::from_ref(&self.path))?;
        Ok(kubeconfig.remote(self.context.as_deref())?.credentials.client_certificate)
    }

    fn read(&self) -> Result<Option<HeldCertificate>, RenewalError> {
        let Some(pair) = self.certificate()? else { return Ok(None) };
        let (certificate, key) = (pair.certificate.read()?, pair.key.read()?);
        Ok(Some(HeldCertificate::new(Certificate::from_pem(&certificate)?, certificate, key, true)))
    }

    /// Writes the certificate; the inner result is that of the file operations.
    fn write(&self, held: &HeldCertificate) -> Result<std::io::Result<()>, RenewalError> {
        if let Some(ClientCertificate { certificate: Pem::File(certificate), key: Pem::File(key) }) =
            self.certificate()?
        {
            // A reader between the two writes finds a pair that does not match, and keeps the one it has.
            return Ok(replace(&key, &held.key).and_then(|()| replace(&certificate, &held.certificate)));
        }
        let text = std::fs::read_to_string(&self.path)?;
        let text = with_certificate(&text, self.context.as_deref(), held)?;
        Ok(replace(&self.path, text.as_bytes()))
    }
}

/// Replaces the file atomically, readable by its owner only.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A link to the file stays a link.
    atomic_file::replace(&path.canonicalize()?, bytes, 0o600)
}

fn kubeconfig_in(secret: &Object, key: &str) -> Option<String> {
    let encoded = secret.get(&["data", key])?.as_str()?;
    String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
}

/// Replaces the certificate of the context's user in a kubeconfig, and keeps everything else.
fn with_certificate(text: &str, context: Option<&str>, held: &HeldCertificate) -> Result<String, RenewalError> {
    let unusable = || RenewalError::Unusable("the kubeconfig has no user with a certificate");
    let mut config: Value = serde_saphyr::from_str(text).map_err(|_| unusable())?;
    let context = context.or_else(|| config["current-context"].as_str()).ok_or_else(unusable)?;
    let contexts = config["contexts"].as_array().ok_or_else(unusable)?;
    let context = contexts.iter().find(|c| c["name"] == context).ok_or_else(unusable)?;
    let name = context["context"]["user"].clone();
    let users = config["users"].as_array_mut().ok_or_else(unusable)?;
    let user = users.iter_mut().find(|user| user["name"] == name).ok_or_else(unusable)?;
    let user = user["user"].as_object_mut().ok_or_else(unusable)?;
    user.remove("client-certificate");
    user.remove("client-key");
    user.insert("client-certificate-data".into(), STANDARD.encode(&held.certificate).into());
    user.insert("client-key-data".into(), STANDARD.encode(&held.key).into());
    Ok(yaml::to_string(&config))
}

/// Builds a request for a client certificate of the control plane.
pub fn signing_request(name: &str, csr: &str, seconds: i32) -> Object {
    let mut request = REQUESTS.object("", name);
    request.set_label(LABEL_SYSTEM, "true");
    request.set(
        &["spec"],
        json!({
            "request": STANDARD.encode(csr),
            "signerName": SIGNER,
            "expirationSeconds": seconds,
            "usages": ["digital signature", "key encipherment", "client auth"],
        }),
    );
    request
}

#[cfg(test)]
mod tests;
