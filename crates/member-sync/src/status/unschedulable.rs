//! Unschedulable pods of Deployments, by Deployment: reported in its Work in addition to the status.

use std::collections::{BTreeMap, HashMap};

use api::work::Unschedulable;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use object::builtin;
use object::{Object, Status, conditions};
use reconcile::ObjectKey;
use serde_json::{Value, json};

use crate::status::capacity::trim_pod;

/// Maximum number of times reported per workload; the rest is added to the last.
const TIMES_MAX: usize = 16;

/// The field in which `trim_pod` keeps the data read here.
const KEPT: &str = "unschedulable";

/// All pods of a member that wait for a node they do not find.
#[derive(Debug, Default)]
pub struct Waiting {
    by_workload: HashMap<ObjectKey, BTreeMap<String, Pod>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pod {
    /// The revision of the workload.
    revision: String,
    created: String,
    since: String,
    message: String,
}

/// Returns the part of a pod to keep; `None` for pods with a node or without a Deployment.
pub fn kept_of(pod: &Object) -> Option<Value> {
    let condition = conditions::find(pod, "PodScheduled")
        .filter(|condition| condition.is_false() && condition.reason() == "Unschedulable")?;
    // The name of a ReplicaSet is that of its Deployment and the hash of the pods it makes.
    let revision = pod.label("pod-template-hash")?;
    let owner = pod.owner_references().into_iter().find(|owner| owner.controller && owner.kind == "ReplicaSet")?;
    let workload = owner.name.strip_suffix(revision)?.strip_suffix('-')?;
    Some(json!({
        "workload": workload,
        "revision": revision,
        "created": pod.get(&["metadata", "creationTimestamp"]),
        "since": condition.text("lastTransitionTime"),
        "message": condition.message(),
    }))
}

/// Reads the unschedulable pods of a Deployment from the member.
pub async fn unschedulable_replicas(
    member: &ClusterClient,
    namespace: &str,
    deployment: &str,
) -> Result<Option<Unschedulable>, Status> {
    let pods = ResourceRef::within(&builtin::pods(), namespace);
    let mut waiting = Waiting::default();
    for pod in member.list_all(pods, ListOptions::default()).await?.items {
        let mut pod = Object::clone(&pod);
        trim_pod(&mut pod);
        waiting.apply(None, Some(&pod));
    }
    Ok(waiting.of(&ObjectKey::new(namespace, deployment)))
}

impl Waiting {
    /// Takes in one change of a pod that has been through `trim_pod`. Returns the workload whose report changed.
    pub fn apply(&mut self, before: Option<&Object>, now: Option<&Object>) -> Option<ObjectKey> {
        let (was, is) = (before.and_then(read), now.and_then(read));
        if was == is {
            return None;
        }
        let name = now.or(before)?.name();
        if let Some((workload, _)) = &was
            && let Some(pods) = self.by_workload.get_mut(workload)
        {
            pods.remove(name);
            if pods.is_empty() {
                self.by_workload.remove(workload);
            }
        }
        let workload = is.as_ref().or(was.as_ref()).map(|(workload, _)| workload.clone());
        if let Some((workload, pod)) = is {
            self.by_workload.entry(workload).or_default().insert(name.to_owned(), pod);
        }
        workload
    }

    /// Returns the report of a Deployment: of its newest pods, since older ones are replaced anyway.
    pub fn of(&self, deployment: &ObjectKey) -> Option<Unschedulable> {
        let pods = self.by_workload.get(deployment)?;
        let newest = pods.values().max_by(|a, b| a.created.cmp(&b.created))?;
        let mut report = Unschedulable { message: newest.message.clone(), ..Unschedulable::default() };
        for pod in pods.values().filter(|pod| pod.revision == newest.revision) {
            report.replicas += 1;
            *report.since.entry(pod.since.clone()).or_default() += 1;
        }
        while report.since.len() > TIMES_MAX {
            // Later rather than earlier: the descheduler waits a little longer.
            if let (Some((_, pods)), Some(mut next)) = (report.since.pop_first(), report.since.first_entry()) {
                *next.get_mut() += pods;
            }
        }
        Some(report)
    }
}

fn read(pod: &Object) -> Option<(ObjectKey, Pod)> {
    let kept = pod.get(&[KEPT])?;
    let text = |field: &str| kept[field].as_str().unwrap_or_default().to_owned();
    let workload = ObjectKey::new(pod.namespace(), &text("workload"));
    let (revision, created) = (text("revision"), text("created"));
    Some((workload, Pod { revision, created, since: text("since"), message: text("message") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, revision: &str, created: &str, since: Option<&str>) -> Object {
        let condition = match since {
            Some(since) => json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/1 nodes are available", "lastTransitionTime": since}),
            None => json!({"type": "PodScheduled", "status": "True"}),
        };
        let value = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "labels": {"pod-template-hash": revision},
                "creationTimestamp": created, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                    "name": format!("my-web-{revision}"), "uid": "1", "controller": true}]},
            "status": {"phase": "Pending", "conditions": [condition]},
        });
        let mut pod = Object::from_value(value).expect("a map");
        trim_pod(&mut pod);
        pod
    }

    #[test]
    fn unscheduled_pods_are_reported_by_deployment_until_scheduled() {
        let mut waiting = Waiting::default();
        let key = ObjectKey::new("shop", "my-web");
        let fine = pod("a", "5d4", "1", None);
        assert_eq!(waiting.apply(None, Some(&fine)), None);
        let refused = pod("a", "5d4", "1", Some("10"));
        assert_eq!(waiting.apply(Some(&fine), Some(&refused)).as_ref(), Some(&key));
        assert_eq!(waiting.apply(Some(&refused), Some(&refused)), None, "nothing new");
        waiting.apply(None, Some(&pod("b", "5d4", "2", Some("10"))));
        waiting.apply(None, Some(&pod("c", "5d4", "2", Some("20"))));
        let report = waiting.of(&key).expect("reported");
        assert_eq!((report.replicas, report.message.as_str()), (3, "0/1 nodes are available"));
        assert_eq!(report.since, BTreeMap::from([("10".to_owned(), 2), ("20".to_owned(), 1)]));
        // A new version of the pods: the old ones go anyway.
        waiting.apply(None, Some(&pod("d", "777", "3", Some("30"))));
        assert_eq!(waiting.of(&key).map(|report| report.replicas), Some(1));
        assert_eq!(waiting.apply(Some(&pod("d", "777", "3", Some("30"))), None).as_ref(), Some(&key));
        assert_eq!(waiting.of(&key).map(|report| report.replicas), Some(3));
        assert_eq!(waiting.of(&ObjectKey::new("shop", "my")), None);
    }

    #[test]
    fn reported_times_are_bounded_and_never_too_early() {
        let mut waiting = Waiting::default();
        for number in 10..60 {
            waiting.apply(None, Some(&pod(&format!("p{number}"), "5d4", "1", Some(&number.to_string()))));
        }
        let report = waiting.of(&ObjectKey::new("shop", "my-web")).expect("reported");
        assert_eq!((report.replicas, report.since.len()), (50, TIMES_MAX));
        assert_eq!(report.since.first_key_value(), Some((&"44".to_owned(), &35)));
    }
}
