//! A registry, a containerd and clients of them, for tests.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use e2e::eventually::eventually;
use e2e::flotilla::{binary, programs};
use serde_json::{Value, json};

const START_MAX: Duration = Duration::from_secs(60);

/// A `flotilla registry` process on a free port, stopped with the test.
pub struct Registry {
    directory: tempfile::TempDir,
    child: Child,
    port: u16,
}

impl Registry {
    pub fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (child, port) = spawn(directory.path(), 0);
        Self { directory, child, port }
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Kills it, as in a power failure, and restarts it on the same port and data.
    pub fn kill_and_restart(&mut self) {
        self.child.kill().expect("the registry is killed");
        self.child.wait().expect("it ends");
        self.child = spawn(self.directory.path(), self.port).0;
    }

    /// Returns the status, and headers and body as text.
    pub fn curl(&self, arguments: &[&str], path: &str) -> (u16, String) {
        let url = format!("http://{}{path}", self.host());
        let output = Command::new("curl").args(["-s", "-i", "-m", "60"]).args(arguments).arg(&url).output();
        let text = String::from_utf8_lossy(&output.expect("curl runs").stdout).into_owned();
        // Informational responses come first.
        let mut status = text
            .lines()
            .filter(|line| line.starts_with("HTTP/"))
            .filter_map(|line| line.split(' ').nth(1)?.parse().ok());
        (status.find(|status| *status >= 200).unwrap_or(0), text)
    }

    pub fn fetch(&self, path: &str) -> Vec<u8> {
        let url = format!("http://{}{path}", self.host());
        let output = Command::new("curl").args(["-s", "-f", "-m", "60", &url]).output().expect("curl runs");
        assert!(output.status.success(), "{path} does not exist");
        output.stdout
    }

    pub fn gc(&self, arguments: &[&str]) -> String {
        let data = self.data_dir().display().to_string();
        succeed(flotilla(&[&["registry", "gc", "--data-dir", &data], arguments].concat()))
    }

    pub fn blob_count(&self) -> usize {
        files_below(&self.data_dir().join("blobs")).len()
    }

    pub fn upload_count(&self) -> usize {
        std::fs::read_dir(self.data_dir().join("uploads")).map_or(0, Iterator::count)
    }

