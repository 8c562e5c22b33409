//! Tests of endpoints over an in-memory API, in virtual time, and of slice plans.

use std::sync::Arc;
use std::time::Duration;

use object::Object;
use object::builtin::{endpoint_slices, endpoints, nodes, pods, services};
use serde_json::{Value, json};

use crate::endpoints::pod::PodEndpoint;
use crate::endpoints::service::plan_endpoints;
use crate::endpoints::slices::{ENDPOINTS_MAX, plan_slices};
use crate::testing::{ServicesTestbed, node, running};

fn service(more: Value) -> Value {
    let mut service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ipFamilies": ["IPv4"],
        "clusterIP": "10.0.0.9", "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]}});
    for (key, value) in more.as_object().into_iter().flatten() {
        service["spec"][key] = value.clone();
    }
    service
}

/// Returns `address ready/serving/terminating` of every endpoint in every slice.
async fn seen(testbed: &ServicesTestbed) -> Vec<String> {
    testbed.pass(Duration::from_secs(1)).await;
    let mut seen = Vec::new();
    for slice in testbed.list(&endpoint_slices()).await {
        for endpoint in slice.items(&["endpoints"]) {
            let is = |name: &str| u8::from(endpoint["conditions"][name] == true);
            let name = endpoint["targetRef"]["name"].as_str().unwrap_or_default();
            seen.push(format!("{name} {}{}{}", is("ready"), is("serving"), is("terminating")));
        }
    }
    seen.sort();
    seen
}

