//! Starts etcd and kube-apiserver on loopback and connects through `kubectl proxy`, in plain HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use serde_json::{Value, json};
use tempfile::TempDir;

const LOG: &str = "kube-apiserver.log";
const START_MAX: Duration = Duration::from_secs(90);

pub struct RealServer {
    /// Stopped in this order.
    processes: Vec<Child>,
    proxy: String,
    programs: PathBuf,
    folder: TempDir,
}

impl RealServer {
    /// Returns `None` and prints a notice if the programs are missing.
    pub fn start() -> Option<Self> {
        let programs = programs()?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (etcd_client, etcd_peer, api, proxy) = (free_port(), free_port(), free_port(), free_port());
        let etcd = start_etcd(&programs, folder.path(), etcd_client, etcd_peer);
        let api_server = start_api_server(&programs, folder.path(), etcd_client, api);
        let mut server =
            Self { processes: vec![api_server, etcd], proxy: String::new(), programs: programs.clone(), folder };
        let kubeconfig = write_kubeconfig(server.folder.path(), api);
        let mut proxied = Command::new(programs.join("kubectl"))
            .args(["proxy", &format!("--port={proxy}"), "--kubeconfig"])
            .arg(kubeconfig)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("kubectl starts");
        let mut line = String::new();
        BufReader::new(proxied.stdout.take().expect("piped")).read_line(&mut line).expect("kubectl says its address");
        server.processes.insert(0, proxied);
        server.proxy = format!("127.0.0.1:{proxy}");
        server.wait_until_ready();
        Some(server)
    }

    /// The proxy's plain HTTP address of the server.
    pub fn address(&self) -> String {
        format!("http://{}", self.proxy)
    }

    /// The output of kubectl for a server.
    pub fn kubectl(&self, server: &str, arguments: &[String]) -> String {
        let cache = self.folder.path().join(server.replace(['/', ':'], "_"));
        let output = Command::new(self.programs.join("kubectl"))
            .args(["--server", server, "--kubeconfig", "/dev/null", "--cache-dir"])
            .arg(cache)
            .args(arguments)
            .output()
            .expect("kubectl starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "kubectl {arguments:?} of {server}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    pub fn get(&self, path: &str) -> Value {
        self.get_as(path, "application/json")
    }

    pub fn get_as(&self, path: &str, accept: &str) -> Value {
        let (status, body) = self.request("GET", path, accept, b"").expect("the server answers");
        assert_eq!(status, 200, "GET {path}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).expect("the answer is JSON")
    }

    pub fn create(&self, path: &str, object: &Value) {
        let (status, body) =
            self.request("POST", path, "application/json", object.to_string().as_bytes()).expect("the server answers");
        assert_eq!(status, 201, "POST {path}: {}", String::from_utf8_lossy(&body));
    }

    pub fn wait_for(&self, path: &str, condition: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + START_MAX;
        while Instant::now() < deadline {
            let answer = self.request("GET", path, "application/json", b"").ok().filter(|(status, _)| *status == 200);
            let document = answer.and_then(|(_, body)| serde_json::from_slice(&body).ok());
            if document.is_some_and(|document| condition(&document)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        panic!("{path} did not come to what was waited for");
    }

    fn wait_until_ready(&self) {
        let deadline = Instant::now() + START_MAX;
        while !matches!(self.request("GET", "/readyz", "*/*", b""), Ok((200, _))) {
            if Instant::now() >= deadline {
                let log = fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default();
                let end: Vec<&str> = log.lines().rev().take(12).collect();
                panic!("kube-apiserver is not ready after {START_MAX:?}; newest lines first:\n{}", end.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        // The OpenAPI index is filled in the background.
        self.wait_for("/openapi/v3", |index| index["paths"].as_object().is_some_and(|paths| paths.len() > 40));
        self.wait_for("/openapi/v2", |document| document["definitions"].as_object().is_some_and(|d| d.len() > 500));
    }

    /// HTTP/1.0, so that the response ends with the connection.
    fn request(&self, method: &str, path: &str, accept: &str, body: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
        let mut stream = TcpStream::connect(&self.proxy)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let broken = || std::io::Error::other("not an HTTP answer");
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").ok_or_else(broken)?;
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(broken)?;
        Ok((status, answer.split_off(end + 4)))
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // Already exited is fine.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn programs() -> Option<PathBuf> {
    let folder = env::var_os("FLOTILLA_KUBE_BIN")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/flotilla/bin")))?;
    let missing = ["etcd", "kube-apiserver", "kubectl"].into_iter().find(|name| !folder.join(name).is_file());
    if let Some(name) = missing {
        test_skip::skip(format_args!(
            "no {name} in {}; set FLOTILLA_KUBE_BIN to a folder with Kubernetes 1.36 programs",
            folder.display()
        ));
        return None;
    }
    Some(folder)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

fn start_etcd(programs: &Path, folder: &Path, client: u16, peer: u16) -> Child {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    Command::new(programs.join("etcd"))
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}"), "--unsafe-no-fsync"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd starts")
}

fn start_api_server(programs: &Path, folder: &Path, etcd: u16, port: u16) -> Child {
    let (private, public) = (folder.join("service-account.key"), folder.join("service-account.pub"));
    let key = rcgen::KeyPair::generate().expect("a key");
    fs::write(&private, key.serialize_pem()).expect("the folder is writable");
    fs::write(&public, key.public_key_pem()).expect("the folder is writable");
    fs::write(folder.join("tokens.csv"), "conformance,admin,admin,\"system:masters\"\n")
        .expect("the folder is writable");
    Command::new(programs.join("kube-apiserver"))
        .args(["--etcd-servers", &format!("http://127.0.0.1:{etcd}"), "--bind-address", "127.0.0.1"])
        .args(["--secure-port", &port.to_string(), "--service-cluster-ip-range", "10.0.0.0/24"])
        .args(["--service-account-issuer", "https://conformance.test", "--authorization-mode", "RBAC"])
        .arg("--cert-dir")
        .arg(folder.join("certs"))
        .arg("--service-account-key-file")
        .arg(&public)
        .arg("--service-account-signing-key-file")
        .arg(&private)
        .arg("--token-auth-file")
        .arg(folder.join("tokens.csv"))
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join(LOG)).expect("the folder is writable"))
        .spawn()
        .expect("kube-apiserver starts")
}

fn write_kubeconfig(folder: &Path, port: u16) -> PathBuf {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "real", "cluster": { "server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true } }],
        "users": [{ "name": "admin", "user": { "token": "conformance" } }],
        "contexts": [{ "name": "real", "context": { "cluster": "real", "user": "admin" } }],
        "current-context": "real",
    });
    let path = folder.join("kubeconfig");
    fs::write(&path, config.to_string()).expect("the folder is writable");
    path
}
