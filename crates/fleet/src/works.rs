//! Writes the Works that this crate creates itself, if they differ from the existing ones.

use cluster_client::{ClusterClient, Patch, ResourceRef, WriteOptions};
use object::Object;
use propagation::works::{DesiredWork, WorkChange};
use reconcile::ReconcileError;
use serde_json::{Value, json};

use crate::plane::FIELD_MANAGER;

/// Makes the Work as desired; true when something was written. A Work that is going away fails, to be tried later.
pub async fn commit(client: &ClusterClient, desired: DesiredWork) -> Result<bool, ReconcileError> {
    let gvr = api::work::WORKS.gvr();
    let target = ResourceRef::namespaced(&gvr, &desired.namespace, &desired.name);
    let space = ResourceRef::within(&gvr, &desired.namespace);
    let options = WriteOptions::managed_by(FIELD_MANAGER);
    // Read rather than mirrored: for each work of this crate there are many others.
    let existing = client.find(target.clone()).await?;
    match desired.plan(existing.as_deref()).map_err(ReconcileError::other)? {
        WorkChange::Unchanged => return Ok(false),
        WorkChange::Create(work) => client.create(space, work, options).await?,
        WorkChange::Patch(patch) => client.patch(target, Patch::merge(patch), options).await?,
    };
    Ok(true)
}

/// The owner that a Work goes with.
pub fn owner(object: &Object) -> Value {
    json!({"apiVersion": object.api_version(), "kind": object.kind(), "name": object.name(), "uid": object.uid(),
        "controller": true, "blockOwnerDeletion": true})
}
