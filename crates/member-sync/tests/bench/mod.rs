//! A control plane and members in memory, with connections that can be closed, delayed and observed.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::sync::Arc;
use std::time::Duration;

use api::cluster::{CLUSTERS, FINALIZER, LABEL_MANAGED};
use api::features::Features;
use api::names::{execution_namespace, work_name};
use api::work::{ANNOTATION_WORK_NAME, ANNOTATION_WORK_NAMESPACE, FINALIZER_EXECUTION, WORKS};
use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::testing::MemoryApi;
use cluster_client::{
    ApiCall, Backend, ClusterClient, Endpoint, Identity, Patch, Reply, ResourceRef, WatchCall, WatchEvents,
    WriteOptions,
};
use interpreter_runtime::SharedInterpreter;
use member_sync::{MemberDeps, Recorders, Settings, run_member};
use object::request::Subresource;
use object::status::{StatusCause, StatusDetails};
use object::{GroupVersionResource, Object, Status};
use parking_lot::Mutex;
use plane_state::MemberCapacity;
use reconcile::{Clock, VirtualClock};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Nothing takes this long unless it never happens.
pub const DEADLINE: Duration = Duration::from_secs(120);

pub fn gvr(group: &str, resource: &str) -> GroupVersionResource {
    GroupVersionResource::new(group, "v1", resource)
}

pub fn deployments() -> GroupVersionResource {
    gvr("apps", "deployments")
}

pub fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

/// A member in memory, with a connection that can be closed or delayed.
#[derive(Clone)]
pub struct Door {
    pub api: MemoryApi,
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Copy, Default)]
struct State {
    is_shut: bool,
    delay: Duration,
}

impl Door {
    /// Serves namespaces, deployments, config maps, nodes and pods.
    pub fn open() -> Self {
        let api = MemoryApi::default();
        for (group, resource, kind, namespace) in [
            ("", "namespaces", "Namespace", ""),
            ("", "nodes", "Node", ""),
            ("", "configmaps", "ConfigMap", "seed"),
            ("", "pods", "Pod", "seed"),
            ("apps", "deployments", "Deployment", "seed"),
        ] {
            let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
            let mut seed = object(json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "seed"}}));
            if !namespace.is_empty() {
                seed.set_namespace(namespace);
            }
            api.seed(&gvr(group, resource), seed);
        }
        Self { api, state: Arc::default() }
    }

    pub fn client(&self) -> ClusterClient {
        let endpoint = Endpoint::Direct { server: Arc::new(self.clone()), identity: Identity::default() };
        ClusterClient::connect(endpoint).expect("a direct endpoint always connects")
    }

    pub fn shut(&self) {
        self.state.lock().is_shut = true;
        self.api.cut_watches();
    }

    pub fn reopen(&self) {
        self.state.lock().is_shut = false;
    }

    /// Every answer takes this long.
    pub fn slow_down(&self, delay: Duration) {
        self.state.lock().delay = delay;
    }

    async fn pass(&self) -> Result<(), Status> {
        let State { is_shut, delay } = *self.state.lock();
        tokio::time::sleep(delay).await;
        if !is_shut {
            return Ok(());
        }
        let cause = StatusCause { reason: "Unreachable".into(), message: "shut".into(), field: String::new() };
        let details = StatusDetails { causes: vec![cause], ..StatusDetails::default() };
        Err(Status::unavailable("cannot connect").with_details(details))
    }

    /// Writes so far, as `VERB resource namespace/name`.
    pub fn writes(&self) -> Vec<String> {
        let is_write = |call: &String| !call.starts_with("get") && !call.starts_with("list");
        self.api.calls().into_iter().filter(is_write).collect()
    }

    pub async fn deployment(&self, name: &str) -> Option<Arc<Object>> {
        let target = ResourceRef::namespaced(&deployments(), "default", name);
        self.api.client().find(target).await.expect("the API in memory answers")
    }

    /// Someone in the member changes a deployment.
    pub async fn change(&self, name: &str, patch: Value) {
        let target = ResourceRef::namespaced(&deployments(), "default", name);
        self.api.client().patch(target, Patch::merge(patch), WriteOptions::default()).await.expect("patched");
    }

    pub async fn set_status(&self, name: &str, status: Value) {
        let target = ResourceRef::namespaced(&deployments(), "default", name).subresource(Subresource::Status);
        let patch = Patch::merge(json!({"status": status}));
        self.api.client().patch(target, patch, WriteOptions::default()).await.expect("patched");
    }

    pub async fn delete(&self, name: &str) {
        let target = ResourceRef::namespaced(&deployments(), "default", name);
        self.api.client().delete(target, Default::default()).await.expect("deleted");
    }
}

