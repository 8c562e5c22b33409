//! Revisions of workloads, which their clusters keep as ReplicaSets or ControllerRevisions, and the way back to one.

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
/// Directive of the patch in a ControllerRevision: its template replaces the present one.
const DIRECTIVE: &str = "$patch";

/// The objects in which a cluster keeps the revisions of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeptIn {
    ReplicaSets,
    ControllerRevisions,
}

/// Workloads with revisions: resource, kind, and where their clusters keep them.
const HISTORIES: [(&str, &str, KeptIn); 3] = [
    ("deployments", "Deployment", KeptIn::ReplicaSets),
    ("statefulsets", "StatefulSet", KeptIn::ControllerRevisions),
    ("daemonsets", "DaemonSet", KeptIn::ControllerRevisions),
];

impl KeptIn {
    fn plural(self) -> &'static str {
        match self {
            Self::ReplicaSets => "replicasets",
            Self::ControllerRevisions => "controllerrevisions",
        }
    }

    /// Returns the revision that an object keeps; `None` for an object without a pod template.
    fn read(self, cluster: &str, object: Object) -> Option<KeptRevision> {
        let (number, path) = match self {
            Self::ReplicaSets => (object.annotation(REVISION)?.parse().ok()?, ["spec", "template"].as_slice()),
            Self::ControllerRevisions => (object.i64_at(&["revision"])?, ["data", "spec", "template"].as_slice()),
        };
        let template = object.get(path).filter(|template| template["spec"].is_object())?;
        let template = plain_template(template.clone());
        Some(KeptRevision { cluster: cluster.to_owned(), number, template, object })
    }
}

/// Returns a pod template as it was in the workload.
fn plain_template(mut template: Value) -> Value {
    if let Some(fields) = template.as_object_mut() {
        fields.remove(DIRECTIVE);
    }
    if let Some(metadata) = template["metadata"].as_object_mut() {
        metadata.remove("creationTimestamp");
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove(TEMPLATE_HASH);
        }
    }
    template
}

/// A former or the present pod template of a workload, from the object that keeps it in a cluster.
struct KeptRevision {
    cluster: String,
    number: i64,
    template: Value,
    object: Object,
}

impl KeptRevision {
    fn message(&self, current: i64) -> Revision {
        let containers = self.template["spec"]["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let images = containers.iter().filter_map(|container| container["image"].as_str());
        // A ControllerRevision counts no pods.
        let count = |path: &[&str]| self.object.i64_at(path).unwrap_or_default();
        Revision {
            cluster: self.cluster.clone(),
            revision: self.number,
            images: images.map(str::to_owned).collect(),
            replicas: count(&["spec", "replicas"]),
            ready_replicas: count(&["status", "readyReplicas"]),
            current: self.number == current,
            create_time: created(&self.object),
        }
    }
}

/// The newest revision of each cluster is its current one: going back to a former template gives it a new number.
fn current_of(kept: &[KeptRevision], cluster: &str) -> i64 {
    kept.iter().filter(|one| one.cluster == cluster).map(|one| one.number).max().unwrap_or(0)
}

/// Returns the revision to go back to: a number, or the one before the current.
fn wanted<'a>(kept: &'a [KeptRevision], revision: i64, cluster: &str) -> Result<&'a KeptRevision, Status> {
    let mut clusters = kept.iter().map(|one| one.cluster.as_str()).collect::<Vec<_>>();
    clusters.sort_unstable();
    let cluster = if cluster.is_empty() { clusters.first().copied().unwrap_or_default() } else { cluster };
    let current = current_of(kept, cluster);
    let mut own = kept.iter().filter(|one| one.cluster == cluster && one.number != current);
    let found = match revision {
        0 => own.max_by_key(|one| one.number),
        number => own.find(|one| one.number == number),
    };
    found.ok_or_else(|| match revision {
        0 => failed_precondition(format!("the cluster {cluster:?} keeps no former revision")),
        number => failed_precondition(format!("the cluster {cluster:?} keeps no former revision {number}")),
    })
}

/// The revisions of one workload among the objects of a cluster.
fn own_revisions(items: Value, cluster: &str, (kind, name): (&str, &str), kept_in: KeptIn) -> Vec<KeptRevision> {
    let Value::Array(items) = items else { return Vec::new() };
    let objects = items.into_iter().filter_map(Object::from_value);
    let own = objects.filter(|object| {
        let owners = object.owner_references();
        owners.iter().any(|owner| owner.kind == kind && owner.name == name)
    });
    own.filter_map(|object| kept_in.read(cluster, object)).collect()
}

