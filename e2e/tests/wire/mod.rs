//! A raw HTTPS/1.1 client: sends exactly the given bytes, well-formed or not, and reads the response.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

pub const JSON: &str = "application/json";

/// Longer than any response takes, even on a busy machine.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A server and our credentials.
#[derive(Clone)]
pub struct Endpoint {
    /// `127.0.0.1:6443`
    address: String,
    tls: Arc<ClientConfig>,
    token: Option<String>,
}

impl Endpoint {
    pub fn of_kubeconfig(path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("a kubeconfig");
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "));
            line.map(|value| value.trim().to_owned())
        };
        let pem = |name: &str| {
            let inline = field(&format!("{name}-data")).map(|data| STANDARD.decode(data).expect("base64"));
            inline.or_else(|| Some(fs::read(path.parent()?.join(field(name)?)).expect("a file of the kubeconfig")))
        };
        let mut roots = RootCertStore::empty();
        let authorities = pem("certificate-authority").expect("a certificate authority");
        roots.add_parsable_certificates(certificates(&authorities));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("protocol versions").with_root_certificates(roots);
        let tls = match (pem("client-certificate"), pem("client-key")) {
            (Some(chain), Some(key)) => {
                let key = PrivateKeyDer::from_pem_slice(&key).expect("a key");
                builder.with_client_auth_cert(certificates(&chain), key).expect("a client certificate")
            }
            _ => builder.with_no_client_auth(),
        };
        let server = field("server").expect("a server");
        let address = server.trim_start_matches("https://").trim_end_matches('/').to_owned();
        Self { address, tls: Arc::new(tls), token: field("token") }
    }

    /// The same server with a token instead of a certificate.
    pub fn with_token(&self, kubeconfig: &Path, token: &str) -> Self {
        let text = fs::read_to_string(kubeconfig).expect("a kubeconfig");
        let kept: String = text.lines().filter(|line| !line.contains("client-")).map(|l| format!("{l}\n")).collect();
        let bare = kubeconfig.with_extension("anonymous");
        fs::write(&bare, kept).expect("written");
        Self { token: Some(token.to_owned()), ..Self::of_kubeconfig(&bare) }
    }

    pub fn connect(&self) -> Connection {
        let stream = TcpStream::connect(&self.address).expect("the server listens");
        stream.set_read_timeout(Some(READ_TIMEOUT)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        let name = ServerName::try_from("127.0.0.1").expect("an address");
        let session = ClientConnection::new(self.tls.clone(), name).expect("a session");
        Connection { stream: BufReader::new(StreamOwned::new(session, stream)) }
    }

    /// Returns the head of a request with credentials, without the final empty line.
    pub fn head(&self, method: &str, path: &str, version: &str) -> Vec<u8> {
        let mut head = format!("{method} {path} {version}\r\nHost: {}\r\n", self.address);
        if let Some(token) = &self.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        head.into_bytes()
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> RawAnswer {
        let mut connection = self.connect();
        connection.write(&self.request(method, path, headers, body));
        connection.read_answer(method).expect("an answer")
    }

    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let mut bytes = self.head(method, path, "HTTP/1.1");
        for (name, value) in headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        if !body.is_empty() || !matches!(method, "GET" | "HEAD") {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body);
        bytes
    }

    pub fn get(&self, path: &str) -> RawAnswer {
        self.send("GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> RawAnswer {
        self.send("POST", path, &[("Content-Type", JSON)], body.to_string().as_bytes())
    }

    pub fn put(&self, path: &str, body: &Value) -> RawAnswer {
        self.send("PUT", path, &[("Content-Type", JSON)], body.to_string().as_bytes())
    }

    pub fn patch(&self, path: &str, content_type: &str, body: &Value) -> RawAnswer {
        self.send("PATCH", path, &[("Content-Type", content_type)], body.to_string().as_bytes())
    }

    pub fn delete(&self, path: &str, options: &Value) -> RawAnswer {
        self.send("DELETE", path, &[("Content-Type", JSON)], options.to_string().as_bytes())
    }

    /// Opens a watch; its events are returned by [`Events::next`].
    pub fn watch(&self, path: &str) -> Events {
        let mut connection = self.connect();
        connection.write(&self.request("GET", path, &[], b""));
        let (code, headers) = connection.read_head().expect("a head");
        let mut events = Events { connection, pending: Vec::new(), ended: false };
        if code != 200 {
            let answer = events.connection.read_rest("GET", code, headers).expect("an answer");
            panic!("GET {path}: {} {}", code, String::from_utf8_lossy(&answer.body));
        }
        events
    }
}

fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).map(|found| found.expect("a certificate")).collect()
}

