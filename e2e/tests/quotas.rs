//! Quotas in members: with the gate ResourceQuotaEstimate they limit the available replicas.

use std::path::Path;
use std::time::Duration;

use e2e::eventually::eventually;
use e2e::fleet::{run, text};
use e2e::flotilla::{Flotilla, binary, kubectl};
use e2e::light_member::LightMember;
use e2e::member;

const LIMIT: Duration = Duration::from_secs(90);
const MEMBERS: [&str; 2] = ["first", "second"];
const PLACED: &str = "-o=jsonpath={range .spec.clusters[*]}{.name}:{.replicas} {end}";
const SCHEDULED: &str = r#"-o=jsonpath={.status.conditions[?(@.type=="Scheduled")].status}"#;
const READY: &str = r#"-o=jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;

const QUOTA: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: small, namespace: team}
spec: {hard: {requests.cpu: 20m}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: quotas, namespace: team}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ResourceQuota, name: small}]
  placement: {clusterAffinity: {clusterNames: [first, second]}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: team}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement:
    clusterAffinities:
    - affinityName: primary
      clusterNames: [first]
      overflowAffinities: [{affinityName: secondary, clusterNames: [second]}]
    replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}
";

fn deployment(replicas: u32) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: team}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers: [{{name: main, image: 'nginx:1.27', resources: {{requests: {{cpu: 10m}}}}}}]
"
    )
}

fn answers(plane: &Flotilla, kubeconfig: &Path, arguments: &[&str], expected: &str) {
    let mut last = String::new();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        eventually(&format!("kubectl {arguments:?} says {expected:?}"), LIMIT, || {
            let arguments = ["-n", "team"].iter().chain(arguments).copied().collect::<Vec<_>>();
            last = text(&kubectl(kubeconfig, &arguments)).trim().to_owned();
            last == expected
        });
    }));
    if let Err(panic) = result {
        let binding = kubectl(&plane.kubeconfig, &["get", "rb", "-n", "team", "-o=yaml"]);
        eprintln!("last output: {last:?}\n{}\n{}", text(&binding), plane.log());
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn replicas_go_to_the_next_cluster_when_the_quota_of_the_first_is_used_up() {
    let plane = Flotilla::start_with(&["--feature-gates=ResourceQuotaEstimate=true"]);
    let members = MEMBERS.map(|_| LightMember::start(&[]));
    let [first, second] = &members;
    let on_plane = |arguments: &[&str], expected: &str| answers(&plane, &plane.kubeconfig, arguments, expected);
    for (name, member) in MEMBERS.into_iter().zip(&members) {
        let config = member.kubeconfig.to_str().expect("a path in UTF-8");
        let joined = run(&binary(), &plane.kubeconfig, &["join", name, "--cluster-kubeconfig", config]);
        assert!(joined.status.success(), "{}", text(&joined));
        on_plane(&["get", "cluster", name, READY], "True");
    }
    let apply = |documents: &str| {
        let output = member::apply(&plane.kubeconfig, &["apply", "-f", "-"], documents);
        assert!(output.status.success(), "{}", text(&output));
    };
    apply(QUOTA);
    let more = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(more.path(), deployment(5)).expect("written");
    let plan = ["plan", "-f", more.path().to_str().expect("a path in UTF-8")];
    // Capacity is known from watches, with a short delay.
    let five_are_too_many = || {
        eventually("the quotas of both are known", LIMIT, || {
            let foreseen = text(&run(&binary(), &plane.kubeconfig, &plan));
            foreseen.contains("Clusters available replicas are not enough to schedule")
        });
    };
    five_are_too_many();

    apply(&deployment(2));
    on_plane(&["get", "rb", "web-deployment", PLACED], "first:2");
    apply(&deployment(4));
    on_plane(&["get", "rb", "web-deployment", PLACED], "first:2 second:2");
    for member in [first, second] {
        let ready = ["get", "deploy", "web", "-o=jsonpath={.status.readyReplicas}"];
        answers(&plane, &member.kubeconfig, &ready, "2");
    }
    five_are_too_many();
    apply(&deployment(5));
    on_plane(&["get", "rb", "web-deployment", SCHEDULED], "False");
    on_plane(&["get", "rb", "web-deployment", PLACED], "first:2 second:2");
    apply(&deployment(2));
    on_plane(&["get", "rb", "web-deployment", PLACED], "first:2");
    answers(&plane, &second.kubeconfig, &["get", "deploy", "web", "--ignore-not-found", "-o=name"], "");
}
