//! Applications survive the loss of a cluster, on a testbed: three named pull-mode members.

use std::path::PathBuf;

use e2e::eventually::eventually;
use e2e::failover_scenarios::{CLUSTER_NAMES, FailoverFleet, run_cordoned_cluster, run_crashes_and_partitions, signal};
use e2e::testbed::{CROSSING, Testbed};

const PLANE: &str = "karmada-apiserver";

struct FailoverTestbed(Testbed);

impl FailoverTestbed {
    fn up() -> Self {
        let names = format!("--members={}", CLUSTER_NAMES.join(","));
        let bed = Self(Testbed::up(&[&names, "--pull=all", "--nodes=2", "--no-registry"]));
        bed.wait_until_ready();
        bed
    }

    /// Kills a process as in a crash; the supervisor restarts it.
    fn replace(&self, part: &str) {
        let died = self.0.pid(part).expect("a process");
        signal(died, "-KILL");
        eventually("another process runs", CROSSING, || self.0.pid(part).is_some_and(|pid| pid != died));
    }
}

impl FailoverFleet for FailoverTestbed {
    fn plane(&self) -> PathBuf {
        self.0.config(PLANE)
    }

    /// The member's own address, as used by its agent: a partition cuts the other route.
    fn member_kubeconfig(&self, name: &str) -> PathBuf {
        self.0.directory().join(format!("agents/{name}-member.config"))
    }

    fn journal(&self) -> String {
        self.0.logs()
    }

    fn kill_member(&mut self, member: &str) {
        self.0.run_ok(&["fault", member, "kill"]);
    }

    fn start_member(&mut self, member: &str) {
        self.0.run_ok(&["fault", member, "heal"]);
    }

    fn disconnect(&mut self, member: &str) {
        self.0.run_ok(&["fault", member, "partition"]);
    }

    fn reconnect(&mut self, member: &str) {
        self.0.run_ok(&["fault", member, "heal"]);
    }

    fn replace_agent(&mut self, member: &str) {
        self.replace(&format!("{member}-agent"));
    }

    fn replace_plane(&mut self) {
        self.replace("karmada");
        self.0.wait(PLANE, &["get", "--raw", "/readyz"], "ok");
    }
}

#[test]
fn an_application_leaves_a_cordoned_cluster_of_the_testbed_and_returns() {
    run_cordoned_cluster(&FailoverTestbed::up());
}

#[test]
fn an_application_of_the_testbed_survives_killed_members_agents_and_control_planes() {
    run_crashes_and_partitions(&mut FailoverTestbed::up());
}
