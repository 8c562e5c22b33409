//! The retention policy of claims, expressed as their owner references.

use object::Object;
use serde_json::{Value, json};

/// The retention policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimRetention {
    pub deletes_with_set: bool,
    pub deletes_with_scale: bool,
}

/// The desired owners of a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimOwners {
    Right,
    /// Another controller owns the claim: retention does not apply.
    Contested,
    Should(Vec<Value>),
}

impl ClaimRetention {
    pub fn of(set: &Object) -> Self {
        let policy = |field| set.str_at(&["spec", "persistentVolumeClaimRetentionPolicy", field]) == "Delete";
        Self { deletes_with_set: policy("whenDeleted"), deletes_with_scale: policy("whenScaled") }
    }

    fn is_off(self) -> bool {
        !self.deletes_with_set && !self.deletes_with_scale
    }

    /// Returns whether the set and the pod should own a claim.
    fn wants(self, is_scaled_down: bool) -> (bool, bool) {
        let by_pod = self.deletes_with_scale && is_scaled_down;
        (self.deletes_with_set && !by_pod, by_pod)
    }

    /// Returns the owner references of a new claim.
    pub fn first_owners(self, set: &Object) -> Vec<Value> {
        if self.wants(false).0 { vec![reference(set, "apps/v1", "StatefulSet")] } else { Vec::new() }
    }

    pub fn plan_owners(self, claim: &Object, set: &Object, pod: &Object, is_scaled_down: bool) -> ClaimOwners {
        let references = claim.items(&["metadata", "ownerReferences"]);
        if is_stale(claim, set, "StatefulSet") || is_stale(claim, pod, "Pod") {
            // Owned by an earlier object of the same name: garbage collection decides first.
            return ClaimOwners::Right;
        }
        let has = |owner: &Object| references.iter().any(|reference| reference["uid"].as_str() == Some(owner.uid()));
        let is_ours = |reference: &Value| names(reference, set, "StatefulSet") || names(reference, pod, "Pod");
        let others = || references.iter().filter(|reference| !is_ours(reference)).cloned().collect::<Vec<_>>();
        let is_contested = !self.is_off() && others().iter().any(|reference| reference["controller"] == true);
        if is_contested {
            return if has(set) || has(pod) { ClaimOwners::Should(others()) } else { ClaimOwners::Contested };
        }
        let wants = self.wants(is_scaled_down);
        let controls_all = references.iter().filter(|r| is_ours(r)).all(|reference| reference["controller"] == true);
        if wants == (has(set), has(pod)) && controls_all {
            return ClaimOwners::Right;
        }
        let mut owners = others();
        if wants.0 {
            owners.push(reference(set, "apps/v1", "StatefulSet"));
        }
        if wants.1 {
            owners.push(reference(pod, "v1", "Pod"));
        }
        ClaimOwners::Should(owners)
    }
}

/// Reports whether the claim still belongs to an earlier pod of the same name.
pub fn belongs_to_earlier_pod(claim: &Object, pod_name: &str, pod_uid: Option<&str>) -> bool {
    let references = claim.items(&["metadata", "ownerReferences"]).iter();
    let mut pods = references.filter(|reference| reference["kind"] == "Pod" && reference["name"] == pod_name);
    pods.any(|reference| reference["uid"].as_str() != pod_uid)
}

fn is_stale(claim: &Object, owner: &Object, kind: &str) -> bool {
    let references = claim.items(&["metadata", "ownerReferences"]);
    let named = references.iter().find(|reference| names(reference, owner, kind));
    named.is_some_and(|reference| reference["uid"].as_str() != Some(owner.uid()))
}

fn names(reference: &Value, owner: &Object, kind: &str) -> bool {
    reference["kind"] == kind && reference["name"].as_str() == Some(owner.name())
}

fn reference(owner: &Object, api_version: &str, kind: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": owner.name(), "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Owners as `kind:uid`, before and after; policies as letters for whenDeleted and whenScaled.
    #[track_caller]
    fn check(policy: &str, is_scaled_down: bool, before: &[&str], expected: &str) {
        let object =
            |name: &str, uid: &str| Object::from_value(json!({"metadata": {"name": name, "uid": uid}})).expect("a map");
        let (set, pod) = (object("db", "s"), object("db-0", "p"));
        let owner = |text: &&str| {
            let (kind, uid) = text.split_once(':').expect("kind:uid");
            let name = if kind == "Pod" { "db-0" } else { "db" };
            json!({"apiVersion": "x", "kind": kind, "name": name, "uid": uid, "controller": true})
        };
        let claim = json!({"metadata": {"ownerReferences": before.iter().map(owner).collect::<Vec<_>>()}});
        let claim = Object::from_value(claim).expect("a map");
        let retention =
            ClaimRetention { deletes_with_set: policy.contains('D'), deletes_with_scale: policy.contains('S') };
        let text = match retention.plan_owners(&claim, &set, &pod, is_scaled_down) {
            ClaimOwners::Right => "right".to_owned(),
            ClaimOwners::Contested => "contested".to_owned(),
            ClaimOwners::Should(owners) => {
                let text = |o: &Value| format!("{}:{}", o["kind"], o["uid"]).replace('"', "");
                format!("should [{}]", owners.iter().map(text).collect::<Vec<_>>().join(" "))
            }
        };
        assert_eq!(text, expected, "{policy} {before:?}");
    }

    #[test]
    fn claim_owners_follow_the_retention_policy() {
        check("", false, &[], "right");
        check("", false, &["StatefulSet:s"], "should []");
        check("D", false, &[], "should [StatefulSet:s]");
        check("D", true, &["StatefulSet:s"], "right");
        check("S", false, &[], "right");
        check("S", true, &[], "should [Pod:p]");
        check("S", false, &["Pod:p"], "should []");
        check("DS", false, &[], "should [StatefulSet:s]");
        check("DS", true, &["StatefulSet:s"], "should [Pod:p]");
        check("DS", false, &["Pod:p"], "should [StatefulSet:s]");
    }

    #[test]
    fn claims_of_other_owners_and_earlier_pods_are_unchanged() {
        check("D", false, &["Cluster:x"], "contested");
        check("D", false, &["Cluster:x", "StatefulSet:s"], "should [Cluster:x]");
        check("D", false, &["StatefulSet:earlier"], "right");
        check("", false, &["Cluster:x"], "right");
    }
}
