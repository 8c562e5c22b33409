//! The room as a whole, over an API in memory and in virtual time.

use std::sync::Arc;
use std::time::Duration;

use api::capacity::{Board, ClusterNodes, NodeCapacity};
use api::cluster::CLUSTERS;
use api::features::Features;
use api::work::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS};
use cluster_client::testing::MemoryApi;
use cluster_client::{ClusterClient, ListOptions, Patch, ResourceRef, Verb, WriteOptions};
use object::{GroupVersionResource, Object, Status};
use reconcile::VirtualClock;
use scheduling::{Decisions, Parts, Settings};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

struct Plane {
    api: MemoryApi,
    client: ClusterClient,
    board: Board,
    decisions: Decisions,
    cancel: CancellationToken,
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Plane {
    fn new() -> Self {
        Self::new_over(MemoryApi::default())
    }

    fn new_over(api: MemoryApi) -> Self {
        Self {
            client: api.client(),
            api,
            board: Board::default(),
            decisions: Decisions::default(),
            cancel: CancellationToken::new(),
        }
    }

    fn start(&self, features: &str) {
        let parts = Parts {
            client: self.client.clone(),
            board: self.board.clone(),
            decisions: self.decisions.clone(),
            features: Arc::new(Features::parse(features).expect("features")),
            clock: Arc::new(VirtualClock::new("2026-01-01T00:00:00Z".parse().expect("a time"))),
            metrics: Default::default(),
            settings: Settings::default(),
        };
        tokio::spawn(scheduling::run(parts, self.cancel.clone()));
    }

    fn cluster(&self, name: &str, pods: i32, change: Value) {
        let mut cluster = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name, "generation": 1},
            "spec": {"syncMode": "Push"},
            "status": {
                "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
                "resourceSummary": {"allocatable": {"pods": pods.to_string()}},
            },
        });
        merge(&mut cluster, &change);
        self.api.seed(&CLUSTERS.gvr(), Object::from_value(cluster).expect("a map"));
    }

    fn binding(&self, name: &str, replicas: i32, change: Value) {
        let mut binding = json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {
                "name": name, "namespace": "default", "generation": 1,
                "labels": {"propagationpolicy.karmada.io/permanent-id": "id"},
            },
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": name},
                "replicas": replicas, "replicaRequirements": {},
                "placement": {"replicaScheduling": {"replicaSchedulingType": "Duplicated"}},
            },
        });
        merge(&mut binding, &change);
        self.api.seed(&RESOURCE_BINDINGS.gvr(), Object::from_value(binding).expect("a map"));
    }

    async fn get(&self, name: &str) -> Arc<Object> {
        let target = ResourceRef::namespaced(&RESOURCE_BINDINGS.gvr(), "default", name);
        self.client.get(target).await.expect("it is there")
    }

    async fn patch(&self, gvr: &GroupVersionResource, name: &str, body: Value) {
        let target = match gvr == &CLUSTERS.gvr() {
            true => ResourceRef::cluster(gvr, name),
            false => ResourceRef::namespaced(gvr, "default", name),
        };
        let target = if body.get("status").is_some() { target.subresource("status") } else { target };
        self.client.patch(target, Patch::merge(body), WriteOptions::default()).await.expect("patched");
    }

    /// Waits until the binding reads `m1:2, m2:1 (Reason)`.
    #[track_caller]
    fn expect(&self, name: &str, expected: &str) -> impl Future<Output = Arc<Object>> {
        let caller = std::panic::Location::caller();
        async move {
            let deadline = Instant::now() + Duration::from_secs(1200);
            loop {
                let binding = self.get(name).await;
                let seen = summary(&binding);
                if seen == expected {
                    return binding;
                }
                assert!(Instant::now() < deadline, "{caller}: {name} is {seen:?} and not {expected:?}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    /// Lets everything come to rest: virtual time passes only when nobody has anything to do.
    async fn rest(&self) {
        tokio::time::sleep(Duration::from_secs(30)).await;
    }

    fn writes(&self, resource: &str) -> usize {
        self.api.calls().iter().filter(|call| call.starts_with("patch ") && call.contains(resource)).count()
    }

    async fn events(&self) -> Vec<String> {
        let events = ResourceRef::all(&GroupVersionResource::new("", "v1", "events"));
        let list = self.client.list(events, ListOptions::default()).await.expect("events");
        let mut texts: Vec<String> = list
            .items
            .iter()
            .map(|event| {
                let about = event.str_at(&["involvedObject", "kind"]);
                format!("{about} {}: {}", event.str_at(&["reason"]), event.str_at(&["message"]))
            })
            .collect();
        texts.sort();
        texts
    }
}

fn merge(target: &mut Value, change: &Value) {
    match (target, change) {
        (Value::Object(target), Value::Object(change)) => {
            for (key, value) in change {
                merge(target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (target, change) => *target = change.clone(),
    }
}

fn summary(binding: &Object) -> String {
    let clusters: Vec<String> = binding
        .items(&["spec", "clusters"])
        .iter()
        .map(|target| {
            format!("{}:{}", target["name"].as_str().unwrap_or_default(), target["replicas"].as_i64().unwrap_or(0))
        })
        .collect();
    let conditions = binding.items(&["status", "conditions"]);
    let scheduled = conditions.iter().find(|condition| condition["type"] == "Scheduled");
    format!("{} ({})", clusters.join(", "), scheduled.map_or("", |own| own["reason"].as_str().unwrap_or_default()))
}

fn dynamic() -> Value {
    json!({"spec": {"placement": {"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }}}})
}

#[tokio::test(start_paused = true)]
async fn a_binding_is_placed_with_two_writes_and_then_left_alone() {
    for (strategy, expected) in [(json!({}), "m1:2, m2:2 (Success)"), (dynamic(), "m1:1, m2:1 (Success)")] {
        let plane = Plane::new();
        plane.cluster("m1", 10, json!({}));
        plane.cluster("m2", 10, json!({}));
        plane.binding("web", 2, strategy);
        plane.start("");
        plane.expect("web", expected).await;
        plane.rest().await;
        let binding = plane.get("web").await;
        assert_eq!(binding.generation(), 2);
        assert_eq!(binding.i64_at(&["status", "schedulerObservedGeneration"]), Some(2));
        assert!(binding.str_at(&["status", "lastScheduledTime"]).starts_with("2026-01-01T00:00:0"));
        let applied = binding.annotation("policy.karmada.io/applied-placement").expect("noted");
        let applied: Value = serde_json::from_str(applied).expect("json");
        assert_eq!(Some(&applied), binding.get(&["spec", "placement"]));
        assert_eq!(plane.writes("resourcebindings"), 2, "{:?}", plane.api.calls());
        let (placed, _) = expected.split_once(" (").expect("two parts");
        let text = format!("ScheduleBindingSucceed: Binding has been scheduled successfully. Result: {{{placed}}}");
        assert_eq!(plane.events().await, [format!("Deployment {text}"), format!("ResourceBinding {text}")]);
        let told = plane.decisions.get("default/web").expect("remembered").explanation;
        assert_eq!((told.reason.as_str(), told.attempts[0].candidates.len()), ("Success", 2));
    }
}

#[tokio::test(start_paused = true)]
async fn only_bindings_meant_for_this_scheduler_are_placed() {
    let plane = Plane::new();
    plane.cluster("m1", 10, json!({}));
    plane.binding("unclaimed", 1, json!({"metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": ""}}}));
    plane.binding("other", 1, json!({"spec": {"schedulerName": "other"}}));
    plane.binding("suspended", 1, json!({"spec": {"suspension": {"scheduling": true}}}));
    plane.binding("named", 1, json!({"spec": {"schedulerName": "default-scheduler"}}));
    plane.start("");
    plane.expect("named", "m1:1 (Success)").await;
    plane.rest().await;
    for name in ["unclaimed", "other", "suspended"] {
        plane.expect(name, " ()").await;
    }
    plane.patch(&RESOURCE_BINDINGS.gvr(), "suspended", json!({"spec": {"suspension": null}})).await;
    plane.expect("suspended", "m1:1 (Success)").await;
    let label = json!({"metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": "id"}}});
    plane.patch(&RESOURCE_BINDINGS.gvr(), "unclaimed", label).await;
    plane.expect("unclaimed", "m1:1 (Success)").await;
}

#[tokio::test(start_paused = true)]
async fn where_nothing_fits_the_clusters_are_cleared_until_a_cluster_changes() {
    let plane = Plane::new();
    plane.cluster("m1", 10, json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}));
    plane.binding("web", 1, json!({"spec": {"clusters": [{"name": "gone", "replicas": 1}]}}));
    plane.start("");
    let binding = plane.expect("web", " (NoClusterFit)").await;
    let message = "0/1 clusters are available: 1 cluster(s) had untolerated taint {k:NoSchedule}.";
    assert_eq!(binding.items(&["status", "conditions"])[0]["message"], message);
    plane.rest().await;
    let writes = plane.writes("resourcebindings");
    plane.rest().await;
    assert_eq!(plane.writes("resourcebindings"), writes, "it is not tried again without a reason");
    plane.patch(&CLUSTERS.gvr(), "m1", json!({"spec": {"taints": null}})).await;
    plane.expect("web", "m1:1 (Success)").await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_a_member_learns_to_serve_brings_its_bindings_back() {
    let plane = Plane::new();
    plane.cluster("m1", 10, json!({"status": {"apiEnablements": []}}));
    plane.binding("web", 1, json!({}));
    plane.start("");
    plane.expect("web", " (NoClusterFit)").await;
    plane.rest().await;
    let apis = json!([{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]);
    plane.patch(&CLUSTERS.gvr(), "m1", json!({"status": {"apiEnablements": apis}})).await;
    plane.expect("web", "m1:1 (Success)").await;
}

#[tokio::test(start_paused = true)]
async fn what_has_no_room_keeps_what_it_has_and_is_tried_again() {
    for features in ["", "PriorityBasedScheduling=true"] {
        let plane = Plane::new();
        plane.cluster("m1", 2, json!({}));
        let mut change = dynamic();
        merge(&mut change, &json!({"spec": {"clusters": [{"name": "m1", "replicas": 1}]}}));
        plane.binding("web", 9, change);
        plane.start(features);
        plane.expect("web", "m1:1 (Unschedulable)").await;
        let room = json!({"status": {"resourceSummary": {"allocatable": {"pods": "20"}}}});
        plane.patch(&CLUSTERS.gvr(), "m1", room).await;
        plane.expect("web", "m1:9 (Success)").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_placement_is_told_and_tried_again() {
    let refusals = [
        (Status::new(403, "QuotaExceeded", "quota says no"), "QuotaExceeded"),
        (Status::new(500, "InternalError", "the disk is full"), "SchedulerError"),
    ];
    for (refusal, reason) in refusals {
        let plane = Plane::new();
        plane.cluster("m1", 10, json!({}));
        plane.binding("web", 2, json!({}));
        let message = refusal.message.clone();
        plane.api.set_fault(move |call| {
            let is_placement = matches!(call.verb, Verb::Patch { .. })
                && call.target.gvr == RESOURCE_BINDINGS.gvr()
                && call.target.subresource.is_none();
            is_placement.then(|| refusal.clone())
        });
        plane.start("");
        let binding = plane.expect("web", &format!(" ({reason})")).await;
        assert_eq!(binding.items(&["status", "conditions"])[0]["message"], message);
        plane.api.clear_fault();
        plane.expect("web", "m1:2 (Success)").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_nobody_can_write_holds_up_no_other() {
    let plane = Plane::new();
    plane.cluster("m1", 10, json!({}));
    for name in ["a", "b", "c"] {
        plane.binding(name, 1, json!({}));
    }
    plane.api.set_fault(|call| {
        let is_stuck = call.target.name.as_deref() == Some("a") && matches!(call.verb, Verb::Patch { .. });
        is_stuck.then(|| Status::new(500, "InternalError", "no"))
    });
    plane.start("");
    plane.expect("b", "m1:1 (Success)").await;
    plane.expect("c", "m1:1 (Success)").await;
    plane.expect("a", " ()").await;
}

#[tokio::test(start_paused = true)]
async fn workloads_leave_a_cluster_that_leaves() {
    let plane = Plane::new();
    plane.cluster("m1", 9, json!({"metadata": {"finalizers": ["karmada.io/cluster-controller"]}}));
    plane.cluster("m2", 5, json!({}));
    plane.binding(
        "web",
        4,
        json!({"spec": {"placement": {"replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated",
        }}}}),
    );
    plane.start("");
    plane.expect("web", "m1:4 (Success)").await;
    let m1 = ResourceRef::cluster(&CLUSTERS.gvr(), "m1");
    plane.client.delete(m1, Default::default()).await.expect("deleted");
    plane.expect("web", "m2:4 (Success)").await;
}

#[tokio::test(start_paused = true)]
async fn affinity_groups_are_tried_in_order_and_the_one_in_use_is_noted() {
    let plane = Plane::new();
    plane.cluster("m2", 5, json!({}));
    let groups = json!([
        {"affinityName": "first", "clusterNames": ["m1"]}, {"affinityName": "second", "clusterNames": ["m2"]},
    ]);
    plane.binding("web", 4, json!({"spec": {"placement": {"clusterAffinities": groups}}}));
    plane.start("");
    let binding = plane.expect("web", "m2:4 (Success)").await;
    assert_eq!(binding.str_at(&["status", "schedulerObservingAffinityName"]), "second");
    plane.rest().await;
    let failed = "failed to schedule ResourceBinding(default/web) with clusterAffiliates index(0): 0/1 clusters are \
                  available: 1 cluster(s) did not match the placement cluster affinity constraint.";
    let events = plane.events().await;
    assert!(events.contains(&format!("Deployment ScheduleBindingFailed: {failed}")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn cluster_wide_bindings_are_placed_alike() {
    let plane = Plane::new();
    plane.cluster("m1", 5, json!({}));
    let binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ClusterResourceBinding",
        "metadata": {"name": "x", "generation": 1, "labels": {"clusterpropagationpolicy.karmada.io/permanent-id": "id"}},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
            "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
        },
    });
    plane.api.seed(&CLUSTER_RESOURCE_BINDINGS.gvr(), Object::from_value(binding).expect("a map"));
    plane.start("");
    plane.rest().await;
    let target = ResourceRef::cluster(&CLUSTER_RESOURCE_BINDINGS.gvr(), "x");
    assert_eq!(summary(&plane.client.get(target).await.expect("there")), "m1:0 (Success)");
    let text = "ScheduleBindingSucceed: Binding has been scheduled successfully. Result {m1:0}";
    assert_eq!(plane.events().await, [format!("ClusterResourceBinding {text}"), format!("Deployment {text}")]);
}

#[tokio::test(start_paused = true)]
async fn a_burst_takes_no_more_than_there_is() {
    let plane = Plane::new();
    plane.cluster("m1", 7, json!({}));
    plane.cluster("m2", 5, json!({}));
    plane.start("");
    for n in 0..10 {
        plane.binding(&format!("web{n}"), 2, dynamic());
    }
    plane.rest().await;
    let mut given = [0, 0];
    let mut placed = 0;
    for n in 0..10 {
        let binding = plane.get(&format!("web{n}")).await;
        placed += usize::from(summary(&binding).ends_with("(Success)"));
        for target in binding.items(&["spec", "clusters"]) {
            given[usize::from(target["name"] == "m2")] += target["replicas"].as_i64().unwrap_or(0);
        }
    }
    assert!(given[0] <= 7 && given[1] <= 5, "{given:?}");
    assert_eq!((given[0] + given[1], placed), (12, 6), "and all of it");
}

#[tokio::test(start_paused = true)]
async fn workloads_that_keep_apart_do_so_in_a_burst() {
    let plane = Plane::new();
    for name in ["m1", "m2", "m3"] {
        plane.cluster(name, 10, json!({}));
    }
    plane.start("WorkloadAffinity=true");
    let change = json!({"spec": {
        "workloadAffinityGroups": {"antiAffinityGroup": "app=db"},
        "placement": {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]},
    }});
    for n in 0..4 {
        plane.binding(&format!("db{n}"), 1, change.clone());
    }
    plane.rest().await;
    let mut seen = Vec::new();
    for n in 0..4 {
        let binding = plane.get(&format!("db{n}")).await;
        seen.push(summary(&binding));
    }
    seen.sort();
    assert_eq!(seen, [" (NoClusterFit)", "m1:1 (Success)", "m2:1 (Success)", "m3:1 (Success)"]);
}

#[tokio::test(start_paused = true)]
async fn a_placement_from_scratch_is_made_once_when_asked_for() {
    let plane = Plane::new();
    plane.cluster("m1", 10, json!({}));
    plane.cluster("m2", 10, json!({}));
    let mut change = dynamic();
    merge(&mut change, &json!({"spec": {"clusters": [{"name": "m1", "replicas": 4}]}}));
    plane.binding("web", 4, change);
    plane.start("");
    plane.expect("web", "m1:4 (Success)").await;
    plane.rest().await;
    plane
        .patch(&RESOURCE_BINDINGS.gvr(), "web", json!({"spec": {"rescheduleTriggeredAt": "2026-01-01T00:00:20Z"}}))
        .await;
    plane.expect("web", "m1:2, m2:2 (Success)").await;
    plane.rest().await;
    let writes = plane.writes("resourcebindings");
    plane.rest().await;
    assert_eq!(plane.writes("resourcebindings"), writes);
}

#[tokio::test(start_paused = true)]
async fn the_nodes_of_a_watched_member_are_asked() {
    let plane = Plane::new();
    plane.cluster("m1", 100, json!({}));
    let nodes = |pods: i64| {
        let allocatable = [("pods".to_owned(), pods)].into();
        let nodes = vec![NodeCapacity { name: "n1".to_owned(), allocatable, ..NodeCapacity::default() }];
        ClusterNodes { nodes, ..ClusterNodes::default() }
    };
    plane.board.publish("m1", nodes(2));
    plane.binding("web", 3, dynamic());
    plane.start("");
    plane.expect("web", " (Unschedulable)").await;
    plane.board.publish("m1", nodes(3));
    plane.expect("web", "m1:3 (Success)").await;
}

#[tokio::test(start_paused = true)]
async fn a_placement_decided_on_an_older_binding_is_decided_again() {
    let plane = Plane::new();
    plane.cluster("m1", 10, json!({}));
    plane.cluster("m2", 10, json!({}));
    plane.binding("web", 1, json!({}));
    let api = plane.api.clone();
    let is_evicted = std::sync::atomic::AtomicBool::new(false);
    plane.api.set_fault(move |call| {
        let is_first = matches!(call.verb, Verb::Patch { .. })
            && call.target.gvr == RESOURCE_BINDINGS.gvr()
            && !is_evicted.swap(true, std::sync::atomic::Ordering::Relaxed);
        if is_first {
            // Somebody evicts the workload between the decision and the write.
            let evicting = Plane::new_over(api.clone());
            let tasks = json!([{"fromCluster": "m1", "reason": "x", "producer": "y"}]);
            evicting.binding(
                "web",
                1,
                json!({"metadata": {"generation": 2}, "spec": {"gracefulEvictionTasks": tasks}}),
            );
        }
        None
    });
    plane.start("");
    plane.expect("web", "m2:1 (Success)").await;
    let events = plane.events().await;
    assert!(events.iter().all(|event| !event.contains("Failed")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn who_tells_of_a_status_meanwhile_does_not_hold_up_a_placement() {
    let plane = Plane::new();
    plane.cluster("m1", 10, json!({}));
    plane.binding("web", 1, json!({}));
    let api = plane.api.clone();
    let is_told = std::sync::atomic::AtomicBool::new(false);
    plane.api.set_fault(move |call| {
        let is_first = matches!(call.verb, Verb::Patch { .. })
            && call.target.gvr == RESOURCE_BINDINGS.gvr()
            && !is_told.swap(true, std::sync::atomic::Ordering::Relaxed);
        if is_first {
            let told = json!({"conditions": [{"type": "FullyApplied", "status": "False"}]});
            // The binding was the second that was put in.
            let same = json!({"metadata": {"uid": "uid-2"}, "status": told});
            Plane::new_over(api.clone()).binding("web", 1, same);
        }
        None
    });
    plane.start("");
    // No time passes while this asks: whoever waits to try again waits for ever.
    let start = Instant::now();
    for _ in 0..1000 {
        if summary(&*plane.get("web").await) == "m1:1 (Success)" {
            break;
        }
    }
    let binding = plane.get("web").await;
    assert_eq!((summary(&binding).as_str(), start.elapsed()), ("m1:1 (Success)", Duration::ZERO));
    assert_eq!(binding.items(&["status", "conditions"]).len(), 2, "what was told stays");
}

#[tokio::test(start_paused = true)]
async fn a_busy_plane_places_many_bindings_in_each_of_its_rounds() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    const BINDINGS: usize = 64;
    let plane = Plane::new();
    plane.cluster("m1", 1000, json!({}));
    for n in 0..BINDINGS {
        plane.binding(&format!("web{n}"), 1, json!({}));
    }
    plane.start("");
    // Always has something to do, as the rest of a busy plane; whoever steps back waits for a round of it.
    let rounds = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&rounds);
    let busy = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let (mut placed, mut first) = (0, None);
    while placed < BINDINGS {
        tokio::task::yield_now().await;
        placed = (0..BINDINGS).filter(|n| plane.decisions.get(&format!("default/web{n}")).is_some()).count();
        let now = rounds.load(Ordering::Relaxed);
        assert!(now < 100_000, "{placed} after {now} rounds");
        first = first.or((placed > 0).then_some(now));
    }
    let took = rounds.load(Ordering::Relaxed) - first.expect("some were placed");
    assert!(took <= BINDINGS / 2, "{took} rounds for {BINDINGS} bindings");
    assert!(took >= 2, "others had the processor meanwhile: {took}");
    busy.abort();
    for n in 0..BINDINGS {
        plane.expect(&format!("web{n}"), "m1:1 (Success)").await;
    }
}

/// Preferences of one over the other, each in its own way.
fn preferences() -> Vec<(&'static str, Value)> {
    let weight = |name: &str, weight: i32| json!({"targetCluster": {"clusterNames": [name]}, "weight": weight});
    let only = |name: &str| json!({"clusterNames": [name]});
    let divided = |preference: Value| {
        let mut strategy = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
        merge(&mut strategy, &preference);
        strategy
    };
    let by_room = || divided(json!({"weightPreference": {"dynamicWeight": "AvailableReplicas"}}));
    let weights = divided(json!({"weightPreference": {"staticWeightList": [weight("m1", 1), weight("m2", 0)]}}));
    let group = |name: &str| json!({"affinityName": name, "clusterNames": [name]});
    vec![
        ("weights", json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}, "replicaScheduling": weights})),
        ("groups", json!({"clusterAffinities": [group("m1"), group("m2")], "replicaScheduling": by_room()})),
        (
            "overflow",
            json!({"replicaScheduling": by_room(), "clusterAffinities": [{"affinityName": "all",
            "clusterNames": ["m1"], "overflowAffinities": [only("m2")]}]}),
        ),
    ]
}

impl Plane {
    /// What a taint manager does.
    async fn evict(&self, name: &str, cluster: &str) {
        let tainted = json!({"spec": {"taints": [{"key": "cluster.karmada.io/unreachable", "effect": "NoExecute"}]},
            "metadata": {"generation": 2}});
        self.patch(&CLUSTERS.gvr(), cluster, tainted).await;
        let mut binding = Object::clone(&*self.get(name).await);
        let eviction = propagation::eviction::Eviction {
            purge_mode: "Gracefully".to_owned(),
            reason: "TaintUntolerated".to_owned(),
            producer: "TaintManager".to_owned(),
            ..Default::default()
        };
        let now = "2026-01-01T00:00:00Z".parse().expect("a time");
        assert!(propagation::eviction::evict_on_record(&mut binding, cluster, eviction, now));
        let body = json!({"metadata": {"annotations": binding.get(&["metadata", "annotations"])},
            "spec": {"clusters": binding.get(&["spec", "clusters"]),
                "gracefulEvictionTasks": binding.get(&["spec", "gracefulEvictionTasks"])}});
        self.patch(&RESOURCE_BINDINGS.gvr(), name, body).await;
    }

    async fn recover(&self, cluster: &str, at: &str) {
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": at}]);
        self.patch(&CLUSTERS.gvr(), cluster, json!({"status": {"conditions": ready}})).await;
        let untainted = json!({"spec": {"taints": null}, "metadata": {"generation": 3}});
        self.patch(&CLUSTERS.gvr(), cluster, untainted).await;
    }

    async fn end_tasks(&self, name: &str) {
        self.patch(&RESOURCE_BINDINGS.gvr(), name, json!({"spec": {"gracefulEvictionTasks": null}})).await;
        self.rest().await;
    }

    fn policy(&self, failback: &str) {
        let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "p", "namespace": "default", "annotations": {"flotilla.dev/failback": failback}},
            "spec": {"resourceSelectors": []}});
        self.api.seed(&api::policy::PROPAGATION_POLICIES.gvr(), Object::from_value(policy).expect("a map"));
    }
}

const RESILIENT: &str = "ResilientFailover=true";

fn of_policy(placement: &Value) -> Value {
    let annotations =
        json!({"propagationpolicy.karmada.io/namespace": "default", "propagationpolicy.karmada.io/name": "p"});
    json!({"metadata": {"annotations": annotations}, "spec": {"placement": placement}})
}

#[tokio::test(start_paused = true)]
async fn what_failed_over_stays_where_it_is_though_it_is_scaled() {
    for (way, placement) in preferences() {
        let plane = Plane::new();
        plane.cluster("m1", 10, json!({}));
        plane.cluster("m2", 10, json!({}));
        plane.binding("web", 2, of_policy(&placement));
        plane.start(RESILIENT);
        plane.expect("web", "m1:2 (Success)").await;
        plane.evict("web", "m1").await;
        let moved = plane.expect("web", "m2:2 (Success)").await;
        let history = propagation::failover_history::History::of(&moved).0;
        let to: Vec<&str> = history[0].to.iter().flatten().map(|target| target.name.as_str()).collect();
        assert_eq!((history[0].from.as_str(), to), ("m1", vec!["m2"]), "{way}");
        plane.end_tasks("web").await;
        plane.recover("m1", "2026-01-01T00:00:00Z").await;
        plane.rest().await;
        plane.expect("web", "m2:2 (Success)").await;
        plane.patch(&RESOURCE_BINDINGS.gvr(), "web", json!({"spec": {"replicas": 3}})).await;
        plane.expect("web", "m2:3 (Success)").await;
        if way == "weights" {
            let told = plane.decisions.get("default/web").expect("remembered").explanation;
            let reason = &told.attempts[0].left_out[0].reasons[0].message;
            assert_eq!(reason, "it was left by failover and nobody asked to go back");
        }
        // Where it has to go anywhere at all, it may go back.
        plane.evict("web", "m2").await;
        plane.expect("web", "m1:3 (Success)").await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_failed_over_returns_where_its_policy_asks_for_it() {
    for (way, placement) in preferences() {
        let plane = Plane::new();
        plane.cluster("m1", 10, json!({}));
        plane.cluster("m2", 10, json!({}));
        plane.policy("after=2m");
        plane.binding("web", 2, of_policy(&placement));
        plane.start(RESILIENT);
        plane.expect("web", "m1:2 (Success)").await;
        plane.evict("web", "m1").await;
        plane.expect("web", "m2:2 (Success)").await;
        plane.end_tasks("web").await;
        plane.recover("m1", "2026-01-01T00:00:40Z").await;
        let start = Instant::now();
        plane.rest().await;
        plane.expect("web", "m2:2 (Success)").await;
        let back = plane.expect("web", "m1:2 (Success)").await;
        assert!(start.elapsed() > Duration::from_secs(60), "{way}: too early: {:?}", start.elapsed());
        let task = &back.items(&["spec", "gracefulEvictionTasks"])[0];
        let told = (task["fromCluster"].as_str(), task["reason"].as_str(), task["purgeMode"].as_str());
        assert_eq!(told, (Some("m2"), Some("Failback"), Some("Gracefully")), "{way}");
        let history = propagation::failover_history::History::of(&back).0;
        assert_eq!(history.len(), 2, "{way}: {history:?}");
        assert!(!history[0].returned.is_empty() && history[1].from == "m2", "{way}: {history:?}");
        plane.end_tasks("web").await;
        plane.rest().await;
        plane.expect("web", "m1:2 (Success)").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_keeps_a_part_holds_the_rest_until_it_is_ready_where_it_returns() {
    let plane = Plane::new();
    plane.cluster("m1", 10, json!({}));
    plane.cluster("m2", 10, json!({}));
    plane.policy("after=0s");
    let weight = |name: &str| json!({"targetCluster": {"clusterNames": [name]}, "weight": 1});
    let placement = json!({"replicaScheduling": {"replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": [weight("m1"), weight("m2")]}}});
    plane.binding("web", 4, of_policy(&placement));
    plane.start(RESILIENT);
    plane.expect("web", "m1:2, m2:2 (Success)").await;
    plane.evict("web", "m1").await;
    plane.expect("web", "m2:4 (Success)").await;
    plane.end_tasks("web").await;
    plane.recover("m1", "2026-01-01T00:00:00Z").await;
    let back = plane.expect("web", "m1:2, m2:2 (Success)").await;
    let tasks = back.items(&["spec", "gracefulEvictionTasks"]);
    let told = (tasks[0]["fromCluster"].as_str(), tasks[0]["reason"].as_str(), tasks[0]["replicas"].as_i64());
    assert_eq!((tasks.len(), told), (1, (Some("m2"), Some("Failback"), Some(4))));
    let spec: api::work::BindingSpec = api::read(&back).expect("a binding");
    let given: Vec<(String, i32)> =
        propagation::works::targets(&spec).into_iter().map(|target| (target.name, target.replicas)).collect();
    assert_eq!(given, [("m1".to_owned(), 2), ("m2".to_owned(), 4)], "nothing goes before the other is ready");
    // A hold is no eviction: the cluster is used as before.
    plane.patch(&RESOURCE_BINDINGS.gvr(), "web", json!({"spec": {"replicas": 6}})).await;
    plane.expect("web", "m1:3, m2:3 (Success)").await;
    plane.end_tasks("web").await;
    plane.rest().await;
    plane.expect("web", "m1:3, m2:3 (Success)").await;
}

#[tokio::test(start_paused = true)]
async fn workloads_return_at_the_rate_of_their_policy() {
    let plane = Plane::new();
    plane.cluster("m1", 100, json!({}));
    plane.cluster("m2", 100, json!({}));
    plane.policy("after=0s,rate=0.5");
    let (_, placement) = &preferences()[0];
    let names: Vec<String> = (0..10).map(|index| format!("web-{index}")).collect();
    for name in &names {
        plane.binding(name, 1, of_policy(placement));
    }
    plane.start(RESILIENT);
    for name in &names {
        plane.expect(name, "m1:1 (Success)").await;
        plane.evict(name, "m1").await;
        plane.expect(name, "m2:1 (Success)").await;
    }
    plane.recover("m1", "2026-01-01T00:00:00Z").await;
    let back = async || {
        let mut back = 0;
        for name in &names {
            back += usize::from(summary(&*plane.get(name).await).starts_with("m1"));
        }
        back
    };
    tokio::time::sleep(Duration::from_secs(10)).await;
    let some = back().await;
    assert!((4..=6).contains(&some), "one in two seconds: {some}");
    for name in &names {
        plane.expect(name, "m1:1 (Success)").await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_found_no_place_and_was_given_back_is_placed_again() {
    let plane = Plane::new();
    plane.cluster("m1", 10, json!({}));
    let (_, placement) = &preferences()[0];
    plane.binding("web", 2, of_policy(placement));
    plane.start(RESILIENT);
    plane.expect("web", "m1:2 (Success)").await;
    plane.evict("web", "m1").await;
    plane.expect("web", " (NoClusterFit)").await;
    plane.recover("m1", "2026-01-01T00:00:00Z").await;
    let back = json!({"spec": {"clusters": [{"name": "m1", "replicas": 2}], "gracefulEvictionTasks": null}});
    plane.patch(&RESOURCE_BINDINGS.gvr(), "web", back).await;
    plane.expect("web", "m1:2 (Success)").await;
}
