//! The `Authorization` header and the client certificate of each request, reloaded when they change.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::remote::config::{ClientCertificate, Credentials, Pem};
use crate::remote::exec::{ExecCredential, ExecError, ExecPlugin};
use crate::remote::tls::{ClientIdentity, TlsError};

/// Time before a token or certificate file is read again.
pub const FILE_RECHECK: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    #[error("cannot read a credential")]
    Read(#[source] std::io::Error),
    #[error("the credential cannot be sent in a header")]
    NotHeader,
    #[error(transparent)]
    Exec(#[from] ExecError),
    #[error(transparent)]
    Certificate(#[from] TlsError),
}

/// The authorization of a request.
pub struct Authorization {
    pub header: Option<HeaderValue>,
    /// The client certificate has changed: open connections still use the old one.
    pub is_new_certificate: bool,
}

/// The credentials of one client, with their cached values.
pub struct CredentialSource {
    token: Option<String>,
    token_file: Option<Mutex<TokenFile>>,
    basic: Option<String>,
    certificate_files: Option<Mutex<CertificateFiles>>,
    exec: Option<ExecSource>,
    identity: Arc<ClientIdentity>,
}

struct TokenFile {
    path: std::path::PathBuf,
    token: Option<String>,
    checked: Instant,
}

struct CertificateFiles {
    files: ClientCertificate,
    checked: Instant,
}

struct ExecSource {
    plugin: ExecPlugin,
    last: tokio::sync::Mutex<Option<ExecCredential>>,
}

impl CredentialSource {
    /// Reads certificates now, so that an invalid one fails at once.
    pub fn new(credentials: Credentials, identity: Arc<ClientIdentity>) -> Result<Self, CredentialError> {
        let now = Instant::now();
        if let Some(exec) = &credentials.exec {
            exec.check()?;
        }
        let certificate_files = match credentials.client_certificate {
            None => None,
            Some(files) => {
                load_certificate(&files, &identity)?;
                let from_file = matches!(files.certificate, Pem::File(_)) || matches!(files.key, Pem::File(_));
                from_file.then(|| Mutex::new(CertificateFiles { files, checked: now }))
            }
        };
        let basic = credentials.basic.map(|b| STANDARD.encode(format!("{}:{}", b.username, b.password)));
        let token_file = credentials.token_file.map(|path| Mutex::new(TokenFile { path, token: None, checked: now }));
        let exec = credentials.exec.map(|plugin| ExecSource { plugin, last: tokio::sync::Mutex::new(None) });
        Ok(Self { token: credentials.token, token_file, basic, certificate_files, exec, identity })
    }

    pub async fn authorization(&self) -> Result<Authorization, CredentialError> {
        self.recheck_certificate_files();
        let mut is_new_certificate = false;
        let mut token = self.token_from_file()?.or_else(|| self.token.clone());
        if let Some(exec) = &self.exec {
            let (credential, is_fresh) = exec.credential().await?;
            if let (true, Some((certificate, key))) = (is_fresh, &credential.certificate_and_key) {
                self.identity.set(certificate.as_bytes(), key.as_bytes())?;
                is_new_certificate = true;
            }
            // A fixed token takes precedence over the plugin's.
            token = token.or(credential.token);
        }
        let text = match (&token, &self.basic) {
            (Some(token), _) => Some(format!("Bearer {token}")),
            (None, Some(basic)) => Some(format!("Basic {basic}")),
            (None, None) => None,
        };
        let header = text.map(HeaderValue::try_from).transpose().map_err(|_| CredentialError::NotHeader)?;
        let header = header.map(|mut value| {
            value.set_sensitive(true);
            value
        });
        Ok(Authorization { header, is_new_certificate })
    }

    /// After a 401: returns true if a plugin can provide a new credential.
    pub async fn forget(&self) -> bool {
        match &self.exec {
            None => false,
            Some(exec) => exec.last.lock().await.take().is_some(),
        }
    }

    fn token_from_file(&self) -> Result<Option<String>, CredentialError> {
        let Some(file) = &self.token_file else { return Ok(None) };
        let mut file = file.lock();
        if file.token.is_some() && file.checked.elapsed() < FILE_RECHECK {
            return Ok(file.token.clone());
        }
        match (std::fs::read_to_string(&file.path), &self.token) {
            (Ok(text), _) if !text.trim().is_empty() => file.token = Some(text.trim().to_owned()),
            // The previous or the configured token is better than none.
            _ if file.token.is_some() || self.token.is_some() => {}
            (Ok(_), None) => {
                let text = format!("{} is empty", file.path.display());
                return Err(CredentialError::Read(std::io::Error::other(text)));
            }
            (Err(e), _) => {
                let text = format!("{}: {e}", file.path.display());
                return Err(CredentialError::Read(std::io::Error::new(e.kind(), text)));
            }
            (Ok(_), Some(_)) => {}
        }
        file.checked = Instant::now();
        Ok(file.token.clone())
    }

    /// New connections use the new pair; existing ones stay until they close, as in kubectl. If a file cannot be read
    /// now (half of a pair replaced), the current certificate stays in use.
    fn recheck_certificate_files(&self) {
        let Some(source) = &self.certificate_files else { return };
        let mut source = source.lock();
        if source.checked.elapsed() >= FILE_RECHECK {
            source.checked = Instant::now();
            if let Err(error) = load_certificate(&source.files, &self.identity) {
                tracing::warn!(%error, "the client certificate could not be read again; the old one stays in use");
            }
        }
    }
}

impl ExecSource {
    /// The credential, and whether the plugin has just been run. Concurrent callers wait for it.
    async fn credential(&self) -> Result<(ExecCredential, bool), CredentialError> {
        let mut last = self.last.lock().await;
        if let Some(credential) = last.as_ref().filter(|c| !c.is_expired(SystemTime::now())) {
            return Ok((credential.clone(), false));
        }
        let credential = self.plugin.run().await?;
        *last = Some(credential.clone());
        Ok((credential, true))
    }
}

fn load_certificate(files: &ClientCertificate, identity: &ClientIdentity) -> Result<(), CredentialError> {
    let certificate = files.certificate.read().map_err(CredentialError::Read)?;
    let key = files.key.read().map_err(CredentialError::Read)?;
    identity.set(&certificate, &key).map_err(CredentialError::Certificate)
}
