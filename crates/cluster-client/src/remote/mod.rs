//! A Kubernetes API behind a socket.

pub mod addresses;
pub mod bounded;
pub mod config;
pub mod connect;
pub mod credentials;
mod events;
pub mod exec;
pub mod gate;
pub mod limit;
mod pool;
pub mod proxy;
pub mod tls;
mod wire;

use std::collections::{HashSet, VecDeque};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use object::Status;
use object::status::{StatusCause, StatusDetails};
use parking_lot::Mutex;

use crate::backend::{Backend, Identity, Upgraded};
use crate::call::{ApiCall, ApiRequest, Reply, WatchCall, WatchEvent, WatchEvents};
use crate::client::ConnectError;
use crate::remote::bounded::{ObjectName, PAGE_BYTES_MAX};
use crate::remote::config::RemoteConfig;
use crate::remote::connect::{ConnectSettings, Connector, open_http1_as};
use crate::remote::credentials::CredentialSource;
use crate::remote::events::EventDecoder;
use crate::remote::limit::Throttle;
use crate::remote::pool::{HttpClient, Pool, WatchSlot};
use crate::remote::tls::ClientIdentity;
use crate::remote::wire::WireRequest;

pub use crate::remote::wire::is_too_large;
pub use object::percent::encode as escape;

/// Objects whose unreadable state is remembered, so that each is logged once.
const UNREADABLE_REMEMBERED_MAX: usize = 1024;

/// Maximum number of retries requested by the server.
pub const RETRIES_MAX: usize = 5;

/// Longest accepted Retry-After.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// Marks a `Status` for an API that could not be reached.
const UNREACHABLE: &str = "Unreachable";

pub struct Remote {
    base: String,
    /// For connections outside the pool, which switch protocols.
    config: RemoteConfig,
    identity: Arc<ClientIdentity>,
    pool: Pool,
    credentials: CredentialSource,
    throttle: Option<Throttle>,
    request_timeout: Duration,
    user_agent: http::HeaderValue,
    unreadable: Arc<UnreadableObjects>,
}

/// Objects of the server that could not be read and were left out.
#[derive(Default)]
struct UnreadableObjects {
    count: AtomicU64,
    logged: Mutex<HashSet<String>>,
}

impl UnreadableObjects {
    fn note(&self, base: &str, text: &str, error: &serde_json::Error) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let object = ObjectName::read(text).to_string();
        let mut logged = self.logged.lock();
        if logged.len() < UNREADABLE_REMEMBERED_MAX && logged.insert(object.clone()) {
            tracing::warn!(server = base, object, %error, "an object cannot be read and is left out");
        }
    }
}

/// Reports whether the API did not respond at all: its state is then unknown.
pub fn is_unreachable(status: &Status) -> bool {
    status.details.as_ref().is_some_and(|d| d.causes.iter().any(|cause| cause.reason == UNREACHABLE))
}

