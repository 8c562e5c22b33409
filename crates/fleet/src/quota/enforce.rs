//! Counts what bindings use of the quotas of their namespace. Admission books what is added; this gives back what went.

use std::sync::Arc;
use std::time::Duration;

use api::policy::{FEDERATED_RESOURCE_QUOTAS, QuotaSpec};
use api::work::BindingSpec;
use object::Object;
use propagation::quota::{Amounts, add, limited_by, usage};
use reconcile::{
    Change, Controller, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError, Recorder, Source, commit_status,
};
use tokio_util::sync::CancellationToken;

use crate::plane::{FIELD_MANAGER, Plane};
use crate::quota::to_value;

const COMPONENT: &str = "federated-resource-quota-enforcement-controller";
const WORKERS: usize = 2;
/// Many bindings go at once; they are counted once.
const SETTLE: Duration = Duration::from_millis(100);

struct Count {
    plane: Arc<Plane>,
    quotas: Mirror,
    events: Recorder,
}

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let count = Arc::new(Count {
        quotas: plane.mirror(MirrorSpec::new(&FEDERATED_RESOURCE_QUOTAS.gvr())),
        events: plane.recorder(COMPONENT, &cancel),
        plane,
    });
    let quotas = count.quotas.clone();
    let sources = vec![
        Source::new(&count.quotas, quotas_with_new_limits),
        Source::changes(&count.plane.bindings[0], move |change| {
            let is_gone = change.now.is_none() && !quotas.is_empty();
            let quotas = if is_gone { quotas.list_within(&change.key.namespace) } else { Vec::new() };
            quotas.iter().map(|quota| ObjectKey::of(quota)).collect()
        }),
    ];
    let controller = Controller::new(COMPONENT).observed_by(&count.plane.metrics.controllers);
    let reconcile = move |key: ObjectKey| reconcile(Arc::clone(&count), key);
    controller.run(sources, WORKERS, cancel, reconcile).await;
}

fn quotas_with_new_limits(change: &Change) -> Vec<ObjectKey> {
    let Some(now) = &change.now else { return Vec::new() };
    let is_same =
        change.before.as_ref().is_some_and(|before| before.get(&["spec", "overall"]) == now.get(&["spec", "overall"]));
    if is_same { Vec::new() } else { vec![change.key.clone()] }
}

async fn reconcile(count: Arc<Count>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    tokio::time::sleep(SETTLE).await;
    let Some(quota) = count.quotas.get(&key).filter(|quota| !quota.is_deleting()) else { return Ok(Outcome::Done) };
    let bindings = count.plane.bindings[0].list_within(&key.namespace);
    let desired = plan(&quota, &bindings)?;
    let target = count.quotas.target(&key);
    match commit_status(&count.plane.client, target, &quota, &desired, FIELD_MANAGER).await {
        Ok(_) => {
            let message = format!("Collect status of FederatedResourceQuota({key}) succeed.");
            count.events.normal(&*quota, "CollectOverallStatusSucceed", message);
        }
        Err(status) => {
            if !status.is_conflict() {
                count.events.warning(&*quota, "CollectOverallStatusFailed", status.to_string());
            }
            return Err(status.into());
        }
    }
    let period = count.plane.settings.federated_resource_quota_sync_period;
    Ok(if period.is_zero() { Outcome::Done } else { Outcome::After(period) })
}

/// The quota with its limits and what the bindings of its namespace use of them.
fn plan(quota: &Object, bindings: &[Arc<Object>]) -> Result<Object, ReconcileError> {
    let spec: QuotaSpec = api::read(quota)?;
    let mut used = Amounts::new();
    for binding in bindings {
        add(&mut used, usage(&api::read::<BindingSpec>(binding)?));
    }
    let mut desired = quota.clone();
    desired.set(&["status", "overall"], quota.get(&["spec", "overall"]).cloned().unwrap_or_default());
    desired.set(&["status", "overallUsed"], to_value(&limited_by(used, &spec.overall)));
    Ok(desired)
}

#[cfg(test)]
mod tests {
    use api::work::RESOURCE_BINDINGS;
    use cluster_client::ResourceRef;
    use cluster_client::testing::MemoryApi;
    use serde_json::json;

    use super::*;
    use crate::testing::{self, eventually};

    fn seed_binding(api: &MemoryApi, name: &str, replicas: i32) {
        let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"replicaRequirements": {"resourceRequest": {"cpu": "500m", "memory": "1Gi"}},
                "clusters": [{"name": "m1", "replicas": replicas}]}});
        api.seed(&RESOURCE_BINDINGS.gvr(), testing::object(binding));
    }

    #[tokio::test(start_paused = true)]
    async fn usage_of_removed_bindings_is_released() {
        let api = MemoryApi::default();
        seed_binding(&api, "a", 3);
        seed_binding(&api, "b", 2);
        let quota = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
            "metadata": {"name": "q", "namespace": "team"}, "spec": {"overall": {"cpu": "9", "pods": "1"}}});
        api.seed(&FEDERATED_RESOURCE_QUOTAS.gvr(), testing::object(quota));
        let cancel = CancellationToken::new();
        tokio::spawn(run(testing::plane(&api, &cancel, |_| {}), cancel.clone()));
        let status = async || {
            let target = ResourceRef::namespaced(&FEDERATED_RESOURCE_QUOTAS.gvr(), "team", "q");
            api.client().get(target).await.expect("there").get(&["status"]).cloned().unwrap_or_default()
        };
        let expected = |cpu: &str| json!({"overall": {"cpu": "9", "pods": "1"}, "overallUsed": {"cpu": cpu}});
        eventually("both are counted", async || status().await == expected("2500m")).await;
        let target = ResourceRef::namespaced(&RESOURCE_BINDINGS.gvr(), "team", "a");
        api.client().delete(target, Default::default()).await.expect("deleted");
        eventually("one is counted", async || status().await == expected("1")).await;
        // An update is booked by admission; the recount comes with its time.
        seed_binding(&api, "b", 4);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(status().await, expected("1"));
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(status().await, expected("2"));
        cancel.cancel();
    }
}
