//! Keeps the agent's certificate from running out: asks the plane for the next one in time, stores it, and goes on with it.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
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
use object::{Object, Status, yaml};
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
/// Who is not in it is no agent: the plane approves only requests of its members.
pub const GROUP: &str = "system:karmada:agents";
/// A suspended machine, or another replica that renewed, is noticed after this long.
const LOOK_EVERY: Duration = Duration::from_secs(3600);
const RETRY: Backoff = Backoff { base: Duration::from_secs(5), max: Duration::from_secs(600) };
/// How long a request waits for its approval before another is made.
const ISSUE_PATIENCE: Duration = Duration::from_secs(300);
const ISSUE_POLL: Duration = Duration::from_secs(1);
/// The least a plane can be asked for.
const LIFE_SECONDS_MIN: i32 = 600;
/// The part of its life over which the renewals of many agents are spread.
const SPREAD: u32 = 15;

/// Where the agent has its way to the plane from.
#[derive(Clone, Debug)]
pub struct Kept {
    pub kubeconfig: PathBuf,
    pub context: Option<String>,
    /// Of the secret in the member which the file comes from, for when the file cannot be written. The key in it is
    /// the name of the file.
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
    #[error("the request {0} was refused: {1}")]
    Refused(String, String),
    #[error("the request {0} was not answered within {ISSUE_PATIENCE:?}")]
    NotIssued(String),
    #[error("{0}")]
    Unusable(&'static str),
    #[error("{}: {file}; nor could the secret: {secret}", path.display())]
    NotStored { path: PathBuf, file: std::io::Error, secret: Box<RenewalError> },
}

/// What renews one agent's certificate.
pub struct Renewal {
    pub plane: ClusterClient,
    pub member: ClusterClient,
    pub cluster: String,
    pub kept: Kept,
    pub clock: Arc<dyn Clock>,
}

/// A certificate with its key, in PEM.
struct Held {
    facts: Certificate,
    certificate: Vec<u8>,
    key: Vec<u8>,
    /// Moves the renewal a little, so that agents made together do not come back together.
    spread: Duration,
    is_stored: bool,
}

/// How long until a certificate is due: two thirds of its life. One that is not valid yet is due at once, or a clock
/// that was set back would make it last.
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

/// Renews until cancelled. Ends at once where there is no certificate of an agent.
pub async fn keep(renewal: Renewal, cancel: CancellationToken) {
    let mut held = match renewal.start() {
        Ok(Some(held)) => held,
        Ok(None) => return,
        Err(error) => {
            tracing::warn!(%error, "the agent's certificate cannot be read and will not be renewed");
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
                    tracing::warn!(%error, %ends, "the agent's certificate could not be renewed; trying again");
                    RETRY.jittered(failures)
                }
            },
        };
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(wait.min(LOOK_EVERY)) => {}
        }
    }
}

impl Renewal {
    fn start(&self) -> Result<Option<Held>, RenewalError> {
        let Some(held) = self.kept.read()? else { return Ok(None) };
        if !held.facts.subject().organizations.iter().any(|group| group == GROUP) {
            let ends = held.facts.not_after();
            tracing::info!(%ends, "the certificate in use is not one of an agent: it is not renewed");
            return Ok(None);
        }
        // Another replica may have renewed since this process began.
        self.plane.use_certificate(&held.certificate, &held.key)?;
        Ok(Some(held))
    }

    /// Does what is due, and says when to look again.
    async fn step(&self, held: &mut Held) -> Result<Duration, RenewalError> {
        if held.is_stored
            && let Ok(Some(found)) = self.kept.read()
            && found.facts.not_after() > held.facts.not_after()
        {
            self.plane.use_certificate(&found.certificate, &found.key)?;
            *held = found;
        }
        if held.due(self.clock.now()).is_zero() {
            let fresh = self.request(held).await?;
            self.plane.use_certificate(&fresh.certificate, &fresh.key)?;
            tracing::info!(ends = %fresh.facts.not_after(), "the agent has a new certificate");
            *held = fresh;
        }
        if !held.is_stored {
            self.store(held).await?;
            held.is_stored = true;
        }
        Ok(held.due(self.clock.now()))
    }

