//! Estimators and their clients, ours and Karmada's: each scheduler asks each estimator, and Karmada's descheduler asks ours.

use std::time::{Duration, Instant};

use e2e::agent::Agent;
use e2e::eventually::eventually;
use e2e::fleet::{CROSSING, READY, READY_REPLICAS, run, text};
use e2e::flotilla::{Flotilla, binary};
use e2e::light_fleet::QUICK_AGENT;
use e2e::light_member::LightMember;
use e2e::member;
use e2e::program::{Program, free_port};

/// A push member, whose estimator is our server; a pull member with our agent, which has the estimator; a pull member with
/// Karmada's agent and Karmada's estimator, of which our control plane knows only the summary.
const MEMBERS: [&str; 3] = ["pushed", "pulled", "theirs"];
const SCHEDULERS: [&str; 2] = ["default-scheduler", "other"];
/// Time for one workload of several to be scheduled.
const ATTEMPT: Duration = Duration::from_secs(5);
const CLUSTERS: &str = "-o=jsonpath={range .spec.clusters[*]}{.name}:{.replicas} {end}";

struct World {
    plane: Flotilla,
    members: Vec<LightMember>,
    estimator: Program,
    _agents: [Agent; 2],
}

impl World {
    fn start() -> Self {
        let ports = [free_port(), free_port(), free_port()];
        let [ours, agents, _] = ports.map(|port| format!("--estimator-bind-address=127.0.0.1:{port}"));
        let plane = Flotilla::start_with(&[
            "--cluster-success-threshold=1s",
            "--cluster-status-update-frequency=2s",
            "--enable-scheduler-estimator",
            &ours,
        ]);
        let members: Vec<LightMember> = MEMBERS.iter().map(|_| LightMember::start(&[])).collect();
        for (name, member) in MEMBERS.iter().zip(&members) {
            member.expect_kubectl(&["label", "nodes", "--all", &format!("only={name}")]);
        }
        for (name, port) in MEMBERS.iter().zip(ports) {
            let service = service(name, port);
            let output = member::apply(&plane.kubeconfig, &["apply", "-f", "-"], &service);
            assert!(output.status.success(), "{}", text(&output));
        }
        let path = |member: &LightMember| member.kubeconfig.to_str().expect("a path in UTF-8").to_owned();
        let estimator = Program::start(
            "karmada-scheduler-estimator",
            &[
                "--cluster-name=theirs",
                &format!("--kubeconfig={}", path(&members[2])),
                &format!("--server-port={}", ports[2]),
                "--metrics-bind-address=0",
                "--health-probe-bind-address=0",
            ],
        );
        let joined =
            run(&binary(), &plane.kubeconfig, &["join", MEMBERS[0], "--cluster-kubeconfig", &path(&members[0])]);
        assert!(joined.status.success(), "{}", text(&joined));
        let pulled = (MEMBERS[1], members[1].kubeconfig.as_path());
        let agent = Agent::ours_outside(&plane.kubeconfig, pulled, &[QUICK_AGENT, &[&agents]].concat());
        let theirs = (MEMBERS[2], members[2].kubeconfig.as_path());
        let other = Agent::karmadas_outside(&plane.kubeconfig, theirs, QUICK_AGENT).expect("it is there");
        let world = Self { plane, members, estimator, _agents: [agent, other] };
        for name in MEMBERS {
            eventually("a cluster is ready", CROSSING, || world.ask(&["get", "cluster", name, READY]) == "True");
        }
        world
    }

    fn ask(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.plane.kubectl(arguments).stdout).trim().to_owned()
    }

    fn apply(&self, documents: &str) {
        let output = member::apply(&self.plane.kubeconfig, &["apply", "-f", "-"], documents);
        assert!(output.status.success(), "{}", text(&output));
    }

    /// Clusters of a Deployment, with replicas.
    fn placement(&self, name: &str) -> String {
        let mut placed = String::new();
        eventually(&format!("{name} is scheduled"), CROSSING, || {
            placed = self.ask(&["get", "rb", &format!("{name}-deployment"), CLUSTERS]);
            !placed.is_empty()
        });
        placed
    }

    /// The same, or nothing if it is not scheduled in a few seconds.
    fn placement_soon(&self, name: &str) -> String {
        let end = Instant::now() + ATTEMPT;
        loop {
            let placed = self.ask(&["get", "rb", &format!("{name}-deployment"), CLUSTERS]);
            if !placed.is_empty() || Instant::now() > end {
                return placed;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Names the address of an estimator.
fn service(cluster: &str, port: u16) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: karmada-scheduler-estimator-{cluster}, namespace: karmada-system}}
spec:
  type: ExternalName
  externalName: localhost
  ports: [{{port: 10352, targetPort: {port}}}]
"
    )
}

