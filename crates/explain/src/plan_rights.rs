//! Plans of callers without permission to list all that a policy selects.

use std::sync::Arc;

use api::cluster::CLUSTERS;
use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::testing::MemoryApi;
use cluster_client::{ApiCall, ApiRequest, Backend, Identity, Reply, User, WatchCall, WatchEvents};
use object::builtin;
use object::{GroupVersionResource, Object, Status};
use serde_json::{Value, json};

use crate::gather::{Explainer, ExplainerDeps};

/// Refuses to list secrets to impersonated users.
struct NoSecrets(Arc<dyn Backend>);

#[async_trait]
impl Backend for NoSecrets {
    async fn call(&self, identity: &Identity, request: ApiCall) -> Result<Reply, Status> {
        let is_list = matches!(request.request, ApiRequest::List(_)) && request.target.gvr.resource == "secrets";
        if is_list && identity.impersonated.is_some() {
            return Err(Status::new(403, "Forbidden", "secrets is forbidden"));
        }
        self.0.call(identity, request).await
    }

    async fn watch(&self, identity: &Identity, request: WatchCall) -> Result<WatchEvents, Status> {
        self.0.watch(identity, request).await
    }

    async fn raw(&self, identity: &Identity, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, Status> {
        self.0.raw(identity, request).await
    }
}

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

#[tokio::test]
async fn a_plan_names_no_objects_that_its_caller_cannot_list() {
    let api = MemoryApi::default();
    let core = builtin::core;
    for (kind, resource, name) in [("Secret", "secrets", "topsecret"), ("ConfigMap", "configmaps", "settings")] {
        let metadata = json!({"name": name, "namespace": "shop"});
        api.seed(&core(resource), object(json!({"apiVersion": "v1", "kind": kind, "metadata": metadata})));
    }
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"}});
    api.seed(&CLUSTERS.gvr(), object(cluster));
    let policies = GroupVersionResource::new("policy.karmada.io", "v1alpha1", "overridepolicies");
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "o", "namespace": "shop"}, "spec": {"resourceSelectors": [
            {"apiVersion": "v1", "kind": "Secret", "namespace": "shop"},
            {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop"}]}});
    api.seed(&policies, object(policy.clone()));
    let explainer =
        Explainer::new(ExplainerDeps::of_client(api.client().through(|backend| Arc::new(NoSecrets(backend)))));
    let plan = explainer.plan(User::new("low", &[]), vec![object(policy)]).await.expect("planned");
    let names: Vec<&str> = plan.templates.iter().map(|planned| planned.subject.name.as_str()).collect();
    assert_eq!(names, ["settings"], "{:?}", plan.notes);
    assert!(!plan.text.contains("topsecret"), "{}", plan.text);
    assert!(plan.notes.iter().any(|problem| problem.contains("secrets is forbidden")), "{:?}", plan.notes);
}
