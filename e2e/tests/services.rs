//! Services across clusters with the real binary: two push members and one pull member, both ways of Karmada.

use std::process::{Child, Command, Output, Stdio};

use e2e::agent::Agent;
use e2e::eventually::eventually;
use e2e::fleet::{CROSSING, READY, run, text};
use e2e::flotilla::{Flotilla, binary};
use e2e::light_fleet::QUICK_AGENT;
use e2e::light_member::LightMember;
use e2e::member;
use serde_json::{Value, json};

const WEB: &str = include_str!("../../examples/multi-cluster-service/web.yaml");
const DB: &str = include_str!("../../examples/service-export/db.yaml");
const CRDS: &str = include_str!("../../examples/service-export/crds.yaml");
/// Addresses of slices that came from member1.
const PROVIDED: &[&str] = &[
    "get",
    "endpointslices",
    "-l=kubernetes.io/service-name=web,endpointslice.kubernetes.io/managed-by=endpointslice-dispatch-controller.karmada.io",
    "-o=jsonpath={.items[*].endpoints[*].addresses[0]}",
];

struct World {
    plane: Flotilla,
    members: Vec<LightMember>,
    _agent: Agent,
}

impl World {
    fn start() -> Self {
        let plane = Flotilla::start_with(&["--cluster-success-threshold=1s", "--cluster-status-update-frequency=2s"]);
        let members: Vec<LightMember> = (0..3).map(|_| LightMember::start(&[])).collect();
        for (name, member) in ["member1", "member2"].iter().zip(&members) {
            let kubeconfig = member.kubeconfig.to_str().expect("a path in UTF-8");
            let joined = run(&binary(), &plane.kubeconfig, &["join", name, "--cluster-kubeconfig", kubeconfig]);
            assert!(joined.status.success(), "{}", text(&joined));
        }
        let outside = ("member3", members[2].kubeconfig.as_path());
        let agent = Agent::ours_outside(&plane.kubeconfig, outside, QUICK_AGENT);
        let world = Self { plane, members, _agent: agent };
        for name in ["member1", "member2", "member3"] {
            world.on_plane(&["get", "cluster", name, READY], "True");
        }
        world
    }

    fn ask(&self, arguments: &[&str]) -> String {
        said(&self.plane.kubectl(arguments))
    }

    #[track_caller]
    fn on_plane(&self, arguments: &[&str], expected: &str) {
        let mut answer = String::new();
        eventually(&format!("{arguments:?} is {expected:?}"), CROSSING, || {
            answer = self.ask(arguments);
            answer == expected
        });
    }

    /// In member 1, 2 or 3.
    #[track_caller]
    fn in_member(&self, number: usize, arguments: &[&str], holds: impl Fn(&str) -> bool) {
        let mut answer = String::new();
        eventually(&format!("member{number}: {arguments:?}"), CROSSING, || {
            answer = said(&self.members[number - 1].kubectl(arguments));
            holds(&answer)
        });
    }

    fn apply(&self, documents: &str) {
        let output = member::apply(&self.plane.kubeconfig, &["apply", "-f", "-"], documents);
        assert!(output.status.success(), "{}", text(&output));
        assert!(!text(&output).contains("Warning"), "{}", text(&output));
    }

