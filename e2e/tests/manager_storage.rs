//! The size limit of the storage of an instance, in the manager's process and in one of its own.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use e2e::flotilla::kubectl;
use e2e::manager::{ManagerProcess, eventually, ready, text};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(90);

fn spec(storage: &str) -> Value {
    let claim = json!({"spec": {"resources": {"requests": {"storage": storage}}}});
    json!({"components": {"etcd": {"local": {"volumeData": {"volumeClaim": claim}}}}})
}

/// Deletes the instance with the test, so that no process of it is left.
struct DeleteInstance<'a>(&'a ManagerProcess, &'static str);

impl Drop for DeleteInstance<'_> {
    fn drop(&mut self) {
        self.0.flotilla(&["instance", "delete", self.1]);
    }
}

/// Creates a ConfigMap of 800 KiB with a finalizer.
fn create(admin: &Path, name: &str) -> Output {
    let metadata = json!({"name": name, "namespace": "default", "finalizers": ["example.com/kept"]});
    let data = json!({"a": "AAAA".repeat(200 << 10)});
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": data});
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), object.to_string()).expect("written");
    kubectl(admin, &["create", "-f", &file.path().display().to_string()])
}

/// Deletes a ConfigMap as a user and a controller do: with an update that removes the finalizer. Updates wait until the versions that
/// others have replaced are compacted.
fn delete(manager: &ManagerProcess, admin: &Path, name: &str) {
    let finalizers = r#"{"metadata":{"finalizers":null}}"#;
    for arguments in [
        &["delete", "configmap", name, "--wait=false"][..],
        &["patch", "configmap", name, "--type=merge", "-p", finalizers],
    ] {
        let done = || {
            let done = kubectl(admin, arguments);
            if done.status.success() { Ok(()) } else { Err(text(&done)) }
        };
        eventually(LIMIT, done, || manager.server.log());
    }
}

#[track_caller]
fn check(mode: &str, name: &'static str) {
    let manager = ManagerProcess::start(&[]);
    let annotations = json!({"flotilla.dev/mode": mode});
    manager.create(name, annotations.clone(), spec("64Mi"));
    let _end = DeleteInstance(&manager, name);
    manager.wait_for(name, "Completed");
    let admin = manager.admin_kubeconfig(name);
    for number in 0..25 {
        let created = create(&admin, &format!("a{number}"));
        assert!(created.status.success(), "{}", text(&created));
    }
    // The control plane starts below its size and does not lose anything.
    manager.create(name, annotations.clone(), spec("16Mi"));
    let full = manager.wait_for(name, "StorageFull");
    assert_eq!(full["status"]["phase"], "Degraded", "{mode}: {full}");
    let message = ready(&full)["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("size limit of 16.0 MiB"), "{mode}: {message}");
    let admin = manager.admin_kubeconfig(name);
    let refused = create(&admin, "more");
    assert!(text(&refused).contains("size limit of 16.0 MiB is reached"), "{mode}: {}", text(&refused));
    let listed = kubectl(&admin, &["get", "configmaps", "-o", "name"]);
    assert_eq!(text(&listed).matches("configmap/a").count(), 25, "{mode}");
    let diagnosis = text(&manager.flotilla(&["instance", "diagnose", name]));
    assert!(diagnosis.contains("delete objects, or raise"), "{mode}: {diagnosis}");

    manager.create(name, annotations, spec("32Mi"));
    manager.wait_for(name, "Completed");
    let admin = manager.admin_kubeconfig(name);
    let mut filled = 25;
    while create(&admin, &format!("a{filled}")).status.success() {
        filled += 1;
        assert!(filled < 60, "{mode}: the limit has no effect");
    }
    (0..filled / 2).for_each(|number| delete(&manager, &admin, &format!("a{number}")));
    let again = || {
        let created = create(&admin, "again");
        if created.status.success() { Ok(()) } else { Err(text(&created)) }
    };
    eventually(LIMIT, again, || manager.server.log());
    manager.wait_for(name, "Completed");
}

#[test]
fn a_full_instance_of_the_managers_process_goes_on_with_deletes() {
    check("in-process", "east");
}

#[test]
fn a_full_instance_in_a_process_goes_on_with_deletes() {
    check("process", "west");
}
