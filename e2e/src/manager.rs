//! A `flotilla manager` process with instances, used through real kubectl.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::flotilla::{Flotilla, binary, kubectl};

const READY_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// A manager on a directory that outlives restarts.
pub struct ManagerProcess {
    pub directory: tempfile::TempDir,
    pub server: Flotilla,
    arguments: Vec<String>,
}

impl ManagerProcess {
    pub fn start(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let server = Flotilla::start_manager(directory.path(), 0, arguments);
        Self { directory, server, arguments: arguments.iter().map(|text| (*text).to_owned()).collect() }
    }

    /// Stops the manager with a signal and starts it again at the same address.
    pub fn restart(self, signal: &str) -> Self {
        let Self { directory, server, arguments } = self;
        let port = server.port();
        if signal == "KILL" {
            server.kill();
        } else {
            assert!(server.stop().success(), "the manager stops");
        }
        let given: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let server = Flotilla::start_manager(directory.path(), port, &given);
        Self { directory, server, arguments }
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        self.server.kubectl(arguments)
    }

    /// Runs `flotilla` against this manager.
    pub fn flotilla(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(binary());
        command.args(arguments).args(["--kubeconfig"]).arg(&self.server.kubeconfig);
        command.stdin(Stdio::null()).output().expect("flotilla runs")
    }

    /// Applies a manifest and returns the output.
    pub fn apply(&self, manifest: &Value) -> Output {
        apply(&self.server.kubeconfig, manifest)
    }

    /// Creates an instance with a spec and annotations, and expects that it is accepted.
    #[track_caller]
    pub fn create(&self, name: &str, annotations: Value, spec: Value) {
        let applied = self.apply(&karmada(name, annotations, spec));
        assert!(applied.status.success(), "{}", text(&applied));
    }

    pub fn instance(&self, name: &str) -> Option<Value> {
        let found = self.kubectl(&["get", "karmadas", "-n", "karmada-system", name, "-o", "json"]);
        serde_json::from_slice(&found.stdout).ok()
    }

    /// Waits until the Ready condition of an instance has a reason.
    #[track_caller]
    pub fn wait_for(&self, name: &str, reason: &str) -> Value {
        let mut last = Value::Null;
        eventually(
            READY_TIMEOUT,
            || {
                last = self.instance(name).unwrap_or_default();
                if ready(&last)["reason"] == reason {
                    Ok(())
                } else {
                    Err(format!("{name} is not {reason}: {}", last["status"]))
                }
            },
            || self.server.log(),
        );
        last
    }

    #[track_caller]
    pub fn wait_until_gone(&self, name: &str) {
        let gone = || match self.instance(name) {
            None => Ok(()),
            Some(instance) => Err(format!("{name} still exists: {}", instance["status"])),
        };
        eventually(READY_TIMEOUT, gone, || self.server.log());
    }

    /// Writes the kubeconfig of the instance's administrator to a file and returns its path.
    #[track_caller]
    pub fn admin_kubeconfig(&self, name: &str) -> PathBuf {
        let instance = self.instance(name).expect("the instance exists");
        let secret = instance["status"]["secretRef"]["name"].as_str().expect("a Secret").to_owned();
        let template = "go-template={{index .data \"karmada.config\" | base64decode}}";
        let read = self.kubectl(&["get", "secret", "-n", "karmada-system", &secret, "-o", template]);
        assert!(read.status.success(), "{}", text(&read));
        let path = self.directory.path().join(format!("{name}-admin.config"));
        std::fs::write(&path, &read.stdout).expect("written");
        path
    }
}

/// Returns the Ready condition of an instance.
pub fn ready(instance: &Value) -> Value {
    let conditions = instance["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap_or_default()
}

pub fn karmada(name: &str, annotations: Value, spec: Value) -> Value {
    json!({
        "apiVersion": "operator.karmada.io/v1alpha1", "kind": "Karmada",
        "metadata": {"name": name, "namespace": "karmada-system", "annotations": annotations},
        "spec": spec,
    })
}

pub fn apply(kubeconfig: &Path, manifest: &Value) -> Output {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), manifest.to_string()).expect("written");
    let path = file.path().display().to_string();
    kubectl(kubeconfig, &["apply", "-f", &path])
}

/// Returns what a program printed.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Repeats a check until it succeeds; panics with its last problem and the log.
#[track_caller]
pub fn eventually(limit: Duration, mut check: impl FnMut() -> Result<(), String>, log: impl Fn() -> String) {
    let start = Instant::now();
    loop {
        match check() {
            Ok(()) => return,
            Err(problem) => assert!(start.elapsed() < limit, "{problem}\n{}", log()),
        }
        std::thread::sleep(POLL);
    }
}
