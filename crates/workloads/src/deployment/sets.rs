//! The ReplicaSets of a Deployment during planning.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use object::{GroupVersionKind, Object, time};
use serde_json::{Value, json};

use crate::deployment::spec::{DeploymentSpec, HASH_LABEL};
use crate::owners::controller_reference;
use crate::templates::hash;

pub const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a Deployment that are not copied to its ReplicaSets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];
/// Maximum length of the revision history annotation.
const REVISION_HISTORY_MAX: usize = 2000;
/// Maximum length of an object name.
const NAME_MAX: usize = 253;

#[derive(Clone, Debug)]
pub struct RolloutSet {
    /// The current object, or the new one to create.
    pub object: Arc<Object>,
    pub is_new: bool,
    pub replicas: i64,
    pub ready_seconds_min: i64,
    annotations: BTreeMap<String, String>,
}

impl RolloutSet {
    pub fn existing(object: Arc<Object>) -> Self {
        Self {
            is_new: false,
            replicas: object.i64_at(&["spec", "replicas"]).unwrap_or(1),
            ready_seconds_min: object.i64_at(&["spec", "minReadySeconds"]).unwrap_or(0),
            annotations: object.annotations().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            object,
        }
    }

    /// Returns the set for the Deployment's template, with zero replicas.
    pub fn made_for(deployment: &Object, spec: &DeploymentSpec) -> Self {
        let mut template = deployment.get(&["spec", "template"]).cloned().unwrap_or_default();
        let hash = hash(&template, deployment.i64_at(&["status", "collisionCount"]));
        template["metadata"]["labels"][HASH_LABEL] = hash.as_str().into();
        let mut selector = deployment.get(&["spec", "selector"]).cloned().unwrap_or_default();
        selector["matchLabels"][HASH_LABEL] = hash.as_str().into();
        let length = deployment.name().len().min(NAME_MAX - 1 - hash.len());
        let name = format!("{}-{hash}", deployment.name().get(..length).unwrap_or(deployment.name()));
        let gvk = GroupVersionKind::new("apps", "v1", "ReplicaSet");
        let mut set = Object::new(&gvk, Some(deployment.namespace()), &name);
        set.set(&["metadata", "labels"], template["metadata"]["labels"].clone());
        set.set(&["metadata", "ownerReferences"], vec![controller_reference(deployment)]);
        set.set(&["spec"], json!({"replicas": 0, "selector": selector, "template": template}));
        Self {
            object: Arc::new(set),
            is_new: true,
            replicas: 0,
            ready_seconds_min: spec.ready_seconds_min,
            annotations: BTreeMap::new(),
        }
    }

    pub fn name(&self) -> &str {
        self.object.name()
    }

    fn count(&self, field: &str) -> i64 {
        self.object.i64_at(&["status", field]).unwrap_or(0)
    }

    pub fn actual(&self) -> i64 {
        self.count("replicas")
    }

    pub fn ready(&self) -> i64 {
        self.count("readyReplicas")
    }

    pub fn available(&self) -> i64 {
        self.count("availableReplicas")
    }

    /// `Some(None)` if the set does not report them.
    pub fn terminating(&self) -> Option<Option<i64>> {
        let count = self.object.i64_at(&["status", "terminatingReplicas"]);
        (count.is_some() || self.count("observedGeneration") > 0).then_some(count)
    }

    /// `None` if the annotation is not a number.
    pub fn revision(&self) -> Option<i64> {
        self.annotations.get(REVISION).map_or(Some(0), |revision| revision.parse().ok())
    }

    pub fn revision_text(&self) -> Option<&str> {
        self.annotations.get(REVISION).map(String::as_str)
    }

    pub fn desired_replicas(&self) -> Option<i64> {
        self.annotated_count(DESIRED_REPLICAS)
    }

    pub fn max_replicas(&self) -> Option<i64> {
        self.annotated_count(MAX_REPLICAS)
    }

    fn annotated_count(&self, key: &str) -> Option<i64> {
        let count = self.annotations.get(key)?.parse::<u32>().ok()?;
        i32::try_from(count).ok().map(i64::from)
    }

    /// Reports whether the set is scaled to zero and has observed that.
    pub fn is_spent(&self) -> bool {
        let is_observed = self.object.generation() <= self.count("observedGeneration");
        self.actual() == 0 && self.replicas == 0 && is_observed && !self.object.is_deleting()
    }

