//! Asks the estimators of member clusters, all at once and with one deadline.
//!
//! A member whose estimator does not answer is left out of the answers, and asked again after a backoff: no decision waits twice
//! for it.

use std::collections::{BTreeMap, HashMap};
use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::work::{BindingSpec, Component, ObjectReference};
use cluster_client::remote::connect::open_tcp;
use cluster_client::{ClusterClient, ResourceRef};
use futures::future::{BoxFuture, join_all};
use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use object::Object;
use object::builtin;
use parking_lot::Mutex;
use pki::tls::client::{ClientTls, ClientTlsOptions, ReloadableClientCert, ServerTrust};
use reconcile::backoff::Backoff;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::messages::{
    AssumedWorkload, MaxAvailableComponentSetsRequest, MaxAvailableComponentSetsResponse, MaxAvailableReplicasRequest,
    MaxAvailableReplicasResponse,
};
use crate::{MAX_AVAILABLE_COMPONENT_SETS, MAX_AVAILABLE_REPLICAS, SERVICE, convert};

const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
const BACKOFF: Backoff = Backoff { base: Duration::from_secs(2), max: Duration::from_secs(60) };

/// The flags of karmada-scheduler for its estimators, with its defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EstimatorSettings {
    pub timeout: Duration,
    pub port: u16,
    /// Namespace of the Services that name estimators.
    pub namespace: String,
    /// A Service is named after this and the cluster.
    pub prefix: String,
    pub ca: Option<PathBuf>,
    /// Client certificate and key.
    pub identity: Option<(PathBuf, PathBuf)>,
    pub skip_verify: bool,
    /// Do not ask for pull members.
    pub skip_pull: bool,
}

impl EstimatorSettings {
    /// Reports files that cannot be used.
    pub fn check(&self) -> Result<(), SettingsError> {
        client_tls(self).map(drop)
    }
}

impl Default for EstimatorSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(3),
            port: 10352,
            namespace: api::names::SYSTEM_NAMESPACE.to_owned(),
            prefix: "karmada-scheduler-estimator".to_owned(),
            ca: None,
            identity: None,
            skip_verify: false,
            skip_pull: false,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("cannot read {path}")]
    Read {
        path: String,
        #[source]
        error: std::io::Error,
    },
    #[error("the files for TLS with estimators cannot be used")]
    Tls(#[source] pki::error::PkiError),
}

/// A question to estimators.
pub struct EstimateQuery<'a> {
    pub resource: &'a ObjectReference,
    pub spec: &'a BindingSpec,
    /// Whole sets of components instead of replicas.
    pub is_set: bool,
    /// By cluster: workloads assigned to it that its estimator may not see yet, with their namespaces.
    pub assumed: BTreeMap<String, Vec<(String, Vec<Component>)>>,
}

/// The estimators of all members.
pub struct Estimators {
    settings: EstimatorSettings,
    tls: Option<ClientTls>,
    /// Knows the Services.
    plane: ClusterClient,
    /// One entry for each cluster that was asked for.
    known: Mutex<HashMap<String, Known>>,
}

#[derive(Clone)]
enum Known {
    Connected(Channel),
    /// Being connected by a task.
    Connecting {
        failures: u32,
    },
    Failed {
        failures: u32,
        retry_at: Instant,
    },
}

impl Estimators {
    pub fn new(settings: EstimatorSettings, plane: ClusterClient) -> Result<Arc<Self>, SettingsError> {
        let tls = client_tls(&settings)?;
        Ok(Arc::new(Self { settings, tls, plane, known: Mutex::default() }))
    }

    pub fn skips_pull(&self) -> bool {
        self.settings.skip_pull
    }

    /// Closes the connection of a cluster that is gone.
    pub fn forget(&self, cluster: &str) {
        self.known.lock().remove(cluster);
    }

    /// Returns the estimates by cluster, without the clusters that did not answer in time.
    pub async fn ask(self: &Arc<Self>, clusters: &[String], query: &EstimateQuery<'_>) -> BTreeMap<String, i32> {
        let deadline = Instant::now() + self.settings.timeout;
        let answers = clusters.iter().map(|cluster| async move {
            let channel = self.channel(cluster, deadline).await?;
            let answer = tokio::time::timeout_at(deadline, call(channel, cluster, query)).await;
            match answer {
                Ok(Ok(estimate)) => Some((cluster.clone(), estimate)),
                Ok(Err(status)) => {
                    tracing::warn!(cluster, code = ?status.code(), message = status.message(), "its estimator failed");
                    if matches!(status.code(), tonic::Code::Unavailable | tonic::Code::Unknown) {
                        self.failed(cluster, 1);
                    }
                    None
                }
                Err(_) => {
                    tracing::warn!(cluster, timeout = ?self.settings.timeout, "its estimator did not answer in time");
                    self.failed(cluster, 1);
                    None
                }
            }
        });
        join_all(answers).await.into_iter().flatten().collect()
    }

