//! The estimator service for schedulers and deschedulers of others, such as Karmada's.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::capacity::ClusterNodes;
use api::work::{BindingSpec, Unschedulable};
use async_trait::async_trait;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use jiff::{SignedDuration, Timestamp};
use listener::{ConnectionLimits, ConnectionPeer, HttpListener, HttpSettings};
use pki::certificate::{Certificate, KeyedCertificate};
use pki::tls::client_trust::ClientTrust;
use pki::tls::server::{ClientCertificates, ReloadableCertResolver, server_config};
use plane_metrics::{EstimateType, EstimatorMetrics};
use prost::DecodeError;
use reconcile::Clock;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::calculate::{MemberEstimator, Wanted};
use crate::messages::{
    AssumedWorkload, MaxAvailableComponentSetsRequest, MaxAvailableComponentSetsResponse, MaxAvailableReplicasRequest,
    MaxAvailableReplicasResponse, UnschedulableReplicasRequest, UnschedulableReplicasResponse,
};
use crate::{GET_UNSCHEDULABLE_REPLICAS, MAX_AVAILABLE_COMPONENT_SETS, MAX_AVAILABLE_REPLICAS, SERVICE, convert};

const HTTP: HttpSettings = HttpSettings {
    header_max: Duration::from_secs(30),
    streams_max: 100,
    stream_window: 1 << 20,
    connection_window: 4 << 20,
    stream_send_buffer: 256 << 10,
    drain_max: Duration::from_secs(2),
};
/// A scheduler keeps its connection open between decisions.
const IDLE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The dependencies of the service.
pub struct EstimatorDeps {
    pub source: Arc<dyn EstimatorSource>,
    pub clock: Arc<dyn Clock>,
    pub metrics: EstimatorMetrics,
    /// The gate ResourceQuotaEstimate.
    pub with_quotas: bool,
}

/// The state of members that estimates are made from.
#[async_trait]
pub trait EstimatorSource: Send + Sync + 'static {
    /// Returns the nodes and quotas of a member; `None` if they are not known here.
    fn capacity(&self, cluster: &str) -> Option<Arc<ClusterNodes>>;

    /// Returns the pods of a Deployment in a member that no node can run.
    async fn unschedulable(
        &self,
        cluster: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Unschedulable>, object::Status>;
}

/// Address and TLS files of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    pub bind: SocketAddr,
    /// Certificate and key, as PEM files; plain text without.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// CA of the clients' certificates, which are then required.
    pub client_ca: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        error: std::io::Error,
    },
    #[error("cannot read {path}")]
    Read {
        path: String,
        #[source]
        error: std::io::Error,
    },
    #[error("cannot use {path} for TLS")]
    Tls {
        path: String,
        #[source]
        error: pki::error::PkiError,
    },
}

/// A service that is ready to run.
pub struct EstimatorServer {
    pub address: SocketAddr,
    listener: HttpListener,
    service: EstimatorService,
}

impl EstimatorServer {
    /// Binds the address.
    pub async fn bind(settings: &ServerSettings, deps: EstimatorDeps) -> Result<Self, StartError> {
        let failed = |error| StartError::Listen { address: settings.bind, error };
        let tcp = TcpListener::bind(settings.bind).await.map_err(failed)?;
        let address = tcp.local_addr().map_err(failed)?;
        let trust = match &settings.client_ca {
            None => None,
            Some(path) => {
                let bundle = Certificate::bundle_from_pem(&read(path)?).and_then(|all| ClientTrust::new(&all));
                Some(Arc::new(bundle.map_err(|error| tls_error(path, error))?))
            }
        };
        let tls = settings.certificate.as_ref().map(|pair| acceptor(pair, trust.is_some())).transpose()?;
        let limits = ConnectionLimits { idle_max: IDLE_MAX, ..ConnectionLimits::default() };
        let EstimatorDeps { source, clock, metrics, with_quotas } = deps;
        let service = EstimatorService { source, clock, metrics, trust, with_quotas };
        Ok(Self { address, listener: HttpListener { tcp, tls, limits, http: HTTP }, service })
    }

