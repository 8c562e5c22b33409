//! Reads the scaled workload: its template and binding on the control plane, its scales and pods in the members.

use std::sync::Arc;

use api::policy::{LABEL_CLUSTER_PROPAGATION_ID, LABEL_PROPAGATION_ID};
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use object::request::Subresource;
use object::selector::LabelSelector;
use object::{GroupVersion, GroupVersionResource, Object, Status, builtin, conditions};
use reconcile::ObjectKey;
use scaling::pods::ScaledPod;
use scaling::status::StatusDraft;

use crate::federated_hpa::{FederatedHpaController, Reported};

/// Maximum number of pods of a workload in one member.
const PODS_MAX: usize = 50_000;

/// The object a binding places, and the namespace of the binding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BoundTarget {
    namespace: String,
    api_version: String,
    kind: String,
    name: String,
}

/// A scale target as it is in the control plane and in its members.
pub struct ScaledWorkload {
    /// The scale subresource of the template.
    pub scale: ResourceRef,
    pub version: String,
    /// Replicas of the template.
    pub current: i64,
    /// Replicas in all members.
    pub running: i64,
    /// Pods as the members report them.
    pub reported_pods: i64,
    /// The label selector of the pods; empty if unknown.
    pub selector: String,
    pub pods: Vec<Arc<ScaledPod>>,
    /// Ready members with replicas.
    pub members: Vec<String>,
    /// Other FederatedHPAs that scale by some of these pods.
    pub rivals: Vec<ObjectKey>,
}

/// The workload in one member.
struct MemberWorkload {
    replicas: i64,
    reported_pods: i64,
    selector: String,
    pods: Vec<Arc<ScaledPod>>,
    rivals: Vec<ObjectKey>,
}

/// Indexes a binding. One whose resource is in another namespace is never used.
pub fn bound_targets(binding: &Object) -> Vec<BoundTarget> {
    let part = |field: &str| binding.str_at(&["spec", "resource", field]).to_owned();
    if part("namespace") != binding.namespace() {
        return Vec::new();
    }
    vec![BoundTarget {
        namespace: binding.namespace().to_owned(),
        api_version: part("apiVersion"),
        kind: part("kind"),
        name: part("name"),
    }]
}

impl FederatedHpaController {
    pub(super) async fn gather(
        &self,
        key: &ObjectKey,
        autoscaler: &Object,
        draft: &mut StatusDraft,
    ) -> Result<ScaledWorkload, Reported> {
        let report = |draft: &mut StatusDraft, (event, reason): (&'static str, &str), what: &str, error: String| {
            draft.set_condition(
                "AbleToScale",
                "False",
                reason,
                &format!("the HPA controller was unable to {what}: {error}"),
            );
            self.events.warning(autoscaler, event, error);
            Reported
        };
        let target = target_of(autoscaler);
        let (gvr, template) = match self.template(&target).await {
            Ok(found) => found,
            Err(error) => {
                let reason = ("FailedGetScaleTargetRef", "FailedGetScaleTargetRef");
                return Err(report(draft, reason, "get the target reference object", error));
            }
        };
        let binding = self.binding(&target, &template).map_err(|error| {
            report(draft, ("FailedGetBindings", "FailedGetBinding"), "get the binding by scaleTargetRef", error)
        })?;
        let members = self.target_clusters(&binding).map_err(|error| {
            let reason = ("FailedGetTargetClusters", "FailedGetTargetClusters");
            report(draft, reason, "get the target clusters from binding", error)
        })?;
        let found = self.workload(key, &gvr, &target, members).await;
        found.map_err(|error| {
            report(draft, ("FailedGetScale", "FailedGetScale"), "get the target's current scale", error)
        })
    }

