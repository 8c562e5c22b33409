//! A real Karmada control plane as processes on loopback, stopped with the test.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::flotilla::{kubectl, programs};

/// The programs started by `tools/kube/karmada/up`.
const PROGRAMS: &[&str] = &[
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "karmada-aggregated-apiserver",
    "karmada-webhook",
    "karmada-controller-manager",
    "karmada-scheduler",
];

pub struct KarmadaPlane {
    directory: tempfile::TempDir,
}

impl KarmadaPlane {
    /// `None` if the programs are not installed.
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// The same with arguments of the script.
    pub fn start_with(arguments: &[&str]) -> Option<Self> {
        if let Some(missing) = PROGRAMS.iter().find(|program| !programs().join(program).exists()) {
            test_skip::skip(format_args!("{missing} is not in {}; `make test` builds it", programs().display()));
            return None;
        }
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tools/kube/karmada/up");
        let plane = Self { directory: tempfile::tempdir().expect("a temporary directory") };
        let output =
            Command::new(script).args(arguments).arg(plane.directory.path()).output().expect("the script runs");
        assert!(output.status.success(), "{}", crate::fleet::text(&output));
        Some(plane)
    }

    /// Has its keys and logs.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The endpoint of its etcd.
    pub fn etcd(&self) -> String {
        let url = std::fs::read_to_string(self.directory.path().join("etcd-url")).expect("a file of the script");
        url.trim().to_owned()
    }

    /// Kills the programs whose names begin with one of these prefixes.
    pub fn stop(&self, prefixes: &[&str]) {
        let file = self.directory.path().join("pids");
        let pids = std::fs::read_to_string(&file).unwrap_or_default();
        let (stopped, running): (Vec<&str>, Vec<&str>) =
            pids.lines().partition(|line| prefixes.iter().any(|prefix| line.starts_with(prefix)));
        for pid in stopped.iter().rev().filter_map(|line| line.split_whitespace().nth(1)) {
            let _ = Command::new("kill").args(["-9", pid]).status();
        }
        let rest: String = running.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(file, rest).expect("written");
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// Returns the trimmed output of kubectl; empty on failure.
    pub fn ask(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&kubectl(&self.kubeconfig(), arguments).stdout).trim().to_owned()
    }
}

impl Drop for KarmadaPlane {
    fn drop(&mut self) {
        self.stop(&[""]);
    }
}
