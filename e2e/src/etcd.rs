//! A real etcd cluster with TLS on loopback, whose nodes can be stopped, killed, paused and restarted.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};

use crate::flotilla::programs;

const START_TIMEOUT: Duration = Duration::from_secs(60);
/// A slower health check counts as failed.
const ASK_TIMEOUT: Duration = Duration::from_secs(3);

pub struct EtcdCluster {
    program: PathBuf,
    nodes: Vec<EtcdProcess>,
    directory: tempfile::TempDir,
}

struct EtcdProcess {
    name: String,
    client: u16,
    peer: u16,
    metrics: u16,
    child: Option<Child>,
}

impl EtcdCluster {
    /// Starts one node or three and waits for a leader. `None` if etcd is not installed.
    pub fn start(size: usize) -> Option<Self> {
        let program = programs().join("etcd");
        if !program.exists() {
            test_skip::skip(format_args!("{} is missing; `make test` builds it", program.display()));
            return None;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        write_certificates(directory.path());
        let node = |number| EtcdProcess {
            name: format!("n{number}"),
            client: steady_port(),
            peer: steady_port(),
            metrics: steady_port(),
            child: None,
        };
        let mut cluster = Self { program, nodes: (0..size).map(node).collect(), directory };
        for number in 0..size {
            cluster.launch(number);
        }
        cluster.wait_until_healthy();
        Some(cluster)
    }

    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// For `--etcd-servers`.
    pub fn servers(&self) -> String {
        let urls: Vec<String> = (0..self.size()).map(|number| self.url(number)).collect();
        urls.join(",")
    }

    /// The client URL of one node.
    pub fn url(&self, number: usize) -> String {
        format!("https://127.0.0.1:{}", self.nodes[number].client)
    }

    /// The flags for a `flotilla server` on this cluster.
    pub fn flags(&self) -> Vec<String> {
        let path = |path: PathBuf| path.to_str().expect("a path in UTF-8").to_owned();
        let pairs = [
            ("--storage", "etcd".to_owned()),
            ("--etcd-servers", self.servers()),
            ("--etcd-cafile", path(self.ca_file())),
            ("--etcd-certfile", path(self.certificate_file())),
            ("--etcd-keyfile", path(self.key_file())),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }

    pub fn ca_file(&self) -> PathBuf {
        self.directory.path().join("ca.crt")
    }

    /// The client certificate.
    pub fn certificate_file(&self) -> PathBuf {
        self.directory.path().join("client.crt")
    }

    pub fn key_file(&self) -> PathBuf {
        self.directory.path().join("client.key")
    }

    pub fn data_dir(&self, number: usize) -> PathBuf {
        self.directory.path().join(&self.nodes[number].name)
    }

    /// The process id of the node; `None` while it is down.
    pub fn pid(&self, number: usize) -> Option<u32> {
        self.nodes[number].child.as_ref().map(Child::id)
    }

    pub fn log(&self, number: usize) -> String {
        std::fs::read_to_string(self.log_file(number)).unwrap_or_default()
    }

    /// Kills a node, as in a power failure.
    pub fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.nodes[number].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stops a node gracefully.
    pub fn stop(&mut self, number: usize) {
        let Some(mut child) = self.nodes[number].child.take() else { return };
        let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success(), "failed to stop etcd");
        child.wait().expect("etcd ends");
    }

    /// Starts a stopped node on its own data and ports, without waiting for it.
    pub fn launch(&mut self, number: usize) {
        assert!(self.nodes[number].child.is_none(), "this node runs");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_file(number));
        let node = &self.nodes[number];
        let (client, peer) = (self.url(number), format!("https://127.0.0.1:{}", node.peer));
        let peers: Vec<String> =
            self.nodes.iter().map(|node| format!("{}=https://127.0.0.1:{}", node.name, node.peer)).collect();
        let file = |name: &str| self.directory.path().join(name);
        let mut command = Command::new(&self.program);
        command.args(["--name", &node.name, "--log-level", "warn"]).arg("--data-dir").arg(self.data_dir(number));
        // A killed process loses no written data; only a machine crash would.
        command.arg("--unsafe-no-fsync");
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &peers.join(","), "--initial-cluster-state", "new"]);
        command.args(["--listen-metrics-urls", &format!("http://127.0.0.1:{}", node.metrics)]);
        for prefix in ["", "peer-"] {
            command.arg(format!("--{prefix}client-cert-auth"));
            command.arg(format!("--{prefix}trusted-ca-file")).arg(file("ca.crt"));
            command.arg(format!("--{prefix}cert-file")).arg(file("node.crt"));
            command.arg(format!("--{prefix}key-file")).arg(file("node.key"));
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("a log file")).spawn();
        self.nodes[number].child = Some(child.expect("etcd starts"));
    }

    /// Starts a stopped node and waits until it serves again.
    pub fn restart(&mut self, number: usize) {
        self.launch(number);
        self.wait_for(number);
    }

    /// Waits until every running node is part of the quorum.
    pub fn wait_until_healthy(&mut self) {
        for number in 0..self.size() {
            if self.nodes[number].child.is_some() {
                self.wait_for(number);
            }
        }
    }

    /// Reports whether a node answers linearizable reads.
    pub fn is_healthy(&self, number: usize) -> bool {
        self.ask(number, "/health").is_some_and(|answer| answer.contains(r#""health":"true""#))
    }

    /// Returns the current leader, as reported by the nodes.
    pub fn leader(&self) -> Option<usize> {
        let leads = |number: &usize| {
            self.ask(*number, "/metrics").is_some_and(|answer| answer.lines().any(|l| l == "etcd_server_is_leader 1"))
        };
        (0..self.size()).find(leads)
    }

    fn wait_for(&mut self, number: usize) {
        let start = Instant::now();
        while !self.is_healthy(number) {
            let child = self.nodes[number].child.as_mut().expect("this node runs");
            let ended = child.try_wait().expect("the child can be asked").is_some();
            assert!(!ended && start.elapsed() < START_TIMEOUT, "etcd {number} is not healthy:\n{}", self.log(number));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a GET to the metrics port, which has no TLS.
    fn ask(&self, number: usize, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.nodes[number].metrics)).ok()?;
        stream.set_read_timeout(Some(ASK_TIMEOUT)).ok()?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    fn log_file(&self, number: usize) -> PathBuf {
        self.directory.path().join(format!("{}.log", self.nodes[number].name))
    }
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        for number in 0..self.size() {
            self.kill(number);
        }
    }
}

/// Returns a free port outside of the ephemeral range, so that it stays free while its owner is down.
pub fn steady_port() -> u16 {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 18_000;
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    // Concurrent test programs start at different ports.
    let start = std::process::id().wrapping_mul(97) % COUNT;
    for _ in 0..COUNT {
        let offset = (start + u32::from(TAKEN.fetch_add(1, Ordering::Relaxed))) % COUNT;
        let port = u16::try_from(FIRST + offset).expect("below 32768");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port from {FIRST} on");
}

/// Creates a CA, one certificate for all nodes (server and peer) and one for clients.
fn write_certificates(directory: &Path) {
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    let mut params = CertificateParams::new(Vec::<String>::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a CA");
    std::fs::write(directory.join("ca.crt"), ca.pem()).expect("written");
    let signed = [
        ("node", vec!["127.0.0.1", "localhost"], vec![ServerAuth, ClientAuth]),
        ("client", vec!["flotilla"], vec![ClientAuth]),
    ];
    for (file, names, usages) in signed {
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.extended_key_usages = usages;
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &ca).expect("a certificate");
        std::fs::write(directory.join(format!("{file}.crt")), certificate.pem()).expect("written");
        std::fs::write(directory.join(format!("{file}.key")), key.serialize_pem()).expect("written");
    }
}
