//! Fields that a server with nodes sets in pods and claims: priority, tolerations, runtime class, storage class.

mod admission_world;

use admission_world::World;
use apiserver::admission::claim_resize::ClaimResize;
use apiserver::admission::default_tolerations::DefaultTolerations;
use apiserver::admission::ingress_class::DefaultIngressClass;
use apiserver::admission::priority::Priorities;
use apiserver::admission::runtime_class::RuntimeClasses;
use apiserver::admission::storage_class::DefaultStorageClass;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/team/pods";

async fn world() -> World {
    let steps: Vec<Box<dyn apiserver::admission::Admission>> = vec![
        Box::new(Priorities),
        Box::new(DefaultTolerations),
        Box::new(DefaultStorageClass),
        Box::new(DefaultIngressClass),
        Box::new(ClaimResize),
        Box::new(RuntimeClasses),
    ];
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

/// Messages of kube-apiserver's plugin `RuntimeClass`.
#[tokio::test]
async fn pods_of_a_runtime_class_get_its_overhead_and_scheduling() {
    let world = world().await;
    let classes = "/apis/node.k8s.io/v1/runtimeclasses";
    let toleration = json!({"key": "sandbox", "operator": "Exists"});
    let class = |name: &str, more: Value| {
        let mut class = json!({"metadata": {"name": name}, "handler": "runsc"});
        for (key, value) in more.as_object().into_iter().flatten() {
            class[key] = value.clone();
        }
        class
    };
    let more = json!({"overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"runtime": "gvisor"}, "tolerations": [toleration]}});
    world.make(classes, class("gvisor", more)).await;
    world.make(classes, class("plain", json!({}))).await;
    for refused in [
        (json!({"runtimeClassName": "nope"}), "RuntimeClass \"nope\" not found"),
        (
            json!({"runtimeClassName": "gvisor", "overhead": {"cpu": "1"}}),
            "Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            json!({"runtimeClassName": "plain", "overhead": {"cpu": "1"}}),
            "Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (json!({"overhead": {"cpu": "1"}}), "Pod Overhead set without corresponding RuntimeClass defined Overhead"),
    ] {
        let message = format!("pods \"p\" is forbidden: pod rejected: {}", refused.1);
        check(&world, refused.0, Err(&message)).await;
    }
    let conflict = "pods \"p\" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[runtime] = gvisor; \
        pod.spec.nodeSelector[runtime] = runc";
    check(&world, json!({"runtimeClassName": "gvisor", "nodeSelector": {"runtime": "runc"}}), Err(conflict)).await;
    check(&world, json!({"runtimeClassName": "plain"}), Ok((0, None))).await;
    let spec = json!({"runtimeClassName": "gvisor", "nodeSelector": {"zone": "a"}, "overhead": {"cpu": "0.25"}});
    let made = world.make(PODS, pod(spec)).await;
    assert_eq!(made["spec"]["overhead"], json!({"cpu": "250m"}));
    assert_eq!(made["spec"]["nodeSelector"], json!({"runtime": "gvisor", "zone": "a"}));
    let tolerations = made["spec"]["tolerations"].as_array().expect("a list");
    assert!(tolerations.contains(&toleration), "{tolerations:?}");
    // A class that is deleted does not affect pods that exist.
    world.remove(&format!("{classes}/gvisor")).await;
    let patched = world.ask("PATCH", &format!("{PODS}/p"), json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(patched.code, 200, "{}", patched.body);
    world.remove(&format!("{PODS}/p?gracePeriodSeconds=0")).await;
    let deleted = "pods \"p\" is forbidden: pod rejected: RuntimeClass \"gvisor\" not found";
    check(&world, json!({"runtimeClassName": "gvisor"}), Err(deleted)).await;
}

#[tokio::test]
async fn ingresses_without_a_class_get_the_default() {
    let world = world().await;
    let classes = "/apis/networking.k8s.io/v1/ingressclasses";
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/team/ingresses";
    let ingress = |name: &str, annotations: Value, class: Value| {
        let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
        json!({"metadata": {"name": name, "annotations": annotations}, "spec": {"defaultBackend": backend, "ingressClassName": class}})
    };
    let made = world.make(ingresses, ingress("early", json!({}), Value::Null)).await;
    assert_eq!(made["spec"]["ingressClassName"], Value::Null);
    for (name, is_default) in [("a", "false"), ("b", "true")] {
        let metadata =
            json!({"name": name, "annotations": {"ingressclass.kubernetes.io/is-default-class": is_default}});
        world.make(classes, json!({"metadata": metadata, "spec": {"controller": "example.com/c"}})).await;
    }
    let old = json!({"kubernetes.io/ingress.class": "other"});
    let cases = [
        ("default", json!({}), Value::Null, json!("b")),
        ("named", json!({}), json!("a"), json!("a")),
        ("annotated", old, Value::Null, Value::Null),
    ];
    for (name, annotations, class, expected) in cases {
        let made = world.make(ingresses, ingress(name, annotations, class)).await;
        assert_eq!(made["spec"]["ingressClassName"], expected, "{name}");
    }
}

#[tokio::test]
async fn claims_grow_only_when_bound_and_allowed_by_their_class() {
    let world = world().await;
    let claims = "/api/v1/namespaces/team/persistentvolumeclaims";
    for (name, allowed) in [("fixed", false), ("grows", true)] {
        let class =
            json!({"metadata": {"name": name}, "provisioner": "example.com/p", "allowVolumeExpansion": allowed});
        world.make("/apis/storage.k8s.io/v1/storageclasses", class).await;
    }
    let size = |size: &str| json!({"resources": {"requests": {"storage": size}}});
    for (name, class, phase, expected) in
        [("a", "grows", "Bound", 200), ("b", "fixed", "Bound", 403), ("c", "grows", "Pending", 422)]
    {
        let mut spec = size("1Gi");
        spec["accessModes"] = json!(["ReadWriteOnce"]);
        spec["storageClassName"] = class.into();
        spec["volumeName"] = "v".into();
        world.make(claims, json!({"metadata": {"name": name}, "spec": spec})).await;
        let path = format!("{claims}/{name}");
        let bound = world.ask("PATCH", &format!("{path}/status"), json!({"status": {"phase": phase}})).await;
        assert_eq!(bound.code, 200, "{name}: {}", bound.body);
        let labelled = world.ask("PATCH", &path, json!({"metadata": {"labels": {"a": "b"}}})).await;
        assert_eq!(labelled.code, 200, "{name}: {}", labelled.body);
        let grown = world.ask("PATCH", &path, json!({"spec": size("2Gi")})).await;
        assert_eq!(grown.code, expected, "{name}: {}", grown.body);
    }
}
