//! Placement cases: the chosen node, or the message users see.

use object::Object;
use placement::{Budget, Cluster, Labels, Pod, VolumeNeeds, place, preempt};
use serde_json::{Value, json};

fn node(name: &str, more: Value) -> Object {
    let mut node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}});
    json_merge(&mut node, more);
    Object::from_value(node).expect("a map")
}

fn pod(name: &str, more: Value) -> Object {
    let mut pod =
        json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"containers": [{}]}});
    json_merge(&mut pod, more);
    Object::from_value(pod).expect("a map")
}

fn json_merge(target: &mut Value, more: Value) {
    match (target, more) {
        (Value::Object(target), Value::Object(more)) => {
            for (key, value) in more {
                json_merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, more) => *target = more,
    }
}

fn on(node: &str) -> Value {
    json!({"spec": {"nodeName": node}})
}

fn asks(cpu: &str) -> Value {
    json!({"spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}})
}

fn merged(parts: &[Value]) -> Value {
    let mut all = json!({});
    parts.iter().for_each(|part| json_merge(&mut all, part.clone()));
    all
}

fn labelled(key: &str, value: &str) -> Value {
    json!({"metadata": {"labels": {key: value}}})
}

fn cluster(nodes: &[Object], pods: &[Object]) -> Cluster {
    let mut cluster = Cluster::default();
    nodes.iter().for_each(|node| _ = cluster.set_node(node));
    pods.iter().for_each(|pod| cluster.set_pod(&Pod::read(pod)));
    cluster
}

/// Expects a node name or the message.
#[track_caller]
fn check(nodes: &[Object], placed: &[Object], new: Value, expected: &str) {
    let outcome = place(&cluster(nodes, placed), &Pod::read(&pod("new", new.clone())), &VolumeNeeds::default());
    let found = outcome.node.map_or_else(|| outcome.refusals.message(), |node| node.to_string());
    assert_eq!(found, expected, "{new}");
}

#[test]
fn no_pod_fits_without_nodes() {
    check(&[], &[], json!({}), "no nodes available to schedule pods");
}

#[test]
fn a_pod_is_placed_where_it_fits() {
    let nodes = [node("a", json!({})), node("b", json!({}))];
    let full = [pod("p", merged(&[on("a"), asks("3500m")]))];
    check(&nodes, &full, asks("1"), "b");
    check(&nodes, &full, asks("5"), "0/2 nodes are available: 2 Insufficient cpu.");
    let gpu = json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "4", "a.com/gpu": "1"}}}]}});
    check(&nodes, &full, gpu, "0/2 nodes are available: 1 Insufficient cpu, 2 Insufficient a.com/gpu.");
    let crowded: Vec<Object> = (0..10).map(|i| pod(&format!("p{i}"), on("a"))).collect();
    check(&nodes[..1], &crowded, json!({}), "0/1 nodes are available: 1 Too many pods.");
}

#[test]
fn cordons_taints_selectors_and_names_keep_pods_away() {
    let cordoned = node("a", json!({"spec": {"unschedulable": true}}));
    let tainted = node("b", json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}));
    let zoned = node("c", labelled("zone", "z1"));
    let nodes = [cordoned, tainted, zoned];
    let wants = json!({"spec": {"nodeSelector": {"zone": "z2"}}});
    let expected = "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, \
        1 node(s) had untolerated taint(s), 1 node(s) were unschedulable.";
    check(&nodes, &[], wants, expected);
    check(&nodes, &[], json!({"spec": {"nodeSelector": {"zone": "z1"}}}), "c");
    let tolerates = json!([{"key": "k", "operator": "Exists"}]);
    let only_b = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]}}});
    check(&nodes, &[], json!({"spec": {"tolerations": tolerates, "affinity": only_b.clone()}}), "b");
    let expected = "0/3 nodes are available: 1 node(s) had untolerated taint(s), \
        2 node(s) didn't satisfy plugin(s) [NodeAffinity].";
    check(&nodes, &[], json!({"spec": {"affinity": only_b}}), expected);
}

