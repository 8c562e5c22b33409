//! Opens connections: TCP, optionally through a proxy, and TLS with HTTP/2 if the server supports it.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use crate::client::ConnectError;
use crate::remote::addresses::AddressPolicy;
use crate::remote::config::RemoteConfig;
use crate::remote::gate::{Gate, Gated};
use crate::remote::proxy::Proxy;
use crate::remote::tls::{ClientIdentity, Trust, client_config};

/// Timeout for opening a connection, including proxy and TLS.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Any byte stream to a server.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

#[derive(Clone)]
pub struct Connector {
    settings: Arc<ConnectSettings>,
}

pub struct ConnectSettings {
    pub tls: TlsConnector,
    pub server_name: Option<ServerName<'static>>,
    pub proxy: ProxyChoice,
    pub dialer: Option<Dialer>,
    pub addresses: AddressPolicy,
    pub gate: Option<Gate>,
}

/// The proxy of connections.
pub enum ProxyChoice {
    Direct,
    Fixed(Proxy),
    /// The one that the environment names for the server, with HTTPS only.
    Environment,
}

/// Opens connections to servers that cannot be dialed directly. TLS and credentials stay end to end.
#[derive(Clone)]
pub struct Dialer(Arc<dyn Fn() -> Dialling + Send + Sync>);

pub type Dialling = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

impl Dialer {
    pub fn new(dial: impl Fn() -> Dialling + Send + Sync + 'static) -> Self {
        Self(Arc::new(dial))
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dialer")
    }
}

/// An open connection with its negotiated protocol.
pub struct Opened {
    io: TokioIo<Box<dyn Stream>>,
    is_http2: bool,
}

impl ConnectSettings {
    pub fn of(config: &RemoteConfig, identity: Arc<ClientIdentity>) -> Result<Self, ConnectError> {
        let trust = match (config.insecure_skip_tls_verify, &config.ca) {
            (true, _) => Trust::Anyone,
            (false, Some(ca)) => Trust::Roots(ca.read().map_err(ConnectError::CertificateAuthority)?),
            (false, None) => Trust::System,
        };
        let tls = client_config(trust, identity)?;
        let name = config.tls_server_name.as_deref().map(server_name).transpose();
        Ok(Self {
            tls: TlsConnector::from(Arc::new(tls)),
            server_name: name.map_err(ConnectError::ServerName)?,
            proxy: match &config.proxy {
                Some(url) => ProxyChoice::Fixed(Proxy::parse(url)?.with_headers(&config.proxy_headers)?),
                None => ProxyChoice::Direct,
            },
            dialer: config.dialer.clone(),
            addresses: config.addresses,
            gate: config.gate.clone(),
        })
    }
}

/// An HTTP/1.1 connection to an API, for requests that may be upgraded. Without credentials of its own.
pub async fn open_http1(config: &RemoteConfig) -> Result<Box<dyn Stream>, ConnectError> {
    open_http1_as(config, Arc::new(ClientIdentity::default())).await
}

/// The same, with the client certificate that is current when the connection is opened.
pub async fn open_http1_as(
    config: &RemoteConfig,
    identity: Arc<ClientIdentity>,
) -> Result<Box<dyn Stream>, ConnectError> {
    let (settings, uri) = http1_settings(config, identity)?;
    let opened = within_time(open(&settings, &uri)).await;
    Ok(opened.map_err(ConnectError::Open)?.io.into_inner())
}

/// The same over an existing byte stream to the server.
pub async fn open_http1_over(config: &RemoteConfig, way: Box<dyn Stream>) -> Result<Box<dyn Stream>, ConnectError> {
    let (settings, uri) = http1_settings(config, Arc::new(ClientIdentity::default()))?;
    let opened = within_time(secure(&settings, &uri, way)).await;
    Ok(opened.map_err(ConnectError::Open)?.io.into_inner())
}

fn http1_settings(
    config: &RemoteConfig,
    identity: Arc<ClientIdentity>,
) -> Result<(ConnectSettings, Uri), ConnectError> {
    let uri: Uri = config.server.parse().map_err(|_| ConnectError::Server(config.server.clone()))?;
    let mut settings = ConnectSettings::of(config, identity)?;
    let mut tls = settings.tls.config().as_ref().clone();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    settings.tls = TlsConnector::from(Arc::new(tls));
    Ok((settings, uri))
}

async fn within_time(opening: impl Future<Output = io::Result<Opened>>) -> io::Result<Opened> {
    tokio::time::timeout(CONNECT_TIMEOUT, opening).await.unwrap_or_else(|_| {
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {CONNECT_TIMEOUT:?}")))
    })
}

impl Connector {
    pub fn new(settings: ConnectSettings) -> Self {
        Self { settings: Arc::new(settings) }
    }
}

impl Service<Uri> for Connector {
    type Response = Opened;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Opened>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let settings = Arc::clone(&self.settings);
        Box::pin(async move { within_time(open(&settings, &uri)).await })
    }
}

async fn open(settings: &ConnectSettings, uri: &Uri) -> io::Result<Opened> {
    let (host, port) = host_and_port(uri)?;
    let named;
    let proxy = match &settings.proxy {
        ProxyChoice::Direct => None,
        ProxyChoice::Fixed(proxy) => Some(proxy),
        ProxyChoice::Environment => {
            named = Proxy::of_environment(uri).map_err(io::Error::other)?;
            named.as_ref()
        }
    };
    let stream: Box<dyn Stream> = match (&settings.dialer, proxy) {
        (Some(Dialer(dial)), _) => dial().await?,
        (None, Some(proxy)) => proxy.tunnel(settings.addresses, host, port).await?,
        (None, None) => Box::new(settings.addresses.open_tcp(host, port).await?),
    };
    let stream = match &settings.gate {
        Some(gate) => Box::new(Gated { stream, gate: gate.clone() }),
        None => stream,
    };
    secure(settings, uri, stream).await
}

/// Host and port of an API's address.
pub fn host_and_port(uri: &Uri) -> io::Result<(&str, u16)> {
    let host = uri.host().ok_or_else(|| io::Error::other("the server address has no host"))?;
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    Ok((host.trim_start_matches('[').trim_end_matches(']'), port))
}

async fn secure(settings: &ConnectSettings, uri: &Uri, stream: Box<dyn Stream>) -> io::Result<Opened> {
    let (host, _) = host_and_port(uri)?;
    if uri.scheme_str() != Some("https") {
        return Ok(Opened { io: TokioIo::new(stream), is_http2: false });
    }
    let name = match &settings.server_name {
        Some(name) => name.clone(),
        None => server_name(host)?,
    };
    let tls = settings.tls.connect(name, stream).await?;
    let is_http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok(Opened { io: TokioIo::new(Box::new(tls)), is_http2 })
}

pub async fn open_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    AddressPolicy::default().open_tcp(host, port).await
}

pub fn server_name(host: &str) -> io::Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("{host} is not a host name")))
}

impl Connection for Opened {
    fn connected(&self) -> Connected {
        if self.is_http2 { Connected::new().negotiated_h2() } else { Connected::new() }
    }
}

impl Read for Opened {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl Write for Opened {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
