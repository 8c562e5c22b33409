//! Sums up what members say of their parts of a quota.

use std::sync::Arc;

use api::core::{ResourceList, quantities};
use api::policy::FEDERATED_RESOURCE_QUOTAS;
use api::work::CONDITION_APPLIED;
use object::{Object, conditions};
use propagation::quota::{Amounts, add};
use reconcile::{
    Change, Controller, Index, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError, Recorder, Source, commit_status,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::plane::{FIELD_MANAGER, Plane};
use crate::quota::{parts_by_quota, quota_of, to_value};

const COMPONENT: &str = "federated-resource-quota-status-controller";
const WORKERS: usize = 2;

struct Summaries {
    plane: Arc<Plane>,
    quotas: Mirror,
    parts: Index<ObjectKey>,
    events: Recorder,
}

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let context = Arc::new(Summaries {
        quotas: plane.mirror(MirrorSpec::new(&FEDERATED_RESOURCE_QUOTAS.gvr())),
        parts: parts_by_quota(&plane),
        events: plane.recorder(COMPONENT, &cancel),
        plane,
    });
    let sources =
        vec![Source::each(&context.quotas), Source::changes(context.parts.mirror(), quotas_of_reported_parts)];
    let controller = Controller::new(COMPONENT).observed_by(&context.plane.metrics.controllers);
    let reconcile = move |key: ObjectKey| reconcile(Arc::clone(&context), key);
    controller.run(sources, WORKERS, cancel, reconcile).await;
}

fn quotas_of_reported_parts(change: &Change) -> Vec<ObjectKey> {
    let status = |work: &Option<Arc<Object>>| work.as_ref().map(|work| work.get(&["status"]).cloned());
    // At the start every quota is looked at anyway.
    if status(&change.before) == status(&change.now) {
        return Vec::new();
    }
    let work = change.now.as_ref().or(change.before.as_ref());
    work.and_then(|work| quota_of(work)).into_iter().collect()
}

async fn reconcile(context: Arc<Summaries>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let Some(quota) = context.quotas.get(&key).filter(|quota| !quota.is_deleting()) else { return Ok(Outcome::Done) };
    let parts = context.parts.list(&key);
    let counts_overall = !context.plane.features.federated_quota_enforcement;
    let desired = plan(&quota, &parts, counts_overall);
    if desired.get(&["status"]) == quota.get(&["status"]) {
        return Ok(Outcome::Done);
    }
    let target = context.quotas.target(&key);
    match commit_status(&context.plane.client, target, &quota, &desired, FIELD_MANAGER).await {
        Ok(_) => {
            let message = format!("Collect status of FederatedResourceQuota({key}) succeed.");
            context.events.normal(&*quota, "AggregateStatusSucceed", message);
            Ok(Outcome::Done)
        }
        Err(status) => {
            if !status.is_conflict() {
                context.events.warning(&*quota, "AggregateStatusFailed", status.to_string());
            }
            Err(status.into())
        }
    }
}

/// The quota with what its members say; where bindings are not counted, also with the whole and the sum.
fn plan(quota: &Object, parts: &[Arc<Object>], counts_overall: bool) -> Object {
    let mut reported: Vec<(&str, Value)> = parts.iter().filter_map(|work| reported_by(work)).collect();
    reported.sort_by(|a, b| a.0.cmp(b.0));
    let mut desired = quota.clone();
    if counts_overall {
        let mut used = Amounts::new();
        for (_, part) in &reported {
            let list: ResourceList = serde_json::from_value(part["used"].clone()).unwrap_or_default();
            add(&mut used, quantities(&list).map(|(name, amount)| (name.to_owned(), amount)).collect());
        }
        let overall = quota.get(&["spec", "overall"]).cloned();
        set_or_remove(&mut desired, "overall", overall.unwrap_or_default());
        set_or_remove(&mut desired, "overallUsed", to_value(&used));
    }
    set_or_remove(&mut desired, "aggregatedStatus", reported.into_iter().map(|(_, part)| part).collect());
    desired
}