    pub fn uploaded_bytes(&self) -> u64 {
        let files = files_below(&self.data_dir().join("uploads"));
        files.iter().filter_map(|file| std::fs::metadata(file).ok()).map(|found| found.len()).sum()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Its port is in the line that reports readiness.
fn spawn(directory: &Path, port: u16) -> (Child, u16) {
    let path = directory.join("registry.log");
    let log = std::fs::File::create(&path).expect("a log file");
    let child = Command::new(binary())
        .args(["registry", "--log-format", "json", "--bind", &format!("127.0.0.1:{port}"), "--data-dir"])
        .arg(directory.join("data"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the registry starts");
    let mut found = None;
    eventually("the registry is ready", START_MAX, || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let line = text.lines().find(|line| line.contains("the registry is ready"));
        let line: Option<Value> = line.and_then(|line| serde_json::from_str(line).ok());
        let address = line.and_then(|line| line["fields"]["address"].as_str().map(str::to_owned));
        found = address.and_then(|address| address.rsplit(':').next()?.parse().ok());
        found.is_some()
    });
    (child, found.expect("a port"))
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let (mut files, mut open) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { open.push(path) } else { files.push(path) }
        }
    }
    files
}

/// A private containerd; `None` if this machine or user does not support it.
pub struct Containerd {
    directory: tempfile::TempDir,
    child: Child,
}

impl Containerd {
    pub fn start() -> Option<Self> {
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
        if !is_root || !have("containerd") || !have("ctr") || !have("runc") {
            test_skip::skip("requires root, containerd and runc");
            return None;
        }
        let directory = tempfile::Builder::new().prefix("ctd").tempdir_in("/tmp").expect("a temporary directory");
        let at = |name: &str| directory.path().join(name);
        let config = format!(
            "version = 2\nroot = {:?}\nstate = {:?}\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = {:?}\n",
            at("root"),
            at("state"),
            at("sock"),
        );
        std::fs::write(at("config.toml"), config).expect("a file");
        let log = std::fs::File::create(at("log")).expect("a file");
        let child = Command::new("containerd")
            .arg("--config")
            .arg(at("config.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("containerd starts");
        let containerd = Self { directory, child };
        eventually("containerd answers", START_MAX, || {
            containerd.command(&["version"]).output().is_ok_and(|o| o.status.success())
        });
        Some(containerd)
    }

    pub fn socket(&self) -> String {
        self.directory.path().join("sock").display().to_string()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("ctr");
        // The native snapshotter works on every file system.
        command.env("CONTAINERD_SNAPSHOTTER", "native").args(["--address", &self.socket(), "--namespace", "k8s.io"]);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    pub fn ctr(&self, arguments: &[&str]) -> String {
        succeed(self.command(arguments).output().expect("ctr runs"))
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

/// Reports whether a program is installed; otherwise reports the test as skipped.
pub fn have(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        test_skip::skip(format_args!("{program} is not installed (`tools/setup` installs it)"));
    }
    found
}

pub fn flotilla(arguments: &[&str]) -> Output {
    Command::new(binary()).args(arguments).stdin(Stdio::null()).output().expect("the binary runs")
}

pub fn skopeo(arguments: &[&str]) -> String {
    succeed(Command::new("skopeo").args(arguments).stdin(Stdio::null()).output().expect("skopeo runs"))
}

/// `None` if it is not installed.
pub fn crane(arguments: &[&str]) -> Option<Result<String, String>> {
    let program = programs().join("crane");
    if !program.exists() {
        test_skip::skip(format_args!("{} is missing (`tools/kube/build crane` builds it)", program.display()));
        return None;
    }
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().expect("crane runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { Ok(String::from_utf8_lossy(&output.stdout).into_owned()) } else { Err(said) })
}

pub fn succeed(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{said}");
    text
}

pub fn digest(bytes: &[u8]) -> String {
    let mut child =
        Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sha256sum runs");
    child.stdin.take().expect("a pipe").write_all(bytes).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    format!("sha256:{}", text.split(' ').next().expect("a sum"))
}

pub fn header(answer: &str, name: &str) -> String {
    let line = answer.lines().find_map(|line| {
        let (key, value) = line.split_once(": ")?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    });
    line.unwrap_or_else(|| panic!("no {name} in {answer}"))
}

/// Creates an image archive without any tool: busybox with a page. The context is kept next to it.
pub fn image_archive(folder: &Path, name: &str, platform: &str) -> String {
    let context = folder.join("context");
    std::fs::create_dir_all(context.join("www")).expect("a directory");
    let busybox = if Path::new("/bin/busybox").exists() { "/bin/busybox" } else { "/bin/sh" };
    std::fs::copy(busybox, context.join("busybox")).expect("a program to put into the image");
    std::fs::write(context.join("www/index.html"), format!("hello from {name}\n")).expect("a file");
    let recipe = "FROM scratch\nCOPY busybox /bin/busybox\nCOPY www /www\nENV PATH=/bin\nLABEL made-by=flotilla\nEXPOSE 80\n\
                  CMD [\"/bin/busybox\", \"httpd\", \"-f\", \"-h\", \"/www\"]\n";
    std::fs::write(context.join("Dockerfile"), recipe).expect("a file");
    let archive = folder.join(format!("{}.tar", name.replace(['/', ':'], "-"))).display().to_string();
    let context = context.display().to_string();
    let mut arguments = vec!["image", "build", &context, "-t", name, "-o", &archive];
    if !platform.is_empty() {
        arguments.extend(["--platform", platform]);
    }
    succeed(flotilla(&arguments));
    archive
}

/// A relay with a few megabytes per second, so that there is time to interfere; lives as long as the test.
pub fn slow_way_to(host: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let host = host.to_owned();
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            // No listener: the client's connection is closed.
            let Ok(far) = TcpStream::connect(&host) else { continue };
            let (near_too, far_too) = (near.try_clone().expect("a handle"), far.try_clone().expect("a handle"));
            std::thread::spawn(move || carry(near, far, Duration::from_millis(12)));
            std::thread::spawn(move || carry(far_too, near_too, Duration::ZERO));
        }
    });
    address
}

fn carry(mut from: TcpStream, mut to: TcpStream, pause: Duration) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
        std::thread::sleep(pause);
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Pushes over a raw connection, without a process per request.
pub fn push_blob(host: &str, repository: &str, bytes: &[u8]) -> String {
    let sum = digest(bytes);
    let status = request(host, "POST", &format!("/v2/{repository}/blobs/uploads/?digest={sum}"), "", bytes);
    assert_eq!(status, 201, "{repository}");
    sum
}

pub fn push_image(host: &str, repository: &str, tag: &str, shared: &str) {
    let config = format!("{{\"tag\":\"{tag}\"}}");
    let sum = push_blob(host, repository, config.as_bytes());
    let mount = format!("/v2/{repository}/blobs/uploads/?mount={shared}&from=shared");
    assert_eq!(request(host, "POST", &mount, "", b""), 201);
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let part = |sum: &str, len: usize| json!({"mediaType": "application/octet-stream", "digest": sum, "size": len});
    let manifest = json!({"schemaVersion": 2, "mediaType": media_type, "config": part(&sum, config.len()), "layers": [part(shared, 21)]});
    let path = format!("/v2/{repository}/manifests/{tag}");
    assert_eq!(request(host, "PUT", &path, media_type, manifest.to_string().as_bytes()), 201);
}

fn request(host: &str, method: &str, path: &str, media_type: &str, body: &[u8]) -> u16 {
    let mut stream = TcpStream::connect(host).expect("a connection");
    let kind = if media_type.is_empty() { String::new() } else { format!("content-type: {media_type}\r\n") };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{kind}content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).expect("a request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status")
}
