//! The cluster inventory of the manager with real members: join, statistics, the member proxy, credentials.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::flotilla::programs;
use e2e::light_member::LightMember;
use e2e::manager::{ManagerProcess, eventually, text};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(90);

fn secret(manager: &ManagerProcess, member: &LightMember) {
    let file = member.kubeconfig.display().to_string();
    let source = format!("--from-file=kubeconfig={file}");
    let made = manager.kubectl(&["create", "secret", "generic", "m1", &source, "--dry-run=client", "-o", "json"]);
    assert!(made.status.success(), "{}", text(&made));
    let object: Value = serde_json::from_slice(&made.stdout).expect("a Secret");
    let applied = manager.apply(&object);
    assert!(applied.status.success(), "{}", text(&applied));
}

fn cluster(instances: Value) -> Value {
    json!({
        "apiVersion": "manager.flotilla.dev/v1alpha1", "kind": "ManagedCluster", "metadata": {"name": "m1"},
        "spec": {"region": "eu", "labels": {"tier": "gold"}, "instances": instances,
            "secretRef": {"namespace": "default", "name": "m1"}},
    })
}

#[track_caller]
fn wait_for_condition(manager: &ManagerProcess, kind: &str, reason: &str) {
    let check = || {
        let found = manager.kubectl(&["get", "managedcluster", "m1", "-o", "json"]);
        let found: Value = serde_json::from_slice(&found.stdout).unwrap_or_default();
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is = conditions.iter().any(|condition| condition["type"] == kind && condition["reason"] == reason);
        if is { Ok(()) } else { Err(found["status"].to_string()) }
    };
    eventually(LIMIT, check, || manager.server.log());
}

#[test]
fn a_cluster_of_the_inventory_is_joined_used_and_removed() {
    let member = LightMember::start(&["--nodes", "1"]);
    let manager = ManagerProcess::start(&["--allow-loopback-endpoints"]);
    manager.create("east", json!({}), json!({}));
    let instance = manager.wait_for("east", "Completed");
    let endpoint = instance["status"]["endpoint"].as_str().expect("an endpoint").to_owned();
    let east = |arguments: &[&str]| manager.kubectl(&[&["--server", endpoint.as_str()][..], arguments].concat());
    secret(&manager, &member);
    let applied = manager.apply(&cluster(json!(["east"])));
    assert!(applied.status.success(), "{}", text(&applied));
    wait_for_condition(&manager, "Ready", "Joined");
    let joined = || {
        let found = east(&[
            "get",
            "cluster",
            "m1",
            "-o",
            "jsonpath={.spec.region} {.metadata.labels.tier} {.status.conditions[?(@.type=='Ready')].status}",
        ]);
        if text(&found) == "eu gold True" { Ok(()) } else { Err(text(&found)) }
    };
    eventually(LIMIT, joined, || manager.server.log());
    statistics_and_member_proxy_work(&manager, &endpoint);

    let refused = manager.flotilla(&["instance", "hibernate", "east"]);
    assert!(!refused.status.success() && text(&refused).contains("joined clusters"), "{}", text(&refused));
    let refused = manager.kubectl(&["delete", "managedcluster", "m1", "--timeout=5s"]);
    assert!(!refused.status.success() && text(&refused).contains("joined to east"), "{}", text(&refused));
    // A credential of another cluster is refused, and the old one stays in use.
    let other = LightMember::start(&[]);
    secret(&manager, &other);
    wait_for_condition(&manager, "CredentialsValid", "OtherCluster");
    eventually(LIMIT, joined, || manager.server.log());
    secret(&manager, &member);
    wait_for_condition(&manager, "CredentialsValid", "Checked");

    assert!(manager.apply(&cluster(json!([]))).status.success());
    let left = || {
        let found = text(&east(&["get", "clusters"]));
        if found.contains("No resources found") { Ok(()) } else { Err(found) }
    };
    eventually(LIMIT, left, || manager.server.log());
    let removed = || {
        let done = manager.kubectl(&["delete", "managedcluster", "m1", "--timeout=5s"]);
        if done.status.success() { Ok(()) } else { Err(text(&done)) }
    };
    eventually(LIMIT, removed, || manager.server.log());
    hibernates_and_wakes(&manager);
}

fn hibernates_and_wakes(manager: &ManagerProcess) {
    let done = manager.flotilla(&["instance", "hibernate", "east"]);
    assert!(done.status.success(), "{}", text(&done));
    manager.wait_for("east", "Hibernated");
    let done = manager.flotilla(&["instance", "wake", "east"]);
    assert!(done.status.success(), "{}", text(&done));
    let instance = manager.wait_for("east", "Completed");
    assert_eq!(instance["status"]["phase"], "Running");
}

fn statistics_and_member_proxy_work(manager: &ManagerProcess, endpoint: &str) {
    let counted = || {
        let summary = manager.instance("east").unwrap_or_default()["status"]["summary"].clone();
        let is = summary["clusterSummary"]["readyNum"] == 1 && summary["nodeSummary"]["totalNum"] == 1;
        if is { Ok(()) } else { Err(summary.to_string()) }
    };
    eventually(LIMIT, counted, || manager.server.log());
    // The member through the instance through the manager: objects, exec and logs.
    let proxy = format!("{endpoint}/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy");
    let member = |arguments: &[&str]| manager.kubectl(&[&["--server", proxy.as_str()][..], arguments].concat());
    let ran = || {
        let done = member(&["get", "nodes"]);
        if done.status.success() { Ok(()) } else { Err(text(&done)) }
    };
    eventually(LIMIT, ran, || manager.server.log());
    assert!(member(&["run", "web", "--image=nginx", "--restart=Never"]).status.success());
    let waited = member(&["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]);
    assert!(waited.status.success(), "{}", text(&waited));
    let done = member(&["exec", "web", "--", "echo", "through two planes"]);
    assert_eq!(text(&done), "through two planes\n");
    a_shell_ends_when_its_credential_is_revoked(manager, &proxy);
}

fn a_shell_ends_when_its_credential_is_revoked(manager: &ManagerProcess, proxy: &str) {
    let config = manager.directory.path().join("shell.config").display().to_string();
    let issued = manager.flotilla(&["instance", "kubeconfig", "east", "--expires", "1h", "-o", &config]);
    assert!(issued.status.success(), "{}", text(&issued));
    let mut shell = Command::new(programs().join("kubectl"))
        .args(["--kubeconfig", &config, "--server", proxy, "exec", "-i", "web", "--", "sh"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("kubectl starts");
    let mut input = shell.stdin.take().expect("an input");
    input.write_all(b"echo open\n").expect("typed");
    let mut line = String::new();
    BufReader::new(shell.stdout.take().expect("an output")).read_line(&mut line).expect("an answer");
    assert_eq!(line, "open\n");

    let listed = text(&manager.flotilla(&["instance", "kubeconfig", "east", "--list"]));
    let id = listed.split_whitespace().next().expect("an id").to_owned();
    let revoked = manager.flotilla(&["instance", "kubeconfig", "east", "--revoke", &id]);
    assert!(revoked.status.success(), "{}", text(&revoked));
    let began = Instant::now();
    let ended = || match shell.try_wait().expect("a state") {
        Some(_) => Ok(()),
        None => Err("the shell is still open".to_owned()),
    };
    eventually(LIMIT, ended, || manager.server.log());
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    drop(input);
}