/// The cluster of a part and what it says of it; nothing until the part has been applied there.
fn reported_by(work: &Object) -> Option<(&str, Value)> {
    if !conditions::is_true(work, CONDITION_APPLIED) {
        return None;
    }
    let status = work.items(&["status", "manifestStatuses"]).first()?.get("status")?.as_object()?;
    let cluster = api::names::cluster_of_execution_namespace(work.namespace())?;
    let mut part = json!({"clusterName": cluster});
    for field in ["hard", "used"] {
        if let Some(list) = status.get(field).filter(|list| !list.is_null()) {
            part[field] = list.clone();
        }
    }
    Some((cluster, part))
}

/// Empty fields are left out, as Karmada's types leave them out.
fn set_or_remove(quota: &mut Object, field: &str, value: Value) {
    let is_empty = match &value {
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => value.is_null(),
    };
    match is_empty {
        true => drop(quota.remove(&["status", field])),
        false => quota.set(&["status", field], value),
    }
}

#[cfg(test)]
mod tests {
    use api::work::WORKS;
    use cluster_client::ResourceRef;
    use cluster_client::testing::MemoryApi;

    use super::*;
    use crate::testing::{self, eventually};

    fn quota() -> Object {
        testing::object(json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
            "metadata": {"name": "q", "namespace": "team"}, "spec": {"overall": {"cpu": "9"}}}))
    }

    fn part(cluster: &str, applied: &str, used: &str) -> Object {
        testing::object(json!({"apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
            "metadata": {"name": "w", "namespace": format!("karmada-es-{cluster}"),
                "labels": {"federatedresourcequota.karmada.io/namespace": "team",
                    "federatedresourcequota.karmada.io/name": "q"}},
            "status": {"conditions": [{"type": "Applied", "status": applied}],
                "manifestStatuses": [{"status": {"hard": {"cpu": "4"}, "used": {"cpu": used}}}]}}))
    }

    #[test]
    fn assigned_quotas_are_reported_by_cluster_and_summed() {
        let mut silent = part("m4", "True", "1");
        silent.remove(&["status", "manifestStatuses"]);
        let parts = [part("m2", "True", "1500m"), part("m1", "True", "1"), part("m3", "False", "1"), silent];
        let parts = parts.map(Arc::new);
        let reported =
            |cluster: &str, used: &str| json!({"clusterName": cluster, "hard": {"cpu": "4"}, "used": {"cpu": used}});
        let aggregated = json!([reported("m1", "1"), reported("m2", "1500m")]);
        assert_eq!(
            plan(&quota(), &parts, true).get(&["status"]),
            Some(&json!({"overall": {"cpu": "9"}, "overallUsed": {"cpu": "2500m"}, "aggregatedStatus": aggregated}))
        );
        assert_eq!(plan(&quota(), &parts, false).get(&["status"]), Some(&json!({"aggregatedStatus": aggregated})));
        assert_eq!(plan(&quota(), &[], true).get(&["status"]), Some(&json!({"overall": {"cpu": "9"}})));
    }

    #[tokio::test(start_paused = true)]
    async fn the_status_follows_the_works() {
        let api = MemoryApi::default();
        api.seed(&FEDERATED_RESOURCE_QUOTAS.gvr(), quota());
        let cancel = CancellationToken::new();
        tokio::spawn(run(testing::plane(&api, &cancel, |_| {}), cancel.clone()));
        let used = async || {
            let target = ResourceRef::namespaced(&FEDERATED_RESOURCE_QUOTAS.gvr(), "team", "q");
            let quota = api.client().get(target).await.expect("there");
            let parts = quota.items(&["status", "aggregatedStatus"]);
            parts.iter().map(|part| part["used"]["cpu"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        for (amount, expected) in [("1", "1"), ("2", "2")] {
            api.seed(&WORKS.gvr(), part("m1", "True", amount));
            eventually("the amount", async || used().await == [expected]).await;
        }
        let target = ResourceRef::namespaced(&WORKS.gvr(), "karmada-es-m1", "w");
        api.client().delete(target, Default::default()).await.expect("deleted");
        eventually("no amount", async || used().await.is_empty()).await;
        cancel.cancel();
    }
}
