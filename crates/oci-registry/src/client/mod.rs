//! A small client of registries: plain HTTP on this machine, HTTPS elsewhere, with the logins Docker and Podman keep.

mod auth;
mod catalog;
mod remote;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster_client::remote::addresses::AddressPolicy;
use cluster_client::remote::connect::{ConnectSettings, Connector, ProxyChoice};
use cluster_client::remote::tls::{Trust, client_config};
use http::header::{AUTHORIZATION, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use tokio_rustls::TlsConnector;

pub use remote::{Remote, Upload};

use crate::name::{Reference, Repository};
use crate::said;
use auth::{Challenge, Credentials, Token};

/// Until an answer begins; bodies may take longer.
const ANSWER_MAX: Duration = Duration::from_secs(120);
const REDIRECTS_MAX: usize = 5;
/// Repeats of a request that was turned away for now.
const RETRIES_MAX: u32 = 4;
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_LONGEST: Duration = Duration::from_secs(30);
/// Bytes read of a response that is not content.
const TEXT_LEN_MAX: usize = 1024 * 1024;
const AGENT: &str = concat!("flotilla/", env!("CARGO_PKG_VERSION"));

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot reach {host}")]
    Unreachable { host: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("{host} did not answer within {ANSWER_MAX:?}")]
    Silent { host: String },
    #[error("{0} is no address of a registry")]
    Address(String),
    #[error("cannot set up TLS: {0}")]
    Tls(String),
    #[error("{what} is not there")]
    NotFound { what: String },
    #[error("{host} refuses access to {what}; log in with `docker login {host}`")]
    Denied { host: String, what: String },
    #[error("{what}: the registry answered {status}{said}")]
    Refused { what: String, status: StatusCode, said: String },
    #[error("{what}: the answer broke off")]
    Broken { what: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("{what}: the registry answered something else than it must: {why}")]
    Protocol { what: String, why: String },
}

#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// Registries besides those on this machine that are spoken to in plain HTTP.
    pub plain_http: Vec<String>,
    /// Authorities trusted instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Take any certificate.
    pub insecure: bool,
}

/// Speaks to any number of registries; keeps connections and tokens for as long as it lives.
pub struct Client {
    http: hyper_util::client::legacy::Client<Connector, Full<Bytes>>,
    credentials: Credentials,
    plain_http: Vec<String>,
    tokens: Mutex<HashMap<(String, String), Token>>,
    schemes: Mutex<HashMap<String, &'static str>>,
}

impl Client {
    pub fn new(options: &ClientOptions) -> Result<Arc<Self>, ClientError> {
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(connector(options)?);
        Ok(Arc::new(Self {
            http,
            credentials: Credentials::find(),
            plain_http: options.plain_http.clone(),
            tokens: Mutex::new(HashMap::new()),
            schemes: Mutex::new(HashMap::new()),
        }))
    }

    /// The repository of an image.
    pub async fn remote(self: &Arc<Self>, image: &Reference) -> Result<Remote, ClientError> {
        self.repository(image.host(), &image.repository).await
    }

    pub async fn repository(self: &Arc<Self>, host: &str, repository: &Repository) -> Result<Remote, ClientError> {
        let scheme = self.scheme(host).await?;
        Ok(Remote::new(self.clone(), scheme, host.to_owned(), repository.clone()))
    }

