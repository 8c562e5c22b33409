//! Tokens of an OIDC issuer: its keys are fetched when first needed, kept, and fetched again when a token names a new one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use object::request::User;
use pki::error::PkiError;
use pki::jwt::Algorithm;
use pki::jwt::jwks;
use pki::jwt::verifier::{JwtError, JwtVerifier, TimeRules, VerifiedToken};
use pki::oidc::OidcRules;
use pki::tls::client::{ClientTls, ClientTlsOptions, ServerTrust};
use pki::token::Secret;
use serde_json::{Map, Value};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

use super::oidc_sign_in::{SignInConfig, SignIns};
use super::structured::{ClaimRules, ClaimsRefused};

/// Keys older than this are fetched again, so that a key that the issuer withdrew is not trusted longer.
const KEYS_FOR: Duration = Duration::from_secs(600);
/// Minimum interval between requests to the issuer for unknown key ids.
const FETCH_EVERY: Duration = Duration::from_secs(10);
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
const DOCUMENT_BYTES_MAX: usize = 1024 * 1024;
const LEEWAY: Duration = Duration::from_secs(10);

/// The rules by which the claims of a token become a user.
#[derive(Clone)]
pub enum TokenRules {
    /// Of the flags `--oidc-*`.
    Flags(OidcRules),
    /// Of an AuthenticationConfiguration.
    Configured(Arc<ClaimRules>),
}

impl TokenRules {
    fn issuer(&self) -> &str {
        match self {
            Self::Flags(rules) => &rules.issuer,
            Self::Configured(rules) => &rules.issuer,
        }
    }

    fn audiences(&self) -> &[String] {
        match self {
            Self::Flags(rules) => &rules.audiences,
            Self::Configured(rules) => &rules.audiences,
        }
    }

    fn user(&self, claims: &Map<String, Value>) -> Result<User, ClaimsRefused> {
        match self {
            Self::Flags(rules) => {
                let user = rules.user(claims)?;
                let extra = credential_id(claims).into_iter().collect();
                Ok(User { name: user.username, groups: user.groups, extra, ..User::default() })
            }
            Self::Configured(rules) => rules.user(claims),
        }
    }
}

/// The entry in the user's extra that identifies the token.
pub(super) fn credential_id(claims: &Map<String, Value>) -> Option<(String, Vec<String>)> {
    let id = claims.get("jti").and_then(Value::as_str).filter(|id| !id.is_empty())?;
    Some((super::CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]))
}

/// One trusted issuer.
#[derive(Clone)]
pub struct OidcConfig {
    pub rules: TokenRules,
    /// URL of the issuer's document, if it is not below the URL of the issuer.
    pub discovery_url: Option<String>,
    /// The certificates that the issuer is verified with.
    pub trust: ServerTrust,
    pub algorithms: Vec<Algorithm>,
    pub sign_in: SignInConfig,
}

