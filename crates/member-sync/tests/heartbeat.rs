//! The status of a Cluster and the member_capacity, from a member in memory.

mod bench;

use std::time::Duration;

use api::capacity::Amounts;
use api::features::Features;
use serde_json::json;

use crate::bench::{Door, Hub, condition, eventually, gvr, object};

fn node(name: &str) -> object::Object {
    object(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}]}}))
}

fn pod(name: &str, node: &str, phase: &str) -> object::Object {
    object(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "d"},
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": "500m"}}}]},
        "status": {"phase": phase}}))
}

#[tokio::test(start_paused = true)]
async fn a_cluster_shows_version_apis_and_capacity_of_its_member() {
    let (hub, member) = (Hub::start(), Door::open());
    member.api.seed(&gvr("", "nodes"), node("n1"));
    member.api.seed(&gvr("", "pods"), pod("p1", "n1", "Running"));
    member.api.seed(&gvr("", "pods"), pod("p2", "n1", "Succeeded"));
    hub.join("m1");
    let syncing = hub.sync("m1", &member);
    eventually("ready", "True/ClusterReady".to_owned(), || hub.readiness("m1")).await;
    let cluster = hub.cluster("m1").await;
    assert_eq!(condition(&cluster, "CompleteAPIEnablements"), "True/Complete");
    assert_eq!(cluster.str_at(&["status", "kubernetesVersion"]), "v1.36.0-memory");
    let groups: Vec<&str> =
        cluster.items(&["status", "apiEnablements"]).iter().filter_map(|g| g["groupVersion"].as_str()).collect();
    assert_eq!(groups, ["apps/v1", "v1"]);
    // The seeds of the member: a node without anything, a pod without a node.
    assert_eq!(cluster.get(&["status", "nodeSummary"]), Some(&json!({"totalNum": 2, "readyNum": 1})));
    assert_eq!(
        cluster.get(&["status", "resourceSummary"]),
        Some(&json!({"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "allocating": {"pods": "1"},
            "allocated": {"cpu": "500m", "pods": "1"}}))
    );
    member.api.seed(&gvr("", "pods"), pod("p3", "n1", "Running"));
    let requested = || async {
        let nodes = hub.member_capacity.get("m1")?;
        let node = nodes.nodes.iter().find(|node| node.name == "n1")?;
        Some(node.requested.clone())
    };
    let expected = Amounts::from([("cpu".to_owned(), 1000), ("pods".to_owned(), 2)]);
    eventually("published", Some(expected), requested).await;
    eventually("summed up", Some(json!("1")), || async {
        hub.cluster("m1").await.get(&["status", "resourceSummary", "allocated", "cpu"]).cloned()
    })
    .await;
    let version = hub.cluster("m1").await.resource_version().to_owned();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(hub.cluster("m1").await.resource_version(), version, "nothing changed, nothing was written");
    syncing.stop().await;
    assert!(hub.member_capacity.get("m1").is_none(), "a member that is not watched is forgotten");
}

#[tokio::test(start_paused = true)]
async fn quotas_of_a_member_are_reported_where_enabled() {
    let quota = |used: &str| {
        object(json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small", "namespace": "d"},
            "spec": {"hard": {"requests.cpu": "20m"}},
            "status": {"hard": {"requests.cpu": "20m"}, "used": {"requests.cpu": used}}}))
    };
    for is_on in [false, true] {
        let (hub, member) = (Hub::start(), Door::open());
        member.api.seed(&gvr("", "resourcequotas"), quota("0"));
        hub.join("m1");
        let features = Features { resource_quota_estimate: is_on, ..Features::default() };
        let syncing = hub.sync_with("m1", &member, features);
        let left = || async {
            let quotas = hub.member_capacity.get("m1")?.quotas.get("d").cloned();
            Some(quotas.map(|quotas| quotas[0].free["cpu"]))
        };
        eventually("published", Some(is_on.then_some(20)), left).await;
        let is_watched = member.api.watches().iter().any(|watch| watch.gvr.resource == "resourcequotas");
        assert_eq!(is_watched, is_on);
        if is_on {
            tokio::time::sleep(Duration::from_secs(5)).await;
            member.api.seed(&gvr("", "resourcequotas"), quota("10m"));
            let start = tokio::time::Instant::now();
            eventually("reported", Some(Some(10)), left).await;
            assert!(start.elapsed() < Duration::from_millis(500), "limits are reported at once");
        }
        syncing.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_kind_is_reported_and_a_cluster_without_finalizer_is_not_written() {
    let (hub, member) = (Hub::start(), Door::open());
    let bare = object(json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "m1"}, "spec": {"syncMode": "Push"}}));
    hub.api.seed(&api::cluster::CLUSTERS.gvr(), bare);
    let syncing = hub.sync("m1", &member);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(hub.readiness("m1").await, "");
    let target = cluster_client::ResourceRef::cluster(&api::cluster::CLUSTERS.gvr(), "m1");
    let patch = cluster_client::Patch::merge(json!({"metadata": {"finalizers": [api::cluster::FINALIZER]}}));
    hub.api.client().patch(target, patch, Default::default()).await.expect("patched");
    eventually("ready", "True/ClusterReady".to_owned(), || hub.readiness("m1")).await;
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "a"}});
    member.api.seed(&gvr("example.com", "things"), object(thing));
    eventually("served", true, || async {
        let cluster = hub.cluster("m1").await;
        cluster.items(&["status", "apiEnablements"]).iter().any(|group| group["groupVersion"] == "example.com/v1")
    })
    .await;
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn readiness_changes_after_thirty_seconds_in_both_directions() {
    let (hub, member) = (Hub::start(), Door::open());
    hub.join("m1");
    let syncing = hub.sync("m1", &member);
    eventually("ready", "True/ClusterReady".to_owned(), || hub.readiness("m1")).await;
    for (shut, expected) in [(true, "False/ClusterNotReachable"), (false, "True/ClusterReady")] {
        let start = tokio::time::Instant::now();
        if shut {
            member.shut()
        } else {
            member.reopen()
        }
        eventually("believed", expected.to_owned(), || hub.readiness("m1")).await;
        let took = start.elapsed().as_secs();
        assert!((30..=55).contains(&took), "{expected} after {took} s");
    }
    syncing.stop().await;
}
