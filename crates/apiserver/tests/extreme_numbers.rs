//! Integers at the edges, in query parameters and in fields that the server does arithmetic with, do not panic it.

mod admission_world;

use std::time::Duration;

use admission_world::World;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/team/pods";

const EDGES: &[i64] = &[
    0,
    1,
    -1,
    i32::MAX as i64,
    i32::MAX as i64 + 1,
    i32::MIN as i64,
    100_000_000_000,
    253_402_300_798,
    253_402_300_799,
    1_000_000_000_000_000_000,
    i64::MAX - 1,
    i64::MAX,
    i64::MIN,
];

fn pod(grace: i64) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"terminationGracePeriodSeconds": grace, "nodeName": "n",
        "containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn query_parameters_of_any_size_are_answered() {
    let world = World::new().await;
    let parameters = ["timeoutSeconds", "limit", "resourceVersion", "gracePeriodSeconds", "timeout"];
    for parameter in parameters {
        for edge in EDGES {
            let reply = world.ask("GET", &format!("{PODS}?{parameter}={edge}"), Value::Null).await;
            assert!((200..=504).contains(&reply.code), "{parameter}={edge}: {}", reply.body);
            let reply = world.ask("DELETE", &format!("{PODS}/none?{parameter}={edge}"), Value::Null).await;
            assert!((200..=504).contains(&reply.code), "{parameter}={edge}: {}", reply.body);
            let watch = format!("{PODS}?watch=1&resourceVersion=0&{parameter}={edge}");
            // A watch goes on; one that panics ends at once.
            let watching = world.ask("GET", &watch, Value::Null);
            if let Ok(reply) = tokio::time::timeout(Duration::from_millis(50), watching).await {
                assert!((200..=504).contains(&reply.code), "{watch}: {}", reply.body);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_with_any_grace_period_can_be_deleted() {
    let world = World::new().await;
    for grace in EDGES.iter().copied().filter(|grace| *grace >= 0) {
        world.make(PODS, pod(grace)).await;
        let path = format!("{PODS}/p");
        let deleted = world.ask("DELETE", &path, Value::Null).await;
        assert_eq!(deleted.code, 200, "{grace}: {}", deleted.body);
        let deleted = world.ask("DELETE", &format!("{path}?gracePeriodSeconds=0"), Value::Null).await;
        assert!(matches!(deleted.code, 200 | 404), "{grace}: {}", deleted.body);
    }
    for grace in EDGES {
        world.make(PODS, pod(30)).await;
        let path = format!("{PODS}/p");
        let deleted = world.ask("DELETE", &format!("{path}?gracePeriodSeconds={grace}"), Value::Null).await;
        assert!((200..500).contains(&deleted.code), "{grace}: {}", deleted.body);
        world.ask("DELETE", &format!("{path}?gracePeriodSeconds=0"), Value::Null).await;
        assert_eq!(world.ask("GET", &path, Value::Null).await.code, 404, "{grace}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_any_lifetime_are_issued_or_refused() {
    let world = World::new().await;
    world.make("/api/v1/namespaces/team/serviceaccounts", json!({"metadata": {"name": "s"}})).await;
    for edge in EDGES {
        let body = json!({"spec": {"expirationSeconds": edge}});
        let reply = world.ask("POST", "/api/v1/namespaces/team/serviceaccounts/s/token", body).await;
        assert!(matches!(reply.code, 201 | 422), "{edge}: {}", reply.body);
    }
}
