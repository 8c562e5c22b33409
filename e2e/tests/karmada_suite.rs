//! A part of Karmada's own end-to-end suite passes on our control plane. `make karmada-suite` runs all of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use e2e::fleet::text;
use e2e::flotilla::{binary, programs};

/// Specs that take seconds also on a busy machine: propagation of each kind, overrides, division of replicas, priorities and
/// dependencies. Those that wait for pods in members have limits that a busy machine exceeds.
const FOCUS: &[&str] = &[
    r"\[BasicCase\]",
    r"\[OverridePolicy\]",
    r"\[ReplicaScheduling\]",
    r"\[ImplicitPriority\]",
    r"\[ExplicitPriority\]",
    "Suspension: PropagationPolicy",
    "propagationPolicy testing when",
    "propagation with fieldSelector",
];
/// The number of selected specs. Fewer means that the names of specs have changed.
const SPECS: usize = 39;
const NEEDED: [&str; 7] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl", "karmadactl"];

/// The suite as `make test` compiles it.
fn compiled() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/karmada-suite")
}

/// Ends the programs of the suite with the test.
struct Suite {
    directory: tempfile::TempDir,
}

impl Suite {
    fn run(&self, action: &str, arguments: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/kube/karmada/suite");
        let mut command = Command::new(script);
        command.arg(action).arg(self.directory.path()).args(arguments);
        command.env("FLOTILLA_BIN", binary()).env("FLOTILLA_KUBE_BIN", programs()).env("SUITE_PROGRAMS", compiled());
        command.output().expect("the script runs")
    }
}

impl Drop for Suite {
    fn drop(&mut self) {
        self.run("down", &[]);
    }
}

#[test]
fn specs_of_karmada_pass() {
    let is_there = compiled().join("base.test").exists() && NEEDED.iter().all(|name| programs().join(name).exists());
    if !is_there {
        test_skip::skip(format_args!("Karmada's suite is not compiled; `make test` does it"));
        return;
    }
    let suite = Suite { directory: tempfile::tempdir().expect("a temporary directory") };
    let up = suite.run("up", &[]);
    assert!(up.status.success(), "{}", text(&up));
    let focus = format!("--focus={}", FOCUS.join("|"));
    let run = suite.run("run", &[&focus, "--procs=4"]);
    let said = text(&run);
    assert!(run.status.success(), "{said}");
    let passed = said.split_whitespace().next().and_then(|count| count.parse::<usize>().ok());
    assert_eq!(passed, Some(SPECS), "{said}");
}
