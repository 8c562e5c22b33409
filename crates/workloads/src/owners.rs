//! Controller references: reads them, adopts orphans, and releases objects that no longer match.

use std::sync::Arc;

use cluster_client::{ClusterClient, ResourceRef};
use object::selector::LabelSelector;
use object::{GroupVersionResource, Object};
use reconcile::{Committed, Index, ReconcileError, commit_object};
use serde_json::{Value, json};

use crate::cluster::FIELD_MANAGER;

/// Key of the indexes by owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OwnerKey {
    /// The uid of the controller.
    Uid(String),
    /// The namespace of an object without a controller.
    Orphan(String),
}

pub fn owner_keys(object: &Object) -> Vec<OwnerKey> {
    match controller_uid(object) {
        Some(uid) => vec![OwnerKey::Uid(uid.to_owned())],
        None => vec![OwnerKey::Orphan(object.namespace().to_owned())],
    }
}

/// Returns the objects with this controller.
pub fn owned_by(index: &Index<OwnerKey>, uid: &str) -> Vec<Arc<Object>> {
    index.list(&OwnerKey::Uid(uid.to_owned()))
}

/// Returns the objects of an owner, and those of its namespace that it might adopt.
pub fn owned_and_orphans(index: &Index<OwnerKey>, owner: &Object) -> Vec<Arc<Object>> {
    let mut objects = owned_by(index, owner.uid());
    objects.extend(index.list(&OwnerKey::Orphan(owner.namespace().to_owned())));
    objects
}

pub fn controller(object: &Object) -> Option<&Value> {
    object.items(&["metadata", "ownerReferences"]).iter().find(|owner| owner["controller"] == true)
}

pub fn controller_uid(object: &Object) -> Option<&str> {
    controller(object).and_then(|owner| owner["uid"].as_str())
}

/// Returns the controller reference to an owner.
pub fn controller_reference(owner: &Object) -> Value {
    json!({"apiVersion": owner.api_version(), "kind": owner.kind(), "name": owner.name(), "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true})
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Owned by this owner.
    Keep,
    /// Owned, but no longer matches.
    Release,
    /// Orphaned and matches.
    Adopt,
    /// Unrelated to this owner.
    Leave,
}

/// Returns the relation of an owner to an object of its namespace.
pub fn claim_of(owner: &Object, selector: &LabelSelector, candidate: &Object) -> Ownership {
    let fits = selector.matches(candidate);
    match controller_uid(candidate) {
        Some(uid) if uid == owner.uid() && fits => Ownership::Keep,
        Some(uid) if uid == owner.uid() && !owner.is_deleting() => Ownership::Release,
        None if fits && !owner.is_deleting() && !candidate.is_deleting() => Ownership::Adopt,
        _ => Ownership::Leave,
    }
}

/// Adopts an orphan. The mirror may be stale, so the API is asked whether the owner still exists.
pub async fn commit_adoption(
    client: &ClusterClient,
    owner: (&GroupVersionResource, &Object),
    orphan: (&GroupVersionResource, &Object),
    finalizer: Option<&str>,
) -> Result<Arc<Object>, ReconcileError> {
    let fresh = client.get(ResourceRef::of(owner.0, owner.1)).await?;
    if fresh.uid() != owner.1.uid() || fresh.is_deleting() {
        return Err(ReconcileError::other(format!("{} is being deleted and cannot adopt", owner.1.name())));
    }
    let mut adopted = Object::clone(orphan.1);
    let mut owners = orphan.1.items(&["metadata", "ownerReferences"]).to_vec();
    owners.push(controller_reference(owner.1));
    adopted.set(&["metadata", "ownerReferences"], owners);
    if let Some(finalizer) = finalizer {
        adopted.add_finalizer(finalizer);
    }
    commit_owners(client, orphan, &adopted).await
}

/// Removes the controller reference from an object that no longer matches.
pub async fn commit_release(
    client: &ClusterClient,
    owner: &Object,
    object: (&GroupVersionResource, &Object),
) -> Result<Arc<Object>, ReconcileError> {
    let mut released = Object::clone(object.1);
    let mut owners = object.1.items(&["metadata", "ownerReferences"]).to_vec();
    owners.retain(|reference| reference["uid"].as_str() != Some(owner.uid()));
    released.set(&["metadata", "ownerReferences"], owners);
    commit_owners(client, object, &released).await
}

async fn commit_owners(
    client: &ClusterClient,
    (gvr, current): (&GroupVersionResource, &Object),
    desired: &Object,
) -> Result<Arc<Object>, ReconcileError> {
    match commit_object(client, ResourceRef::of(gvr, current), current, desired, FIELD_MANAGER).await? {
        Committed::Written(written) => Ok(written),
        Committed::Unchanged => Ok(Arc::new(desired.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(owner: Value, candidate: Value, expected: Ownership) {
        let object = |metadata| Object::from_value(json!({"metadata": metadata})).expect("a map");
        let selector = LabelSelector::parse("app=web").expect("a selector");
        assert_eq!(claim_of(&object(owner), &selector, &object(candidate)), expected);
    }

    #[test]
    fn an_owner_keeps_matching_objects_and_adopts_orphans() {
        let owner = json!({"uid": "u"});
        let going = json!({"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let of = |uid| json!([{"uid": uid, "controller": true}]);
        check(owner.clone(), json!({"labels": {"app": "web"}, "ownerReferences": of("u")}), Ownership::Keep);
        check(owner.clone(), json!({"labels": {"app": "db"}, "ownerReferences": of("u")}), Ownership::Release);
        check(going.clone(), json!({"labels": {"app": "db"}, "ownerReferences": of("u")}), Ownership::Leave);
        check(owner.clone(), json!({"labels": {"app": "web"}, "ownerReferences": of("v")}), Ownership::Leave);
        check(owner.clone(), json!({"labels": {"app": "web"}, "ownerReferences": [{"uid": "v"}]}), Ownership::Adopt);
        check(owner.clone(), json!({"labels": {"app": "db"}}), Ownership::Leave);
        check(going, json!({"labels": {"app": "web"}}), Ownership::Leave);
        let dying = json!({"labels": {"app": "web"}, "deletionTimestamp": "2026-01-01T00:00:00Z"});
        check(owner, dying, Ownership::Leave);
    }
}