#[test]
fn ports_of_the_node_are_used_once() {
    let port = |address: &str| json!({"spec": {"containers": [{"ports": [{"containerPort": 80, "hostPort": 80, "hostIP": address}]}]}});
    let nodes = [node("a", json!({}))];
    let expected = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
    check(&nodes, &[pod("p", merged(&[on("a"), port("")]))], port("10.0.0.1"), expected);
    check(&nodes, &[pod("p", merged(&[on("a"), port("10.0.0.2")]))], port("10.0.0.1"), "a");
}

fn near(kind: &str, app: &str, key: &str) -> Value {
    json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}]}}}})
}

#[test]
fn affinity_attracts_and_anti_affinity_repels() {
    let nodes =
        [node("a", labelled("zone", "z1")), node("b", labelled("zone", "z1")), node("c", labelled("zone", "z2"))];
    let web = labelled("app", "web");
    let placed = [pod("w", merged(&[on("a"), web.clone()]))];
    check(&nodes, &placed, near("podAffinity", "web", "kubernetes.io/hostname"), "a");
    check(&nodes, &placed, near("podAntiAffinity", "web", "zone"), "c");
    check(
        &nodes,
        &placed,
        near("podAffinity", "db", "zone"),
        "0/3 nodes are available: 3 node(s) didn't match pod affinity rules.",
    );
    // The first pod of a group that has affinity to itself may be placed anywhere.
    check(&nodes, &[], merged(&[near("podAffinity", "web", "zone"), web.clone()]), "a");
    let expected =
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match pod anti-affinity rules.";
    let tainted = node("c", json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}));
    check(&[nodes[0].clone(), nodes[1].clone(), tainted], &placed, near("podAntiAffinity", "web", "zone"), expected);
    // Anti-affinity of placed pods applies too.
    let hermit = [pod("h", merged(&[on("a"), near("podAntiAffinity", "web", "zone")]))];
    check(&nodes, &hermit, web.clone(), "c");
    let expected = "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules.";
    check(&nodes[..2], &hermit, web, expected);
}

#[test]
fn affinity_terms_select_other_namespaces() {
    let nodes = [node("a", json!({})), node("b", json!({}))];
    let foreign = pod("w", merged(&[on("b"), labelled("app", "web"), json!({"metadata": {"namespace": "other"}})]));
    let term = |more: Value| {
        let mut term =
            json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"});
        json_merge(&mut term, more);
        json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}})
    };
    let expected = "0/2 nodes are available: 2 node(s) didn't match pod affinity rules.";
    check(&nodes, std::slice::from_ref(&foreign), term(json!({})), expected);
    check(&nodes, std::slice::from_ref(&foreign), term(json!({"namespaces": ["other"]})), "b");
    check(&nodes, std::slice::from_ref(&foreign), term(json!({"namespaceSelector": {}})), "b");
    let mut cluster = cluster(&nodes, &[foreign]);
    cluster.set_namespace("other", Labels::from_pairs([("team", "x")].into_iter()));
    let by_team = term(json!({"namespaceSelector": {"matchLabels": {"team": "x"}}}));
    let outcome = place(&cluster, &Pod::read(&pod("new", by_team)), &VolumeNeeds::default());
    assert_eq!(outcome.node.as_deref(), Some("b"));
}

fn spread(key: &str, more: Value) -> Value {
    let mut constraint = json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}});
    json_merge(&mut constraint, more);
    merged(&[labelled("app", "web"), json!({"spec": {"topologySpreadConstraints": [constraint]}})])
}