    /// Runs until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let service = self.service;
        let handler = move |peer: ConnectionPeer| {
            let service = service.clone();
            let refusal = service.refusal(&peer);
            move |request: http::Request<Incoming>| {
                let (service, refusal) = (service.clone(), refusal.clone());
                async move {
                    match refusal {
                        Some(refusal) => refusal.into_http(),
                        None => service.answer(request.map(Body::new)).await,
                    }
                }
            }
        };
        self.listener.run(cancel, handler).await;
    }
}

fn read(path: &Path) -> Result<Vec<u8>, StartError> {
    std::fs::read(path).map_err(|error| StartError::Read { path: path.display().to_string(), error })
}

fn tls_error(path: &Path, error: pki::error::PkiError) -> StartError {
    StartError::Tls { path: path.display().to_string(), error }
}

fn acceptor((certificate, key): &(PathBuf, PathBuf), asks_clients: bool) -> Result<TlsAcceptor, StartError> {
    let failed = |error| tls_error(certificate, error);
    let pair = KeyedCertificate::from_pem(&read(certificate)?, &read(key)?).map_err(failed)?;
    let resolver = Arc::new(ReloadableCertResolver::new(&pair).map_err(failed)?);
    let clients = if asks_clients { ClientCertificates::Ask } else { ClientCertificates::Ignore };
    Ok(TlsAcceptor::from(Arc::new(server_config(resolver, clients).map_err(failed)?)))
}

#[derive(Clone)]
struct EstimatorService {
    source: Arc<dyn EstimatorSource>,
    clock: Arc<dyn Clock>,
    metrics: EstimatorMetrics,
    /// Clients must have a certificate of these.
    trust: Option<Arc<ClientTrust>>,
    with_quotas: bool,
}

impl EstimatorService {
    /// The answer to a client whose certificate is not trusted.
    fn refusal(&self, peer: &ConnectionPeer) -> Option<Status> {
        let verified = self.trust.as_ref()?.verify(&peer.certificates, self.clock.now());
        verified.err().map(|error| Status::unauthenticated(error.to_string()))
    }

    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        let method = request.uri().path().strip_prefix(SERVICE).unwrap_or_default().to_owned();
        match method.as_str() {
            MAX_AVAILABLE_REPLICAS => {
                let codec = ProstCodec::<MaxAvailableReplicasResponse, MaxAvailableReplicasRequest>::default();
                Grpc::new(codec).unary(self, request).await
            }
            MAX_AVAILABLE_COMPONENT_SETS => {
                let codec =
                    ProstCodec::<MaxAvailableComponentSetsResponse, MaxAvailableComponentSetsRequest>::default();
                Grpc::new(codec).unary(self, request).await
            }
            GET_UNSCHEDULABLE_REPLICAS => {
                let codec = ProstCodec::<UnschedulableReplicasResponse, UnschedulableReplicasRequest>::default();
                Grpc::new(codec).unary(self, request).await
            }
            _ => Status::unimplemented(format!("there is no method {}", request.uri().path())).into_http(),
        }
    }

    fn estimate(&self, cluster: &str, wanted: &Wanted, assumed: Vec<AssumedWorkload>) -> Result<i32, Status> {
        let nodes = self.source.capacity(cluster);
        let nodes =
            nodes.ok_or_else(|| Status::not_found(format!("the capacity of cluster {cluster} is not known")))?;
        let read = |workload: AssumedWorkload| convert::components_from_wire(&workload.namespace, workload.components);
        let assumed: Result<Vec<BindingSpec>, DecodeError> = assumed.into_iter().map(read).collect();
        let estimator = MemberEstimator { nodes: &nodes, with_quotas: self.with_quotas, metrics: &self.metrics };
        Ok(estimator.estimate(wanted, &assumed.map_err(malformed)?))
    }

    fn replicas(&self, request: MaxAvailableReplicasRequest) -> Result<i32, Status> {
        let requirements = request.replica_requirements.map(convert::requirements_from_wire).transpose();
        let wanted = Wanted::Replicas(requirements.map_err(malformed)?);
        self.estimate(&request.cluster, &wanted, request.assumed_workloads)
    }

    fn component_sets(&self, request: MaxAvailableComponentSetsRequest) -> Result<i32, Status> {
        let spec = convert::components_from_wire(&request.namespace, request.components).map_err(malformed)?;
        self.estimate(&request.cluster, &Wanted::Sets(Box::new(spec)), request.assumed_workloads)
    }

    async fn unschedulable(&self, request: UnschedulableReplicasRequest) -> Result<i32, Status> {
        let resource = request.resource.unwrap_or_default();
        // As in Karmada: other kinds are not supported.
        if resource.api_version != "apps/v1" || resource.kind != "Deployment" {
            let kind = format!("{}, Kind={}", resource.api_version, resource.kind);
            return Err(Status::invalid_argument(format!("unschedulable replicas of {kind} are not known")));
        }
        let found = self.source.unschedulable(&request.cluster, &resource.namespace, &resource.name).await;
        let found = found.map_err(|status| Status::unavailable(status.to_string()))?.unwrap_or_default();
        let threshold = Duration::from_nanos(u64::try_from(request.unschedulable_threshold).unwrap_or(0));
        Ok(waiting_longer_than(&found, self.clock.now(), threshold))
    }
}