impl Remote {
    pub fn new(config: RemoteConfig) -> Result<Self, ConnectError> {
        let base = config.server.trim_end_matches('/').to_owned();
        let uri: Uri = base.parse().map_err(|_| ConnectError::Server(config.server.clone()))?;
        let host = uri.host().ok_or_else(|| ConnectError::Server(config.server.clone()))?;
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if is_loopback(host) || !config.credentials.has_secret_header() => {}
            Some("http") => return Err(ConnectError::CredentialsInTheClear(config.server)),
            _ => return Err(ConnectError::Server(config.server)),
        }
        let identity = Arc::new(ClientIdentity::default());
        let settings = ConnectSettings::of(&config, Arc::clone(&identity))?;
        Ok(Self {
            base,
            config: config.clone(),
            identity: Arc::clone(&identity),
            pool: Pool::new(Connector::new(settings)),
            credentials: CredentialSource::new(config.credentials, identity)?,
            throttle: config.rate_limit.map(Throttle::new),
            request_timeout: config.request_timeout,
            user_agent: config.user_agent.try_into().map_err(|_| ConnectError::UserAgent)?,
            unreadable: Arc::default(),
        })
    }

    /// The first response that does not request a retry.
    async fn send(
        &self,
        identity: &Identity,
        wire: &WireRequest,
        http: Option<&HttpClient>,
    ) -> Result<Response<Incoming>, Status> {
        self.send_accepting(wire::JSON, identity, wire, http).await
    }

    async fn send_accepting(
        &self,
        accept: &'static str,
        identity: &Identity,
        wire: &WireRequest,
        http: Option<&HttpClient>,
    ) -> Result<Response<Incoming>, Status> {
        let mut headers = match &identity.impersonated {
            Some(user) => wire::impersonation_headers(user)?,
            None => HeaderMap::new(),
        };
        headers.insert(header::ACCEPT, http::HeaderValue::from_static(accept));
        self.send_with(headers, wire, http).await
    }

    async fn send_with(
        &self,
        headers: HeaderMap,
        wire: &WireRequest,
        http: Option<&HttpClient>,
    ) -> Result<Response<Incoming>, Status> {
        let mut renewed = false;
        let mut tries = 0;
        loop {
            if let Some(throttle) = &self.throttle {
                throttle.turn().await;
            }
            tries += 1;
            let started = tokio::time::Instant::now();
            let response = match self.try_once(&headers, wire, http).await {
                Ok(response) => response,
                Err(Failure::Broken(_)) if wire.is_read() && tries == 1 => continue,
                Err(failure) => return Err(failure.into_status(&self.base)),
            };
            let status = response.status();
            tracing::debug!(
                method = %wire.method,
                url = format_args!("{}{}", self.base, wire.path_and_query),
                status = status.as_u16(),
                took = ?started.elapsed(),
                "API request"
            );
            if status == StatusCode::UNAUTHORIZED && !renewed && self.credentials.forget().await {
                renewed = true;
                continue;
            }
            match retry_after(wire, &response).filter(|_| tries <= RETRIES_MAX) {
                Some(wait) => {
                    tracing::debug!(%status, path = wire.path_and_query, ?wait, "the server asked to retry later");
                    tokio::time::sleep(wait).await;
                }
                None => return Ok(response),
            }
        }
    }

    async fn try_once(
        &self,
        headers: &HeaderMap,
        wire: &WireRequest,
        http: Option<&HttpClient>,
    ) -> Result<Response<Incoming>, Failure> {
        let authorization = self.credentials.authorization().await.map_err(|e| Failure::Credentials(chain(&e)))?;
        if authorization.is_new_certificate {
            self.pool.reset();
        }
        let mut request =
            Request::builder().method(wire.method.clone()).uri(format!("{}{}", self.base, wire.path_and_query));
        if let Some(content_type) = wire.content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let mut request = request.body(Full::new(wire.body.clone())).map_err(|e| Failure::Request(chain(&e)))?;
        let slot = request.headers_mut();
        for (name, value) in headers {
            slot.append(name, value.clone());
        }
        slot.insert(header::USER_AGENT, self.user_agent.clone());
        if let Some(value) = authorization.header {
            slot.insert(header::AUTHORIZATION, value);
        }
        let http = http.cloned().unwrap_or_else(|| self.pool.for_request());
        match tokio::time::timeout(self.request_timeout, http.request(request)).await {
            Err(_) => Err(Failure::Timeout(self.request_timeout)),
            Ok(Ok(response)) => Ok(response),
            Ok(Err(e)) if e.is_connect() => Err(Failure::Connect(chain(&e))),
            Ok(Err(e)) => Err(Failure::Broken(chain(&e))),
        }
    }

    async fn read_body(&self, body: Incoming) -> Result<Bytes, Status> {
        let reading = Limited::new(body, PAGE_BYTES_MAX).collect();
        match tokio::time::timeout(self.request_timeout, reading).await {
            Err(_) => Err(Failure::Timeout(self.request_timeout).into_status(&self.base)),
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(e)) if e.is::<LengthLimitError>() => {
                Err(wire::too_large(format!("{} sends more than {PAGE_BYTES_MAX} bytes", self.base)))
            }
            Ok(Err(e)) => Err(Failure::Broken(chain(e.as_ref())).into_status(&self.base)),
        }
    }
}

