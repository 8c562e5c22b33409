//! Decides on an object by the state of its owners.

use cluster_client::PropagationPolicy;
use object::Object;
use serde_json::Value;

use super::graph::{FOREGROUND, ORPHAN};

/// The state of an owner according to the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    Present,
    Absent,
    /// Present, and waiting for its dependents to be deleted.
    Waiting,
}

/// The object's own dependents according to the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dependents {
    pub any: bool,
    /// A dependent waits for its own dependents: together with this object that may be a cycle.
    pub waiting: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum GarbageDecision {
    Keep,
    /// Keep the object, but remove the references to owners that are gone or wait for it.
    Release {
        owner_references: Vec<Value>,
    },
    Delete {
        policy: PropagationPolicy,
        unblock: bool,
    },
}

/// `owners` has one state per entry of `metadata.ownerReferences`.
pub fn plan(object: &Object, owners: &[OwnerState], dependents: Dependents) -> GarbageDecision {
    let references = object.items(&["metadata", "ownerReferences"]);
    assert_eq!(references.len(), owners.len(), "one state per owner reference");
    if references.is_empty() {
        return GarbageDecision::Keep;
    }
    let is_kept = |state: &OwnerState| *state == OwnerState::Present;
    if owners.iter().all(is_kept) {
        return GarbageDecision::Keep;
    }
    if owners.iter().any(is_kept) {
        let kept = references.iter().zip(owners).filter(|(_, state)| is_kept(state));
        return GarbageDecision::Release { owner_references: kept.map(|(reference, _)| reference.clone()).collect() };
    }
    if owners.contains(&OwnerState::Waiting) && dependents.any {
        return GarbageDecision::Delete { policy: PropagationPolicy::Foreground, unblock: dependents.waiting };
    }
    let policy = if object.has_finalizer(ORPHAN) {
        PropagationPolicy::Orphan
    } else if object.has_finalizer(FOREGROUND) {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    };
    GarbageDecision::Delete { policy, unblock: false }
}

/// Returns the owner references, none of them blocking.
pub fn unblocked(object: &Object) -> Vec<Value> {
    let mut references = object.items(&["metadata", "ownerReferences"]).to_vec();
    for reference in references.iter_mut().filter(|r| r["blockOwnerDeletion"] == true) {
        reference["blockOwnerDeletion"] = false.into();
    }
    references
}

/// Returns the owner references without those to one owner; `None` if there is none to it.
pub fn without_owner(object: &Object, uid: &str) -> Option<Vec<Value>> {
    let references = object.items(&["metadata", "ownerReferences"]);
    let kept: Vec<Value> = references.iter().filter(|r| r["uid"] != uid).cloned().collect();
    (kept.len() < references.len()).then_some(kept)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::OwnerState::{Absent, Present, Waiting};
    use super::*;

    #[track_caller]
    fn check(owners: &[OwnerState], finalizers: &[&str], dependents: Dependents, expected: &GarbageDecision) {
        let references: Vec<Value> = (0..owners.len()).map(|i| json!({"uid": i.to_string()})).collect();
        let object = json!({"metadata": {"ownerReferences": references, "finalizers": finalizers}});
        let object = Object::from_value(object).expect("a map");
        assert_eq!(plan(&object, owners, dependents), *expected, "{owners:?} {finalizers:?}");
    }

    fn delete(policy: PropagationPolicy, unblock: bool) -> GarbageDecision {
        GarbageDecision::Delete { policy, unblock }
    }

    #[test]
    fn an_object_is_deleted_when_all_its_owners_are_gone() {
        use PropagationPolicy::{Background, Foreground, Orphan};
        let none = Dependents::default();
        let some = Dependents { any: true, waiting: false };
        let circle = Dependents { any: true, waiting: true };
        check(&[], &[], none, &GarbageDecision::Keep);
        check(&[Present, Present], &[], none, &GarbageDecision::Keep);
        check(&[Absent], &[], none, &delete(Background, false));
        check(&[Absent], &["orphan"], none, &delete(Orphan, false));
        check(&[Absent], &["foregroundDeletion"], none, &delete(Foreground, false));
        check(&[Waiting], &[], none, &delete(Background, false));
        check(&[Waiting], &[], some, &delete(Foreground, false));
        check(&[Waiting, Absent], &[], circle, &delete(Foreground, true));
        check(
            &[Present, Absent, Waiting],
            &[],
            none,
            &GarbageDecision::Release { owner_references: vec![json!({"uid": "0"})] },
        );
    }

    #[test]
    fn references_are_removed_by_uid() {
        let object = json!({"metadata": {"ownerReferences": [{"uid": "1", "blockOwnerDeletion": true}, {"uid": "2"}]}});
        let object = Object::from_value(object).expect("a map");
        assert_eq!(without_owner(&object, "1"), Some(vec![json!({"uid": "2"})]));
        assert_eq!(without_owner(&object, "3"), None);
        assert_eq!(unblocked(&object)[0], json!({"uid": "1", "blockOwnerDeletion": false}));
    }
}
