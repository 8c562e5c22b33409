//! One fleet of different members: real and light, push and pull mode. They look the same to users.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use e2e::agent::Agent;
use e2e::eventually::eventually;
use e2e::fleet::{READY, run, text};
use e2e::flotilla::{Flotilla, binary, kubectl};
use e2e::light_member::LightMember;
use e2e::member::{self, Member};

const LIMIT: Duration = Duration::from_secs(90);
const CLUSTERS: [&str; 4] = ["real-push", "real-pull", "light-push", "light-pull"];

const OBJECTS: &str = r"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {color: blue}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: everywhere, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: everywhere}}
  template:
    metadata: {labels: {app: everywhere}}
    spec:
      containers: [{name: main, image: 'nginx:1.27', envFrom: [{configMapRef: {name: settings}}]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: divided, namespace: shop}
spec:
  replicas: 8
  selector: {matchLabels: {app: divided}}
  template:
    metadata: {labels: {app: divided}}
    spec: {containers: [{name: main, image: 'nginx:1.27'}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: everywhere, namespace: shop}
spec:
  propagateDeps: true
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: everywhere}]
  placement: {clusterAffinity: {clusterNames: [real-push, real-pull, light-push, light-pull]}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: divided, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: divided}]
  placement:
    clusterAffinity: {clusterNames: [real-push, real-pull, light-push, light-pull]}
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference:
        staticWeightList:
        - {targetCluster: {clusterNames: [real-push]}, weight: 1}
        - {targetCluster: {clusterNames: [real-pull]}, weight: 1}
        - {targetCluster: {clusterNames: [light-push]}, weight: 1}
        - {targetCluster: {clusterNames: [light-pull]}, weight: 1}
---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: pulled, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: everywhere}]
  overrideRules:
  - targetCluster: {clusterNames: [real-pull, light-pull]}
    overriders: {imageOverrider: [{component: Tag, operator: replace, value: '1.28'}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: ships, singular: ship, kind: Ship, listKind: ShipList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {crew: {type: integer}}}}}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: ships}
spec:
  resourceSelectors: [{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: ships.example.com}]
  placement: {clusterAffinity: {clusterNames: [real-push, real-pull, light-push, light-pull]}}
";

const SHIP: &str = r"
apiVersion: example.com/v1
kind: Ship
metadata: {name: fram, namespace: shop}
spec: {crew: 13}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: ships, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: example.com/v1, kind: Ship}]
  placement: {clusterAffinity: {clusterNames: [real-push, real-pull, light-push, light-pull]}}
";

struct Mixed {
    plane: Flotilla,
    real: Vec<Member>,
    light: Vec<LightMember>,
    _agents: Vec<Agent>,
}

impl Mixed {
    fn start() -> Option<Self> {
        let real = Member::start_all(&CLUSTERS[..2], 1)?;
        let light = vec![LightMember::start(&[]), LightMember::start(&[])];
        let plane = Flotilla::start();
        let agents = vec![
            Agent::ours(&plane.kubeconfig, &real[1], &[]),
            Agent::ours_outside(&plane.kubeconfig, (CLUSTERS[3], &light[1].kubeconfig), &[]),
        ];
        let mixed = Self { plane, real, light, _agents: agents };
        for pushed in [CLUSTERS[0], CLUSTERS[2]] {
            let config = mixed.kubeconfig(pushed).to_str().expect("a path in UTF-8");
            mixed.expect_kubectl(&["join", pushed, "--cluster-kubeconfig", config]);
        }
        for cluster in CLUSTERS {
            mixed.on_plane(&["get", "cluster", cluster, READY], "True");
        }
        Some(mixed)
    }

    fn kubeconfig(&self, cluster: &str) -> &Path {
        match CLUSTERS.iter().position(|name| *name == cluster).expect("a cluster of that name") {
            at @ 0..=1 => self.real[at].kubeconfig(),
            at => &self.light[at - 2].kubeconfig,
        }
    }

    #[track_caller]
    fn expect_kubectl(&self, arguments: &[&str]) {
        let output = run(&binary(), &self.plane.kubeconfig, arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    }

    #[track_caller]
    fn apply(&self, documents: &str) {
        let output = member::apply(&self.plane.kubeconfig, &["apply", "-f", "-"], documents);
        assert!(output.status.success(), "{}", text(&output));
    }

    #[track_caller]
    fn on_plane(&self, arguments: &[&str], expected: &str) {
        self.answers("the plane", &self.plane.kubeconfig, arguments, expected);
    }

    #[track_caller]
    fn in_member(&self, cluster: &str, arguments: &[&str], expected: &str) {
        self.answers(cluster, self.kubeconfig(cluster), arguments, expected);
    }

    #[track_caller]
    fn answers(&self, place: &str, kubeconfig: &Path, arguments: &[&str], expected: &str) {
        let mut last = String::new();
        let mut holds = || {
            last = text(&kubectl(kubeconfig, arguments)).trim().to_owned();
            last == expected
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(&format!("{place}: kubectl {arguments:?} says {expected:?}"), LIMIT, &mut holds);
        }));
        if let Err(panic) = outcome {
            eprintln!("last output: {last:?}; the control plane's log:\n{}", self.plane.log());
            std::panic::resume_unwind(panic);
        }
    }

    /// Runs kubectl on a member through the control plane.
    fn through(&self, cluster: &str, arguments: &[&str]) -> Output {
        let port = self.plane.port();
        let server = format!("https://127.0.0.1:{port}/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy");
        let all: Vec<&str> = ["--server", &server].into_iter().chain(arguments.iter().copied()).collect();
        kubectl(&self.plane.kubeconfig, &all)
    }
}

