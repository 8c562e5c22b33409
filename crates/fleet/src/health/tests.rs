//! Silence and signs of life, second by second.

use std::sync::Arc;

use api::cluster::CLUSTERS;
use cluster_client::ResourceRef;
use cluster_client::testing::MemoryApi;
use serde_json::json;

use super::*;
use crate::testing;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

const GRACE: Grace = Grace { running: Duration::from_secs(40), starting: Duration::from_secs(60) };

/// Looks at a cluster at each second named, with the Ready condition and Lease it has then; tells the reason when it
/// is first said.
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
fn a_cluster_that_never_spoke_is_given_longer() {
    check(&[(5, None, None), (60, None, None), (61, None, None)], Some((61, "ClusterStatusNeverUpdated")));
    // A Lease alone is a sign of life.
    check(&[(5, None, Some(1)), (61, None, Some(60)), (120, None, Some(60))], None);
    check(&[(61, None, Some(60)), (122, None, Some(60))], Some((122, "ClusterStatusNeverUpdated")));
}

#[test]
fn a_cluster_that_stops_speaking_is_unknown_after_the_grace_period() {
    let up = Some("True");
    check(&[(5, up, Some(1)), (45, up, Some(1)), (46, up, Some(1))], Some((46, "ClusterStatusUnknown")));
    check(&[(5, up, Some(1)), (45, up, Some(2)), (46, up, Some(2))], None);
    // A Lease that goes back in time is no renewal.
    check(&[(5, up, Some(3)), (45, up, Some(2)), (46, up, Some(2))], Some((46, "ClusterStatusUnknown")));
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