#[async_trait]
impl Backend for Remote {
    async fn call(&self, identity: &Identity, request: ApiCall) -> Result<Reply, Status> {
        let is_list = matches!(request.request, ApiRequest::List(_));
        let wire = wire::encode_call(request);
        let response = self.send(identity, &wire, None).await?;
        let (parts, body) = response.into_parts();
        let body = self.read_body(body).await?;
        wire::decode_reply(parts.status.as_u16(), is_list, &parts.headers, &body, |left_out| {
            self.unreadable.note(&self.base, left_out.text, &left_out.error);
        })
    }

    async fn watch(&self, identity: &Identity, request: WatchCall) -> Result<WatchEvents, Status> {
        let wire = wire::encode_watch(&request);
        let (http, place) = self.pool.for_watch();
        let accept = if request.as_table { wire::TABLE } else { wire::JSON };
        let response = self.send_accepting(accept, identity, &wire, Some(&http)).await?;
        let code = response.status().as_u16();
        if code != 200 {
            let body = self.read_body(response.into_body()).await?;
            return Err(Status::from_response(code, &body));
        }
        let decoder = EventDecoder::new({
            let (unreadable, base) = (Arc::clone(&self.unreadable), self.base.clone());
            move |text, error| unreadable.note(&base, text, error)
        });
        Ok(Box::pin(events_of(response.into_body(), decoder, place, self.base.clone())))
    }

    async fn raw(&self, identity: &Identity, request: Request<Bytes>) -> Result<Response<Bytes>, Status> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |p| p.as_str()).to_owned();
        let wire = WireRequest { method: parts.method, path_and_query: path, content_type: None, body };
        let mut headers = parts.headers;
        if let Some(user) = &identity.impersonated {
            headers.extend(wire::impersonation_headers(user)?);
        }
        let (parts, body) = self.send_with(headers, &wire, None).await?.into_parts();
        Ok(Response::from_parts(parts, self.read_body(body).await?))
    }

    async fn upgrade(&self, identity: &Identity, request: Request<Bytes>) -> Result<Upgraded, Status> {
        let unreachable = |problem: String| Failure::Connect(problem).into_status(&self.base);
        let authorization = self.credentials.authorization().await;
        let authorization = authorization.map_err(|e| Failure::Credentials(chain(&e)).into_status(&self.base))?;
        let stream = open_http1_as(&self.config, Arc::clone(&self.identity)).await;
        let stream = stream.map_err(|e| unreachable(chain(&e)))?;
        let mut request = request.map(Full::new);
        let uri: Uri = self.base.parse().map_err(|_| Status::internal("the server address is no URL"))?;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let path = format!("{}{path}", uri.path().trim_end_matches('/'));
        *request.uri_mut() = path.parse().map_err(|_| Status::bad_request("not a path"))?;
        let headers = request.headers_mut();
        let host = uri.authority().map_or("", |authority| authority.as_str());
        headers.insert(header::HOST, host.parse().map_err(|_| Status::internal("the server has no host name"))?);
        headers.insert(header::USER_AGENT, self.user_agent.clone());
        if let Some(user) = &identity.impersonated {
            headers.extend(wire::impersonation_headers(user)?);
        }
        if let Some(value) = authorization.header {
            headers.insert(header::AUTHORIZATION, value);
        }
        let opened = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = opened.map_err(|e| unreachable(chain(&e)))?;
        tokio::spawn(connection.with_upgrades());
        let answered = tokio::time::timeout(self.request_timeout, sender.send_request(request)).await;
        let answered = answered.map_err(|_| Failure::Timeout(self.request_timeout).into_status(&self.base))?;
        let response = answered.map_err(|e| Failure::Broken(chain(&e)).into_status(&self.base))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let code = response.status().as_u16();
            return Err(Status::from_response(code, &self.read_body(response.into_body()).await?));
        }
        let headers = response.headers().clone();
        let upgraded = hyper::upgrade::on(response).await.map_err(|e| unreachable(chain(&e)))?;
        Ok(Upgraded { headers, stream: Box::new(TokioIo::new(upgraded)) })
    }

    fn unreadable_objects(&self) -> u64 {
        self.unreadable.count.load(Ordering::Relaxed)
    }

    fn use_certificate(&self, certificate: &[u8], key: &[u8]) -> Result<(), Status> {
        let set = self.identity.set(certificate, key);
        set.map_err(|e| Status::bad_request(format!("the certificate cannot be used: {}", chain(&e))))?;
        self.pool.reset();
        Ok(())
    }
}

