//! Concurrent writers and many bindings at once.

use std::sync::Arc;
use std::time::Duration;

use api::work::RESOURCE_BINDINGS;
use cluster_client::ApiRequest;
use serde_json::json;
use tokio::time::Instant;

use crate::plane::{TestPlane, summary};

#[tokio::test(start_paused = true)]
async fn a_placement_of_an_outdated_binding_is_decided_again() {
    let plane = TestPlane::new();
    plane.cluster("m1", 10, json!({}));
    plane.cluster("m2", 10, json!({}));
    plane.binding("web", 1, json!({}));
    let api = plane.api.clone();
    let is_evicted = std::sync::atomic::AtomicBool::new(false);
    plane.api.set_fault(move |call| {
        let is_first = matches!(call.request, ApiRequest::Patch { .. })
            && call.target.gvr == RESOURCE_BINDINGS.gvr()
            && !is_evicted.swap(true, std::sync::atomic::Ordering::Relaxed);
        if is_first {
            // The workload is evicted between the decision and the write.
            let evicting = TestPlane::new_over(api.clone());
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
async fn a_concurrent_status_change_does_not_delay_a_placement() {
    let plane = TestPlane::new();
    plane.cluster("m1", 10, json!({}));
    plane.binding("web", 1, json!({}));
    let api = plane.api.clone();
    let is_written = std::sync::atomic::AtomicBool::new(false);
    plane.api.set_fault(move |call| {
        let is_first = matches!(call.request, ApiRequest::Patch { .. })
            && call.target.gvr == RESOURCE_BINDINGS.gvr()
            && !is_written.swap(true, std::sync::atomic::Ordering::Relaxed);
        if is_first {
            let status = json!({"conditions": [{"type": "FullyApplied", "status": "False"}]});
            // Refers to the second binding that was created.
            let same = json!({"metadata": {"uid": "uid-2"}, "status": status});
            TestPlane::new_over(api.clone()).binding("web", 1, same);
        }
        None
    });
    plane.start("");
    // Virtual time does not advance during this loop, so a backoff would never end.
    let start = Instant::now();
    for _ in 0..1000 {
        if summary(&*plane.get("web").await) == "m1:1 (Success)" {
            break;
        }
    }
    let binding = plane.get("web").await;
    assert_eq!((summary(&binding).as_str(), start.elapsed()), ("m1:1 (Success)", Duration::ZERO));
    assert_eq!(binding.items(&["status", "conditions"]).len(), 2, "existing conditions are kept");
}

#[tokio::test(start_paused = true)]
async fn many_bindings_are_placed_per_round_on_a_busy_runtime() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    const BINDINGS: usize = 64;
    let plane = TestPlane::new();
    plane.cluster("m1", 1000, json!({}));
    for n in 0..BINDINGS {
        plane.binding(&format!("web{n}"), 1, json!({}));
    }
    plane.start("");
    // A busy task like the rest of the control plane; each yield waits for a round of it.
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
    assert!(took >= 2, "other tasks ran meanwhile: {took}");
    busy.abort();
    for n in 0..BINDINGS {
        plane.expect(&format!("web{n}"), "m1:1 (Success)").await;
    }
}
