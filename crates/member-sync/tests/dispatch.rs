//! One member and its works, both sides in memory: what goes in, what comes back, and what must not happen.

mod bench;

use std::time::Duration;

use api::cluster::{CLUSTERS, LABEL_MANAGED};
use cluster_client::{ApiRequest, ResourceRef};
use object::Status;
use serde_json::json;

use crate::bench::{Door, Hub, condition, deployment, deployments, eventually, message, object, work};

const APPLIED: &str = "True/AppliedSuccessful";

async fn started() -> (Hub, Door, bench::Syncing) {
    let (hub, member) = (Hub::start(), Door::open());
    hub.join("m1");
    let syncing = hub.sync("m1", &member);
    eventually("ready", "True/ClusterReady".to_owned(), || hub.readiness("m1")).await;
    (hub, member, syncing)
}

#[tokio::test(start_paused = true)]
async fn a_work_takes_one_write_in_the_member_and_one_status_write() {
    let (hub, member, syncing) = started().await;
    let name = hub.work("m1", deployment("web", 2), json!({"suspendDispatching": false}));
    eventually("applied", APPLIED.to_owned(), || hub.applied("m1", &name)).await;
    let stored = hub.get_work("m1", &name).await;
    assert_eq!(condition(&stored, "Dispatching"), "True/Dispatching");
    let statuses = stored.items(&["status", "manifestStatuses"]);
    assert_eq!(
        statuses[0]["identifier"],
        json!({"ordinal": 0, "group": "apps", "version": "v1", "kind": "Deployment", "resource": "",
            "namespace": "default", "name": "web"})
    );
    assert_eq!(member.writes(), ["create deployments default/"]);
    assert_eq!(hub.status_writes(), 1);
    let made = member.deployment("web").await.expect("made");
    assert_eq!(made.i64_at(&["spec", "replicas"]), Some(2));
    // Events from our own writes cause no further writes.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((member.writes().len(), hub.status_writes()), (1, 1));
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_first_status_is_written_together_with_the_application() {
    let (hub, member, syncing) = started().await;
    let name = hub.work("m1", deployment("web", 1), json!({}));
    eventually("made", true, || async { member.deployment("web").await.is_some() }).await;
    member.set_status("web", json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1})).await;
    eventually("applied", APPLIED.to_owned(), || hub.applied("m1", &name)).await;
    let work = hub.get_work("m1", &name).await;
    assert_eq!(work.items(&["status", "manifestStatuses"])[0]["status"]["readyReplicas"], 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(hub.status_writes(), 1);
    syncing.stop().await;
}

