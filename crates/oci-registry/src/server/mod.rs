//! The registry over HTTP: OCI distribution 1.1, which is Docker's registry API v2.

mod answer;
mod blobs;
mod control;
mod hosts;
mod listing;
mod manifests;
pub mod route;
#[cfg(test)]
mod tests;
mod uploads;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Method, Request, Response};
use hyper::body::Incoming;
use listener::{ConnectionLimits, ConnectionPeer, HttpListener, HttpSettings};
use object::query::Query;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use control::{ControlError, collect};

use crate::store::{GcOptions, Store, StoreError, StoreLimits};
use answer::{Body, OciError};
use hosts::AllowedHosts;
use route::Route;

const HTTP: HttpSettings = HttpSettings {
    header_max: Duration::from_secs(30),
    streams_max: 100,
    stream_window: 1 << 20,
    connection_window: 4 << 20,
    stream_send_buffer: 256 << 10,
    drain_max: Duration::from_secs(10),
};
/// Interval for expiring idle uploads.
const EXPIRE_UPLOADS_EVERY: Duration = Duration::from_secs(30);

pub struct RegistryConfig {
    pub data_dir: PathBuf,
    /// Port 0 picks a free one.
    pub bind: SocketAddr,
    /// Certificate and key, as PEM files; plain HTTP without.
    pub tls: Option<(PathBuf, PathBuf)>,
    pub limits: StoreLimits,
    /// Interval of garbage collection; zero disables it.
    pub gc_every: Duration,
    pub gc: GcOptions,
    pub deletes: bool,
    pub connections: ConnectionLimits,
    /// Names clients may use besides addresses and `localhost` when the registry listens on loopback.
    pub allowed_hosts: Vec<String>,
}

impl RegistryConfig {
    pub fn new(data_dir: &Path, bind: SocketAddr) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            bind,
            tls: None,
            limits: StoreLimits::default(),
            gc_every: Duration::from_secs(3600),
            gc: GcOptions { grace: Duration::from_secs(3600), untagged: false, dry_run: false },
            deletes: true,
            connections: ConnectionLimits { connections_max: 1_024, per_address_max: 512, ..Default::default() },
            allowed_hosts: Vec::new(),
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

/// A registry that accepts connections.
pub struct RunningRegistry {
    pub address: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
    /// Held until the end, so that the directory is free once the registry has stopped.
    store: Arc<Store>,
}

impl RunningRegistry {
    /// Waits until it has stopped after its token was cancelled.
    pub async fn stopped(self) {
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the registry panicked");
            }
        }
        drop(self.store);
    }
}

/// State shared by all requests.
pub(crate) struct Server {
    store: Arc<Store>,
    deletes: bool,
    hosts: AllowedHosts,
}

/// Opens the store and listens; returns once connections are taken.
pub async fn start(settings: RegistryConfig, cancel: CancellationToken) -> Result<RunningRegistry, StartError> {
    let tls = settings.tls.as_ref().map(|(certificate, key)| tls_config(certificate, key)).transpose()?;
    let store = Arc::new(Store::open(&settings.data_dir, settings.limits.clone())?);
    let failed = |source| StartError::Bind { address: settings.bind, source };
    let listener = TcpListener::bind(settings.bind).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    listener::raise_open_files_limit();
    let hosts = AllowedHosts::new(address.ip(), settings.allowed_hosts);
    let server = Arc::new(Server { store: store.clone(), deletes: settings.deletes, hosts });
    let connections =
        HttpListener { tcp: listener, tls: tls.map(TlsAcceptor::from), limits: settings.connections, http: HTTP };
    let serving = connections.run(cancel.clone(), move |peer: ConnectionPeer| {
        let (server, client) = (server.clone(), peer.address.ip());
        move |request| answer(server.clone(), client, request)
    });
    let mut tasks = vec![
        tokio::spawn(serving),
        tokio::spawn(collect_garbage(store.clone(), settings.gc, settings.gc_every, cancel.clone())),
        tokio::spawn(expire_uploads(store.clone(), cancel.clone())),
    ];
    match control::listen(store.clone(), cancel) {
        Ok(task) => tasks.push(task),
        // Without it garbage collection on demand needs a restart; everything else works.
        Err(error) => tracing::warn!(%error, "no control socket: `registry gc` cannot reach this process"),
    }
    Ok(RunningRegistry { address, tasks, store })
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

/// Removes idle uploads, so that clients that never finish one do not block the others.
async fn expire_uploads(store: Arc<Store>, cancel: CancellationToken) {
    while cancel.run_until_cancelled(tokio::time::sleep(EXPIRE_UPLOADS_EVERY)).await.is_some() {
        let store = store.clone();
        match tokio::task::spawn_blocking(move || store.expire_uploads(SystemTime::now())).await {
            Ok(Ok(0)) => {}
            Ok(Ok(uploads)) => tracing::info!(uploads, "removed idle uploads"),
            Ok(Err(error)) => tracing::warn!(error = %crate::said(&error), "cannot remove idle uploads"),
            Err(error) => tracing::error!(%error, "cannot remove idle uploads"),
        }
    }
}

/// Collects garbage at an interval.
async fn collect_garbage(store: Arc<Store>, gc: GcOptions, every: Duration, cancel: CancellationToken) {
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
            Ok(Err(error)) => tracing::warn!(error = %crate::said(&error), "cannot collect garbage"),
            Err(error) => tracing::error!(%error, "cannot collect garbage"),
        }
    }
}

async fn answer(server: Arc<Server>, client: IpAddr, request: Request<Incoming>) -> Response<Body> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = match dispatch(&server, client, request).await {
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

async fn dispatch(
    server: &Arc<Server>,
    client: IpAddr,
    request: Request<Incoming>,
) -> Result<Response<Body>, OciError> {
    server.hosts.check(&request)?;
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    // Registry clients are programs; web pages must not write.
    if !is_read && request.headers().contains_key(http::header::ORIGIN) {
        return Err(OciError::denied("web pages may not write to this registry"));
    }
    if *request.method() == Method::DELETE && !server.deletes {
        return Err(OciError::unsupported("deletes are disabled in this registry"));
    }
    let query = Query::parse(request.uri().query().unwrap_or_default());
    match Route::parse(request.uri().path())? {
        Route::Ping => listing::ping(&request),
        Route::Catalog => listing::catalog(server, &request, &query).await,
        Route::Tags(repository) => listing::tags(server, &request, &query, repository).await,
        Route::Referrers(repository, subject) => {
            listing::referrers(server, &request, &query, repository, subject).await
        }
        Route::Blob(repository, digest) => blobs::answer(server, &request, repository, digest).await,
        Route::Uploads(repository) => uploads::begin(server, client, request, &query, repository).await,
        Route::Upload(repository, id) => uploads::answer(server, request, &query, repository, id).await,
        Route::Manifest(repository, selector) => manifests::answer(server, request, &query, repository, selector).await,
    }
}

impl Server {
    /// Runs disk work on a thread that may block.
    async fn on_disk<T, F>(&self, work: F) -> Result<T, OciError>
    where
        T: Send + 'static,
        F: FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    {
        let store = self.store.clone();
        match tokio::task::spawn_blocking(move || work(&store)).await {
            Ok(done) => Ok(done?),
            Err(broken) => Err(OciError::internal(&broken)),
        }
    }
}
