//! Unjoining against APIs in memory: it ends, it says what it waits for, and force removes only what is ours.

use api::cluster::FINALIZER;
use api::work::FINALIZER_EXECUTION;
use cluster_client::testing::MemoryApi;

use super::*;
use crate::console::testing;

fn leaving(force: bool) -> Leaving {
    Leaving { name: "m1".into(), namespace: CLUSTER_NAMESPACE.into(), wait: Duration::from_secs(20), force }
}

fn plane_with_cluster(mode: &str, finalizers: &[&str]) -> MemoryApi {
    let api = MemoryApi::default();
    let mut cluster = CLUSTERS.object("", "m1");
    cluster.set(&["spec"], json!({"syncMode": mode}));
    for finalizer in finalizers {
        cluster.add_finalizer(finalizer);
    }
    api.seed(&CLUSTERS.gvr(), cluster);
    api
}

fn add_work(api: &MemoryApi, name: &str) {
    let mut work = WORKS.object("karmada-es-m1", name);
    work.add_finalizer(FINALIZER_EXECUTION);
    api.seed(&WORKS.gvr(), work);
}

async fn is_gone(api: &MemoryApi) -> bool {
    api.client().find(ResourceRef::cluster(&CLUSTERS.gvr(), "m1")).await.unwrap().is_none()
}

async fn check(api: &MemoryApi, force: bool, member: Option<&MemoryApi>) -> (Result<(), String>, String) {
    let plane = Plane::given(api.client(), []);
    let (console, _, err) = testing::console();
    let member = member.map(MemoryApi::client);
    let result = unjoin(&console, &plane, &leaving(force), member.as_ref(), false).await;
    (result.map_err(|error| error.to_string()), err.text())
}

#[tokio::test(start_paused = true)]
async fn a_cluster_nothing_holds_goes_at_once() {
    let api = plane_with_cluster("Push", &[]);
    let (result, said) = check(&api, false, None).await;
    result.unwrap();
    assert!(is_gone(&api).await);
    assert!(said.contains("service account karmada-m1 and its rights stay in the cluster"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn what_is_waited_for_is_said_and_the_wait_ends() {
    let api = plane_with_cluster("Push", &[FINALIZER]);
    add_work(&api, "nginx-1");
    let (result, said) = check(&api, false, None).await;
    let error = result.unwrap_err();
    assert!(
        said.contains("waiting for cluster m1 to be removed: 1 object(s) in it are not cleaned up yet (nginx-1)"),
        "{said}"
    );
    assert!(error.starts_with("cluster m1 is not removed after 20s: 1 object(s)"), "{error}");
    assert!(error.contains("flotilla unjoin m1 --force"), "{error}");
    assert!(!is_gone(&api).await);
}

#[tokio::test(start_paused = true)]
async fn workloads_that_stay_on_it_are_named() {
    let api = plane_with_cluster("Push", &[FINALIZER]);
    let mut binding = RESOURCE_BINDINGS.object("default", "nginx-deployment");
    binding.set(&["spec"], json!({"clusters": [{"name": "m1"}], "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}}));
    api.seed(&RESOURCE_BINDINGS.gvr(), binding);
    let (_, said) = check(&api, false, None).await;
    assert!(said.contains("1 workload(s) are still placed on it (default/nginx-deployment)"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn force_gives_up_on_what_is_left() {
    let api = plane_with_cluster("Push", &[FINALIZER]);
    add_work(&api, "nginx-1");
    let (result, said) = check(&api, true, None).await;
    result.unwrap();
    assert!(is_gone(&api).await);
    assert!(said.contains("1 object(s) may be left behind in cluster m1"), "{said}");
    let works = api.client().list_all(ResourceRef::all(&WORKS.gvr()), ListOptions::default()).await.unwrap();
    assert!(works.items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn force_leaves_the_finalizers_of_others() {
    let api = plane_with_cluster("Push", &[FINALIZER, "example.com/billing"]);
    let (result, _) = check(&api, true, None).await;
    let error = result.unwrap_err();
    assert_eq!(
        error,
        "cluster m1 could not be removed by force: the controllers of example.com/billing have not let go of it"
    );
}

#[tokio::test(start_paused = true)]
async fn what_join_made_in_the_member_goes_too() {
    let (api, member) = (plane_with_cluster("Push", &[]), MemoryApi::default());
    let (result, _) = check(&api, false, Some(&member)).await;
    result.unwrap();
    let expected = [
        "delete clusterrolebindings /karmada-controller-manager:karmada-m1",
        "delete clusterroles /karmada-controller-manager:karmada-m1",
        "delete serviceaccounts karmada-cluster/karmada-m1",
        "delete namespaces /karmada-cluster",
    ];
    assert_eq!(member.calls(), expected);
}

#[tokio::test(start_paused = true)]
async fn only_push_members_that_exist_can_be_unjoined() {
    let (result, _) = check(&MemoryApi::default(), false, None).await;
    assert_eq!(result.unwrap_err(), "no cluster object m1 found in karmada control Plane");
    let (result, _) = check(&plane_with_cluster("Pull", &[]), false, None).await;
    assert!(result.unwrap_err().contains("please use command `unregister`"));
}