    async fn request(&self, held: &Held) -> Result<Held, RenewalError> {
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
            return Err(RenewalError::Unusable("the plane issued a certificate that was not asked for"));
        }
        if facts.not_after() <= held.facts.not_after() {
            return Err(RenewalError::Unusable("the plane issued a certificate that ends no later than the old one"));
        }
        Ok(Held::new(facts, certificate, key.to_pem().into_bytes(), false))
    }

    async fn issued(&self, name: String) -> Result<Vec<u8>, RenewalError> {
        let deadline = Instant::now() + ISSUE_PATIENCE;
        loop {
            let request = self.plane.get(ResourceRef::cluster(&REQUESTS.gvr(), &name)).await?;
            let signed = request.str_at(&["status", "certificate"]);
            if !signed.is_empty() {
                return STANDARD.decode(signed).map_err(|_| RenewalError::Unusable("the certificate is not base64"));
            }
            if let Some(end) = request.items(&["status", "conditions"]).iter().find(|c| c["type"] != "Approved") {
                let why = end["message"].as_str().unwrap_or_default().to_owned();
                return Err(RenewalError::Refused(name, why));
            }
            if Instant::now() >= deadline {
                return Err(RenewalError::NotIssued(name));
            }
            tokio::time::sleep(ISSUE_POLL).await;
        }
    }

    /// Into the file the agent was started with; where that is a mounted secret, into the secret.
    async fn store(&self, held: &Held) -> Result<(), RenewalError> {
        let path = &self.kept.kubeconfig;
        let Err(file) = self.kept.write(held)? else { return Ok(()) };
        match self.store_in_secret(held).await {
            Ok(()) => Ok(()),
            Err(error) => Err(RenewalError::NotStored { path: path.clone(), file, secret: Box::new(error) }),
        }
    }

    async fn store_in_secret(&self, held: &Held) -> Result<(), RenewalError> {
        let file = self.kept.kubeconfig.file_name().and_then(|name| name.to_str());
        let key = file.ok_or(RenewalError::Unusable("the kubeconfig has no file name"))?;
        let target = ResourceRef::namespaced(&SECRETS.gvr(), &self.kept.namespace, &self.kept.secret);
        let secret = self.member.get(target.clone()).await?;
        let text = kubeconfig_in(&secret, key).ok_or(RenewalError::Unusable("the secret holds no kubeconfig"))?;
        let text = with_certificate(&text, self.kept.context.as_deref(), held)?;
        let patch = json!({
            "metadata": {"resourceVersion": secret.resource_version()},
            "data": {key: STANDARD.encode(text)},
        });
        self.member.patch(target, Patch::merge(patch), WriteOptions::managed_by(FIELD_MANAGER)).await?;
        Ok(())
    }
}

impl Held {
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

impl Kept {
    fn certificate(&self) -> Result<Option<ClientCertificate>, RenewalError> {
        let kubeconfig = Kubeconfig::load(std::slice::from_ref(&self.kubeconfig))?;
        Ok(kubeconfig.remote(self.context.as_deref())?.credentials.client_certificate)
    }

    fn read(&self) -> Result<Option<Held>, RenewalError> {
        let Some(pair) = self.certificate()? else { return Ok(None) };
        let (certificate, key) = (pair.certificate.read()?, pair.key.read()?);
        Ok(Some(Held::new(Certificate::from_pem(&certificate)?, certificate, key, true)))
    }

    /// The inner result says whether the files could be written.
    fn write(&self, held: &Held) -> Result<std::io::Result<()>, RenewalError> {
        if let Some(ClientCertificate { certificate: Pem::File(certificate), key: Pem::File(key) }) =
            self.certificate()?
        {
            // Readers that come between the two find a pair that does not fit, and stay with what they have.
            return Ok(replace(&key, &held.key).and_then(|()| replace(&certificate, &held.certificate)));
        }
        let text = std::fs::read_to_string(&self.kubeconfig)?;
        let text = with_certificate(&text, self.context.as_deref(), held)?;
        Ok(replace(&self.kubeconfig, text.as_bytes()))
    }
}

/// In one step, and never readable by others.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let path = path.canonicalize()?;
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    let beside = path.with_file_name(name);
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&beside, &path)
}

fn kubeconfig_in(secret: &Object, key: &str) -> Option<String> {
    let encoded = secret.get(&["data", key])?.as_str()?;
    String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
}

/// The kubeconfig with the certificate of its context's user replaced, and all else as it was.
fn with_certificate(text: &str, context: Option<&str>, held: &Held) -> Result<String, RenewalError> {
    let unusable = || RenewalError::Unusable("the kubeconfig has no user to renew the certificate of");
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

/// A request for a certificate to call the control plane with.
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
