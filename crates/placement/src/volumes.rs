//! Node constraints of a pod's volumes.

use crate::labels::{Labels, NodeSelector};

const ZONE_LABELS: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// The requirements of a pod's volumes on its node; the caller has looked up the claims.
#[derive(Clone, Debug, Default)]
pub struct VolumeNeeds {
    /// The reason why no node is feasible: a claim is missing or not bound.
    pub refusal: Option<String>,
    pub bound: Vec<BoundVolume>,
    pub unbound: Vec<UnboundClaim>,
    /// Names of the pod's `ReadWriteOncePod` claims.
    pub exclusive: Vec<String>,
}

/// A volume that exists.
#[derive(Clone, Debug, Default)]
pub struct BoundVolume {
    pub node_affinity: Option<NodeSelector>,
    pub labels: Labels,
}

/// A claim with `WaitForFirstConsumer` binding.
#[derive(Clone, Debug, Default)]
pub struct UnboundClaim {
    /// Node affinity of existing volumes that match; `None` means any node.
    pub candidates: Vec<Option<NodeSelector>>,
    /// A volume can be provisioned, on these nodes or (`None`) on any.
    pub can_be_made: Option<Option<NodeSelector>>,
}

impl VolumeNeeds {
    /// The reason why the volumes keep the pod off a node with this name and these labels.
    pub fn refuse(&self, name: &str, labels: &Labels) -> Option<&'static str> {
        let reaches =
            |selector: &Option<NodeSelector>| selector.as_ref().is_none_or(|selector| selector.matches(name, labels));
        if !self.bound.iter().all(|volume| reaches(&volume.node_affinity)) {
            return Some("node(s) didn't match PersistentVolume's node affinity");
        }
        let is_served = |claim: &UnboundClaim| {
            claim.candidates.iter().any(reaches) || claim.can_be_made.as_ref().is_some_and(reaches)
        };
        if !self.unbound.iter().all(is_served) {
            return Some("node(s) didn't find available persistent volumes to bind");
        }
        if !self.bound.iter().all(|volume| is_in_zone(&volume.labels, labels)) {
            return Some("node(s) had no available volume zone");
        }
        None
    }
}

/// A volume's zone label may list several, joined by `__`. A node without a zone label is in all of them.
fn is_in_zone(volume: &Labels, node: &Labels) -> bool {
    if ZONE_LABELS.iter().all(|key| node.get(key).is_none()) {
        return true;
    }
    ZONE_LABELS.iter().all(|key| match volume.get(key) {
        Some(zones) => node.get(key).is_some_and(|zone| zones.split("__").any(|known| known == zone)),
        None => true,
    })
}
