//! Requests to the servers of one destination.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cluster_client::remote::addresses::AddressPolicy;
use cluster_client::remote::config::{BasicAuth, Credentials};
use cluster_client::{ClusterClient, Endpoint, RemoteConfig, ResourceRef};
use http::{Method, Request, header};
use object::Object;
use object::builtin;
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore};

use super::Destination;
use super::document::index_settings;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Requests to one destination at the same time.
const REQUESTS_MAX: usize = 4;

pub struct OpenSearchClient {
    destination: Destination,
    /// Reads the Secret, with the control plane's permissions.
    plane: ClusterClient,
    /// Addresses that are not connected to.
    addresses: AddressPolicy,
    requests: Semaphore,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` until it is needed, and after a failure: the next one reads the Secret again and uses the next address.
    connection: Option<ClusterClient>,
    address: usize,
    indices: BTreeSet<String>,
}

impl OpenSearchClient {
    pub fn new(destination: Destination, plane: ClusterClient, addresses: AddressPolicy) -> Self {
        Self { destination, plane, addresses, requests: Semaphore::new(REQUESTS_MAX), state: Mutex::default() }
    }

    /// Sends a bulk request and returns the answer. Creates indices that are missing.
    pub async fn bulk(&self, indices: BTreeSet<String>, body: String) -> Result<Value, String> {
        let _permit = self.requests.acquire().await.map_err(|error| error.to_string())?;
        let sent = async {
            for index in indices {
                self.ensure_index(index).await?;
            }
            let (code, answer) = self.send(Method::POST, "/_bulk", "application/x-ndjson", body.into()).await?;
            if code != 200 {
                return Err(format!("the bulk request was answered with {code}: {}", shortened(&answer)));
            }
            serde_json::from_slice(&answer).map_err(|error| format!("the answer is not JSON: {error}"))
        };
        let result = sent.await;
        if result.is_err() {
            let mut state = self.state.lock().await;
            state.connection = None;
            state.address += 1;
        }
        result
    }

    async fn ensure_index(&self, index: String) -> Result<(), String> {
        if self.state.lock().await.indices.contains(&index) {
            return Ok(());
        }
        let settings = index_settings().to_string();
        let (code, answer) = self.send(Method::PUT, &format!("/{index}"), "application/json", settings.into()).await?;
        let exists = String::from_utf8_lossy(&answer).contains("resource_already_exists_exception");
        if !(200..300).contains(&code) && !exists {
            return Err(format!("the index {index} cannot be created: {code}: {}", shortened(&answer)));
        }
        self.state.lock().await.indices.insert(index);
        Ok(())
    }

    async fn send(&self, method: Method, path: &str, content: &str, body: Bytes) -> Result<(u16, Bytes), String> {
        let connection = self.connection().await?;
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content);
        let request = request.header(header::ACCEPT, "application/json").body(body).map_err(|e| e.to_string())?;
        let response = connection.raw(request).await.map_err(|status| status.to_string())?;
        Ok((response.status().as_u16(), response.into_body()))
    }

    async fn connection(&self) -> Result<ClusterClient, String> {
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection {
            return Ok(connection.clone());
        }
        let addresses = &self.destination.addresses;
        let address = addresses.get(state.address % addresses.len().max(1)).ok_or("the registry has no addresses")?;
        let mut config = RemoteConfig::new(address.trim_end_matches('/'));
        config.request_timeout = REQUEST_TIMEOUT;
        config.addresses = self.addresses;
        config.credentials = Credentials { basic: self.credentials().await?, ..Credentials::default() };
        let connection =
            ClusterClient::connect(Endpoint::Remote(config)).map_err(|error| format!("{address}: {error}"))?;
        state.connection = Some(connection.clone());
        Ok(connection)
    }

    /// User and password; none without a reference.
    async fn credentials(&self) -> Result<Option<BasicAuth>, String> {
        let Destination { secret_namespace: namespace, secret_name: name, .. } = &self.destination;
        if name.is_empty() {
            return Ok(None);
        }
        let secrets = builtin::secrets();
        let read = self.plane.get(ResourceRef::namespaced(&secrets, namespace, name)).await;
        let secret = read.map_err(|status| format!("secret {namespace}/{name}: {status}"))?;
        let value = |key: &str| decoded(&secret, key).ok_or(format!("secret {namespace}/{name} has no {key}"));
        Ok(Some(BasicAuth { username: value("username")?, password: value("password")? }))
    }
}

fn decoded(secret: &Object, key: &str) -> Option<String> {
    let bytes = STANDARD.decode(secret.str_at(&["data", key])).ok()?;
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}

fn shortened(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).chars().take(300).collect()
}
