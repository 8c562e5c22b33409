//! Marks what a HorizontalPodAutoscaler scales in members, so that members keep their own number of replicas.
//!
//! Writes one label of the targets of HPAs that a policy propagates. Off by default.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::policy::{LABEL_CLUSTER_PROPAGATION_ID, LABEL_PROPAGATION_ID};
use api::work::LABEL_RETAIN_REPLICAS;
use cluster_client::{Patch, ResourceRef, RestMapper, WriteOptions};
use object::builtin;
use object::{GroupVersion, Object};
use reconcile::{Change, Controller, Index, MirrorSpec, Outcome, ReconcileError, Source};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::plane::{FIELD_MANAGER, Plane};

const COMPONENT: &str = "hpa-scale-target-marker";
const WORKERS: usize = 1;

/// The scale target of an autoscaler.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Target {
    namespace: String,
    api_version: String,
    kind: String,
    name: String,
}

struct Marker {
    plane: Arc<Plane>,
    /// By what they scale.
    autoscalers: Index<Target>,
    mapper: RestMapper,
}

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let gvr = builtin::horizontal_pod_autoscalers();
    let autoscalers = plane.mirror(MirrorSpec::new(&gvr)).index(|autoscaler| vec![target_of(autoscaler)]);
    let sources = vec![Source::new(autoscalers.mirror(), targets_of_change)];
    let mapper = RestMapper::new(plane.client.clone());
    let marker = Arc::new(Marker { plane, autoscalers, mapper });
    let controller = Controller::new(COMPONENT).observed_by(&marker.plane.metrics.controllers);
    let reconcile = move |target: Target| reconcile(Arc::clone(&marker), target);
    controller.run(sources, WORKERS, cancel, reconcile).await;
}

fn targets_of_change(change: &Change) -> Vec<Target> {
    let states = [&change.before, &change.now].into_iter().flatten();
    states.map(|autoscaler| target_of(autoscaler)).collect::<BTreeSet<_>>().into_iter().collect()
}

async fn reconcile(marker: Arc<Marker>, target: Target) -> Result<Outcome, ReconcileError> {
    let scaling = marker.autoscalers.list(&target);
    // Only the author of the autoscaler can fix this.
    let Some(group_version) = GroupVersion::parse(&target.api_version) else { return Ok(Outcome::Done) };
    let resource = marker.mapper.resource_of(&group_version.kind(target.kind.as_str())).await?;
    let place = ResourceRef::namespaced(&resource.gvr, &target.namespace, &target.name);
    let client = &marker.plane.client;
    let Some(scaled) = client.find(place.clone()).await? else { return Ok(Outcome::Done) };
    let Some(label) = plan_label(&scaled, &scaling) else { return Ok(Outcome::Done) };
    // No version: whatever else changes in the target meanwhile is not this controller's concern.
    let patch = json!({"metadata": {"labels": {LABEL_RETAIN_REPLICAS: label}}});
    match client.patch(place, Patch::merge(patch), WriteOptions::managed_by(FIELD_MANAGER)).await {
        Err(status) if !status.is_not_found() => Err(status.into()),
        _ => Ok(Outcome::Done),
    }
}

/// Returns the new value of the label: a propagated autoscaler sets it, and the removal of the last autoscaler removes
/// it. An autoscaler that is not propagated does neither.
fn plan_label(scaled: &Object, scaling: &[Arc<Object>]) -> Option<Value> {
    let is_propagated = |autoscaler: &Arc<Object>| {
        [LABEL_PROPAGATION_ID, LABEL_CLUSTER_PROPAGATION_ID].iter().any(|key| autoscaler.label(key).is_some())
    };
    let label = scaled.label(LABEL_RETAIN_REPLICAS);
    if scaling.iter().any(is_propagated) {
        return (label != Some("true")).then(|| "true".into());
    }
    (scaling.is_empty() && label.is_some()).then_some(Value::Null)
}

fn target_of(autoscaler: &Object) -> Target {
    let part = |key: &str| autoscaler.str_at(&["spec", "scaleTargetRef", key]).to_owned();
    Target {
        namespace: autoscaler.namespace().to_owned(),
        api_version: part("apiVersion"),
        kind: part("kind"),
        name: part("name"),
    }
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;
    use object::GroupVersionResource;

    use super::*;
    use crate::testing::{self, eventually};

    fn deployments() -> GroupVersionResource {
        builtin::deployments()
    }

    fn autoscalers() -> GroupVersionResource {
        builtin::horizontal_pod_autoscalers()
    }

    fn seed_autoscaler(api: &MemoryApi, name: &str, target: &str, is_propagated: bool) {
        let labels = if is_propagated { json!({LABEL_PROPAGATION_ID: "p"}) } else { json!({}) };
        let autoscaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}}});
        api.seed(&autoscalers(), testing::object(autoscaler));
    }

    async fn is_marked(api: &MemoryApi, name: &str) -> bool {
        let target = ResourceRef::namespaced(&deployments(), "default", name);
        let deployment = api.client().get(target).await.expect("there");
        assert_eq!(deployment.label("app"), Some("x"));
        deployment.label(LABEL_RETAIN_REPLICAS) == Some("true")
    }

    #[tokio::test(start_paused = true)]
    async fn targets_of_propagated_autoscalers_are_labelled() {
        let api = MemoryApi::default();
        for name in ["a", "b"] {
            let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": name, "namespace": "default", "labels": {"app": "x"}}});
            api.seed(&deployments(), testing::object(deployment));
        }
        let cancel = CancellationToken::new();
        tokio::spawn(run(testing::plane(&api, &cancel, |_| {}), cancel.clone()));
        seed_autoscaler(&api, "h", "a", false);
        seed_autoscaler(&api, "nothing", "absent", true);
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        assert!(!is_marked(&api, "a").await);
        seed_autoscaler(&api, "h", "a", true);
        eventually("a is marked", async || is_marked(&api, "a").await).await;
        seed_autoscaler(&api, "h", "b", true);
        eventually("b is", async || is_marked(&api, "b").await && !is_marked(&api, "a").await).await;
        let target = ResourceRef::namespaced(&autoscalers(), "default", "h");
        api.client().delete(target, Default::default()).await.expect("deleted");
        eventually("none is", async || !is_marked(&api, "b").await).await;
        cancel.cancel();
    }
}
