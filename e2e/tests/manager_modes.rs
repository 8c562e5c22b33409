//! Instances that run elsewhere: processes that outlive the manager, and imported control planes.

use std::time::Duration;

use e2e::flotilla::{Flotilla, kubectl};
use e2e::hostile_api::{HostileAnswer, HostileApi};
use e2e::karmada_plane::KarmadaPlane;
use e2e::manager::{ManagerProcess, eventually, ready, text};
use serde_json::{Value, json};

/// Ends the process of an instance with the test, also when it fails.
struct EndProcess(u64);

impl Drop for EndProcess {
    fn drop(&mut self) {
        let _ = std::process::Command::new("kill").args(["-KILL", &self.0.to_string()]).status();
    }
}

fn process_of(instance: &Value) -> u64 {
    let directory = instance["status"]["directory"].as_str().expect("a directory");
    let record = std::fs::read(format!("{directory}/process.json")).expect("a process");
    let record: Value = serde_json::from_slice(&record).expect("JSON");
    record["pid"].as_u64().expect("a process id")
}

fn is_running(pid: u64) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

#[test]
fn an_instance_in_a_process_survives_the_manager_and_is_adopted() {
    let manager = ManagerProcess::start(&[]);
    manager.create("east", json!({"flotilla.dev/mode": "process"}), json!({}));
    let instance = manager.wait_for("east", "Completed");
    let pid = process_of(&instance);
    let _end = EndProcess(pid);
    let admin = manager.admin_kubeconfig("east");
    assert!(kubectl(&admin, &["create", "configmap", "a", "--from-literal=x=1"]).status.success());
    let endpoint = instance["status"]["endpoint"].as_str().expect("an endpoint").to_owned();
    let proxied = manager.kubectl(&["--server", &endpoint, "get", "configmap", "a", "-o", "jsonpath={.data.x}"]);
    assert_eq!(text(&proxied), "1");
    let who = text(&manager.kubectl(&["--server", &endpoint, "auth", "whoami"]));
    assert!(who.contains("manager:system:admin") && who.contains("flotilla:instance:admin"), "{who}");

    let manager = manager.restart("KILL");
    assert!(is_running(pid), "the process goes on while the manager is away");
    let instance = manager.wait_for("east", "Completed");
    assert_eq!(process_of(&instance), pid, "the process is adopted, not replaced");

    // A process that dies is started again.
    drop(EndProcess(pid));
    let again = || {
        let now = manager.instance("east").unwrap_or_default();
        let record =
            std::fs::read_to_string(format!("{}/process.json", instance["status"]["directory"].as_str().unwrap_or("")));
        let is_new = !record.unwrap_or_default().contains(&format!("\"pid\":{pid},"));
        if is_new && ready(&now)["reason"] == "Completed" { Ok(()) } else { Err(now["status"].to_string()) }
    };
    eventually(Duration::from_secs(60), again, || manager.server.log());
    let pid = process_of(&instance);
    let _end = EndProcess(pid);
    let proxied = manager.kubectl(&["--server", &endpoint, "get", "configmap", "a", "-o", "jsonpath={.data.x}"]);
    assert_eq!(text(&proxied), "1", "its data is kept");

    let deleted = manager.flotilla(&["instance", "delete", "east"]);
    assert!(deleted.status.success(), "{}", text(&deleted));
    assert!(!is_running(pid), "the process is stopped");
}

#[test]
fn a_running_control_plane_is_imported_and_left_alone() {
    let plane = Flotilla::start();
    let manager = ManagerProcess::start(&["--allow-loopback-endpoints"]);
    let file = plane.kubeconfig.display().to_string();
    let imported = manager.flotilla(&["instance", "import", "old", "--from", &file]);
    assert!(imported.status.success(), "{}\n{}", text(&imported), manager.server.log());
    let instance = manager.wait_for("old", "Completed");
    assert_eq!(instance["status"]["mode"], "imported");
    let endpoint = instance["status"]["endpoint"].as_str().expect("an endpoint").to_owned();
    assert!(plane.kubectl(&["create", "configmap", "a", "--from-literal=x=1"]).status.success());
    let proxied = manager.kubectl(&["--server", &endpoint, "get", "configmap", "a", "-o", "jsonpath={.data.x}"]);
    assert_eq!(text(&proxied), "1");
    let who = text(&manager.kubectl(&["--server", &endpoint, "auth", "whoami"]));
    assert!(who.contains("manager:system:admin"), "the caller is impersonated: {who}");

    another_control_plane_does_not_take_its_place(&manager);
    hostile_control_planes_do_no_harm(&manager);
    let twice = manager.flotilla(&["instance", "import", "again", "--from", &file, "--wait", "5s"]);
    assert!(!twice.status.success() && text(&twice).contains("already the instance"), "{}", text(&twice));

    let deleted = manager.flotilla(&["instance", "delete", "old"]);
    assert!(deleted.status.success(), "{}", text(&deleted));
    assert!(plane.kubectl(&["get", "configmap", "a"]).status.success(), "the plane is untouched");
}

