//! Gives a target the replicas a rule asks for: a FederatedHPA its bounds, anything else its scale.

use api::autoscaling::{CronRule, FEDERATED_HPAS, ScaleTarget};
use cluster_client::{ClusterClient, Patch, ResourceRef, RestMapper, WriteOptions};
use object::request::Subresource;
use object::{GroupVersion, Object, Status};
use reconcile::ObjectKey;
use serde_json::{Map, Value, json};

use crate::plane::FIELD_MANAGER;

pub async fn apply(
    client: &ClusterClient,
    mapper: &RestMapper,
    owner: &ObjectKey,
    target: &ScaleTarget,
    rule: &CronRule,
) -> Result<(), String> {
    let (place, patch) = if target.api_version == FEDERATED_HPAS.api_version() {
        if target.kind != FEDERATED_HPAS.kind {
            let ScaleTarget { kind, api_version, .. } = target;
            return Err(format!("CronFederatedHPA({owner}) do not support scale target {api_version}/{kind}"));
        }
        let place = ResourceRef::namespaced(&FEDERATED_HPAS.gvr(), &owner.namespace, &target.name);
        (place.clone(), plan_bounds(&*client.get(place).await.map_err(text_of)?, rule))
    } else {
        let group_version = GroupVersion::parse(&target.api_version)
            .ok_or_else(|| format!("unexpected GroupVersion string: {}", target.api_version))?;
        let resource = mapper.resource_of(&group_version.kind(target.kind.as_str())).await.map_err(text_of)?;
        let place =
            ResourceRef::namespaced(&resource.gvr, &owner.namespace, &target.name).subresource(Subresource::Scale);
        (place.clone(), plan_replicas(&*client.get(place).await.map_err(text_of)?, rule))
    };
    let Some(patch) = patch else { return Ok(()) };
    // No version: what the rule asks for holds whatever else was changed meanwhile.
    client.patch(place, Patch::merge(patch), WriteOptions::managed_by(FIELD_MANAGER)).await.map_err(text_of)?;
    Ok(())
}

fn text_of(status: Status) -> String {
    status.to_string()
}

fn plan_bounds(autoscaler: &Object, rule: &CronRule) -> Option<Value> {
    let bounds = [("maxReplicas", rule.target_max_replicas), ("minReplicas", rule.target_min_replicas)];
    let differs = |field: &str, wanted: i32| autoscaler.i64_at(&["spec", field]) != Some(wanted.into());
    let wanted = bounds.into_iter().filter_map(|(field, wanted)| Some((field, wanted?)));
    let changed = wanted.filter(|(field, wanted)| differs(field, *wanted));
    let changed: Map<String, Value> = changed.map(|(field, wanted)| (field.to_owned(), wanted.into())).collect();
    (!changed.is_empty()).then(|| json!({"spec": changed}))
}

fn plan_replicas(scale: &Object, rule: &CronRule) -> Option<Value> {
    let wanted = rule.target_replicas?;
    let is_so = scale.i64_at(&["spec", "replicas"]).unwrap_or_default() == i64::from(wanted);
    (!is_so).then(|| json!({"spec": {"replicas": wanted}}))
}
