//! Who controls an object: reading it, taking orphans in, letting go of what no longer fits.

use std::sync::Arc;

use cluster_client::{ClusterClient, ResourceRef};
use object::selector::LabelSelector;
use object::{GroupVersionResource, Object};
use reconcile::{Committed, ReconcileError, commit_object};
use serde_json::{Value, json};

use crate::cluster::FIELD_MANAGER;

/// The index of what has a controller by its uid, and of what has none by namespace.
pub const BY_OWNER: &str = "owner";

pub fn owner_values(object: &Object) -> Vec<String> {
    match controller_uid(object) {
        Some(uid) => vec![uid.to_owned()],
        None => vec![orphans_of(object.namespace())],
    }
}

/// Where the index has the objects of a namespace that have no controller.
pub fn orphans_of(namespace: &str) -> String {
    format!("orphans/{namespace}")
}

pub fn controller(object: &Object) -> Option<&Value> {
    object.items(&["metadata", "ownerReferences"]).iter().find(|owner| owner["controller"] == true)
}

pub fn controller_uid(object: &Object) -> Option<&str> {
    controller(object).and_then(|owner| owner["uid"].as_str())
}

/// The reference by which an owner controls what it made.
pub fn controller_reference(owner: &Object) -> Value {
    json!({"apiVersion": owner.api_version(), "kind": owner.kind(), "name": owner.name(), "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true})
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is the owner's.
    Keep,
    /// It is the owner's and no longer fits.
    Release,
    /// It is nobody's and fits.
    Adopt,
    /// It is no business of this owner.
    Leave,
}

/// What an owner has to do with an object of its namespace.
pub fn claim_of(owner: &Object, selector: &LabelSelector, candidate: &Object) -> Claim {
    let fits = selector.matches(candidate);
    match controller_uid(candidate) {
        Some(uid) if uid == owner.uid() && fits => Claim::Keep,
        Some(uid) if uid == owner.uid() && !owner.is_deleting() => Claim::Release,
        None if fits && !owner.is_deleting() && !candidate.is_deleting() => Claim::Adopt,
        _ => Claim::Leave,
    }
}

/// Writes the owner into an orphan. A mirror may be behind, so whether the owner still is comes from the API itself.
pub async fn commit_adoption(
    client: &ClusterClient,
    owner: (&GroupVersionResource, &Object),
    orphan: (&GroupVersionResource, &Object),
    finalizer: Option<&str>,
) -> Result<Arc<Object>, ReconcileError> {
    let fresh = client.get(ResourceRef::of(owner.0, owner.1)).await?;
    if fresh.uid() != owner.1.uid() || fresh.is_deleting() {
        return Err(ReconcileError::other(format!("{} is going and adopts nothing", owner.1.name())));
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

/// Takes the owner out of an object that no longer fits it.
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
    fn check(owner: Value, candidate: Value, expected: Claim) {
        let object = |metadata| Object::from_value(json!({"metadata": metadata})).expect("a map");
        let selector = LabelSelector::parse("app=web").expect("a selector");
        assert_eq!(claim_of(&object(owner), &selector, &object(candidate)), expected);
    }

    #[test]
    fn an_owner_keeps_what_fits_it_and_takes_in_orphans() {
        let owner = json!({"uid": "u"});
        let going = json!({"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let of = |uid| json!([{"uid": uid, "controller": true}]);
        check(owner.clone(), json!({"labels": {"app": "web"}, "ownerReferences": of("u")}), Claim::Keep);
        check(owner.clone(), json!({"labels": {"app": "db"}, "ownerReferences": of("u")}), Claim::Release);
        check(going.clone(), json!({"labels": {"app": "db"}, "ownerReferences": of("u")}), Claim::Leave);
        check(owner.clone(), json!({"labels": {"app": "web"}, "ownerReferences": of("v")}), Claim::Leave);
        check(owner.clone(), json!({"labels": {"app": "web"}, "ownerReferences": [{"uid": "v"}]}), Claim::Adopt);
        check(owner.clone(), json!({"labels": {"app": "db"}}), Claim::Leave);
        check(going, json!({"labels": {"app": "web"}}), Claim::Leave);
        let dying = json!({"labels": {"app": "web"}, "deletionTimestamp": "2026-01-01T00:00:00Z"});
        check(owner, dying, Claim::Leave);
    }
}
