//! Applications survive the loss of a cluster: three real pull-mode members.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use e2e::agent::Agent;
use e2e::failover_scenarios::{
    CLUSTER_NAMES, FailoverFleet, PLACED, POLICY, READY_REPLICAS, TAINTS, TASKS, deployment, run_cordoned_cluster,
    run_crashes_and_partitions, signal,
};
use e2e::flotilla::Flotilla;
use e2e::member::Member;

/// Agents with a heartbeat every second, so that tests do not wait for most of a minute.
const QUICK_AGENT: &[&str] = &[
    "--cluster-lease-duration=4s",
    "--cluster-status-update-frequency=1s",
    "--cluster-failure-threshold=2s",
    "--cluster-success-threshold=1s",
];
/// A control plane that detects missed heartbeats as quickly, with short timeouts.
const QUICK_PLANE: &[&str] =
    &["--cluster-monitor-grace-period=5s", "--cluster-monitor-period=1s", "--graceful-eviction-timeout=5s"];

/// Real API servers with real controllers, with our agents.
struct RealFleet {
    /// `None` while it is down.
    plane: Option<Flotilla>,
    members: Vec<Member>,
    agents: Vec<Agent>,
    plane_arguments: &'static [&'static str],
    agent_arguments: &'static [&'static str],
    /// Keeps the data of the control plane across restarts.
    data: tempfile::TempDir,
}

impl RealFleet {
    /// `None` if the real programs are not installed.
    fn start(
        nodes: usize,
        plane_arguments: &'static [&'static str],
        agent_arguments: &'static [&'static str],
    ) -> Option<Self> {
        let members = Member::start_all(&CLUSTER_NAMES, nodes)?;
        let data = tempfile::tempdir().expect("a temporary directory");
        let plane = Flotilla::start_in(data.path(), plane_arguments);
        let agents = members.iter().map(|member| Agent::ours(&plane.kubeconfig, member, agent_arguments)).collect();
        let fleet = Self { plane: Some(plane), members, agents, plane_arguments, agent_arguments, data };
        fleet.wait_until_ready();
        Some(fleet)
    }

    fn at(&self, member: &str) -> usize {
        CLUSTER_NAMES.iter().position(|name| *name == member).expect("a member of that name")
    }

    fn agent(&self, member: &str) -> u64 {
        self.agents[self.at(member)].pid().into()
    }

    fn kill_agent(&mut self, member: &str) {
        drop(self.agents.remove(self.at(member)));
    }

    fn start_agent(&mut self, member: &str) {
        let at = self.at(member);
        self.agents.insert(at, Agent::ours(&self.plane(), &self.members[at], self.agent_arguments));
    }
}

impl FailoverFleet for RealFleet {
    fn plane(&self) -> PathBuf {
        self.data.path().join("karmada-apiserver.config")
    }

    fn member_kubeconfig(&self, name: &str) -> PathBuf {
        self.members[self.at(name)].kubeconfig().to_owned()
    }

    fn journal(&self) -> String {
        self.plane.as_ref().map(Flotilla::log).unwrap_or_default()
    }

    fn kill_member(&mut self, member: &str) {
        let at = self.at(member);
        self.members[at].api.end_api();
    }

    fn start_member(&mut self, member: &str) {
        let at = self.at(member);
        self.members[at].api.start_api_again();
    }

    fn disconnect(&mut self, member: &str) {
        signal(self.agent(member), "-STOP");
    }

    fn reconnect(&mut self, member: &str) {
        signal(self.agent(member), "-CONT");
    }

    fn replace_agent(&mut self, member: &str) {
        self.kill_agent(member);
        self.start_agent(member);
    }

    fn replace_plane(&mut self) {
        let plane = self.plane.take().expect("a plane");
        let port = plane.port();
        plane.kill();
        let data: &Path = self.data.path();
        self.plane = Some(Flotilla::start_at(data, port, self.plane_arguments));
    }
}

#[test]
fn an_application_leaves_a_cordoned_cluster_and_returns_on_request() {
    let Some(fleet) = RealFleet::start(2, &[], &[]) else { return };
    run_cordoned_cluster(&fleet);
}

#[test]
fn applications_survive_killed_members_agents_and_control_planes() {
    let Some(mut fleet) = RealFleet::start(1, QUICK_PLANE, QUICK_AGENT) else { return };
    run_crashes_and_partitions(&mut fleet);
    a_missing_replacement(&mut fleet);
}

/// Replicas that run nowhere else are kept, however long their replacement takes, even after all timeouts.
fn a_missing_replacement(fleet: &mut RealFleet) {
    fleet.expect_kubectl_in("ottawa", &["label", "nodes", "--all", "disk=here"]);
    fleet.apply(&deployment("only-here", "nodeSelector: {disk: here}"));
    // Only the loss of a cluster triggers a failover, not unhealthy replicas, which would trigger it again and again.
    let (placement, _) = POLICY.split_once("  failover:").expect("two parts");
    let tolerations = "    clusterTolerations: [{operator: Exists, effect: NoExecute, tolerationSeconds: 5}]\n";
    fleet.apply(&format!("{}{tolerations}  failover: {{cluster: {{}}}}", placement.replace("my-app", "only-here")));
    fleet.in_cluster("ottawa", &["get", "deploy", "only-here", READY_REPLICAS], "2");
    let watch = fleet.never_none("only-here");
    // Killed, and not only disconnected.
    fleet.kill_agent("ottawa");
    fleet.on_plane(&["get", "rb", "only-here-deployment", PLACED], "robbinsdale");
    fleet.in_cluster("robbinsdale", &["get", "deploy", "only-here", "-o=jsonpath={.spec.replicas}"], "2");
    fleet.start_agent("ottawa");
    fleet.on_plane(&["get", "cluster", "ottawa", TAINTS], "");
    let came_back = Instant::now();
    // The timeout is five seconds; three times that shows that it is not applied.
    while came_back.elapsed() < Duration::from_secs(15) {
        assert_eq!(fleet.ready_in("ottawa", "only-here"), 2, "the only copy that runs");
        assert_eq!(fleet.ask(&["get", "rb", "only-here-deployment", TASKS]), "ottawa");
        std::thread::sleep(Duration::from_millis(500));
    }
    fleet.expect_kubectl_in("robbinsdale", &["label", "nodes", "--all", "disk=here"]);
    fleet.in_cluster("robbinsdale", &["get", "deploy", "only-here", READY_REPLICAS], "2");
    fleet.is_gone_from("ottawa", "only-here");
    watch.end();
    let explanation = e2e::fleet::text(&fleet.flotilla(&["why", "deployment/only-here"]));
    assert!(explanation.contains("HealthyElsewhere"), "{explanation}");
}
