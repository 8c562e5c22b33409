//! The ControllerRevisions of StatefulSets and DaemonSets.

use std::cmp::Ordering;
use std::sync::Arc;

use cluster_client::{DeleteOptions, ResourceRef, WriteOptions};
use object::builtin;
use object::selector::LabelSelector;
use object::{GroupVersionKind, GroupVersionResource, Object, time};
use reconcile::{Committed, ReconcileError, commit_object};
use serde_json::{Value, json};

use crate::cluster::{Cluster, FIELD_MANAGER};
use crate::owners::{Ownership, claim_of, commit_adoption, commit_release, controller_reference, owned_and_orphans};
use crate::templates::{hash, is_same};

/// Maximum length of the owner's name in a revision's name.
const NAME_PREFIX_MAX: usize = 223;
/// Maximum number of name collisions.
const COLLISIONS_MAX: i64 = 10;

/// The change that makes the newest revision match the owner.
#[derive(Clone, Debug, PartialEq)]
pub enum Revise {
    /// It matches already.
    Latest(Arc<Object>),
    /// An older one matches: it gets the newest revision number.
    Again(Arc<Object>, i64),
    /// None matches.
    New(i64),
}

/// The current revision and the collision count.
pub struct Revised {
    pub revision: Arc<Object>,
    pub collisions: Option<i64>,
}

pub fn number(revision: &Object) -> i64 {
    revision.i64_at(&["revision"]).unwrap_or(0)
}