    /// Registries on this machine mostly speak plain HTTP; those that do not are found out.
    async fn scheme(&self, host: &str) -> Result<&'static str, ClientError> {
        if let Some(known) = self.schemes.lock().get(host) {
            return Ok(known);
        }
        let scheme = if self.plain_http.iter().any(|plain| plain == host) {
            "http"
        } else if is_loopback(host) {
            let uri = address(&format!("http://{host}/v2/"))?;
            match self.once(Method::GET, &uri, &[], Bytes::new(), None).await {
                // A server that requires TLS answers 400, or nothing, to a client without it.
                Ok(answer) if answer.status() != StatusCode::BAD_REQUEST => "http",
                Ok(_) => "https",
                Err(error @ ClientError::Unreachable { .. }) => {
                    let uri = address(&format!("https://{host}/v2/"))?;
                    self.once(Method::GET, &uri, &[], Bytes::new(), None).await.map_err(|_| error)?;
                    "https"
                }
                Err(error) => return Err(error),
            }
        } else {
            "https"
        };
        self.schemes.lock().insert(host.to_owned(), scheme);
        Ok(scheme)
    }

    /// Sends a request: logs in on a challenge, follows redirects, and waits before retries as long as the server asks.
    async fn send(&self, call: Call<'_>) -> Result<Response<Incoming>, ClientError> {
        let mut retries = 0;
        loop {
            let answer = self.send_with_login(&call).await;
            let wait = match &answer {
                Ok(answer) if is_temporary(answer.status()) => retry_after(answer),
                Err(ClientError::Unreachable { .. }) if call.may_repeat => None,
                _ => return answer,
            };
            if retries == RETRIES_MAX {
                return answer;
            }
            let wait = wait.unwrap_or(RETRY_FIRST * 2_u32.pow(retries)).min(RETRY_LONGEST);
            tracing::debug!(what = call.what, ?wait, "will retry");
            tokio::time::sleep(wait).await;
            retries += 1;
        }
    }

    async fn send_with_login(&self, call: &Call<'_>) -> Result<Response<Incoming>, ClientError> {
        let key = (call.host.to_owned(), call.scope.clone());
        let known = self.tokens.lock().get(&key).filter(|token| token.is_good()).map(Token::header);
        let answer = self.follow(call, known).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let challenge = answer.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|v| v.to_str().ok());
        let denied = || ClientError::Denied { host: call.host.to_owned(), what: call.what.clone() };
        let challenge = challenge.filter_map(Challenge::parse).next().ok_or_else(denied)?;
        let token = self.log_in(call, &challenge).await?.ok_or_else(denied)?;
        let header = token.header();
        self.tokens.lock().insert(key, token);
        let answer = self.follow(call, Some(header)).await?;
        if answer.status() == StatusCode::UNAUTHORIZED { Err(denied()) } else { Ok(answer) }
    }

    /// Follows redirects; credentials go to the registry's own host only.
    async fn follow(&self, call: &Call<'_>, login: Option<HeaderValue>) -> Result<Response<Incoming>, ClientError> {
        let first = address(&call.url)?;
        let mut uri = first.clone();
        for _ in 0..REDIRECTS_MAX {
            let is_home = uri.authority() == first.authority() && uri.scheme() == first.scheme();
            let login = login.clone().filter(|_| is_home);
            let answer = self.once(call.method.clone(), &uri, &call.headers, call.body.clone(), login).await?;
            let follows = answer.status().is_redirection() && matches!(call.method, Method::GET | Method::HEAD);
            let target = answer.headers().get(LOCATION).and_then(|target| target.to_str().ok());
            match target {
                Some(target) if follows => uri = address(&resolve(&uri, target))?,
                _ => return Ok(answer),
            }
        }
        Err(ClientError::Protocol { what: call.what.clone(), why: "it sends us around in circles".to_owned() })
    }

    async fn once(
        &self,
        method: Method,
        uri: &Uri,
        headers: &[(http::HeaderName, String)],
        body: Bytes,
        login: Option<HeaderValue>,
    ) -> Result<Response<Incoming>, ClientError> {
        let host = || uri.authority().map(ToString::to_string).unwrap_or_default();
        let mut request = Request::builder().method(method).uri(uri).header(USER_AGENT, AGENT);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(mut login) = login {
            login.set_sensitive(true);
            request = request.header(AUTHORIZATION, login);
        }
        let request = request.body(Full::new(body)).map_err(|_| ClientError::Address(uri.to_string()))?;
        match tokio::time::timeout(ANSWER_MAX, self.http.request(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(ClientError::Unreachable { host: host(), source: error.into() }),
            Err(_) => Err(ClientError::Silent { host: host() }),
        }
    }
}

/// One request to a registry.
struct Call<'a> {
    method: Method,
    url: String,
    headers: Vec<(http::HeaderName, String)>,
    body: Bytes,
    host: &'a str,
    /// The scope a token must have: `repository:NAME:pull,push`.
    scope: String,
    /// The request, for messages.
    what: String,
    /// Doing it twice does no harm.
    may_repeat: bool,
}

fn is_temporary(status: StatusCode) -> bool {
    use StatusCode as S;
    matches!(status, S::TOO_MANY_REQUESTS | S::BAD_GATEWAY | S::SERVICE_UNAVAILABLE | S::GATEWAY_TIMEOUT)
}

fn retry_after(answer: &Response<Incoming>) -> Option<Duration> {
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn address(url: &str) -> Result<Uri, ClientError> {
    let uri: Uri = url.parse().map_err(|_| ClientError::Address(url.to_owned()))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(_)) => Ok(uri),
        _ => Err(ClientError::Address(url.to_owned())),
    }
}

/// Resolves an address that may be relative to another.
fn resolve(base: &Uri, target: &str) -> String {
    let scheme = base.scheme_str().unwrap_or("https");
    let authority = base.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    if target.contains("://") {
        target.to_owned()
    } else if let Some(rest) = target.strip_prefix("//") {
        format!("{scheme}://{rest}")
    } else if target.starts_with('/') {
        format!("{scheme}://{authority}{target}")
    } else {
        let dir = base.path().rsplit_once('/').map_or("", |(dir, _)| dir);
        format!("{scheme}://{authority}{dir}/{target}")
    }
}

fn connector(options: &ClientOptions) -> Result<Connector, ClientError> {
    let trust = match (options.insecure, &options.ca_file) {
        (true, _) => Trust::Anyone,
        (false, Some(file)) => {
            Trust::Roots(std::fs::read(file).map_err(|error| ClientError::Tls(format!("{}: {error}", file.display())))?)
        }
        (false, None) => Trust::System,
    };
    let mut tls = client_config(trust, Arc::default()).map_err(|error| ClientError::Tls(said(&error)))?;
    // One connection for each blob in transfer, so that a slow one delays no other.
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Connector::new(ConnectSettings {
        tls: TlsConnector::from(Arc::new(tls)),
        server_name: None,
        proxy: ProxyChoice::Environment,
        dialer: None,
        addresses: AddressPolicy::default(),
        gate: None,
    }))
}

/// Returns true when a registry is on this machine, so that plain HTTP is safe.
pub fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The text of an answer, as far as it is worth reading.
async fn text_of(answer: Response<Incoming>) -> Bytes {
    let body = Limited::new(answer.into_body(), TEXT_LEN_MAX).collect().await;
    body.map(http_body_util::Collected::to_bytes).unwrap_or_default()
}
