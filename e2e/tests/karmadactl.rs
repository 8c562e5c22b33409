//! Karmada's own CLI works on our control plane.

use std::process::Output;

use e2e::fleet::{Fleet, run, text};
use e2e::flotilla::{Flotilla, programs};
use e2e::member::Member;

const CUSTOMIZATION: &str = "
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: cloneset}
spec:
  target: {apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet}
  customizations:
    replicaResource:
      luaScript: |
        function GetReplicas(obj)
          return obj.spec.replicas, nil
        end
";

fn karmadactl(fleet: &Fleet, arguments: &[&str]) -> Output {
    run(&programs().join("karmadactl"), &fleet.plane.kubeconfig, arguments)
}

/// Runs a command that must succeed with this output.
fn check(fleet: &Fleet, arguments: &[&str], expected: &str) {
    let output = karmadactl(fleet, arguments);
    let said = text(&output);
    assert!(output.status.success(), "karmadactl {}: {said}", arguments.join(" "));
    assert!(said.contains(expected), "karmadactl {} should say {expected:?}: {said}", arguments.join(" "));
}

#[test]
fn karmadactl_joins_reads_changes_promotes_and_unjoins() {
    if !programs().join("karmadactl").exists() {
        test_skip::skip(format_args!("karmadactl is not in {}; `make test` builds it", programs().display()));
        return;
    }
    let Some(members) = Member::start_all(&["member1", "member2"], 1) else { return };
    let fleet = Fleet { plane: Flotilla::start_with(&["--compat", "karmada-1.18"]), members };
    for member in &fleet.members {
        let kubeconfig = member.kubeconfig().to_str().expect("a path in UTF-8");
        check(&fleet, &["join", &member.name, "--cluster-kubeconfig", kubeconfig], "is joined successfully");
        fleet.wait_ready(&member.name);
    }
    reads(&fleet);
    marks_clusters(&fleet);
    promotes(&fleet);
    interprets(&fleet);
    let kubeconfig = fleet.member("member2").kubeconfig().to_str().expect("a path in UTF-8").to_owned();
    let arguments = ["unjoin", "member2", "--cluster-kubeconfig", &kubeconfig, "--cluster-context", "test"];
    check(&fleet, &arguments, "");
    fleet.on_plane(&["get", "cluster", "member2", "--ignore-not-found", "-o=name"], "");
    fleet.in_member("member2", &["get", "ns", "karmada-cluster", "--ignore-not-found", "-o=name"], "");
}

fn reads(fleet: &Fleet) {
    fleet.apply(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {name: nginx, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: nginx}}
  template:
    metadata: {labels: {app: nginx}}
    spec: {containers: [{name: main, image: nginx}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: nginx, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: nginx}]
  placement: {clusterAffinity: {clusterNames: [member1, member2]}}
",
    );
    fleet.on_plane(&["get", "deploy", "nginx", "-o=jsonpath={.status.readyReplicas}"], "2");
    check(fleet, &["get", "deploy", "nginx"], "Karmada");
    check(fleet, &["get", "deploy", "nginx", "--operation-scope", "all"], "member2");
    check(fleet, &["get", "pods", "--operation-scope", "members"], "Running");
    check(
        fleet,
        &["describe", "deploy", "nginx", "--operation-scope", "members", "-C", "member1"],
        "work.karmada.io/name",
    );
    check(fleet, &["explain", "pp.spec.placement"], "clusterAffinity");
    // The pods are in the members: kubectl on the control plane fails at once and names the command that works.
    for arguments in [&["logs", "deploy/nginx"][..], &["exec", "deploy/nginx", "--", "ls"], &["logs", "nginx-1"]] {
        let start = std::time::Instant::now();
        let output = fleet.kubectl(arguments);
        assert!(!output.status.success() && start.elapsed().as_secs() < 10, "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(&format!("`flotilla {}", arguments[0])), "{arguments:?}: {}", text(&output));
    }
    check(fleet, &["api-resources"], "propagationpolicies");
}

fn marks_clusters(fleet: &Fleet) {
    check(fleet, &["cordon", "member1"], "member1 cluster cordoned");
    let taints = ["get", "cluster", "member1", "-o=jsonpath={.spec.taints[*].key}"];
    fleet.on_plane(&taints, "cluster.karmada.io/unschedulable");
    check(fleet, &["uncordon", "member1"], "member1 cluster uncordoned");
    check(fleet, &["taint", "clusters", "member1", "dedicated=me:NoSchedule"], "cluster/member1 tainted");
    fleet.on_plane(&taints, "dedicated");
    check(fleet, &["taint", "clusters", "member1", "dedicated:NoSchedule-"], "cluster/member1 untainted");
    fleet.on_plane(&taints, "");
}

fn promotes(fleet: &Fleet) {
    let made = fleet.member("member1").kubectl(&["create", "deployment", "legacy", "--image=nginx"]);
    assert!(made.status.success(), "{}", text(&made));
    check(fleet, &["promote", "deployment", "legacy", "-n", "default", "-C", "member1"], "is promoted successfully");
    fleet.on_plane(&["get", "deploy", "legacy", "-o=jsonpath={.status.replicas}"], "1");
    let managed = ["get", "deploy", "legacy", r"-o=jsonpath={.metadata.labels.karmada\.io/managed}"];
    fleet.in_member("member1", &managed, "true");
}

fn interprets(fleet: &Fleet) {
    fleet.apply(CUSTOMIZATION);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("customization.yaml");
    std::fs::write(&file, CUSTOMIZATION).expect("written");
    let file = file.to_str().expect("a path in UTF-8");
    check(fleet, &["interpret", "-f", file, "--check"], "PASS");
}
