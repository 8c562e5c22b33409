//! A blocking HTTP/1.1 client over TLS that can do what no well-behaved client does: send half a request, read nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

use crate::flotilla::Flotilla;

/// A client for one server, as one caller.
#[derive(Clone)]
pub struct RawClient {
    port: u16,
    tls: Arc<ClientConfig>,
    token: Option<String>,
}

/// One connection, its handshake done.
pub struct RawConnection {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

pub struct RawResponse {
    pub code: u16,
    pub headers: String,
    pub body: String,
}

impl RawResponse {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

impl RawClient {
    /// An anonymous client of this server.
    pub fn of(server: &Flotilla) -> Self {
        Self { port: server.port(), tls: tls_config(&server.data_dir), token: None }
    }

    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    pub fn connect(&self) -> std::io::Result<RawConnection> {
        let socket = TcpStream::connect(("127.0.0.1", self.port))?;
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        let name = ServerName::try_from("localhost").expect("a name");
        let session = ClientConnection::new(self.tls.clone(), name).map_err(std::io::Error::other)?;
        let mut stream = StreamOwned::new(session, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(RawConnection { stream })
    }

    /// The header of a request, and its body when that is sent too.
    pub fn request_text(&self, method: &str, path: &str, extra: &str, body: &str) -> String {
        let token = self.token.as_ref().map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{token}{extra}\r\n{body}")
    }

    /// Sends a request over a connection of its own and reads the response.
    pub fn ask(&self, method: &str, path: &str, content_type: &str, body: &str) -> std::io::Result<RawResponse> {
        let extra = format!("connection: close\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n", body.len());
        let mut connection = self.connect()?;
        connection.send(&self.request_text(method, path, &extra, body))?;
        connection.read_response()
    }

    pub fn post(&self, path: &str, body: &Value) -> std::io::Result<RawResponse> {
        self.ask("POST", path, "application/json", &body.to_string())
    }

    pub fn get(&self, path: &str) -> std::io::Result<RawResponse> {
        self.ask("GET", path, "application/json", "")
    }
}

impl RawConnection {
    pub fn send(&mut self, text: &str) -> std::io::Result<()> {
        self.send_bytes(text.as_bytes())
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Waits until the server closes the connection; an error when it does not in time.
    pub fn wait_closed(&mut self, limit: Duration) -> std::io::Result<()> {
        self.stream.sock.set_read_timeout(Some(limit))?;
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if is_closed(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the header of a response whose body may go on, such as a watch.
    pub fn read_header(&mut self) -> std::io::Result<String> {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            bytes.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads the response of a request that closes its connection.
    pub fn read_response(&mut self) -> std::io::Result<RawResponse> {
        let mut bytes = Vec::new();
        match self.stream.read_to_end(&mut bytes) {
            Err(error) if !is_closed(&error) => return Err(error),
            _ => {}
        }
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
        let (headers, body) = (String::from_utf8_lossy(&bytes[..end]).into_owned(), &bytes[end + 4..]);
        let code = headers.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let is_chunked = headers.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_vec() };
        let body = String::from_utf8_lossy(&body).into_owned();
        Ok(RawResponse { code, headers, body })
    }
}

fn is_closed(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// The content of a chunked body. A body that was cut off ends with its last whole chunk.
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let Some(end) = body.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(String::from_utf8_lossy(&body[..end]).trim(), 16).unwrap_or(0);
        let rest = &body[end + 2..];
        if size == 0 || rest.len() < size {
            break;
        }
        content.extend_from_slice(&rest[..size]);
        body = rest[size..].strip_prefix(b"\r\n").unwrap_or(&rest[size..]);
    }
    content
}

fn tls_config(data_dir: &Path) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(data_dir.join("pki/ca.crt")).expect("the server's CA") {
        roots.add(certificate.expect("a certificate")).expect("a root");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(config.expect("TLS versions").with_root_certificates(roots).with_no_client_auth())
}
