//! Broken states, each with the finding it must lead to.

use std::sync::Arc;

use jiff::Timestamp;
use object::Object;
use provisioners::Condition;
use provisioners::host::ports::Listener;
use provisioners::host::{Check as HostCheck, CheckStatus, Repair};
use serde_json::{Value, json};

use super::certificates::{CertificateSeen, Term};
use super::connections::{ConnectionProblem, ConnectionSeen};
use super::machines::{MachineSeen, Seen as MachinesSeen};
use super::members::MemberSeen;
use super::plane::Seen as PlaneSeen;
use super::pods::{PodSeen, Warning};
use super::ports::{Named, PortSeen};
use super::probe::{Answer, Probe};
use super::registrations::{ClusterSeen, Lease, SecretSeen, Seen as RegistrationsSeen};
use super::workloads::Seen as WorkloadsSeen;
use super::*;
use crate::expose::{Exposure, ExposureReport, PodChoice};
use crate::place::TestbedDir;
use crate::spec::Mode;

fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

fn hints() -> Hints {
    let place = TestbedDir::find(Some("/beds".into()), "one").unwrap();
    let members = ["member1", "member2"].map(str::to_owned).to_vec();
    Hints { kubeconfig: place.plane_config(), place: Some(place), members, ..Hints::default() }
}

fn object(value: Value) -> Arc<Object> {
    Arc::new(Object::from_value(value).unwrap())
}

/// The one finding the evidence leads to says this, and repairs it with that.
#[track_caller]
fn check(evidence: Evidence, layer: Layer, what: &str, why: &str, command: &str) {
    let findings = judge(&evidence, &hints(), now());
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let finding = &findings[0];
    assert_eq!(finding.layer, layer);
    assert!(format!("{} {}", finding.subject, finding.what).contains(what), "{finding:#?}");
    assert!(finding.why.contains(why), "{finding:#?}");
    assert_eq!(finding.command, command, "{finding:#?}");
}

#[track_caller]
fn check_healthy(evidence: Evidence) {
    let findings = judge(&evidence, &hints(), now());
    assert!(findings.is_empty(), "{findings:#?}");
}

const UP: &str = "flotilla up --home /beds --name one";

#[test]
fn a_full_disk_is_found_on_the_host() {
    let check_of = |standing| HostCheck {
        area: "disk",
        name: "/beds".into(),
        standing,
        detail: "3 MiB free".into(),
        why: "at least 1024 MiB are needed".into(),
        repair: Some(Repair::Advice("free some space there".into())),
    };
    check(
        Evidence::Host(vec![check_of(CheckStatus::Broken)]),
        Layer::Host,
        "disk /beds: 3 MiB free",
        "1024 MiB are needed",
        "free some space there",
    );
    check_healthy(Evidence::Host(vec![check_of(CheckStatus::Good), check_of(CheckStatus::Note)]));
}

fn machine(name: &str, condition: Condition) -> MachineSeen {
    MachineSeen {
        name: name.into(),
        is_member: name.starts_with("member"),
        condition: Ok(condition),
        last_words: "killed".into(),
    }
}

