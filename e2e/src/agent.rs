//! Starts an agent for a member, ours or Karmada's own, and stops it with the test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::flotilla::{binary, programs};
use crate::member::Member;
use crate::netns::Namespace;

pub struct Agent {
    child: Child,
    log: PathBuf,
    /// Keeps the log directory alive.
    _directory: tempfile::TempDir,
}

impl Agent {
    /// `flotilla agent`.
    pub fn ours(plane: &Path, member: &Member, arguments: &[&str]) -> Self {
        Self::ours_outside(plane, (&member.name, member.kubeconfig()), arguments)
    }

    /// The same for any cluster, by its name and kubeconfig.
    pub fn ours_outside(plane: &Path, member: (&str, &Path), arguments: &[&str]) -> Self {
        let mut command = Command::new(binary());
        command.arg("agent");
        Self::start(command, plane, member, arguments)
    }

    /// The same in a network namespace.
    pub fn ours_in(namespace: &Namespace, plane: &Path, member: (&str, &Path), arguments: &[&str]) -> Self {
        let mut command = namespace.command(binary());
        command.arg("agent");
        Self::start(command, plane, member, arguments)
    }

    /// The real karmada-agent; `None` if it is not installed.
    pub fn karmadas(plane: &Path, member: &Member, arguments: &[&str]) -> Option<Self> {
        Self::karmadas_outside(plane, (&member.name, member.kubeconfig()), arguments)
    }

    /// The same for any cluster, by its name and kubeconfig.
    pub fn karmadas_outside(plane: &Path, member: (&str, &Path), arguments: &[&str]) -> Option<Self> {
        let program = programs().join("karmada-agent");
        if !program.exists() {
            test_skip::skip(format_args!("karmada-agent is not in {}; `make test` builds it", programs().display()));
            return None;
        }
        let mut command = Command::new(program);
        // Its leases would need a namespace of their own.
        command.args(["--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0"]);
        Some(Self::start(command, plane, member, arguments))
    }

    fn start(mut command: Command, plane: &Path, (name, kubeconfig): (&str, &Path), arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = directory.path().join("agent.log");
        let file = File::create(&log).expect("a log file");
        command.arg("--karmada-kubeconfig").arg(plane).args(["--cluster-name", name]).args(arguments);
        command.env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
        let child = command.stdout(file.try_clone().expect("a second handle")).stderr(file).spawn();
        Self { child: child.expect("the agent starts"), log, _directory: directory }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns the exit status once it has exited.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the agent can be asked")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("the agent's log:\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
        }
        // It may have exited by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
