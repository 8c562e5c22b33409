//! Instances by name: `NAME.instances.DOMAIN` in the TLS handshake and as a host, with real kubectl and curl.

use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::flotilla::kubectl;
use e2e::manager::{ManagerProcess, text};
use serde_json::json;

const DOMAIN: &str = "example.test";

fn manager() -> ManagerProcess {
    let manager = ManagerProcess::start(&["--instances-domain", DOMAIN]);
    for name in ["east", "west"] {
        manager.create(name, json!({}), json!({}));
        manager.wait_for(name, "Completed");
    }
    manager
}

fn name_of(instance: &str) -> String {
    format!("{instance}.instances.{DOMAIN}")
}

/// Issues a kubeconfig for an instance in one of the forms.
#[track_caller]
fn issue(manager: &ManagerProcess, instance: &str, form: &str) -> PathBuf {
    let file = manager.directory.path().join(format!("{instance}-{form}.config"));
    let path = file.display().to_string();
    let issued = manager.flotilla(&["instance", "kubeconfig", instance, "--address", form, "--output", &path]);
    assert!(issued.status.success(), "{}", text(&issued));
    file
}

fn token_in(kubeconfig: &Path) -> String {
    let text = std::fs::read_to_string(kubeconfig).expect("a kubeconfig");
    let line = text.lines().find_map(|line| line.trim().strip_prefix("token: ")).expect("a token");
    line.trim_matches('"').to_owned()
}

/// Sends a request with these names and returns the status code, or 0 when the certificate is refused.
fn ask(manager: &ManagerProcess, token: &str, (sni, host): (&str, &str), path: &str) -> u16 {
    let port = manager.server.port();
    let done = Command::new("curl")
        .args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", "--cacert"])
        .arg(manager.directory.path().join("pki/ca.crt"))
        .args(["--resolve", &format!("{sni}:{port}:127.0.0.1")])
        .args(["-H", &format!("Host: {host}"), "-H", &format!("Authorization: Bearer {token}")])
        .arg(format!("https://{sni}:{port}{path}"))
        .output()
        .expect("curl runs");
    String::from_utf8_lossy(&done.stdout).parse().unwrap_or(0)
}

#[test]
fn an_instance_is_served_at_its_own_name() {
    let manager = manager();
    let (east, west) = (name_of("east"), name_of("west"));
    let by_handshake = issue(&manager, "east", "server-name");
    let made = kubectl(&by_handshake, &["create", "configmap", "a", "--from-literal=x=1"]);
    assert!(made.status.success(), "{}", text(&made));
    let found = kubectl(&by_handshake, &["get", "configmap", "a", "-o", "jsonpath={.data.x}"]);
    assert_eq!(text(&found), "1");
    let by_path = issue(&manager, "east", "path");
    let found = kubectl(&by_path, &["get", "configmap", "a", "-o", "jsonpath={.data.x}"]);
    assert_eq!(text(&found), "1", "path and name lead to the same instance");
    let by_host = std::fs::read_to_string(issue(&manager, "east", "host")).expect("a kubeconfig");
    assert!(by_host.contains(&format!("server: https://{east}:{}", manager.server.port())), "{by_host}");

    let token = token_in(&by_handshake);
    let pods = "/api/v1/namespaces/default/configmaps/a";
    let cases: [(&str, &str, &str, u16); 9] = [
        (&east, &east, pods, 200),
        (&east, "localhost", pods, 200),
        (&east, &east, &format!("/instances/east{pods}"), 200),
        ("localhost", "localhost", &format!("/instances/east{pods}"), 200),
        // Names that contradict each other.
        (&east, &west, pods, 421),
        (&east, &east, &format!("/instances/west{pods}"), 421),
        ("localhost", &east, pods, 421),
        // The token is for another instance, and the API of the manager is not served at the name of an instance.
        (&west, &west, pods, 401),
        (&east, &east, "/flotilla/manager/v1alpha1/instances", 404),
    ];
    for (sni, host, path, expected) in cases {
        assert_eq!(ask(&manager, &token, (sni, host), path), expected, "{sni} {host} {path}");
    }
    let missing = name_of("north");
    assert_eq!(ask(&manager, &token, (&missing, &missing), pods), 401, "an unknown name reveals nothing");
    let deep = format!("a.{east}");
    assert_eq!(ask(&manager, &token, (&deep, &deep), pods), 0, "the certificate covers one label");
}

#[test]
fn names_need_a_domain() {
    let manager = ManagerProcess::start(&[]);
    manager.create("east", json!({}), json!({}));
    manager.wait_for("east", "Completed");
    let refused = manager.flotilla(&["instance", "kubeconfig", "east", "--address", "host"]);
    assert!(!refused.status.success() && text(&refused).contains("--instances-domain"), "{}", text(&refused));
}
