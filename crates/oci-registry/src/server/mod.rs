//! The registry over HTTP: OCI distribution 1.1, which is Docker's registry API v2.

mod answer;
mod blobs;
mod control;
mod listing;
mod manifests;
mod query;
mod route;
#[cfg(test)]
mod tests;
mod uploads;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use control::{ControlError, collect};
pub(crate) use query::encode as percent_encode;

use crate::store::{GcOptions, Limits, Store, StoreError};
use answer::{Body, Fault};
use query::Query;
use route::Route;

/// A client that does not finish its handshake in this time is dropped.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
const HEADERS_MAX: Duration = Duration::from_secs(30);
/// More wait to be accepted.
const CONNECTIONS_MAX: usize = 1_024;
const STREAMS_MAX: u32 = 100;
/// How long requests may go on after the registry was told to stop.
const DRAIN_MAX: Duration = Duration::from_secs(10);

pub struct Settings {
    pub data_dir: PathBuf,
    /// Port 0 picks a free one.
    pub bind: SocketAddr,
    /// Certificate and key, as PEM files; plain HTTP without.
    pub tls: Option<(PathBuf, PathBuf)>,
    pub limits: Limits,
    /// How often garbage is collected; never, when zero.
    pub gc_every: Duration,
    pub gc: GcOptions,
    pub deletes: bool,
}

impl Settings {
    pub fn new(data_dir: &Path, bind: SocketAddr) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            bind,
            tls: None,
            limits: Limits::default(),
            gc_every: Duration::from_secs(3600),
            gc: GcOptions { grace: Duration::from_secs(3600), untagged: false, dry_run: false },
            deletes: true,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address}")]
    Bind { address: SocketAddr, source: std::io::Error },
    #[error("cannot use the certificate {path}: {why}")]
    Tls { path: String, why: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A registry that takes connections.
pub struct Running {
    pub address: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
    /// Kept to the end, so that the directory is free when the registry says it has stopped.
    store: Arc<Store>,
}

impl Running {
    /// Waits until it has stopped, which it does when its token is cancelled.
    pub async fn stopped(self) {
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a part of the registry broke");
            }
        }
        drop(self.store);
    }
}

/// What every request needs.
pub(crate) struct Server {
    store: Arc<Store>,
    deletes: bool,
}

/// Opens the store and listens; returns once connections are taken.
pub async fn start(settings: Settings, cancel: CancellationToken) -> Result<Running, StartError> {
    let tls = settings.tls.as_ref().map(|(certificate, key)| tls_config(certificate, key)).transpose()?;
    let store = Arc::new(Store::open(&settings.data_dir, settings.limits.clone())?);
    let failed = |source| StartError::Bind { address: settings.bind, source };
    let listener = TcpListener::bind(settings.bind).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let server = Arc::new(Server { store: store.clone(), deletes: settings.deletes });
    let mut tasks = vec![
        tokio::spawn(accept(server, listener, tls.map(TlsAcceptor::from), cancel.clone())),
        tokio::spawn(keep_house(store.clone(), settings.gc, settings.gc_every, cancel.clone())),
    ];
    match control::listen(store.clone(), cancel) {
        Ok(task) => tasks.push(task),
        // Collection on demand then needs a stop; everything else works.
        Err(error) => tracing::warn!(%error, "no control socket: `registry gc` cannot reach this process"),
    }
    Ok(Running { address, tasks, store })
}

