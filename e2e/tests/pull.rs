//! Pull-mode members of our control plane, with our agent and with Karmada's own; with a real Karmada control plane:
//! `interop.rs`.

use e2e::agent::Agent;
use e2e::eventually::eventually;
use e2e::fleet::{CROSSING, Fleet, READY, READY_REPLICAS, application};
use e2e::flotilla::Flotilla;
use e2e::member::Member;

#[test]
fn our_agent_and_karmadas_own_pull_from_our_plane() {
    let Some(members) = Member::start_all(&["ours", "karmadas"], 1) else { return };
    let fleet = Fleet { plane: Flotilla::start(), members };
    let plane = fleet.plane.kubeconfig.clone();
    let mut ours = Agent::ours(&plane, fleet.member("ours"), &["--cluster-region", "north"]);
    let Some(_karmadas) = Agent::karmadas(&plane, fleet.member("karmadas"), &[]) else { return };
    for cluster in ["ours", "karmadas"] {
        fleet.wait_ready(cluster);
        fleet.on_plane(&["get", "cluster", cluster, "-o=jsonpath={.spec.syncMode}"], "Pull");
        let uid = fleet.member(cluster).ask(&["get", "ns", "kube-system", "-o=jsonpath={.metadata.uid}"]);
        fleet.on_plane(&["get", "cluster", cluster, "-o=jsonpath={.spec.id}"], &uid);
        fleet.on_plane(&["-n=karmada-cluster", "get", "lease", cluster, "-o=jsonpath={.spec.holderIdentity}"], cluster);
        let owner = "-o=jsonpath={.metadata.ownerReferences[0].name}";
        fleet.on_plane(&["-n=karmada-cluster", "get", "secret", cluster, owner], cluster);
    }
    fleet.on_plane(&["get", "cluster", "ours", "-o=jsonpath={.spec.region}"], "north");
    fleet.apply(&application("pulled", "ours, karmadas"));
    for cluster in ["ours", "karmadas"] {
        fleet.in_member(cluster, &["get", "deploy", "pulled", READY_REPLICAS], "2");
    }
    fleet.on_plane(&["get", "deploy", "pulled", READY_REPLICAS], "4");

    // Changes made while no agent ran are reverted by the next one; the same member is not a duplicate.
    assert!(ours.ended().is_none(), "{}", ours.log());
    drop(ours);
    let scaled = fleet.member("ours").kubectl(&["scale", "deploy", "pulled", "--replicas=5"]);
    assert!(scaled.status.success());
    let _again = Agent::ours(&plane, fleet.member("ours"), &["--cluster-region", "south"]);
    fleet.in_member("ours", &["get", "deploy", "pulled", "-o=jsonpath={.spec.replicas}"], "2");
    fleet.on_plane(&["get", "cluster", "ours", "-o=jsonpath={.spec.region}"], "south");

    assert!(fleet.kubectl(&["delete", "deploy", "pulled"]).status.success());
    for cluster in ["ours", "karmadas"] {
        fleet.in_member(cluster, &["get", "deploy", "pulled", "--ignore-not-found", "-o=name"], "");
    }
}

#[test]
fn a_member_registered_under_another_name_is_rejected() {
    let Some(members) = Member::start_all(&["first"], 1) else { return };
    let fleet = Fleet { plane: Flotilla::start(), members };
    let _first = Agent::ours(&fleet.plane.kubeconfig, fleet.member("first"), &[]);
    fleet.wait_ready("first");
    let mut second = Agent::ours(&fleet.plane.kubeconfig, fleet.member("first"), &["--cluster-name", "second"]);
    eventually("the second agent ends", CROSSING, || second.ended().is_some());
    assert!(second.log().contains("this cluster is registered as first"), "{}", second.log());
    assert_eq!(fleet.ask(&["get", "cluster", "second", "--ignore-not-found", "-o=name"]), "");
}

const READY_REASON: &str = r#"-o=jsonpath={.status.conditions[?(@.type=="Ready")].reason}"#;

/// A lease that is renewed every two seconds, so that tests do not wait for most of a minute.
const QUICK: &[&str] = &["--cluster-lease-duration=8s", "--cluster-status-update-frequency=2s"];

#[test]
fn agents_survive_plane_outages_and_planes_detect_silent_agents() {
    let Some(members) = Member::start_all(&["m1"], 1) else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let grace = ["--cluster-monitor-grace-period=10s", "--cluster-monitor-period=1s"];
    let mut fleet = Fleet { plane: Flotilla::start_in(directory.path(), &grace), members };
    let agent = Agent::ours(&fleet.plane.kubeconfig, fleet.member("m1"), QUICK);
    fleet.wait_ready("m1");
    fleet.apply(&application("pulled", "m1"));
    fleet.in_member("m1", &["get", "deploy", "pulled", READY_REPLICAS], "2");

    // Without its control plane the agent keeps the member in the last known state.
    let port = fleet.plane.port();
    fleet.plane.kill();
    let member = &fleet.members[0];
    assert!(member.kubectl(&["scale", "deploy", "pulled", "--replicas=7"]).status.success());
    eventually("changes are reverted while the control plane is down", CROSSING, || {
        member.ask(&["get", "deploy", "pulled", "-o=jsonpath={.spec.replicas}"]) == "2"
    });
    fleet.plane = Flotilla::start_at(directory.path(), port, &grace);
    fleet.on_plane(&["get", "cluster", "m1", READY], "True");
    assert!(fleet.kubectl(&["scale", "deploy", "pulled", "--replicas=3"]).status.success());
    fleet.in_member("m1", &["get", "deploy", "pulled", READY_REPLICAS], "3");

    drop(agent);
    fleet.on_plane(&["get", "cluster", "m1", READY_REASON], "ClusterStatusUnknown");
    let _again = Agent::ours(&fleet.plane.kubeconfig, fleet.member("m1"), QUICK);
    fleet.on_plane(&["get", "cluster", "m1", READY_REASON], "ClusterReady");
    fleet.in_member("m1", &["get", "deploy", "pulled", READY_REPLICAS], "3");
}
