//! FederatedHPAs over an in-memory plane and in-memory members, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::testing::MemoryApi;
use cluster_client::{ApiCall, Backend, Identity, MemberClients, Reply, WatchCall, WatchEvents};
use object::{GroupVersionResource, Status, builtin, conditions};
use plane_metrics::PlaneMetrics;
use reconcile::{Mirrors, VirtualClock};
use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-05-01T00:00:00Z";
const QUEUE: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/depth";

/// Documents at paths, shared with the test.
type JsonPaths = Arc<Mutex<BTreeMap<&'static str, Value>>>;

/// A member's API with documents in front of an in-memory one.
struct MeasuredApi {
    inner: Arc<dyn Backend>,
    documents: JsonPaths,
}

#[async_trait]
impl Backend for MeasuredApi {
    async fn call(&self, identity: &Identity, request: ApiCall) -> Result<Reply, Status> {
        self.inner.call(identity, request).await
    }

    async fn watch(&self, identity: &Identity, request: WatchCall) -> Result<WatchEvents, Status> {
        self.inner.watch(identity, request).await
    }

    async fn raw(&self, _: &Identity, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, Status> {
        let found = self.documents.lock().get(request.uri().path()).cloned();
        let code = if found.is_some() { 200 } else { 404 };
        let body = Bytes::from(found.unwrap_or_default().to_string());
        Ok(http::Response::builder().status(code).body(body).expect("a response"))
    }
}

struct MemoryMembers(BTreeMap<&'static str, (MemoryApi, JsonPaths)>);

impl MemberClients for MemoryMembers {
    fn client(&self, cluster: &str) -> Result<ClusterClient, Status> {
        let (api, documents) = self.0.get(cluster).ok_or_else(|| Status::unavailable("no such member"))?;
        let documents = Arc::clone(documents);
        Ok(api.client().through(|inner| Arc::new(MeasuredApi { inner, documents }) as Arc<dyn Backend>))
    }
}

/// Members `m1` and `m2` are ready, `m3` is not; the template `shop/web` is placed on all of them.
struct ScaledFleet {
    plane: MemoryApi,
    members: BTreeMap<&'static str, (MemoryApi, JsonPaths)>,
    cancel: CancellationToken,
}

fn deployments() -> GroupVersionResource {
    builtin::deployments()
}

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

fn deployment(namespace: &str, replicas: i64) -> Object {
    object(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": namespace,
        "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
        "spec": {"replicas": replicas}, "status": {"selector": "app=web", "replicas": replicas}}))
}

fn binding(namespace: &str, of: &str, clusters: &[&str]) -> Object {
    let clusters: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
    object(json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment", "namespace": namespace}, "spec": {"clusters": clusters,
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": of, "name": "web"}}}))
}

fn autoscaler(namespace: &str, name: &str, more: Value) -> Object {
    let mut spec = json!({"minReplicas": 1, "maxReplicas": 20,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "metrics": [{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 50}}}]});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    object(json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}-{name}"), "generation": 1}, "spec": spec}))
}

impl ScaledFleet {
    fn start() -> Self {
        let plane = MemoryApi::default();
        for (name, ready) in [("m1", "True"), ("m2", "True"), ("m3", "False")] {
            let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                "metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
            plane.seed(&api::cluster::CLUSTERS.gvr(), object(cluster));
        }
        let members = ["m1", "m2", "m3"].map(|name| (name, (MemoryApi::default(), JsonPaths::default())));
        let members = BTreeMap::from(members);
        let cancel = CancellationToken::new();
        let mirrors = Mirrors::new(plane.client(), cancel.clone());
        let deps = AutoscalingDeps {
            adapter: MetricsAdapter::new(&mirrors, Arc::new(MemoryMembers(members.clone()))),
            mirrors,
            clock: Arc::new(VirtualClock::new(NOW.parse().expect("a time"))),
            metrics: PlaneMetrics::default(),
            settings: AutoscalingSettings::default(),
        };
        tokio::spawn(run(deps, cancel.clone()));
        Self { plane, members, cancel }
    }

