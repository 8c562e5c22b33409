//! The parsed spec of a DaemonSet, and its pods.

use object::Object;
use serde_json::{Value, json};

use crate::daemon_set::fit::tolerations_of;
use crate::pods::Pod;
use crate::templates::{pod_from, scaled};

pub const HASH_LABEL: &str = "controller-revision-hash";
const GENERATION_LABEL: &str = "pod-template-generation";
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

#[derive(Clone, Debug, PartialEq)]
pub enum DaemonSetStrategy {
    OnDelete,
    Rolling { surge: Option<Value>, unavailable: Option<Value> },
}

#[derive(Clone, Debug)]
pub struct DaemonSetSpec {
    pub ready_seconds_min: i64,
    pub strategy: DaemonSetStrategy,
    pub history_max: i64,
    pub hash: String,
    generation: Option<String>,
}

impl DaemonSetSpec {
    pub fn of(set: &Object, hash: &str) -> Self {
        let rolling = |field| set.get(&["spec", "updateStrategy", "rollingUpdate", field]).cloned();
        let strategy = match set.str_at(&["spec", "updateStrategy", "type"]) {
            "OnDelete" => DaemonSetStrategy::OnDelete,
            _ => DaemonSetStrategy::Rolling { surge: rolling("maxSurge"), unavailable: rolling("maxUnavailable") },
        };
        Self {
            ready_seconds_min: set.i64_at(&["spec", "minReadySeconds"]).unwrap_or(0),
            strategy,
            history_max: set.i64_at(&["spec", "revisionHistoryLimit"]).unwrap_or(10),
            hash: hash.to_owned(),
            generation: set.annotation(GENERATION_ANNOTATION).map(str::to_owned),
        }
    }

    /// Returns maxSurge and maxUnavailable; at least one of them is positive.
    pub fn bounds(&self, wanted: i64) -> (i64, i64) {
        let DaemonSetStrategy::Rolling { surge, unavailable } = &self.strategy else { return (0, 0) };
        let surge = scaled(surge.as_ref(), wanted, true).unwrap_or(0);
        let unavailable = match unavailable {
            Some(unavailable) => scaled(Some(unavailable), wanted, true).unwrap_or(0),
            None => 1,
        };
        if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
    }

    pub fn allows_surge(&self) -> bool {
        let DaemonSetStrategy::Rolling { surge, .. } = &self.strategy else { return false };
        scaled(surge.as_ref(), 1, true).unwrap_or(0) > 0
    }

    pub fn is_updated(&self, pod: &Pod) -> bool {
        let has_generation = self.generation.is_some() && pod.label(GENERATION_LABEL) == self.generation.as_deref();
        has_generation || pod.label(HASH_LABEL) == Some(&self.hash)
    }

    /// Returns the pod for a node, with node affinity to it; the scheduler binds it.
    pub fn pod_for(&self, set: &Object, node: &str) -> Object {
        let template = set.get(&["spec", "template"]).cloned().unwrap_or_default();
        let mut pod = pod_from(&template, set);
        pod.set(&["spec", "tolerations"], tolerations_of(&template["spec"]));
        let only = json!({"nodeSelectorTerms": [{"matchFields":
            [{"key": "metadata.name", "operator": "In", "values": [node]}]}]});
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        pod.set(&["spec", "affinity", "nodeAffinity", required], only);
        pod.set_label(HASH_LABEL, &self.hash);
        if let Some(generation) = &self.generation {
            pod.set_label(GENERATION_LABEL, generation);
        }
        pod
    }
}

/// Returns the node of a pod, or the node it has affinity to.
pub fn node_of(pod: &Pod) -> Option<&str> {
    if !pod.node_name().is_empty() {
        return Some(pod.node_name());
    }
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = pod.items(&["spec", "affinity", "nodeAffinity", required, "nodeSelectorTerms"]).iter();
    let fields = terms.flat_map(|term| term["matchFields"].as_array().into_iter().flatten());
    let mut named = fields.filter(|field| field["key"] == "metadata.name" && field["operator"] == "In");
    match named.next()?["values"].as_array()?.as_slice() {
        [node] => node.as_str(),
        _ => None,
    }
}
