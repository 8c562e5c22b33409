//! Tunnels through HTTP, HTTPS and SOCKS5 proxies.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use object::percent;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use crate::remote::addresses::AddressPolicy;
use crate::remote::connect::{Stream, server_name};
use crate::remote::tls::{ClientIdentity, TlsError, Trust, client_config};

/// Longest accepted response to CONNECT.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

pub struct Proxy {
    kind: Kind,
    host: String,
    port: u16,
    login: Option<Login>,
    /// Sent with CONNECT to HTTP proxies.
    headers: Vec<(String, String)>,
}

enum Kind {
    Http,
    Https(TlsConnector),
    Socks5,
}

struct Login {
    username: String,
    password: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("the proxy address is not a URL")]
    NotUrl,
    #[error("unsupported proxy scheme {0}; http, https and socks5 are supported")]
    Scheme(String),
    #[error("the proxy header {0:?} cannot be sent")]
    Header(String),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Proxy {
    /// The proxy that the environment names for a server with HTTPS.
    pub fn of_environment(server: &Uri) -> Result<Option<Self>, ProxyError> {
        let url = (server.scheme_str() == Some("https")).then(|| url_from_environment(&server.to_string())).flatten();
        url.map(|url| Self::parse(&url)).transpose()
    }

    pub fn parse(url: &str) -> Result<Self, ProxyError> {
        let (scheme, rest) = url.split_once("://").ok_or(ProxyError::NotUrl)?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (login, address) = match authority.rsplit_once('@') {
            Some((login, address)) => (Some(Login::parse(login)), address),
            None => (None, authority),
        };
        let (kind, default_port) = match scheme {
            "http" => (Kind::Http, 80),
            "https" => {
                let mut config = client_config(Trust::System, Arc::new(ClientIdentity::default()))?;
                config.alpn_protocols.clear();
                (Kind::Https(TlsConnector::from(Arc::new(config))), 443)
            }
            "socks5" | "socks5h" => (Kind::Socks5, 1080),
            other => return Err(ProxyError::Scheme(other.to_owned())),
        };
        let uri: Uri = format!("http://{address}").parse().map_err(|_| ProxyError::NotUrl)?;
        let host = uri.host().ok_or(ProxyError::NotUrl)?.trim_matches(['[', ']']).to_owned();
        Ok(Self { kind, host, port: uri.port_u16().unwrap_or(default_port), login, headers: Vec::new() })
    }

    /// Headers to send with CONNECT. Invalid ones are rejected.
    pub fn with_headers(mut self, headers: &[(String, String)]) -> Result<Self, ProxyError> {
        let is_broken = |(name, value): &&(String, String)| {
            http::HeaderName::try_from(name.as_str()).is_err() || http::HeaderValue::from_str(value).is_err()
        };
        if let Some((name, _)) = headers.iter().find(is_broken) {
            return Err(ProxyError::Header(name.clone()));
        }
        self.headers = headers.to_vec();
        Ok(self)
    }

    /// A stream to the target. The proxy resolves the name: it may know networks this machine does not.
    /// Its own address must be allowed.
    pub async fn tunnel(&self, addresses: AddressPolicy, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        let tcp = addresses.open_tcp(&self.host, self.port).await?;
        match &self.kind {
            Kind::Http => self.connect_http(Box::new(tcp), host, port).await,
            Kind::Https(tls) => {
                let stream = tls.connect(server_name(&self.host)?, tcp).await?;
                self.connect_http(Box::new(stream), host, port).await
            }
            Kind::Socks5 => self.connect_socks(Box::new(tcp), host, port).await,
        }
    }

    async fn connect_http(&self, mut stream: Box<dyn Stream>, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        let target = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some(Login { username, password }) = &self.login {
            let login = STANDARD.encode(format!("{username}:{password}"));
            request.push_str(&format!("Proxy-Authorization: Basic {login}\r\n"));
        }
        for (name, value) in &self.headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await?;
        let answer = read_answer(&mut stream).await?;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        if status == "200" {
            return Ok(stream);
        }
        let line = answer.lines().next().unwrap_or_default();
        Err(io::Error::other(format!("the proxy refused the connection to {target}: {line}")))
    }

    async fn connect_socks(&self, mut stream: Box<dyn Stream>, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        self.greet_socks(&mut stream).await?;
        // RFC 1928: version, CONNECT, reserved, address by name, port.
        let length = u8::try_from(host.len()).map_err(|_| io::Error::other("the host name is too long for SOCKS5"))?;
        let mut request = vec![5, 1, 0, 3, length];
        request.extend_from_slice(host.as_bytes());
        request.extend_from_slice(&port.to_be_bytes());
        stream.write_all(&request).await?;
        let mut head = [0; 4];
        stream.read_exact(&mut head).await?;
        if head[1] != 0 {
            return Err(io::Error::other(format!("the SOCKS5 proxy refused the connection: code {}", head[1])));
        }
        let address_length = match head[3] {
            1 => 4,
            4 => 16,
            _ => usize::from(stream.read_u8().await?),
        };
        let mut address_and_port = vec![0; address_length + 2];
        stream.read_exact(&mut address_and_port).await?;
        Ok(stream)
    }

    async fn greet_socks(&self, stream: &mut Box<dyn Stream>) -> io::Result<()> {
        let methods: &[u8] = if self.login.is_some() { &[5, 2, 0, 2] } else { &[5, 1, 0] };
        stream.write_all(methods).await?;
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).await?;
        match (answer[1], &self.login) {
            (0, _) => Ok(()),
            (2, Some(Login { username, password })) => {
                let field = |text: &str| {
                    let length = u8::try_from(text.len()).map_err(|_| io::Error::other("SOCKS5 login too long"))?;
                    Ok::<_, io::Error>([&[length], text.as_bytes()].concat())
                };
                let request = [vec![1], field(username)?, field(password)?].concat();
                stream.write_all(&request).await?;
                stream.read_exact(&mut answer).await?;
                if answer[1] == 0 { Ok(()) } else { Err(io::Error::other("the SOCKS5 proxy refused the login")) }
            }
            _ => Err(io::Error::other("the SOCKS5 proxy requires a login")),
        }
    }
}