#[test]
fn machines_that_are_down_are_found() {
    let seen = |machines| Evidence::Machines(MachinesSeen { supervised: Some(Ok(())), machines, faults: vec![] });
    check_healthy(seen(vec![machine("member1", Condition::Running)]));
    let start = "flotilla start member1 --home /beds --name one";
    check(seen(vec![machine("member1", Condition::Stopped)]), Layer::Machines, "member1 is stopped", "killed", start);
    check(seen(vec![machine("karmada", Condition::Stopped)]), Layer::Machines, "karmada is stopped", "killed", UP);
    check(seen(vec![machine("member2", Condition::Missing)]), Layer::Machines, "does not exist", "removed", UP);
    let log = "tail -n 50 /beds/one/logs/member1.log";
    check(seen(vec![machine("member1", Condition::Failing)]), Layer::Machines, "keeps exiting", "killed", log);
    let inside = judge(&seen(vec![machine("member1", Condition::Failing)]), &Hints { is_lxd: true, ..hints() }, now());
    assert_eq!(inside[0].command, "lxc exec one-member1 -- tail -n 50 /var/log/flotilla.log");
    let stopped = MachinesSeen { supervised: Some(Err("no lock".into())), ..Default::default() };
    check(Evidence::Machines(stopped), Layer::Machines, "the testbed is not running", "no lock", UP);
    let faulty = MachinesSeen {
        supervised: Some(Ok(())),
        machines: vec![],
        faults: vec![("member1".into(), "slow 300ms".into())],
    };
    let heal = "flotilla fault member1 heal --home /beds --name one";
    check(Evidence::Machines(faulty), Layer::Machines, "slow 300ms is active", "the command fault", heal);
}

fn port(program: Option<&str>, server: &str) -> Evidence {
    let holder = program.map(|program| Listener {
        address: ([127, 0, 0, 1], 16441).into(),
        pid: Some(7),
        program: Some(program.to_owned()),
    });
    let named = Some(Named { file: "/beds/one/member1.config".into(), server: server.into() });
    Evidence::Ports(vec![PortSeen { port: 16441, of: "member1".into(), holder, is_own: false, named }])
}

#[test]
fn wrong_ports_are_found() {
    let server = "https://127.0.0.1:16441";
    check_healthy(port(Some("flotilla"), server));
    check_healthy(port(Some("lxd"), server));
    let Evidence::Ports(mut renamed) = port(Some("karmadactl"), server) else { panic!("ports") };
    renamed[0].is_own = true;
    check_healthy(Evidence::Ports(renamed));
    check(port(None, server), Layer::Ports, "no program listens on 127.0.0.1:16441", "does not run", UP);
    let kill = format!("kill 7; {UP}");
    check(port(Some("nginx"), server), Layer::Ports, "nginx (process 7) uses the port of member1", "same port", &kill);
    let what = "member1.config has the server https://127.0.0.1:9999, but member1 is on port 16441";
    check(port(Some("flotilla"), "https://127.0.0.1:9999"), Layer::Ports, what, "changed", UP);
}

fn plane(answer: Answer, skew: Option<i64>) -> Evidence {
    Evidence::Plane(PlaneSeen { server: "https://127.0.0.1:5443".into(), probe: Probe { skew, ..Probe::new(answer) } })
}

#[test]
fn an_unreachable_or_unhealthy_control_plane_is_found() {
    check_healthy(plane(Answer::Ready, Some(2)));
    check(plane(Answer::Unreachable("refused".into()), None), Layer::ControlPlane, "cannot be reached", "refused", UP);
    let raw = "kubectl --kubeconfig /beds/one/karmada-apiserver.config get --raw '/readyz?verbose'";
    check(plane(Answer::NotReady("store".into()), None), Layer::ControlPlane, "is not ready", "store", raw);
    check(plane(Answer::Unauthorized("401".into()), None), Layer::ControlPlane, "does not accept", "401", UP);
    let clock = "timedatectl set-ntp true";
    check(plane(Answer::Ready, Some(-90)), Layer::ControlPlane, "90 seconds behind", "tokens, leases", clock);
}

fn certificate(not_before: &str, not_after: &str, machine: Option<&str>) -> Evidence {
    let term = Term {
        subject: "admin".into(),
        not_before: not_before.parse().unwrap(),
        not_after: not_after.parse().unwrap(),
    };
    let machine = machine.map(str::to_owned);
    Evidence::Certificates(vec![CertificateSeen {
        file: "f".into(),
        role: "client certificate",
        state: Ok(term),
        machine,
    }])
}