#[test]
fn pods_are_spread_over_domains() {
    let nodes =
        [node("a", labelled("zone", "z1")), node("b", labelled("zone", "z1")), node("c", labelled("zone", "z2"))];
    let web = |name: &str, at: &str| pod(name, merged(&[on(at), labelled("app", "web")]));
    check(&nodes, &[web("w", "a")], spread("zone", json!({})), "c");
    let expected = "0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints.";
    check(&nodes[..2], &[web("w", "a")], spread("zone", json!({"minDomains": 2})), expected);
    check(&nodes[..2], &[web("w", "a")], spread("zone", json!({})), "b");
    let expected =
        "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required label).";
    check(&[node("x", json!({}))], &[], spread("zone", json!({})), expected);
    // A terminating pod no longer counts.
    let leaving = pod("w", merged(&[on("c"), labelled("app", "web"), json!({"metadata": {"deletionTimestamp": "x"}})]));
    check(&nodes, &[web("w1", "a"), leaving], spread("zone", json!({})), "c");
    check(&nodes, &[web("w", "c")], spread("zone", json!({"whenUnsatisfiable": "ScheduleAnyway"})), "a");
}

#[test]
fn unusable_nodes_are_not_domains_by_default() {
    let tainted = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    let nodes = [node("a", labelled("zone", "z1")), node("b", merged(&[labelled("zone", "z2"), tainted]))];
    let placed = [pod("w", merged(&[on("a"), labelled("app", "web")]))];
    let expected = "0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, \
        1 node(s) had untolerated taint(s).";
    check(&nodes, &placed, spread("zone", json!({})), expected);
    check(&nodes, &placed, spread("zone", json!({"nodeTaintsPolicy": "Honor"})), "a");
}

#[test]
fn pods_of_one_controller_are_spread_by_default() {
    let nodes = [node("a", json!({})), node("b", json!({}))];
    let owned = json!({"metadata": {"ownerReferences": [{"uid": "rs", "controller": true}]}});
    // Node b is the busier one, but has none of the controller's pods.
    let placed = [pod("s", merged(&[on("a"), owned.clone()])), pod("x", on("b")), pod("y", on("b"))];
    check(&nodes, &placed, owned, "b");
}

#[test]
fn preferences_decide_among_feasible_nodes() {
    let reluctant = node("a", json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}));
    check(&[reluctant, node("b", json!({}))], &[], json!({}), "b");
    let nodes = [node("a", json!({})), node("b", labelled("disk", "ssd"))];
    let prefers = json!({"spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 5, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]}}}});
    check(&nodes, &[], prefers, "b");
    let prefers = json!({"spec": {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 100, "podAffinityTerm": {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}}]}}}});
    check(&nodes, &[pod("w", merged(&[on("b"), labelled("app", "web")]))], prefers, "b");
}

fn important(priority: i64, cpu: &str) -> Value {
    merged(&[asks(cpu), json!({"spec": {"priority": priority}})])
}

#[track_caller]
fn check_preemption(placed: &[Object], new: Value, budgets: &[Budget], expected: (Option<&str>, &[&str], &str)) {
    let nodes = [node("a", json!({})), node("b", json!({}))];
    let mut cluster = cluster(&nodes, placed);
    let new = Pod::read(&pod("new", new));
    let outcome = place(&cluster, &new, &VolumeNeeds::default());
    assert_eq!(outcome.node, None);
    let found = preempt(&mut cluster, &new, &VolumeNeeds::default(), &outcome, budgets);
    let victims: Vec<&str> = found.victims.iter().map(|victim| &*victim.name).collect();
    assert_eq!((found.node.as_deref(), &victims[..], found.message.as_str()), expected);
    assert_eq!(place(&cluster, &new, &VolumeNeeds::default()), outcome, "the cluster is unchanged");
}