#[derive(Clone, Debug)]
pub struct RawAnswer {
    pub code: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl RawAnswer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub fn reason(&self) -> String {
        self.json()["reason"].as_str().unwrap_or_default().to_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The body as text, truncated if long.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).chars().take(600).collect()
    }

    #[track_caller]
    pub fn expect(self, code: u16) -> Self {
        assert_eq!(self.code, code, "{}", self.text());
        self
    }

    #[track_caller]
    pub fn expect_reason(self, code: u16, reason: &str) -> Self {
        assert_eq!((self.code, self.reason().as_str()), (code, reason), "{}", self.text());
        self
    }

    pub fn version(&self) -> u64 {
        let text = self.json()["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        text.parse().unwrap_or_else(|_| panic!("no resourceVersion in {}", self.text()))
    }

    pub fn names(&self) -> Vec<String> {
        let list = self.json();
        let items = list["items"].as_array().unwrap_or_else(|| panic!("no items in {}", self.text()));
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

pub struct Connection {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
}

impl Connection {
    /// A server may respond and close before it has read everything, so write errors are ignored.
    pub fn write(&mut self, bytes: &[u8]) {
        let stream = self.stream.get_mut();
        let _ = stream.write_all(bytes).and_then(|()| stream.flush());
    }

    /// Closes the write side only.
    pub fn finish_writing(&mut self) {
        let stream = self.stream.get_mut();
        stream.conn.send_close_notify();
        let _ = stream.flush();
        let _ = stream.sock.shutdown(std::net::Shutdown::Write);
    }

    /// `None` if the server closed the connection without a response.
    pub fn read_answer(&mut self, method: &str) -> Option<RawAnswer> {
        let (code, headers) = self.read_head()?;
        self.read_rest(method, code, headers)
    }

    fn read_head(&mut self) -> Option<(u16, Vec<(String, String)>)> {
        let first = self.read_line()?;
        let code = first.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                return Some((code, headers));
            }
            let (name, value) = line.split_once(':')?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    fn read_line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).ok()?;
        if line.is_empty() {
            return None;
        }
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    fn read_rest(&mut self, method: &str, code: u16, headers: Vec<(String, String)>) -> Option<RawAnswer> {
        let mut answer = RawAnswer { code, headers, body: Vec::new() };
        if method == "HEAD" || code == 204 || code == 304 {
            return Some(answer);
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.read_chunk() {
                answer.body.extend_from_slice(&chunk);
            }
        } else if let Some(length) = answer.header("content-length") {
            let length: u64 = length.parse().ok()?;
            (&mut self.stream).take(length).read_to_end(&mut answer.body).ok()?;
        } else {
            let _ = self.stream.read_to_end(&mut answer.body);
        }
        Some(answer)
    }

    /// `None` at the last chunk, or if the server closed the connection before it.
    fn read_chunk(&mut self) -> Option<Vec<u8>> {
        let length = usize::from_str_radix(self.read_line()?.split(';').next()?.trim(), 16).ok()?;
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk).ok()?;
        chunk.truncate(length);
        (length > 0).then_some(chunk)
    }
}

/// The events of a running watch.
pub struct Events {
    connection: Connection,
    pending: Vec<u8>,
    /// The server sent its last chunk, which ends a watch cleanly.
    pub ended: bool,
}

impl Events {
    /// `None` when the watch has ended.
    pub fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("an event is JSON"));
            }
            let length = self.connection.read_line()?;
            let length = usize::from_str_radix(length.trim(), 16).expect("a chunk's length");
            let mut chunk = vec![0; length + 2];
            self.connection.stream.read_exact(&mut chunk).ok()?;
            if length == 0 {
                self.ended = true;
                return None;
            }
            self.pending.extend_from_slice(&chunk[..length]);
        }
    }

    /// Returns the next event as `TYPE name`.
    pub fn next_short(&mut self) -> String {
        let event = self.next().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!("{} {}", text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    }
}
