//! Clusters behind a broken network: replicas stay until they run elsewhere, and return carefully.

use std::sync::Arc;
use std::time::{Duration, Instant};

use e2e::fleet::READY_REPLICAS;
use e2e::light_fleet::LightFleet;
use e2e::netns::{Cut, Namespace};

const CLUSTER_NAMES: [&str; 3] = ["ottawa", "robbinsdale", "stpetersburg"];
const UID: &str = "-o=jsonpath={.metadata.uid}";
const TAINTS: &str = "-o=jsonpath={.spec.taints[*].key}";
const PLACED: &str = "-o=jsonpath={.spec.clusters[*].name}";
const TASKS: &str = "-o=jsonpath={.spec.gracefulEvictionTasks[*].fromCluster}";

/// An application with this many replicas and cluster weights, which leaves a lost cluster after two seconds.
fn application(name: &str, replicas: u32, weights: [u32; 3], pod: &str, annotations: &str) -> String {
    let weight =
        |(member, weight): (&str, u32)| format!("{{targetCluster: {{clusterNames: [{member}]}}, weight: {weight}}}");
    let weights: Vec<String> = CLUSTER_NAMES.into_iter().zip(weights).map(weight).collect();
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{{pod}containers: [{{name: main, image: 'nginx:1.27'}}]}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: default, annotations: {{{annotations}}}}}
spec:
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: {name}}}]
  placement:
    clusterAffinity: {{clusterNames: [{}]}}
    clusterTolerations: [{{operator: Exists, effect: NoExecute, tolerationSeconds: 2}}]
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference: {{staticWeightList: [{}]}}
  failover: {{cluster: {{purgeMode: Gracefully}}}}
---",
        CLUSTER_NAMES.join(", "),
        weights.join(", ")
    )
}

#[test]
fn replicas_in_a_partitioned_cluster_stay_until_they_run_elsewhere() {
    let Some(namespace) = Namespace::make().map(Arc::new) else { return };
    let data = tempfile::tempdir().expect("a temporary directory");
    let fleet = LightFleet::start(data.path(), &CLUSTER_NAMES, Some(&namespace), &["--graceful-eviction-timeout=3s"]);
    let ottawa = &fleet.member("ottawa").member;
    ottawa.expect_kubectl(&["label", "nodes", "--all", "disk=here"]);
    fleet.apply(&application("web", 2, [1, 0, 0], "", ""));
    fleet.apply(&application("only-here", 2, [1, 0, 0], "nodeSelector: {disk: here}, ", ""));
    for name in ["web", "only-here"] {
        fleet.in_cluster("ottawa", &["get", "deploy", name, READY_REPLICAS], "2");
    }
    let copies = ["web", "only-here"].map(|name| ottawa.ask(&["get", "deploy", name, UID]));
    let watches = ["web", "only-here"].map(|name| fleet.never_below(2, name));

    namespace.cut(Cut::Silent);
    let cut = Instant::now();
    fleet.eventually("robbinsdale has the application", || fleet.ready_in("robbinsdale", "web") == 2);
    eprintln!("cut to ready elsewhere: {:.1} s, of which 5 + 2 s of patience", cut.elapsed().as_secs_f64());
    fleet.on_plane(&["get", "rb", "web-deployment", TASKS], "");
    fleet.on_plane(&["get", "rb", "only-here-deployment", PLACED], "robbinsdale");
    assert!(fleet.kubectl(&["scale", "deploy", "web", "--replicas=3"]).status.success());
    fleet.in_cluster("robbinsdale", &["get", "deploy", "web", READY_REPLICAS], "3");
    let still = ["web", "only-here"].map(|name| ottawa.ask(&["get", "deploy", name, UID]));
    assert_eq!(still, copies, "nothing is deleted from an unreachable cluster");

    namespace.restore();
    fleet.on_plane(&["get", "cluster", "ottawa", TAINTS], "");
    fleet.in_cluster("ottawa", &["get", "deploy", "web", "--ignore-not-found", "-o=name"], "");
    let [web, only_here] = watches;
    web.end();
    // The timeout is three seconds; twice that shows that it is not applied.
    let back = Instant::now();
    while back.elapsed() < Duration::from_secs(6) {
        assert_eq!(ottawa.ask(&["get", "deploy", "only-here", UID]), copies[1], "the only copy that runs");
        assert_eq!(fleet.ask(&["get", "rb", "only-here-deployment", TASKS]), "ottawa");
        std::thread::sleep(Duration::from_millis(300));
    }
    fleet.member("robbinsdale").member.expect_kubectl(&["label", "nodes", "--all", "disk=here"]);
    fleet.in_cluster("robbinsdale", &["get", "deploy", "only-here", READY_REPLICAS], "2");
    fleet.in_cluster("ottawa", &["get", "deploy", "only-here", "--ignore-not-found", "-o=name"], "");
    only_here.end();
    fleet.on_plane(&["get", "deploy", "web", READY_REPLICAS], "3");
}

#[test]
fn a_failback_keeps_replicas_until_the_others_are_ready() {
    let data = tempfile::tempdir().expect("a temporary directory");
    let fleet = LightFleet::start(data.path(), &CLUSTER_NAMES[..2], None, &[]);
    let [ottawa, robbinsdale] = ["ottawa", "robbinsdale"].map(|name| &fleet.member(name).member);
    for member in [ottawa, robbinsdale] {
        member.expect_kubectl(&["label", "nodes", "--all", "disk=here"]);
    }
    let failback = "flotilla.dev/failback: after=1s";
    fleet.apply(&application("web", 4, [1, 1, 0], "nodeSelector: {disk: here}, ", failback));
    for member in ["ottawa", "robbinsdale"] {
        fleet.in_cluster(member, &["get", "deploy", "web", READY_REPLICAS], "2");
    }
    ottawa.expect_kubectl(&["cordon", "-l", "kubernetes.io/os=linux"]);
    fleet.in_cluster("robbinsdale", &["get", "deploy", "web", READY_REPLICAS], "4");
    fleet.in_cluster("ottawa", &["get", "deploy", "web", "--ignore-not-found", "-o=name"], "");

    let watch = fleet.never_below(4, "web");
    // The cluster is available again, but no pod can run there yet.
    ottawa.expect_kubectl(&["label", "nodes", "--all", "disk-"]);
    ottawa.expect_kubectl(&["uncordon", "-l", "kubernetes.io/os=linux"]);
    fleet.in_cluster("ottawa", &["get", "deploy", "web", "-o=jsonpath={.spec.replicas}"], "2");
    fleet.on_plane(&["get", "rb", "web-deployment", TASKS], "robbinsdale");
    assert_eq!(fleet.ready_in("robbinsdale", "web"), 4, "the returned replicas are not ready yet");
    ottawa.expect_kubectl(&["label", "nodes", "--all", "disk=here"]);
    for member in ["ottawa", "robbinsdale"] {
        fleet.in_cluster(member, &["get", "deploy", "web", READY_REPLICAS], "2");
    }
    watch.end();
    fleet.on_plane(&["get", "rb", "web-deployment", TASKS], "");
    fleet.on_plane(&["get", "deploy", "web", READY_REPLICAS], "4");
}