impl Login {
    fn parse(text: &str) -> Self {
        let (username, password) = text.split_once(':').unwrap_or((text, ""));
        Self { username: percent::decode_lenient(username), password: percent::decode_lenient(password) }
    }
}

/// Byte by byte: anything after the response belongs to the tunnel.
async fn read_answer(stream: &mut Box<dyn Stream>) -> io::Result<String> {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= ANSWER_BYTES_MAX {
            return Err(io::Error::other("the proxy's response is too long"));
        }
        answer.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The proxy from `HTTPS_PROXY` (or `HTTP_PROXY`) for the server, unless `NO_PROXY` excludes it.
pub fn url_from_environment(server: &str) -> Option<String> {
    url_from(server, |name| std::env::var(name).ok())
}

fn url_from(server: &str, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let set = |names: [&str; 2]| names.iter().find_map(|name| variable(name).filter(|v| !v.is_empty()));
    let uri: Uri = server.parse().ok()?;
    let host = uri.host()?.trim_matches(['[', ']']).to_ascii_lowercase();
    let proxy = match uri.scheme_str() {
        Some("https") => set(["HTTPS_PROXY", "https_proxy"])?,
        _ => set(["HTTP_PROXY", "http_proxy"])?,
    };
    let address = host.parse::<IpAddr>().ok();
    if host == "localhost" || address.is_some_and(|a| a.is_loopback()) {
        return None;
    }
    let excepted = |rule: &str| {
        let rule = rule.trim().to_ascii_lowercase();
        let suffix = rule.trim_start_matches('.');
        rule == "*"
            || (!suffix.is_empty() && (host == suffix || host.ends_with(&format!(".{suffix}"))))
            || address.is_some_and(|a| in_network(a, &rule))
    };
    let none = set(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    if none.split(',').any(excepted) {
        return None;
    }
    Some(if proxy.contains("://") { proxy } else { format!("http://{proxy}") })
}

/// Reports whether the address is in a network like `10.0.0.0/8`.
fn in_network(address: IpAddr, network: &str) -> bool {
    use IpAddr::{V4, V6};
    let Some((base, bits)) = network.split_once('/') else { return false };
    let (Ok(base), Ok(bits)) = (base.parse(), bits.parse::<u32>()) else { return false };
    match (address, base) {
        (V4(a), V4(b)) if bits <= 32 => (a.to_bits() ^ b.to_bits()).checked_shr(32 - bits).unwrap_or(0) == 0,
        (V6(a), V6(b)) if bits <= 128 => (a.to_bits() ^ b.to_bits()).checked_shr(128 - bits).unwrap_or(0) == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_of_the_environment_is_used_unless_excluded() {
        let check = |server: &str, no_proxy: &str, expected: Option<&str>| {
            let variable = |name: &str| match name {
                "HTTPS_PROXY" => Some("proxy:3128".to_owned()),
                "NO_PROXY" => Some(no_proxy.to_owned()),
                _ => None,
            };
            assert_eq!(url_from(server, variable).as_deref(), expected, "{server} without {no_proxy}");
        };
        check("https://api.example.com:6443", "", Some("http://proxy:3128"));
        check("https://api.example.com:6443", "x,.example.com", None);
        check("https://api.example.com", "ample.com", Some("http://proxy:3128"));
        check("https://10.1.2.3", "10.0.0.0/8", None);
        check("https://11.1.2.3", "10.0.0.0/8", Some("http://proxy:3128"));
        check("https://127.0.0.1:5443", "", None);
        check("http://api.example.com", "", None);
        check("https://internal.example/v2/", "internal.example, .corp", None);
        check("https://x.corp", "internal.example, .corp", None);
        check("https://notinternal.example", "internal.example, .corp", Some("http://proxy:3128"));
    }
}
