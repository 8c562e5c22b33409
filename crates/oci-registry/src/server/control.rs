//! A socket in the data directory to request garbage collection from a running registry.
//!
//! Access to the socket is the only authentication: it belongs to the owner of the data and is not on the network.

use std::convert::Infallible;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::answer::{Body, OciError, answer, full};
use crate::store::{GcOptions, GcReport, Store, StoreError, StoreLimits};

/// Length of a socket path on Linux without the NUL at its end.
const SOCKET_PATH_LEN_MAX: usize = 107;
const MESSAGE_LEN_MAX: usize = 64 * 1024;
const HEADER_MAX: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the registry that holds {dir} does not answer at its control socket")]
    Unreachable { dir: String, source: std::io::Error },
    #[error("the registry answered {0}")]
    Refused(String),
}

/// Collects garbage in a directory: directly if no registry uses it, otherwise through the registry that does.
pub async fn collect(dir: &Path, options: &GcOptions) -> Result<GcReport, ControlError> {
    let (root, gc) = (dir.to_owned(), options.clone());
    let alone = move || Store::open(&root, StoreLimits::default())?.collect(&gc, SystemTime::now());
    match tokio::task::spawn_blocking(alone).await {
        Ok(Err(StoreError::InUse(_))) => ask(dir, options).await,
        Ok(collected) => Ok(collected?),
        Err(broken) => Err(ControlError::Refused(broken.to_string())),
    }
}

async fn ask(dir: &Path, options: &GcOptions) -> Result<GcReport, ControlError> {
    let unreachable = |source| ControlError::Unreachable { dir: dir.display().to_string(), source };
    let (path, _handle) = reachable(dir).map_err(unreachable)?;
    let stream = UnixStream::connect(&path).await.map_err(unreachable)?;
    let broken = |error: hyper::Error| ControlError::Refused(error.to_string());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let connection = tokio::spawn(connection);
    let body = serde_json::to_vec(options).expect("a duration and two switches are JSON");
    let request = Request::post("/gc").header("host", "registry").body(Full::new(bytes::Bytes::from(body)));
    let request = request.expect("a request of constants is well formed");
    let response = sender.send_request(request).await.map_err(broken)?;
    let (status, body) = (response.status(), response.into_body());
    let body = Limited::new(body, MESSAGE_LEN_MAX).collect().await;
    connection.abort();
    let body = body.map_err(|error| ControlError::Refused(error.to_string()))?.to_bytes();
    match serde_json::from_slice(&body) {
        Ok(report) if status == StatusCode::OK => Ok(report),
        _ => Err(ControlError::Refused(format!("{status}: {}", String::from_utf8_lossy(&body)))),
    }
}

pub fn listen(store: Arc<Store>, cancel: CancellationToken) -> std::io::Result<JoinHandle<()>> {
    let socket = store.root().join("control.sock");
    // The store's lock is ours, so a socket that is there is a dead one.
    let _ = std::fs::remove_file(&socket);
    let (path, handle) = reachable(store.root())?;
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
    drop(handle);
    Ok(tokio::spawn(async move {
        let graceful = GracefulShutdown::new();
        while let Some(accepted) = cancel.run_until_cancelled(listener.accept()).await {
            let Ok((stream, _)) = accepted else { continue };
            tokio::spawn(serve(store.clone(), stream, graceful.watcher()));
        }
        let _ = std::fs::remove_file(&socket);
        graceful.shutdown().await;
    }))
}

/// A path to the socket that is short enough, however long the directory's is; good while the handle is open.
fn reachable(dir: &Path) -> std::io::Result<(PathBuf, Option<std::fs::File>)> {
    use std::os::fd::AsRawFd;
    let path = dir.join("control.sock");
    if path.as_os_str().len() <= SOCKET_PATH_LEN_MAX {
        return Ok((path, None));
    }
    let handle = std::fs::File::open(dir)?;
    Ok((PathBuf::from(format!("/proc/self/fd/{}/control.sock", handle.as_raw_fd())), Some(handle)))
}

async fn serve(store: Arc<Store>, stream: UnixStream, watcher: Watcher) {
    let service = service_fn(move |request| {
        let response = control(store.clone(), request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_MAX);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "control connection ended");
    }
}

async fn control(store: Arc<Store>, request: Request<Incoming>) -> Response<Body> {
    match gc(store, request).await {
        Ok(report) => {
            let report = serde_json::to_vec(&report).expect("five numbers are JSON");
            answer(StatusCode::OK, [], full(report))
        }
        Err(fault) => fault.into_response(),
    }
}

async fn gc(store: Arc<Store>, request: Request<Incoming>) -> Result<GcReport, OciError> {
    if *request.method() != Method::POST || request.uri().path() != "/gc" {
        return Err(OciError::new(StatusCode::NOT_FOUND, "UNSUPPORTED", "unknown path"));
    }
    let body = Limited::new(request.into_body(), MESSAGE_LEN_MAX).collect().await;
    let body = body.map_err(|error| OciError::bad("UNSUPPORTED", error.to_string()))?.to_bytes();
    let options: GcOptions =
        serde_json::from_slice(&body).map_err(|error| OciError::bad("UNSUPPORTED", error.to_string()))?;
    match tokio::task::spawn_blocking(move || store.collect(&options, SystemTime::now())).await {
        // The caller owns the data and may read the full error.
        Ok(collected) => {
            collected.map_err(|error| OciError::new(StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN", crate::said(&error)))
        }
        Err(broken) => Err(OciError::internal(&broken)),
    }
}