/// Karmada's suite waits for this event (test/e2e/suites/base/propagationpolicy_test.go).
#[tokio::test(start_paused = true)]
async fn one_event_reports_the_first_status_of_a_work() {
    let (hub, member, syncing) = started().await;
    let name = hub.work("m1", deployment("web", 1), json!({}));
    let events = || hub.events_about(&name, "ReflectStatusSucceed");
    let once = vec![("Reflect status for object(Deployment/default/web) succeed.".to_owned(), 1)];
    eventually("recorded", once.clone(), events).await;
    for replicas in [1, 2] {
        member.set_status("web", json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": replicas})).await;
        eventually("reflected", Some(replicas), || async {
            let work = hub.get_work("m1", &name).await;
            work.items(&["status", "manifestStatuses"]).first().and_then(|s| s["status"]["readyReplicas"].as_i64())
        })
        .await;
    }
    // Longer than the recorder collects events.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(events().await, once, "later statuses have no event");
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changes_in_the_member_are_reported_on_the_work() {
    let (hub, member, syncing) = started().await;
    let name = hub.work("m1", deployment("web", 1), json!({}));
    let health = || async {
        let work = hub.get_work("m1", &name).await;
        work.items(&["status", "manifestStatuses"]).first().map(|s| s["health"].as_str().unwrap_or("").to_owned())
    };
    eventually("unhealthy at first", Some("Unhealthy".to_owned()), health).await;
    let generation = member.deployment("web").await.expect("made").generation();
    let status = json!({"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
        "readyReplicas": 1});
    member.set_status("web", status).await;
    eventually("healthy", Some("Healthy".to_owned()), health).await;
    let work = hub.get_work("m1", &name).await;
    assert_eq!(work.items(&["status", "manifestStatuses"])[0]["status"]["readyReplicas"], 1);
    assert_eq!(member.writes().iter().filter(|w| w.starts_with("update")).count(), 0, "nothing was to be corrected");
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn drift_is_reverted_and_fields_of_the_member_are_kept() {
    let (hub, member, syncing) = started().await;
    let name = hub.work("m1", deployment("web", 2), json!({}));
    eventually("applied", APPLIED.to_owned(), || hub.applied("m1", &name)).await;
    let patch =
        json!({"metadata": {"labels": {"added": "here"}, "finalizers": ["member/own"]}, "spec": {"replicas": 9}});
    member.change("web", patch).await;
    eventually("reverted", Some(2), || async {
        member.deployment("web").await.and_then(|d| d.i64_at(&["spec", "replicas"]))
    })
    .await;
    let reverted = member.deployment("web").await.expect("there");
    assert_eq!((reverted.label("added"), reverted.has_finalizer("member/own")), (Some("here"), true));

    member.change("web", json!({"metadata": {"annotations": {"work.karmada.io/name": null}}})).await;
    eventually("annotated again", Some(name.clone()), || async {
        member.deployment("web").await.and_then(|d| d.annotation("work.karmada.io/name").map(str::to_owned))
    })
    .await;
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_generation_is_applied_and_dropped_manifests_are_deleted() {
    let (hub, member, syncing) = started().await;
    let mut manifest = deployment("web", 2);
    manifest["metadata"]["labels"] = json!({"old": "x"});
    manifest["metadata"]["annotations"] =
        json!({"resourcetemplate.karmada.io/managed-labels": "karmada.io/managed,old"});
    let name = hub.work("m1", manifest, json!({}));
    eventually("applied", APPLIED.to_owned(), || hub.applied("m1", &name)).await;
    let next = work("m1", deployment("web", 3), json!({}));
    hub.change_work("m1", &name, json!({"spec": next.get(&["spec"])})).await;
    eventually("three", Some((Some(3), None)), || async {
        let found = member.deployment("web").await?;
        Some((found.i64_at(&["spec", "replicas"]), found.label("old").map(str::to_owned)))
    })
    .await;
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn objects_deleted_in_the_member_are_recreated() {
    let (hub, member, syncing) = started().await;
    let name = hub.work("m1", deployment("web", 2), json!({}));
    eventually("applied", APPLIED.to_owned(), || hub.applied("m1", &name)).await;
    member.delete("web").await;
    eventually("made again", "True/ReCreateSuccessful".to_owned(), || hub.applied("m1", &name)).await;
    assert!(member.deployment("web").await.is_some());
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn objects_of_other_owners_are_refused_unless_takeover_is_allowed() {
    let (hub, member, syncing) = started().await;
    member.api.seed(&deployments(), object(deployment("web", 7)));
    let name = hub.work("m1", deployment("web", 2), json!({}));
    eventually("refused", "False/AppliedFailed".to_owned(), || hub.applied("m1", &name)).await;
    assert_eq!(
        message(&*hub.get_work("m1", &name).await, "Applied"),
        "Failed to apply all manifests (0/1): resource(kind=Deployment, default/web) already exists in the cluster m1 \
         and the work.karmada.io/conflict-resolution strategy value is empty, Karmada will not manage this resource"
    );
    assert_eq!(member.deployment("web").await.and_then(|d| d.i64_at(&["spec", "replicas"])), Some(7));
    let mut manifest = deployment("web", 2);
    manifest["metadata"]["annotations"] = json!({"work.karmada.io/conflict-resolution": "overwrite"});
    let next = work("m1", manifest, json!({}));
    hub.change_work("m1", &name, json!({"spec": next.get(&["spec"])})).await;
    eventually("taken over", APPLIED.to_owned(), || hub.applied("m1", &name)).await;
    assert_eq!(member.deployment("web").await.and_then(|d| d.i64_at(&["spec", "replicas"])), Some(2));
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rejected_create_of_an_existing_object_is_followed_by_a_read() {
    let rejections = [
        (422, "Invalid", "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"),
        (403, "Forbidden", "exceeded quota: services, requested: 1, used: 5, limited: 5"),
        (409, "AlreadyExists", "deployments.apps \"web\" already exists"),
    ];
    for (code, reason, text) in rejections {
        let (hub, member, syncing) = started().await;
        member.api.seed(&deployments(), object(deployment("web", 7)));
        member.api.set_fault(move |call| {
            matches!(call.request, ApiRequest::Create { .. }).then(|| Status::new(code, reason, text))
        });
        let mut manifest = deployment("web", 2);
        manifest["metadata"]["annotations"] = json!({"work.karmada.io/conflict-resolution": "overwrite"});
        let name = hub.work("m1", manifest, json!({}));
        eventually(reason, APPLIED.to_owned(), || hub.applied("m1", &name)).await;
        assert_eq!(member.deployment("web").await.and_then(|d| d.i64_at(&["spec", "replicas"])), Some(2), "{reason}");
        // One that is not there stays rejected, for the reason the member gave.
        let absent = hub.work("m1", deployment("absent", 1), json!({}));
        eventually(reason, "False/AppliedFailed".to_owned(), || hub.applied("m1", &absent)).await;
        let shown = message(&*hub.get_work("m1", &absent).await, "Applied");
        assert!(shown.ends_with(text), "{shown}");
        syncing.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_reported_and_retried_and_blocks_no_other_work() {
    let (hub, member, syncing) = started().await;
    member.api.set_fault(|call| {
        let is_denied = matches!(&call.request, ApiRequest::Create { object, .. } if object.name() == "bad");
        is_denied
            .then(|| Status::new(403, "Forbidden", "admission webhook \"no.example\" denied the request: not here"))
    });
    let bad = hub.work("m1", deployment("bad", 1), json!({}));
    let good = hub.work("m1", deployment("good", 1), json!({}));
    eventually("denied", "False/AppliedFailed".to_owned(), || hub.applied("m1", &bad)).await;
    eventually("applied", APPLIED.to_owned(), || hub.applied("m1", &good)).await;
    assert_eq!(
        message(&*hub.get_work("m1", &bad).await, "Applied"),
        "Failed to apply all manifests (0/1): admission webhook \"no.example\" denied the request: not here"
    );
    let writes = hub.status_writes();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(hub.status_writes(), writes, "the same failure again is no news");
    member.api.clear_fault();
    eventually("allowed", APPLIED.to_owned(), || hub.applied("m1", &bad)).await;
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_the_member_does_not_serve_waits_until_it_does() {
    let (hub, member, syncing) = started().await;
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "namespace": "a"}});
    let name = hub.work("m1", thing.clone(), json!({}));
    eventually("refused", "False/AppliedFailed".to_owned(), || hub.applied("m1", &name)).await;
    assert_eq!(
        message(&*hub.get_work("m1", &name).await, "Applied"),
        "Failed to apply all manifests (0/1): no matches for kind \"Thing\" in version \"example.com/v1\""
    );
    let mut other = object(thing);
    other.set_name("other");
    member.api.seed(&bench::gvr("example.com", "things"), other);
    eventually("served now", APPLIED.to_owned(), || hub.applied("m1", &name)).await;
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_with_a_stale_mirror_is_resolved() {
    let (hub, member, syncing) = started().await;
    let name = hub.work("m1", deployment("web", 2), json!({}));
    eventually("applied", APPLIED.to_owned(), || hub.applied("m1", &name)).await;
    let once = parking_lot::Mutex::new(false);
    member.api.set_fault(move |call| {
        let is_first = matches!(call.request, ApiRequest::Update { .. }) && !std::mem::replace(&mut *once.lock(), true);
        is_first.then(|| Status::stale(&call.target.gvr.group_resource(), "web"))
    });
    let next = work("m1", deployment("web", 5), json!({}));
    hub.change_work("m1", &name, json!({"spec": next.get(&["spec"])})).await;
    eventually("five", Some(5), || async {
        member.deployment("web").await.and_then(|d| d.i64_at(&["spec", "replicas"]))
    })
    .await;
    assert_eq!(hub.applied("m1", &name).await, APPLIED);
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_work_is_not_applied_until_resumed() {
    let (hub, member, syncing) = started().await;
    let name = hub.work("m1", deployment("web", 1), json!({"suspendDispatching": true}));
    eventually("reported", "False/SuspendDispatching".to_owned(), || async {
        condition(&*hub.get_work("m1", &name).await, "Dispatching")
    })
    .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(member.writes(), Vec::<String>::new());
    hub.change_work("m1", &name, json!({"spec": {"suspendDispatching": false}})).await;
    eventually("applied", APPLIED.to_owned(), || hub.applied("m1", &name)).await;
    hub.change_work("m1", &name, json!({"spec": {"suspendDispatching": true}})).await;
    eventually("suspended", "False/SuspendDispatching".to_owned(), || async {
        condition(&*hub.get_work("m1", &name).await, "Dispatching")
    })
    .await;
    member.change("web", json!({"spec": {"replicas": 4}})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(member.deployment("web").await.and_then(|d| d.i64_at(&["spec", "replicas"])), Some(4));
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_work_deletes_its_own_objects_and_nothing_else() {
    let (hub, member, syncing) = started().await;
    let own = hub.work("m1", deployment("own", 1), json!({}));
    let foreign = hub.work("m1", deployment("foreign", 1), json!({}));
    eventually("applied", APPLIED.to_owned(), || hub.applied("m1", &own)).await;
    eventually("applied", APPLIED.to_owned(), || hub.applied("m1", &foreign)).await;
    member.shut();
    member.change("foreign", json!({"metadata": {"labels": {LABEL_MANAGED: null}}})).await;
    hub.delete_work("m1", &own).await;
    hub.delete_work("m1", &foreign).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(hub.applied("m1", &own).await, APPLIED, "it stays while the member cannot be asked");
    member.reopen();
    eventually("gone", "gone".to_owned(), || hub.applied("m1", &own)).await;
    eventually("gone", "gone".to_owned(), || hub.applied("m1", &foreign)).await;
    assert!(member.deployment("own").await.is_none());
    assert!(member.deployment("foreign").await.is_some());
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_work_deleted_right_after_its_creation_leaves_nothing_behind() {
    let (hub, member, syncing) = started().await;
    for round in 0..20 {
        let name = hub.work("m1", deployment(&format!("web-{round}"), 1), json!({}));
        hub.delete_work("m1", &name).await;
        eventually("gone", "gone".to_owned(), || hub.applied("m1", &name)).await;
        assert!(member.deployment(&format!("web-{round}")).await.is_none());
    }
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn preserved_objects_stay_without_karmada_labels() {
    let (hub, member, syncing) = started().await;
    let name = hub.work("m1", deployment("web", 3), json!({"preserveResourcesOnDeletion": true}));
    eventually("applied", APPLIED.to_owned(), || hub.applied("m1", &name)).await;
    hub.delete_work("m1", &name).await;
    eventually("gone", "gone".to_owned(), || hub.applied("m1", &name)).await;
    let kept = member.deployment("web").await.expect("kept");
    assert_eq!(kept.i64_at(&["spec", "replicas"]), Some(3));
    assert_eq!((kept.labels().count(), kept.annotations().count()), (0, 0));
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn works_of_an_unreachable_member_are_unchanged_and_applied_when_it_returns() {
    let (hub, member, syncing) = started().await;
    let first = hub.work("m1", deployment("first", 1), json!({}));
    let second = hub.work("m1", deployment("second", 1), json!({}));
    for name in [&first, &second] {
        eventually("applied", APPLIED.to_owned(), || hub.applied("m1", name)).await;
    }
    member.shut();
    eventually("not ready", "False/ClusterNotReachable".to_owned(), || hub.readiness("m1")).await;
    let writes = hub.status_writes();
    member.delete("first").await;
    member.set_status("second", json!({"replicas": 1})).await;
    let third = hub.work("m1", deployment("third", 1), json!({}));
    tokio::time::sleep(Duration::from_secs(300)).await;
    for name in [&first, &second] {
        assert_eq!(hub.applied("m1", name).await, APPLIED);
    }
    assert_eq!(hub.applied("m1", &third).await, "");
    assert!(hub.status_writes() <= writes + 1, "only the dispatching of the third was reported");
    member.reopen();
    eventually("ready", "True/ClusterReady".to_owned(), || hub.readiness("m1")).await;
    eventually("made again", "True/ReCreateSuccessful".to_owned(), || hub.applied("m1", &first)).await;
    eventually("sent", APPLIED.to_owned(), || hub.applied("m1", &third)).await;
    eventually("reflected", json!(1), || async {
        hub.get_work("m1", &second).await.items(&["status", "manifestStatuses"])[0]["status"]["replicas"].clone()
    })
    .await;
    assert_eq!(member.writes().iter().filter(|w| w.starts_with("delete")).count(), 1, "only the one by hand");
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn transient_errors_keep_applied_conditions_and_are_reported_for_new_works() {
    let (hub, member, syncing) = started().await;
    let name = hub.work("m1", deployment("web", 1), json!({}));
    eventually("applied", APPLIED.to_owned(), || hub.applied("m1", &name)).await;
    member.api.set_fault(|call| {
        let is_ours = matches!(&call.request, ApiRequest::Update { .. });
        is_ours.then(|| Status::internal("failed calling webhook \"x\": connection refused"))
    });
    member.change("web", json!({"spec": {"replicas": 5}})).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(member.writes().iter().filter(|w| w.starts_with("update")).count() > 3, "it was tried");
    assert_eq!(hub.applied("m1", &name).await, APPLIED);
    let next = work("m1", deployment("web", 2), json!({}));
    hub.change_work("m1", &name, json!({"spec": next.get(&["spec"])})).await;
    eventually("not there", "False/AppliedFailed".to_owned(), || hub.applied("m1", &name)).await;
    assert!(message(&*hub.get_work("m1", &name).await, "Applied").contains("failed calling webhook"));
    member.api.clear_fault();
    eventually("applied", APPLIED.to_owned(), || hub.applied("m1", &name)).await;
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_is_not_reported_and_missed_changes_are_applied() {
    let (hub, member, syncing) = started().await;
    let name = hub.work("m1", deployment("web", 1), json!({}));
    eventually("applied", APPLIED.to_owned(), || hub.applied("m1", &name)).await;
    member.shut();
    member.change("web", json!({"spec": {"replicas": 5}})).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(hub.readiness("m1").await, "True/ClusterReady");
    member.reopen();
    eventually("reverted", Some(1), || async {
        member.deployment("web").await.and_then(|d| d.i64_at(&["spec", "replicas"]))
    })
    .await;
    assert_eq!(hub.readiness("m1").await, "True/ClusterReady");
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_member_being_removed_does_not_block_its_works() {
    let (hub, member, syncing) = started().await;
    let name = hub.work("m1", deployment("web", 1), json!({}));
    eventually("applied", APPLIED.to_owned(), || hub.applied("m1", &name)).await;
    member.shut();
    hub.delete_work("m1", &name).await;
    eventually("not ready", "False/ClusterNotReachable".to_owned(), || hub.readiness("m1")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_ne!(hub.applied("m1", &name).await, "gone", "the member may come back");
    hub.api.client().delete(ResourceRef::cluster(&CLUSTERS.gvr(), "m1"), Default::default()).await.expect("deleted");
    eventually("released", "gone".to_owned(), || hub.applied("m1", &name)).await;
    assert!(member.deployment("web").await.is_some(), "what is in the member was not touched");
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing_that_is_up_to_date() {
    let (hub, member, syncing) = started().await;
    let mut names = Vec::new();
    for index in 0..50 {
        names.push(hub.work("m1", deployment(&format!("web-{index}"), 1), json!({})));
    }
    for name in &names {
        eventually("applied", APPLIED.to_owned(), || hub.applied("m1", name)).await;
    }
    syncing.stop().await;
    let (before, status_writes) = (member.writes(), hub.status_writes());
    let syncing = hub.sync("m1", &member);
    let last = hub.work("m1", deployment("last", 1), json!({}));
    eventually("applied", APPLIED.to_owned(), || hub.applied("m1", &last)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(member.writes().len(), before.len() + 1);
    assert_eq!(hub.status_writes(), status_writes + 1);
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn restarts_during_a_thousand_works_lose_nothing_and_apply_nothing_twice() {
    let (hub, member, mut syncing) = started().await;
    let names: Vec<String> =
        (0..1000).map(|index| hub.work("m1", deployment(&format!("web-{index}"), 1), json!({}))).collect();
    for part in 1..=3 {
        eventually("a part is done", true, || async { member.writes().len() >= part * 250 }).await;
        syncing.stop().await;
        syncing = hub.sync("m1", &member);
    }
    for name in &names {
        eventually("applied", APPLIED.to_owned(), || hub.applied("m1", name)).await;
    }
    let writes = member.writes();
    assert_eq!(writes.len(), 1000, "each was made once: {:?}", writes.iter().find(|w| !w.starts_with("create")));
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_member_does_not_delay_a_fast_one() {
    let hub = Hub::start();
    let (fast, slow) = (Door::open(), Door::open());
    hub.join("fast");
    hub.join("slow");
    let running = [hub.sync("fast", &fast), hub.sync("slow", &slow)];
    for cluster in ["fast", "slow"] {
        eventually("ready", "True/ClusterReady".to_owned(), || hub.readiness(cluster)).await;
    }
    slow.slow_down(Duration::from_secs(30));
    let start = tokio::time::Instant::now();
    let names: Vec<String> = (0..100)
        .map(|index| {
            hub.work("slow", deployment(&format!("web-{index}"), 1), json!({}));
            hub.work("fast", deployment(&format!("web-{index}"), 1), json!({}))
        })
        .collect();
    for name in &names {
        eventually("applied", APPLIED.to_owned(), || hub.applied("fast", name)).await;
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    for member in running {
        member.stop().await;
    }
}
