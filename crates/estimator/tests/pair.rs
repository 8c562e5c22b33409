//! The client against the server: over plain text and over mutual TLS, for replicas, sets and assumed workloads.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::capacity::{ClusterNodes, NodeCapacity};
use api::work::{BindingSpec, Component, Unschedulable};
use async_trait::async_trait;
use cluster_client::testing::MemoryApi;
use estimator::client::{EstimateQuery, EstimatorSettings, Estimators};
use estimator::server::{EstimatorDeps, EstimatorServer, EstimatorSource, ServerSettings};
use object::{GroupVersionResource, Object};
use plane_metrics::PlaneMetrics;
use reconcile::SystemClock;
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};

struct Members;

#[async_trait]
impl EstimatorSource for Members {
    fn capacity(&self, cluster: &str) -> Option<Arc<ClusterNodes>> {
        let node = NodeCapacity {
            name: "n1".to_owned(),
            labels: [("disk".to_owned(), "ssd".to_owned())].into(),
            allocatable: [("cpu".to_owned(), 4000), ("pods".to_owned(), 110)].into(),
            ..NodeCapacity::default()
        };
        (cluster == "m1").then(|| Arc::new(ClusterNodes { nodes: vec![node], ..ClusterNodes::default() }))
    }

    async fn unschedulable(&self, _: &str, _: &str, _: &str) -> Result<Option<Unschedulable>, object::Status> {
        Ok(None)
    }
}

async fn serve(
    certificate: Option<(PathBuf, PathBuf)>,
    client_ca: Option<PathBuf>,
    metrics: &PlaneMetrics,
) -> (SocketAddr, DropGuard) {
    let settings = ServerSettings { bind: ([127, 0, 0, 1], 0).into(), certificate, client_ca };
    let deps = EstimatorDeps {
        source: Arc::new(Members),
        clock: Arc::new(SystemClock),
        metrics: metrics.estimator.clone(),
        with_quotas: false,
    };
    let server = EstimatorServer::bind(&settings, deps).await.expect("it listens");
    let (address, cancel) = (server.address, CancellationToken::new());
    tokio::spawn(server.run(cancel.clone()));
    (address, cancel.drop_guard())
}

/// A control plane whose Services name the estimators of m1, m2 and, where nothing listens, m3.
fn clients(address: SocketAddr, settings: EstimatorSettings) -> Arc<Estimators> {
    let api = MemoryApi::default();
    let services = GroupVersionResource::new("", "v1", "services");
    for (cluster, port) in [("m1", address.port()), ("m2", address.port()), ("m3", 1)] {
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": format!("karmada-scheduler-estimator-{cluster}"), "namespace": "karmada-system"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": 10352, "targetPort": port}]}});
        api.seed(&services, Object::from_value(service).expect("a map"));
    }
    Estimators::new(settings, api.client()).expect("usable settings")
}

fn spec(selector: &str) -> BindingSpec {
    let requirements = json!({"resourceRequest": {"cpu": "500m"}, "nodeClaim": {"nodeSelector": {"disk": selector}}});
    serde_json::from_value(json!({"replicas": 3, "replicaRequirements": requirements,
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "team", "name": "web"}}))
    .expect("a spec")
}

async fn ask(estimators: &Arc<Estimators>, spec: &BindingSpec, is_set: bool) -> BTreeMap<String, i32> {
    let clusters = ["m1", "m2", "m3"].map(str::to_owned);
    let query = EstimateQuery { resource: &spec.resource, spec, is_set, assumed: BTreeMap::new() };
    estimators.ask(&clusters, &query).await
}

