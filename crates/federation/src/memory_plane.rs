//! The plane in memory as templates and policies see it: kinds known beforehand, starts and stops, time that passes
//! as fast as nothing happens.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use api::Resource;
use api::features::Features;
use cluster_client::{DeleteOptions, ResourceRef};
use object::{GroupVersionResource, Object};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::plane::Plane;
use crate::testing::{self, object, until};

/// Longer than any wait between two tries at something that can succeed at once.
const SETTLED: Duration = Duration::from_secs(100);

/// Tests that use it run with paused time.
pub struct Stage {
    base: testing::Stage,
    features: Features,
}

pub const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "Deployment", "deployments");
pub const NAMESPACES: Resource = Resource::cluster("", "v1", "Namespace", "namespaces");
pub const SECRETS: Resource = Resource::namespaced("", "v1", "Secret", "secrets");

impl Deref for Stage {
    type Target = testing::Stage;

    fn deref(&self) -> &testing::Stage {
        &self.base
    }
}

impl Stage {
    pub fn new(features: Features) -> Self {
        let stage = Self { base: testing::Stage::new(&[]), features };
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
        self.base.cancel = CancellationToken::new();
        let plane = self.plane(self.features.clone());
        tokio::spawn(run(plane, self.cancel.clone()));
    }

    pub fn stop(&self) {
        self.cancel.cancel();
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
        let events = GroupVersionResource::new("", "v1", "events");
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
