//! Sums over nodes and pods, as data.

use super::*;

fn node(name: &str, allocatable: Value) -> Arc<Object> {
    let value = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}});
    Arc::new(Object::from_value(value).expect("a map"))
}

fn pod(node: &str, phase: &str, spec: Value) -> Object {
    let mut value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d",
        "uid": "u", "resourceVersion": "1"}, "spec": spec, "status": {"phase": phase}});
    value["spec"]["nodeName"] = node.into();
    let mut pod = Object::from_value(value).expect("a map");
    trim_pod(&mut pod);
    pod
}

fn asks(requests: Value) -> Value {
    json!({"containers": [{"resources": {"requests": requests}}]})
}

#[track_caller]
fn check_requests(spec: Value, expected: Value) {
    let pod = pod("n", "Running", spec);
    assert_eq!(pod.get(&["requests"]), Some(&expected));
    let once = pod.clone();
    assert_eq!((once.name(), once.namespace(), once.uid(), once.resource_version()), ("p", "d", "u", "1"));
}

#[test]
fn a_pod_requests_its_containers_or_its_largest_init_container() {
    check_requests(json!({}), json!({"pods": 1}));
    check_requests(asks(json!({"cpu": "250m", "memory": "1Gi", "odd": "7"})), {
        json!({"cpu": 250, "memory": 1_073_741_824, "pods": 1})
    });
    check_requests(
        json!({"containers": [{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "500m",
            "example.com/gpu": "2"}}}], "overhead": {"cpu": "100m"}}),
        json!({"cpu": 1600, "example.com/gpu": 2, "pods": 1}),
    );
    check_requests(
        json!({"containers": [{"resources": {"requests": {"cpu": "1"}}}],
            "initContainers": [{"resources": {"requests": {"cpu": "3", "memory": "5"}}}]}),
        json!({"cpu": 3000, "memory": 5, "pods": 1}),
    );
    check_requests(
        json!({"containers": [{"resources": {"requests": {"cpu": "1"}}}], "initContainers": [
            {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
            {"resources": {"requests": {"cpu": "500m"}}}]}),
        json!({"cpu": 2000, "pods": 1}),
    );
}

#[test]
fn sums_follow_created_moved_finished_and_deleted_pods() {
    let mut usage = Usage::default();
    let waiting = pod("", "Pending", asks(json!({"cpu": "1"})));
    let placed = pod("n1", "Running", asks(json!({"cpu": "1"})));
    let ended = pod("n1", "Succeeded", asks(json!({"cpu": "1"})));
    usage.apply(None, Some(&waiting));
    assert_eq!((usage.waiting.get("cpu"), usage.of_node("n1")), (Some(&1000), None));
    usage.apply(Some(&waiting), Some(&placed));
    assert!(usage.waiting.is_empty());
    assert_eq!(usage.of_node("n1"), Some(&Amounts::from([("cpu".into(), 1000), ("pods".into(), 1)])));
    usage.apply(Some(&placed), Some(&ended));
    assert_eq!(usage, Usage::default());
    usage.apply(Some(&ended), None);
    assert_eq!(usage, Usage::default());
}