#[test]
fn certificates_that_have_expired_or_are_about_to_or_not_yet_valid_are_found() {
    let early = "2026-01-01T00:00:00Z";
    let again = format!("flotilla down --home /beds --name one && {UP}");
    check_healthy(certificate(early, "2027-01-01T00:00:00Z", None));
    let expired = certificate(early, "2026-11-16T11:00:00Z", None);
    check(expired, Layer::Certificates, "has expired on 2026-11-16 11:00 UTC", "reject", &again);
    let soon = certificate(early, "2026-11-20T00:00:00Z", None);
    check(soon, Layer::Certificates, "expires on 2026-11-20", "renewed", &again);
    let future = certificate("2026-11-17T00:00:00Z", "2027-01-01T00:00:00Z", None);
    check(future, Layer::Certificates, "is only valid from 2026-11-17", "clock", &again);
    let of_member = certificate(early, "2026-11-16T11:00:00Z", Some("member1"));
    let restart = "flotilla stop member1 --home /beds --name one && flotilla start member1 --home /beds --name one";
    check(of_member, Layer::Certificates, "has expired", "reject", restart);
    let unreadable =
        CertificateSeen { file: "f".into(), role: "kubeconfig", state: Err("damaged".into()), machine: None };
    check(Evidence::Certificates(vec![unreadable]), Layer::Certificates, "cannot be read", "damaged", UP);
}

fn cluster(mode: &str, ready: &str) -> Arc<Object> {
    object(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "member1"},
        "spec": {"syncMode": mode, "secretRef": {"namespace": "karmada-cluster", "name": "member1"}},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "ClusterNotReachable", "message": "cluster is not reachable"}]},
    }))
}

fn registered(cluster: ClusterSeen) -> Evidence {
    Evidence::Registrations(RegistrationsSeen {
        clusters: vec![cluster],
        expected: vec![("member1".into(), Mode::Push)],
    })
}

fn push(ready: &str, secret: SecretSeen, answer: Option<Answer>) -> Evidence {
    let probe = answer.map(Probe::new);
    registered(ClusterSeen { cluster: cluster("Push", ready), lease: None, secret, probe })
}

fn token(text: &str) -> SecretSeen {
    SecretSeen::Present { token: text.into(), ca: b"x".to_vec() }
}

#[test]
fn a_secret_with_a_bad_token_is_found_before_the_condition_it_leads_to() {
    check_healthy(push("True", token("good"), Some(Answer::Ready)));
    let refused = Some(Answer::Unauthorized("401".into()));
    check(
        push("False", token("stale"), refused),
        Layer::Registrations,
        "rejects the token",
        "karmada-cluster/member1",
        UP,
    );
    check(push("False", token(" "), None), Layer::Registrations, "an empty token", "has none", UP);
    check(push("False", SecretSeen::Missing, None), Layer::Registrations, "has no credentials", "does not exist", UP);
    // {"exp":1700000000}
    let expired = "h.eyJleHAiOjE3MDAwMDAwMDB9.s";
    check(push("True", token(expired), None), Layer::Registrations, "its token has expired", "2023-11-14", UP);
    let away = Some(Answer::Unreachable("x".into()));
    check(
        push("False", token("good"), away),
        Layer::Registrations,
        "is not ready (False)",
        "ClusterNotReachable: cluster is not reachable",
        UP,
    );
}

#[test]
fn an_agent_that_does_not_report_is_found_by_its_lease() {
    let pull = |renewed: Option<&str>, ready: &str| {
        let lease = renewed.map(|renewed| Lease { renewed: renewed.parse().ok(), seconds: 12 });
        registered(ClusterSeen { cluster: cluster("Pull", ready), lease, secret: SecretSeen::NotNamed, probe: None })
    };
    check_healthy(pull(Some("2026-11-16T11:59:50Z"), "True"));
    check(
        pull(Some("2026-11-16T11:58:00Z"), "Unknown"),
        Layer::Registrations,
        "its agent does not report",
        "120 seconds ago",
        UP,
    );
    check(pull(None, "Unknown"), Layer::Registrations, "its agent does not report", "never renewed", UP);
}

