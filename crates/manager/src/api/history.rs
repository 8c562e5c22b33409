//! Revisions of Deployments, which their clusters keep as ReplicaSets, and the way back to one.

use manager_api::*;
use object::{Object, Status};
use serde_json::{Value, json};
use transcode::errors::failed_precondition;

use super::convert::created;
use super::workloads::{Named, WriteMode, pod_selector, read_in_clusters};
use super::{ApiCaller, ManagerApi};

const REVISION: &str = "deployment.kubernetes.io/revision";
/// Label that a Deployment controller adds to the pods of a ReplicaSet.
const TEMPLATE_HASH: &str = "pod-template-hash";
const DEPLOYMENTS: &str = "deployments";

/// A ReplicaSet of a Deployment in a cluster.
struct KeptRevision {
    cluster: String,
    set: Object,
}

impl KeptRevision {
    fn number(&self) -> i64 {
        self.set.annotation(REVISION).and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    fn message(&self, current: i64) -> Revision {
        let containers = self.set.items(&["spec", "template", "spec", "containers"]).iter();
        let number = |path: &[&str]| self.set.i64_at(path).unwrap_or_default();
        Revision {
            cluster: self.cluster.clone(),
            revision: self.number(),
            images: containers.filter_map(|container| container["image"].as_str()).map(str::to_owned).collect(),
            replicas: number(&["spec", "replicas"]),
            ready_replicas: number(&["status", "readyReplicas"]),
            current: self.number() == current,
            create_time: created(&self.set),
        }
    }

    /// The pod template as it was before the ReplicaSet got its label.
    fn template(&self) -> Value {
        let mut template = self.set.get(&["spec", "template"]).cloned().unwrap_or_default();
        if let Some(metadata) = template["metadata"].as_object_mut() {
            metadata.remove("creationTimestamp");
            if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
                labels.remove(TEMPLATE_HASH);
            }
        }
        template
    }
}

/// The newest revision of each cluster is its current one.
fn current_of(kept: &[KeptRevision], cluster: &str) -> i64 {
    kept.iter().filter(|one| one.cluster == cluster).map(KeptRevision::number).max().unwrap_or(0)
}

/// Returns the revision to go back to: a number, or the one before the current.
fn wanted<'a>(kept: &'a [KeptRevision], revision: i64, cluster: &str) -> Result<&'a KeptRevision, Status> {
    let mut clusters = kept.iter().map(|one| one.cluster.as_str()).collect::<Vec<_>>();
    clusters.sort_unstable();
    let cluster = if cluster.is_empty() { clusters.first().copied().unwrap_or_default() } else { cluster };
    let current = current_of(kept, cluster);
    let mut own = kept.iter().filter(|one| one.cluster == cluster && one.number() != current);
    let found = match revision {
        0 => own.max_by_key(|one| one.number()),
        number => own.find(|one| one.number() == number),
    };
    found.ok_or_else(|| match revision {
        0 => failed_precondition(format!("the cluster {cluster:?} keeps no former revision")),
        number => failed_precondition(format!("the cluster {cluster:?} keeps no former revision {number}")),
    })
}

impl ManagerApi {
    async fn kept(&self, caller: &ApiCaller, named: &Named<'_>) -> Result<(Vec<KeptRevision>, Vec<Unread>), Status> {
        if named.resource != DEPLOYMENTS {
            return Err(failed_precondition(format!("{} have no revisions in their clusters", named.resource)));
        }
        let (client, workload, object) = self.workload(caller, named).await?;
        let selector = object::percent::encode(&pod_selector(named.resource, &object)?);
        self.operations.prepare_member_user(&caller.user, named.instance).await?;
        let path = format!("/apis/apps/v1/namespaces/{}/replicasets?labelSelector={selector}", named.namespace);
        let (mut kept, mut unread) = (Vec::new(), Vec::new());
        for (cluster, read) in read_in_clusters(&client, &workload.clusters, &path).await {
            let cluster = cluster.to_owned();
            match read {
                Ok(mut list) => {
                    let sets = list["items"].take();
                    let sets = sets.as_array().cloned().unwrap_or_default().into_iter().filter_map(Object::from_value);
                    let is_own = |set: &Object| {
                        let owners = set.owner_references();
                        owners.iter().any(|owner| owner.kind == "Deployment" && owner.name == named.name)
                    };
                    kept.extend(sets.filter(is_own).map(|set| KeptRevision { cluster: cluster.clone(), set }));
                }
                Err(status) => {
                    unread.push(Unread { instance: named.instance.to_owned(), cluster, reason: status.message });
                }
            }
        }
        Ok((kept, unread))
    }

