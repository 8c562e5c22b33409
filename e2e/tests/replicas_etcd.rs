//! etcd loses a node, its quorum, and each node in turn: clients notice nothing, or get a clear error.

#[path = "replicas/load.rs"]
mod load;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use e2e::agent::Agent;
use e2e::balancer::Balancer;
use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::flotilla::{kubectl, programs};
use e2e::light_member::LightMember;
use e2e::member::apply;
use e2e::replicas::Replicas;

use self::load::{Load, missing};

const LIMIT: Duration = Duration::from_secs(90);
/// Maximum time of any response.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A watch that must survive everything.
struct RecordedWatch {
    child: Child,
    names: mpsc::Receiver<String>,
}

impl RecordedWatch {
    fn start(kubeconfig: &Path) -> Self {
        let mut child = Command::new(programs().join("kubectl"))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["get", "configmaps", "--watch-only", "-o=name"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("kubectl starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, names) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line.trim_start_matches("configmap/").to_owned());
            }
        });
        Self { child, names }
    }

    /// Every written name must appear, once and in order.
    fn check(&self, prefix: &str, acknowledged: &[String]) {
        let prefix = format!("{prefix}-");
        let mut seen = Vec::new();
        // The watch may have started after the first of them.
        while seen.last() != acknowledged.last() {
            let name = self.names.recv_timeout(LIMIT);
            let name = name.unwrap_or_else(|_| panic!("the watch ended or fell silent after {:?}", seen.last()));
            if name.starts_with(&prefix) {
                seen.push(name);
            }
        }
        let from = acknowledged.iter().position(|name| *name == seen[0]).expect("one of those written");
        assert_eq!(seen, acknowledged[from..], "each once, in order");
    }
}

impl Drop for RecordedWatch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn losing_an_etcd_node_is_transparent_and_losing_the_quorum_is_reported() {
    let Some(mut replicas) = Replicas::start(2, 3, &[]) else { return };
    let kubeconfigs = [replicas.get(0).kubeconfig.clone(), replicas.get(1).kubeconfig.clone()];
    let loads = [Load::start(&kubeconfigs[0], "a"), Load::start(&kubeconfigs[1], "b")];
    let go_on = |writes| loads.iter().for_each(|load| load.go_on(writes, LIMIT));
    go_on(1);
    let watch = RecordedWatch::start(&kubeconfigs[0]);
    go_on(20);

    // First the leader, then a follower.
    for leads in [true, false] {
        let leader = replicas.etcd.leader().expect("etcd has a leader");
        let node = if leads { leader } else { (leader + 1) % 3 };
        replicas.etcd.kill(node);
        go_on(40);
        replicas.etcd.restart(node);
        go_on(10);
    }
    for load in &loads {
        let seen = load.seen();
        eprintln!("one node lost: {} writes, slowest request {:.1?}", seen.acknowledged.len(), seen.slowest);
        assert!(seen.errors.is_empty(), "clients noticed: {:?}", seen.errors);
    }

    lose_quorum(&mut replicas, &loads);
    go_on(20);
    for (load, (prefix, kubeconfig)) in loads.into_iter().zip([("a", &kubeconfigs[1]), ("b", &kubeconfigs[0])]) {
        let record = load.finish();
        assert_eq!(missing(kubeconfig, &record), Vec::<String>::new(), "acknowledged and lost");
        watch.check(prefix, &record.acknowledged);
    }
}

