//! The claim of a policy on templates and bindings, and the decision that follows for a template.

use std::sync::Arc;

use api::policy::{
    ANNOTATION_CLUSTER_PROPAGATION_NAME, ANNOTATION_PROPAGATION_NAME, ANNOTATION_PROPAGATION_NAMESPACE,
    LABEL_CLUSTER_PROPAGATION_ID, LABEL_PROPAGATION_ID,
};
use api::work::LABEL_CLAIMED_BY;
use object::Object;

use crate::policy::{Policy, PolicyKey, Scope};
use crate::policy_index::PolicyIndex;

/// The policy an object belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub policy: PolicyKey,
    pub id: String,
}

/// The next step for a template.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Something else than a policy propagates it, such as a MultiClusterService.
    TakenBy(String),
    /// It belongs to the policy, or now comes to: apply it.
    Apply(Arc<Policy>),
    /// It belongs to a policy that is not there: clean up, once that is sure.
    HolderGone(Claim),
    /// It belongs to a policy that is being deleted: try again later.
    HolderDeleting(Arc<Policy>),
    /// It belongs to a policy that does not select it any more, or selects it in another version of its kind.
    /// The policy's own change cleans up.
    HolderSelectsOther(Arc<Policy>),
    /// No policy selects it: it waits for one.
    Unmatched,
}

/// Looks at what the template says and at the policies there are. A claim holds until it is given up or taken: a better
/// policy that comes later changes nothing.
pub fn decide(index: &PolicyIndex, template: &Object) -> Decision {
    let taken_by = template.label(LABEL_CLAIMED_BY).unwrap_or_default();
    if !taken_by.is_empty() {
        return Decision::TakenBy(taken_by.to_owned());
    }
    let Some(claim) = Claim::of(template) else {
        return index.best(template).map_or(Decision::Unmatched, |policy| Decision::Apply(Arc::clone(policy)));
    };
    let Some(holder) = index.get(&claim.policy) else { return Decision::HolderGone(claim) };
    if holder.is_deleting() {
        Decision::HolderDeleting(Arc::clone(holder))
    } else if holder.selects(template).is_none() {
        Decision::HolderSelectsOther(Arc::clone(holder))
    } else {
        Decision::Apply(Arc::clone(holder))
    }
}

impl Claim {
    /// The claim on an object; half a claim is none. A PropagationPolicy's goes first.
    pub fn of(object: &Object) -> Option<Self> {
        let label = |key| object.label(key).filter(|value| !value.is_empty());
        let annotation = |key| object.annotation(key).filter(|value| !value.is_empty());
        let namespaced = || {
            let namespace = annotation(ANNOTATION_PROPAGATION_NAMESPACE)?;
            let policy = PolicyKey::new(namespace, annotation(ANNOTATION_PROPAGATION_NAME)?);
            Some(Self { policy, id: label(LABEL_PROPAGATION_ID)?.to_owned() })
        };
        let cluster = || {
            let policy = PolicyKey::new("", annotation(ANNOTATION_CLUSTER_PROPAGATION_NAME)?);
            Some(Self { policy, id: label(LABEL_CLUSTER_PROPAGATION_ID)?.to_owned() })
        };
        namespaced().or_else(cluster)
    }

    /// Returns the policy that preemption would take the object from, by its name, with or without an id.
    pub fn holder(object: &Object) -> Option<Self> {
        let annotation = |key| object.annotation(key).unwrap_or_default();
        let id = |scope: Scope| object.label(scope.id_label()).unwrap_or_default().to_owned();
        let (namespace, name) = (annotation(ANNOTATION_PROPAGATION_NAMESPACE), annotation(ANNOTATION_PROPAGATION_NAME));
        if !namespace.is_empty() && !name.is_empty() {
            return Some(Self { policy: PolicyKey::new(namespace, name), id: id(Scope::Namespaced) });
        }
        let name = annotation(ANNOTATION_CLUSTER_PROPAGATION_NAME);
        (!name.is_empty()).then(|| Self { policy: PolicyKey::new("", name), id: id(Scope::Cluster) })
    }

    pub fn scope(&self) -> Scope {
        self.policy.scope()
    }
}

/// Is the template not yet marked as the policy's?
pub fn needs_claim(template: &Object, policy: &Policy) -> bool {
    let held_by = |scope: Scope| template.label(scope.id_label());
    let is_held = held_by(policy.scope()) == Some(policy.id.as_str());
    // A template held by a PropagationPolicy must not be held by a ClusterPropagationPolicy.
    !is_held || (policy.scope() == Scope::Namespaced && held_by(Scope::Cluster).is_some())
}

/// Marks an object as the policy's.
pub fn claim(object: &mut Object, policy: &Policy) {
    object.set_label(policy.scope().id_label(), &policy.id);
    match policy.scope() {
        Scope::Namespaced => {
            unclaim(object, Scope::Cluster);
            object.set_annotation(ANNOTATION_PROPAGATION_NAMESPACE, &policy.key.namespace);
            object.set_annotation(ANNOTATION_PROPAGATION_NAME, &policy.key.name);
        }
        Scope::Cluster => object.set_annotation(ANNOTATION_CLUSTER_PROPAGATION_NAME, &policy.key.name),
    }
}

/// Takes the marks of policies of a scope off an object.
pub fn unclaim(object: &mut Object, scope: Scope) {
    remove_entry(object, "labels", scope.id_label());
    for annotation in scope.claim_annotations() {
        remove_entry(object, "annotations", annotation);
    }
}

/// Does the object still bear the mark of this very policy? A mark of another must not be taken off by mistake.
pub fn is_claimed_by(object: &Object, scope: Scope, id: &str) -> bool {
    object.label(scope.id_label()).unwrap_or_default() == id
}

/// Removes a label or annotation and leaves no empty map behind.
pub(crate) fn remove_entry(object: &mut Object, map: &str, key: &str) {
    object.remove(&["metadata", map, key]);
    let is_empty = object.get(&["metadata", map]).and_then(|map| map.as_object()).is_some_and(|map| map.is_empty());
    if is_empty {
        object.remove(&["metadata", map]);
    }
}

#[cfg(test)]
mod tests;
