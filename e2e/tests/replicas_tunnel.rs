//! The tunnel of an agent ends at one replica and is reachable from every other.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use e2e::agent::Agent;
use e2e::balancer::Balancer;
use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::flotilla::programs;
use e2e::light_member::LightMember;
use e2e::replicas::Replicas;

const LIMIT: Duration = Duration::from_secs(60);
const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: main, image: nginx}]}
";

/// Runs kubectl in the member through a replica.
fn through(replicas: &Replicas, number: usize, arguments: &[&str]) -> Output {
    let port = replicas.port(number);
    let server = format!("https://127.0.0.1:{port}/apis/cluster.karmada.io/v1alpha1/clusters/pulled/proxy");
    Command::new(programs().join("kubectl"))
        .arg("--kubeconfig")
        .arg(&replicas.get(number).kubeconfig)
        .args(["--server", &server])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("kubectl runs")
}

#[test]
fn a_pull_member_is_reached_through_every_replica_whichever_its_agent_chose() {
    let Some(mut replicas) = Replicas::start(2, 1, &[]) else { return };
    let balancer = Balancer::start(replicas.ports());
    let plane = balancer.kubeconfig(&replicas.get(0).kubeconfig, replicas.port(0));
    let member = LightMember::start(&[]);
    let nowhere = ["--cluster-api-endpoint", "https://127.0.0.1:9"];
    let _agent = Agent::ours_outside(&plane, ("pulled", &member.kubeconfig), &nowhere);
    member.apply(POD);
    eventually("the pod runs", LIMIT, || {
        member.ask(&["get", "pod", "web", "-o=jsonpath={.status.phase}"]) == "Running"
    });
    for number in 0..2 {
        let listed = || through(&replicas, number, &["get", "pods", "--no-headers"]);
        eventually("both replicas lead there", LIMIT, || listed().stdout.starts_with(b"web "));
    }
    let holds = |replicas: &Replicas, number: usize| {
        replicas.get(number).log().contains("tunnel to the member opened by its agent")
    };
    assert_ne!(holds(&replicas, 0), holds(&replicas, 1), "the agent has one way open");
    let holder = usize::from(holds(&replicas, 1));
    let other = 1 - holder;
    let ask = |arguments: &[&str]| text(&through(&replicas, other, arguments));
    assert!(ask(&["logs", "web"]).contains("started nginx in pod default/web"));
    assert_eq!(ask(&["exec", "web", "--", "sh", "-c", "echo said from within"]), "said from within\n");
    // All members at once, from a replica without the tunnel.
    let all = "/apis/cluster.karmada.io/v1alpha1/clusters/*/proxy/api/v1/namespaces/default/pods";
    assert!(text(&replicas.get(other).kubectl(&["get", "--raw", all])).contains(r#""name":"web""#));
    // The member sees the identity of the caller, not of a replica.
    let who = replicas.get(other).kubectl(&["auth", "whoami", "-o=jsonpath={.status.userInfo.username}"]);
    assert_eq!(ask(&["auth", "whoami", "-o=jsonpath={.status.userInfo.username}"]), text(&who));
    other_callers_cannot_use_the_replica_endpoint(&replicas, holder);

    replicas.kill(holder);
    eventually("the agent goes to the replica that is left", LIMIT, || {
        through(&replicas, other, &["get", "pods", "--no-headers"]).stdout.starts_with(b"web ")
    });
    assert!(holds(&replicas, other));
    replicas.restart(holder);
    eventually("and the one that is back leads there through it", LIMIT, || {
        through(&replicas, holder, &["logs", "web"]).status.success()
    });
}

/// The endpoint between replicas is closed to all other callers, regardless of their permissions on paths.
fn other_callers_cannot_use_the_replica_endpoint(replicas: &Replicas, holder: usize) {
    let path = "/flotilla/v1alpha1/peer-tunnels/pulled";
    let replica = replicas.get(holder);
    let granted = ["create", "clusterrole", "paths", "--verb=get", "--non-resource-url=/flotilla/*"];
    assert!(replica.kubectl(&granted).status.success());
    let bound = ["create", "clusterrolebinding", "paths", "--clusterrole=paths", "--user=someone"];
    assert!(replica.kubectl(&bound).status.success());
    for user in [vec!["--as=someone"], vec!["--as=system:flotilla:replica"]] {
        let asked = replica.kubectl(&[&user[..], &["get", "--raw", path]].concat());
        assert!(text(&asked).contains("only replicas of this server may use this path"), "{user:?}: {}", text(&asked));
    }
    let asked = text(&replica.kubectl(&["get", "--raw", path]));
    assert!(asked.contains("this path is for replicas"), "{asked}");
}
