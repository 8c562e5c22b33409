//! A propagation policy of either scope, read once: its selectors, priority and identity.

use std::fmt;
use std::sync::Arc;

use api::policy::{
    ANNOTATION_CLUSTER_PROPAGATION_NAME, ANNOTATION_PROPAGATION_NAME, ANNOTATION_PROPAGATION_NAMESPACE,
    CLUSTER_PROPAGATION_POLICIES, FINALIZER_CLUSTER_PROPAGATION, FINALIZER_PROPAGATION, LABEL_CLUSTER_PROPAGATION_ID,
    LABEL_PROPAGATION_ID, PROPAGATION_POLICIES, ResourceSelector,
};
use api::{Resource, read};
use object::{Object, Status};
use serde::Deserialize;

use crate::policy_selector::{Selector, Specificity};

/// The scope of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// PropagationPolicy.
    Namespaced,
    /// ClusterPropagationPolicy.
    Cluster,
}

/// Names one policy; the namespace of a ClusterPropagationPolicy is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyKey {
    pub namespace: String,
    pub name: String,
}

/// A policy as it is matched. What the binding takes from it verbatim stays in the object.
#[derive(Clone, Debug)]
pub struct Policy {
    pub key: PolicyKey,
    /// The permanent id, which is what claims are known by.
    pub id: String,
    pub selectors: Vec<Selector>,
    pub explicit_priority: Option<i32>,
    pub may_preempt: bool,
    pub is_lazy: bool,
    /// Override policies that must exist before anything is propagated.
    pub dependent_overrides: Vec<String>,
    pub object: Arc<Object>,
}

/// The part of a policy's spec that is kept in memory as types.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Matching {
    resource_selectors: Vec<ResourceSelector>,
    priority: Option<i32>,
    preemption: String,
    activation_preference: String,
    dependent_overrides: Vec<String>,
}

impl Scope {
    pub fn resource(self) -> Resource {
        match self {
            Self::Namespaced => PROPAGATION_POLICIES,
            Self::Cluster => CLUSTER_PROPAGATION_POLICIES,
        }
    }

    /// Carries the permanent id on the policy, its templates and their bindings.
    pub fn id_label(self) -> &'static str {
        match self {
            Self::Namespaced => LABEL_PROPAGATION_ID,
            Self::Cluster => LABEL_CLUSTER_PROPAGATION_ID,
        }
    }

    /// Name the policy on its templates and their bindings.
    pub fn claim_annotations(self) -> &'static [&'static str] {
        match self {
            Self::Namespaced => &[ANNOTATION_PROPAGATION_NAMESPACE, ANNOTATION_PROPAGATION_NAME],
            Self::Cluster => &[ANNOTATION_CLUSTER_PROPAGATION_NAME],
        }
    }

    pub fn finalizer(self) -> &'static str {
        match self {
            Self::Namespaced => FINALIZER_PROPAGATION,
            Self::Cluster => FINALIZER_CLUSTER_PROPAGATION,
        }
    }
}

impl PolicyKey {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub fn of(object: &Object) -> Self {
        Self::new(object.namespace(), object.name())
    }

    pub fn scope(&self) -> Scope {
        if self.namespace.is_empty() { Scope::Cluster } else { Scope::Namespaced }
    }
}

impl fmt::Display for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scope() {
            Scope::Namespaced => write!(f, "PropagationPolicy {}/{}", self.namespace, self.name),
            Scope::Cluster => write!(f, "ClusterPropagationPolicy {}", self.name),
        }
    }
}

impl Policy {
    pub fn read(object: Arc<Object>) -> Result<Self, Status> {
        let matching: Matching = read(&object)?;
        let key = PolicyKey::of(&object);
        Ok(Self {
            id: object.label(key.scope().id_label()).unwrap_or_default().to_owned(),
            key,
            selectors: matching.resource_selectors.into_iter().map(Selector::new).collect(),
            explicit_priority: matching.priority,
            may_preempt: matching.preemption == "Always",
            is_lazy: matching.activation_preference == "Lazy",
            dependent_overrides: matching.dependent_overrides,
            object,
        })
    }

    pub fn scope(&self) -> Scope {
        self.key.scope()
    }

    pub fn priority(&self) -> i32 {
        self.explicit_priority.unwrap_or(0)
    }

    pub fn is_deleting(&self) -> bool {
        self.object.is_deleting()
    }

    /// Returns how specifically the policy selects the template: as its most specific selector does. `None` when none
    /// does, and for templates outside the namespace of a namespaced policy.
    pub fn selects(&self, template: &Object) -> Option<Specificity> {
        if self.scope() == Scope::Namespaced && self.key.namespace != template.namespace() {
            return None;
        }
        self.selectors.iter().filter_map(|selector| selector.selects(template)).max()
    }

    /// Display name for users and events: `namespace/name`, or the name alone.
    pub fn display_name(&self) -> String {
        match self.scope() {
            Scope::Namespaced => format!("{}/{}", self.key.namespace, self.key.name),
            Scope::Cluster => self.key.name.clone(),
        }
    }
}
