//! Several servers on one etcd are one server: any of them answers for what any other was told.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use e2e::eventually::eventually;
use e2e::flotilla::{Flotilla, programs};

/// How long anything may take here.
const LIMIT: Duration = Duration::from_secs(30);

struct Etcd {
    child: Child,
    url: String,
    _directory: tempfile::TempDir,
}

impl Etcd {
    fn start() -> Option<Self> {
        let program = programs().join("etcd");
        if !program.exists() {
            eprintln!("SKIPPED: {} is missing; `make test` builds it", program.display());
            return None;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        let [client, peer] = e2e::kube_apiserver::free_ports_for_etcd();
        let (url, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let child = Command::new(program)
            .arg("--data-dir")
            .arg(directory.path())
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd starts");
        Some(Self { child, url, _directory: directory })
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn two_servers_on_one_etcd_see_each_others_writes() {
    let Some(etcd) = Etcd::start() else { return };
    let flags = ["--storage", "etcd", "--etcd-servers", &etcd.url];
    let (first, second) = (Flotilla::start_with(&flags), Flotilla::start_with(&flags));
    let made = first.kubectl(&["create", "configmap", "shared", "--from-literal=a=1"]);
    assert!(made.status.success(), "{}{}", String::from_utf8_lossy(&made.stderr), first.log());
    eventually("the second server lists what the first wrote", LIMIT, || {
        let listed = second.kubectl(&["get", "configmap", "-o", "name"]);
        String::from_utf8_lossy(&listed.stdout).contains("configmap/shared")
    });
    assert!(second.kubectl(&["delete", "configmap", "shared"]).status.success());
    assert!(!first.kubectl(&["get", "configmap", "shared"]).status.success(), "a read is never older than a write");
    first.kill();
    assert!(second.kubectl(&["create", "namespace", "after"]).status.success());
    eventually("the controllers move to the server that is left", LIMIT, || {
        second.kubectl(&["get", "serviceaccount", "default", "-n", "after"]).status.success()
    });
}
