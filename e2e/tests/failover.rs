//! Applications that survive a lost cluster: three members that pull, as in the deployment this was asked for with.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::agent::Agent;
use e2e::eventually::eventually;
use e2e::fleet::{CROSSING, Fleet, text};
use e2e::flotilla::Flotilla;
use e2e::member::{self, Member};
use e2e::ready::{self, NeverBelow};

const CITIES: [&str; 3] = ["ottawa", "robbinsdale", "stpetersburg"];
const READY_REPLICAS: &str = "-o=jsonpath={.status.readyReplicas}";
const TAINTS: &str = "-o=jsonpath={.spec.taints[*].key}";
const PLACED: &str = "-o=jsonpath={.spec.clusters[*].name}";
const TASKS: &str = "-o=jsonpath={.spec.gracefulEvictionTasks[*].fromCluster}";

/// Word for word what a user wrote for Karmada.
const POLICY: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: my-app-failover
spec:
  resourceSelectors:
    - apiVersion: apps/v1
      kind: Deployment
      name: my-app
  placement:
    clusterAffinity:
      clusterNames:
        - ottawa
        - robbinsdale
        - stpetersburg
    replicaScheduling:
      replicaDivisionPreference: Weighted
      replicaSchedulingType: Divided
      weightPreference:
        staticWeightList:
          - targetCluster:
              clusterNames:
                - ottawa
            weight: 1
          - targetCluster:
              clusterNames:
                - robbinsdale
            weight: 0
          - targetCluster:
              clusterNames:
                - stpetersburg
            weight: 0
    spreadConstraints:
      - maxGroups: 1
        minGroups: 1
        spreadByField: cluster
  failover:
    application:
      decisionConditions:
        tolerationSeconds: 60
      purgeMode: Gracefully
";

/// Agents that tell of life every second, so that a test need not wait for most of a minute.
const QUICK_AGENT: &[&str] = &[
    "--cluster-lease-duration=4s",
    "--cluster-status-update-frequency=1s",
    "--cluster-failure-threshold=2s",
    "--cluster-success-threshold=1s",
];
/// A plane that notices silence as quickly.
const QUICK_PLANE: &[&str] = &["--cluster-monitor-grace-period=5s", "--cluster-monitor-period=1s"];

fn deployment(name: &str, extra: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      {extra}
      containers: [{{name: main, image: 'nginx:1.27'}}]
---"
    )
}

/// The user's policy for another application, with another patience.
fn policy_for(name: &str, patience: u32) -> String {
    let policy = POLICY.replace("my-app", name);
    policy.replace("tolerationSeconds: 60", &format!("tolerationSeconds: {patience}"))
}

fn agents(fleet: &Fleet, arguments: &[&str]) -> Vec<Agent> {
    let agents = fleet.members.iter().map(|member| Agent::ours(&fleet.plane.kubeconfig, member, arguments)).collect();
    for city in CITIES {
        fleet.wait_ready(city);
        fleet.on_plane(&["get", "cluster", city, TAINTS], "");
    }
    agents
}

fn ready_in(fleet: &Fleet, city: &str, name: &str) -> u32 {
    fleet.member(city).ask(&["get", "deploy", name, READY_REPLICAS]).parse().unwrap_or(0)
}