    fn succeed(&self, arguments: &[&str]) {
        let output = self.plane.kubectl(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn count(answer: &str) -> usize {
    answer.split_whitespace().count()
}

#[test]
fn services_reach_across_push_and_pull_members() {
    let world = World::start();
    for member in &world.members {
        let output = member::apply(&member.kubeconfig, &["apply", "-f", "-"], CRDS);
        assert!(output.status.success(), "{}", text(&output));
    }
    world.apply(WEB);
    for number in 2..=3 {
        world.in_member(number, PROVIDED, |answer| count(answer) == 2);
        world.in_member(number, &["get", "service", "web", "-o=name"], |answer| answer == "service/web");
    }
    let condition = |kind: &str| format!(r#"-o=jsonpath={{.status.conditions[?(@.type=="{kind}")].reason}}"#);
    world.on_plane(&["get", "mcs", "web", &condition("ServiceApplied")], "ServiceAppliedSucceed");
    world.on_plane(&["get", "mcs", "web", &condition("EndpointSliceDispatched")], "EndpointSliceDispatchedSucceed");

    // Slices follow the pods, also from and to the pull member.
    world.succeed(&["scale", "deploy", "web", "--replicas=3"]);
    world.in_member(2, PROVIDED, |answer| count(answer) == 3);
    world.in_member(3, PROVIDED, |answer| count(answer) == 3);
    let turned = r#"{"spec": {"providerClusters": [{"name": "member3"}], "consumerClusters": [{"name": "member1"}]}}"#;
    world.succeed(&["patch", "mcs", "web", "--type=merge", "-p", turned]);
    let moved = r#"{"spec": {"placement": {"clusterAffinity": {"clusterNames": ["member3"]}}}}"#;
    world.succeed(&["patch", "propagationpolicy", "web", "--type=merge", "-p", moved]);
    world.in_member(1, PROVIDED, |answer| count(answer) == 3);
    world.in_member(2, PROVIDED, |answer| answer.is_empty());

    refuses_slices_of_others(&world);
    imports_what_is_exported(&world);

    world.succeed(&["delete", "mcs", "web"]);
    world.in_member(1, PROVIDED, |answer| answer.is_empty());
    let left = "multiclusterservice.karmada.io/name=web";
    world.on_plane(&["get", "works", "-A", "-l", left, "-o=name"], "");

    a_member_that_resolves_no_names_is_tainted_until_it_does(&world);
}

const WITHOUT_NAMES: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterTaintPolicy
metadata: {name: without-names}
spec:
  addOnConditions: [{conditionType: ServiceDomainNameResolutionReady, operator: In, statusValues: ['False']}]
  removeOnConditions: [{conditionType: ServiceDomainNameResolutionReady, operator: In, statusValues: ['True']}]
  taints: [{key: without-names, effect: NoSchedule}]
---
apiVersion: remedy.karmada.io/v1alpha1
kind: Remedy
metadata: {name: without-names}
spec:
  decisionMatches:
  - clusterConditionMatch: {conditionType: ServiceDomainNameResolutionReady, operator: Equal, conditionStatus: 'False'}
  actions: [TrafficControl]
";

/// The detectors of all nodes of a member, as a DaemonSet would run them.
struct Detectors(Vec<Child>);

impl Detectors {
    fn start(world: &World, member: &LightMember, name: &str) -> Self {
        let nodes = said(&member.kubectl(&["get", "nodes", "-o=jsonpath={.items[*].metadata.name}"]));
        let detector = |node: &str| {
            let mut command = Command::new(binary());
            command.args([
                "service-name-resolution-detector",
                "--cluster-name=member2",
                "--coredns-detect-period=500ms",
            ]);
            command.args(["--coredns-success-threshold=1s", "--coredns-failure-threshold=1s"]);
            command.arg(format!("--host-name={node}")).arg(format!("--lookup-name={name}"));
            command.arg("--kubeconfig").arg(&member.kubeconfig);
            command.arg("--karmada-kubeconfig").arg(&world.plane.kubeconfig);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().expect("a detector starts")
        };
        Self(nodes.split_whitespace().map(detector).collect())
    }
}

impl Drop for Detectors {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Ends with SIGTERM, so that the leader releases its lease.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

fn a_member_that_resolves_no_names_is_tainted_until_it_does(world: &World) {
    world.apply(WITHOUT_NAMES);
    let condition = r#"-o=jsonpath={.status.conditions[?(@.type=="ServiceDomainNameResolutionReady")].status}"#;
    let taints = r#"-o=jsonpath={.spec.taints[?(@.key=="without-names")].effect}"#;
    let actions = "-o=jsonpath={.status.remedyActions[*]}";
    let check = |name: &str, status: &str, taint: &str, action: &str| {
        let _detectors = Detectors::start(world, &world.members[1], name);
        world.on_plane(&["get", "cluster", "member2", condition], status);
        world.in_member(2, &["get", "nodes", &condition.replace("{.status", "{.items[*].status")], |answer| {
            count(answer) > 0 && answer.split_whitespace().all(|found| found == status)
        });
        world.on_plane(&["get", "cluster", "member2", taints], taint);
        world.on_plane(&["get", "cluster", "member2", actions], action);
    };
    check("localhost", "True", "", "");
    check("kubernetes.invalid", "False", "NoSchedule", "TrafficControl");
    check("localhost", "True", "", "");
}

/// Forges Works as the agent of member2 could, which provides nothing.
fn refuses_slices_of_others(world: &World) {
    let slices = ["get", "works", "-n=karmada-es-member3", "-o=json", "-l=multiclusterservice.karmada.io/name=web"];
    let mut forged: Value = serde_json::from_str(&world.ask(&slices)).expect("a list");
    for work in forged["items"].as_array_mut().expect("items") {
        let metadata = &work["metadata"];
        work["metadata"] =
            json!({"name": metadata["name"], "namespace": "karmada-es-member2", "labels": metadata["labels"]});
    }
    let forged = forged.to_string();
    let written = member::apply(&world.plane.kubeconfig, &["create", "-f", "-"], &forged);
    assert!(text(&written).contains("created"), "{}", text(&written));
    // The scale change passes the same controllers after it.
    world.succeed(&["scale", "deploy", "web", "--replicas=2"]);
    world.in_member(1, PROVIDED, |answer| count(answer) == 2);
    let from_member2 = "-o=jsonpath={.items[?(@.metadata.annotations.endpointslice\\.karmada\\.io/provision-cluster==\"member2\")].metadata.name}";
    assert_eq!(world.ask(&["get", "works", "-n=karmada-es-member1", from_member2]), "");
}

fn imports_what_is_exported(world: &World) {
    world.apply(DB);
    world.on_plane(&["get", "service", "derived-db", "-o=jsonpath={.spec.ports[0].port}"], "80");
    let slices = [
        "get",
        "endpointslices",
        "-l=kubernetes.io/service-name=derived-db",
        "-o=jsonpath={.items[*].endpoints[*].addresses[0]}",
    ];
    eventually("the slice is imported", CROSSING, || count(&world.ask(&slices)) == 1);
    world.in_member(2, &["get", "service", "derived-db", "-o=name"], |answer| answer == "service/derived-db");
    world.in_member(2, &slices, |answer| count(answer) == 1);
    world.succeed(&["delete", "serviceexport", "db"]);
    eventually("the slice is gone", CROSSING, || world.ask(&slices).is_empty());
    world.in_member(2, &slices, |answer| answer.is_empty());
    world.succeed(&["delete", "serviceimport", "db"]);
    world.on_plane(&["get", "service", "derived-db", "--ignore-not-found", "-o=name"], "");
}
