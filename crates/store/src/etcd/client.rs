//! Calls to an etcd cluster: several endpoints, a deadline per call, and errors classified by what they prove.

use std::error::Error as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::error::{Error, Result};
use crate::etcd::{EtcdOptions, messages};

/// Pause between two rounds over all endpoints.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const WINDOW_BYTES: u32 = 8 << 20;

/// The error of a call.
#[derive(Debug)]
pub(crate) enum Failure {
    /// etcd answered with an error: the call had no effect.
    Answered(Status),
    /// The call never reached etcd.
    Unsent(String),
    /// No response: the call may have taken effect, or may still do so.
    Ambiguous(String),
}

impl Failure {
    /// For calls without an effect, where a missing response is harmless.
    pub fn into_error(self) -> Error {
        match self {
            Failure::Answered(status) => answered(&status),
            Failure::Unsent(reason) | Failure::Ambiguous(reason) => Error::Unavailable(format!("etcd: {reason}")),
        }
    }
}

// etcd distinguishes its errors only by their text: these are from api/v3rpc/rpctypes/error.go (3.5), which its own clients compare.
const SPACE_EXCEEDED: &str = "database space exceeded";
const COMPACTED: &str = "required revision has been compacted";
const FUTURE_REVISION: &str = "required revision is a future revision";
const NO_LEADER: &str = "etcdserver: no leader";
const TOO_MANY_REQUESTS: &str = "too many requests";

/// Converts an error of etcd to a store error. Compaction is handled where the requested revision is known.
pub(crate) fn answered(status: &Status) -> Error {
    let message = status.message();
    match status.code() {
        Code::ResourceExhausted if message.contains(SPACE_EXCEEDED) => Error::NoSpace(format!("etcd: {message}")),
        Code::InvalidArgument => Error::Invalid(format!("etcd: {message}")),
        _ => Error::Unavailable(format!("etcd: {message}")),
    }
}

pub(crate) fn is_compacted(status: &Status) -> bool {
    status.code() == Code::OutOfRange && status.message().contains(COMPACTED)
}

pub(crate) fn is_future(status: &Status) -> bool {
    status.code() == Code::OutOfRange && status.message().contains(FUTURE_REVISION)
}

pub(crate) struct Client {
    channels: Vec<Channel>,
    /// The endpoint that worked last.
    preferred: AtomicUsize,
    timeout: Duration,
}