/// Three replicas, divided by what is available; only nodes with the label can run them.
fn application(name: &str, scheduler: &str, node: &str, clusters: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      nodeSelector: {{{node}}}
      containers: [{{name: main, image: 'nginx:1.27', resources: {{requests: {{cpu: 10m, memory: 16Mi}}}}}}]
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: default}}
spec:
  schedulerName: {scheduler}
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: {name}}}]
  placement:
    clusterAffinity: {{clusterNames: [{clusters}]}}
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference: {{dynamicWeight: AvailableReplicas}}
"
    )
}

#[test]
fn each_scheduler_asks_each_estimator() {
    let needed = ["karmada-scheduler", "karmada-scheduler-estimator", "karmada-descheduler", "karmada-agent"];
    if !Program::are_installed(&needed) {
        return;
    }
    let world = World::start();
    let kubeconfig = format!("--kubeconfig={}", world.plane.kubeconfig.display());
    let no_ports = ["--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false", &kubeconfig];
    let scheduler = Program::start(
        "karmada-scheduler",
        &[&no_ports[..], &["--scheduler-name=other", "--enable-scheduler-estimator"]].concat(),
    );
    eventually("karmada-scheduler is connected to all estimators", CROSSING, || {
        scheduler.log().matches("Connection with estimator server").count() == MEMBERS.len()
    });
    for scheduler in SCHEDULERS {
        let everywhere = MEMBERS.join(", ");
        // An estimator does not answer before it knows the nodes of its member, so the first workload may be misplaced.
        let mut attempts = 0;
        eventually(&format!("{scheduler} has the answers of all estimators"), CROSSING, || {
            attempts += 1;
            let name = format!("{scheduler}-{attempts}");
            world.apply(&application(&name, scheduler, "only: theirs", &everywhere));
            world.placement(&name) == "theirs:3"
        });
        for member in MEMBERS {
            let name = format!("{scheduler}-{member}");
            world.apply(&application(&name, scheduler, &format!("only: {member}"), &everywhere));
            assert_eq!(world.placement(&name), format!("{member}:3"), "{}", world.estimator.log());
        }
    }
    unschedulable_replicas_move(&world, &no_ports);
}

/// Karmada's descheduler learns from our estimators which replicas cannot run, and our scheduler places them elsewhere.
fn unschedulable_replicas_move(world: &World, flags: &[&str]) {
    let (pushed, pulled) = (&world.members[0], &world.members[1]);
    for member in [pushed, pulled] {
        member.expect_kubectl(&["label", "nodes", "--all", "either=yes"]);
    }
    let mut attempts = 0;
    let mut name = String::new();
    eventually("a workload is in both members", CROSSING, || {
        attempts += 1;
        name = format!("moved-{attempts}");
        world.apply(&application(&name, "default-scheduler", "either: 'yes'", "pushed, pulled"));
        // The labels reach the estimates a moment later; a workload that finds no node until then waits for the next retry.
        let placed = world.placement_soon(&name);
        placed.contains("pushed:") && placed.contains("pulled:")
    });
    let ready = ["get", "deploy", name.as_str(), READY_REPLICAS];
    eventually("it runs", CROSSING, || world.ask(&ready) == "3");
    pushed.expect_kubectl(&["cordon", "-l", "either=yes"]);
    pushed.expect_kubectl(&["delete", "pods", "-l", &format!("app={name}"), "--wait=false"]);
    let interval = ["--descheduling-interval=1s", "--unschedulable-threshold=1s"];
    let _descheduler = Program::start("karmada-descheduler", &[flags, &interval].concat());
    let place = ["get", "rb", &format!("{name}-deployment"), CLUSTERS];
    eventually("all replicas are in the other member", CROSSING, || world.ask(&place) == "pulled:3");
    eventually("it runs again", CROSSING, || world.ask(&ready) == "3");
}
