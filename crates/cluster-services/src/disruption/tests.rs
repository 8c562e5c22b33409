//! Tests of disruption budgets over an in-memory API, in virtual time.

use std::time::Duration;

use object::GroupVersionResource;
use object::builtin::{pod_disruption_budgets, pods};
use serde_json::{Value, json};

use crate::testing::{ServicesTestbed, running};

fn budget(spec: Value) -> Value {
    let mut budget = json!({"metadata": {"name": "b"}, "spec": spec});
    budget["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    budget
}

async fn status(testbed: &ServicesTestbed) -> [i64; 4] {
    testbed.settle().await;
    let budget = testbed.get(&pod_disruption_budgets(), "b").await;
    ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"]
        .map(|field| budget.i64_at(&["status", field]).unwrap_or(-1))
}

#[tokio::test(start_paused = true)]
async fn a_budget_follows_its_pods() {
    let testbed = ServicesTestbed::start().await;
    testbed.create_living_node("n").await;
    for name in ["a", "b", "c"] {
        testbed.seed(&pods(), running(name, "n", true));
    }
    testbed.create(&pod_disruption_budgets(), budget(json!({"minAvailable": 2}))).await;
    assert_eq!(status(&testbed).await, [3, 2, 3, 1]);
    assert_eq!(testbed.condition(&pod_disruption_budgets(), "b", "DisruptionAllowed").await, "True SufficientPods");
    testbed.patch_status(&pods(), "a", json!({"conditions": [{"type": "Ready", "status": "False"}]})).await;
    assert_eq!(status(&testbed).await, [3, 2, 2, 0]);
    assert_eq!(testbed.condition(&pod_disruption_budgets(), "b", "DisruptionAllowed").await, "False InsufficientPods");
    testbed.delete(&pods(), "b").await;
    assert_eq!(status(&testbed).await, [2, 2, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn percentages_refer_to_the_desired_replicas() {
    let testbed = ServicesTestbed::start().await;
    testbed.create_living_node("n").await;
    let apps = |resource: &str| GroupVersionResource::new("apps", "v1", resource);
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 4}});
    let deployment = testbed.seed(&apps("deployments"), deployment);
    let owner = |kind: &str, name: &str, uid: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true}]);
    // During a rollout a ReplicaSet has fewer replicas than its Deployment.
    let set = json!({"metadata": {"name": "s", "ownerReferences": owner("Deployment", "d", deployment.uid())},
        "spec": {"replicas": 3}});
    let set = testbed.seed(&apps("replicasets"), set);
    for name in ["a", "b", "c"] {
        let mut pod = running(name, "n", true);
        pod["metadata"]["ownerReferences"] = owner("ReplicaSet", "s", set.uid());
        testbed.seed(&pods(), pod);
    }
    testbed.create(&pod_disruption_budgets(), budget(json!({"maxUnavailable": "50%"}))).await;
    assert_eq!(status(&testbed).await, [4, 2, 3, 1]);
    // Scaling is observed by the resync even if no pod changes.
    testbed.patch(&apps("deployments"), "d", json!({"spec": {"replicas": 3}})).await;
    testbed.pass(Duration::from_secs(61)).await;
    assert_eq!(status(&testbed).await, [3, 1, 3, 2]);
}

#[tokio::test(start_paused = true)]
async fn an_error_allows_no_disruption() {
    let testbed = ServicesTestbed::start().await;
    testbed.create_living_node("n").await;
    testbed.seed(&pods(), running("alone", "n", true));
    testbed.create(&pod_disruption_budgets(), budget(json!({"maxUnavailable": 1}))).await;
    assert_eq!(status(&testbed).await[3], 0);
    assert_eq!(testbed.condition(&pod_disruption_budgets(), "b", "DisruptionAllowed").await, "False SyncFailed");
}

#[tokio::test(start_paused = true)]
async fn a_granted_eviction_is_counted_until_the_pod_leaves() {
    let testbed = ServicesTestbed::start().await;
    testbed.create_living_node("n").await;
    for name in ["a", "b"] {
        testbed.seed(&pods(), running(name, "n", true));
    }
    testbed.create(&pod_disruption_budgets(), budget(json!({"minAvailable": 1}))).await;
    assert_eq!(status(&testbed).await[3], 1);
    // As `pods/eviction` writes it.
    let granted = json!({"disruptionsAllowed": 0, "disruptedPods": {"a": testbed.now()}});
    testbed.patch_status(&pod_disruption_budgets(), "b", granted).await;
    assert_eq!(status(&testbed).await, [2, 1, 1, 0]);
    // It never terminated: the grant expires after two minutes.
    testbed.pass(Duration::from_secs(125)).await;
    assert_eq!(status(&testbed).await, [2, 1, 2, 1]);
}
