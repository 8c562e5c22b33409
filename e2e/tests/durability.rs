//! Acknowledged writes survive a kill, a stop and a restart; a second server on the same data is rejected.

use std::process::Command;

use e2e::flotilla::{Flotilla, binary};

#[test]
fn a_killed_server_loses_nothing_and_a_stopped_one_exits_cleanly() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let server = Flotilla::start_in(folder.path(), &[]);
    for name in ["a", "b", "c"] {
        assert!(server.kubectl(&["create", "configmap", name]).status.success());
    }
    server.kill();
    let server = Flotilla::start_in(folder.path(), &[]);
    for name in ["a", "b", "c"] {
        assert!(server.kubectl(&["get", "configmap", name]).status.success(), "{name}: {}", server.log());
    }
    assert!(server.kubectl(&["delete", "configmap", "a"]).status.success());
    assert!(server.stop().success(), "a stopped server exits without an error");
    let server = Flotilla::start_in(folder.path(), &[]);
    assert!(!server.kubectl(&["get", "configmap", "a"]).status.success());
    assert!(server.kubectl(&["get", "configmap", "b"]).status.success());
}

#[test]
fn a_second_server_on_the_same_data_is_rejected_with_the_pid_of_the_first() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let server = Flotilla::start_in(folder.path(), &[]);
    let second = Command::new(binary())
        .args(["server", "--bind", "127.0.0.1:0", "--data-dir"])
        .arg(folder.path())
        .output()
        .expect("the binary runs");
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains(&server.pid().to_string()), "{said}");
}

#[test]
fn keys_are_private_and_no_secret_is_logged() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a temporary directory");
    let audit = folder.path().join("audit.log").display().to_string();
    let server =
        Flotilla::start_in(folder.path(), &["--log", "debug", "--audit-log", &audit, "--audit-level", "Request"]);
    let created = server.kubectl(&["create", "secret", "generic", "s", "--from-literal=password=hunter2-hunter2"]);
    assert!(created.status.success());
    let encoded = "aHVudGVyMi1odW50ZXIy";
    for text in [server.log(), std::fs::read_to_string(&audit).expect("an audit log")] {
        assert!(!text.contains("hunter2") && !text.contains(encoded), "a secret was written down");
    }
    assert!(
        std::fs::read_to_string(&audit).expect("an audit log").contains("\"secrets\""),
        "the request is in the log"
    );
    let pki = std::fs::read_dir(folder.path().join("pki")).expect("the key folder");
    let keys: Vec<_> = pki.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "key")).collect();
    assert!(!keys.is_empty());
    for path in keys.iter().chain([&server.kubeconfig]) {
        let mode = std::fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} can be read by others", path.display());
    }
}
