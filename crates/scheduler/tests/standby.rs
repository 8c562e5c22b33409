//! Weight 0 in a static weight list: a standby cluster (docs/decisions/0003-weight-zero-stands-by.md).

mod fixtures;

use api::policy::PropagationSpec;
use api::work::BindingSpec;
use fixtures::{Cluster, binding, cluster, outcome, snapshot, static_weights};
use serde_json::{Value, json};

/// A policy as users wrote it.
const FAILOVER_POLICY: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: my-app-failover
spec:
  resourceSelectors:
    - apiVersion: apps/v1
      kind: Deployment
      name: my-app
  placement:
    clusterAffinity:
      clusterNames:
        - ottawa
        - robbinsdale
        - stpetersburg
    replicaScheduling:
      replicaDivisionPreference: Weighted
      replicaSchedulingType: Divided
      weightPreference:
        staticWeightList:
          - targetCluster:
              clusterNames:
                - ottawa
            weight: 1
          - targetCluster:
              clusterNames:
                - robbinsdale
            weight: 0
          - targetCluster:
              clusterNames:
                - stpetersburg
            weight: 0
    spreadConstraints:
      - maxGroups: 1
        minGroups: 1
        spreadByField: cluster
  failover:
    application:
      decisionConditions:
        tolerationSeconds: 60
      purgeMode: Gracefully
";

fn failover_binding() -> BindingSpec {
    let policy: Value = serde_saphyr::from_str(FAILOVER_POLICY).expect("yaml");
    let spec: PropagationSpec = serde_json::from_value(policy["spec"].clone()).expect("a policy");
    BindingSpec { placement: Some(spec.placement), ..binding(3, Value::Null) }
}

fn sites() -> [Cluster; 3] {
    ["ottawa", "robbinsdale", "stpetersburg"].map(cluster)
}

#[test]
fn the_first_site_gets_all_replicas_and_the_others_stand_by() {
    assert_eq!(outcome(&snapshot(&sites()), &failover_binding()), "ottawa:3");
}

#[test]
fn an_evicted_or_removed_site_hands_over_to_the_next_in_the_list() {
    let evict = |names: &[&str]| {
        let mut spec = failover_binding();
        let tasks =
            names.iter().map(|name| json!({"fromCluster": name, "reason": "ApplicationFailure", "producer": "x"}));
        spec.graceful_eviction_tasks = serde_json::from_value(tasks.collect()).expect("tasks");
        spec
    };
    assert_eq!(outcome(&snapshot(&sites()), &evict(&["ottawa"])), "robbinsdale:3");
    assert_eq!(outcome(&snapshot(&sites()), &evict(&["ottawa", "robbinsdale"])), "stpetersburg:3");
    let [ottawa, robbinsdale, stpetersburg] = sites();
    let rest = [robbinsdale.clone(), stpetersburg.clone()];
    assert_eq!(outcome(&snapshot(&rest), &failover_binding()), "robbinsdale:3");
    let leaving = [ottawa.clone().leaving(), robbinsdale.taint("down", "NoExecute"), stpetersburg];
    assert_eq!(outcome(&snapshot(&leaving), &failover_binding()), "stpetersburg:3");
    let mut back = failover_binding();
    back.clusters = fixtures::targets(&[("robbinsdale", 3)]);
    assert_eq!(outcome(&snapshot(&sites()), &back), "ottawa:3", "placed again, the first site has it back");
}

#[track_caller]
fn check(list: &Value, clusters: &[&str], expected: &str) {
    let clusters: Vec<Cluster> = clusters.iter().map(|name| cluster(name)).collect();
    let placement = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": list},
    }});
    assert_eq!(outcome(&snapshot(&clusters), &binding(4, placement)), expected, "{list}");
}

#[test]
fn the_order_is_that_of_the_list_and_of_the_names_in_an_entry() {
    let entry = |names: &[&str], weight: i64| json!({"targetCluster": {"clusterNames": names}, "weight": weight});
    check(&json!([entry(&["c"], 0), entry(&["a"], 0)]), &["a", "b", "c"], "c:4");
    check(&json!([entry(&["z", "b", "a"], 0)]), &["a", "b"], "b:4");
    check(&json!([{"targetCluster": {}, "weight": 0}]), &["b", "a"], "a:4");
    // A positive weight for the same cluster takes precedence.
    check(&json!([entry(&["a"], 0), entry(&["a", "b"], 1)]), &["a", "b", "c"], "a:2, b:2");
    // With any positive weight in the list, standby clusters get nothing.
    check(&json!([entry(&["a"], 0), entry(&["b"], 5)]), &["a", "b"], "b:4");
}

#[test]
fn a_list_that_means_no_feasible_cluster_divides_evenly() {
    let placement = json!({"replicaScheduling": static_weights(&[("x", 1), ("y", 0)])});
    assert_eq!(outcome(&snapshot(&[cluster("a"), cluster("b")]), &binding(4, placement)), "a:2, b:2");
}