#[tokio::test(start_paused = true)]
async fn endpoints_follow_readiness() {
    let testbed = ServicesTestbed::start().await;
    testbed.create(&services(), service(json!({}))).await;
    assert_eq!(testbed.list(&endpoint_slices()).await.len(), 1, "an empty slice for a Service without endpoints");
    let mut zoned = node("n");
    zoned["metadata"]["labels"]["topology.kubernetes.io/zone"] = "z".into();
    testbed.create(&nodes(), zoned).await;
    testbed.seed(&pods(), running("a", "n", true));
    testbed.seed(&pods(), running("b", "n", false));
    assert_eq!(seen(&testbed).await, ["a 110", "b 000"]);
    let all = testbed.list(&endpoint_slices()).await;
    let slice = &all[0];
    assert_eq!(all.len(), 1);
    assert_eq!(slice.label("kubernetes.io/service-name"), Some("web"));
    assert_eq!(slice.items(&["ports"]), [json!({"name": "http", "port": 8080, "protocol": "TCP"})]);
    let endpoint = &slice.items(&["endpoints"])[0];
    assert_eq!((&endpoint["nodeName"], &endpoint["zone"]), (&json!("n"), &json!("z")));
    let legacy = testbed.get(&endpoints(), "web").await;
    assert_eq!(legacy.items(&["subsets"])[0]["addresses"][0]["targetRef"]["name"], "a");
    assert_eq!(legacy.items(&["subsets"])[0]["notReadyAddresses"][0]["targetRef"]["name"], "b");

    testbed.patch_status(&pods(), "b", json!({"conditions": [{"type": "Ready", "status": "True"}]})).await;
    assert_eq!(seen(&testbed).await, ["a 110", "b 110"]);
    testbed.patch(&pods(), "a", json!({"metadata": {"finalizers": ["test/slow"]}})).await;
    testbed.delete(&pods(), "a").await;
    assert_eq!(seen(&testbed).await, ["a 011", "b 110"]);
    testbed.patch(&pods(), "a", json!({"metadata": {"finalizers": null}})).await;
    testbed.patch(&pods(), "b", json!({"metadata": {"labels": {"app": "other"}}})).await;
    assert_eq!(seen(&testbed).await, Vec::<String>::new());
    assert_eq!(testbed.list(&endpoint_slices()).await.len(), 1);
    testbed.delete(&services(), "web").await;
    testbed.settle().await;
    assert!(testbed.find(&endpoints(), "web").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn publish_not_ready_addresses_is_applied() {
    let testbed = ServicesTestbed::start().await;
    testbed.seed(&pods(), running("a", "n", false));
    testbed.create(&services(), service(json!({"publishNotReadyAddresses": true, "clusterIP": "None"}))).await;
    assert_eq!(seen(&testbed).await, ["a 110"]);
    assert_eq!(testbed.list(&endpoint_slices()).await[0].label("service.kubernetes.io/headless"), Some(""));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_when_nothing_changes() {
    let testbed = ServicesTestbed::start().await;
    testbed.create(&services(), service(json!({}))).await;
    testbed.seed(&pods(), running("a", "n", true));
    testbed.pass(Duration::from_secs(1)).await;
    let before = testbed.api.calls().len();
    testbed.patch_status(&pods(), "a", json!({"message": "still here"})).await;
    testbed.patch(&services(), "web", json!({"metadata": {"annotations": {"a": "b"}}})).await;
    testbed.pass(Duration::from_secs(5)).await;
    let written: Vec<String> =
        testbed.api.calls()[before..].iter().filter(|call| call.contains("endpoint")).cloned().collect();
    assert_eq!(written, Vec::<String>::new());
}

fn pod(index: usize, port: i64) -> Arc<PodEndpoint> {
    Arc::new(PodEndpoint {
        name: format!("p{index:03}"),
        uid: format!("u{index}"),
        addresses: vec![format!("10.1.{}.{}", index / 200, index % 200 + 1).parse().expect("an address")],
        node: "n".into(),
        hostname: String::new(),
        subdomain: String::new(),
        is_ready: true,
        is_terminating: false,
        ports: vec![("http".into(), "TCP".into(), port)],
    })
}

/// Applies a plan as the API would.
fn written(existing: Vec<Arc<Object>>, service: &Object, pods: &[Arc<PodEndpoint>]) -> (Vec<Arc<Object>>, [usize; 3]) {
    let plan = plan_slices(service, &plan_endpoints(service, pods, |_| None), &existing);
    let counts = [plan.create.len(), plan.update.len(), plan.delete.len()];
    let gone: Vec<&str> = plan.delete.iter().map(|slice| slice.name()).collect();
    let mut slices: Vec<Arc<Object>> = Vec::new();
    for slice in existing.iter().filter(|slice| !gone.contains(&slice.name())) {
        let updated = plan.update.iter().find(|(old, _)| old.name() == slice.name());
        slices.push(updated.map_or_else(|| Arc::clone(slice), |(_, new)| Arc::new(new.clone())));
    }
    for (index, mut slice) in plan.create.into_iter().enumerate() {
        slice.set_name(&format!("s{}-{index}", existing.len()));
        slices.push(Arc::new(slice));
    }
    (slices, counts)
}

fn held(slices: &[Arc<Object>]) -> usize {
    assert!(slices.iter().all(|slice| slice.items(&["endpoints"]).len() <= ENDPOINTS_MAX));
    slices.iter().map(|slice| slice.items(&["endpoints"]).len()).sum()
}

#[test]
fn few_slices_change_when_few_pods_do() {
    let service = Object::from_value(service(json!({"ports": [{"port": 80, "targetPort": "http"}]}))).expect("a map");
    let mut pods: Vec<Arc<PodEndpoint>> = (0..250).map(|index| pod(index, 8080)).collect();
    let (slices, counts) = written(Vec::new(), &service, &pods);
    assert_eq!((counts, held(&slices)), ([3, 0, 0], 250));
    let (slices, counts) = written(slices, &service, &pods);
    assert_eq!(counts, [0, 0, 0]);
    // One is removed from the first slice and one is added: the same slice takes it.
    pods.remove(5);
    pods.push(pod(300, 8080));
    let (slices, counts) = written(slices, &service, &pods);
    assert_eq!((counts, held(&slices)), ([0, 1, 0], 250));
    // Pods with another port number are in a separate slice.
    pods.push(pod(301, 9090));
    let (slices, counts) = written(slices, &service, &pods);
    assert_eq!((counts, held(&slices)), ([1, 0, 0], 251));
    let (slices, counts) = written(slices, &service, &pods[..100]);
    assert_eq!(held(&slices), 100);
    assert!(counts[2] >= 1, "{counts:?}");
    let (slices, _) = written(slices, &service, &[]);
    assert_eq!((slices.len(), held(&slices)), (1, 0));
}
