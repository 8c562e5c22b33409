//! Rules that run by the clock, on an API in memory whose time the test moves.

use api::autoscaling::FEDERATED_HPAS;
use cluster_client::testing::MemoryApi;
use object::GroupVersionResource;
use object::builtin;
use serde_json::{Value, json};

use super::*;
use crate::testing::{self, eventually};

fn deployments() -> GroupVersionResource {
    builtin::deployments()
}

fn seed(api: &MemoryApi, target: Value, rules: Value) {
    let object = json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "CronFederatedHPA",
        "metadata": {"name": "c", "namespace": "default"}, "spec": {"scaleTargetRef": target, "rules": rules}});
    api.seed(&CRON_FEDERATED_HPAS.gvr(), testing::object(object));
}

fn start(api: &MemoryApi) -> CancellationToken {
    let cancel = CancellationToken::new();
    tokio::spawn(run(testing::plane(api, &cancel, |_| {}), cancel.clone()));
    cancel
}

async fn number(api: &MemoryApi, gvr: &GroupVersionResource, field: &str) -> Option<i64> {
    let object = api.client().get(ResourceRef::namespaced(gvr, "default", "web")).await.expect("there");
    object.i64_at(&["spec", field])
}

async fn histories(api: &MemoryApi) -> Vec<api::autoscaling::ExecutionHistory> {
    let target = ResourceRef::namespaced(&CRON_FEDERATED_HPAS.gvr(), "default", "c");
    let object = api.client().get(target).await.expect("there");
    api::read_at::<CronHpaStatus>(&object, &["status"]).expect("a status").execution_histories
}

#[tokio::test(start_paused = true)]
async fn due_rules_scale_and_record_it() {
    let api = MemoryApi::default();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 1}});
    api.seed(&deployments(), testing::object(deployment));
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    // The tests begin at midnight.
    let up = json!({"name": "up", "schedule": "10 0 * * *", "targetReplicas": 5, "timeZone": "UTC"});
    let down = json!({"name": "down", "schedule": "20 0 * * *", "targetReplicas": 2, "timeZone": "UTC"});
    let asleep = json!({"name": "asleep", "schedule": "5 0 * * *", "targetReplicas": 9, "suspend": true});
    let broken = json!({"name": "broken", "schedule": "nonsense", "targetReplicas": 9});
    seed(&api, target, json!([up, down, asleep, broken]));
    let cancel = start(&api);
    eventually("the timetable", async || histories(&api).await.len() == 4).await;
    let next = histories(&api).await.into_iter().map(|history| history.next_execution_time).collect::<Vec<_>>();
    let at = |time: &str| Some(format!("2026-05-01T{time}Z"));
    assert_eq!(next, [at("00:10:00"), at("00:20:00"), None, None]);
    tokio::time::sleep(Duration::from_secs(599)).await;
    assert_eq!(number(&api, &deployments(), "replicas").await, Some(1));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(number(&api, &deployments(), "replicas").await, Some(5));
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(number(&api, &deployments(), "replicas").await, Some(2));
    let histories = histories(&api).await;
    assert_eq!(histories[0].next_execution_time.as_deref(), Some("2026-05-02T00:10:00Z"));
    assert_eq!(histories[0].successful_executions[0].applied_replicas, Some(5));
    assert_eq!(histories[0].successful_executions[0].schedule_time, "2026-05-01T00:10:00Z");
    assert_eq!(testing::event_reasons(&api).await, ["StartRuleFailed"]);
    cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn the_bounds_of_an_autoscaler_are_set_and_failures_are_reported() {
    let api = MemoryApi::default();
    let autoscaler = json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA",
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"minReplicas": 1, "maxReplicas": 3}});
    api.seed(&FEDERATED_HPAS.gvr(), testing::object(autoscaler));
    let target =
        |name: &str, kind: &str| json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": kind, "name": name});
    let rule = json!([{"name": "r", "schedule": "* * * * *", "targetMinReplicas": 2, "targetMaxReplicas": 8}]);
    seed(&api, target("absent", "FederatedHPA"), rule.clone());
    let cancel = start(&api);
    eventually("the failure", async || {
        histories(&api).await.first().is_some_and(|history| !history.failed_executions.is_empty())
    })
    .await;
    let set_target = async |target: Value| {
        let place = ResourceRef::namespaced(&CRON_FEDERATED_HPAS.gvr(), "default", "c");
        let patch = cluster_client::Patch::merge(json!({"spec": {"scaleTargetRef": target}}));
        api.client().patch(place, patch, Default::default()).await.expect("written");
    };
    set_target(target("web", "FederatedHPA")).await;
    eventually("the bounds", async || number(&api, &FEDERATED_HPAS.gvr(), "minReplicas").await == Some(2)).await;
    assert_eq!(number(&api, &FEDERATED_HPAS.gvr(), "maxReplicas").await, Some(8));
    set_target(target("web", "CronFederatedHPA")).await;
    eventually("the refusal", async || {
        let wanted = "CronFederatedHPA(default/c) do not support scale target \
                      autoscaling.karmada.io/v1alpha1/CronFederatedHPA";
        histories(&api).await[0].failed_executions[0].message == wanted
    })
    .await;
    cancel.cancel();
}