#[test]
fn different_members_form_one_fleet() {
    let Some(fleet) = Mixed::start() else { return };
    fleet.apply(OBJECTS);
    for cluster in CLUSTERS {
        let tag = if cluster.ends_with("pull") { "1.28" } else { "1.27" };
        let image = "-o=jsonpath={.spec.template.spec.containers[0].image} {.status.readyReplicas}";
        fleet.in_member(cluster, &["-n=shop", "get", "deploy", "everywhere", image], &format!("nginx:{tag} 2"));
        fleet.in_member(cluster, &["-n=shop", "get", "cm", "settings", "-o=jsonpath={.data.color}"], "blue");
        let replicas = "-o=jsonpath={.spec.replicas} {.status.readyReplicas}";
        fleet.in_member(cluster, &["-n=shop", "get", "deploy", "divided", replicas], "2 2");
    }
    fleet.apply(SHIP);
    for cluster in CLUSTERS {
        fleet.in_member(cluster, &["-n=shop", "get", "ship", "fram", "-o=jsonpath={.spec.crew}"], "13");
    }
    statuses_are_equal(&fleet);
    members_are_reached_through_the_plane(&fleet);
    replicas_of_a_lost_member_move(&fleet);
}

/// The control plane reports the same status for all members.
fn statuses_are_equal(fleet: &Mixed) {
    let sums =
        "-o=jsonpath={.status.replicas} {.status.readyReplicas} {.status.updatedReplicas} {.status.availableReplicas}";
    fleet.on_plane(&["-n=shop", "get", "deploy", "everywhere", sums], "8 8 8 8");
    fleet.on_plane(&["-n=shop", "get", "deploy", "divided", sums], "8 8 8 8");
    let each = r#"-o=jsonpath={range .status.aggregatedStatus[*]}{.applied}/{.health}/{.status.readyReplicas}/{.status.updatedReplicas} {end}"#;
    fleet.on_plane(&["-n=shop", "get", "rb", "divided-deployment", each], ["true/Healthy/2/2"; 4].join(" ").as_str());
    let applied = r#"-o=jsonpath={range .status.aggregatedStatus[*]}{.applied}/{.health} {end}"#;
    fleet.on_plane(&["-n=shop", "get", "rb", "fram-ship", applied], ["true/Healthy"; 4].join(" ").as_str());
    let kinds = r#"-o=jsonpath={.status.conditions[?(@.type=="CompleteAPIEnablements")].status}"#;
    for cluster in CLUSTERS {
        fleet.on_plane(&["get", "cluster", cluster, kinds], "True");
        let nodes = "-o=jsonpath={.status.nodeSummary.readyNum}";
        let known =
            String::from_utf8_lossy(&kubectl(&fleet.plane.kubeconfig, &["get", "cluster", cluster, nodes]).stdout)
                .parse::<u32>();
        assert!(known.is_ok_and(|ready| ready >= 1), "{cluster} reports its nodes");
    }
}

fn members_are_reached_through_the_plane(fleet: &Mixed) {
    for cluster in CLUSTERS {
        let pods = fleet.through(cluster, &["-n=shop", "get", "pods", "-l=app=everywhere", "-o=name"]);
        let names = String::from_utf8_lossy(&pods.stdout).into_owned();
        assert_eq!(names.lines().count(), 2, "{cluster}: {}", text(&pods));
        // The nodes of a real member here are simulated by a program without streams.
        if cluster.starts_with("light") {
            let pod = names.lines().next().expect("a pod");
            let logs = fleet.through(cluster, &["-n=shop", "logs", pod]);
            assert!(logs.status.success() && !logs.stdout.is_empty(), "{cluster}: {}", text(&logs));
            let said = fleet.through(cluster, &["-n=shop", "exec", pod, "--", "sh", "-c", "echo within"]);
            assert_eq!(String::from_utf8_lossy(&said.stdout), "within\n", "{cluster}: {}", text(&said));
        }
    }
}

/// A tainted member loses its replicas to the others, and gets back only what they cannot run.
fn replicas_of_a_lost_member_move(fleet: &Mixed) {
    fleet.expect_kubectl(&["taint", "clusters", "light-pull", "lost=yes:NoExecute"]);
    fleet.in_member("light-pull", &["-n=shop", "get", "deploy", "divided", "--ignore-not-found", "-o=name"], "");
    fleet.on_plane(&["-n=shop", "get", "deploy", "divided", "-o=jsonpath={.status.readyReplicas}"], "8");
    fleet.expect_kubectl(&["taint", "clusters", "light-pull", "lost:NoExecute-"]);
    fleet.in_member(
        "light-pull",
        &["-n=shop", "get", "deploy", "everywhere", "-o=jsonpath={.status.readyReplicas}"],
        "2",
    );
}
