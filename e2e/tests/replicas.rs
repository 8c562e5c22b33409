//! Several servers on one etcd act as one: the same objects, the same keys, and controllers on one of them.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use e2e::etcd::EtcdCluster;
use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::flotilla::{Flotilla, binary, kubectl};
use e2e::member::apply;
use e2e::replicas::Replicas;

/// Timeout of every wait.
const LIMIT: Duration = Duration::from_secs(60);

/// Sends a request to one replica with the kubeconfig of another.
fn ask_with(replicas: &Replicas, asked: usize, credentials_of: usize, arguments: &[&str]) -> Output {
    let server = format!("https://127.0.0.1:{}", replicas.port(asked));
    kubectl(&replicas.get(credentials_of).kubeconfig, &[&["--server", &server], arguments].concat())
}

#[track_caller]
fn is_done(output: &Output) {
    assert!(output.status.success(), "{}", text(output));
}

#[test]
fn replicas_share_objects_and_credentials() {
    let Some(mut replicas) = Replicas::start(3, 3, &[]) else { return };
    is_done(&replicas.get(0).kubectl(&["create", "configmap", "shared", "--from-literal=a=1"]));
    is_done(&replicas.get(1).kubectl(&["get", "configmap", "shared"]));
    is_done(&replicas.get(2).kubectl(&["delete", "configmap", "shared"]));
    assert!(!replicas.get(0).kubectl(&["get", "configmap", "shared"]).status.success(), "a read is never old");
    for asked in 0..3 {
        is_done(&ask_with(&replicas, asked, (asked + 1) % 3, &["get", "namespaces"]));
    }
    accept_tokens(&replicas);
    // A machine is replaced: its directory is lost, and its clients do not notice.
    let kubeconfig = replicas.directory(2).join("karmada-apiserver.config");
    let before = std::fs::read(&kubeconfig).expect("a kubeconfig");
    replicas.stop(2);
    replicas.restart_empty(2);
    let kept = replicas.directory(0).join("kept.config");
    std::fs::write(&kept, before).expect("written");
    is_done(&kubectl(&kept, &["get", "namespaces"]));
    let authority = |number: usize| std::fs::read(replicas.directory(number).join("pki/ca.crt")).expect("a CA");
    assert_eq!(authority(0), authority(2));
    reject_other_keys(&replicas.etcd);
}

/// ServiceAccount tokens issued by one replica are accepted by all.
fn accept_tokens(replicas: &Replicas) {
    let issue = || replicas.get(0).kubectl(&["create", "token", "default"]);
    eventually("the namespace has its account", LIMIT, || issue().status.success());
    let token = String::from_utf8_lossy(&issue().stdout).trim().to_owned();
    for (number, replica) in replicas.running() {
        let file = replica.data_dir.join("token.config");
        let server = format!("https://127.0.0.1:{}", replicas.port(number));
        let arguments = ["--server", &server, "--insecure-skip-tls-verify", "--token", &token, "auth", "whoami"];
        std::fs::write(&file, "").expect("written");
        let said = text(&kubectl(&file, &arguments));
        assert!(said.contains("system:serviceaccount:default:default"), "replica {number}: {said}");
    }
}

/// A data directory of another control plane must not become a replica of this one.
fn reject_other_keys(etcd: &EtcdCluster) {
    let other = Flotilla::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let pki = directory.path().join("pki");
    std::fs::create_dir(&pki).expect("made");
    for entry in std::fs::read_dir(other.data_dir.join("pki")).expect("keys").flatten() {
        std::fs::copy(entry.path(), pki.join(entry.file_name())).expect("copied");
    }
    let mut server = Command::new(binary());
    server.args(["server", "--bind", "127.0.0.1:0", "--data-dir"]).arg(directory.path()).args(etcd.flags());
    let refused = server.output().expect("the server runs");
    let said = text(&refused);
    assert!(
        !refused.status.success() && said.contains("is not the key that the servers on this storage share"),
        "{said}"
    );
    assert!(said.contains("To join them, move"), "{said}");
}

#[test]
fn controllers_run_on_one_replica_and_move_when_it_stops() {
    let Some(mut replicas) = Replicas::start(2, 1, &[]) else { return };
    let first = replicas.wait_for_leader(0, None, LIMIT);
    let second = 1 - first;
    let works = |replicas: &Replicas, number: usize| replicas.get(number).log().contains("leading");
    assert!(works(&replicas, first) && !works(&replicas, second), "exactly one is the leader");
    propagate_a_secret(&replicas, first);
    let start = Instant::now();
    replicas.stop(first);
    let stopped = start.elapsed();
    assert_eq!(replicas.wait_for_leader(second, Some(first), LIMIT), second);
    let moved = start.elapsed();
    eprintln!("a clean stop took {stopped:.1?}; the controllers were on another replica after {moved:.1?}");
    assert!(moved < Duration::from_secs(14), "the lease was given up, not waited for: {moved:?}");
    is_done(&replicas.get(second).kubectl(&["create", "namespace", "after"]));
    eventually("the controllers work where they are now", LIMIT, || {
        replicas.get(second).kubectl(&["get", "serviceaccount", "default", "-n", "after"]).status.success()
    });
    let steps = timeline(&replicas, second);
    assert!(steps.contains("BindingCreated"), "the timeline has steps from before the change of the leader: {steps}");
    replicas.restart(first);
    assert_eq!(replicas.leader(second), Some(second), "a restarted replica does not take over");
}

/// Creates a Secret that a policy selects, and waits until all replicas know that its propagation has begun.
fn propagate_a_secret(replicas: &Replicas, asked: usize) {
    let documents = "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: traced, namespace: default}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Secret, name: traced}]
  placement: {clusterAffinity: {clusterNames: []}}
---
apiVersion: v1
kind: Secret
metadata: {name: traced, namespace: default}
";
    is_done(&apply(&replicas.get(asked).kubeconfig, &["apply", "-f", "-"], documents));
    for replica in 0..replicas.count() {
        eventually("every replica records the binding", LIMIT, || {
            timeline(replicas, replica).contains("BindingCreated")
        });
    }
}

fn timeline(replicas: &Replicas, asked: usize) -> String {
    let path = "/flotilla/v1alpha1/timeline?apiVersion=v1&kind=Secret&namespace=default&name=traced";
    text(&replicas.get(asked).kubectl(&["get", "--raw", path]))
}