    /// Only an object in the namespace of the FederatedHPA is ever read or scaled.
    async fn template(&self, target: &BoundTarget) -> Result<(GroupVersionResource, Arc<Object>), String> {
        let version = GroupVersion::parse(&target.api_version)
            .ok_or_else(|| format!("unexpected GroupVersion string: {}", target.api_version))?;
        let resource = self.mapper.resource_of(&version.kind(target.kind.as_str())).await.map_err(text)?;
        if !resource.namespaced {
            return Err(format!("{} is not namespaced: only objects of the same namespace are scaled", target.kind));
        }
        let place = ResourceRef::namespaced(&resource.gvr, &target.namespace, &target.name);
        Ok((resource.gvr, self.client.get(place).await.map_err(text)?))
    }

    fn binding(&self, target: &BoundTarget, template: &Object) -> Result<Arc<Object>, String> {
        if template.labels().next().is_none() {
            return Err("target resource has no label".to_owned());
        }
        let labels = [LABEL_PROPAGATION_ID, LABEL_CLUSTER_PROPAGATION_ID];
        if labels.iter().all(|label| template.label(label).is_none()) {
            return Err("no label of policy permanent-id found".to_owned());
        }
        let found = self.bindings.list(target).into_iter().find(|binding| !binding.is_deleting());
        found.ok_or_else(|| "no binding matches the target resource".to_owned())
    }

    fn target_clusters(&self, binding: &Object) -> Result<Vec<String>, String> {
        let names = binding.items(&["spec", "clusters"]).iter().filter_map(|target| target["name"].as_str());
        let names: Vec<&str> = names.collect();
        if names.is_empty() {
            return Err("binding has no schedulable clusters".to_owned());
        }
        let mut ready = Vec::new();
        for name in names {
            let cluster = self.clusters.get(&ObjectKey::new("", name));
            let cluster = cluster.ok_or_else(|| format!("clusters.cluster.karmada.io \"{name}\" not found"))?;
            if conditions::is_true(&cluster, api::cluster::CONDITION_READY) {
                ready.push(name.to_owned());
            }
        }
        Ok(ready)
    }

    async fn workload(
        &self,
        key: &ObjectKey,
        gvr: &GroupVersionResource,
        target: &BoundTarget,
        members: Vec<String>,
    ) -> Result<ScaledWorkload, String> {
        let place = ResourceRef::namespaced(gvr, &target.namespace, &target.name).subresource(Subresource::Scale);
        let scale = self.client.get(place.clone()).await.map_err(text)?;
        let current = scale.i64_at(&["spec", "replicas"]).unwrap_or(0);
        let others = &self.other_selectors(key);
        let member_scale = &place;
        let gathered =
            self.adapter.ask(&members, |client| read_member(client, member_scale.clone(), others.clone())).await;
        let mut workload = ScaledWorkload {
            scale: place.clone(),
            version: scale.resource_version().to_owned(),
            current,
            running: 0,
            reported_pods: 0,
            selector: String::new(),
            pods: Vec::new(),
            members,
            rivals: Vec::new(),
        };
        for (cluster, found) in gathered.found {
            workload.running += found.replicas;
            workload.reported_pods += found.reported_pods;
            workload.rivals.extend(found.rivals);
            if workload.selector.is_empty() {
                workload.selector = found.selector;
            }
            let named = |pod: Arc<ScaledPod>| {
                let mut pod = Arc::unwrap_or_clone(pod);
                pod.cluster.clone_from(&cluster);
                Arc::new(pod)
            };
            workload.pods.extend(found.pods.into_iter().map(named));
        }
        if workload.running == 0 && current != 0 {
            let mut problem =
                "failed to get replicas in any of clusters, possibly because all of clusters are not ready".to_owned();
            if let Some(first) = gathered.unread.first() {
                problem.push_str(": ");
                problem.push_str(first);
            }
            return Err(problem);
        }
        if workload.selector.is_empty() {
            // Members have no scale yet when the workload starts from zero.
            scale.str_at(&["status", "selector"]).clone_into(&mut workload.selector);
        }
        workload.rivals.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        workload.rivals.dedup();
        Ok(workload)
    }