fn lose_quorum(replicas: &mut Replicas, loads: &[Load]) {
    let before: Vec<usize> = loads.iter().map(|load| load.seen().errors.len()).collect();
    replicas.etcd.kill(0);
    replicas.etcd.kill(1);
    let health = |replicas: &Replicas, path: &str| text(&replicas.get(0).kubectl(&["get", "--raw", path]));
    for path in ["/readyz", "/livez"] {
        eventually("health checks report the failure", LIMIT, || health(replicas, path).contains("[-]etcd failed"));
    }
    assert!(health(replicas, "/readyz").contains("[-]etcd-readiness failed"));
    assert_eq!(health(replicas, "/livez?exclude=etcd"), "ok", "the server itself is healthy");
    let start = Instant::now();
    let refused = replicas.get(1).kubectl(&["create", "configmap", "refused"]);
    assert!(!refused.status.success() && start.elapsed() < ANSWER_LIMIT, "after {:?}", start.elapsed());
    eventually("both clients get errors", LIMIT, || {
        loads.iter().zip(&before).all(|(load, before)| load.seen().errors.len() > *before)
    });
    for (load, before) in loads.iter().zip(&before) {
        for (error, took) in &load.seen().errors[*before..] {
            eprintln!("without a quorum, after {took:.1?}: {error}");
            let is_clear = (error.starts_with("503 ServiceUnavailable") || error.starts_with("504 Timeout"))
                && error.contains("etcd");
            assert!(is_clear && *took < ANSWER_LIMIT, "{error} after {took:?}");
        }
    }
    let start = Instant::now();
    replicas.etcd.launch(0);
    replicas.etcd.restart(1);
    eventually("everything is healthy again", LIMIT, || health(replicas, "/readyz") == "ok");
    eprintln!("with its quorum back, the server was ready after {:.1?}", start.elapsed());
}

#[test]
fn replicas_and_etcd_nodes_are_restarted_one_by_one_under_load() {
    let Some(mut replicas) = Replicas::start(3, 3, &[]) else { return };
    let balancer = Balancer::start(replicas.ports());
    let plane = balancer.kubeconfig(&replicas.get(0).kubeconfig, replicas.port(0));
    // The directory of the first replica is kept over its restart.
    let member = LightMember::start(&[]);
    let agent = Agent::ours_outside(&plane, ("pulled", &member.kubeconfig), &[]);
    let ready = r#"-o=jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
    eventually("the member is ready", LIMIT, || {
        kubectl(&plane, &["get", "cluster", "pulled", ready]).stdout.starts_with(b"True")
    });
    let load = Load::start(&plane, "rolling");
    for number in 0..3 {
        load.go_on(10, LIMIT);
        place(&plane, &member, &format!("replica-{number}"));
        replicas.stop(number);
        load.go_on(10, LIMIT);
        replicas.restart(number);
    }
    for number in 0..3 {
        replicas.etcd.stop(number);
        load.go_on(10, LIMIT);
        place(&plane, &member, &format!("etcd-{number}"));
        replicas.etcd.restart(number);
    }
    load.go_on(10, LIMIT);
    let record = load.finish();
    let (writes, errors) = (record.acknowledged.len(), record.errors.len());
    eprintln!(
        "rolling restarts: {writes} writes, slowest {:.1?}, {errors} retries: {:?}",
        record.slowest, record.errors
    );
    assert!(errors <= 12, "a restart costs a client a retry, not an outage: {:?}", record.errors);
    for (_, replica) in replicas.running() {
        assert_eq!(missing(&replica.kubeconfig, &record), Vec::<String>::new(), "acknowledged and lost");
    }
    assert!(kubectl(&plane, &["get", "cluster", "pulled", ready]).stdout.starts_with(b"True"), "{}", agent.log());
}

/// Propagates a new object to the pull-mode member.
fn place(plane: &Path, member: &LightMember, name: &str) {
    let documents = format!(
        "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: default}}
spec:
  resourceSelectors: [{{apiVersion: v1, kind: Secret, name: {name}}}]
  placement: {{clusterAffinity: {{clusterNames: [pulled]}}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: {name}, namespace: default}}
"
    );
    // Retries as clients do on request.
    eventually("the control plane accepts it", LIMIT, || {
        apply(plane, &["apply", "-f", "-"], &documents).status.success()
    });
    eventually("it reaches the member", LIMIT, || member.kubectl(&["get", "secret", name]).status.success());
}