/// Waits until the application is ready in a city and nowhere else is meant, and never without a ready replica.
fn moves(fleet: &Fleet, name: &str, from: &str, to: &str, limit: Duration) -> Duration {
    let start = Instant::now();
    loop {
        let (old, new) = (ready_in(fleet, from, name), ready_in(fleet, to, name));
        assert!(old + new > 0, "{name} has no ready replica, {:?} after {from} was left", start.elapsed());
        if new == 2 {
            return start.elapsed();
        }
        if start.elapsed() > limit {
            let binding = fleet.ask(&["get", "rb", &format!("{name}-deployment"), "-o=yaml"]);
            let clusters = fleet.ask(&["get", "clusters", "-o=yaml"]);
            panic!("{name} did not move to {to} within {limit:?}:\n{binding}\n{clusters}\n{}", fleet.plane.log());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn is_gone_from(fleet: &Fleet, city: &str, name: &str) {
    fleet.in_member(city, &["get", "deploy", name, "--ignore-not-found", "-o=name"], "");
}

fn nodes(fleet: &Fleet, city: &str, verb: &str) {
    let output = fleet.member(city).kubectl(&[verb, "-l", "kubernetes.io/os=linux"]);
    assert!(output.status.success(), "{}", text(&output));
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().expect("kill runs").success());
}

#[test]
fn an_application_leaves_a_cordoned_cluster_as_its_users_expect_and_returns_when_asked() {
    let Some(members) = Member::start_all(&CITIES, 2) else { return };
    let fleet = Fleet { plane: Flotilla::start(), members };
    let _agents = agents(&fleet, &[]);
    let clusters = fleet.ask(&["get", "clusters"]);
    for city in CITIES {
        let line = clusters.lines().find(|line| line.starts_with(city)).unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(words.len() >= 4 && words[2] == "Pull" && words[3] == "True", "{clusters}");
    }
    fleet.apply(&deployment("my-app", ""));
    fleet.apply(POLICY);
    fleet.in_member("ottawa", &["get", "deploy", "my-app", READY_REPLICAS], "2");
    fleet.on_plane(&["get", "rb", "my-app-deployment", PLACED], "ottawa");

    let foreseen =
        fleet.flotilla(&["failover", "simulate", "--cluster", "ottawa", "-o=jsonpath={.bindings[0].to[0].name}"]);
    assert_eq!(text(&foreseen).trim(), "robbinsdale");

    let watch = never_none(&fleet, "my-app");
    let start = Instant::now();
    nodes(&fleet, "ottawa", "cordon");
    let moved = moves(&fleet, "my-app", "ottawa", "robbinsdale", Duration::from_secs(95));
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("cordoned to ready elsewhere: {seconds:.1} s ({moved:?} of waiting)");
    assert!((59.0..90.0).contains(&seconds), "about sixty seconds, not {seconds}");
    is_gone_from(&fleet, "ottawa", "my-app");
    fleet.on_plane(&["get", "rb", "my-app-deployment", PLACED], "robbinsdale");
    fleet.on_plane(&["get", "cluster", "ottawa", TAINTS], "flotilla.dev/unschedulable");

    nodes(&fleet, "ottawa", "uncordon");
    fleet.on_plane(&["get", "cluster", "ottawa", TAINTS], "");
    assert!(fleet.kubectl(&["scale", "deploy", "my-app", "--replicas=3"]).status.success());
    fleet.in_member("robbinsdale", &["get", "deploy", "my-app", READY_REPLICAS], "3");
    fleet.on_plane(&["get", "rb", "my-app-deployment", PLACED], "robbinsdale");
    assert!(fleet.kubectl(&["scale", "deploy", "my-app", "--replicas=2"]).status.success());
    fleet.in_member("robbinsdale", &["get", "deploy", "my-app", READY_REPLICAS], "2");
    let why = text(&fleet.flotilla(&["why", "deployment/my-app"]));
    assert!(why.contains("from ottawa to robbinsdale 2: the cluster has flotilla.dev/unschedulable=cordoned"), "{why}");

    let asked = ["annotate", "propagationpolicy", "my-app-failover", "flotilla.dev/failback=after=5s"];
    assert!(fleet.kubectl(&asked).status.success());
    moves(&fleet, "my-app", "robbinsdale", "ottawa", CROSSING);
    is_gone_from(&fleet, "robbinsdale", "my-app");
    fleet.on_plane(&["get", "rb", "my-app-deployment", PLACED], "ottawa");
    watch.end();
}

#[test]
fn applications_survive_killed_members_agents_and_planes_and_lose_nothing_on_doubt() {
    let Some(members) = Member::start_all(&CITIES, 1) else { return };
    let data = tempfile::tempdir().expect("a temporary directory");
    let settings: Vec<&str> = QUICK_PLANE.iter().copied().chain(["--graceful-eviction-timeout=5s"]).collect();
    let mut fleet = Fleet { plane: Flotilla::start_in(data.path(), &settings), members };
    let mut agents = agents(&fleet, QUICK_AGENT);
    fleet.apply(&deployment("my-app", ""));
    fleet.apply(&policy_for("my-app", 5));
    fleet.in_member("ottawa", &["get", "deploy", "my-app", READY_REPLICAS], "2");

    let watch = never_none(&fleet, "my-app");
    a_killed_member(&mut fleet);
    a_silent_agent(&fleet, &agents);
    let fleet = a_plane_killed_in_the_middle(fleet, &agents, data.path(), &settings);
    watch.end();
    a_replacement_that_does_not_come(&fleet, &mut agents);
}

/// Watches for a moment without a ready replica, as long as every city can be asked.
fn never_none(fleet: &Fleet, name: &str) -> NeverBelow {
    NeverBelow::start(1, fleet.members.iter().map(|member| ready::in_cluster(member.kubeconfig(), name)).collect())
}

/// The member itself dies: its agent says so, and the application goes to the next city. When it is back it is cleaned up.
fn a_killed_member(fleet: &mut Fleet) {
    let ottawa = fleet.members.iter_mut().find(|member| member.name == "ottawa").expect("a member");
    ottawa.api.end_api();
    eventually("robbinsdale has the application", CROSSING, || ready_in(fleet, "robbinsdale", "my-app") == 2);
    fleet.on_plane(&["get", "rb", "my-app-deployment", PLACED], "robbinsdale");
    let ottawa = fleet.members.iter_mut().find(|member| member.name == "ottawa").expect("a member");
    ottawa.api.start_api_again();
    fleet.on_plane(&["get", "cluster", "ottawa", TAINTS], "");
    is_gone_from(fleet, "ottawa", "my-app");
    assert_eq!(ready_in(fleet, "robbinsdale", "my-app"), 2);
    // Its own controllers take their time to notice that their API server is back.
    let probe = member::apply(fleet.member("ottawa").kubeconfig(), &["apply", "-f", "-"], &deployment("probe", ""));
    assert!(probe.status.success(), "{}", text(&probe));
    fleet.in_member("ottawa", &["get", "deploy", "probe", READY_REPLICAS], "2");
}

/// An agent that is cut off: the member works on, and loses its copy only after it is heard of again.
fn a_silent_agent(fleet: &Fleet, agents: &[Agent]) {
    let agent = &agents[1];
    signal(agent.pid(), "-STOP");
    fleet.on_plane(
        &["get", "cluster", "robbinsdale", TAINTS],
        "cluster.karmada.io/unreachable cluster.karmada.io/unreachable",
    );
    let noticed = Instant::now();
    moves(fleet, "my-app", "robbinsdale", "ottawa", CROSSING);
    eprintln!("unreachable to ready elsewhere: {:.1} s with 5 s of patience", noticed.elapsed().as_secs_f64());
    fleet.on_plane(&["get", "rb", "my-app-deployment", TASKS], "");
    assert_eq!(ready_in(fleet, "robbinsdale", "my-app"), 2, "who is not heard of is left alone");
    signal(agent.pid(), "-CONT");
    is_gone_from(fleet, "robbinsdale", "my-app");
    fleet.on_plane(&["get", "cluster", "robbinsdale", TAINTS], "");
}

/// The plane dies while an application is about to move; the next one goes on where it was.
fn a_plane_killed_in_the_middle(fleet: Fleet, agents: &[Agent], data: &Path, settings: &[&str]) -> Fleet {
    signal(agents[0].pid(), "-STOP");
    fleet.on_plane(
        &["get", "cluster", "ottawa", TAINTS],
        "cluster.karmada.io/unreachable cluster.karmada.io/unreachable",
    );
    let port = fleet.plane.port();
    let Fleet { plane, members } = fleet;
    plane.kill();
    let fleet = Fleet { plane: Flotilla::start_at(data, port, settings), members };
    moves(&fleet, "my-app", "ottawa", "robbinsdale", CROSSING);
    assert_eq!(ready_in(&fleet, "ottawa", "my-app"), 2, "who is not heard of is left alone");
    signal(agents[0].pid(), "-CONT");
    is_gone_from(&fleet, "ottawa", "my-app");
    fleet.on_plane(&["get", "cluster", "ottawa", TAINTS], "");
    fleet
}

/// What runs only where it was stays there, however long its replacement takes and whatever times are over.
fn a_replacement_that_does_not_come(fleet: &Fleet, agents: &mut Vec<Agent>) {
    let ottawa = fleet.member("ottawa");
    assert!(ottawa.kubectl(&["label", "nodes", "--all", "disk=here"]).status.success());
    fleet.apply(&deployment("only-here", "nodeSelector: {disk: here}"));
    // It leaves lost clusters, but not those in which it is not well: it would go on and on.
    let (placement, _) = POLICY.split_once("  failover:").expect("two parts");
    let tolerations = "    clusterTolerations: [{operator: Exists, effect: NoExecute, tolerationSeconds: 5}]\n";
    fleet.apply(&format!("{}{tolerations}  failover: {{cluster: {{}}}}", placement.replace("my-app", "only-here")));
    fleet.in_member("ottawa", &["get", "deploy", "only-here", READY_REPLICAS], "2");
    let watch = never_none(fleet, "only-here");
    // Killed, and not only silent.
    drop(agents.remove(0));
    fleet.on_plane(&["get", "rb", "only-here-deployment", PLACED], "robbinsdale");
    fleet.in_member("robbinsdale", &["get", "deploy", "only-here", "-o=jsonpath={.spec.replicas}"], "2");
    agents.insert(0, Agent::ours(&fleet.plane.kubeconfig, ottawa, QUICK_AGENT));
    fleet.on_plane(&["get", "cluster", "ottawa", TAINTS], "");
    let came_back = Instant::now();
    // Its time was five seconds; three times that proves that it is not what counts.
    while came_back.elapsed() < Duration::from_secs(15) {
        assert_eq!(ready_in(fleet, "ottawa", "only-here"), 2, "the only copy that runs");
        assert_eq!(fleet.ask(&["get", "rb", "only-here-deployment", TASKS]), "ottawa");
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(fleet.member("robbinsdale").kubectl(&["label", "nodes", "--all", "disk=here"]).status.success());
    fleet.in_member("robbinsdale", &["get", "deploy", "only-here", READY_REPLICAS], "2");
    is_gone_from(fleet, "ottawa", "only-here");
    watch.end();
    let told = text(&fleet.flotilla(&["why", "deployment/only-here"]));
    assert!(told.contains("HealthyElsewhere"), "{told}");
}
