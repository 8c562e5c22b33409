//! Calls the server makes itself: webhooks and aggregated servers, over TLS with the trust their configuration names.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use bytes::Bytes;
use cluster_client::remote::addresses::AddressPolicy;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use object::Object;
use pki::tls::client::{ClientTls, ClientTlsOptions, ReloadableClientCert, ServerTrust};
use serde_json::Value;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::resources::Resources;

/// Answers above this are not read.
const ANSWER_BYTES_MAX: usize = 10 * 1024 * 1024;

#[derive(Debug, Error)]
pub enum OutgoingError {
    #[error("{0}")]
    BadConfiguration(String),
    #[error("service {namespace}/{name} not found")]
    ServiceNotFound { namespace: String, name: String },
    #[error("failed to call webhook: Post {url:?}: {problem}")]
    Unreachable { url: String, problem: String },
    #[error("failed to call webhook: Post {url:?}: context deadline exceeded")]
    TimedOut { url: String },
    #[error("an error on the server ({problem:?}) has prevented the request from succeeding")]
    Refused { code: u16, problem: String },
}

/// The destination of a call, read from a `clientConfig` or an APIService.
pub struct Destination {
    pub host: String,
    pub port: u16,
    /// The name the certificate must be valid for, if that is not the host.
    pub server_name: String,
    pub path: String,
    pub ca: Option<Vec<u8>>,
    pub insecure: bool,
    pub addresses: AddressPolicy,
}

impl Destination {
    pub fn url(&self) -> String {
        format!("https://{}:{}{}", self.server_name, self.port, self.path)
    }

    /// Reads `{url | service{namespace,name,path,port}, caBundle}`.
    pub async fn of_client_config(resources: Resources<'_>, config: &Value) -> Result<Self, OutgoingError> {
        let ca = match config["caBundle"].as_str() {
            None | Some("") => None,
            Some(text) => {
                let decoded = base64::engine::general_purpose::STANDARD.decode(text);
                Some(decoded.map_err(|e| OutgoingError::BadConfiguration(format!("caBundle is not base64: {e}")))?)
            }
        };
        if let Some(url) = config["url"].as_str() {
            return Ok(Self { addresses: resources.registry.addresses(), ..Self::of_url(url, ca)? });
        }
        let service = &config["service"];
        let text = |key: &str| service[key].as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text("namespace"), text("name"));
        let port = service["port"].as_u64().unwrap_or(443) as u16;
        let path =
            if text("path").is_empty() { "/".to_owned() } else { format!("/{}", text("path").trim_start_matches('/')) };
        Self::of_service(resources, &namespace, &name, port, path, ca).await
    }

    pub fn of_url(url: &str, ca: Option<Vec<u8>>) -> Result<Self, OutgoingError> {
        let bad = || OutgoingError::BadConfiguration(format!("{url:?} is not an https URL"));
        let uri: http::Uri = url.parse().map_err(|_| bad())?;
        if uri.scheme_str() != Some("https") {
            return Err(bad());
        }
        let host = uri.host().ok_or_else(bad)?.trim_matches(['[', ']']).to_owned();
        let path = uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
        Ok(Self {
            server_name: host.clone(),
            host,
            port: uri.port_u16().unwrap_or(443),
            path,
            ca,
            insecure: false,
            addresses: AddressPolicy::default(),
        })
    }

    /// A Service is reached by its cluster IP, an ExternalName by its name. The certificate is for `NAME.NAMESPACE.svc`.
    pub async fn of_service(
        resources: Resources<'_>,
        namespace: &str,
        name: &str,
        port: u16,
        path: String,
        ca: Option<Vec<u8>>,
    ) -> Result<Self, OutgoingError> {
        let missing = || OutgoingError::ServiceNotFound { namespace: namespace.to_owned(), name: name.to_owned() };
        let resource = resources.registry.find("", "v1", "services").ok_or_else(missing)?;
        let found = resources.objects.get(&resource.key(namespace, name)).await;
        let service: Object =
            found.map_err(|e| OutgoingError::BadConfiguration(e.to_string()))?.ok_or_else(missing)?.object;
        let host = match service.str_at(&["spec", "type"]) {
            "ExternalName" => service.str_at(&["spec", "externalName"]).to_owned(),
            _ => service.str_at(&["spec", "clusterIP"]).to_owned(),
        };
        if host.is_empty() || host == "None" {
            let text = format!("service {namespace}/{name} has no address: give it a clusterIP or an externalName");
            return Err(OutgoingError::BadConfiguration(text));
        }
        let (server_name, addresses) = (format!("{name}.{namespace}.svc"), resources.registry.addresses());
        Ok(Self { host, port, server_name, path, ca, insecure: false, addresses })
    }
}

