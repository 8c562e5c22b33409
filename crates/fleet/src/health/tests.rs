//! Silence and signs of life, second by second.

use std::sync::Arc;

use api::cluster::CLUSTERS;
use cluster_client::ResourceRef;
use cluster_client::testing::MemoryApi;
use reconcile::Clock;
use serde_json::json;

use super::*;
use crate::testing;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

const GRACE: Grace = Grace { running: Duration::from_secs(40), starting: Duration::from_secs(60) };

/// Looks at a cluster at each given second, with the Ready condition and Lease it has then; checks when the first
/// reason is reported, and which.
#[track_caller]
fn check(looks: &[(i64, Option<&str>, Option<i64>)], expected: Option<(i64, &str)>) {
    let mut seen: Option<Seen> = None;
    for (second, ready, renewed) in looks {
        let ready = ready.map(|status| Condition {
            kind: "Ready".to_owned(),
            status: status.to_owned(),
            ..Condition::default()
        });
        let signs = Signs { ready, created: at(0), renewed: renewed.map(at) };
        let state = observe(seen.as_ref(), &signs, at(*second));
        if let Some(condition) = judge(&state, &signs, GRACE, at(*second)) {
            assert_eq!(condition.status, "Unknown");
            assert_eq!(Some((*second, condition.reason.as_str())), expected, "{looks:?}");
            return;
        }
        seen = Some(state);
    }
    assert_eq!(None, expected, "{looks:?}");
}

#[test]
fn a_cluster_without_a_first_heartbeat_has_a_longer_grace_period() {
    check(&[(5, None, None), (60, None, None), (61, None, None)], Some((61, "ClusterStatusNeverUpdated")));
    // A Lease alone is a sign of life.
    check(&[(5, None, Some(1)), (61, None, Some(60)), (120, None, Some(60))], None);
    check(&[(61, None, Some(60)), (122, None, Some(60))], Some((122, "ClusterStatusNeverUpdated")));
}

#[test]
fn a_cluster_without_heartbeats_is_unknown_after_the_grace_period() {
    let up = Some("True");
    check(&[(5, up, Some(1)), (45, up, Some(1)), (46, up, Some(1))], Some((46, "ClusterStatusUnknown")));
    check(&[(5, up, Some(1)), (45, up, Some(2)), (46, up, Some(2))], None);
    // A Lease that goes back in time is renewed by an agent whose clock was put right.
    check(&[(5, up, Some(3)), (45, up, Some(2)), (46, up, Some(2))], None);
    // A changed condition is one.
    check(&[(5, up, None), (45, Some("False"), None), (46, Some("False"), None), (85, Some("False"), None)], None);
    check(&[(5, Some("False"), None), (46, Some("False"), None)], Some((46, "ClusterStatusUnknown")));
    // It is said once.
    check(&[(5, Some("Unknown"), None), (100, Some("Unknown"), None)], None);
}

#[tokio::test(start_paused = true)]
async fn only_silent_pull_clusters_become_unknown() {
    let api = MemoryApi::default();
    for (name, mode) in [("silent", "Pull"), ("alive", "Pull"), ("pushed", "Push")] {
        let mut cluster = testing::cluster(name, "True");
        cluster.set(&["spec", "syncMode"], mode);
        cluster.set(&["status", "remedyActions"], json!(["TrafficControl"]));
        api.seed(&CLUSTERS.gvr(), cluster);
    }
    let cancel = CancellationToken::new();
    let plane = testing::plane(&api, &cancel, |_| {});
    let running = tokio::spawn(run(Arc::clone(&plane), cancel.clone()));
    let lease = |renewed: Timestamp| {
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "alive", "namespace": CLUSTER_NAMESPACE},
            "spec": {"renewTime": object::time::format_micros(renewed)}});
        Object::from_value(lease).expect("a map")
    };
    for _ in 0..6 {
        api.seed(&leases(), lease(plane.clock.now()));
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    let ready = async |name: &str| {
        let cluster = api.client().get(ResourceRef::cluster(&CLUSTERS.gvr(), name)).await.expect("there");
        assert_eq!(cluster.items(&["status", "remedyActions"]).len(), 1, "the rest of the status stays");
        cluster.items(&["status", "conditions"])[0].clone()
    };
    assert_eq!(ready("silent").await["reason"], "ClusterStatusUnknown");
    assert_eq!(ready("silent").await["status"], "Unknown");
    assert_eq!(ready("alive").await["status"], "True");
    assert_eq!(ready("pushed").await["status"], "True");
    let writes = api.calls().iter().filter(|call| call.starts_with("patch clusters/status")).count();
    assert_eq!(writes, 1, "said once");
    cancel.cancel();
    running.await.expect("ends");
}

/// The time of day, which can be put forward and back while everything else goes on.
struct Adjustable {
    steady: reconcile::VirtualClock,
    ahead: parking_lot::Mutex<SignedDuration>,
}

impl Clock for Adjustable {
    fn now(&self) -> Timestamp {
        self.steady.now().checked_add(*self.ahead.lock()).expect("in range")
    }
}

/// Two clusters that renew their leases every ten seconds, one of which stops. Then the clock of the plane jumps.
async fn reasons_after_a_jump(jump: SignedDuration, seconds: u64) -> [String; 2] {
    let api = MemoryApi::default();
    for name in ["alive", "dead"] {
        let mut cluster = testing::cluster(name, "True");
        cluster.set(&["spec", "syncMode"], "Pull");
        api.seed(&CLUSTERS.gvr(), cluster);
    }
    let steady = reconcile::VirtualClock::new(testing::NOW.parse().expect("a time"));
    let clock = Arc::new(Adjustable { steady, ahead: parking_lot::Mutex::new(SignedDuration::ZERO) });
    let cancel = CancellationToken::new();
    let plane = testing::plane_at(&api, &cancel, Arc::clone(&clock) as Arc<dyn Clock>);
    let running = tokio::spawn(run(Arc::clone(&plane), cancel.clone()));
    for second in 0..seconds {
        if second == 20 {
            *clock.ahead.lock() = jump;
        }
        // Agents have clocks of their own.
        let renewed = object::time::format_micros(clock.steady.now());
        for name in ["alive", "dead"].into_iter().filter(|name| second % 10 == 0 && (*name == "alive" || second < 20)) {
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": name, "namespace": CLUSTER_NAMESPACE}, "spec": {"renewTime": renewed}});
            api.seed(&leases(), testing::object(lease));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let reason = async |name: &str| {
        let cluster = api.client().get(ResourceRef::cluster(&CLUSTERS.gvr(), name)).await.expect("there");
        cluster.items(&["status", "conditions"])[0]["reason"].as_str().unwrap_or_default().to_owned()
    };
    let reasons = [reason("alive").await, reason("dead").await];
    cancel.cancel();
    running.await.expect("ends");
    reasons
}

#[tokio::test(start_paused = true)]
async fn a_resumed_plane_waits_for_heartbeats_before_it_marks_clusters_unknown() {
    for jump in [SignedDuration::from_hours(8), SignedDuration::from_hours(-8), SignedDuration::from_secs(60)] {
        assert_eq!(reasons_after_a_jump(jump, 45).await, ["Test", "Test"], "{jump}");
        // A cluster that stays silent is still found.
        assert_eq!(reasons_after_a_jump(jump, 80).await, ["Test", "ClusterStatusUnknown"], "{jump}");
    }
}