    pub(super) async fn history(
        &self,
        caller: &ApiCaller,
        request: &ListHistoryRequest,
    ) -> Result<ListHistoryResponse, Status> {
        let ListHistoryRequest { instance, namespace, resource, name } = request;
        let (mut kept, unread) = self.kept(caller, &Named { instance, namespace, resource, name }).await?;
        kept.sort_by(|a, b| (b.number(), &a.cluster).cmp(&(a.number(), &b.cluster)));
        let revisions = kept.iter().map(|one| one.message(current_of(&kept, &one.cluster)));
        Ok(ListHistoryResponse { revisions: revisions.collect(), unread })
    }

    /// Sets the pod template to a former one. What override policies changed in that cluster is part of it.
    pub(super) async fn rollback(
        &self,
        caller: &ApiCaller,
        request: &RollbackWorkloadRequest,
    ) -> Result<Workload, Status> {
        let RollbackWorkloadRequest { instance, namespace, resource, name, revision, cluster, validate_only, etag } =
            request;
        if *revision < 0 {
            return Err(Status::bad_request("revision: must not be negative"));
        }
        let named = Named { instance, namespace, resource, name };
        let (kept, unread) = self.kept(caller, &named).await?;
        if let Some(unread) = unread.iter().find(|unread| unread.cluster == *cluster) {
            let text = format!("the cluster {} cannot be read: {}", unread.cluster, unread.reason);
            return Err(Status::unavailable(text));
        }
        // A merge keeps containers and fields that the former template did not have.
        let former = [
            json!({"op": "replace", "path": "/spec/template", "value": wanted(&kept, *revision, cluster)?.template()}),
        ];
        self.replace_in_workload(caller, &named, &former, WriteMode { validate_only: *validate_only, etag }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(cluster: &str, number: i64) -> KeptRevision {
        let set = json!({
            "kind": "ReplicaSet",
            "metadata": {"name": format!("web-{number}"), "annotations": {REVISION: number.to_string()}},
            "spec": {"replicas": number, "template": {
                "metadata": {"creationTimestamp": null, "labels": {"app": "web", TEMPLATE_HASH: "x"}},
                "spec": {"containers": [{"name": "web", "image": format!("web:{number}")}]},
            }},
        });
        KeptRevision { cluster: cluster.to_owned(), set: Object::from_value(set).expect("an object") }
    }

    #[test]
    fn the_revision_before_the_current_one_is_the_default() {
        let all = [kept("m2", 9), kept("m1", 1), kept("m1", 3), kept("m1", 2), kept("m2", 8)];
        let check = |revision: i64, cluster: &str, expected: Option<(&str, i64)>| {
            let found = wanted(&all, revision, cluster).ok().map(|one| (one.cluster.as_str(), one.number()));
            assert_eq!(found, expected, "{revision} {cluster}");
        };
        check(0, "", Some(("m1", 2)));
        check(0, "m2", Some(("m2", 8)));
        check(1, "m1", Some(("m1", 1)));
        check(3, "m1", None);
        check(7, "m1", None);
        check(0, "m3", None);
        assert!(wanted(&[], 0, "").is_err());
    }

    #[test]
    fn a_former_template_has_no_label_of_its_replica_set() {
        let one = kept("m1", 2);
        let template = one.template();
        assert_eq!(template["metadata"], json!({"labels": {"app": "web"}}));
        let shown = one.message(2);
        assert_eq!((shown.images, shown.current, shown.replicas), (vec!["web:2".to_owned()], true, 2));
    }
}
