//! A plane in memory for the tests of this crate: members, templates, policies, bindings, and what became of them.

use std::sync::Arc;
use std::time::Duration;

use api::Resource;
use api::cluster::CLUSTERS;
use api::features::Features;
use api::names::{binding_name, execution_namespace, work_name};
use api::work::WORKS;
use cluster_client::testing::MemoryApi;
use cluster_client::{ClusterClient, DeleteOptions, Patch, ResourceRef, WriteOptions};
use interpreter_runtime::SharedInterpreter;
use object::Object;
use object::builtin;
use object::request::Subresource;
use propagation::binding::Twin;
use reconcile::{Mirrors, VirtualClock};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::plane::Plane;
use crate::settings::Settings;
use crate::start::FederationDeps;

/// Start time of the tests.
const NOON: &str = "2026-11-16T12:00:00Z";
const DEADLINE: Duration = Duration::from_secs(1200);
/// Longer than any wait between two tries at something that can succeed at once.
const SETTLED: Duration = Duration::from_secs(100);

pub const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "Deployment", "deployments");
pub const NAMESPACES: Resource = Resource::cluster("", "v1", "Namespace", "namespaces");
pub const SECRETS: Resource = Resource::namespaced("", "v1", "Secret", "secrets");

/// A control plane in memory. Tests that use it run with paused time: it passes as fast as nothing happens.
pub struct Stage {
    pub api: MemoryApi,
    pub client: ClusterClient,
    pub cancel: CancellationToken,
    pub interpreter: SharedInterpreter,
    features: Features,
}

pub fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

/// Asks again and again until there is an answer.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, ask: impl Fn() -> F) -> T {
    let answer = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(DEADLINE, answer).await {
        Ok(answer) => answer,
        Err(_) => panic!("timed out waiting for {what}"),
    }
}

impl Stage {
    /// With these members.
    pub fn new(clusters: &[&str]) -> Self {
        let api = MemoryApi::default();
        for cluster in clusters {
            api.seed(&CLUSTERS.gvr(), CLUSTERS.object("", cluster));
        }
        Self {
            client: api.client(),
            api,
            cancel: CancellationToken::new(),
            interpreter: SharedInterpreter::built_in(),
            features: Features::default(),
        }
    }

    /// Without members, for templates and policies: kinds are known before the first object comes.
    pub fn of_templates(features: Features) -> Self {
        let mut stage = Self::new(&[]);
        stage.features = features;
        // The API in memory serves the kinds it has seen.
        for (resource, namespace) in [(DEPLOYMENTS, "elsewhere"), (NAMESPACES, ""), (SECRETS, "elsewhere")] {
            stage.api.seed(&resource.gvr(), resource.object(namespace, "known"));
        }
        stage
    }

