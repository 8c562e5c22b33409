//! The lease against an API in memory with paused time: renewal, ownership, and an unreachable control plane.

use cluster_client::testing::MemoryApi;
use reconcile::VirtualClock;

use super::*;

fn agent_lease(api: &MemoryApi) -> AgentLease {
    let start = "2026-01-01T00:00:00Z".parse().expect("a time");
    AgentLease {
        plane: api.client(),
        cluster: "m1".into(),
        clock: Arc::new(VirtualClock::new(start)),
        duration: Duration::from_secs(40),
        renew_every: Duration::from_secs(10),
    }
}

async fn lease(api: &MemoryApi) -> Option<Arc<Object>> {
    let target = ResourceRef::namespaced(&LEASES.gvr(), CLUSTER_NAMESPACE, "m1");
    api.client().find(target).await.expect("the API answers")
}

fn seed_cluster(api: &MemoryApi) -> Arc<Object> {
    api.seed(&CLUSTERS.gvr(), CLUSTERS.object("", "m1"))
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_every_ten_seconds_and_belongs_to_the_cluster() {
    let (api, cancel) = (MemoryApi::default(), CancellationToken::new());
    let cluster = seed_cluster(&api);
    let kept = tokio::spawn(keep(agent_lease(&api), cancel.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let first = lease(&api).await.expect("a lease");
    assert_eq!(first.i64_at(&["spec", "leaseDurationSeconds"]), Some(40));
    assert_eq!(first.str_at(&["spec", "holderIdentity"]), "m1");
    assert_eq!(first.owner_references()[0].uid, cluster.uid());
    let renewed = time::parse(first.str_at(&["spec", "renewTime"])).expect("a time");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let later = lease(&api).await.expect("a lease");
    let again = time::parse(later.str_at(&["spec", "renewTime"])).expect("a time");
    assert_eq!(again.duration_since(renewed).as_secs(), 30);
    cancel.cancel();
    kept.await.expect("it ends");
}

#[tokio::test(start_paused = true)]
async fn renewal_resumes_as_soon_as_the_control_plane_is_back() {
    let (api, cancel) = (MemoryApi::default(), CancellationToken::new());
    seed_cluster(&api);
    let kept = tokio::spawn(keep(agent_lease(&api), cancel.clone()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    api.set_fault(|_| Some(Status::unavailable("away")));
    tokio::time::sleep(Duration::from_secs(600)).await;
    api.clear_fault();
    let before = lease(&api).await.expect("a lease").resource_version().to_owned();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_ne!(lease(&api).await.expect("a lease").resource_version(), before);
    cancel.cancel();
    kept.await.expect("it ends");
}

#[tokio::test(start_paused = true)]
async fn no_lease_is_created_without_its_cluster() {
    let (api, cancel) = (MemoryApi::default(), CancellationToken::new());
    let kept = tokio::spawn(keep(agent_lease(&api), cancel.clone()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(lease(&api).await.is_none());
    seed_cluster(&api);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(lease(&api).await.is_some());
    cancel.cancel();
    kept.await.expect("it ends");
}