/// The kubeconfig of an imported instance is replaced by one of another control plane.
fn another_control_plane_does_not_take_its_place(manager: &ManagerProcess) {
    manager.create("other", json!({}), json!({}));
    manager.wait_for("other", "Completed");
    let read = |name: &str| {
        let found = manager.kubectl(&["get", "secret", "-n", "karmada-system", name, "-o", "json"]);
        serde_json::from_slice::<Value>(&found.stdout).unwrap_or_else(|_| panic!("{}", text(&found)))
    };
    let secret =
        manager.instance("old").expect("the instance")["metadata"]["annotations"]["flotilla.dev/import-kubeconfig"]
            .as_str()
            .and_then(|reference| reference.split('/').next())
            .expect("a Secret")
            .to_owned();
    let (own, other) = (read(&secret), read("other-karmada-admin-config"));
    let key = own["data"].as_object().and_then(|data| data.keys().next()).expect("a key").clone();
    let replace = |value: &Value| {
        let patch = json!({"data": {&key: value}}).to_string();
        let patched =
            manager.kubectl(&["patch", "secret", "-n", "karmada-system", &secret, "--type=merge", "-p", &patch]);
        assert!(patched.status.success(), "{}", text(&patched));
        assert!(manager.flotilla(&["instance", "restart", "old"]).status.success());
    };
    replace(&other["data"]["karmada.config"]);
    let failed = manager.wait_for("old", "Failed");
    let message = ready(&failed)["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("another control plane"), "{message}");
    replace(&own["data"][&key]);
    manager.wait_for("old", "Completed");
}

fn hostile_control_planes_do_no_harm(manager: &ManagerProcess) {
    let import = |name: &str, api: &HostileApi| {
        let ca = base64(&api.certificate_pem);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "k", "cluster":
                {"server": format!("https://localhost:{}", api.port), "certificate-authority-data": ca}}],
            "users": [{"name": "u", "user": {"token": "secret-of-the-import"}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        });
        let file = manager.directory.path().join(format!("{name}.config"));
        std::fs::write(&file, config.to_string()).expect("written");
        manager.flotilla(&["instance", "import", name, "--from", &file.display().to_string(), "--wait", "10s"])
    };
    for (name, answer) in [("redirects", HostileAnswer::Redirects), ("garbage", HostileAnswer::Garbage)] {
        let api = HostileApi::start(answer);
        let refused = import(name, &api);
        assert!(!refused.status.success() && text(&refused).contains("cannot be used"), "{name}: {}", text(&refused));
        assert_eq!(api.harmful_answers(), 0, "redirects are not followed");
        // It stays, to be tried again, until it is deleted.
        assert!(manager.flotilla(&["instance", "delete", name]).status.success(), "{name}");
    }
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[test]
fn an_unreachable_import_fails_clearly_and_is_deleted_quickly() {
    let plane = Flotilla::start();
    let file = plane.kubeconfig.display().to_string();
    // Addresses of the manager's machine are refused without the flag.
    let strict = ManagerProcess::start(&[]);
    let refused = strict.flotilla(&["instance", "import", "old", "--from", &file, "--wait", "30s"]);
    assert!(!refused.status.success() && text(&refused).contains("--allow-loopback-endpoints"), "{}", text(&refused));
    drop(strict);

    let manager = ManagerProcess::start(&["--allow-loopback-endpoints"]);
    assert!(manager.flotilla(&["instance", "import", "old", "--from", &file]).status.success());
    plane.kill();
    let unreachable = manager.wait_for("old", "Unreachable");
    assert_eq!(unreachable["status"]["phase"], "Degraded");
    let started = std::time::Instant::now();
    let deleted = manager.flotilla(&["instance", "delete", "old"]);
    assert!(deleted.status.success(), "{}", text(&deleted));
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[test]
fn a_real_karmada_is_imported_and_operated() {
    let Some(karmada) = KarmadaPlane::start() else { return };
    let manager = ManagerProcess::start(&["--allow-loopback-endpoints"]);
    let flat = kubectl(&karmada.kubeconfig(), &["config", "view", "--flatten", "--raw"]);
    assert!(flat.status.success(), "{}", text(&flat));
    let file = manager.directory.path().join("karmada.config");
    std::fs::write(&file, &flat.stdout).expect("written");
    let imported = manager.flotilla(&["instance", "import", "real", "--from", &file.display().to_string()]);
    assert!(imported.status.success(), "{}\n{}", text(&imported), manager.server.log());
    let instance = manager.wait_for("real", "Completed");
    assert_eq!(instance["status"]["mode"], "imported");
    let endpoint = instance["status"]["endpoint"].as_str().expect("an endpoint").to_owned();
    let proxied = |arguments: &[&str]| manager.kubectl(&[&["--server", &endpoint], arguments].concat());
    assert!(proxied(&["get", "clusters"]).status.success());
    // Its own webhook answers for objects that come through the manager.
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]},
    });
    let path = manager.directory.path().join("policy.json");
    std::fs::write(&path, policy.to_string()).expect("written");
    let path = path.display().to_string();
    let created = proxied(&["create", "-f", &path]);
    assert!(created.status.success(), "{}", text(&created));
    let created = proxied(&["create", "deployment", "web", "--image=nginx"]);
    assert!(created.status.success(), "{}", text(&created));
    let bound = || match karmada.ask(&["get", "resourcebinding", "web-deployment", "-o", "name"]) {
        name if name.contains("web-deployment") => Ok(()),
        other => Err(format!("no binding: {other}")),
    };
    eventually(Duration::from_secs(60), bound, || manager.server.log());
    let who = text(&proxied(&["auth", "whoami"]));
    assert!(who.contains("flotilla:instance:admin"), "the caller acts by impersonation: {who}");
    // Deleting the instance leaves the control plane and its objects alone.
    let deleted = manager.flotilla(&["instance", "delete", "real"]);
    assert!(deleted.status.success(), "{}", text(&deleted));
    manager.wait_until_gone("real");
    assert!(karmada.ask(&["get", "deployment", "web", "-o", "name"]).contains("web"));
}
