//! What a server with nodes fills into pods and claims: priority, tolerations, storage class.

mod admission_world;

use admission_world::World;
use apiserver::admission::default_tolerations::DefaultTolerations;
use apiserver::admission::priority::Priorities;
use apiserver::admission::storage_class::DefaultStorageClass;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/team/pods";

async fn world() -> World {
    let steps: Vec<Box<dyn apiserver::admission::Admission>> =
        vec![Box::new(Priorities), Box::new(DefaultTolerations), Box::new(DefaultStorageClass)];
    World::serving(kinds::builtin(), steps).await
}

fn pod(more: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({"metadata": {"name": "p"}, "spec": spec})
}

/// Creates a pod and takes it away: its priority and class, or the refusal.
async fn check(world: &World, more: Value, expected: Result<(i64, Option<&str>), &str>) {
    let reply = world.ask("POST", PODS, pod(more.clone())).await;
    let spec = &reply.body["spec"];
    let found = match reply.code {
        201 => Ok((spec["priority"].as_i64().unwrap_or(-1), spec["priorityClassName"].as_str())),
        _ => Err(reply.message()),
    };
    assert_eq!(found, expected, "{more}");
    if reply.code == 201 {
        world.remove(&format!("{PODS}/p?gracePeriodSeconds=0")).await;
    }
}

#[tokio::test]
async fn pods_get_the_priority_of_their_class() {
    let world = world().await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    check(&world, json!({}), Ok((0, None))).await;
    world.make(classes, json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})).await;
    check(&world, json!({"priorityClassName": "high"}), Ok((1000, Some("high")))).await;
    let missing = "pods \"p\" is forbidden: no PriorityClass with name nope was found";
    check(&world, json!({"priorityClassName": "nope"}), Err(missing)).await;
    let given = "pods \"p\" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority \
        admission controller computed 1000 from the given PriorityClass name";
    check(&world, json!({"priorityClassName": "high", "priority": 5}), Err(given)).await;
    world.make(classes, json!({"metadata": {"name": "usual"}, "value": 7, "globalDefault": true})).await;
    check(&world, json!({}), Ok((7, Some("usual")))).await;
}

#[tokio::test]
async fn pods_tolerate_a_lost_node_for_a_while_and_claims_get_the_default_class() {
    let world = world().await;
    let reply = world.ask("POST", PODS, pod(json!({}))).await;
    let keys: Vec<&str> =
        reply.body["spec"]["tolerations"].as_array().into_iter().flatten().filter_map(|t| t["key"].as_str()).collect();
    assert_eq!(keys, ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
    let class = json!({"metadata": {"name": "disk", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "x"});
    world.make("/apis/storage.k8s.io/v1/storageclasses", class).await;
    let claim = |class: Value| {
        let mut claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}});
        if !class.is_null() {
            claim["spec"]["storageClassName"] = class;
        }
        claim
    };
    let claims = "/api/v1/namespaces/team/persistentvolumeclaims";
    for (given, expected) in [(Value::Null, "disk"), (json!(""), ""), (json!("other"), "other")] {
        let reply = world.ask("POST", claims, claim(given.clone())).await;
        assert_eq!((reply.code, reply.body["spec"]["storageClassName"].as_str()), (201, Some(expected)), "{given}");
        world.remove(&format!("{claims}/c")).await;
    }
}