/// Opens a TLS connection that speaks HTTP/1.1.
pub async fn connect(
    destination: &Destination,
    identity: Option<Arc<ReloadableClientCert>>,
) -> Result<TlsStream<TcpStream>, OutgoingError> {
    let unreachable = |problem: String| OutgoingError::Unreachable { url: destination.url(), problem };
    let trust = match (&destination.ca, destination.insecure) {
        (_, true) => ServerTrust::Anyone,
        (Some(ca), false) => ServerTrust::Bundle(ca.clone()),
        (None, false) => ServerTrust::System,
    };
    let mut options = ClientTlsOptions::trusting(trust);
    options.alpn = vec![b"http/1.1".to_vec()];
    options.identity = identity;
    let tls = ClientTls::build(options).map_err(|e| OutgoingError::BadConfiguration(e.to_string()))?;
    let name = tls.server_name_for(&destination.server_name).map_err(|e| unreachable(e.to_string()))?;
    let stream = destination.addresses.open_tcp(&destination.host, destination.port).await;
    let stream = stream.map_err(|e| unreachable(dial_problem(destination, &e)))?;
    let connector = TlsConnector::from(tls.config.clone());
    connector.connect(name, stream).await.map_err(|e| unreachable(handshake_problem(&e)))
}

/// Returns the error message Kubernetes uses for an address that cannot be connected to.
fn dial_problem(destination: &Destination, error: &std::io::Error) -> String {
    let (host, port) = (&destination.host, destination.port);
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => format!("dial tcp {host}:{port}: connect: connection refused"),
        std::io::ErrorKind::HostUnreachable => format!("dial tcp {host}:{port}: connect: no route to host"),
        _ => format!("dial tcp {host}:{port}: {error}"),
    }
}

fn handshake_problem(error: &std::io::Error) -> String {
    match is_unknown_authority(error) {
        true => "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned(),
        false => format!("tls: {error}"),
    }
}

fn is_unknown_authority(error: &std::io::Error) -> bool {
    error.get_ref().and_then(|inner| inner.downcast_ref()).is_some_and(pki::tls::client::is_unknown_authority)
}

/// The identity of the server towards another one.
#[derive(Default)]
pub struct Credentials {
    pub identity: Option<Arc<ReloadableClientCert>>,
    pub bearer: Option<String>,
}

/// Posts a JSON document and reads the JSON answer.
pub async fn post_json(destination: &Destination, body: &Value, timeout: Duration) -> Result<Value, OutgoingError> {
    post_json_as(destination, &Credentials::default(), body, timeout).await
}

/// The same with credentials.
pub async fn post_json_as(
    destination: &Destination,
    credentials: &Credentials,
    body: &Value,
    timeout: Duration,
) -> Result<Value, OutgoingError> {
    let bytes = post_body(destination, credentials, Bytes::from(body.to_string()), timeout).await?;
    serde_json::from_slice(&bytes).map_err(|error| OutgoingError::Unreachable {
        url: destination.url(),
        problem: format!("the answer is not JSON: {error}"),
    })
}

/// Posts a JSON document and returns the body of the answer.
pub async fn post_body(
    destination: &Destination,
    credentials: &Credentials,
    body: Bytes,
    timeout: Duration,
) -> Result<Bytes, OutgoingError> {
    let url = destination.url();
    let exchange = exchange(destination, credentials, body);
    tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(OutgoingError::TimedOut { url }))
}

async fn exchange(destination: &Destination, credentials: &Credentials, body: Bytes) -> Result<Bytes, OutgoingError> {
    let stream = connect(destination, credentials.identity.clone()).await?;
    exchange_over(TokioIo::new(stream), destination, credentials, body).await
}

/// Posts a document over an open connection and returns the body of the answer.
pub async fn exchange_over<I>(
    io: I,
    destination: &Destination,
    credentials: &Credentials,
    body: Bytes,
) -> Result<Bytes, OutgoingError>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let unreachable = |problem: String| OutgoingError::Unreachable { url: destination.url(), problem };
    let handshake = hyper::client::conn::http1::handshake(io).await;
    let (mut sender, connection) = handshake.map_err(|e| unreachable(e.to_string()))?;
    let driver = tokio::spawn(connection);
    let mut request = Request::post(&destination.path)
        .header(header::HOST, format!("{}:{}", destination.server_name, destination.port))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, "flotilla");
    if let Some(token) = &credentials.bearer {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Full::new(body)).map_err(|e| unreachable(e.to_string()))?;
    let response: Response<hyper::body::Incoming> =
        sender.send_request(request).await.map_err(|e| unreachable(e.to_string()))?;
    let code = response.status().as_u16();
    let bytes = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let bytes = bytes.map_err(|e| unreachable(e.to_string()))?.to_bytes();
    driver.abort();
    if !(200..300).contains(&code) {
        return Err(OutgoingError::Refused { code, problem: String::from_utf8_lossy(&bytes).trim().to_owned() });
    }
    Ok(bytes)
}