    pub fn note_scale(&mut self, spec: &DeploymentSpec) {
        self.annotations.insert(DESIRED_REPLICAS.to_owned(), spec.replicas.to_string());
        self.annotations.insert(MAX_REPLICAS.to_owned(), (spec.replicas + spec.surge_max()).to_string());
    }

    /// Copies the Deployment's annotations and revision, and appends the old revision to the history.
    pub fn note_revision(&mut self, deployment: &Object, revision: i64) {
        for (key, value) in deployment.annotations().filter(|(key, _)| !NOT_COPIED.contains(key)) {
            self.annotations.insert(key.to_owned(), value.to_owned());
        }
        let old = self.annotations.get(REVISION).cloned();
        let Some(old_number) = old.as_ref().map_or(Some(0), |old| old.parse().ok()) else { return };
        if old_number >= revision {
            return;
        }
        self.annotations.insert(REVISION.to_owned(), revision.to_string());
        if let Some(old) = old {
            let history = self.annotations.get(REVISION_HISTORY).cloned().unwrap_or_default();
            if let Some(history) = lengthen(&history, &old) {
                self.annotations.insert(REVISION_HISTORY.to_owned(), history);
            }
        }
    }

    /// Returns the desired object; `None` if it is unchanged.
    pub fn desired(&self) -> Option<Object> {
        let current = Self::existing(Arc::clone(&self.object));
        let is_same = !self.is_new
            && current.replicas == self.replicas
            && current.ready_seconds_min == self.ready_seconds_min
            && current.annotations == self.annotations;
        if is_same {
            return None;
        }
        let mut desired = Object::clone(&self.object);
        desired.set(&["spec", "replicas"], self.replicas);
        if self.ready_seconds_min > 0 || current.ready_seconds_min > 0 {
            desired.set(&["spec", "minReadySeconds"], self.ready_seconds_min);
        }
        if !self.annotations.is_empty() {
            let annotations = self.annotations.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
            desired.set(&["metadata", "annotations"], Value::Object(annotations.collect()));
        }
        Some(desired)
    }
}

/// Appends a revision and drops the oldest ones beyond the limit.
fn lengthen(history: &str, revision: &str) -> Option<String> {
    if history.is_empty() {
        return Some(revision.to_owned());
    }
    let mut revisions: Vec<&str> = history.split(',').collect();
    revisions.push(revision);
    while revisions.iter().map(|revision| revision.len() + 1).sum::<usize>() > REVISION_HISTORY_MAX + 1 {
        revisions.remove(0);
    }
    (!revisions.is_empty()).then(|| revisions.join(","))
}

/// Oldest first.
pub fn by_age(a: &RolloutSet, b: &RolloutSet) -> Ordering {
    let created = |set: &RolloutSet| time::parse(set.object.creation_timestamp());
    created(a).cmp(&created(b)).then_with(|| a.name().cmp(b.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_history_has_a_maximum_length() {
        assert_eq!(lengthen("", "1").as_deref(), Some("1"));
        assert_eq!(lengthen("1,3", "5").as_deref(), Some("1,3,5"));
        let long = vec!["1000"; 400].join(",");
        let longer = lengthen(&long, "2000").expect("a history");
        assert!(longer.len() <= REVISION_HISTORY_MAX && longer.ends_with(",2000"));
    }

    #[test]
    fn a_new_set_is_named_after_its_template_and_selects_by_it() {
        let deployment = Object::from_value(json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "a", "uid": "u", "annotations": {"note": "x",
                "deployment.kubernetes.io/revision": "9"}},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {}}}}))
        .expect("a map");
        let spec = DeploymentSpec::of(&deployment);
        let mut set = RolloutSet::made_for(&deployment, &spec);
        set.replicas = 2;
        set.note_revision(&deployment, 1);
        set.note_scale(&spec);
        let object = set.desired().expect("it is new");
        let hash = object.label(HASH_LABEL).expect("a hash").to_owned();
        assert_eq!(object.name(), format!("web-{hash}"));
        let labels = json!({"app": "web", "pod-template-hash": hash});
        assert_eq!(object.get(&["spec", "selector", "matchLabels"]), Some(&labels));
        assert_eq!(object.get(&["spec", "template", "metadata", "labels"]), Some(&labels));
        assert_eq!(object.i64_at(&["spec", "replicas"]), Some(2));
        let annotations = json!({"note": "x", "deployment.kubernetes.io/revision": "1",
            "deployment.kubernetes.io/desired-replicas": "3", "deployment.kubernetes.io/max-replicas": "4"});
        assert_eq!(object.get(&["metadata", "annotations"]), Some(&annotations));
    }
}