    /// A first connection is waited for; a lost one is restored in the background.
    async fn channel(self: &Arc<Self>, cluster: &str, deadline: Instant) -> Option<Channel> {
        let known = {
            let mut all = self.known.lock();
            let known = all.get(cluster).cloned();
            let is_due = match &known {
                Some(Known::Connected(channel)) => return Some(channel.clone()),
                Some(Known::Connecting { .. }) => false,
                Some(Known::Failed { retry_at, .. }) => *retry_at <= Instant::now(),
                None => true,
            };
            if !is_due {
                return None;
            }
            let failures = if let Some(Known::Failed { failures, .. }) = known { failures } else { 0 };
            all.insert(cluster.to_owned(), Known::Connecting { failures });
            known
        };
        let (this, name) = (Arc::clone(self), cluster.to_owned());
        let connecting = tokio::spawn(async move { this.connect(&name).await });
        match known {
            Some(_) => None,
            None => tokio::time::timeout_at(deadline, connecting).await.ok()?.ok()?,
        }
    }

    async fn connect(&self, cluster: &str) -> Option<Channel> {
        let connected = match self.addresses(cluster).await {
            Ok(addresses) => self.dial(&addresses).await,
            Err(problem) => Err(problem),
        };
        let mut known = self.known.lock();
        let Some(Known::Connecting { failures }) = known.get(cluster) else { return None };
        match connected {
            Ok(channel) => {
                tracing::info!(cluster, "connected to its estimator");
                known.insert(cluster.to_owned(), Known::Connected(channel.clone()));
                Some(channel)
            }
            Err(problem) => {
                let failures = failures + 1;
                tracing::warn!(cluster, problem, "cannot connect to its estimator, will retry");
                let retry_at = Instant::now() + BACKOFF.jittered(failures);
                known.insert(cluster.to_owned(), Known::Failed { failures, retry_at });
                None
            }
        }
    }

    fn failed(&self, cluster: &str, failures: u32) {
        let retry_at = Instant::now() + BACKOFF.jittered(failures);
        self.known.lock().insert(cluster.to_owned(), Known::Failed { failures, retry_at });
    }

    /// As in Karmada: a Service of type ExternalName in the control plane, or the DNS names of a Service in its host cluster.
    async fn addresses(&self, cluster: &str) -> Result<Vec<String>, String> {
        let EstimatorSettings { namespace, prefix, port, .. } = &self.settings;
        let name = format!("{prefix}-{cluster}");
        let services = builtin::services();
        match self.plane.find(ResourceRef::namespaced(&services, namespace, &name)).await {
            Ok(None) => Ok(["svc.cluster.local", "svc"].map(|end| format!("{name}.{namespace}.{end}:{port}")).to_vec()),
            Ok(Some(service)) => external_name(&service, *port).map(|address| vec![address]),
            Err(status) => Err(format!("cannot read Service {namespace}/{name}: {status}")),
        }
    }

    async fn dial(&self, addresses: &[String]) -> Result<Channel, String> {
        let mut problems = Vec::new();
        for address in addresses {
            // TLS is the connector's, so the scheme says nothing about it.
            let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| error.to_string())?;
            let endpoint = endpoint
                .connect_timeout(DIAL_TIMEOUT)
                .http2_keep_alive_interval(Duration::from_secs(30))
                .keep_alive_timeout(Duration::from_secs(10));
            let connector = Connector { tls: self.tls.clone() };
            match tokio::time::timeout(DIAL_TIMEOUT, endpoint.connect_with_connector(connector)).await {
                Ok(Ok(channel)) => return Ok(channel),
                Ok(Err(error)) => {
                    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                    problems.push(format!("{address}: {error}{cause}"));
                }
                Err(_) => problems.push(format!("{address}: no connection in {DIAL_TIMEOUT:?}")),
            }
        }
        Err(problems.join("; "))
    }
}

fn client_tls(settings: &EstimatorSettings) -> Result<Option<ClientTls>, SettingsError> {
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| SettingsError::Read { path: path.display().to_string(), error })
    };
    let trust = match (&settings.ca, settings.skip_verify) {
        (_, true) => ServerTrust::Anyone,
        (Some(ca), false) => ServerTrust::Bundle(read(ca)?),
        (None, false) => return Ok(None),
    };
    let identity = match &settings.identity {
        None => None,
        Some((certificate, key)) => {
            let identity = ReloadableClientCert::from_pem(&read(certificate)?, &read(key)?);
            Some(Arc::new(identity.map_err(SettingsError::Tls)?))
        }
    };
    let options = ClientTlsOptions { identity, alpn: vec![b"h2".to_vec()], ..ClientTlsOptions::trusting(trust) };
    ClientTls::build(options).map(Some).map_err(SettingsError::Tls)
}