#[async_trait]
impl Backend for Door {
    async fn call(&self, identity: &Identity, request: ApiCall) -> Result<Reply, Status> {
        self.pass().await?;
        self.api.call(identity, request).await
    }

    async fn watch(&self, identity: &Identity, request: WatchCall) -> Result<WatchEvents, Status> {
        self.pass().await?;
        self.api.watch(identity, request).await
    }

    async fn raw(&self, identity: &Identity, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, Status> {
        self.pass().await?;
        if request.uri().path() == "/readyz" {
            return Ok(http::Response::new(Bytes::from_static(b"ok")));
        }
        self.api.raw(identity, request).await
    }
}

/// The control plane.
#[derive(Clone)]
pub struct Hub {
    pub api: MemoryApi,
    pub member_capacity: MemberCapacity,
    pub clock: Arc<dyn Clock>,
}

/// A member that is being synced.
pub struct Syncing {
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Syncing {
    pub async fn stop(self) {
        self.cancel.cancel();
        self.task.await.expect("ends in good order");
    }
}

impl Hub {
    pub fn start() -> Self {
        let start = "2026-01-01T00:00:00Z".parse().expect("a time");
        Self {
            api: MemoryApi::default(),
            member_capacity: MemberCapacity::default(),
            clock: Arc::new(VirtualClock::new(start)),
        }
    }

