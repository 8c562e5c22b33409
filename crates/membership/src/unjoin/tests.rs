//! Unjoining against APIs in memory: it ends, it reports what it waits for, and force removes only our finalizers.

use api::cluster::FINALIZER;
use api::names::CLUSTER_NAMESPACE;
use api::work::FINALIZER_EXECUTION;
use cluster_client::testing::MemoryApi;

use super::*;
use crate::progress::testing::RecordedProgress;

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

async fn check(api: &MemoryApi, force: bool, member: Option<&MemoryApi>) -> (Result<UnjoinOutcome, String>, String) {
    let options = UnjoinOptions {
        control_plane: api.client(),
        member: member.map(MemoryApi::client),
        name: "m1".into(),
        namespace: CLUSTER_NAMESPACE.into(),
        wait: Duration::from_secs(20),
        force,
        dry_run: false,
    };
    let progress = RecordedProgress::default();
    let result = unjoin(&options, &progress).await;
    (result.map_err(|error| error.to_string()), progress.text())
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_finalizers_is_removed_at_once() {
    let api = plane_with_cluster("Push", &[]);
    let (result, _) = check(&api, false, None).await;
    assert_eq!(result, Ok(UnjoinOutcome::Removed { member_is_clean: false }));
    assert!(is_gone(&api).await);
}

#[tokio::test(start_paused = true)]
async fn the_wait_is_explained_and_ends() {
    let api = plane_with_cluster("Push", &[FINALIZER]);
    add_work(&api, "nginx-1");
    let (result, said) = check(&api, false, None).await;
    let error = result.unwrap_err();
    assert!(
        said.contains("waiting for cluster m1 to be removed: 1 object(s) in it are not cleaned up yet (nginx-1)"),
        "{said}"
    );
    assert!(error.starts_with("cluster m1 is not removed after 20s: 1 object(s)"), "{error}");
    assert!(!is_gone(&api).await);
}

#[tokio::test(start_paused = true)]
async fn workloads_still_placed_on_it_are_named() {
    let api = plane_with_cluster("Push", &[FINALIZER]);
    let mut binding = RESOURCE_BINDINGS.object("default", "nginx-deployment");
    binding.set(&["spec"], json!({"clusters": [{"name": "m1"}], "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}}));
    api.seed(&RESOURCE_BINDINGS.gvr(), binding);
    let (_, said) = check(&api, false, None).await;
    assert!(said.contains("1 workload(s) are still placed on it (default/nginx-deployment)"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn force_abandons_the_remaining_works() {
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
async fn force_keeps_the_finalizers_of_others() {
    let api = plane_with_cluster("Push", &[FINALIZER, "example.com/billing"]);
    let (result, _) = check(&api, true, None).await;
    let error = result.unwrap_err();
    assert_eq!(
        error,
        "cluster m1 could not be removed by force: waiting for the controllers of its finalizers example.com/billing"
    );
}

#[tokio::test(start_paused = true)]
async fn objects_created_by_join_are_deleted_in_the_member() {
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

#[tokio::test(start_paused = true)]
async fn force_succeeds_if_the_cluster_is_already_gone() {
    let member = MemoryApi::default();
    let (result, said) = check(&MemoryApi::default(), true, Some(&member)).await;
    assert_eq!(result, Ok(UnjoinOutcome::Removed { member_is_clean: true }));
    assert!(said.contains("cluster(m1) is not in the control plane"), "{said}");
    assert_eq!(member.calls().len(), 4, "what join created is still deleted");
}