    /// A template and as many replicas in each of the two ready members.
    fn with_replicas(template: i64, each: i64) -> Self {
        let fleet = Self::start();
        fleet.plane.seed(&deployments(), deployment("shop", template));
        fleet.plane.seed(&api::work::RESOURCE_BINDINGS.gvr(), binding("shop", "shop", &["m1", "m2", "m3"]));
        fleet.place(each);
        fleet
    }

    fn place(&self, each: i64) {
        for name in ["m1", "m2"] {
            let (api, _) = &self.members[name];
            api.seed(&deployments(), deployment("shop", each));
            for number in 0..each {
                // The same names in both members.
                let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("web-{number}"),
                    "namespace": "shop", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "main",
                    "resources": {"requests": {"cpu": "100m"}}}]}, "status": {"phase": "Running",
                    "startTime": "2026-04-30T00:00:00Z", "conditions": [{"type": "Ready", "status": "True",
                    "lastTransitionTime": "2026-04-30T00:00:10Z"}]}});
                api.seed(&builtin::pods(), object(pod));
            }
        }
    }

    fn measure(&self, name: &str, count: i64, cpu: &str) {
        for number in 0..count {
            let usage = json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", "metadata":
                {"name": format!("web-{number}"), "namespace": "shop", "labels": {"app": "web"}}, "timestamp": NOW,
                "window": "15s", "containers": [{"name": "main", "usage": {"cpu": cpu}}]});
            self.members[name].0.seed(&builtin::pod_metrics(), object(usage));
        }
    }

    fn queue(&self, name: &str, depth: &str) {
        let item = json!({"metricName": "depth", "metricLabels": {}, "timestamp": NOW, "value": depth});
        self.members[name].1.lock().insert(QUEUE, json!({"items": [item]}));
    }

    fn scale_by(&self, autoscaler: Object) {
        self.plane.seed(&FEDERATED_HPAS.gvr(), autoscaler);
    }

    async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    async fn replicas(&self, namespace: &str) -> Option<i64> {
        let target = ResourceRef::namespaced(&deployments(), namespace, "web");
        self.plane.client().get(target).await.expect("there").i64_at(&["spec", "replicas"])
    }

    async fn autoscaler(&self, namespace: &str, name: &str) -> Arc<Object> {
        let target = ResourceRef::namespaced(&FEDERATED_HPAS.gvr(), namespace, name);
        self.plane.client().get(target).await.expect("there")
    }

    async fn condition(&self, namespace: &str, name: &str, kind: &str) -> String {
        let object = self.autoscaler(namespace, name).await;
        let found = conditions::find(&object, kind);
        found.map(|c| format!("{} {}: {}", c.status(), c.reason(), c.message())).unwrap_or_default()
    }

    /// Reasons and messages of events, sorted.
    async fn events(&self) -> Vec<String> {
        let target = ResourceRef::all(&builtin::events());
        let events = self.plane.client().list_all(target, Default::default()).await.expect("a list").items;
        let text = |event: &Arc<Object>| format!("{}: {}", event.str_at(&["reason"]), event.str_at(&["message"]));
        let mut events: Vec<String> = events.iter().map(text).collect();
        events.sort();
        events
    }
}

