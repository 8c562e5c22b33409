//! A real kube-apiserver on etcd, started for a test on free loopback ports and stopped with it.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_TIMEOUT: Duration = Duration::from_secs(90);
const START_ATTEMPTS: usize = 3;

pub struct KubeApiServer {
    pub url: String,
    pub token: &'static str,
    pub kubeconfig: PathBuf,
    /// The serving certificate with its CA, PEM.
    pub ca_file: PathBuf,
    bin: PathBuf,
    /// etcd, then the API server.
    children: Vec<Child>,
    ports: [u16; 3],
    /// Flags in addition to those of every test.
    flags: Vec<String>,
    dir: tempfile::TempDir,
}

impl KubeApiServer {
    /// Returns `None` and prints a notice if the programs are missing.
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// The same with flags for the API server.
    pub fn start_with(flags: &[String]) -> Option<Self> {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let bin = std::env::var_os("FLOTILLA_KUBE_BIN").map_or(home.join(".cache/flotilla/bin"), PathBuf::from);
        if let Some(missing) = ["etcd", "kube-apiserver", "kubectl"].iter().find(|p| !bin.join(p).exists()) {
            test_skip::skip(format_args!(
                "{missing} is not in {}; set FLOTILLA_KUBE_BIN to its directory",
                bin.display()
            ));
            return None;
        }
        // A free port may be taken before the program listens on it.
        let first = (1..START_ATTEMPTS).find_map(|_| Self::start_at_free_ports(&bin, flags).ok());
        Some(first.unwrap_or_else(|| {
            Self::start_at_free_ports(&bin, flags).unwrap_or_else(|log| panic!("kube-apiserver is not ready: {log}"))
        }))
    }

    /// Returns the logs if a program ended.
    fn start_at_free_ports(bin: &Path, flags: &[String]) -> Result<Self, String> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let ports = free_ports();
        let mut server = Self {
            url: format!("https://127.0.0.1:{}", ports[2]),
            token: "test-admin-token",
            kubeconfig: dir.path().join("kubeconfig"),
            ca_file: dir.path().join("certs/apiserver.crt"),
            bin: bin.to_owned(),
            children: Vec::new(),
            ports,
            flags: flags.to_vec(),
            dir,
        };
        server.start_etcd();
        server.write_keys_and_tokens();
        server.start_api();
        server.write_kubeconfig();
        server.until_ready()?;
        Ok(server)
    }

    /// Stops the API server and starts it again on the same port and data.
    pub fn restart(&mut self) {
        self.end_api();
        self.start_api_again();
    }

    /// Stops the API server; its data stays.
    pub fn end_api(&mut self) {
        end(&mut self.children.pop().expect("the API server runs"));
    }

    pub fn start_api_again(&mut self) {
        self.start_api();
        self.wait_until_ready();
    }

    /// The API server's process, to be paused and continued.
    pub fn api_pid(&self) -> u32 {
        self.children.last().expect("the API server runs").id()
    }

    pub fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// Runs `kubectl` as administrator.
    pub fn kubectl(&self, args: &[&str]) -> std::process::Output {
        let mut command = Command::new(self.bin.join("kubectl"));
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(args).output().expect("kubectl runs")
    }

    /// The directory of its keys and logs.
    pub fn directory(&self) -> &std::path::Path {
        self.dir.path()
    }

    fn start_etcd(&mut self) {
        let [client, peer, _] = self.ports.map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = Command::new(self.bin.join("etcd"));
        command.args(["--unsafe-no-fsync", "--data-dir"]).arg(self.dir.path().join("etcd"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}")]);
        self.spawn(command, "etcd.log");
    }

    fn write_keys_and_tokens(&self) {
        let key = rcgen::KeyPair::generate().expect("a key");
        let write = |name: &str, text: String| fs::write(self.dir.path().join(name), text).expect("written");
        write("sa.key", key.serialize_pem());
        write("sa.pub", key.public_key_pem());
        write("tokens", format!("{},admin,admin-uid,\"system:masters\"\n", self.token));
    }

    fn start_api(&mut self) {
        let [etcd_port, _, api_port] = self.ports;
        let file = |name: &str| self.dir.path().join(name);
        let mut command = Command::new(self.bin.join("kube-apiserver"));
        command.args(["--bind-address", "127.0.0.1", "--secure-port", &api_port.to_string()]);
        command.args(["--etcd-servers", &format!("http://127.0.0.1:{etcd_port}")]);
        command.args(["--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24"]);
        command.args(["--service-account-issuer", "https://kubernetes.default.svc"]);
        command.arg("--service-account-key-file").arg(file("sa.pub"));
        command.arg("--service-account-signing-key-file").arg(file("sa.key"));
        command.arg("--token-auth-file").arg(file("tokens"));
        command.arg("--cert-dir").arg(file("certs")).args(&self.flags);
        self.spawn(command, "api.log");
    }

    fn spawn(&mut self, mut command: Command, log: &str) {
        let log = fs::File::create(self.dir.path().join(log)).expect("a log file");
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().expect("a second handle")).stderr(log).spawn();
        self.children.push(child.expect("the program starts"));
    }

    fn write_kubeconfig(&self) {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
             clusters:\n- name: test\n  cluster:\n    server: {}\n    certificate-authority: {}\n\
             users:\n- name: admin\n  user:\n    token: {}\n\
             contexts:\n- name: test\n  context:\n    cluster: test\n    user: admin\n",
            self.url,
            // Not every client resolves relative names against the file's directory.
            self.ca_file.display(),
            self.token
        );
        fs::write(&self.kubeconfig, text).expect("written");
    }

    fn wait_until_ready(&mut self) {
        self.until_ready().unwrap_or_else(|log| panic!("kube-apiserver is not ready: {log}"));
    }

    /// Waits until the API answers; returns the logs if a program ended.
    fn until_ready(&mut self) -> Result<(), String> {
        let start = Instant::now();
        loop {
            let ready = self.ca_file.exists() && self.kubectl(&["get", "--raw", "/readyz"]).stdout.starts_with(b"ok");
            if ready {
                return Ok(());
            }
            let ended = self.children.iter_mut().any(|child| child.try_wait().is_ok_and(|status| status.is_some()));
            if ended {
                return Err(self.logs());
            }
            assert!(start.elapsed() <= START_TIMEOUT, "kube-apiserver is not ready in time: {}", self.logs());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn logs(&self) -> String {
        ["etcd.log", "api.log"].map(|log| fs::read_to_string(self.dir.path().join(log)).unwrap_or_default()).join("\n")
    }
}

impl Drop for KubeApiServer {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            end(child);
        }
    }
}

/// It may have exited by itself.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// All listeners are open at once, so that the ports differ.
fn free_ports() -> [u16; 3] {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("bound").port())
}

/// Two free ports for an etcd of the test's own.
pub fn free_ports_for_etcd() -> [u16; 2] {
    let [client, peer, _] = free_ports();
    [client, peer]
}
