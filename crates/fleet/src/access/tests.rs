//! Impersonation rights per cluster, and their delivery.

use std::time::Duration;

use api::cluster::CLUSTERS;
use api::work::WORKS;
use cluster_client::ResourceRef;
use cluster_client::testing::MemoryApi;

use super::*;
use crate::testing::{self, eventually};

#[track_caller]
fn check_role(rules: Value, expected: &[&str]) {
    let role = testing::object(json!({"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules}));
    assert_eq!(opened_clusters(&role), expected, "{rules}");
}

#[test]
fn a_role_grants_the_clusters_whose_proxy_it_names() {
    let rule = |group: &str, resource: &str, names: &[&str]| json!({"verbs": ["get"], "apiGroups": [group], "resources": [resource], "resourceNames": names});
    check_role(json!([rule("cluster.karmada.io", "clusters/proxy", &["m1", "m2"])]), &["m1", "m2"]);
    check_role(json!([rule("cluster.karmada.io", "clusters/proxy", &[])]), &["*"]);
    check_role(json!([rule("*", "*", &[])]), &["*"]);
    check_role(json!([rule("*", "*", &["m1"])]), &["*", "m1"]);
    check_role(json!([rule("search.karmada.io", "proxying/proxy", &["any"])]), &["*"]);
    check_role(json!([rule("cluster.karmada.io", "clusters", &[])]), &[]);
    check_role(json!([rule("apps", "clusters/proxy", &[])]), &[]);
    check_role(json!([{"verbs": ["get"], "nonResourceURLs": ["*"]}]), &[]);
}

#[test]
fn subjects_are_impersonated_by_kind_and_name_once_each_in_order() {
    let subjects = [
        json!({"kind": "User", "name": "tom"}),
        json!({"kind": "Group", "name": "ops"}),
        json!({"kind": "User", "name": "ann"}),
        json!({"kind": "User", "name": "tom"}),
        json!({"kind": "ServiceAccount", "name": "sa", "namespace": "a"}),
        json!({"kind": "ServiceAccount", "name": "sa", "namespace": "b"}),
    ];
    let rule = |resource: &str, names: &[&str]| {
        json!({"verbs": ["impersonate"], "apiGroups": [""],
        "resources": [resource], "resourceNames": names})
    };
    let role = plan_role(&subjects);
    let expected = json!([rule("users", &["ann", "tom"]), rule("serviceaccounts", &["sa"]), rule("groups", &["ops"])]);
    assert_eq!(role.get(&["rules"]), Some(&expected));
    assert_eq!(role.label("karmada.io/system"), Some("true"));
    assert_eq!(plan_role(&[]).get(&["rules"]), Some(&Value::Null));
}

fn rbac(name: &str) -> GroupVersionResource {
    GroupVersionResource::new(RBAC, "v1", name)
}

fn seed_access(api: &MemoryApi, user: &str, clusters: &[&str]) {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": user},
        "rules": [{"verbs": ["*"], "apiGroups": ["cluster.karmada.io"], "resources": ["clusters/proxy"],
            "resourceNames": clusters}]});
    api.seed(&rbac("clusterroles"), testing::object(role));
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": user}, "subjects": [{"kind": "User", "name": user}],
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": user}});
    api.seed(&rbac("clusterrolebindings"), testing::object(binding));
}

/// The users in the impersonator role of a cluster.
async fn users(api: &MemoryApi, cluster: &str) -> Vec<String> {
    let name = api::names::work_name("ClusterRole", IMPERSONATOR, "");
    let target = ResourceRef::namespaced(&WORKS.gvr(), &api::names::execution_namespace(cluster), &name);
    let Some(work) = api.client().find(target).await.expect("answers") else { return Vec::new() };
    let rules = &work.items(&["spec", "workload", "manifests"])[0]["rules"];
    let names = rules[0]["resourceNames"].as_array().cloned().unwrap_or_default();
    names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_cluster_gets_only_the_subjects_that_may_use_its_proxy() {
    let api = MemoryApi::default();
    testing::seed_member(&api, "m1");
    testing::seed_member(&api, "m2");
    let mut plain = testing::cluster("plain", "True");
    plain.remove(&["spec", "impersonatorSecretRef"]);
    api.seed(&CLUSTERS.gvr(), plain);
    seed_access(&api, "tom", &["m1"]);
    let cancel = CancellationToken::new();
    tokio::spawn(run(testing::plane(&api, &cancel, |_| {}), cancel.clone()));
    eventually("tom in m1", async || users(&api, "m1").await == ["tom"]).await;
    assert!(users(&api, "m2").await.is_empty());

    seed_access(&api, "ann", &[]);
    eventually("ann in both", async || users(&api, "m1").await == ["ann", "tom"] && users(&api, "m2").await == ["ann"])
        .await;
    seed_access(&api, "ann", &["m2"]);
    eventually("ann no more in m1", async || users(&api, "m1").await == ["tom"]).await;

    let works = api.client().list_all(ResourceRef::within(&WORKS.gvr(), "karmada-es-m1"), Default::default()).await;
    let works = works.expect("lists").items;
    assert_eq!(works.len(), 2);
    assert!(works.iter().all(|work| work.owner_references()[0].kind == "Cluster"));
    assert!(works.iter().all(|work| work.has_finalizer("karmada.io/execution-controller")));
    let binding = works.iter().map(|work| work.items(&["spec", "workload", "manifests"])[0].clone());
    let binding = binding.into_iter().find(|manifest| manifest["kind"] == "ClusterRoleBinding").expect("sent");
    let account = json!({"kind": "ServiceAccount", "namespace": "karmada-cluster", "name": "karmada-impersonator"});
    assert_eq!(binding["subjects"][0], account);
    cancel.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_execution_namespace_is_served_once_it_has_one() {
    let api = MemoryApi::default();
    api.seed(&CLUSTERS.gvr(), testing::cluster("m1", "True"));
    seed_access(&api, "tom", &["m1"]);
    let cancel = CancellationToken::new();
    tokio::spawn(run(testing::plane(&api, &cancel, |_| {}), cancel.clone()));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(users(&api, "m1").await.is_empty());
    api.seed(&crate::plane::namespaces(), testing::namespace("karmada-es-m1"));
    eventually("tom in m1", async || users(&api, "m1").await == ["tom"]).await;
    assert!(!testing::event_reasons(&api).await.contains(&"SyncImpersonationConfigFailed".to_owned()));
    cancel.cancel();
}
