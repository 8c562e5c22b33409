//! Policies against the conditions of clusters.

use api::cluster::CLUSTERS;
use cluster_client::ResourceRef;
use cluster_client::testing::MemoryApi;
use object::request::Subresource;
use serde_json::json;

use super::*;
use crate::testing::{self, eventually};

fn requirement(condition_type: &str, operator: &str, values: &[&str]) -> Value {
    json!({"conditionType": condition_type, "operator": operator, "statusValues": values})
}

#[track_caller]
fn check_holds(requirements: Value, expected: bool) {
    let parsed: Vec<MatchCondition> = serde_json::from_value(requirements.clone()).expect("requirements");
    let condition = |kind: &str, status: &str| Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        ..Condition::default()
    };
    let conditions = [condition("Ready", "False"), condition("Network", "True")];
    assert_eq!(holds(&parsed, &conditions), expected, "{requirements}");
}

#[test]
fn all_requirements_must_match_existing_conditions() {
    check_holds(json!([]), false);
    check_holds(json!([requirement("Ready", "In", &["False", "Unknown"])]), true);
    check_holds(json!([requirement("Ready", "In", &["True"])]), false);
    check_holds(json!([requirement("Ready", "NotIn", &["True"])]), true);
    check_holds(json!([requirement("Ready", "NotIn", &["False"])]), false);
    check_holds(json!([requirement("Absent", "In", &["False"])]), false);
    check_holds(json!([requirement("Absent", "NotIn", &["False"])]), false);
    check_holds(json!([requirement("Ready", "Exists", &["False"])]), false);
    check_holds(json!([requirement("Ready", "In", &["False"]), requirement("Network", "In", &["True"])]), true);
    check_holds(json!([requirement("Ready", "In", &["False"]), requirement("Network", "In", &["False"])]), false);
}

fn policy(value: Value) -> TaintPolicySpec {
    serde_json::from_value(value).expect("a policy")
}

#[test]
fn policies_add_and_remove_taints_in_order_and_in_selected_clusters_only() {
    let down = || json!([requirement("Ready", "In", &["False"])]);
    let taint = json!([{"key": "a", "value": "v", "effect": "NoExecute"}]);
    let adds = || policy(json!({"addOnConditions": down(), "taints": taint}));
    let removes = || policy(json!({"removeOnConditions": down(), "taints": taint}));
    let elsewhere =
        || policy(json!({"targetClusters": {"clusterNames": ["m2"]}, "addOnConditions": down(), "taints": taint}));
    let cluster = testing::cluster("m1", "False");
    let now = testing::NOW.parse().expect("a time");
    let plan = |policies: &[TaintPolicySpec]| {
        let status = api::read_at(&cluster, &["status"]).expect("readable");
        plan(&cluster, Vec::new(), &status, policies, now)
    };
    let tainted = json!([{"key": "a", "value": "v", "effect": "NoExecute", "timeAdded": testing::NOW}]);
    assert_eq!(Value::from(plan(&[adds()])), tainted);
    assert_eq!(Value::from(plan(&[adds(), adds()])), tainted);
    assert_eq!(Value::from(plan(&[removes(), adds()])), tainted);
    assert!(plan(&[adds(), removes()]).is_empty());
    assert!(plan(&[elsewhere()]).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_tainted_while_its_condition_asks_for_it() {
    let api = MemoryApi::default();
    let seed_cluster = |ready: &str| {
        let mut cluster = testing::cluster("m1", ready);
        cluster.set(&["spec", "taints"], json!([{"key": "own", "effect": "NoSchedule"}]));
        api.seed(&CLUSTERS.gvr(), cluster);
    };
    seed_cluster("False");
    let cancel = CancellationToken::new();
    tokio::spawn(run(testing::plane(&api, &cancel, |_| {}), cancel.clone()));
    let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy",
        "metadata": {"name": "p"}, "spec": {"addOnConditions": [requirement("Ready", "NotIn", &["True"])],
        "removeOnConditions": [requirement("Ready", "In", &["True"])],
        "taints": [{"key": "down", "effect": "NoExecute"}]}});
    api.seed(&CLUSTER_TAINT_POLICIES.gvr(), testing::object(policy));
    let keys = async || {
        let cluster = api.client().get(ResourceRef::cluster(&CLUSTERS.gvr(), "m1")).await.expect("there");
        let taints = cluster.items(&["spec", "taints"]).iter();
        taints.map(|taint| taint["key"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    eventually("the taint", async || keys().await == ["own", "down"]).await;
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), "m1");
    let healthy = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let patch = cluster_client::Patch::merge(healthy);
    api.client().patch(target.subresource(Subresource::Status), patch, Default::default()).await.expect("written");
    eventually("the taint is gone", async || keys().await == ["own"]).await;
    eventually("two events", async || testing::event_reasons(&api).await == ["TaintClusterSucceed"; 2]).await;
    cancel.cancel();
}