impl Client {
    pub fn new(options: &EtcdOptions) -> Result<Client> {
        let invalid = |error: tonic::transport::Error| {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            Error::Invalid(format!("etcd endpoint: {error}{cause}"))
        };
        if options.endpoints.is_empty() {
            return Err(Error::Invalid("no etcd endpoint given".into()));
        }
        let mut channels = Vec::new();
        for address in &options.endpoints {
            let mut endpoint = Endpoint::from_shared(address.clone())
                .map_err(invalid)?
                .connect_timeout(CONNECT_TIMEOUT)
                .tcp_nodelay(true)
                .initial_stream_window_size(WINDOW_BYTES)
                .initial_connection_window_size(2 * WINDOW_BYTES)
                .http2_keep_alive_interval(Duration::from_secs(10))
                .keep_alive_timeout(Duration::from_secs(5));
            match &options.tls {
                Some(tls) => {
                    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.ca_pem));
                    if let Some((certificate, key)) = &tls.identity_pem {
                        config = config.identity(Identity::from_pem(certificate, key));
                    }
                    endpoint = endpoint.tls_config(config).map_err(invalid)?;
                }
                None if address.starts_with("https:") => {
                    return Err(Error::Invalid(format!("etcd endpoint {address} needs a CA certificate")));
                }
                None => {}
            }
            channels.push(endpoint.connect_lazy());
        }
        Ok(Client { channels, preferred: AtomicUsize::new(0), timeout: options.timeout })
    }

    /// For idempotent calls: tries one endpoint after the other until one responds or the deadline passes.
    pub async fn read<M, R>(&self, path: &'static str, message: M) -> Result<R, Failure>
    where
        M: prost::Message + Clone + 'static,
        R: prost::Message + Default + 'static,
    {
        let deadline = Instant::now() + self.timeout;
        self.until(
            deadline,
            || self.once(path, message.clone(), deadline),
            |failure| !matches!(failure, Failure::Answered(_)),
        )
        .await
    }

    /// For calls with an effect: retried only while it is certain that etcd has not seen them.
    pub async fn write<M, R>(&self, path: &'static str, message: M) -> Result<R, Failure>
    where
        M: prost::Message + Clone + 'static,
        R: prost::Message + Default + 'static,
    {
        let deadline = Instant::now() + self.timeout;
        self.until(
            deadline,
            || self.once(path, message.clone(), deadline),
            |failure| matches!(failure, Failure::Unsent(_)),
        )
        .await
    }

    async fn until<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        deadline: Instant,
        mut call: impl FnMut() -> F,
        may_repeat: impl Fn(&Failure) -> bool,
    ) -> Result<T, Failure> {
        let mut pause = PAUSE_MIN;
        for attempt in 1.. {
            let failure = match call().await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if !may_repeat(&failure) || Instant::now() + pause >= deadline {
                return Err(failure);
            }
            if attempt % self.channels.len() == 0 {
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(PAUSE_MAX);
            }
        }
        Err(Failure::Unsent("no endpoint".into()))
    }

    async fn once<M, R>(&self, path: &'static str, message: M, deadline: Instant) -> Result<R, Failure>
    where
        M: prost::Message + 'static,
        R: prost::Message + Default + 'static,
    {
        let (endpoint, mut grpc) = self.grpc();
        let call = async {
            grpc.ready().await.map_err(|error| Failure::Unsent(error.to_string()))?;
            let codec = ProstCodec::<M, R>::default();
            let answer = grpc.unary(Request::new(message), PathAndQuery::from_static(path), codec).await;
            answer.map(tonic::Response::into_inner).map_err(classify)
        };
        // Each endpoint gets a share of the time, so that one that hangs does not use up all of it.
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left.min((self.timeout / self.channels.len() as u32).max(Duration::from_secs(2)));
        let result = match tokio::time::timeout(share, call).await {
            Ok(result) => result,
            Err(_) => Err(Failure::Ambiguous(format!("no answer within {share:?}"))),
        };
        if matches!(result, Err(Failure::Unsent(_) | Failure::Ambiguous(_))) {
            self.leave(endpoint);
        }
        result
    }

    /// Opens a bidirectional stream. Also returns the endpoint, to switch away from when the stream breaks.
    pub async fn stream<M, R>(
        &self,
        path: &'static str,
        outgoing: impl futures::Stream<Item = M> + Send + 'static,
    ) -> Result<(usize, Streaming<R>), Failure>
    where
        M: prost::Message + 'static,
        R: prost::Message + Default + 'static,
    {
        let (endpoint, mut grpc) = self.grpc();
        let call = async {
            grpc.ready().await.map_err(|error| Failure::Unsent(error.to_string()))?;
            let mut request = Request::new(outgoing);
            // A member cut off from its cluster ends the stream instead of staying silent.
            request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
            let codec = ProstCodec::<M, R>::default();
            let answer = grpc.streaming(request, PathAndQuery::from_static(path), codec).await;
            answer.map(tonic::Response::into_inner).map_err(classify)
        };
        let result = match tokio::time::timeout(self.timeout, call).await {
            Ok(result) => result,
            Err(_) => Err(Failure::Ambiguous(format!("no answer within {:?}", self.timeout))),
        };
        if result.is_err() {
            self.leave(endpoint);
        }
        result.map(|stream| (endpoint, stream))
    }

    /// Directs the next call to another endpoint, unless another caller already has.
    pub fn leave(&self, endpoint: usize) {
        let next = (endpoint + 1) % self.channels.len();
        self.preferred.compare_exchange(endpoint, next, Ordering::Relaxed, Ordering::Relaxed).ok();
    }

    pub async fn status(&self) -> Result<messages::StatusResponse, Failure> {
        self.read("/etcdserverpb.Maintenance/Status", messages::StatusRequest {}).await
    }

    fn grpc(&self) -> (usize, Grpc<Channel>) {
        let endpoint = self.preferred.load(Ordering::Relaxed);
        let grpc = Grpc::new(self.channels[endpoint].clone());
        (endpoint, grpc.max_decoding_message_size(usize::MAX).max_encoding_message_size(usize::MAX))
    }
}

pub(crate) fn classify(status: Status) -> Failure {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<tonic::ConnectError>() {
            return Failure::Unsent(describe(&status));
        }
        cause = error.source();
    }
    let message = status.message();
    match status.code() {
        // Rejected before it was proposed to the cluster.
        Code::Unavailable if message == NO_LEADER => Failure::Unsent(message.to_string()),
        Code::ResourceExhausted if message.contains(TOO_MANY_REQUESTS) => Failure::Unsent(message.to_string()),
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Unknown
        | Code::Internal
        | Code::Aborted => Failure::Ambiguous(describe(&status)),
        _ => Failure::Answered(status),
    }
}

fn describe(status: &Status) -> String {
    let mut text = status.message().to_string();
    let mut cause = status.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
