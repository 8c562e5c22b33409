//! Pod Security as clients see it: refusals, warnings and audit notes by the labels of a namespace.

mod admission_world;

use admission_world::World;
use apiserver::admission::pod_security::PodSecurity;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/guarded/pods";

async fn world(labels: Value) -> World {
    let world = World::serving(kinds::builtin(), vec![Box::new(PodSecurity)]).await;
    let labels: serde_json::Map<String, Value> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(mode, level)| (format!("pod-security.kubernetes.io/{mode}"), level.clone()))
        .collect();
    world.make("/api/v1/namespaces", json!({"metadata": {"name": "guarded", "labels": labels}})).await;
    world.settle().await;
    world
}

fn pod(name: &str, host_network: bool) -> Value {
    json!({"metadata": {"name": name}, "spec": {"hostNetwork": host_network, "containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn enforced_levels_refuse_pods_and_warn_about_workloads() {
    let world = world(json!({"enforce": "baseline", "audit": "restricted"})).await;
    let refused = world.ask("POST", PODS, pod("bad", true)).await;
    let text =
        "pods \"bad\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
    assert_eq!((refused.code, refused.message()), (403, text));
    assert_eq!(world.ask("POST", PODS, pod("good", false)).await.code, 201);
    let audited = world.audited("pod-security.kubernetes.io/audit-violations").await.expect("an audit note");
    assert!(
        audited.starts_with("would violate PodSecurity \"restricted:latest\": allowPrivilegeEscalation"),
        "{audited}"
    );
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod("x", true)["spec"]});
    let deployment =
        json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let made = world.ask("POST", "/apis/apps/v1/namespaces/guarded/deployments", deployment).await;
    let warning = "299 - \"would violate PodSecurity \\\"baseline:latest\\\": host namespaces (hostNetwork=true)\"";
    assert_eq!((made.code, made.warnings), (201, vec![warning.to_owned()]));
    // A change of labels is not judged, a new image is.
    let labelled = world.ask("PATCH", &format!("{PODS}/good"), json!({"metadata": {"labels": {"x": "y"}}})).await;
    assert_eq!(labelled.code, 200);
}

#[tokio::test]
async fn namespaces_are_checked_when_their_level_changes() {
    let world = world(json!({})).await;
    for name in ["b", "a"] {
        assert_eq!(world.ask("POST", PODS, pod(name, true)).await.code, 201);
    }
    world.settle().await;
    let label = |level: &str| json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}});
    let namespace = "/api/v1/namespaces/guarded";
    let reply = world.ask("PATCH", namespace, label("baseline")).await;
    let quoted = |text: &str| format!("299 - {}", Value::from(text));
    let expected = [
        "existing pods in namespace \"guarded\" violate the new PodSecurity enforce level \"baseline:latest\"",
        "a (and 1 other pod): host namespaces",
    ];
    assert_eq!((reply.code, reply.warnings), (200, expected.map(quoted).to_vec()));
    let reply = world.ask("PATCH", namespace, label("strict")).await;
    let text = "Namespace \"guarded\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \
        \"strict\": must be one of privileged, baseline, restricted";
    assert_eq!((reply.code, reply.message()), (422, text));
}