#[derive(Debug, Error)]
pub enum OidcRefused {
    #[error("verify token: {0}")]
    Verify(#[from] JwtError),
    #[error("{0}")]
    Claims(#[from] ClaimsRefused),
    #[error("the issuer's keys cannot be had: {0}")]
    Fetch(#[from] FetchError),
}

#[derive(Debug, Error)]
pub enum FetchError {
    #[error("{0:?} is not an https URL")]
    Url(String),
    #[error("tls: {0}")]
    Tls(#[from] PkiError),
    #[error("connection: {0}")]
    Connection(#[from] std::io::Error),
    #[error("http: {0}")]
    Http(#[from] hyper::Error),
    #[error("the answer was {0}")]
    Answer(http::StatusCode),
    #[error("the answer cannot be read: {0}")]
    Body(String),
    #[error("no answer within {} seconds", FETCH_TIMEOUT.as_secs())]
    Timeout,
    #[error("asked a moment ago")]
    TooSoon,
    #[error("the document is about {0:?}")]
    OtherIssuer(String),
}

/// The document of an issuer about itself.
pub struct Discovery(Value);

impl Discovery {
    /// Reads a document that must be about this issuer.
    pub fn parse(document: &[u8], issuer: &str) -> Result<Self, FetchError> {
        let document: Value = serde_json::from_slice(document).map_err(|error| FetchError::Body(error.to_string()))?;
        match document["issuer"].as_str().unwrap_or_default() {
            about if about == issuer => Ok(Self(document)),
            about => Err(FetchError::OtherIssuer(about.to_owned())),
        }
    }

    /// Returns the https URL in a field.
    pub fn url(&self, field: &str) -> Result<&str, FetchError> {
        let url = self.0[field].as_str().unwrap_or_default();
        let is_https = url.parse::<Uri>().is_ok_and(|uri| uri.scheme_str() == Some("https") && uri.host().is_some());
        if is_https { Ok(url) } else { Err(FetchError::Url(url.to_owned())) }
    }
}

pub struct Oidc {
    config: OidcConfig,
    pub(super) sign_ins: SignIns,
    keys: ArcSwapOption<Keys>,
    /// Time of the last fetch; locked during a fetch, so that all waiting requests share it.
    asked: Mutex<Option<Instant>>,
}

struct Keys {
    verifier: JwtVerifier,
    since: Instant,
}

impl Oidc {
    pub fn new(config: OidcConfig) -> Self {
        let sign_ins = SignIns::new(config.sign_in.clone());
        Self { config, sign_ins, keys: ArcSwapOption::empty(), asked: Mutex::new(None) }
    }

    pub fn issued_by(&self, issuer: &str) -> bool {
        issuer == self.issuer()
    }

    pub fn issuer(&self) -> &str {
        self.config.rules.issuer()
    }

    pub(super) fn client_id(&self) -> &str {
        self.config.rules.audiences().first().map(String::as_str).unwrap_or_default()
    }

    pub async fn user(&self, token: &str) -> Result<User, OidcRefused> {
        self.user_and_claims(token).await.map(|(user, _)| user)
    }

    pub(super) async fn user_and_claims(&self, token: &str) -> Result<(User, Map<String, Value>), OidcRefused> {
        let verified = self.verify(token).await?;
        let user = self.config.rules.user(&verified.claims)?;
        Ok((user, verified.claims))
    }

    async fn verify(&self, token: &str) -> Result<VerifiedToken, OidcRefused> {
        let known = self.keys.load_full();
        let stale = known.as_ref().is_none_or(|keys| keys.since.elapsed() > KEYS_FOR);
        let keys = match known {
            Some(keys) if !stale => keys,
            // While the issuer is down, the known keys stay valid.
            Some(keys) => self.refresh(keys.since).await.unwrap_or(keys),
            None => self.refresh_from(None).await?,
        };
        match keys.verifier.verify(token, Timestamp::now()) {
            Err(JwtError::UnknownKey) => {
                let newer = self.refresh(keys.since).await?;
                Ok(newer.verifier.verify(token, Timestamp::now())?)
            }
            verdict => Ok(verdict?),
        }
    }

    async fn refresh(&self, than: Instant) -> Result<Arc<Keys>, FetchError> {
        self.refresh_from(Some(than)).await
    }

    /// Keys newer than those of `than`: someone else's, or freshly fetched ones.
    async fn refresh_from(&self, than: Option<Instant>) -> Result<Arc<Keys>, FetchError> {
        let mut asked = self.asked.lock().await;
        if let Some(keys) = self.keys.load_full()
            && than.is_none_or(|than| keys.since > than)
        {
            return Ok(keys);
        }
        if asked.is_some_and(|at| at.elapsed() < FETCH_EVERY) {
            return Err(FetchError::TooSoon);
        }
        *asked = Some(Instant::now());
        let fetched = tokio::time::timeout(FETCH_TIMEOUT, self.fetch_keys()).await;
        let keys = Arc::new(fetched.map_err(|_| FetchError::Timeout)??);
        self.keys.store(Some(keys.clone()));
        Ok(keys)
    }

    /// The document of the issuer about itself.
    pub(super) async fn discover(&self) -> Result<Discovery, FetchError> {
        let issuer = self.issuer();
        let url = match &self.config.discovery_url {
            Some(url) => url.clone(),
            None => format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/')),
        };
        Discovery::parse(&self.fetch(&url).await?, issuer)
    }

    async fn fetch_keys(&self) -> Result<Keys, FetchError> {
        let document = self.discover().await?;
        let keys = jwks::parse(&self.fetch(document.url("jwks_uri")?).await?)?;
        let times = TimeRules { leeway: LEEWAY, requires_expiry: true };
        Ok(Keys { verifier: JwtVerifier::new(keys, &self.config.algorithms, times), since: Instant::now() })
    }

    async fn fetch(&self, url: &str) -> Result<Bytes, FetchError> {
        let call = self.call(url, Request::builder(), Bytes::new());
        tokio::time::timeout(FETCH_TIMEOUT, call).await.map_err(|_| FetchError::Timeout)?
    }

    /// Sends a form, with credentials if there are some.
    pub(super) async fn post(
        &self,
        url: &str,
        form: String,
        authorization: Option<Secret>,
    ) -> Result<Bytes, FetchError> {
        let mut request =
            Request::builder().method(Method::POST).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization.expose());
        }
        let call = self.call(url, request, form.into());
        tokio::time::timeout(FETCH_TIMEOUT, call).await.map_err(|_| FetchError::Timeout)?
    }

    async fn call(&self, url: &str, request: http::request::Builder, body: Bytes) -> Result<Bytes, FetchError> {
        let bad_url = || FetchError::Url(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| bad_url())?;
        if uri.scheme_str() != Some("https") {
            return Err(bad_url());
        }
        let host = uri.host().ok_or_else(bad_url)?;
        let mut options = ClientTlsOptions::trusting(self.config.trust.clone());
        options.alpn = vec![b"http/1.1".to_vec()];
        let tls = ClientTls::build(options)?;
        let name = tls.server_name_for(host)?;
        let address = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((address, uri.port_u16().unwrap_or(443))).await?;
        let stream = TlsConnector::from(tls.config.clone()).connect(name, stream).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let target = uri.path_and_query().map_or("/", |path| path.as_str());
        let authority = uri.authority().map_or(host, |authority| authority.as_str());
        let request = request.uri(target).header(header::HOST, authority).header(header::ACCEPT, "application/json");
        let request = request.body(Full::new(body)).map_err(|_| bad_url())?;
        let response = sender.send_request(request).await?;
        if !response.status().is_success() {
            return Err(FetchError::Answer(response.status()));
        }
        let body = Limited::new(response.into_body(), DOCUMENT_BYTES_MAX).collect().await;
        connection.abort();
        Ok(body.map_err(|error| FetchError::Body(error.to_string()))?.to_bytes())
    }
}
