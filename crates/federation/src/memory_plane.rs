//! A control plane in memory for the tests of this crate, with time that passes as fast as nothing happens.

use std::sync::Arc;
use std::time::Duration;

use api::Resource;
use api::features::Features;
use cluster_client::testing::MemoryApi;
use cluster_client::{DeleteOptions, Patch, ResourceRef, WriteOptions};
use interpreter::{Interpreter, NoWebhooks};
use object::{GroupVersionResource, Object};
use reconcile::SystemClock;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::plane::Plane;
use crate::settings::Settings;
use crate::start::Parts;

/// Longer than any wait between two tries at something that can succeed at once.
const SETTLED: Duration = Duration::from_secs(100);
const POLL: Duration = Duration::from_millis(10);
const DEADLINE: Duration = Duration::from_secs(200);

/// Tests that use it run with paused time.
pub struct Stage {
    pub api: MemoryApi,
    features: Features,
    cancel: CancellationToken,
}

pub const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "Deployment", "deployments");
pub const NAMESPACES: Resource = Resource::cluster("", "v1", "Namespace", "namespaces");
pub const SECRETS: Resource = Resource::namespaced("", "v1", "Secret", "secrets");

impl Stage {
    pub fn new(features: Features) -> Self {
        let stage = Self { api: MemoryApi::default(), features, cancel: CancellationToken::new() };
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
    ) -> Arc<Plane> {
        self.cancel = CancellationToken::new();
        let parts = Parts {
            client: self.api.client(),
            interpreter: interpreter::Shared::new(Interpreter::new(&[], &[], Arc::new(NoWebhooks))),
            features: Arc::new(self.features.clone()),
            clock: Arc::new(SystemClock),
            settings: Settings::default(),
        };
        let plane = Plane::start(parts, &self.cancel);
        tokio::spawn(Arc::clone(&plane.templates).run());
        tokio::spawn(run(Arc::clone(&plane), self.cancel.clone()));
        plane
    }

    pub fn stop(&self) {
        self.cancel.cancel();
    }

    pub fn seed(&self, resource: Resource, value: Value) -> Arc<Object> {
        let mut full = json!({"apiVersion": resource.api_version(), "kind": resource.kind});
        json_merge(&mut full, &value);
        self.api.seed(&resource.gvr(), Object::from_value(full).expect("a map"))
    }

    pub async fn find(&self, resource: Resource, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.api.client().find(target(&resource.gvr(), namespace, name)).await.expect("the API answers")
    }

    /// Changes an object as a user does.
    pub async fn patch(&self, resource: Resource, namespace: &str, name: &str, patch: Value) {
        let target = target(&resource.gvr(), namespace, name);
        self.api.client().patch(target, Patch::merge(patch), WriteOptions::default()).await.expect("patched");
    }

    pub async fn patch_status(&self, resource: Resource, namespace: &str, name: &str, status: Value) {
        let target = target(&resource.gvr(), namespace, name).subresource("status");
        let patch = Patch::merge(json!({"status": status}));
        self.api.client().patch(target, patch, WriteOptions::default()).await.expect("patched");
    }

    pub async fn delete(&self, resource: Resource, namespace: &str, name: &str) {
        let target = target(&resource.gvr(), namespace, name);
        self.api.client().delete(target, DeleteOptions::default()).await.expect("deleted");
    }

    /// The object once it is there and as wanted.
    #[track_caller]
    pub fn wait<'a>(
        &'a self,
        resource: Resource,
        namespace: &'a str,
        name: &'a str,
        what: &'a str,
        is_as_wanted: impl Fn(&Object) -> bool + 'a,
    ) -> impl Future<Output = Arc<Object>> + 'a {
        let waited = async move {
            loop {
                match self.find(resource, namespace, name).await {
                    Some(object) if is_as_wanted(&object) => return object,
                    _ => tokio::time::sleep(POLL).await,
                }
            }
        };
        async move {
            match tokio::time::timeout(DEADLINE, waited).await {
                Ok(object) => object,
                Err(_) => panic!("{what}: {:#?}", self.find(resource, namespace, name).await),
            }
        }
    }

    pub async fn wait_gone(&self, resource: Resource, namespace: &str, name: &str) {
        let gone = async {
            while self.find(resource, namespace, name).await.is_some() {
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(DEADLINE, gone).await.expect("it goes");
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
        let events = GroupVersionResource::new("", "v1", "events");
        let list = self.api.client().list_all(ResourceRef::all(&events), Default::default()).await.expect("listed");
        let about = |event: &&Arc<Object>| {
            event.str_at(&["involvedObject", "kind"]) == kind && event.str_at(&["involvedObject", "name"]) == name
        };
        let mut reasons: Vec<String> =
            list.items.iter().filter(about).map(|event| event.str_at(&["reason"]).to_owned()).collect();
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

fn target(gvr: &GroupVersionResource, namespace: &str, name: &str) -> ResourceRef {
    match namespace {
        "" => ResourceRef::cluster(gvr, name),
        _ => ResourceRef::namespaced(gvr, namespace, name),
    }
}

fn json_merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                json_merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}
