//! The contents of `deploy/` besides the charts: etcd and servers of the compose file, started here as processes, and
//! the flags of the units.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use e2e::etcd::steady_port;
use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::flotilla::{Flotilla, binary, programs};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);
const NODES: [&str; 3] = ["a", "b", "c"];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(deploy().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn compose() -> Value {
    serde_saphyr::from_str(&read("compose/compose.yaml")).expect("YAML")
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// The nodes of the compose file as processes, stopped with the test.
struct Nodes {
    children: Vec<Child>,
    directory: tempfile::TempDir,
    ports: [(u16, u16); 3],
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Nodes {
    fn start() -> Option<Self> {
        let program = programs().join("etcd");
        if !program.exists() {
            test_skip::skip(format_args!("{} is missing; `make test` builds it", program.display()));
            return None;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        let certificates = directory.path().join("certificates");
        let made = Command::new("sh").arg(deploy().join("etcd-certificates")).arg(&certificates).output();
        let made = made.expect("sh runs");
        assert!(made.status.success(), "{}", text(&made));
        let ports = NODES.map(|_| (steady_port(), steady_port()));
        let mut nodes = Self { children: Vec::new(), directory, ports };
        for (number, node) in NODES.into_iter().enumerate() {
            let (client, peer) = nodes.ports[number];
            let config = read(&format!("compose/etcd/{node}.yaml"))
                .replace("0.0.0.0:2379", &format!("127.0.0.1:{client}"))
                .replace("0.0.0.0:2380", &format!("127.0.0.1:{peer}"));
            let config = nodes.here(&config, node);
            let file = nodes.directory.path().join(format!("{node}.yaml"));
            std::fs::write(&file, config).expect("written");
            let log = std::fs::File::create(nodes.directory.path().join("log")).expect("a log");
            let mut command = Command::new(&program);
            command.arg(format!("--config-file={}", file.display())).stdin(Stdio::null()).stdout(Stdio::null());
            nodes.children.push(command.stderr(log).spawn().expect("etcd starts"));
        }
        Some(nodes)
    }

    /// Replaces names and paths of the compose file for this machine.
    fn here(&self, text: &str, node: &str) -> String {
        let folder = self.directory.path().display();
        let mut text = text.replace("/data", &format!("{folder}/data-{node}"));
        text = text.replace("/certificates", &format!("{folder}/certificates"));
        text = text.replace("/encryption/", &format!("{folder}/encryption/"));
        for (number, node) in NODES.into_iter().enumerate() {
            let (client, peer) = self.ports[number];
            text = text.replace(&format!("etcd-{node}:2379"), &format!("127.0.0.1:{client}"));
            text = text.replace(&format!("etcd-{node}:2380"), &format!("127.0.0.1:{peer}"));
        }
        text
    }
}

#[test]
fn servers_of_the_compose_file_start_on_its_etcd_nodes_and_share_their_keys() {
    let compose = compose();
    let Some(nodes) = Nodes::start() else { return };
    let service = &compose["services"]["encryption-key"];
    // Again as at the next start, which keeps the key.
    for _ in 0..2 {
        let arguments = [&strings(&service["entrypoint"])[1..], &strings(&service["command"])].concat();
        let arguments = arguments.iter().map(|argument| nodes.here(argument, ""));
        let made = Command::new(binary()).args(arguments).output().expect("the binary runs");
        assert!(made.status.success(), "{}", text(&made));
    }
    let mut started: Vec<Flotilla> = Vec::new();
    for node in NODES {
        let service = &compose["services"][format!("server-{node}")];
        let arguments: Vec<String> = strings(&service["command"])
            .into_iter()
            // The test sets these two itself.
            .filter(|argument| !argument.starts_with("--bind=") && !argument.starts_with("--data-dir="))
            // The test's kubectl uses the listen address.
            .filter(|argument| !argument.starts_with("--advertise-url="))
            .map(|argument| nodes.here(&argument, &format!("server-{node}")))
            .collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        started.push(Flotilla::start_with(&arguments));
    }
    let keys: Vec<_> = started.iter().map(|s| std::fs::read(s.data_dir.join("pki/ca.key")).expect("a key")).collect();
    assert!(keys.iter().all(|key| *key == keys[0]), "one control plane has one CA");
    assert!(started[0].kubectl(&["create", "namespace", "compose"]).status.success());
    eventually("one server sees the writes of another", LIMIT, || {
        started[2].kubectl(&["get", "namespace", "compose"]).status.success()
    });
}

#[test]
fn the_manager_of_its_compose_file_starts() {
    let compose: Value = serde_saphyr::from_str(&read("compose/manager.yaml")).expect("YAML");
    let service = &compose["services"]["manager"];
    assert_eq!(strings(&service["entrypoint"]), ["flotilla", "manager"]);
    let kept =
        |argument: &String| !["--bind=", "--data-dir=", "--advertise-url="].iter().any(|own| argument.starts_with(own));
    let arguments: Vec<String> = strings(&service["command"]).into_iter().filter(kept).collect();
    assert!(arguments.iter().any(|argument| argument.starts_with("--tls-san=")));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let directory = tempfile::tempdir().expect("a directory");
    let manager = Flotilla::start_manager(directory.path(), 0, &arguments);
    assert!(manager.kubectl(&["get", "karmadas", "-A"]).status.success());
}

#[test]
fn the_compose_file_names_only_existing_files() {
    let compose = compose();
    let services = compose["services"].as_object().expect("services");
    assert_eq!(services.len(), 7);
    for (name, service) in services {
        for volume in strings(&service["volumes"]) {
            // A path, a variable with its default, or a named volume.
            let source = volume.rsplit_once(":/").expect("where it is mounted").0.trim_end_matches(":ro");
            let is_known =
                source.starts_with("./") || source.starts_with("${") || compose["volumes"].get(source).is_some();
            assert!(is_known, "{name}: {volume}");
        }
        for needed in strings(&service["depends_on"]) {
            assert!(services.contains_key(&needed), "{name} waits for {needed}");
        }
    }
    for node in NODES {
        let file = strings(&services[&format!("etcd-{node}")]["command"]).join(" ");
        assert_eq!(file, format!("--config-file=/etcd/{node}.yaml"));
    }
}

#[test]
fn units_use_flags_the_server_has() {
    for (command, file) in [
        ("server", "systemd/flotilla.service"),
        ("manager", "systemd/flotilla-manager.service"),
        ("server", "systemd/replica.conf"),
        ("server", "README.md"),
        ("server", "compose/compose.yaml"),
    ] {
        let help = Command::new(binary()).args([command, "--help"]).output().expect("flotilla runs");
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        let content = read(file);
        let commands = content.lines().filter(|line| {
            line.starts_with("ExecStart=/") || line.contains("FLOTILLA_ARGS=") || line.trim_start().starts_with("- --")
        });
        let mut seen = 0;
        for flag in commands.flat_map(|line| line.split([' ', '"', '\''])).filter_map(|word| {
            let word = word.trim_start_matches("FLOTILLA_ARGS=");
            word.starts_with("--").then(|| word.split('=').next().unwrap_or(word))
        }) {
            seen += 1;
            assert!(help.contains(&format!("{flag} ")), "{file} uses {flag}, which `flotilla {command}` does not have");
        }
        assert!(seen > 0, "{file} starts nothing");
    }
}
