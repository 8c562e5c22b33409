//! The client of the load generator: one connection, one request at a time, the same for every server.

use std::sync::Arc;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::options::Protocol;

/// The window sizes of Go's HTTP/2 client, so that long responses flow as to kubectl or a controller.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;

/// A server's address and our credentials.
#[derive(Clone)]
pub struct ServerTarget {
    authority: String,
    tls: Arc<ClientConfig>,
    protocol: Protocol,
}

/// PEM texts of the server's CA and of the client's certificate and key.
pub struct Identity<'a> {
    pub ca: &'a [u8],
    pub certificate: &'a [u8],
    pub key: &'a [u8],
}

pub struct Call {
    pub method: Method,
    pub path: String,
    pub content_type: &'static str,
    pub body: Bytes,
    pub gzip: bool,
}

impl Call {
    pub fn get(path: String) -> Self {
        Self { method: Method::GET, path, content_type: "", body: Bytes::new(), gzip: false }
    }

    pub fn delete(path: String) -> Self {
        Self { method: Method::DELETE, ..Self::get(path) }
    }

    pub fn create(path: String, body: Bytes) -> Self {
        Self { method: Method::POST, content_type: "application/json", body, ..Self::get(path) }
    }

    pub fn merge_patch(path: String, body: Bytes) -> Self {
        Self { method: Method::PATCH, content_type: "application/merge-patch+json", body, ..Self::get(path) }
    }
}

pub struct WireResponse {
    pub status: StatusCode,
    /// Body size on the wire.
    pub bytes: usize,
}

impl ServerTarget {
    pub fn new(authority: String, identity: &Identity<'_>, protocol: Protocol) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(identity.ca) {
            roots.add(certificate.context("the CA is not PEM")?).context("the CA cannot be used")?;
        }
        let chain = CertificateDer::pem_slice_iter(identity.certificate).collect::<Result<Vec<_>, _>>();
        let chain = chain.context("the client certificate is not PEM")?;
        let key = PrivateKeyDer::from_pem_slice(identity.key).context("the client key is not PEM")?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("no TLS version is left")?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .context("the client certificate cannot be used")?;
        tls.alpn_protocols = match protocol {
            Protocol::Http1 => vec![b"http/1.1".to_vec()],
            Protocol::Http2 => vec![b"h2".to_vec()],
        };
        Ok(Self { authority, tls: Arc::new(tls), protocol })
    }

    pub async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(&self.authority).await.context("cannot connect")?;
        stream.set_nodelay(true).context("cannot set TCP_NODELAY")?;
        let host = self.authority.rsplit_once(':').map_or(&*self.authority, |(host, _)| host).to_owned();
        let name = ServerName::try_from(host).context("the server's address is not a valid TLS server name")?;
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await.context("TLS failed")?;
        let io = TokioIo::new(stream);
        // A broken connection shows as a failed request, so the driver's own error is not needed.
        let sender = match self.protocol {
            Protocol::Http1 => {
                let (sender, driver) = http1::handshake(io).await.context("HTTP/1.1 failed")?;
                tokio::spawn(driver);
                Sender::Http1(sender)
            }
            Protocol::Http2 => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder.initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
                let (sender, driver) = builder.handshake(io).await.context("HTTP/2 failed")?;
                tokio::spawn(driver);
                Sender::Http2(sender)
            }
        };
        Ok(Connection { sender, authority: self.authority.clone() })
    }

    pub async fn connect_many(&self, count: usize) -> anyhow::Result<Vec<Connection>> {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(self.connect().await?);
        }
        Ok(connections)
    }
}

pub struct Connection {
    sender: Sender,
    authority: String,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    /// Another client on the same connection; `None` where a connection has one request at a time.
    pub fn share(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => {
                Some(Self { sender: Sender::Http2(sender.clone()), authority: self.authority.clone() })
            }
        }
    }

    /// Sends a request and reads the complete response.
    pub async fn call(&mut self, call: Call) -> anyhow::Result<WireResponse> {
        let (status, mut body) = self.open(call).await?;
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame.context("the response was cut off")?.data_ref().map_or(0, Bytes::len);
        }
        Ok(WireResponse { status, bytes })
    }

    /// Returns the body of a successful response.
    pub async fn read(&mut self, call: Call) -> anyhow::Result<Bytes> {
        let path = call.path.clone();
        let (status, body) = self.open(call).await?;
        let body = body.collect().await.context("the response was cut off")?.to_bytes();
        if !status.is_success() {
            bail!("{path}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(body)
    }

    /// Sends a request and leaves the body to the caller, for watches.
    pub async fn open(&mut self, call: Call) -> anyhow::Result<(StatusCode, Incoming)> {
        let mut request = Request::builder().method(call.method).header(ACCEPT, "application/json");
        request = request.header(USER_AGENT, "bench");
        if !call.content_type.is_empty() {
            request = request.header(CONTENT_TYPE, call.content_type);
        }
        if call.gzip {
            request = request.header(ACCEPT_ENCODING, "gzip");
        }
        let body = Full::new(call.body);
        let response = match &mut self.sender {
            Sender::Http1(sender) => {
                let request = request.uri(call.path).header(HOST, &self.authority).body(body)?;
                sender.ready().await.context("the connection is closed")?;
                sender.send_request(request).await
            }
            Sender::Http2(sender) => {
                let request = request.uri(format!("https://{}{}", self.authority, call.path)).body(body)?;
                sender.ready().await.context("the connection is closed")?;
                sender.send_request(request).await
            }
        };
        let response = response.context("no response")?;
        Ok((response.status(), response.into_body()))
    }
}
