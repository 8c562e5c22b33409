//! A testbed of `flotilla up` in a temporary directory, stopped with the test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::eventually::eventually;
use crate::fleet::text;
use crate::flotilla::{binary, kubectl};

/// Timeout for anything that crosses from the control plane to the members or back, on a busy machine.
pub const CROSSING: Duration = Duration::from_secs(90);

pub struct Testbed {
    home: PathBuf,
    name: String,
    /// Keeps the directory alive.
    _directory: Option<tempfile::TempDir>,
}

impl Testbed {
    /// Uses free ports everywhere, since tests run concurrently.
    pub fn up(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut bed = Self::at(directory.path(), "default");
        bed._directory = Some(directory);
        bed.bring_up(arguments);
        bed
    }

    /// Not started yet.
    pub fn at(home: &Path, name: &str) -> Self {
        Self { home: home.to_owned(), name: name.to_owned(), _directory: None }
    }

    pub fn bring_up(&self, arguments: &[&str]) -> String {
        let mut all = vec!["up", "--port=0", "--registry-port=0", "--member-port=0", "--no-links"];
        // Tests choose the runtime explicitly: the default depends on the machine.
        let is_chosen = |word: &&str| word.starts_with("--runtime") || word.starts_with("--cluster");
        if !arguments.iter().any(is_chosen) {
            all.push("--runtime=simulated");
        }
        all.extend(arguments);
        self.run_ok(&all)
    }

    pub fn directory(&self) -> PathBuf {
        self.home.join(&self.name)
    }

    pub fn config(&self, cluster: &str) -> PathBuf {
        self.directory().join(format!("{cluster}.config"))
    }

    /// Runs `flotilla` for this testbed.
    pub fn flotilla(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(binary());
        command.args(arguments).arg("--home").arg(&self.home).args(["--name", &self.name]);
        command.env_remove("KUBECONFIG").env_remove("FLOTILLA_HOME");
        command.stdin(Stdio::null()).output().expect("flotilla runs")
    }

    /// The same, and it must succeed.
    pub fn run_ok(&self, arguments: &[&str]) -> String {
        let output = self.flotilla(arguments);
        assert!(output.status.success(), "flotilla {}: {}\n{}", arguments.join(" "), text(&output), self.logs());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs kubectl in a cluster: `karmada-apiserver`, `member1`, …
    pub fn kubectl(&self, cluster: &str, arguments: &[&str]) -> Output {
        kubectl(&self.config(cluster), arguments)
    }

    /// Returns its trimmed output; empty on failure.
    pub fn ask(&self, cluster: &str, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.kubectl(cluster, arguments).stdout).trim().to_owned()
    }

    /// Applies documents on the control plane; they must be accepted.
    pub fn apply(&self, documents: &str) {
        let output = crate::member::apply(&self.config("karmada-apiserver"), &["apply", "-f", "-"], documents);
        assert!(output.status.success(), "{}\n{documents}", text(&output));
    }

    /// Waits until kubectl in a cluster returns this output.
    pub fn wait(&self, cluster: &str, arguments: &[&str], expected: &str) {
        let mut last = String::new();
        let what = format!("{cluster}: kubectl {} says {expected:?}", arguments.join(" "));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(&what, CROSSING, || {
                last = self.ask(cluster, arguments);
                last == expected
            });
        }));
        if let Err(panic) = result {
            eprintln!("last output: {last:?}\n{}\n{}", text(&self.flotilla(&["status"])), self.logs());
            std::panic::resume_unwind(panic);
        }
    }

    pub fn wait_ready(&self, cluster: &str, expected: &str) {
        let path = r#"-o=jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
        self.wait("karmada-apiserver", &["get", "cluster", cluster, path], expected);
    }

    pub fn status(&self) -> Value {
        let output = self.flotilla(&["status", "-o", "json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
    }

    /// A component in the status, such as `member1` or `supervisor`.
    pub fn part(&self, name: &str) -> Value {
        let status = self.status();
        let parts = status["parts"].as_array().cloned().unwrap_or_default();
        parts.into_iter().find(|part| part["name"] == name).unwrap_or(Value::Null)
    }

    pub fn pid(&self, name: &str) -> Option<u64> {
        self.part(name)["pid"].as_u64()
    }

    /// Returns the command line of every process started for it.
    pub fn processes(&self) -> Vec<String> {
        let home = self.home.display().to_string();
        let entries = std::fs::read_dir("/proc").expect("a list of processes");
        let numbers = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.parse::<u32>().ok());
        let own = std::process::id();
        numbers
            .filter(|pid| *pid != own)
            .filter_map(|pid| Some((pid, std::fs::read(format!("/proc/{pid}/cmdline")).ok()?)))
            .map(|(pid, line)| format!("{pid} {}", String::from_utf8_lossy(&line).replace('\0', " ")))
            .filter(|line| line.contains(&home) && !line.contains(" status "))
            .collect()
    }

    pub fn logs(&self) -> String {
        let Ok(entries) = std::fs::read_dir(self.directory().join("logs")) else { return String::new() };
        let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let tail = |path: PathBuf| {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("{}:\n{}\n", path.display(), lines[lines.len().saturating_sub(15)..].join("\n"))
        };
        files.map(tail).collect()
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        let _ = self.flotilla(&["down", "--delete"]);
    }
}
