//! Leader election: one leader at a time, handover on release, takeover after a loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cluster_client::testing::MemoryApi;
use cluster_client::{ApiRequest, ResourceRef};
use object::builtin;
use object::{Object, Status};
use reconcile::{LeaderElection, LeaderElector, VirtualClock};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The number of concurrent leaders, and when it changed.
#[derive(Default)]
struct Record {
    leading: AtomicUsize,
    most_at_once: AtomicUsize,
    terms: parking_lot::Mutex<Vec<(String, u64)>>,
}

struct Candidate {
    cancel: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

/// Each candidate has its own connection to the lease, so that one can be cut off.
fn candidate(
    name: &'static str,
    api: &MemoryApi,
    cut: &Arc<AtomicBool>,
    record: &Arc<Record>,
    start: Instant,
) -> Candidate {
    let cut = Arc::clone(cut);
    api.set_fault(move |call| {
        let holder = match &call.request {
            ApiRequest::Update { object, .. } | ApiRequest::Create { object, .. } => {
                object.str_at(&["spec", "holderIdentity"])
            }
            _ => "",
        };
        (holder == "a" && cut.load(Ordering::Relaxed)).then(|| Status::unavailable("cut off"))
    });
    let clock = Arc::new(VirtualClock::new("2026-01-01T00:00:00Z".parse().expect("a time")));
    let elector = LeaderElector::new(LeaderElection::new("kube-system", "test", name), api.client(), clock);
    let cancel = CancellationToken::new();
    let record = Arc::clone(record);
    let token = cancel.clone();
    let running = tokio::spawn(async move {
        let work = |lost: CancellationToken| {
            let record = Arc::clone(&record);
            async move {
                record.terms.lock().push((name.to_owned(), start.elapsed().as_secs()));
                let now = record.leading.fetch_add(1, Ordering::SeqCst) + 1;
                record.most_at_once.fetch_max(now, Ordering::SeqCst);
                lost.cancelled().await;
                // Stopping takes a moment.
                tokio::time::sleep(Duration::from_secs(1)).await;
                record.leading.fetch_sub(1, Ordering::SeqCst);
            }
        };
        elector.run(token, work).await;
    });
    Candidate { cancel, running }
}

async fn lease(api: &MemoryApi) -> Arc<Object> {
    let leases = builtin::leases();
    api.client().get(ResourceRef::namespaced(&leases, "kube-system", "test")).await.expect("there is one")
}

async fn seconds(n: u64) {
    tokio::time::sleep(Duration::from_secs(n)).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_releases_its_lease_at_once() {
    let (api, cut, record, start) = (MemoryApi::default(), Arc::default(), Arc::default(), Instant::now());
    let a = candidate("a", &api, &cut, &record, start);
    seconds(1).await;
    let _b = candidate("b", &api, &cut, &record, start);
    seconds(100).await;
    assert_eq!(*record.terms.lock(), [("a".to_owned(), 0)]);
    let held = lease(&api).await;
    assert_eq!(held.str_at(&["spec", "holderIdentity"]), "a");
    assert_eq!(held.i64_at(&["spec", "leaseDurationSeconds"]), Some(15));
    assert_eq!(held.str_at(&["spec", "acquireTime"]), "2026-01-01T00:00:00.000000Z");
    assert!(held.str_at(&["spec", "renewTime"]) > "2026-01-01T00:01:30");
    a.cancel.cancel();
    a.running.await.expect("ends in good order");
    seconds(7).await;
    assert_eq!(record.terms.lock()[1].0, "b");
    let held = lease(&api).await;
    assert_eq!((held.str_at(&["spec", "holderIdentity"]), held.i64_at(&["spec", "leaseTransitions"])), ("b", Some(1)));
    assert_eq!(record.most_at_once.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_another_starts() {
    let (api, cut, record, start) = (MemoryApi::default(), Arc::default(), Arc::default(), Instant::now());
    let _a = candidate("a", &api, &cut, &record, start);
    seconds(1).await;
    let _b = candidate("b", &api, &cut, &record, start);
    seconds(60).await;
    cut.store(true, Ordering::Relaxed);
    seconds(12).await;
    assert_eq!(record.leading.load(Ordering::SeqCst), 0, "a has stopped, b does not lead yet");
    seconds(15).await;
    assert_eq!(record.leading.load(Ordering::SeqCst), 1);
    assert_eq!(record.terms.lock().last().map(|(name, _)| name.clone()).as_deref(), Some("b"));
    cut.store(false, Ordering::Relaxed);
    seconds(60).await;
    assert_eq!(record.terms.lock().len(), 2, "b keeps what it has");
    assert_eq!(record.most_at_once.load(Ordering::SeqCst), 1);
}
