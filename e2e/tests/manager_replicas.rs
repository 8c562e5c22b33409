//! Two managers on one etcd: each serves all instances, and the loss of one loses no data.

use std::process::Output;
use std::time::Duration;

use e2e::etcd::EtcdCluster;
use e2e::flotilla::{Flotilla, kubectl};
use e2e::manager::{ManagerProcess, eventually, karmada, ready, text};
use serde_json::{Value, json};

const SECRET: &str = "instances-etcd";
const LIMIT: Duration = Duration::from_secs(60);

/// Storage in the etcd of the managers, under a prefix of its own.
fn on_etcd(etcd: &EtcdCluster, prefix: Option<&str>) -> Value {
    let mut components = json!({
        "etcd": {"external": {"endpoints": [etcd.url(0)], "secretRef": {"name": SECRET}}},
    });
    if let Some(prefix) = prefix {
        components["karmadaAPIServer"] = json!({"extraArgs": {"etcd-prefix": prefix}});
    }
    json!({"components": components})
}

fn create_secret(manager: &ManagerProcess, etcd: &EtcdCluster) {
    let files = [("ca.crt", etcd.ca_file()), ("tls.crt", etcd.certificate_file()), ("tls.key", etcd.key_file())];
    let files: Vec<String> = files.iter().map(|(key, path)| format!("--from-file={key}={}", path.display())).collect();
    let mut arguments = vec!["create", "secret", "generic", "-n", "karmada-system", SECRET];
    arguments.extend(files.iter().map(String::as_str));
    let made = manager.kubectl(&arguments);
    assert!(made.status.success(), "{}", text(&made));
}

/// Uses an instance through one manager.
fn within(manager: &ManagerProcess, instance: &str, arguments: &[&str]) -> Output {
    let server = format!("https://127.0.0.1:{}/instances/{instance}", manager.server.port());
    manager.kubectl(&[&["--server", &server], arguments].concat())
}

fn answers(manager: &ManagerProcess, instance: &str, arguments: &[&str]) -> Result<(), String> {
    let output = within(manager, instance, arguments);
    if output.status.success() { Ok(()) } else { Err(text(&output)) }
}

#[track_caller]
fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", text(output));
}

fn refuses_shared_places(manager: &ManagerProcess, etcd: &EtcdCluster, uid: &str) {
    let field = "spec.components.karmadaAPIServer.extraArgs[etcd-prefix]";
    for (prefix, why) in [
        (format!("/flotilla/{uid}"), "karmada-system/shared has its data there"),
        (format!("/flotilla/{uid}/"), "karmada-system/shared has its data there"),
        ("/flotilla".to_owned(), "karmada-system/shared has its data there"),
        ("/registry".to_owned(), "the manager has its own data there"),
    ] {
        let refused = manager.apply(&karmada("thief", json!({}), on_etcd(etcd, Some(&prefix))));
        let output = text(&refused);
        assert!(!refused.status.success() && output.contains(field) && output.contains(why), "{prefix}: {output}");
    }
}

#[test]
fn every_replica_serves_all_instances_and_a_lost_one_loses_no_data() {
    let Some(etcd) = EtcdCluster::start(1) else { return };
    let flags = etcd.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let a = ManagerProcess::start(&flags);
    create_secret(&a, &etcd);
    a.create("disk", json!({}), json!({}));
    a.create("shared", json!({}), on_etcd(&etcd, None));
    a.wait_for("disk", "Completed");
    let shared = a.wait_for("shared", "Completed");
    refuses_shared_places(&a, &etcd, shared["metadata"]["uid"].as_str().expect("a UID"));

    // The other replica runs none of them and serves both.
    let b = ManagerProcess::start(&flags);
    for instance in ["disk", "shared"] {
        let served = || answers(&b, instance, &["get", "namespaces"]);
        eventually(LIMIT, served, || b.server.log());
        succeeds(&within(&b, instance, &["create", "configmap", "a", "--from-literal=x=1"]));
        let read = within(&a, instance, &["get", "configmap", "a", "-o", "jsonpath={.data.x}"]);
        assert_eq!(text(&read), "1");
        let who = text(&within(&b, instance, &["auth", "whoami"]));
        assert!(who.contains("manager:system:admin") && who.contains("flotilla:instance:admin"), "{who}");
        // A credential of the instance itself, which only the instance knows.
        let admin = a.admin_kubeconfig(instance);
        let server = format!("https://127.0.0.1:{}/instances/{instance}", b.server.port());
        let own = text(&kubectl(&admin, &["--server", &server, "auth", "whoami"]));
        assert!(own.contains("system:masters"), "{own}");
    }

    let directory = std::path::PathBuf::from(a.directory.path());
    let ManagerProcess { directory: kept, server, .. } = a;
    let port = server.port();
    server.kill();
    // The data in the directory is out of reach; what is in the etcd moves.
    let missing = b.wait_for("disk", "DataMissing");
    let message = ready(&missing)["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains(&directory.join("instances").display().to_string()), "where it is: {message}");
    let moved = || {
        let now = b.instance("shared").unwrap_or_default();
        let has_moved = now["status"]["replica"] != shared["status"]["replica"];
        if has_moved && ready(&now)["reason"] == "Completed" { Ok(now) } else { Err(now["status"].to_string()) }
    };
    eventually(LIMIT, || moved().map(drop), || b.server.log());
    assert_eq!(moved().expect("it has moved")["status"]["identity"], shared["status"]["identity"], "the same plane");
    succeeds(&within(&b, "shared", &["get", "configmap", "a"]));
    let refused = within(&b, "disk", &["get", "configmap", "a"]);
    assert!(!refused.status.success() && text(&refused).contains("is not running"), "{}", text(&refused));

    let again = Flotilla::start_manager(&directory, port, &flags);
    b.wait_for("disk", "Completed");
    let served = || answers(&b, "disk", &["get", "configmap", "a"]);
    eventually(LIMIT, served, || b.server.log());
    drop(again);
    drop(kept);
}
