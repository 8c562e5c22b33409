//! A `flotilla server` process on a free port, stopped with the test.

use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::raw_client::RawClient;

const START_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Flotilla {
    pub kubeconfig: PathBuf,
    pub data_dir: PathBuf,
    child: Child,
    /// Keeps the directory alive.
    directory: Option<tempfile::TempDir>,
}

impl Flotilla {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut server = Self::start_in(directory.path(), arguments);
        server.directory = Some(directory);
        server
    }

    /// Starts on a directory of the caller, to restart on the same data.
    pub fn start_in(data_dir: &Path, arguments: &[&str]) -> Self {
        Self::start_at(data_dir, 0, arguments)
    }

    /// Restarts on the same port, for clients that wait for it.
    pub fn start_at(data_dir: &Path, port: u16, arguments: &[&str]) -> Self {
        Self::start_on(data_dir, SocketAddr::from(([127, 0, 0, 1], port)), arguments)
    }

    /// Starts on any address of this machine, for clients in network namespaces.
    pub fn start_on(data_dir: &Path, address: SocketAddr, arguments: &[&str]) -> Self {
        Self::launch(("server", "karmada-apiserver.config"), data_dir, address, arguments)
    }

    /// Starts a manager on a directory of the caller.
    pub fn start_manager(data_dir: &Path, port: u16, arguments: &[&str]) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Self::launch(("manager", "manager.config"), data_dir, address, arguments)
    }

    fn launch((command, kubeconfig): (&str, &str), data_dir: &Path, address: SocketAddr, arguments: &[&str]) -> Self {
        let log = std::fs::File::create(data_dir.join("server.log")).expect("a log file");
        let kubeconfig = data_dir.join(kubeconfig);
        let _ = std::fs::remove_file(&kubeconfig);
        let child = Command::new(binary())
            .args([command, "--bind", &address.to_string(), "--data-dir"])
            .arg(data_dir)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the server starts");
        let mut server = Self { kubeconfig, data_dir: data_dir.to_owned(), child, directory: None };
        server.wait_until_ready();
        server
    }

    fn wait_until_ready(&mut self) {
        let start = Instant::now();
        loop {
            if self.kubeconfig.exists() && self.is_ready() {
                return;
            }
            let ended = self.child.try_wait().expect("the child can be asked").is_some();
            assert!(!ended && start.elapsed() < START_TIMEOUT, "the server is not ready: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks over a connection of its own where that is possible: a process of kubectl for each attempt takes most of the
    /// time of a start.
    fn is_ready(&self) -> bool {
        let is_local = std::fs::read_to_string(&self.kubeconfig).is_ok_and(|text| text.contains("https://127.0.0.1:"));
        if is_local && self.data_dir.join("pki/ca.crt").exists() {
            match RawClient::of(self).get("/readyz") {
                // Anonymous callers are refused; the administrator of the kubeconfig is not.
                Ok(answer) if matches!(answer.code, 401 | 403) => {}
                answer => return answer.is_ok_and(|answer| answer.code == 200),
            }
        }
        self.kubectl(&["get", "--raw", "/readyz"]).stdout.starts_with(b"ok")
    }

    pub fn log(&self) -> String {
        let mut text = String::new();
        let file = std::fs::File::open(self.data_dir.join("server.log"));
        let _ = file.and_then(|mut file| file.read_to_string(&mut text));
        text
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        kubectl(&self.kubeconfig, arguments)
    }

    /// The port in its kubeconfig.
    pub fn port(&self) -> u16 {
        let text = std::fs::read_to_string(&self.kubeconfig).expect("a kubeconfig");
        let line = text.lines().find(|line| line.trim_start().starts_with("server:")).expect("a server");
        line.trim_matches(['"', ' ', '\'']).rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, as in a power failure.
    pub fn kill(mut self) {
        self.end();
    }

    /// Stops the server gracefully and waits for it.
    pub fn stop(mut self) -> std::process::ExitStatus {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
        assert!(sent.success(), "failed to stop the server");
        self.child.wait().expect("the server ends")
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Flotilla {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs kubectl with a separate discovery cache, so that servers on reused ports and different programs are not mixed
/// up.
pub fn kubectl(kubeconfig: &Path, arguments: &[&str]) -> Output {
    kubectl_of(&programs().join("kubectl"), kubeconfig, arguments)
}

/// The same with another kubectl.
pub fn kubectl_of(program: &Path, kubeconfig: &Path, arguments: &[&str]) -> Output {
    let cache = kubeconfig.with_extension(format!("{}-cache", program.file_name().unwrap_or_default().display()));
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(kubeconfig).arg("--cache-dir").arg(cache);
    command.args(arguments).stdin(Stdio::null()).output().expect("kubectl runs")
}

/// The directory of the real Kubernetes programs, installed by `make test`.
pub fn programs() -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    std::env::var_os("FLOTILLA_KUBE_BIN").map_or(home.join(".cache/flotilla/bin"), PathBuf::from)
}

/// The binary under test: `FLOTILLA_BIN`, or the one built by cargo next to this test.
pub fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("FLOTILLA_BIN") {
        return named.into();
    }
    let test = std::env::current_exe().expect("this test has a path");
    // target/PROFILE/deps/TEST, or target/PROFILE/PROGRAM.
    let folder = test.ancestors().skip(1).find(|folder| !folder.ends_with("deps")).expect("a folder");
    let built = folder.join("flotilla");
    assert!(built.exists(), "{} is missing: run `cargo build -p cli` first, or `make test`", built.display());
    built
}
