//! Client of the REST API of LXD and Incus over their unix socket, including operations.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;

/// Timeout of a plain request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Duration of one long poll; the daemon answers when the operation finishes or this has passed.
const POLL_SECONDS: u64 = 20;
/// Timeout of an operation, such as unpacking a large image on a slow disk.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(600);
/// Responses are held in memory; files of machines and recorded output are the largest.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Known sockets of the daemons, in the order they are tried.
pub const SOCKETS: &[&str] =
    &["/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd/unix.socket", "/var/lib/incus/unix.socket"];

pub type Body = UnsyncBoxBody<Bytes, std::io::Error>;

#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error("{} does not answer: {why}", socket.display())]
    Unreachable { socket: PathBuf, why: String },
    #[error("{message}")]
    Refused { code: u16, message: String },
}

impl ApiError {
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }

    /// Reports whether it was created concurrently.
    pub fn already_exists(&self) -> bool {
        matches!(self, Self::Refused { code, message } if *code == 409 || message.contains("already exists"))
    }
}

/// A daemon behind its socket.
#[derive(Clone, Debug)]
pub struct Api {
    socket: PathBuf,
}

/// A file system entry to create in an instance.
#[derive(Clone, Debug)]
pub enum InstanceFile {
    File {
        content: Bytes,
        mode: u32,
    },
    Folder,
    /// To another path inside.
    Link(String),
}

impl Api {
    pub fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        Ok(self.json(Method::GET, path, None).await?["metadata"].take())
    }

    /// `None` if it does not exist.
    pub async fn find(&self, path: &str) -> Result<Option<Value>, ApiError> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a change and waits for its background operation, if any. Returns the metadata of the operation.
    pub async fn change(&self, method: Method, path: &str, body: Value) -> Result<Value, ApiError> {
        let answer = self.json(method, path, Some(body)).await?;
        self.finish(answer).await
    }

    pub async fn delete(&self, path: &str) -> Result<(), ApiError> {
        match self.change(Method::DELETE, path, Value::Null).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_missing() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Streams a body, for images.
    pub async fn upload(&self, path: &str, headers: &[(&str, String)], body: Body) -> Result<Value, ApiError> {
        let mut request = Request::post(path)
            .header(header::HOST, "machines")
            .header(header::CONTENT_TYPE, "application/octet-stream");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(body).map_err(|error| self.unreachable(error))?;
        let response = self.send(request, OPERATION_TIMEOUT).await?;
        let answer = self.read_json(response).await?;
        self.finish(answer).await
    }

    pub async fn read_file(&self, path: &str) -> Result<Option<Vec<u8>>, ApiError> {
        let response = self.send(self.request(Method::GET, path, None)?, REQUEST_TIMEOUT).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !response.status().is_success() {
            return Err(refused(response.status(), &self.collect(response).await?));
        }
        Ok(Some(self.collect(response).await?.to_vec()))
    }

    /// Sends the headers under the names of both programs.
    pub async fn push(&self, path: &str, entry: InstanceFile) -> Result<(), ApiError> {
        let (kind, mode, body) = match entry {
            InstanceFile::File { content, mode } => ("file", mode, full(content)),
            InstanceFile::Folder => ("directory", 0o755, full(Bytes::new())),
            InstanceFile::Link(target) => ("symlink", 0o777, full(Bytes::from(target))),
        };
        let mut request = Request::post(path)
            .header(header::HOST, "machines")
            // LXD parses a body of any other type as a form and stores nothing.
            .header(header::CONTENT_TYPE, "application/octet-stream");
        for program in ["LXD", "Incus"] {
            request = request
                .header(format!("X-{program}-type"), kind)
                .header(format!("X-{program}-mode"), format!("{mode:04o}"))
                .header(format!("X-{program}-uid"), "0")
                .header(format!("X-{program}-gid"), "0")
                .header(format!("X-{program}-write"), "overwrite");
        }
        let request = request.body(body).map_err(|error| self.unreachable(error))?;
        let response = self.send(request, OPERATION_TIMEOUT).await?;
        self.read_json(response).await.map(|_| ())
    }

    async fn json(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, ApiError> {
        let response = self.send(self.request(method, path, body)?, REQUEST_TIMEOUT).await?;
        self.read_json(response).await
    }

    fn request(&self, method: Method, path: &str, body: Option<Value>) -> Result<Request<Body>, ApiError> {
        let body = match body {
            Some(Value::Null) | None => Bytes::new(),
            Some(value) => Bytes::from(value.to_string()),
        };
        Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "machines")
            .header(header::CONTENT_TYPE, "application/json")
            .body(full(body))
            .map_err(|error| self.unreachable(error))
    }

    async fn finish(&self, mut answer: Value) -> Result<Value, ApiError> {
        if answer["type"] != "async" {
            return Ok(answer["metadata"].take());
        }
        let operation = answer["operation"].as_str().unwrap_or_default().to_owned();
        let start = Instant::now();
        loop {
            let wait = format!("{operation}/wait?timeout={POLL_SECONDS}");
            let mut state = self.get(&wait).await?;
            match state["status_code"].as_u64() {
                Some(200) => return Ok(state["metadata"].take()),
                Some(100..=199) if start.elapsed() < OPERATION_TIMEOUT => {}
                code => {
                    let said = state["err"].as_str().filter(|said| !said.is_empty());
                    let message = said.unwrap_or("the operation timed out").to_owned();
                    return Err(ApiError::Refused { code: code.unwrap_or(500) as u16, message });
                }
            }
        }
    }

    async fn read_json(&self, response: Response<Incoming>) -> Result<Value, ApiError> {
        let status = response.status();
        let bytes = self.collect(response).await?;
        if !status.is_success() {
            return Err(refused(status, &bytes));
        }
        serde_json::from_slice(&bytes).map_err(|error| self.unreachable(error))
    }

    async fn collect(&self, response: Response<Incoming>) -> Result<Bytes, ApiError> {
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
        Ok(body.collect().await.map_err(|error| self.unreachable(error))?.to_bytes())
    }

    /// One connection per request: they are cheap on this machine, and none can be stale.
    async fn send(&self, request: Request<Body>, limit: Duration) -> Result<Response<Incoming>, ApiError> {
        let exchange = async {
            let stream = UnixStream::connect(&self.socket).await.map_err(|error| self.unreachable(error))?;
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
                .await
                .map_err(|error| self.unreachable(error))?;
            // Ends with the response, or with this future.
            tokio::spawn(connection);
            sender.send_request(request).await.map_err(|error| self.unreachable(error))
        };
        match tokio::time::timeout(limit, exchange).await {
            Ok(result) => result,
            Err(_) => Err(self.unreachable(format!("no answer within {limit:?}"))),
        }
    }

    fn unreachable(&self, why: impl std::fmt::Display) -> ApiError {
        ApiError::Unreachable { socket: self.socket.clone(), why: why.to_string() }
    }
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn refused(status: StatusCode, bytes: &[u8]) -> ApiError {
    let answer: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let message = answer["error"].as_str().filter(|said| !said.is_empty());
    let message = message.map_or_else(|| String::from_utf8_lossy(bytes).trim().to_owned(), str::to_owned);
    ApiError::Refused { code: status.as_u16(), message }
}

/// The reason why no LXD or Incus daemon can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DaemonError {
    #[error("this user has no access to {}", .0.display())]
    NoAccess(PathBuf),
    #[error("no daemon answers on {} ({problem})", .socket.display())]
    Stopped { socket: PathBuf, problem: String },
    #[error("neither LXD nor Incus runs on this machine (no {0})")]
    Missing(String),
}