#[test]
fn members_that_never_registered_or_cannot_leave_are_found() {
    let unregistered = RegistrationsSeen { clusters: vec![], expected: vec![("member2".into(), Mode::Pull)] };
    check(Evidence::Registrations(unregistered), Layer::Registrations, "member2 is not registered", "agent never", UP);
    let mut leaving = (*cluster("Push", "True")).clone();
    leaving.set(&["metadata", "deletionTimestamp"], "2026-11-16T11:00:00Z");
    leaving.add_finalizer("karmada.io/cluster-controller");
    let seen = ClusterSeen { cluster: Arc::new(leaving), lease: None, secret: token("t"), probe: None };
    let force = "flotilla unjoin member1 --force --kubeconfig /beds/one/karmada-apiserver.config";
    check(registered(seen), Layer::Registrations, "does not end", "karmada.io/cluster-controller", force);
}

fn node(ready: &str, pressure: &str) -> Arc<Object> {
    object(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0"},
        "status": {"conditions": [
            {"type": "Ready", "status": ready, "reason": "NodeStatusUnknown", "message": "stopped posting"},
            {"type": "DiskPressure", "status": pressure, "reason": "KubeletHasDiskPressure", "message": "full"},
        ]},
    }))
}

fn member(answer: Answer, direct: Option<Answer>, nodes: Vec<Arc<Object>>) -> Evidence {
    let direct = direct.map(Probe::new);
    Evidence::Members(vec![MemberSeen { name: "member1".into(), probe: Probe::new(answer), direct, nodes }])
}

#[test]
fn a_stopped_member_and_a_broken_forward_are_distinguished() {
    check_healthy(member(Answer::Ready, None, vec![node("True", "False")]));
    let refused = || Answer::Unreachable("refused".into());
    check(member(refused(), Some(refused()), vec![]), Layer::Members, "cannot be reached", "refused", UP);
    let heal = "flotilla fault member1 heal --home /beds --name one";
    check(
        member(refused(), Some(Answer::Ready), vec![]),
        Layer::Members,
        "its forwarded port is broken",
        "it responds directly",
        heal,
    );
}

#[test]
fn unhealthy_nodes_are_found() {
    let on = "kubectl --kubeconfig /beds/one/member1.config";
    let describe = format!("{on} describe node node-0");
    check(
        member(Answer::Ready, None, vec![node("Unknown", "False")]),
        Layer::Members,
        "the node is not ready",
        "stopped posting",
        &describe,
    );
    check(
        member(Answer::Ready, None, vec![node("True", "True")]),
        Layer::Members,
        "under DiskPressure",
        "full",
        &describe,
    );
    check(
        member(Answer::Ready, None, vec![]),
        Layer::Members,
        "has no nodes",
        "no pod can run",
        &format!("{on} get nodes"),
    );
}

fn pod(status: Value, warning: Option<(&str, &str)>) -> Evidence {
    let pod = object(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}, "status": status,
    }));
    let warning = warning.map(|(reason, message)| Warning { reason: reason.into(), message: message.into() });
    Evidence::Pods(vec![PodSeen { member: "member1".into(), pod, warning }])
}

fn waiting(reason: &str) -> Value {
    json!({"phase": "Pending", "containerStatuses": [{
        "name": "main", "image": "nginx:9", "restartCount": 4, "state": {"waiting": {"reason": reason, "message": "status says"}},
        "lastState": {"terminated": {"exitCode": 7}},
    }]})
}

