//! Runs the same kubectl commands on a real kube-apiserver with our controllers and with kube-controller-manager; the
//! resulting objects and events must be equal.

#[path = "../../cluster-client/tests/kube/mod.rs"]
mod kube;
mod parity {
    pub mod node;
    pub mod normal;
    pub mod scenario;
}

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use cluster_client::{ClusterClient, Endpoint, Kubeconfig};
use kube::KubeApiServer;
use reconcile::{Mirrors, SystemClock};
use tokio_util::sync::CancellationToken;

const CONTROLLERS: &str = "deployment-controller,replicaset-controller,replicationcontroller-controller,\
    statefulset-controller,daemonset-controller,job-controller,cronjob-controller";

/// Killed at the end of the test.
struct ControllerManager(Child);

impl ControllerManager {
    fn start(server: &KubeApiServer) -> Option<Self> {
        let home = std::env::var_os("HOME").map(std::path::PathBuf::from).unwrap_or_default();
        let bin = std::env::var_os("FLOTILLA_KUBE_BIN").map_or(home.join(".cache/flotilla/bin"), Into::into);
        let program = bin.join("kube-controller-manager");
        if !program.exists() {
            test_skip::skip(format_args!("{} is missing", program.display()));
            return None;
        }
        let log = std::fs::File::create(server.directory().join("manager.log")).expect("a log file");
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(&server.kubeconfig);
        command.args(["--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port=0"]);
        command.arg(format!("--controllers={CONTROLLERS}"));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a second handle")).stderr(log);
        Some(Self(command.spawn().expect("it starts")))
    }
}

impl Drop for ControllerManager {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_controllers_match_kube_controller_manager() {
    let Some(server) = tokio::task::spawn_blocking(KubeApiServer::start).await.expect("started") else { return };
    let server = Arc::new(server);
    let config = Kubeconfig::load(std::slice::from_ref(&server.kubeconfig)).expect("a kubeconfig");
    let mut remote = config.remote(None).expect("a context");
    remote.rate_limit = None;
    let client = ClusterClient::connect(Endpoint::Remote(remote)).expect("usable");
    parity::node::create_nodes(&client).await;
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    tokio::spawn(parity::node::run(client.clone(), stop.clone()));

    let ours = CancellationToken::new();
    let parts =
        workloads::WorkloadDeps { mirrors: Mirrors::new(client.clone(), ours.clone()), clock: Arc::new(SystemClock) };
    let running = tokio::spawn(workloads::run(parts, ours.clone()));
    let seen_with_ours = parity::scenario::play(&server, &client, "ours").await;
    ours.cancel();
    running.await.expect("ends");

    let Some(_manager) = ControllerManager::start(&server) else { return };
    let seen_with_theirs = parity::scenario::play(&server, &client, "theirs").await;
    let all: BTreeSet<&String> = seen_with_ours.keys().chain(seen_with_theirs.keys()).collect();
    let text = |seen: &BTreeMap<String, String>, what: &String| {
        let lines = seen.get(what).map(String::as_str).unwrap_or_default().lines();
        // Names the ReplicaSet whose progress was observed last; a short rollout may go unobserved.
        lines.filter(|line| !line.contains("has successfully progressed.")).collect::<Vec<_>>().join("\n")
    };
    let differences = all.into_iter().filter_map(|what| {
        let (ours, theirs) = (text(&seen_with_ours, what), text(&seen_with_theirs, what));
        (ours != theirs).then(|| format!("{what}\n{}", difference(&ours, &theirs)))
    });
    let differences: Vec<String> = differences.collect();
    assert!(differences.is_empty(), "- theirs, + ours\n{}", differences.join("\n"));
}

/// Lines that only one side has.
fn difference(ours: &str, theirs: &str) -> String {
    let missing =
        theirs.lines().filter(|line| !ours.lines().any(|other| other == *line)).map(|line| format!("-{line}"));
    let added = ours.lines().filter(|line| !theirs.lines().any(|other| other == *line)).map(|line| format!("+{line}"));
    let lines: Vec<String> = missing.chain(added).collect();
    if lines.is_empty() { format!("in another order:\n{theirs}\nours:\n{ours}") } else { lines.join("\n") }
}