/// The events in a response body. It ends with the body; a connection that breaks says so in a last event.
fn events_of(
    body: Incoming,
    decoder: EventDecoder,
    place: WatchSlot,
    base: String,
) -> impl futures::Stream<Item = WatchEvent> + Send {
    struct State {
        body: Option<Incoming>,
        decoder: EventDecoder,
        ready: VecDeque<WatchEvent>,
        _place: WatchSlot,
    }
    let state = State { body: Some(body), decoder, ready: VecDeque::new(), _place: place };
    stream::unfold((state, base), |(mut state, base)| async move {
        loop {
            if let Some(event) = state.ready.pop_front().or_else(|| state.decoder.next_event()) {
                if matches!(event, WatchEvent::Error(_)) {
                    state.body = None;
                    state.decoder.clear();
                }
                return Some((event, (state, base)));
            }
            match state.body.as_mut()?.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        state.decoder.push(&data);
                    }
                }
                Some(Err(e)) => {
                    state.body = None;
                    state.ready.push_back(WatchEvent::Error(Failure::Broken(chain(&e)).into_status(&base)));
                }
                None => {
                    state.body = None;
                    state.ready.extend(state.decoder.finish());
                }
            }
        }
    })
}

/// The reason for a missing response.
enum Failure {
    Credentials(String),
    Request(String),
    Connect(String),
    /// After the connection was open: the server may have acted on the request.
    Broken(String),
    Timeout(Duration),
}

impl Failure {
    fn into_status(self, base: &str) -> Status {
        let (code, reason, text) = match self {
            Failure::Credentials(text) => return Status::new(401, "Unauthorized", text),
            Failure::Request(text) => return Status::bad_request(text),
            Failure::Connect(text) => (503, "ServiceUnavailable", format!("cannot connect to {base}: {text}")),
            Failure::Broken(text) => (503, "ServiceUnavailable", format!("the connection to {base} broke: {text}")),
            Failure::Timeout(time) => (504, "Timeout", format!("no answer from {base} within {time:?}")),
        };
        let cause = StatusCause { reason: UNREACHABLE.to_owned(), message: text.clone(), ..StatusCause::default() };
        Status::new(code, reason, text).with_details(StatusDetails { causes: vec![cause], ..StatusDetails::default() })
    }
}

/// The delay before a retry, if one is allowed. A 429 was rejected before anything was done; after a 503 only reads
/// are safe.
fn retry_after(wire: &WireRequest, response: &Response<Incoming>) -> Option<Duration> {
    let may = match response.status() {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::SERVICE_UNAVAILABLE => wire.is_read(),
        _ => false,
    };
    let seconds: u64 = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    may.then(|| Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|a| a.is_loopback())
}

/// An error with its causes: hyper keeps the details in them.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
