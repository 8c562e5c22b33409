//! What every newcomer tries, end to end: templates and policies on our plane, real Kubernetes clusters as members.

use std::time::Duration;

use e2e::eventually::eventually;
use e2e::member::Member;

#[test]
fn a_member_runs_pods() {
    let Some(member) = Member::start("m1", 2) else { return };
    member.kubectl(&["create", "deployment", "web", "--image=nginx", "--replicas=3"]);
    eventually("pods run", Duration::from_secs(60), || {
        member.ask(&["get", "deploy", "web", "-o=jsonpath={.status.readyReplicas}"]) == "3"
    });
}