impl ManagerApi {
    async fn kept(&self, caller: &ApiCaller, named: &Named<'_>) -> Result<(Vec<KeptRevision>, Vec<Unread>), Status> {
        let found = HISTORIES.iter().find(|(resource, ..)| *resource == named.resource);
        let Some((_, kind, kept_in)) = found else {
            return Err(failed_precondition(format!("{} have no revisions in their clusters", named.resource)));
        };
        let (client, workload, object) = self.workload(caller, named).await?;
        let selector = object::percent::encode(&pod_selector(named.resource, &object)?);
        self.operations.prepare_member_user(&caller.user, named.instance).await?;
        let (namespace, plural) = (named.namespace, kept_in.plural());
        let path = format!("/apis/apps/v1/namespaces/{namespace}/{plural}?labelSelector={selector}");
        let (mut kept, mut unread) = (Vec::new(), Vec::new());
        for (cluster, read) in read_in_clusters(&client, &workload.clusters, &path).await {
            match read {
                Ok(mut list) => kept.extend(own_revisions(list["items"].take(), cluster, (kind, named.name), *kept_in)),
                Err(status) => {
                    let (instance, cluster) = (named.instance.to_owned(), cluster.to_owned());
                    unread.push(Unread { instance, cluster, reason: status.message });
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
        kept.sort_by(|a, b| (b.number, &a.cluster).cmp(&(a.number, &b.cluster)));
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
        let template = &wanted(&kept, *revision, cluster)?.template;
        let former = [json!({"op": "replace", "path": "/spec/template", "value": template})];
        self.replace_in_workload(caller, &named, &former, WriteMode { validate_only: *validate_only, etag }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(number: i64) -> Value {
        json!({"containers": [{"name": "web", "image": format!("web:{number}")}]})
    }

    /// A ControllerRevision of a workload `web`.
    fn revision_of(owner: &str, number: i64) -> Value {
        let owners = json!([{"apiVersion": "apps/v1", "kind": owner, "name": "web", "uid": "u"}]);
        let labels = json!({"creationTimestamp": null, "labels": {"app": "web"}});
        let template = json!({DIRECTIVE: "replace", "metadata": labels, "spec": pods(number)});
        json!({
            "kind": "ControllerRevision", "metadata": {"name": format!("web-{number}"), "ownerReferences": owners},
            "revision": number, "data": {"spec": {"template": template}},
        })
    }

    fn kept(cluster: &str, number: i64) -> KeptRevision {
        let labels = json!({"creationTimestamp": null, "labels": {"app": "web", TEMPLATE_HASH: "x"}});
        let set = json!({
            "kind": "ReplicaSet",
            "metadata": {"name": format!("web-{number}"), "annotations": {REVISION: number.to_string()}},
            "spec": {"replicas": number, "template": {"metadata": labels, "spec": pods(number)}},
        });
        let set = Object::from_value(set).expect("an object");
        KeptIn::ReplicaSets.read(cluster, set).expect("a revision")
    }

    #[test]
    fn the_revision_before_the_current_one_is_the_default() {
        let all = [kept("m2", 9), kept("m1", 1), kept("m1", 3), kept("m1", 2), kept("m2", 8)];
        let check = |revision: i64, cluster: &str, expected: Option<(&str, i64)>| {
            let found = wanted(&all, revision, cluster).ok().map(|one| (one.cluster.as_str(), one.number));
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
    fn a_former_template_is_as_it_was_in_the_workload() {
        let set = kept("m1", 2);
        let revision = Object::from_value(revision_of("StatefulSet", 2)).expect("an object");
        let revision = KeptIn::ControllerRevisions.read("m1", revision).expect("a revision");
        let expected = json!({"metadata": {"labels": {"app": "web"}}, "spec": pods(2)});
        for (one, replicas) in [(set, 2), (revision, 0)] {
            assert_eq!(one.template, expected);
            let shown = one.message(2);
            assert_eq!((shown.images, shown.revision, shown.current), (vec!["web:2".to_owned()], 2, true));
            assert_eq!(shown.replicas, replicas);
        }
    }

    #[test]
    fn only_revisions_of_the_workload_count() {
        let check = |kind: &str, items: Value, expected: &[i64]| {
            let found = own_revisions(items, "m1", (kind, "web"), KeptIn::ControllerRevisions);
            assert_eq!(found.iter().map(|one| one.number).collect::<Vec<_>>(), expected);
        };
        let of = revision_of;
        check("StatefulSet", json!([of("StatefulSet", 1), of("DaemonSet", 2), of("StatefulSet", 3)]), &[1, 3]);
        check("DaemonSet", json!([of("StatefulSet", 1), of("DaemonSet", 2)]), &[2]);
        // Other controllers keep other data in ControllerRevisions.
        let mut other = of("StatefulSet", 4);
        other["data"] = json!({"spec": {"replicas": 1}});
        check("StatefulSet", json!([other]), &[]);
        check("StatefulSet", json!(null), &[]);
    }
}