#[test]
fn preemption_picks_the_least_harmful_node() {
    let placed = |priority_a: i64, priority_b: i64| {
        [
            pod("a1", merged(&[on("a"), important(priority_a, "3")])),
            pod("b1", merged(&[on("b"), important(priority_b, "2")])),
            pod("b2", merged(&[on("b"), important(priority_b, "2"), labelled("app", "db")])),
        ]
    };
    check_preemption(&placed(1, 2), important(10, "3"), &[], (Some("a"), &["a1"], ""));
    check_preemption(&placed(2, 1), important(10, "2"), &[], (Some("b"), &["b2"], ""));
    let no_victims = "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.";
    check_preemption(&placed(10, 10), important(10, "3"), &[], (None, &[], no_victims));
    let useless = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    check_preemption(&placed(1, 1), important(10, "5"), &[], (None, &[], useless));
    let never = merged(&[important(10, "3"), json!({"spec": {"preemptionPolicy": "Never"}})]);
    let expected = "preemption: not eligible due to preemptionPolicy=Never.";
    check_preemption(&placed(1, 1), never, &[], (None, &[], expected));
}

#[test]
fn budgets_are_broken_last() {
    let selector = object::selector::LabelSelector::parse("app=db").expect("a selector");
    let budget = Budget { namespace: "default".into(), selector, allowed: 0, disrupted: Default::default() };
    let placed = [
        pod("a1", merged(&[on("a"), important(1, "3"), labelled("app", "db")])),
        pod("b1", merged(&[on("b"), important(2, "2")])),
        pod("b2", merged(&[on("b"), important(2, "2"), labelled("app", "db")])),
    ];
    // The lower priority on a is protected by the budget; on b one pod is not.
    check_preemption(&placed, important(10, "2"), &[budget], (Some("b"), &["b1"], ""));
}

#[test]
fn capacity_is_reserved_for_the_nominated_pod() {
    let mut cluster = cluster(&[node("a", json!({}))], &[]);
    let first = Pod::read(&pod("first", important(10, "3")));
    cluster.nominate(&first, "a");
    let find = |cluster: &Cluster, pod: &Pod| place(cluster, pod, &VolumeNeeds::default()).node;
    let lesser = Pod::read(&pod("lesser", important(5, "2")));
    assert_eq!(find(&cluster, &lesser), None);
    assert_eq!(find(&cluster, &first).as_deref(), Some("a"));
    let greater = Pod::read(&pod("greater", important(20, "2")));
    assert_eq!(find(&cluster, &greater).as_deref(), Some("a"));
    cluster.withdraw_nomination("default", "first");
    assert_eq!(find(&cluster, &lesser).as_deref(), Some("a"));
}

#[test]
fn volumes_restrict_the_nodes() {
    let cluster = cluster(&[node("a", labelled("topology.kubernetes.io/zone", "z1")), node("b", json!({}))], &[]);
    let only = |name: &str| {
        placement::NodeSelector::read(&json!({"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}]}))
    };
    let new = Pod::read(&pod("new", json!({})));
    let check = |needs: VolumeNeeds, expected: &str| {
        let outcome = place(&cluster, &new, &needs);
        let found = outcome.node.map_or_else(|| outcome.refusals.message(), |node| node.to_string());
        assert_eq!(found, expected, "{needs:?}");
    };
    let bound = |selector| placement::BoundVolume { node_affinity: selector, ..Default::default() };
    check(VolumeNeeds { bound: vec![bound(Some(only("b")))], ..Default::default() }, "b");
    let expected = "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity.";
    check(VolumeNeeds { bound: vec![bound(Some(only("c")))], ..Default::default() }, expected);
    let labels = Labels::from_pairs([("topology.kubernetes.io/zone", "z2__z3")].into_iter());
    let zoned = placement::BoundVolume { labels, ..Default::default() };
    check(VolumeNeeds { bound: vec![zoned], ..Default::default() }, "b");
    let unbound = placement::UnboundClaim { candidates: vec![Some(only("b"))], can_be_made: None };
    check(VolumeNeeds { unbound: vec![unbound], ..Default::default() }, "b");
    let expected = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.";
    check(VolumeNeeds { unbound: vec![Default::default()], ..Default::default() }, expected);
    let refusal = Some("pod has unbound immediate PersistentVolumeClaims".to_owned());
    let expected = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.";
    check(VolumeNeeds { refusal, ..Default::default() }, expected);
}
