//! Address and credentials of a remote API.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use object::request::User;

use crate::remote::addresses::AddressPolicy;
use crate::remote::connect::Dialer;
use crate::remote::exec::ExecPlugin;
use crate::remote::gate::Gate;
use crate::remote::limit::RateLimit;

/// Timeout of one request, except watches. Longer than the minute API servers allow themselves, so that their
/// response is received.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);

/// A client waits rather than exceed this; high enough for controllers, low enough for a small server.
pub const RATE_LIMIT: RateLimit = RateLimit { per_second: 200.0, burst: 400 };

/// Everything needed to connect to one API.
#[derive(Clone, Debug)]
pub struct RemoteConfig {
    /// `https://host:port`, with a path prefix if it is behind a gateway.
    pub server: String,
    /// The trusted certificates; the system's if `None`.
    pub ca: Option<Pem>,
    pub insecure_skip_tls_verify: bool,
    /// The name to expect in the server's certificate instead of the host of `server`.
    pub tls_server_name: Option<String>,
    pub credentials: Credentials,
    pub impersonate: Option<User>,
    /// `http://`, `https://` or `socks5://`, with user and password if the proxy requires them.
    pub proxy: Option<String>,
    /// Sent to an HTTP proxy with CONNECT.
    pub proxy_headers: Vec<(String, String)>,
    /// Opens connections instead of dialing `server`, which then only identifies the peer.
    pub dialer: Option<Dialer>,
    /// Addresses of `server`, or of the proxy, that are not connected to.
    pub addresses: AddressPolicy,
    pub request_timeout: Duration,
    /// `None` is unlimited.
    pub rate_limit: Option<RateLimit>,
    /// A gate for all connections; `None` sends without restriction.
    pub gate: Option<Gate>,
    pub user_agent: String,
}

/// PEM text, or the file it is in.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    Text(Vec<u8>),
    File(PathBuf),
}

/// Credentials. Several may be given: a certificate and a header do not exclude each other.
#[derive(Clone, Default, PartialEq)]
pub struct Credentials {
    pub client_certificate: Option<ClientCertificate>,
    pub token: Option<String>,
    /// Read again when it changes; takes precedence over `token`.
    pub token_file: Option<PathBuf>,
    pub basic: Option<BasicAuth>,
    pub exec: Option<ExecPlugin>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    pub certificate: Pem,
    pub key: Pem,
}

#[derive(Clone, PartialEq, Eq)]
pub struct BasicAuth {
    pub username: String,
    pub password: String,
}

impl RemoteConfig {
    pub fn new(server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            ca: None,
            insecure_skip_tls_verify: false,
            tls_server_name: None,
            credentials: Credentials::default(),
            impersonate: None,
            proxy: None,
            proxy_headers: Vec::new(),
            dialer: None,
            addresses: AddressPolicy::default(),
            request_timeout: REQUEST_TIMEOUT,
            rate_limit: Some(RATE_LIMIT),
            gate: None,
            user_agent: concat!("flotilla/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl Pem {
    pub fn read(&self) -> std::io::Result<Vec<u8>> {
        match self {
            Pem::Text(text) => Ok(text.clone()),
            Pem::File(path) => std::fs::read(path)
                .map_err(|e| std::io::Error::new(e.kind(), format!("cannot read {}: {e}", path.display()))),
        }
    }
}

impl Credentials {
    /// Reports whether there is a credential that must not cross the network unencrypted.
    pub fn has_secret_header(&self) -> bool {
        self.token.is_some() || self.token_file.is_some() || self.basic.is_some() || self.exec.is_some()
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pem::Text(_) => f.write_str("Pem"),
            Pem::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Shows which credentials are set, never their values.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let present = [
            ("client certificate", self.client_certificate.is_some()),
            ("token", self.token.is_some()),
            ("token file", self.token_file.is_some()),
            ("basic", self.basic.is_some()),
            ("exec", self.exec.is_some()),
        ];
        f.debug_set().entries(present.iter().filter(|(_, is)| *is).map(|(name, _)| name)).finish()
    }
}
