//! Opens connections to registries: TCP, through a proxy where the environment names one, and TLS.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use pki::tls::client::{AnyoneVerifier, system_bundle};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::{ClientError, ClientOptions, is_loopback};
use crate::said;

const CONNECT_MAX: Duration = Duration::from_secs(20);
const PROXY_ANSWER_MAX: usize = 8 * 1024;

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

#[derive(Clone)]
pub struct Connector {
    tls: TlsConnector,
    proxy: Option<Arc<Proxy>>,
}

/// A proxy for HTTPS, as `HTTPS_PROXY` names it.
struct Proxy {
    host: String,
    port: u16,
    login: Option<String>,
    /// Hosts that are reached without it.
    except: Vec<String>,
}

impl Connector {
    pub fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        let failed = |error: rustls::Error| ClientError::Tls(error.to_string());
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(failed)?;
        let builder = if options.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyoneVerifier::default()))
        } else {
            builder.with_root_certificates(roots(options)?)
        };
        let mut config = builder.with_no_client_auth();
        // One connection per blob under way is what keeps a slow one from holding up the others.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), proxy: Proxy::from_environment().map(Arc::new) })
    }

    async fn open(self, uri: Uri) -> io::Result<Opened> {
        let is_tls = uri.scheme_str() == Some("https");
        let host = uri.host().ok_or_else(|| io::Error::other("the address has no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let proxy = self.proxy.filter(|proxy| is_tls && !proxy.is_excepted(host));
        let stream = match proxy {
            Some(proxy) => proxy.tunnel(host, port).await?,
            None => open_tcp(host, port).await?,
        };
        if !is_tls {
            return Ok(Opened(TokioIo::new(Box::new(stream))));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = self.tls.connect(name, stream).await?;
        Ok(Opened(TokioIo::new(Box::new(stream))))
    }
}

async fn open_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn roots(options: &ClientOptions) -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &options.ca_file {
        let failed = |why: String| ClientError::Tls(format!("{}: {why}", path.display()));
        let certificates = CertificateDer::pem_file_iter(path).map_err(|error| failed(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| failed(error.to_string()))?;
            roots.add(certificate).map_err(|error| failed(error.to_string()))?;
        }
        return Ok(roots);
    }
    let pem = system_bundle().map_err(|error| ClientError::Tls(said(&error)))?.unwrap_or_default();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
    Ok(roots)
}

impl Proxy {
    fn from_environment() -> Option<Self> {
        let variable =
            |names: [&str; 2]| names.iter().find_map(|name| std::env::var(name).ok()).filter(|v| !v.is_empty());
        let except = variable(["NO_PROXY", "no_proxy"]).unwrap_or_default();
        Self::parse(&variable(["HTTPS_PROXY", "https_proxy"])?, &except)
    }

    fn parse(url: &str, except: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, rest),
        };
        let (host, port) = place.rsplit_once(':').unwrap_or((place, "80"));
        Some(Self {
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: port.parse().ok()?,
            login: login.map(|login| base64::engine::general_purpose::STANDARD.encode(login)),
            except: except.split(',').map(|name| name.trim().trim_start_matches('.').to_owned()).collect(),
        })
    }

    fn is_excepted(&self, host: &str) -> bool {
        let is_below =
            |name: &String| name == "*" || host == name || (!name.is_empty() && host.ends_with(&format!(".{name}")));
        is_loopback(host) || self.except.iter().any(is_below)
    }

    async fn tunnel(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let mut stream = open_tcp(&self.host, self.port).await?;
        let target = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let login = self.login.as_ref().map(|login| format!("Proxy-Authorization: Basic {login}\r\n"));
        let login = login.unwrap_or_default();
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        // Byte by byte: bytes after the response belong to the user of the tunnel.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() == PROXY_ANSWER_MAX {
                return Err(io::Error::other("the proxy's answer has no end"));
            }
            answer.push(stream.read_u8().await?);
        }
        let status = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let status = String::from_utf8_lossy(status);
        if status.split(' ').nth(1) == Some("200") {
            return Ok(stream);
        }
        Err(io::Error::other(format!("the proxy {}:{} answered {status}", self.host, self.port)))
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
        let opening = self.clone().open(uri);
        Box::pin(async move {
            let late =
                |_| Err(io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {CONNECT_MAX:?}")));
            tokio::time::timeout(CONNECT_MAX, opening).await.unwrap_or_else(late)
        })
    }
}

/// An open connection.
pub struct Opened(TokioIo<Box<dyn Stream>>);

impl Connection for Opened {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Opened {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl Write for Opened {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_read_as_curl_reads_them() {
        let proxy = Proxy::parse("http://u:p@proxy.example:3128/", "internal.example, .corp").unwrap();
        assert_eq!((proxy.host.as_str(), proxy.port), ("proxy.example", 3128));
        assert_eq!(proxy.login.as_deref(), Some("dTpw"));
        for (host, expected) in [
            ("internal.example", true),
            ("a.internal.example", true),
            ("x.corp", true),
            ("quay.io", false),
            ("notinternal.example", false),
            ("127.0.0.1", true),
        ] {
            assert_eq!(proxy.is_excepted(host), expected, "{host}");
        }
        assert!(Proxy::parse("http://proxy:port", "").is_none());
    }
}
