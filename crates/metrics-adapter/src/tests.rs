//! The adapter over in-memory members: one without metrics, one that fails, one that hangs.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::testing::MemoryApi;
use cluster_client::{ApiCall, Backend, Identity, Reply, WatchCall, WatchEvents};
use object::{Object, builtin};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;

const CUSTOM_PATH: &str =
    "/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/pods/%2A/hits?labelSelector=app%3Dweb";

/// An API with JSON documents at some paths, in front of an in-memory one.
struct Documents {
    inner: Arc<dyn Backend>,
    documents: BTreeMap<&'static str, Value>,
}

#[async_trait]
impl Backend for Documents {
    async fn call(&self, identity: &Identity, request: ApiCall) -> Result<Reply, Status> {
        self.inner.call(identity, request).await
    }

    async fn watch(&self, identity: &Identity, request: WatchCall) -> Result<WatchEvents, Status> {
        self.inner.watch(identity, request).await
    }

    async fn raw(&self, _: &Identity, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, Status> {
        let path = request.uri().to_string();
        if self.documents.contains_key("hangs") {
            std::future::pending::<()>().await;
        }
        let found = self.documents.get(path.as_str());
        let code = if found.is_some() { 200 } else { 404 };
        let body = found.cloned().unwrap_or(json!({"kind": "Status", "code": 404, "reason": "NotFound"}));
        Ok(http::Response::builder().status(code).body(Bytes::from(body.to_string())).expect("a response"))
    }
}

struct Fleet(BTreeMap<&'static str, ClusterClient>);

impl MemberClients for Fleet {
    fn client(&self, cluster: &str) -> Result<ClusterClient, Status> {
        self.0.get(cluster).cloned().ok_or_else(|| Status::unavailable("no such member"))
    }
}

fn usage(name: &str, cpu: &str) -> Object {
    Object::from_value(json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}}, "timestamp": "2026-01-01T00:00:00Z",
        "window": "15s", "containers": [{"name": "main", "usage": {"cpu": cpu}}]}))
    .expect("a map")
}

fn value(name: &str, value: &str) -> Value {
    json!({"describedObject": {"kind": "Pod", "namespace": "default", "name": name, "apiVersion": "/v1"},
        "metricName": "hits", "timestamp": "2026-01-01T00:00:00Z", "value": value, "selector": null})
}

/// Members `a` and `b` measure, `c` has no metrics, `d` hangs, `e` is unknown, `f` is not ready.
fn adapter() -> MetricsAdapter {
    let plane = MemoryApi::default();
    for (name, ready) in [("a", "True"), ("b", "True"), ("c", "True"), ("d", "True"), ("e", "True"), ("f", "False")] {
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        plane.seed(&CLUSTERS.gvr(), Object::from_value(cluster).expect("a map"));
    }
    let member = |usages: &[(&str, &str)], documents: BTreeMap<&'static str, Value>| {
        let api = MemoryApi::default();
        for (name, cpu) in usages {
            api.seed(&builtin::pod_metrics(), usage(name, cpu));
        }
        api.client().through(|inner| Arc::new(Documents { inner, documents }) as Arc<dyn Backend>)
    };
    let names = json!({"resources": [{"name": "pods/hits", "namespaced": true}]});
    let hits = |list: Vec<Value>| {
        BTreeMap::from([(CUSTOM_PATH, json!({"items": list})), ("/apis/custom.metrics.k8s.io/v1beta1", names.clone())])
    };
    let clients = BTreeMap::from([
        ("a", member(&[("web-0", "100m"), ("x", "1m")], hits(vec![value("web-0", "5"), value("x", "1")]))),
        ("b", member(&[("web-0", "200m")], hits(vec![value("web-0", "7")]))),
        ("c", member(&[], BTreeMap::new())),
        ("d", member(&[], BTreeMap::from([("hangs", Value::Null)]))),
    ]);
    let mirrors = Mirrors::new(plane.client(), CancellationToken::new());
    MetricsAdapter::new(&mirrors, Arc::new(Fleet(clients)))
}

#[tokio::test(start_paused = true)]
async fn usages_name_their_member_and_failures_are_left_out() {
    let adapter = adapter();
    let members = adapter.ready_members().await;
    assert_eq!(members, ["a", "b", "c", "d", "e"]);
    let query = UsageQuery { namespace: Some("default".to_owned()), labels: "app=web".to_owned(), name: None };
    let gathered = adapter.pods(&members, &query).await;
    let shown: Vec<String> = gathered
        .found
        .values()
        .flatten()
        .map(|o| format!("{} {}", o.name(), o.annotation("resource.karmada.io/query-from-cluster").unwrap_or_default()))
        .collect();
    assert_eq!(shown, ["web-0 a", "x a", "web-0 b"]);
    assert_eq!(gathered.unread.len(), 1);
    assert!(gathered.unread[0].starts_with("cluster e: "), "{:?}", gathered.unread);
    let named = UsageQuery { name: Some("x".to_owned()), ..query };
    assert_eq!(adapter.pods(&members, &named).await.found.keys().collect::<Vec<_>>(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn custom_metrics_are_read_in_the_version_a_member_has_within_the_deadline() {
    let adapter = adapter();
    let members = adapter.ready_members().await;
    let path = MetricPath {
        namespace: "default".to_owned(),
        resource: "pods".to_owned(),
        name: "*".to_owned(),
        metric: "hits".to_owned(),
    };
    let selectors = MetricSelectors { labels: "app=web".to_owned(), ..MetricSelectors::default() };
    let gathered = adapter.custom(&members, &path, &selectors).await;
    assert_eq!(gathered.found.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(gathered.unread.len(), 2, "{:?}", gathered.unread);
    assert!(gathered.unread[0].contains("no answer within 5 s"), "{:?}", gathered.unread);
    let merged = merge_custom(gathered.found.into_values().flatten());
    let shown: Vec<String> = merged.iter().map(|v| format!("{} {}", v.object_name(), v.value)).collect();
    assert_eq!(shown, ["web-0 12", "x 1"]);
}

#[tokio::test(start_paused = true)]
async fn names_are_read_in_the_background_and_kept_for_a_while() {
    let adapter = adapter();
    assert_eq!(*adapter.known(), KnownMetrics::default(), "discovery does not wait");
    tokio::time::sleep(Duration::from_secs(20)).await;
    let expected = [KnownMetric { name: "pods/hits".to_owned(), namespaced: true }];
    assert_eq!(adapter.known().custom, expected);
    assert!(adapter.known().external.is_empty());
}

#[test]
fn paths_are_escaped() {
    let path =
        MetricPath { namespace: "a b".into(), resource: "jobs.batch".into(), name: "x?y".into(), metric: "m".into() };
    assert_eq!(path.to_string(), "namespaces/a%20b/jobs.batch/x%3Fy/m");
    let of_namespace =
        MetricPath { namespace: "n".into(), resource: "metrics".into(), name: "m".into(), metric: String::new() };
    assert_eq!(of_namespace.to_string(), "namespaces/n/metrics/m");
}
