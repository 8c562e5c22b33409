//! A testbed over existing clusters of the user: real Kubernetes, used but never started, stopped or otherwise
//! changed.

use std::time::Duration;

use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::member::Member;
use e2e::testbed::Testbed;

const PLANE: &str = "karmada-apiserver";

#[test]
fn an_existing_cluster_becomes_a_member_and_is_not_managed() {
    let Some(cluster) = Member::start("east", 1) else { return };
    let file = cluster.kubeconfig().display().to_string();
    let bed = Testbed::up(&["--no-registry", "--cluster", &format!("east={file}")]);
    bed.wait_ready("east", "True");
    bed.wait(PLANE, &["get", "cluster", "east", "-o=jsonpath={.spec.syncMode}"], "Push");
    bed.apply(
        "
apiVersion: v1
kind: ConfigMap
metadata: {name: greeting, namespace: default}
data: {text: hello}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: greeting, namespace: default}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: greeting}]
  placement: {clusterAffinity: {clusterNames: [east]}}
",
    );
    bed.wait("east", &["get", "configmap", "greeting", "-o=jsonpath={.data.text}"], "hello");
    bed.run_ok(&["doctor"]);
    let output = bed.flotilla(&["stop", "east"]);
    assert!(!output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("does not manage existing clusters"), "{}", text(&output));
    bed.run_ok(&["up"]);
    bed.run_ok(&["down"]);
    assert_eq!(cluster.ask(&["get", "--raw", "/readyz"]), "ok", "it runs on without the testbed");
    let refused = bed.flotilla(&["down", "--delete"]);
    assert!(text(&refused).contains("the control plane must be running"), "{}", text(&refused));
    bed.run_ok(&["up"]);
    bed.run_ok(&["down", "--delete"]);
    eventually("nothing of the control plane is left in it", Duration::from_secs(60), || {
        let left = cluster.ask(&["get", "namespaces,clusterroles", "-o=name"]);
        !left.is_empty() && !left.contains("karmada")
    });
    assert_eq!(cluster.ask(&["get", "configmap", "greeting", "-o=name", "--ignore-not-found"]), "");
}

#[test]
fn an_unreachable_cluster_is_rejected_with_a_diagnostic_command() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("config");
    let config = "{current-context: c, clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}],
        contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}]}";
    std::fs::write(&file, config).expect("a file");
    let bed = Testbed::at(directory.path(), "away");
    let cluster = format!("--cluster=east={}", file.display());
    let words = ["up", "--no-registry", "--port=0", &cluster, "--timeout=20s"];
    let output = bed.flotilla(&words);
    assert!(!output.status.success(), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("the cluster east does not answer") && said.contains("check it with: kubectl"), "{said}");
    // A cluster that never became a member does not block a restart.
    bed.run_ok(&["down", "--delete"]);
}