/// Returns the data of a revision: a patch that restores the template, as `kubectl rollout undo` sends it.
pub fn data_of(owner: &Object) -> Value {
    let mut template = owner.get(&["spec", "template"]).cloned().unwrap_or_else(|| json!({}));
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

/// Returns the template of a revision.
pub fn template_of(revision: &Object) -> Value {
    let mut template = revision.get(&["data", "spec", "template"]).cloned().unwrap_or_default();
    if let Some(template) = template.as_object_mut() {
        template.remove("$patch");
    }
    template
}

/// Expects sorted revisions.
pub fn plan_revision(revisions: &[Arc<Object>], data: &Value) -> Revise {
    let has_data = |revision: &&Arc<Object>| is_same(revision.get(&["data"]).unwrap_or(&Value::Null), data);
    let next = revisions.last().map_or(1, |latest| number(latest) + 1);
    match revisions.iter().rev().find(has_data) {
        None => Revise::New(next),
        Some(same) if number(same) + 1 == next => Revise::Latest(Arc::clone(same)),
        Some(same) => Revise::Again(Arc::clone(same), next),
    }
}

fn by_number(a: &Arc<Object>, b: &Arc<Object>) -> Ordering {
    let created = |revision: &Object| time::parse(revision.creation_timestamp());
    let by_age = || created(a).cmp(&created(b)).then_with(|| a.name().cmp(b.name()));
    number(a).cmp(&number(b)).then_with(by_age)
}

/// Returns the owner's revisions in order, adopting matching orphans.
pub async fn gather_revisions(
    cluster: &Cluster,
    owner: (&GroupVersionResource, &Object),
    selector: &LabelSelector,
) -> Result<Vec<Arc<Object>>, ReconcileError> {
    let gvr = builtin::controller_revisions();
    let candidates = owned_and_orphans(&cluster.revisions_by_owner, owner.1);
    let mut revisions = Vec::with_capacity(candidates.len());
    for revision in candidates {
        match claim_of(owner.1, selector, &revision) {
            Ownership::Keep => revisions.push(revision),
            Ownership::Leave => {}
            Ownership::Adopt => {
                revisions.push(commit_adoption(&cluster.client, owner, (&gvr, &revision), None).await?);
            }
            Ownership::Release => {
                commit_release(&cluster.client, owner.1, (&gvr, &revision)).await?;
            }
        }
    }
    revisions.sort_by(by_number);
    Ok(revisions)
}

/// Makes the newest revision match the owner. `hash_label` receives the hash of the data.
pub async fn commit_revision(
    cluster: &Cluster,
    owner: &Object,
    revise: Revise,
    hash_label: &str,
) -> Result<Revised, ReconcileError> {
    let collisions = owner.i64_at(&["status", "collisionCount"]);
    match revise {
        Revise::Latest(revision) => Ok(Revised { revision, collisions }),
        Revise::Again(current, next) => {
            let mut desired = Object::clone(&current);
            desired.set(&["revision"], next);
            let target = ResourceRef::of(&builtin::controller_revisions(), &current);
            match commit_object(&cluster.client, target, &current, &desired, FIELD_MANAGER).await? {
                Committed::Written(revision) => Ok(Revised { revision, collisions }),
                Committed::Unchanged => Ok(Revised { revision: current, collisions }),
            }
        }
        Revise::New(next) => create_revision(cluster, owner, next, hash_label).await,
    }
}

async fn create_revision(
    cluster: &Cluster,
    owner: &Object,
    number: i64,
    hash_label: &str,
) -> Result<Revised, ReconcileError> {
    let gvr = builtin::controller_revisions();
    let mut collisions = owner.i64_at(&["status", "collisionCount"]);
    loop {
        let revision = new_revision(owner, number, collisions, hash_label);
        let (name, data) = (revision.name().to_owned(), data_of(owner));
        let target = ResourceRef::within(&gvr, owner.namespace());
        match cluster.client.create(target, revision, WriteOptions::managed_by(FIELD_MANAGER)).await {
            Ok(revision) => return Ok(Revised { revision, collisions }),
            Err(status) if status.is_already_exists() => {
                let taken = cluster.client.get(ResourceRef::namespaced(&gvr, owner.namespace(), &name)).await?;
                if is_same(taken.get(&["data"]).unwrap_or(&Value::Null), &data) {
                    return Ok(Revised { revision: taken, collisions });
                }
                if collisions.unwrap_or(0) >= COLLISIONS_MAX + owner.i64_at(&["status", "collisionCount"]).unwrap_or(0)
                {
                    return Err(status.into());
                }
                collisions = Some(collisions.unwrap_or(0) + 1);
            }
            Err(status) => return Err(status.into()),
        }
    }
}

fn new_revision(owner: &Object, number: i64, collisions: Option<i64>, hash_label: &str) -> Object {
    let data = data_of(owner);
    let hash = hash(&data, collisions);
    let prefix = owner.name().get(..NAME_PREFIX_MAX).unwrap_or(owner.name());
    let gvk = GroupVersionKind::new("apps", "v1", "ControllerRevision");
    let mut revision = Object::new(&gvk, Some(owner.namespace()), &format!("{prefix}-{hash}"));
    if let Some(labels) = owner.get(&["spec", "template", "metadata", "labels"]) {
        revision.set(&["metadata", "labels"], labels.clone());
    }
    revision.set_label(hash_label, &hash);
    if let Some(annotations) = owner.get(&["metadata", "annotations"]) {
        revision.set(&["metadata", "annotations"], annotations.clone());
    }
    revision.set(&["metadata", "ownerReferences"], vec![controller_reference(owner)]);
    revision.set(&["data"], data);
    revision.set(&["revision"], number);
    revision
}

pub async fn delete_revisions(cluster: &Cluster, deleting: &[Arc<Object>]) -> Result<(), ReconcileError> {
    for revision in deleting {
        let target = ResourceRef::of(&builtin::controller_revisions(), revision);
        match cluster.client.delete(target, DeleteOptions::default()).await {
            Err(status) if !status.is_not_found() => return Err(status.into()),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(number: i64, image: &str) -> Arc<Object> {
        let value = json!({"metadata": {"name": format!("r{number}")}, "revision": number,
            "data": {"spec": {"template": {"spec": {"image": image}, "$patch": "replace"}}}});
        Arc::new(Object::from_value(value).expect("a map"))
    }

    #[track_caller]
    fn check(revisions: &[(i64, &str)], image: &str, expected: &str) {
        let revisions: Vec<_> = revisions.iter().map(|(number, image)| revision(*number, image)).collect();
        let owner = Object::from_value(json!({"spec": {"template": {"spec": {"image": image}}}})).expect("a map");
        let text = match plan_revision(&revisions, &data_of(&owner)) {
            Revise::Latest(revision) => format!("latest {}", revision.name()),
            Revise::Again(revision, number) => format!("again {} as {number}", revision.name()),
            Revise::New(number) => format!("new {number}"),
        };
        assert_eq!(text, expected);
    }

    #[test]
    fn a_rollback_renumbers_the_old_revision() {
        check(&[], "a", "new 1");
        check(&[(1, "a")], "a", "latest r1");
        check(&[(1, "a")], "b", "new 2");
        check(&[(1, "a"), (2, "b")], "a", "again r1 as 3");
        check(&[(1, "a"), (2, "b"), (3, "a")], "a", "latest r3");
    }
}