#[test]
fn pods_that_do_not_run_are_found_with_the_events_that_explain_them() {
    let on = "kubectl --kubeconfig /beds/one/member1.config";
    let describe = format!("{on} describe pod web -n default");
    check_healthy(pod(
        json!({"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}),
        None,
    ));
    check_healthy(pod(waiting("ContainerCreating"), None));
    check_healthy(pod(json!({"phase": "Succeeded"}), None));
    let failed = Some(("Failed", "manifest unknown"));
    check(
        pod(waiting("ImagePullBackOff"), failed),
        Layer::Pods,
        "main cannot get image nginx:9",
        "Failed: manifest unknown",
        &describe,
    );
    check(pod(waiting("ErrImagePull"), None), Layer::Pods, "main cannot get image nginx:9", "status says", &describe);
    let logs = format!("{on} logs web -n default -c main --previous");
    check(
        pod(waiting("CrashLoopBackOff"), None),
        Layer::Pods,
        "keeps crashing",
        "code 7 and was restarted 4 times",
        &logs,
    );
    check(pod(waiting("CreateContainerConfigError"), None), Layer::Pods, "does not start", "status says", &describe);
    let unscheduled =
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "old"}]});
    let event = Some(("FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu."));
    check(pod(unscheduled.clone(), event), Layer::Pods, "is Pending", "FailedScheduling: 0/1 nodes", &describe);
    check(pod(unscheduled, None), Layer::Pods, "is Pending", "old", &describe);
    check(
        pod(json!({"phase": "Failed", "reason": "Evicted", "message": "disk"}), None),
        Layer::Pods,
        "has failed",
        "Evicted: disk",
        &describe,
    );
}

#[test]
fn many_failing_pods_of_one_member_are_counted() {
    let Evidence::Pods(one) = pod(waiting("CrashLoopBackOff"), None) else { unreachable!() };
    let many = (0..30).map(|_| PodSeen { member: "member1".into(), pod: Arc::clone(&one[0].pod), warning: None });
    let findings = judge(&Evidence::Pods(many.collect()), &hints(), now());
    assert_eq!(findings.len(), 21);
    assert_eq!(findings[20].what, "10 more pods do not run");
}

