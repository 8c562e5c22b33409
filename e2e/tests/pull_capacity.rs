//! Placement with the capacity that agents report: node labels and quotas of pull members count as those of push members do.

use std::time::{Duration, Instant};

use e2e::eventually::eventually;
use e2e::fleet::{CROSSING, READY, text};
use e2e::flotilla::{Flotilla, binary};
use e2e::light_fleet::{LightFleet, QUICK_PLANE};

/// Time for one decision of the scheduler.
const SCHEDULING: Duration = Duration::from_secs(5);

const GATE: &str = "--feature-gates=ResourceQuotaEstimate=true";

/// A Deployment that is divided by available replicas.
fn divided((namespace, name): (&str, &str), replicas: u32, clusters: &str, pod: &str) -> String {
    format!(
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      {pod}
      containers: [{{name: c, image: i, resources: {{requests: {{cpu: 100m}}}}}}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: {name}}}]
  placement:
    clusterAffinity: {{clusterNames: [{clusters}]}}
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference: {{dynamicWeight: AvailableReplicas}}
"#
    )
}

fn placed(fleet: &LightFleet, namespace: &str, name: &str, expected: &str) {
    let clusters = "-o=jsonpath={range .spec.clusters[*]}{.name}:{.replicas} {end}";
    fleet.on_plane(&["-n", namespace, "get", "rb", &format!("{name}-deployment"), clusters], expected);
}

fn flotilla(fleet: &LightFleet, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new(binary());
    command.args(arguments).env("KUBECONFIG", &fleet.plane.kubeconfig);
    text(&command.output().expect("flotilla runs"))
}

#[test]
fn a_pull_member_gets_no_more_than_its_nodes_and_quotas_allow() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut fleet = LightFleet::start(directory.path(), &["near", "far"], None, &[GATE]);
    let labelled = fleet.member("near").member.kubectl(&["label", "nodes", "--all", "disk=ssd"]);
    assert!(labelled.status.success(), "{}", text(&labelled));
    let selector = "nodeSelector: {disk: ssd}";
    // Until both agents have reported, a cluster counts with its summary, which knows no labels; so workloads may be misplaced at first.
    let mut attempts = 0;
    fleet.eventually("a workload goes to the cluster with the label only", || {
        attempts += 1;
        let name = format!("picky-{attempts}");
        fleet.apply(&divided(("default", &name), 3, "near, far", selector));
        let clusters = "-o=jsonpath={range .spec.clusters[*]}{.name}:{.replicas} {end}";
        let start = Instant::now();
        let mut placed = String::new();
        while placed.is_empty() && start.elapsed() < SCHEDULING {
            placed = fleet.ask(&["get", "rb", &format!("{name}-deployment"), clusters]);
        }
        placed == "near:3"
    });
    let explanation = flotilla(&fleet, &["why", &format!("deployment/picky-{attempts}")]);
    let far = explanation.lines().find(|line| line.contains("far") && line.contains("scheduler-estimator"));
    assert!(far.is_some_and(|line| line.contains("scheduler-estimator estimates 0")), "{explanation}");

    assert!(fleet.kubectl(&["create", "namespace", "team"]).status.success());
    let quota = ["-n=team", "create", "quota", "small", "--hard=requests.cpu=200m"];
    eventually("the namespace is in the member", CROSSING, || {
        fleet.member("far").member.kubectl(&quota).status.success()
    });
    fleet.in_cluster("far", &["-n=team", "get", "quota", "small", "-o=jsonpath={.status.hard.requests\\.cpu}"], "200m");
    let more = directory.path().join("more.yaml");
    std::fs::write(&more, divided(("team", "limited"), 3, "far", "")).expect("a file");
    let plan = ["plan", "-f", more.to_str().expect("a path in UTF-8")];
    fleet.eventually("the quota of the member is reported", || {
        flotilla(&fleet, &plan).contains("ResourceQuotaEstimator estimates 2")
    });
    fleet.apply(&divided(("team", "limited"), 2, "far", ""));
    placed(&fleet, "team", "limited", "far:2");

    // A restarted control plane knows the capacity before any agent reports again.
    let port = fleet.plane.port();
    let plane = std::mem::replace(&mut fleet.plane, Flotilla::start());
    plane.kill();
    let arguments: Vec<&str> = QUICK_PLANE.iter().chain(&[GATE]).copied().collect();
    fleet.plane = Flotilla::start_at(directory.path(), port, &arguments);
    for name in ["near", "far"] {
        fleet.on_plane(&["get", "cluster", name, READY], "True");
    }
    fleet.apply(&divided(("default", "picky-again"), 4, "near, far", selector));
    placed(&fleet, "default", "picky-again", "near:4");
}