impl Drop for ScaledFleet {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn the_template_follows_the_load_of_all_members() {
    let fleet = ScaledFleet::with_replicas(4, 2);
    fleet.measure("m1", 2, "90m");
    fleet.measure("m2", 2, "110m");
    fleet.scale_by(autoscaler("shop", "h", json!({})));
    fleet.pass(5).await;
    assert_eq!(fleet.replicas("shop").await, Some(8));
    let reason = "cpu resource utilization (percentage of request) above target";
    assert_eq!(fleet.events().await, [format!("SuccessfulRescale: New size: 8; reason: {reason}")]);
    let status = fleet.autoscaler("shop", "h").await;
    let numbers = ["currentReplicas", "desiredReplicas"].map(|field| status.i64_at(&["status", field]));
    assert_eq!(numbers, [Some(4), Some(8)]);
    let current = &status.items(&["status", "currentMetrics"])[0]["resource"]["current"];
    assert_eq!(*current, json!({"averageUtilization": 100, "averageValue": "100m"}));
    assert!(!status.str_at(&["status", "lastScaleTime"]).is_empty());
    let able = "True SucceededRescale: the HPA controller was able to update the target scale to 8";
    assert_eq!(fleet.condition("shop", "h", "AbleToScale").await, able);
    assert!(fleet.condition("shop", "h", "ScalingActive").await.starts_with("True ValidMetricFound: "));
    let within = "False DesiredWithinRange: the desired count is within the acceptable range";
    assert_eq!(fleet.condition("shop", "h", "ScalingLimited").await, within);