impl DaemonError {
    pub fn remedy(&self) -> String {
        match self {
            Self::NoAccess(socket) => {
                let group = if socket.starts_with("/var/lib/incus") { "incus-admin" } else { "lxd" };
                format!("run as root, or: usermod -aG {group} $USER, then log in again")
            }
            Self::Stopped { socket, .. } => format!("start it: systemctl start {}", daemon_of(socket)),
            Self::Missing(_) => {
                "install one as root: apt-get install lxd dnsmasq-base (or incus), then start it".to_owned()
            }
        }
    }
}

/// Returns the first accessible socket.
pub fn find_socket(named: Option<&Path>) -> Result<PathBuf, DaemonError> {
    let candidates: Vec<PathBuf> = match named {
        Some(path) => vec![path.to_owned()],
        None => SOCKETS.iter().map(PathBuf::from).collect(),
    };
    let mut stopped = None;
    for path in &candidates {
        match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => return Ok(path.clone()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(DaemonError::NoAccess(path.clone()));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => stopped = Some(DaemonError::Stopped { socket: path.clone(), problem: error.to_string() }),
        }
    }
    let looked: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
    Err(stopped.unwrap_or_else(|| DaemonError::Missing(looked.join(", "))))
}

fn daemon_of(socket: &Path) -> &'static str {
    match socket {
        path if path.starts_with("/var/snap") => "snap.lxd.daemon",
        path if path.starts_with("/var/lib/incus") => "incus",
        _ => "lxd",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_message_of_the_daemon() {
        let error =
            refused(StatusCode::NOT_FOUND, br#"{"type":"error","error":"Instance not found","error_code":404}"#);
        assert!(error.is_missing());
        assert_eq!(error.to_string(), "Instance not found");
        assert_eq!(refused(StatusCode::BAD_GATEWAY, b"plain").to_string(), "plain");
        let taken = refused(StatusCode::BAD_REQUEST, br#"{"error":"Instance \"a\" already exists"}"#);
        assert!(taken.already_exists() && !error.already_exists());
    }

    #[test]
    fn without_a_daemon_the_remedy_names_the_package() {
        let error = find_socket(Some(Path::new("/nonexistent/unix.socket"))).unwrap_err();
        let (problem, remedy) = (error.to_string(), error.remedy());
        assert!(problem.contains("/nonexistent/unix.socket"), "{problem}");
        assert!(remedy.contains("apt-get install lxd"), "{remedy}");
    }

    #[test]
    fn a_dead_socket_is_distinguished_from_a_missing_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("unix.socket");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let error = find_socket(Some(&path)).unwrap_err();
        let (problem, remedy) = (error.to_string(), error.remedy());
        assert!(problem.starts_with("no daemon answers on"), "{problem}");
        assert_eq!(remedy, "start it: systemctl start lxd");
    }
}
