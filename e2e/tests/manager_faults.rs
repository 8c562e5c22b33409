//! A manager that is killed at any point of creating or deleting instances: nothing is lost or created twice.

use std::path::Path;
use std::time::Duration;

use e2e::flotilla::kubectl;
use e2e::manager::{ManagerProcess, eventually, ready, text};
use serde_json::json;

/// Delays after a request at which the manager is killed.
const DELAYS_MS: &[u64] = &[0, 15, 40, 80, 150, 300];

fn directories(manager: &ManagerProcess, name: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(manager.directory.path().join(name)) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn certificate(manager: &ManagerProcess, uid: &str) -> Option<Vec<u8>> {
    std::fs::read(manager.directory.path().join("instances").join(uid).join("pki/ca.crt")).ok()
}

#[test]
fn a_killed_manager_finishes_what_it_began() {
    let mut manager = ManagerProcess::start(&[]);
    for (at, delay) in DELAYS_MS.iter().enumerate() {
        let name = format!("i{at}");
        manager.create(&name, json!({}), json!({}));
        std::thread::sleep(Duration::from_millis(*delay));
        let uid = manager.instance(&name).map(|found| found["metadata"]["uid"].as_str().unwrap_or("").to_owned());
        let uid = uid.expect("the object is stored before the answer");
        let before = certificate(&manager, &uid);
        manager = manager.restart("KILL");
        manager.wait_for(&name, "Completed");
        let after = certificate(&manager, &uid);
        assert!(after.is_some() && (before.is_none() || before == after), "keys are made once ({delay} ms)");
        let admin = manager.admin_kubeconfig(&name);
        let made = kubectl(&admin, &["create", "configmap", "a"]);
        assert!(made.status.success(), "{}", text(&made));
        assert_eq!(directories(&manager, "instances"), std::slice::from_ref(&uid), "one directory for one instance");

        let asked = manager.kubectl(&["delete", "karmada", "-n", "karmada-system", &name, "--wait=false"]);
        assert!(asked.status.success(), "{}", text(&asked));
        std::thread::sleep(Duration::from_millis(*delay / 4));
        manager = manager.restart("KILL");
        manager.wait_until_gone(&name);
        assert!(directories(&manager, "instances").is_empty(), "no data is left behind ({delay} ms)");
        assert_eq!(directories(&manager, "trash").len(), at + 1, "the data is in the trash once");
    }
}

#[test]
fn a_second_manager_cannot_use_the_same_directory() {
    let manager = ManagerProcess::start(&[]);
    let second = std::process::Command::new(e2e::flotilla::binary())
        .args(["manager", "--bind", "127.0.0.1:0", "--data-dir"])
        .arg(manager.directory.path())
        .output()
        .expect("flotilla runs");
    assert!(!second.status.success() && text(&second).contains("is in use by process"), "{}", text(&second));
}

#[test]
fn a_recreated_instance_gets_nothing_of_the_old_one() {
    let manager = ManagerProcess::start(&[]);
    manager.create("east", json!({}), json!({}));
    manager.wait_for("east", "Completed");
    let old = manager.admin_kubeconfig("east");
    assert!(kubectl(&old, &["create", "configmap", "secret-plan"]).status.success());
    let kept = manager.directory.path().join("old.config");
    std::fs::copy(&old, &kept).expect("copied");
    assert!(manager.flotilla(&["instance", "delete", "east"]).status.success());
    manager.create("east", json!({}), json!({}));
    manager.wait_for("east", "Completed");
    let refused = kubectl(Path::new(&kept), &["get", "configmaps"]);
    assert!(!refused.status.success() && text(&refused).contains("must be logged in"), "{}", text(&refused));
    let new = manager.admin_kubeconfig("east");
    let missing = kubectl(&new, &["get", "configmap", "secret-plan"]);
    assert!(text(&missing).contains("not found"), "{}", text(&missing));
}

#[test]
fn a_directory_that_cannot_be_made_is_reported_with_its_path() {
    let manager = ManagerProcess::start(&[]);
    // A file in the place of the directory: no instance can be created, and the manager goes on.
    std::fs::write(manager.directory.path().join("instances"), "").expect("written");
    manager.create("east", json!({}), json!({}));
    let failed = manager.wait_for("east", "Failed");
    let message = ready(&failed)["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("instances"), "{message}");
    std::fs::remove_file(manager.directory.path().join("instances")).expect("removed");
    let recovered = || {
        let now = manager.instance("east").unwrap_or_default();
        if ready(&now)["reason"] == "Completed" { Ok(()) } else { Err(now["status"].to_string()) }
    };
    eventually(Duration::from_secs(60), recovered, || manager.server.log());
}
