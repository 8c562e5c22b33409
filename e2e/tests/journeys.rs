//! User journeys through a complete server, including controllers, with real kubectl.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use e2e::flotilla::{Flotilla, programs};
use e2e::script::Script;

#[test]
fn every_journey_passes() {
    let server = Flotilla::start();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/journeys");
    let complaints: Vec<String> =
        Script::all(&folder).iter().flat_map(|script| script.complaints(&server.kubeconfig)).collect();
    assert!(complaints.is_empty(), "{}\nserver log:\n{}", complaints.join("\n"), server.log());
}

#[test]
fn an_edited_object_is_written_back() {
    let server = Flotilla::start();
    assert!(server.kubectl(&["create", "configmap", "a", "--from-literal=color=blue"]).status.success());
    let edited = Command::new(programs().join("kubectl"))
        .env("KUBE_EDITOR", "sed -i s/blue/green/")
        .arg("--kubeconfig")
        .arg(&server.kubeconfig)
        .args(["edit", "configmap", "a"])
        .output()
        .expect("kubectl runs");
    assert!(edited.status.success(), "{}", String::from_utf8_lossy(&edited.stderr));
    let shown = server.kubectl(&["get", "configmap", "a", "-o", "jsonpath={.data.color}"]);
    assert_eq!(String::from_utf8_lossy(&shown.stdout), "green");
}

#[test]
fn a_watch_shows_changes_as_they_happen() {
    let server = Flotilla::start();
    let mut watch = Command::new(programs().join("kubectl"))
        .arg("--kubeconfig")
        .arg(&server.kubeconfig)
        .args(["get", "configmap", "-l", "watched=yes", "--watch", "--output-watch-events", "--no-headers"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("kubectl runs");
    let mut lines = BufReader::new(watch.stdout.take().expect("piped")).lines();
    assert!(server.kubectl(&["create", "configmap", "a"]).status.success());
    assert!(server.kubectl(&["label", "configmap", "a", "watched=yes"]).status.success());
    assert!(server.kubectl(&["annotate", "configmap", "a", "x=y"]).status.success());
    assert!(server.kubectl(&["delete", "configmap", "a"]).status.success());
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let line = lines.next().expect("the watch continues").expect("readable");
        seen.push(line.split_whitespace().next().unwrap_or_default().to_owned());
    }
    let _ = watch.kill();
    let _ = watch.wait();
    assert_eq!(seen, ["ADDED", "MODIFIED", "DELETED"]);
}

#[test]
fn an_approved_request_becomes_a_certificate_its_holder_can_use() {
    let server = Flotilla::start();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let made = Command::new("openssl")
        .args([
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/O=dev/O=ops/CN=jane",
            "-keyout",
            &file("key.pem"),
            "-out",
            &file("jane.csr"),
        ])
        .output();
    let Ok(made) = made else {
        test_skip::skip("openssl is not installed");
        return;
    };
    assert!(made.status.success());
    let request = Command::new("base64").args(["-w0", &file("jane.csr")]).output().expect("base64 runs").stdout;
    let manifest = format!(
        "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {{name: jane}}\n\
         spec: {{request: {}, signerName: kubernetes.io/kube-apiserver-client, usages: [client auth]}}\n",
        String::from_utf8_lossy(&request)
    );
    std::fs::write(file("csr.yaml"), manifest).expect("written");
    assert!(server.kubectl(&["apply", "-f", &file("csr.yaml")]).status.success());
    assert!(server.kubectl(&["certificate", "approve", "jane"]).status.success());
    let issued = server.kubectl(&["wait", "--for=jsonpath={.status.certificate}", "csr/jane", "--timeout=20s"]);
    assert!(issued.status.success(), "{}", String::from_utf8_lossy(&issued.stderr));
    let certificate = server.kubectl(&["get", "csr", "jane", "-o", "jsonpath={.status.certificate}"]).stdout;
    std::fs::write(file("crt.b64"), certificate).expect("written");
    let decoded = Command::new("base64").args(["-d", &file("crt.b64")]).output().expect("base64 runs").stdout;
    std::fs::write(file("crt.pem"), decoded).expect("written");
    let asked = server.kubectl(&[
        "auth",
        "whoami",
        "--client-certificate",
        &file("crt.pem"),
        "--client-key",
        &file("key.pem"),
        "-o",
        "yaml",
    ]);
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    for expected in ["username: jane", "- dev", "- ops", "- system:authenticated"] {
        assert!(text.contains(expected), "{expected} is not in {text}{}", String::from_utf8_lossy(&asked.stderr));
    }
}