    /// Starts what is under test on a view of the plane of its own.
    pub fn start<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        run: impl FnOnce(Arc<Plane>, CancellationToken) -> F,
    ) {
        self.cancel = CancellationToken::new();
        let plane = self.plane(self.features.clone());
        tokio::spawn(run(plane, self.cancel.clone()));
    }

    pub fn stop(&self) {
        self.cancel.cancel();
    }

    pub fn plane(&self, features: Features) -> Arc<Plane> {
        let deps = FederationDeps {
            mirrors: Mirrors::new(self.client.clone(), self.cancel.clone()),
            interpreter: self.interpreter.clone(),
            features: Arc::new(features),
            clock: Arc::new(VirtualClock::new(NOON.parse().expect("a time"))),
            metrics: plane_metrics::PlaneMetrics::default(),
            settings: Settings::default(),
        };
        let plane = Plane::start(deps, &self.cancel);
        tokio::spawn(Arc::clone(&plane.templates).run());
        plane
    }

    pub fn put_deployment(&self, name: &str) -> Arc<Object> {
        let pods = json!({"metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "web", "image": "a.example/web:v1"}]}});
        let value = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
            "spec": {"replicas": 5, "selector": {"matchLabels": {"app": name}}, "template": pods}});
        self.api.seed(&DEPLOYMENTS.gvr(), object(value))
    }

    /// The binding of a template, as the detector and the scheduler leave it.
    pub fn put_binding(&self, template: &Object, spec: Value) -> Arc<Object> {
        let twin = Twin::of(template.namespace());
        let name = binding_name(template.kind(), template.name());
        let mut binding = twin.resource().object(template.namespace(), &name);
        binding.set_label(twin.id_label(), &format!("id-{name}"));
        binding.add_finalizer(twin.finalizer());
        binding.set(&["spec"], spec);
        binding.set(
            &["spec", "resource"],
            json!({"apiVersion": template.api_version(), "kind": template.kind(), "name": template.name(),
                "namespace": template.namespace(), "uid": template.uid(),
                "resourceVersion": template.resource_version()}),
        );
        self.api.seed(&twin.resource().gvr(), binding)
    }

    pub fn target(&self, resource: Resource, namespace: &str, name: &str) -> ResourceRef {
        match namespace {
            "" => ResourceRef::cluster(&resource.gvr(), name),
            _ => ResourceRef::namespaced(&resource.gvr(), namespace, name),
        }
    }

    pub async fn find(&self, resource: Resource, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.client.find(self.target(resource, namespace, name)).await.expect("the API answers")
    }

    /// The work of a deployment in a member.
    pub async fn find_work(&self, cluster: &str, deployment: &str) -> Option<Arc<Object>> {
        let name = work_name("Deployment", deployment, "default");
        self.find(WORKS, &execution_namespace(cluster), &name).await
    }

    pub async fn patch(&self, resource: Resource, namespace: &str, name: &str, patch: Value) {
        let target = self.target(resource, namespace, name);
        self.client.patch(target, Patch::merge(patch), WriteOptions::default()).await.expect("patched");
    }

    pub async fn patch_status(&self, resource: Resource, namespace: &str, name: &str, status: Value) {
        let target = self.target(resource, namespace, name).subresource(Subresource::Status);
        let patch = Patch::merge(json!({"status": status}));
        self.client.patch(target, patch, WriteOptions::default()).await.expect("patched");
    }

    /// Reasons and messages of the events about objects of a kind.
    pub async fn events_on(&self, kind: &str) -> Vec<(String, String)> {
        let events = builtin::events();
        let list = self.client.list_all(ResourceRef::all(&events), Default::default()).await.expect("listed");
        let about = list.items.iter().filter(|event| event.str_at(&["involvedObject", "kind"]) == kind);
        about.map(|event| (event.str_at(&["reason"]).to_owned(), event.str_at(&["message"]).to_owned())).collect()
    }

    /// Writes to a resource so far, as verb and namespace.
    pub fn writes_to(&self, resource: &str) -> Vec<String> {
        let calls = self.api.calls();
        let writes = calls.iter().filter_map(|call| {
            let mut words = call.split(' ');
            let (verb, of, place) = (words.next()?, words.next()?, words.next()?);
            let is_write = of == resource && !matches!(verb, "get" | "list");
            is_write.then(|| format!("{verb} {}", place.split('/').next().unwrap_or_default()))
        });
        writes.collect()
    }

    pub fn seed(&self, resource: Resource, mut value: Value) -> Arc<Object> {
        value["apiVersion"] = resource.api_version().into();
        value["kind"] = resource.kind.into();
        self.api.seed(&resource.gvr(), object(value))
    }

    pub async fn delete(&self, resource: Resource, namespace: &str, name: &str) {
        let target = self.target(resource, namespace, name);
        self.client.delete(target, DeleteOptions::default()).await.expect("deleted");
    }

    /// The object once it is there and as wanted.
    pub async fn wait(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        what: &str,
        is_as_wanted: impl Fn(&Object) -> bool,
    ) -> Arc<Object> {
        let what = format!("{} {namespace}/{name}: {what}", resource.kind);
        until(&what, || async { self.find(resource, namespace, name).await.filter(|found| is_as_wanted(found)) }).await
    }

    pub async fn wait_gone(&self, resource: Resource, namespace: &str, name: &str) {
        let what = format!("{} {namespace}/{name} to go", resource.kind);
        until(&what, || async { self.find(resource, namespace, name).await.is_none().then_some(()) }).await;
    }

    /// Lets everything that is under way come to its end.
    pub async fn settle(&self) {
        tokio::time::sleep(SETTLED).await;
    }

    /// Writes so far, events aside.
    pub fn writes(&self) -> Vec<String> {
        let is_write = |call: &String| {
            ["create ", "update ", "patch ", "delete "].iter().any(|verb| call.starts_with(verb))
                && !call.contains(" events ")
        };
        self.api.calls().into_iter().filter(is_write).collect()
    }

    /// Reasons of the events about an object, each once.
    pub async fn reasons(&self, kind: &str, name: &str) -> Vec<String> {
        let events = builtin::events();
        let list = self.client.list_all(ResourceRef::all(&events), Default::default()).await.expect("listed");
        let about = json!({"kind": kind, "name": name});
        let is_about = |event: &&Arc<Object>| {
            ["kind", "name"].iter().all(|field| event.str_at(&["involvedObject", field]) == about[field])
        };
        let mut reasons: Vec<String> =
            list.items.iter().filter(is_about).map(|event| event.str_at(&["reason"]).to_owned()).collect();
        reasons.sort();
        reasons.dedup();
        reasons
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