    fleet.place(4);
    fleet.measure("m1", 4, "10m");
    fleet.measure("m2", 4, "10m");
    fleet.pass(100).await;
    assert_eq!(fleet.replicas("shop").await, Some(8));
    assert!(fleet.condition("shop", "h", "AbleToScale").await.starts_with("True ScaleDownStabilized: "));
    fleet.pass(300).await;
    assert_eq!(fleet.replicas("shop").await, Some(2));
}

#[tokio::test(start_paused = true)]
async fn replicas_in_every_member_count_once() {
    // Two replicas, duplicated to both members.
    let fleet = ScaledFleet::with_replicas(2, 2);
    fleet.measure("m1", 2, "100m");
    fleet.measure("m2", 2, "100m");
    fleet.scale_by(autoscaler("shop", "h", json!({})));
    fleet.pass(5).await;
    assert_eq!(fleet.replicas("shop").await, Some(4));
}

#[tokio::test(start_paused = true)]
async fn nothing_outside_the_own_namespace_is_scaled() {
    let fleet = ScaledFleet::with_replicas(4, 2);
    fleet.measure("m1", 2, "100m");
    fleet.scale_by(autoscaler("thief", "h", json!({})));
    // A template without a binding of its own, and a binding elsewhere that claims it.
    fleet.plane.seed(&deployments(), deployment("other", 1));
    fleet.plane.seed(&api::work::RESOURCE_BINDINGS.gvr(), binding("elsewhere", "other", &["m1"]));
    fleet.scale_by(autoscaler("other", "h", json!({"minReplicas": 3})));
    fleet.pass(60).await;
    assert_eq!(fleet.replicas("shop").await, Some(4));
    assert_eq!(fleet.replicas("other").await, Some(1));
    let able = fleet.condition("thief", "h", "AbleToScale").await;
    let start = "False FailedGetScaleTargetRef: the HPA controller was unable to get the target reference object: ";
    assert!(able.starts_with(start), "{able}");
    let text =
        "the HPA controller was unable to get the binding by scaleTargetRef: no binding matches the target resource";
    assert_eq!(fleet.condition("other", "h", "AbleToScale").await, format!("False FailedGetBinding: {text}"));
    assert!(fleet.events().await.contains(&"FailedGetBindings: no binding matches the target resource".to_owned()));
    for (member, _) in fleet.members.values() {
        assert!(member.calls().iter().all(|call| !call.contains(" other/") && !call.contains(" thief/")));
    }
}

#[tokio::test(start_paused = true)]
async fn an_external_metric_scales_to_zero_and_back() {
    let fleet = ScaledFleet::with_replicas(2, 1);
    fleet.queue("m1", "0");
    fleet.queue("m2", "0");
    let metrics = json!([{"type": "External", "external": {"metric": {"name": "depth"},
        "target": {"type": "AverageValue", "averageValue": "10"}}}]);
    let behavior = json!({"scaleDown": {"stabilizationWindowSeconds": 0}});
    fleet.scale_by(autoscaler("shop", "h", json!({"minReplicas": 0, "metrics": metrics, "behavior": behavior})));
    fleet.pass(5).await;
    assert_eq!(fleet.replicas("shop").await, Some(0));
    fleet.place(0);
    fleet.queue("m1", "15");
    fleet.queue("m2", "10");
    fleet.pass(20).await;
    // The sum over members, not the value of one of them.
    assert_eq!(fleet.replicas("shop").await, Some(3));
    let status = fleet.autoscaler("shop", "h").await;
    assert_eq!(status.items(&["status", "currentMetrics"])[0]["external"]["current"], json!({"averageValue": "25"}));
}

#[tokio::test(start_paused = true)]
async fn missing_metrics_are_reported_and_change_nothing() {
    let fleet = ScaledFleet::with_replicas(4, 2);
    fleet.scale_by(autoscaler("shop", "h", json!({})));
    fleet.pass(5).await;
    assert_eq!(fleet.replicas("shop").await, Some(4));
    let error = "unable to get metrics for resource cpu: no metrics returned from resource metrics API";
    let error = format!("failed to get cpu utilization: {error}");
    let message = format!("False FailedGetResourceMetric: the HPA was unable to compute the replica count: {error}");
    assert_eq!(fleet.condition("shop", "h", "ScalingActive").await, message);
    let summary = format!(
        "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {error}"
    );
    let expected = [format!("FailedComputeMetricsReplicas: {summary}"), format!("FailedGetResourceMetric: {error}")];
    assert_eq!(fleet.events().await, expected);
}

#[tokio::test(start_paused = true)]
async fn two_autoscalers_of_the_same_pods_both_stop() {
    let fleet = ScaledFleet::with_replicas(4, 2);
    fleet.measure("m1", 2, "50m");
    fleet.measure("m2", 2, "50m");
    fleet.scale_by(autoscaler("shop", "a", json!({})));
    fleet.pass(2).await;
    fleet.scale_by(autoscaler("shop", "b", json!({})));
    fleet.pass(30).await;
    let text = "pods by selector app=web are controlled by multiple HPAs: [shop/a shop/b]";
    for name in ["a", "b"] {
        assert_eq!(fleet.condition("shop", name, "ScalingActive").await, format!("False AmbiguousSelector: {text}"));
    }
}

#[tokio::test(start_paused = true)]
async fn bounds_hold_without_metrics_and_a_template_of_zero_is_left_alone() {
    let fleet = ScaledFleet::with_replicas(4, 2);
    fleet.scale_by(autoscaler("shop", "h", json!({"minReplicas": 6})));
    fleet.pass(5).await;
    assert_eq!(fleet.replicas("shop").await, Some(6));
    let reported = "SuccessfulRescale: New size: 6; reason: Current number of replicas below Spec.MinReplicas";
    assert_eq!(fleet.events().await, [reported]);

    let idle = ScaledFleet::with_replicas(0, 0);
    idle.scale_by(autoscaler("shop", "h", json!({})));
    idle.pass(60).await;
    assert_eq!(idle.replicas("shop").await, Some(0));
    assert!(idle.condition("shop", "h", "ScalingActive").await.starts_with("False ScalingDisabled: "));
}

#[tokio::test(start_paused = true)]
async fn a_workload_whose_members_do_not_answer_is_left_alone() {
    let fleet = ScaledFleet::start();
    fleet.plane.seed(&deployments(), deployment("shop", 4));
    fleet.plane.seed(&api::work::RESOURCE_BINDINGS.gvr(), binding("shop", "shop", &["m3"]));
    fleet.scale_by(autoscaler("shop", "h", json!({"minReplicas": 6})));
    fleet.pass(5).await;
    assert_eq!(fleet.replicas("shop").await, Some(4));
    let text = "failed to get replicas in any of clusters, possibly because all of clusters are not ready";
    let message = format!("the HPA controller was unable to get the target's current scale: {text}");
    assert_eq!(fleet.condition("shop", "h", "AbleToScale").await, format!("False FailedGetScale: {message}"));
}
