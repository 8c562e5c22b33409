//! Reads and sets the replicas of scalable resources.

use std::sync::Arc;

use cluster_client::discovery::RestMapper;
use cluster_client::{ClusterClient, ResourceRef};
use object::request::Subresource;
use object::{GroupVersion, GroupVersionResource, Object, Status};
use serde_json::Value;

/// Resolves scalable resources by kind.
pub struct Scales {
    client: ClusterClient,
    mapper: RestMapper,
}

/// A scalable resource with its scale.
pub struct Scale {
    pub target: ResourceRef,
    pub scale: Arc<Object>,
}

impl Scales {
    pub fn new(client: ClusterClient) -> Self {
        Self { mapper: RestMapper::new(client.clone()), client }
    }

    /// Returns the resource of a kind; common ones need no discovery.
    pub async fn resource_of(&self, api_version: &str, kind: &str) -> Result<GroupVersionResource, Status> {
        let gv = GroupVersion::parse(api_version).unwrap_or_default();
        let plural = match (gv.group.as_str(), kind) {
            ("apps", "Deployment") => "deployments",
            ("apps", "ReplicaSet") => "replicasets",
            ("apps", "StatefulSet") => "statefulsets",
            ("", "ReplicationController") => "replicationcontrollers",
            _ => return self.mapper.resource_of(&gv.kind(kind)).await.map(|resource| resource.gvr),
        };
        Ok(gv.resource(plural))
    }

    pub async fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Scale, Status> {
        let gvr = self.resource_of(api_version, kind).await?;
        let target = ResourceRef::namespaced(&gvr, namespace, name).subresource(Subresource::Scale);
        let scale = self.client.get(target.clone()).await?;
        Ok(Scale { target, scale })
    }

    /// Returns the replicas desired by the controller of a pod. For a ReplicaSet of a Deployment this is the
    /// Deployment's count, since during a rollout neither old nor new set has all of them. `None` for kinds without a
    /// scale.
    pub async fn replicas_of(&self, owner: &[String; 4], namespace: &str) -> Result<Option<(String, i64)>, Status> {
        let [api_version, kind, name, uid] = owner;
        let gvr = self.resource_of(api_version, kind).await?;
        let Some(object) = self.client.find(ResourceRef::namespaced(&gvr, namespace, name)).await? else {
            return Ok(None);
        };
        if object.uid() != uid {
            return Ok(None);
        }
        if kind == "ReplicaSet"
            && let Some(parent) = object.owner_references().into_iter().find(|o| o.controller && o.kind == "Deployment")
        {
            let gvr = self.resource_of(&parent.api_version, &parent.kind).await?;
            if let Some(deployment) = self.client.find(ResourceRef::namespaced(&gvr, namespace, &parent.name)).await? {
                return Ok(Some((parent.uid, replicas(&deployment))));
            }
        }
        if matches!(kind.as_str(), "ReplicaSet" | "Deployment" | "StatefulSet" | "ReplicationController") {
            return Ok(Some((uid.clone(), replicas(&object))));
        }
        let target = ResourceRef::namespaced(&gvr, namespace, name).subresource(Subresource::Scale);
        match self.client.find(target).await {
            Ok(scale) => Ok(scale.map(|scale| (uid.clone(), scale.i64_at(&["spec", "replicas"]).unwrap_or(0)))),
            Err(status) if matches!(status.code, 404 | 405) => Ok(None),
            Err(status) => Err(status),
        }
    }
}

/// Defaults to one.
fn replicas(object: &Object) -> i64 {
    object.get(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(1)
}
