//! A client of the control plane that replaces forbidden merge patches with updates.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::{
    ApiCall, ApiRequest, Backend, ClusterClient, ConnectError, Endpoint, Identity, Patch, PatchKind, Reply,
    ResourceRef, Subresource, WatchCall, WatchEvents, WriteOptions,
};
use object::{GroupVersionResource, Object, Status, patch};
use parking_lot::Mutex;

/// Karmada lets its agents update works and the status of their Cluster, but not patch them.
pub fn connect(plane: ClusterClient) -> Result<ClusterClient, ConnectError> {
    let server: Arc<dyn Backend> = Arc::new(UpdateInstead { plane, forbidden: Mutex::default() });
    ClusterClient::connect(Endpoint::Direct { server, identity: Identity::default() })
}

struct UpdateInstead {
    plane: ClusterClient,
    /// Resources and subresources that may not be patched; tried only once. An agent writes few kinds.
    forbidden: Mutex<HashSet<(GroupVersionResource, Option<Subresource>)>>,
}

impl UpdateInstead {
    async fn update(&self, target: ResourceRef, body: &Patch, options: WriteOptions) -> Result<Reply, Status> {
        let whole = ResourceRef { subresource: None, ..target.clone() };
        let current = self.plane.get(whole).await?;
        let mut changed = current.to_value();
        // The patch carries the resource version and UID it was computed for, and the API still compares them.
        patch::merge::apply(&mut changed, &body.body).map_err(|error| error.to_status())?;
        let object =
            Object::from_value(changed).ok_or_else(|| Status::internal("the patched value is not an object"))?;
        self.plane.call(target, ApiRequest::Update { object, options }).await
    }
}

#[async_trait]
impl Backend for UpdateInstead {
    async fn call(&self, _: &Identity, request: ApiCall) -> Result<Reply, Status> {
        let ApiCall { target, request } = request;
        let (patch, options) = match request {
            ApiRequest::Patch { patch, options } if patch.kind == PatchKind::Merge => (patch, options),
            other => return self.plane.call(target, other).await,
        };
        let kind = (target.gvr.clone(), target.subresource.clone());
        if !self.forbidden.lock().contains(&kind) {
            let request = ApiRequest::Patch { patch: patch.clone(), options: options.clone() };
            match self.plane.call(target.clone(), request).await {
                Err(status) if status.code == 403 => {}
                answer => return answer,
            }
        }
        let answer = self.update(target, &patch, options).await;
        if answer.is_ok() {
            self.forbidden.lock().insert(kind);
        }
        answer
    }

    async fn watch(&self, _: &Identity, request: WatchCall) -> Result<WatchEvents, Status> {
        self.plane.watch(request).await
    }

    async fn raw(&self, _: &Identity, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, Status> {
        self.plane.raw(request).await
    }
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;
    use object::builtin;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_forbidden_patch_becomes_an_update_guarded_by_its_version() {
        let api = MemoryApi::default();
        let gvr = builtin::config_maps();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"},
            "data": {"kept": "1"}});
        let stored = api.seed(&gvr, Object::from_value(map).expect("a map"));
        api.set_fault(|call| {
            matches!(call.request, ApiRequest::Patch { .. }).then(|| Status::new(403, "Forbidden", "cannot patch"))
        });
        let client = connect(api.client()).expect("always connects");
        let target = || ResourceRef::namespaced(&gvr, "n", "a");
        let patch =
            |version: &str| Patch::merge(json!({"metadata": {"resourceVersion": version}, "data": {"new": "2"}}));
        let version = stored.resource_version().to_owned();
        let written = client.patch(target(), patch(&version), WriteOptions::default()).await.expect("written");
        assert_eq!(written.get(&["data"]), Some(&json!({"kept": "1", "new": "2"})));
        let stale = client.patch(target(), patch(&version), WriteOptions::default()).await.expect_err("it is stale");
        assert!(stale.is_conflict(), "{stale}");
        let patches = api.calls().iter().filter(|call| call.starts_with("patch")).count();
        assert_eq!(patches, 1, "a forbidden patch is not tried again");
    }
}
