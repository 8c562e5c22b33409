//! Webhooks that identify and authorize callers, configured by a kubeconfig file as in kube-apiserver.
//!
//! Each call has a deadline, few run at a time, and answers are kept for a while, refusals included, so that a caller cannot
//! make the server ask without end.

mod access;
mod cached;
mod token;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use pki::tls::client::ReloadableClientCert;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::Semaphore;

use crate::outgoing::{self, Credentials, Destination, OutgoingError};

pub use access::{AccessWebhook, AccessWebhookSettings, ReviewVersion};
pub use token::TokenWebhook;

const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Calls that run at a time.
const CALLS_MAX: usize = 64;

/// The server behind a webhook.
#[derive(Clone)]
pub struct WebhookEndpoint {
    destination: Arc<Destination>,
    credentials: Arc<Credentials>,
    calls: Arc<Semaphore>,
}

#[derive(Debug, Error)]
pub enum EndpointError {
    #[error("the file is not a kubeconfig: {0}")]
    NotYaml(String),
    #[error("the file has no {0}")]
    Missing(&'static str),
    #[error("{field} cannot be read: {problem}")]
    Unreadable { field: String, problem: String },
    #[error("{0}")]
    Server(#[from] OutgoingError),
}

impl WebhookEndpoint {
    /// Reads a kubeconfig: the server of its current context, its CA, and a token or client certificate. Relative files
    /// are relative to `directory`.
    pub fn of_kubeconfig(text: &str, directory: &Path) -> Result<Self, EndpointError> {
        let config: Value = serde_saphyr::from_str(text).map_err(|error| EndpointError::NotYaml(error.to_string()))?;
        let named = |list: &str, name: &Value| {
            let found = config[list].as_array().into_iter().flatten().find(|entry| entry["name"] == *name);
            found.cloned().unwrap_or(Value::Null)
        };
        let context = match config["current-context"].as_str() {
            Some(name) if !name.is_empty() => named("contexts", &name.into())["context"].clone(),
            _ => config["contexts"][0]["context"].clone(),
        };
        let cluster = match context["cluster"].is_string() {
            true => named("clusters", &context["cluster"])["cluster"].clone(),
            false => config["clusters"][0]["cluster"].clone(),
        };
        let user = match context["user"].is_string() {
            true => named("users", &context["user"])["user"].clone(),
            false => config["users"][0]["user"].clone(),
        };
        let server = cluster["server"].as_str().ok_or(EndpointError::Missing("clusters[].cluster.server"))?;
        let ca = read_data(&cluster, "certificate-authority", directory)?;
        let mut destination = Destination::of_url(server, ca)?;
        destination.insecure = cluster["insecure-skip-tls-verify"] == true;
        if let Some(name) = cluster["tls-server-name"].as_str() {
            destination.server_name = name.to_owned();
        }
        let certificate = read_data(&user, "client-certificate", directory)?;
        let key = read_data(&user, "client-key", directory)?;
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(client_certificate(&certificate, &key)?),
            _ => None,
        };
        let bearer = user["token"].as_str().map(str::to_owned);
        Ok(Self {
            destination: Arc::new(destination),
            credentials: Arc::new(Credentials { identity, bearer }),
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
        })
    }

    /// Sends a JSON document whose answer does not matter.
    pub async fn deliver(&self, body: Bytes, timeout: Duration) -> Result<(), OutgoingError> {
        outgoing::post_body(&self.destination, &self.credentials, body, timeout).await.map(drop)
    }

    async fn ask(&self, question: &Value) -> Result<Value, String> {
        self.ask_within(question, CALL_TIMEOUT).await
    }

    async fn ask_within(&self, question: &Value, timeout: Duration) -> Result<Value, String> {
        let asking = async {
            let _permit = self.calls.acquire().await.map_err(|error| error.to_string())?;
            let answer = outgoing::post_json_as(&self.destination, &self.credentials, question, timeout).await;
            answer.map_err(|error| error.to_string())
        };
        // The wait for a place counts too.
        tokio::time::timeout(timeout, asking).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }
}

/// Reads `FIELD-data` in base64, or the file that `FIELD` names.
fn read_data(entry: &Value, field: &str, directory: &Path) -> Result<Option<Vec<u8>>, EndpointError> {
    let unreadable = |problem: String| EndpointError::Unreadable { field: field.to_owned(), problem };
    if let Some(data) = entry[format!("{field}-data")].as_str().filter(|data| !data.is_empty()) {
        return STANDARD.decode(data).map(Some).map_err(|error| unreadable(error.to_string()));
    }
    match entry[field].as_str().filter(|path| !path.is_empty()) {
        None => Ok(None),
        Some(path) => std::fs::read(directory.join(path)).map(Some).map_err(|error| unreadable(error.to_string())),
    }
}

fn client_certificate(certificate: &[u8], key: &[u8]) -> Result<Arc<ReloadableClientCert>, EndpointError> {
    let unreadable = |problem: String| EndpointError::Unreadable { field: "client-certificate".to_owned(), problem };
    ReloadableClientCert::from_pem(certificate, key).map(Arc::new).map_err(|error| unreadable(error.to_string()))
}
