//! A `flotilla member` process on a free port, stopped with the test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::eventually::eventually;
use crate::flotilla::{binary, kubectl, programs};
use crate::member::apply;
use crate::netns::Namespace;
use crate::ready::{self, Ask};

const START_TIMEOUT: Duration = Duration::from_secs(60);

pub struct LightMember {
    pub kubeconfig: PathBuf,
    directory: tempfile::TempDir,
    child: Child,
    /// The network namespace it runs in, if not that of the test.
    namespace: Option<Arc<Namespace>>,
}

impl LightMember {
    /// Starts a member with an in-memory store; returns once its API and nodes are ready.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_with(None, arguments)
    }

    /// The same in a network namespace; kubectl runs inside too, so that it works while the link is down.
    pub fn start_in(namespace: &Arc<Namespace>, arguments: &[&str]) -> Self {
        Self::start_with(Some(Arc::clone(namespace)), arguments)
    }

    fn start_with(namespace: Option<Arc<Namespace>>, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = std::fs::File::create(directory.path().join("member.log")).expect("a log file");
        let child = command_in(namespace.as_deref(), &binary())
            .args(["member", "--in-memory", "--bind", "127.0.0.1:0", "--cluster-name", "m1", "--data-dir"])
            .arg(directory.path())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the member starts");
        let kubeconfig = directory.path().join("member.config");
        let mut member = Self { kubeconfig, directory, child, namespace };
        member.wait_until_ready();
        member
    }

    fn wait_until_ready(&mut self) {
        let start = Instant::now();
        while !(self.kubeconfig.exists() && self.kubectl(&["get", "--raw", "/readyz"]).stdout.starts_with(b"ok")) {
            let ended = self.child.try_wait().expect("the child can be asked").is_some();
            assert!(!ended && start.elapsed() < START_TIMEOUT, "the member is not ready: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        eventually("nodes are ready", START_TIMEOUT, || {
            let path = r#"-o=jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}"#;
            let ready = self.ask(&["get", "nodes", path]);
            !ready.is_empty() && ready.split_whitespace().all(|ready| ready == "True")
        });
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("member.log")).unwrap_or_default()
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        match &self.namespace {
            None => kubectl(&self.kubeconfig, arguments),
            Some(namespace) => {
                let mut command = namespace.command(programs().join("kubectl"));
                command
                    .arg("--kubeconfig")
                    .arg(&self.kubeconfig)
                    .arg("--cache-dir")
                    .arg(self.directory().join("cache"));
                command.args(arguments).stdin(Stdio::null()).output().expect("kubectl runs")
            }
        }
    }

    /// Returns the trimmed output; empty if kubectl fails.
    pub fn ask(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.kubectl(arguments).stdout).trim().to_owned()
    }

    /// Returns a function that reads the ready replicas of a Deployment, from any thread.
    pub fn ready_of(&self, deployment: &str) -> Ask {
        let Some(namespace) = self.namespace.clone() else { return ready::in_cluster(&self.kubeconfig, deployment) };
        let (kubeconfig, arguments) = (self.kubeconfig.clone(), ready::question(deployment));
        Box::new(move || {
            let mut command = namespace.command(programs().join("kubectl"));
            command.arg("--kubeconfig").arg(&kubeconfig).args(&arguments).stdin(Stdio::null());
            ready::answer(&command.output().expect("kubectl runs"))
        })
    }

    /// Returns the output of kubectl, which must succeed.
    #[track_caller]
    pub fn expect_kubectl(&self, arguments: &[&str]) -> String {
        let output = self.kubectl(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "kubectl {arguments:?}: {error}\n{}", self.log());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[track_caller]
    pub fn apply(&self, document: &str) {
        let output = apply(&self.kubeconfig, &["apply", "-f", "-"], document);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts kubectl for the caller to interact with and to stop.
    pub fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(programs().join("kubectl"));
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kubectl runs")
    }
}

fn command_in(namespace: Option<&Namespace>, program: &Path) -> Command {
    namespace.map_or_else(|| Command::new(program), |namespace| namespace.command(program))
}

impl Drop for LightMember {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
