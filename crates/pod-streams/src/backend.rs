//! The trait of a pod runtime; simulated nodes and real containers implement it.

use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// A pod and one of its containers. The uid protects against a new pod of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRef {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Always a container of the pod: the caller has resolved the default.
    pub container: String,
}

/// Query of `pods/NAME/log`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub tail_lines: Option<u64>,
    pub limit_bytes: Option<u64>,
    pub since_seconds: Option<i64>,
    /// RFC 3339.
    pub since_time: Option<String>,
}

/// Ends with the log, or with `follow` when the container ends.
pub type LogStream = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    pub command: Vec<String>,
    pub tty: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attach {
    pub tty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    pub width: u16,
    pub height: u16,
}

/// The caller's side of a running command; streams not requested are `None`.
pub struct Streams {
    pub stdin: Option<Box<dyn AsyncRead + Send + Unpin>>,
    pub stdout: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pub stderr: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pub resize: mpsc::Receiver<TerminalSize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    Success,
    Code(i32),
    /// The command could not be run, or its result is unknown.
    Failed(String),
}

/// Both directions of one connection to a port of a pod.
pub trait Tunnel: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Tunnel for T {}

/// An error before streaming, with its HTTP status.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub code: u16,
    pub message: String,
}

impl Refusal {
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

#[async_trait]
pub trait PodBackend: Send + Sync {
    async fn logs(&self, pod: &PodRef, options: LogOptions) -> Result<LogStream, Refusal>;

    /// Returns when the command has ended.
    async fn exec(&self, pod: &PodRef, exec: Exec, streams: Streams) -> Result<ExitStatus, Refusal>;

    /// Returns when the container has ended or the caller has disconnected.
    async fn attach(&self, pod: &PodRef, attach: Attach, streams: Streams) -> Result<ExitStatus, Refusal>;

    async fn port_forward(&self, pod: &PodRef, port: u16) -> Result<Box<dyn Tunnel>, Refusal>;
}