fn tls_config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, StartError> {
    let failed = |path: &Path, why: String| StartError::Tls { path: path.display().to_string(), why };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain = chain.map_err(|error| failed(certificate, error.to_string()))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret));
    let mut config = config.map_err(|error| failed(certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Collects garbage and forgets idle uploads, now and then.
async fn keep_house(store: Arc<Store>, gc: GcOptions, every: Duration, cancel: CancellationToken) {
    if every.is_zero() {
        return cancel.cancelled().await;
    }
    while cancel.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
        let (store, gc) = (store.clone(), gc.clone());
        match tokio::task::spawn_blocking(move || store.collect(&gc, SystemTime::now())).await {
            Ok(Ok(report)) => tracing::info!(
                blobs = report.blobs_removed,
                bytes = report.bytes_freed,
                uploads = report.uploads_expired,
                "collected garbage"
            ),
            Ok(Err(error)) => tracing::warn!(error = %crate::said(&error), "garbage was not collected"),
            Err(error) => tracing::error!(%error, "garbage was not collected"),
        }
    }
}

async fn accept(server: Arc<Server>, listener: TcpListener, tls: Option<TlsAcceptor>, cancel: CancellationToken) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Some(Ok(place)) = cancel.run_until_cancelled(room.clone().acquire_owned()).await else { break };
        let Some(accepted) = cancel.run_until_cancelled(listener.accept()).await else { break };
        let (stream, _) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: the connections we have must get a chance to end.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let (server, tls, watcher) = (server.clone(), tls.clone(), graceful.watcher());
        tokio::spawn(async move {
            let _place = place;
            let answer = move |request| answer(server.clone(), request);
            match tls {
                None => serve(stream, watcher, answer).await,
                Some(tls) => match tokio::time::timeout(HANDSHAKE_MAX, tls.accept(stream)).await {
                    Ok(Ok(stream)) => serve(stream, watcher, answer).await,
                    Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                    Err(_) => tracing::debug!("TLS handshake took too long"),
                },
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_MAX, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still running after {DRAIN_MAX:?} and were cut off");
    }
}

/// Answers the requests of one connection.
async fn serve<S, A, F>(stream: S, watcher: Watcher, answer: A)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn(Request<Incoming>) -> F + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let service = service_fn(move |request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS_MAX);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS_MAX);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%error, "connection ended");
    }
}

async fn answer(server: Arc<Server>, request: Request<Incoming>) -> Response<Body> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = match dispatch(&server, request).await {
        Ok(response) => response,
        Err(fault) => fault.into_response(),
    };
    let status = response.status().as_u16();
    if matches!(method, Method::GET | Method::HEAD | Method::PATCH) {
        tracing::debug!(%method, path, status, "answered");
    } else {
        tracing::info!(%method, path, status, "answered");
    }
    answer::with_version(response)
}

async fn dispatch(server: &Arc<Server>, request: Request<Incoming>) -> Result<Response<Body>, Fault> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    // Clients of registries are programs; a page in a browser has no business writing here.
    if !is_read && request.headers().contains_key(http::header::ORIGIN) {
        return Err(Fault::denied("web pages may not write to this registry"));
    }
    if *request.method() == Method::DELETE && !server.deletes {
        return Err(Fault::unsupported("deletes are switched off in this registry"));
    }
    let query = Query::of(request.uri());
    match Route::parse(request.uri().path())? {
        Route::Ping => listing::ping(&request),
        Route::Catalog => listing::catalog(server, &request, &query).await,
        Route::Tags(repository) => listing::tags(server, &request, &query, repository).await,
        Route::Referrers(repository, subject) => {
            listing::referrers(server, &request, &query, repository, subject).await
        }
        Route::Blob(repository, digest) => blobs::answer(server, &request, repository, digest).await,
        Route::Uploads(repository) => uploads::begin(server, request, &query, repository).await,
        Route::Upload(repository, id) => uploads::answer(server, request, &query, repository, id).await,
        Route::Manifest(repository, selector) => manifests::answer(server, request, &query, repository, selector).await,
    }
}

impl Server {
    /// Runs what waits for the disk where waiting is no harm.
    async fn on_disk<T, F>(&self, work: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    {
        let store = self.store.clone();
        match tokio::task::spawn_blocking(move || work(&store)).await {
            Ok(done) => Ok(done?),
            Err(broken) => Err(Fault::internal(&broken)),
        }
    }
}