    /// Registers a member as the cluster controller leaves it.
    pub fn join(&self, cluster: &str) {
        let object = object(json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": cluster, "finalizers": [FINALIZER]}, "spec": {"syncMode": "Push"}}));
        self.api.seed(&CLUSTERS.gvr(), object);
    }

    pub fn sync(&self, cluster: &str, member: &Door) -> Syncing {
        self.sync_with(cluster, member, Features::default())
    }

    pub fn sync_with(&self, cluster: &str, member: &Door, features: Features) -> Syncing {
        let cancel = CancellationToken::new();
        let plane = self.api.client();
        let parts = MemberDeps {
            recorders: Recorders::start(&plane, &self.clock, &cancel),
            plane,
            member: member.client(),
            cluster: cluster.to_owned(),
            interpreter: interpreter(),
            member_capacity: self.member_capacity.clone(),
            features: Arc::new(features),
            clock: Arc::clone(&self.clock),
            metrics: Default::default(),
            settings: Settings::default(),
        };
        Syncing { task: tokio::spawn(run_member(parts, cancel.clone())), cancel }
    }

    /// A work that carries the manifest, as the binding controller makes it.
    pub fn work(&self, cluster: &str, manifest: Value, spec: Value) -> String {
        let work = work(cluster, manifest, spec);
        let name = work.name().to_owned();
        self.api.seed(&WORKS.gvr(), work);
        name
    }

    pub async fn find_work(&self, cluster: &str, name: &str) -> Option<Arc<Object>> {
        let target = ResourceRef::namespaced(&WORKS.gvr(), &execution_namespace(cluster), name);
        self.api.client().find(target).await.expect("the API in memory answers")
    }

    pub async fn get_work(&self, cluster: &str, name: &str) -> Arc<Object> {
        self.find_work(cluster, name).await.expect("the work is there")
    }

    pub async fn change_work(&self, cluster: &str, name: &str, patch: Value) {
        let target = ResourceRef::namespaced(&WORKS.gvr(), &execution_namespace(cluster), name);
        self.api.client().patch(target, Patch::merge(patch), WriteOptions::default()).await.expect("patched");
    }

    pub async fn delete_work(&self, cluster: &str, name: &str) {
        let target = ResourceRef::namespaced(&WORKS.gvr(), &execution_namespace(cluster), name);
        self.api.client().delete(target, Default::default()).await.expect("deleted");
    }

    pub async fn cluster(&self, name: &str) -> Arc<Object> {
        self.api.client().get(ResourceRef::cluster(&CLUSTERS.gvr(), name)).await.expect("the cluster is there")
    }

    /// `status/reason` of a condition of a Cluster.
    pub async fn readiness(&self, cluster: &str) -> String {
        condition(&*self.cluster(cluster).await, "Ready")
    }

    pub async fn applied(&self, cluster: &str, work: &str) -> String {
        match self.find_work(cluster, work).await {
            Some(work) => condition(&work, "Applied"),
            None => "gone".to_owned(),
        }
    }

    /// Messages and counts of the events about a work that have the reason.
    pub async fn events_about(&self, work: &str, reason: &str) -> Vec<(String, i64)> {
        let all = ResourceRef::all(&object::builtin::events());
        let list = self.api.client().list_all(all, Default::default()).await.expect("listed");
        let is_about = |event: &&Arc<Object>| {
            event.str_at(&["involvedObject", "name"]) == work && event.str_at(&["reason"]) == reason
        };
        let said =
            |event: &Arc<Object>| (event.str_at(&["message"]).to_owned(), event.i64_at(&["count"]).unwrap_or_default());
        list.items.iter().filter(is_about).map(said).collect()
    }

    pub fn status_writes(&self) -> usize {
        self.api.calls().iter().filter(|call| call.starts_with("patch works/status")).count()
    }
}

pub fn interpreter() -> SharedInterpreter {
    SharedInterpreter::built_in()
}

/// `status/reason` of a condition.
pub fn condition(object: &Object, kind: &str) -> String {
    let found = object.items(&["status", "conditions"]).iter().find(|condition| condition["type"] == kind);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    found.map(|found| format!("{}/{}", text(&found["status"]), text(&found["reason"]))).unwrap_or_default()
}

pub fn message(object: &Object, kind: &str) -> String {
    let found = object.items(&["status", "conditions"]).iter().find(|condition| condition["type"] == kind);
    found.and_then(|found| found["message"].as_str()).unwrap_or_default().to_owned()
}

pub fn deployment(name: &str, replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas}})
}

pub fn work(cluster: &str, manifest: Value, spec: Value) -> Object {
    let namespace = execution_namespace(cluster);
    let mut manifest = object(manifest);
    let name = work_name(manifest.kind(), manifest.name(), manifest.namespace());
    manifest.set_label(LABEL_MANAGED, "true");
    manifest.set_annotation(ANNOTATION_WORK_NAMESPACE, &namespace);
    manifest.set_annotation(ANNOTATION_WORK_NAME, &name);
    let mut work = object(json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"name": name, "namespace": namespace, "finalizers": [FINALIZER_EXECUTION]}, "spec": spec}));
    work.set(&["spec", "workload", "manifests"], vec![manifest.into_value()]);
    work
}

/// Waits until the question has the answer.
#[track_caller]
pub fn eventually<T, F, R>(what: &str, expected: T, ask: F) -> impl Future<Output = ()>
where
    T: PartialEq + std::fmt::Debug,
    F: Fn() -> R,
    R: Future<Output = T>,
{
    let (what, place) = (what.to_owned(), std::panic::Location::caller());
    async move {
        let start = tokio::time::Instant::now();
        loop {
            let answer = ask().await;
            if answer == expected {
                return;
            }
            assert!(start.elapsed() < DEADLINE, "{place}: {what}: {answer:?}, not {expected:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
