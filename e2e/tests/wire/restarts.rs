//! The view of clients on a server that stops, restarts, or has compacted its history.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use e2e::flotilla::{Flotilla, programs};
use serde_json::{Value, json};

use crate::wire::Endpoint;
use e2e::kube_apiserver::KubeApiServer;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn make(endpoint: &Endpoint, name: &str) -> u64 {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"story": "yes"}}});
    endpoint.post(MAPS, &map).expect(201).version()
}

#[test]
fn a_stopping_server_ends_watches_cleanly() {
    let server = Flotilla::start();
    let endpoint = Endpoint::of_kubeconfig(&server.kubeconfig);
    make(&endpoint, "a");
    let mut events = endpoint.watch(&format!("{MAPS}?watch=1&labelSelector=story"));
    assert_eq!(events.next_short(), "ADDED a");
    let stopping = std::thread::spawn(move || server.stop());
    assert!(events.next().is_none());
    assert!(events.ended, "the last chunk was sent before the connection closed");
    assert!(stopping.join().expect("no panic").success());
}

#[test]
fn a_watch_from_before_a_restart_continues() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = Flotilla::start_in(directory.path(), &[]);
    let since = make(&Endpoint::of_kubeconfig(&server.kubeconfig), "a");
    make(&Endpoint::of_kubeconfig(&server.kubeconfig), "b");
    server.kill();
    let server = Flotilla::start_in(directory.path(), &[]);
    let endpoint = Endpoint::of_kubeconfig(&server.kubeconfig);
    let query = format!("{MAPS}?watch=1&labelSelector=story&resourceVersion={since}&timeoutSeconds=5");
    assert_eq!(endpoint.watch(&query).next_short(), "ADDED b");
}

#[test]
fn a_real_server_forgets_with_a_restart() {
    let Some(mut server) = KubeApiServer::start() else { return };
    let since = make(&Endpoint::of_kubeconfig(&server.kubeconfig), "a");
    make(&Endpoint::of_kubeconfig(&server.kubeconfig), "b");
    server.restart();
    check_expired(&Endpoint::of_kubeconfig(&server.kubeconfig), since - 1);
}

/// A rejected watch gets the error as its first and only event, where clients expect it.
fn check_expired(endpoint: &Endpoint, version: u64) {
    let query = format!("{MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=5");
    let event = endpoint.watch(&query).next().expect("an event");
    assert_eq!(event["type"], "ERROR", "{event}");
    assert_eq!((&event["object"]["code"], &event["object"]["reason"]), (&json!(410), &json!("Expired")), "{event}");
    let message = event["object"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with(&format!("too old resource version: {version} (")), "{message}");
}

#[test]
fn a_compacted_continue_token_expires_with_a_new_one() {
    if !programs().join("etcd").exists() {
        test_skip::skip(format_args!("etcd is not in {}", programs().display()));
        return;
    }
    let etcd = Etcd::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let arguments = ["--storage", "etcd", "--etcd-servers", &etcd.url];
    let server = Flotilla::start_in(directory.path(), &arguments);
    let endpoint = Endpoint::of_kubeconfig(&server.kubeconfig);
    for name in ["a", "b", "c"] {
        make(&endpoint, name);
    }
    let first = endpoint.get(&format!("{MAPS}?labelSelector=story&limit=1")).expect(200);
    let token = first.json()["metadata"]["continue"].as_str().expect("more pages").to_owned();
    let newest = make(&endpoint, "d");
    etcd.compact(newest);
    // The server's own cache would still serve the page.
    server.kill();
    let server = Flotilla::start_in(directory.path(), &arguments);
    let endpoint = Endpoint::of_kubeconfig(&server.kubeconfig);
    let page = |token: &str| endpoint.get(&format!("{MAPS}?labelSelector=story&limit=5&continue={token}"));
    let refused = page(&token).expect_reason(410, "Expired").json();
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.contains("The provided continue parameter is too old"), "{message}");
    let onward = refused["metadata"]["continue"].as_str().expect("a token to go on with");
    assert_eq!(page(onward).expect(200).names(), ["b", "c", "d"]);
    let exact = format!("{MAPS}?resourceVersion={}&resourceVersionMatch=Exact", first.version());
    endpoint.get(&exact).expect_reason(410, "Expired");
    check_expired(&endpoint, first.version());
}

struct Etcd {
    url: String,
    child: Child,
    _directory: tempfile::TempDir,
}

impl Etcd {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let [url, peer] = listeners.map(|l| format!("http://{}", l.local_addr().expect("bound")));
        let mut command = Command::new(programs().join("etcd"));
        command.args(["--unsafe-no-fsync", "--data-dir"]).arg(directory.path());
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}")]);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("etcd starts");
        let etcd = Self { url, child, _directory: directory };
        while etcd.ask("maintenance/status", &json!({})).is_none() {
            std::thread::sleep(Duration::from_millis(100));
        }
        etcd
    }

    fn compact(&self, revision: u64) {
        let answer = self.ask("kv/compaction", &json!({"revision": revision.to_string(), "physical": true}));
        let answer = answer.expect("etcd answers");
        assert!(answer["header"].is_object(), "{answer}");
    }

    /// Uses the JSON gateway of etcd's API.
    fn ask(&self, method: &str, body: &Value) -> Option<Value> {
        let url = format!("{}/v3/{method}", self.url);
        let output = Command::new("curl").args(["-s", "--noproxy", "*", "-d", &body.to_string(), &url]).output();
        serde_json::from_slice(&output.expect("curl runs").stdout).ok()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