/// The number of pods that have been unschedulable for longer than the threshold.
pub fn waiting_longer_than(waiting: &Unschedulable, now: Timestamp, threshold: Duration) -> i32 {
    let threshold = SignedDuration::try_from(threshold).unwrap_or(SignedDuration::MAX);
    let is_long = |since: &str| object::time::parse(since).is_some_and(|since| now.duration_since(since) > threshold);
    let long = waiting.since.iter().filter(|(since, _)| is_long(since));
    i32::try_from(long.map(|(_, pods)| *pods).sum::<i64>()).unwrap_or(i32::MAX)
}

fn malformed(error: DecodeError) -> Status {
    Status::invalid_argument(format!("the requirements cannot be read: {error}"))
}

impl UnaryService<MaxAvailableReplicasRequest> for EstimatorService {
    type Response = MaxAvailableReplicasResponse;
    type Future = BoxFuture<'static, Result<Response<MaxAvailableReplicasResponse>, Status>>;

    fn call(&mut self, request: Request<MaxAvailableReplicasRequest>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let since = Instant::now();
            let answer = service.replicas(request.into_inner());
            service.metrics.answered(EstimateType::MaxAvailableReplicas, answer.is_ok(), since.elapsed());
            answer.map(|max_replicas| Response::new(MaxAvailableReplicasResponse { max_replicas }))
        })
    }
}

impl UnaryService<MaxAvailableComponentSetsRequest> for EstimatorService {
    type Response = MaxAvailableComponentSetsResponse;
    type Future = BoxFuture<'static, Result<Response<MaxAvailableComponentSetsResponse>, Status>>;

    fn call(&mut self, request: Request<MaxAvailableComponentSetsRequest>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let since = Instant::now();
            let answer = service.component_sets(request.into_inner());
            service.metrics.answered(EstimateType::MaxAvailableComponentSets, answer.is_ok(), since.elapsed());
            answer.map(|max_sets| Response::new(MaxAvailableComponentSetsResponse { max_sets }))
        })
    }
}

impl UnaryService<UnschedulableReplicasRequest> for EstimatorService {
    type Response = UnschedulableReplicasResponse;
    type Future = BoxFuture<'static, Result<Response<UnschedulableReplicasResponse>, Status>>;

    fn call(&mut self, request: Request<UnschedulableReplicasRequest>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let since = Instant::now();
            let answer = service.unschedulable(request.into_inner()).await;
            service.metrics.answered(EstimateType::GetUnschedulableReplicas, answer.is_ok(), since.elapsed());
            answer.map(|unschedulable_replicas| Response::new(UnschedulableReplicasResponse { unschedulable_replicas }))
        })
    }
}