#[tokio::test]
async fn only_responding_members_are_estimated() {
    let metrics = PlaneMetrics::default();
    let (address, _stop) = serve(None, None, &metrics).await;
    let estimators =
        clients(address, EstimatorSettings { timeout: Duration::from_secs(20), ..EstimatorSettings::default() });
    let expected = |number: i32| BTreeMap::from([("m1".to_owned(), number)]);
    assert_eq!(ask(&estimators, &spec("ssd"), false).await, expected(8));
    assert_eq!(ask(&estimators, &spec("hdd"), false).await, expected(0));
    let part: Component = serde_json::from_value(json!({"name": "a", "replicas": 3, "replicaRequirements":
        {"resourceRequest": {"cpu": "500m"}}}))
    .expect("a component");
    let set = BindingSpec { components: vec![part.clone()], ..spec("ssd") };
    assert_eq!(ask(&estimators, &set, true).await, expected(2));
    let own = spec("ssd");
    let assumed = BTreeMap::from([("m1".to_owned(), vec![("other".to_owned(), vec![part])])]);
    let query = EstimateQuery { resource: &own.resource, spec: &own, is_set: false, assumed };
    assert_eq!(estimators.ask(&["m1".to_owned()], &query).await, expected(5));
    // Nothing listens for m3, and the service does not know m2.
    let mut text = String::new();
    metrics.render(&mut text);
    let counted =
        text.lines().filter_map(|line| line.strip_prefix("karmada_scheduler_estimator_estimating_request_total"));
    let expected = [
        "{result=\"error\",type=\"MaxAvailableComponentSets\"} 1",
        "{result=\"error\",type=\"MaxAvailableReplicas\"} 2",
        "{result=\"success\",type=\"MaxAvailableComponentSets\"} 1",
        "{result=\"success\",type=\"MaxAvailableReplicas\"} 3",
    ];
    assert_eq!(counted.collect::<Vec<_>>(), expected);
}

fn files(directory: &Path) -> impl Fn(&str) -> PathBuf {
    move |name: &str| directory.join(name)
}

#[tokio::test]
async fn mutual_tls_is_required_if_configured() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = files(directory.path());
    write_certificates(directory.path());
    let pair = |name: &str| (file(&format!("{name}.crt")), file(&format!("{name}.key")));
    let (address, _stop) = serve(Some(pair("server")), Some(file("ca.crt")), &PlaneMetrics::default()).await;
    let base = EstimatorSettings { timeout: Duration::from_secs(20), ..EstimatorSettings::default() };
    let answers = |settings: EstimatorSettings| {
        let estimators = clients(address, settings);
        async move { ask(&estimators, &spec("ssd"), false).await.len() }
    };
    let known = EstimatorSettings { ca: Some(file("ca.crt")), identity: Some(pair("client")), ..base.clone() };
    assert_eq!(answers(known.clone()).await, 1);
    assert_eq!(answers(EstimatorSettings { ca: None, skip_verify: true, ..known.clone() }).await, 1);
    assert_eq!(answers(EstimatorSettings { identity: None, ..known.clone() }).await, 0, "no client certificate");
    assert_eq!(answers(EstimatorSettings { ca: Some(file("client.crt")), ..known }).await, 0, "another CA");
    assert_eq!(answers(base).await, 0, "plain text");
}

/// A CA, and certificates of a server and a client.
fn write_certificates(directory: &Path) {
    let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).expect("written");
    let ca_key = rcgen::KeyPair::generate().expect("a key");
    let mut ca = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    ca.distinguished_name.push(rcgen::DnType::CommonName, "estimators");
    let ca_certificate = ca.self_signed(&ca_key).expect("signed");
    write("ca.crt", &ca_certificate.pem());
    let issuer = rcgen::Issuer::from_params(&ca, &ca_key);
    for (name, usage) in
        [("server", rcgen::ExtendedKeyUsagePurpose::ServerAuth), ("client", rcgen::ExtendedKeyUsagePurpose::ClientAuth)]
    {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut own = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        own.distinguished_name.push(rcgen::DnType::CommonName, name);
        own.extended_key_usages = vec![usage];
        write(&format!("{name}.crt"), &own.signed_by(&key, &issuer).expect("signed").pem());
        write(&format!("{name}.key"), &key.serialize_pem());
    }
}