    /// The selectors of all other FederatedHPAs in the namespace.
    fn other_selectors(&self, key: &ObjectKey) -> Arc<Vec<(ObjectKey, LabelSelector)>> {
        let selectors = self.selectors.lock();
        let others = selectors.iter().filter(|(other, _)| other.namespace == key.namespace && *other != key);
        Arc::new(others.map(|(other, selector)| (other.clone(), selector.clone())).collect())
    }

    /// Metrics of pods need a selector that no other FederatedHPA has pods of.
    pub(super) fn check_selector(
        &self,
        key: &ObjectKey,
        autoscaler: &Object,
        workload: &ScaledWorkload,
        draft: &mut StatusDraft,
    ) -> Result<(), Reported> {
        let text = &workload.selector;
        if text.is_empty() {
            self.events.warning(autoscaler, "SelectorRequired", "selector is required");
            let message = "the HPA target's scale is missing a selector";
            draft.set_condition("ScalingActive", "False", "InvalidSelector", message);
            return Err(Reported);
        }
        let selector = match LabelSelector::parse(text) {
            Ok(selector) => selector,
            Err(error) => {
                let message =
                    format!("couldn't convert selector into a corresponding internal selector object: {error}");
                draft.set_condition("ScalingActive", "False", "InvalidSelector", &message);
                self.events.warning(autoscaler, "InvalidSelector", message);
                return Err(Reported);
            }
        };
        self.selectors.lock().insert(key.clone(), selector);
        if workload.rivals.is_empty() {
            return Ok(());
        }
        let mut all: Vec<String> = workload.rivals.iter().chain([key]).map(ToString::to_string).collect();
        all.sort();
        let message = format!("pods by selector {text} are controlled by multiple HPAs: [{}]", all.join(" "));
        draft.set_condition("ScalingActive", "False", "AmbiguousSelector", &message);
        self.events.warning(autoscaler, "AmbiguousSelector", message);
        Err(Reported)
    }
}

fn target_of(autoscaler: &Object) -> BoundTarget {
    let part = |field: &str| autoscaler.str_at(&["spec", "scaleTargetRef", field]).to_owned();
    BoundTarget {
        namespace: autoscaler.namespace().to_owned(),
        api_version: part("apiVersion"),
        kind: part("kind"),
        name: part("name"),
    }
}

/// Reads scale and pods of the workload in a member; `None` if the member does not have it yet.
async fn read_member(
    client: ClusterClient,
    scale: ResourceRef,
    others: Arc<Vec<(ObjectKey, LabelSelector)>>,
) -> Result<Option<MemberWorkload>, Status> {
    let namespace = scale.namespace.clone().unwrap_or_default();
    let Some(found) = client.find(scale).await? else { return Ok(None) };
    let mut workload = MemberWorkload {
        replicas: found.i64_at(&["spec", "replicas"]).unwrap_or(0),
        reported_pods: found.i64_at(&["status", "replicas"]).unwrap_or(0),
        selector: found.str_at(&["status", "selector"]).to_owned(),
        pods: Vec::new(),
        rivals: Vec::new(),
    };
    if workload.selector.is_empty() {
        return Ok(Some(workload));
    }
    // Any recent state is good enough, and is cheaper for the member.
    let options = ListOptions {
        label_selector: Some(workload.selector.clone()),
        resource_version: Some("0".to_owned()),
        ..ListOptions::default()
    };
    let mut pages = client.pages(ResourceRef::within(&builtin::pods(), &namespace), options);
    while let Some(page) = pages.next().await? {
        for pod in page.items {
            workload.pods.extend(scaling::pods::read(&pod).map(Arc::new));
            let rivals = others.iter().filter(|(_, selector)| selector.matches(&pod)).map(|(key, _)| key);
            for rival in rivals {
                if !workload.rivals.contains(rival) {
                    workload.rivals.push(rival.clone());
                }
            }
        }
        if workload.pods.len() > PODS_MAX {
            return Err(Status::too_large(format!("the workload has more than {PODS_MAX} pods")));
        }
    }
    Ok(Some(workload))
}

fn text(status: Status) -> String {
    status.to_string()
}