#[test]
fn unscheduled_workloads_and_failed_works_are_found() {
    let condition = |kind: &str| json!([{"type": kind, "status": "False", "reason": "NoClusterFit", "message": "0/3 clusters are available"}]);
    let binding = object(json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "web-deployment", "namespace": "default"},
        "spec": {"resource": {"kind": "Deployment", "name": "web", "namespace": "default"}}, "status": {"conditions": condition("Scheduled")},
    }));
    let why = "flotilla why deployment/web -n default --kubeconfig /beds/one/karmada-apiserver.config";
    let seen = WorkloadsSeen { bindings: vec![binding], works: vec![] };
    check(Evidence::Workloads(seen), Layer::Workloads, "Deployment default/web is not scheduled", "0/3 clusters", why);
    let work = object(json!({
        "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": "web-1", "namespace": "karmada-es-member1"},
        "spec": {"workload": {"manifests": [{"kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}}]}},
        "status": {"conditions": condition("Applied")},
    }));
    let describe = "kubectl --kubeconfig /beds/one/karmada-apiserver.config describe work web-1 -n karmada-es-member1";
    let seen = WorkloadsSeen { bindings: vec![], works: vec![work] };
    check(Evidence::Workloads(seen), Layer::Workloads, "could not be applied in member1", "NoClusterFit", describe);
}

#[test]
fn forwards_without_a_target_are_found() {
    let seen = |problem: Option<&str>, connected: Result<(), ConnectionProblem>| {
        let exposure = Exposure {
            name: "prometheus1".into(),
            cluster: "member1".into(),
            kubeconfig: "/k".into(),
            namespace: "monitoring".into(),
            pod: PodChoice::Name("p".into()),
            listen: 9091,
            bind: [127, 0, 0, 1].into(),
            port: 9090,
        };
        let report = ExposureReport { exposure, leads_to: None, problem: problem.map(str::to_owned) };
        Evidence::Connections(vec![ConnectionSeen { report, connected }])
    };
    check_healthy(seen(None, Ok(())));
    let refused = || ConnectionProblem::NotAccepted("refused".into());
    let pods = "kubectl --kubeconfig /beds/one/member1.config get pods -n monitoring";
    check(
        seen(Some("no pod is ready"), Err(refused())),
        Layer::Connections,
        "has no pod in member1",
        "no pod is ready",
        pods,
    );
    let what = "(127.0.0.1:9091) accepts no connection";
    check(seen(None, Err(refused())), Layer::Connections, what, "refused", UP);
    let closed = seen(None, Err(ConnectionProblem::Closed));
    check(closed, Layer::Connections, "closes every connection", "listens on port 9090", &format!("{pods} -o wide"));
}

#[test]
fn findings_are_ordered_by_layer_and_notes_come_last() {
    let evidence = vec![
        pod(waiting("CrashLoopBackOff"), None),
        plane(Answer::Unreachable("x".into()), None),
        Evidence::Machines(MachinesSeen {
            supervised: Some(Ok(())),
            machines: vec![machine("member1", Condition::Stopped)],
            faults: vec![("member1".into(), "kill".into())],
        }),
    ];
    let findings = diagnose(&evidence, &hints(), now());
    let order: Vec<(Layer, Severity)> = findings.iter().map(|finding| (finding.layer, finding.severity)).collect();
    let expected = [
        (Layer::Machines, Severity::Broken),
        (Layer::Machines, Severity::Note),
        (Layer::ControlPlane, Severity::Broken),
        (Layer::Pods, Severity::Broken),
    ];
    assert_eq!(order, expected);
}

#[test]
fn slow_responses_are_noted() {
    let slow = |milliseconds: u64| {
        let latency = Some(std::time::Duration::from_millis(milliseconds));
        let probe = Probe { latency, ..Probe::new(Answer::Ready) };
        Evidence::Members(vec![MemberSeen {
            name: "member1".into(),
            probe,
            direct: None,
            nodes: vec![node("True", "False")],
        }])
    };
    check_healthy(slow(20));
    let heal = "flotilla fault member1 heal --home /beds --name one";
    check(slow(312), Layer::Members, "member1 responds slowly: 312 ms", "overloaded", heal);
}

#[test]
fn an_agent_with_rejected_credentials_and_a_cluster_without_nodes_are_found() {
    let pull = |probe: Answer| {
        let lease = Some(Lease { renewed: Some(now()), seconds: 40 });
        let probe = Some(Probe::new(probe));
        registered(ClusterSeen { cluster: cluster("Pull", "True"), lease, secret: SecretSeen::NotNamed, probe })
    };
    check_healthy(pull(Answer::Ready));
    let what = "the control plane rejects the credentials of its agent";
    check(pull(Answer::Unauthorized("401".into())), Layer::Registrations, what, "401", UP);
    let mut cordoned = (*cluster("Push", "True")).clone();
    cordoned.set(&["spec", "taints"], json!([{"key": "flotilla.dev/unschedulable", "effect": "NoExecute"}]));
    let seen = ClusterSeen { cluster: Arc::new(cordoned), lease: None, secret: token("t"), probe: None };
    let uncordon = "flotilla uncordon --all -C member1 --kubeconfig /beds/one/karmada-apiserver.config";
    check(registered(seen), Layer::Registrations, "has no schedulable node", "failover", uncordon);
}

#[test]
fn layers_that_were_not_examined_are_unknown_and_not_healthy() {
    let layers = || vec![Layer::Host, Layer::Machines, Layer::Workloads, Layer::Pods];
    let evidence = [
        Evidence::NotApplicable(Layer::Machines),
        Evidence::Unknown(Layer::Workloads, "403".into()),
        Evidence::Pods(vec![]),
    ];
    let seen = report(&evidence, layers(), &hints(), now());
    assert!(!seen.healthy, "{seen:?}");
    assert_eq!(seen.layers, [Layer::Host, Layer::Pods]);
    assert_eq!(seen.unknown, [UnknownLayer { layer: Layer::Workloads, why: "403".into() }]);
    assert!(report(&[Evidence::Pods(vec![])], layers(), &hints(), now()).healthy);
}

/// Commands can be copied: they name the control plane that was examined, and paths are quoted.
#[test]
fn commands_select_what_was_examined() {
    let spaced = TestbedDir::find(Some("/test beds".into()), "one").unwrap();
    let of_bed = Hints { kubeconfig: spaced.plane_config(), place: Some(spaced), ..hints() };
    let kubectl = "kubectl --kubeconfig '/test beds/one/";
    assert_eq!(of_bed.kubectl("get pp"), format!("{kubectl}karmada-apiserver.config' get pp"));
    assert_eq!(of_bed.on_member("member1", "get nodes"), format!("{kubectl}member1.config' get nodes"));
    let up = "flotilla up --home '/test beds' --name one";
    assert_eq!([of_bed.join_again("member1"), of_bed.start_plane()], [up, up]);
    // Clusters that joined later are not members of the testbed: `up` does not repair them, and has no file of them.
    let flag = "--kubeconfig '/test beds/one/karmada-apiserver.config'";
    assert_eq!(of_bed.on_member("joined", "get nodes"), format!("flotilla get nodes {flag} -s members -C joined"));
    assert_eq!(of_bed.repair_cluster("joined", "elsewhere"), "elsewhere");
    assert!(of_bed.join_again("joined").starts_with(&format!("flotilla unjoin joined {flag} && ")));

    let of_plane = |file: &str| Hints { kubeconfig: file.into(), ..Hints::default() };
    let plane = of_plane("/data/karmada-apiserver.config");
    let flag = "--kubeconfig /data/karmada-apiserver.config";
    assert_eq!(plane.on_member("m1", "get nodes"), format!("flotilla get nodes {flag} -s members -C m1"));
    assert_eq!(plane.on_member("m1", "logs web"), format!("flotilla logs web {flag} -C m1"));
    let join = format!("flotilla unjoin m1 {flag} && flotilla join m1 --cluster-kubeconfig FILE-OF-m1 {flag}");
    assert_eq!(plane.join_again("m1"), join);
    assert_eq!(plane.start_plane(), "flotilla server --data-dir DATA-DIR");
}

/// Without a list of clusters, nothing is known about members and their pods.
#[tokio::test]
async fn members_of_an_unreachable_control_plane_are_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("karmada-apiserver.config");
    let text =
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
        users: [{name: u, user: {token: t}}], clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]}";
    std::fs::write(&file, text).unwrap();
    let subject = DoctorSubject::plane(&file, None).unwrap();
    assert_eq!(subject.hints().start_plane(), "flotilla server --data-dir DATA-DIR");
    let report = examine(&subject).await;
    let unknown: Vec<Layer> = report.unknown.iter().map(|unknown| unknown.layer).collect();
    assert_eq!(unknown, [Layer::Registrations, Layer::Members, Layer::Workloads, Layer::Pods], "{report:#?}");
    assert_eq!(report.layers, [Layer::ControlPlane, Layer::Certificates], "{report:#?}");

    // The directory of the kubeconfig shows what wrote it, also through a link.
    let (link, path) = (directory.path().join("link"), directory.path().canonicalize().unwrap());
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let start = || DoctorSubject::plane(&link, None).unwrap().hints().start_plane();
    std::fs::create_dir(directory.path().join("pki")).unwrap();
    assert_eq!(start(), format!("flotilla server --data-dir {}", path.display()));
    let bed = path.join("one");
    std::fs::create_dir(&bed).unwrap();
    std::fs::write(bed.join("testbed.json"), "{}").unwrap();
    std::fs::rename(&file, bed.join("karmada-apiserver.config")).unwrap();
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(bed.join("karmada-apiserver.config"), &link).unwrap();
    assert_eq!(start(), format!("flotilla up --home {} --name one", path.display()));
}