fn external_name(service: &Object, port: u16) -> Result<String, String> {
    let kind = service.str_at(&["spec", "type"]);
    if kind != "ExternalName" {
        return Err(format!("unsupported service type {kind:?}: it must be ExternalName"));
    }
    let ports = service.items(&["spec", "ports"]);
    let own = ports.iter().find(|own| own["port"].as_u64() == Some(port.into()));
    let own = own.ok_or_else(|| format!("service {} has no port {port}", service.name()))?;
    let target = match &own["targetPort"] {
        Value::Number(number) => number.as_u64(),
        Value::Null => Some(port.into()),
        _ => None,
    };
    let target = target.ok_or_else(|| format!("the target port of service {} must be a number", service.name()))?;
    Ok(format!("{}:{target}", service.str_at(&["spec", "externalName"])))
}

async fn call(channel: Channel, cluster: &str, query: &EstimateQuery<'_>) -> Result<i32, tonic::Status> {
    let assumed_workloads = query.assumed.get(cluster).into_iter().flatten().map(|(namespace, components)| {
        AssumedWorkload { namespace: namespace.clone(), components: convert::components_to_wire(components) }
    });
    let assumed_workloads = assumed_workloads.collect();
    if query.is_set {
        let message = MaxAvailableComponentSetsRequest {
            cluster: cluster.to_owned(),
            components: convert::components_to_wire(&query.spec.components),
            namespace: query.resource.namespace.clone(),
            assumed_workloads,
        };
        let answer: MaxAvailableComponentSetsResponse =
            unary(channel, MAX_AVAILABLE_COMPONENT_SETS, message, query.resource).await?;
        return Ok(answer.max_sets);
    }
    let requirements = query.spec.replica_requirements.as_ref().map(|requirements| {
        let mut message = convert::requirements_to_wire(requirements);
        if message.namespace.is_empty() {
            message.namespace.clone_from(&query.resource.namespace);
        }
        message
    });
    let message = MaxAvailableReplicasRequest {
        cluster: cluster.to_owned(),
        replica_requirements: requirements,
        assumed_workloads,
    };
    let answer: MaxAvailableReplicasResponse = unary(channel, MAX_AVAILABLE_REPLICAS, message, query.resource).await?;
    Ok(answer.max_replicas)
}

async fn unary<M, R>(channel: Channel, method: &str, message: M, resource: &ObjectReference) -> Result<R, tonic::Status>
where
    M: prost::Message + 'static,
    R: prost::Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
    let path = PathAndQuery::try_from(format!("{SERVICE}{method}"));
    let path = path.map_err(|error| tonic::Status::internal(error.to_string()))?;
    let mut request = tonic::Request::new(message);
    let object = format!("kind={}, name={}/{}", resource.kind, resource.namespace, resource.name);
    if let Ok(object) = MetadataValue::try_from(object) {
        request.metadata_mut().insert("object", object);
    }
    let answer = grpc.unary(request, path, ProstCodec::<M, R>::default()).await?;
    Ok(answer.into_inner())
}

/// Opens connections, with TLS if there are settings for it.
#[derive(Clone)]
struct Connector {
    tls: Option<ClientTls>,
}

trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Connection>>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tls = self.tls.clone();
        Box::pin(async move {
            let host = uri.host().unwrap_or_default().to_owned();
            let stream = open_tcp(&host, uri.port_u16().unwrap_or(443)).await?;
            let Some(tls) = tls else { return Ok(TokioIo::new(Box::new(stream) as Box<dyn Connection>)) };
            let name = tls.server_name_for(&host).map_err(std::io::Error::other)?;
            let stream = TlsConnector::from(Arc::clone(&tls.config)).connect(name, stream).await?;
            Ok(TokioIo::new(Box::new(stream) as Box<dyn Connection>))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_of_the_control_plane_names_the_estimator() {
        let check = |spec: Value, expected: Result<&str, &str>| {
            let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "e-m1"}, "spec": spec});
            let service = Object::from_value(service).expect("a map");
            assert_eq!(external_name(&service, 10352).as_deref().map_err(String::as_str), expected);
        };
        let external = |ports: Value| json!({"type": "ExternalName", "externalName": "est.example", "ports": ports});
        check(external(json!([{"port": 10352, "targetPort": 30001}])), Ok("est.example:30001"));
        check(external(json!([{"port": 10352}])), Ok("est.example:10352"));
        check(external(json!([{"port": 1}])), Err("service e-m1 has no port 10352"));
        check(
            external(json!([{"port": 10352, "targetPort": "grpc"}])),
            Err("the target port of service e-m1 must be a number"),
        );
        check(json!({"type": "ClusterIP"}), Err("unsupported service type \"ClusterIP\": it must be ExternalName"));
    }
}