#[test]
fn the_summary_has_the_format_of_karmada() {
    let nodes = [
        node("a", json!({"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "10Gi"})),
        node("b", json!({"cpu": "3500m", "memory": "8Gi", "pods": "110"})),
    ];
    let mut usage = Usage::default();
    usage.apply(None, Some(&pod("a", "Running", asks(json!({"cpu": "250m", "memory": "128Mi"})))));
    usage.apply(None, Some(&pod("b", "Running", asks(json!({"cpu": "250m", "hugepages-2Mi": "4Mi"})))));
    usage.apply(None, Some(&pod("", "Pending", asks(json!({"cpu": "2"})))));
    let summary = resource_summary(&nodes, &usage, &[]);
    assert_eq!(
        serde_json::to_value(summary).expect("JSON"),
        json!({
            "allocatable": {"cpu": "7500m", "memory": "16Gi", "pods": "220", "ephemeral-storage": "10Gi"},
            "allocating": {"cpu": "2", "pods": "1"},
            "allocated": {"cpu": "500m", "memory": "128Mi", "pods": "2", "hugepages-2Mi": "4Mi"},
        })
    );
    assert_eq!(node_summary(&nodes), NodeSummary { total_num: 2, ready_num: 2 });
}

fn model(grade: u32, cpu: &str, memory: &str) -> ResourceModel {
    serde_json::from_value(json!({"grade": grade, "ranges": [
        {"name": "cpu", "min": cpu, "max": "100"}, {"name": "memory", "min": memory, "max": "1Ti"}]}))
    .expect("a model")
}

#[test]
fn nodes_are_counted_in_the_highest_grade_all_resources_reach() {
    let models = [model(0, "0", "0"), model(1, "1", "4Gi"), model(2, "2", "16Gi")];
    let nodes = [
        node("big", json!({"cpu": "8", "memory": "32Gi", "pods": "110"})),
        node("thin", json!({"cpu": "8", "memory": "4Gi", "pods": "110"})),
        node("used", json!({"cpu": "2", "memory": "32Gi", "pods": "110"})),
        node("full", json!({"cpu": "8", "memory": "32Gi", "pods": "1"})),
        node("last", json!({"cpu": "8", "memory": "32Gi", "pods": "110"})),
    ];
    let mut usage = Usage::default();
    usage.apply(None, Some(&pod("used", "Running", asks(json!({"cpu": "1500m"})))));
    usage.apply(None, Some(&pod("full", "Running", asks(json!({})))));
    let counts: Vec<(u32, i32)> =
        resource_summary(&nodes, &usage, &models).allocatable_modelings.iter().map(|m| (m.grade, m.count)).collect();
    assert_eq!(counts, [(0, 1), (1, 1), (2, 2)]);
}

#[test]
fn the_estimator_gets_nodes_with_their_numbers() {
    let mut usage = Usage::default();
    usage.apply(None, Some(&pod("a", "Running", asks(json!({"cpu": "250m"})))));
    let value = json!({"metadata": {"name": "a", "labels": {"zone": "z"}},
        "spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "2", "memory": "1Ki", "pods": "5"}, "capacity": {"cpu": "3"},
            "conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True", "message": "m"}]}});
    let mut node = Object::from_value(value).expect("a map");
    trim_node(&mut node);
    assert_eq!(node.items(&["status", "conditions"]), [json!({"type": "Ready", "status": "True"})]);
    let found = cluster_nodes(&[Arc::new(node)], &usage).nodes.remove(0);
    assert_eq!((found.name.as_str(), found.is_unschedulable, found.taints.len()), ("a", true, 1));
    assert_eq!(found.labels.get("zone").map(String::as_str), Some("z"));
    assert_eq!(found.allocatable, Amounts::from([("cpu".into(), 2000), ("memory".into(), 1024), ("pods".into(), 5)]));
    assert_eq!(found.requested, Amounts::from([("cpu".into(), 250), ("pods".into(), 1)]));
}

#[test]
fn a_member_is_schedulable_while_a_node_is_ready_and_not_cordoned() {
    let node = |ready: &str, cordoned: bool| {
        let value = json!({"metadata": {"name": "n"}, "spec": {"unschedulable": cordoned},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        let mut node = Object::from_value(value).expect("a map");
        trim_node(&mut node);
        Arc::new(node)
    };
    assert_eq!(Nodes::of(&[]), Nodes::None);
    assert_eq!(Nodes::of(&[node("True", true), node("True", false)]), Nodes::Usable);
    assert_eq!(Nodes::of(&[node("True", true), node("False", false)]), Nodes::Cordoned);
    assert_eq!(Nodes::of(&[node("Unknown", false), node("False", true)]), Nodes::NotReady);
}
