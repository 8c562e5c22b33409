//! Runs the handlers of probes and lifecycle hooks: exec, HTTP, TCP, gRPC.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::remote::tls::{ClientIdentity, Trust, client_config};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::transport::Endpoint;

use crate::cri::{Runtime, probe_grpc_health};
use crate::pod::{list, port, text, texts};

/// Maximum response size to read: the status line, and enough of the body to explain a failure.
const ANSWER_BYTES_MAX: usize = 10 << 10;
/// Maximum length of command output or response body in messages.
const SHOWN_BYTES_MAX: usize = 512;

/// The container a handler runs against.
#[derive(Clone)]
pub(crate) struct HandlerTarget {
    pub runtime: Runtime,
    pub container_id: String,
    pub container: Arc<Value>,
    /// The pod address as reachable from this machine.
    pub address: String,
}

/// Runs the handler; the error is the message of the event.
pub(crate) async fn run(handler: &Value, target: &HandlerTarget, timeout: Duration) -> Result<(), String> {
    let work = async {
        if let Some(exec) = handler.get("exec") {
            return run_command(exec, target, timeout).await;
        }
        if let Some(get) = handler.get("httpGet") {
            return run_http(get, target).await;
        }
        if let Some(tcp) = handler.get("tcpSocket") {
            let address = address_of(tcp, target)?;
            return connect(address).await.map(drop);
        }
        if let Some(grpc) = handler.get("grpc") {
            return run_grpc(grpc, target, timeout).await;
        }
        if let Some(sleep) = handler.get("sleep") {
            let seconds = sleep.get("seconds").and_then(Value::as_u64).unwrap_or_default();
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            return Ok(());
        }
        Err("unknown handler type".to_owned())
    };
    // The runtime enforces its own timeout for commands and kills them.
    let limit = if handler.get("exec").is_some() { timeout + Duration::from_secs(2) } else { timeout };
    let late = || format!("context deadline exceeded after {}s", timeout.as_secs());
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(late()))
}

async fn run_command(exec: &Value, target: &HandlerTarget, timeout: Duration) -> Result<(), String> {
    let command = texts(exec, "command");
    let result = target.runtime.exec_sync(&target.container_id, command, timeout).await.map_err(|e| e.to_string())?;
    if result.exit_code == 0 {
        return Ok(());
    }
    let mut output = result.stdout;
    output.extend(result.stderr);
    output.truncate(SHOWN_BYTES_MAX);
    let output = String::from_utf8_lossy(&output).into_owned();
    Err(if output.is_empty() { format!("command exited with {}", result.exit_code) } else { output })
}

fn address_of(action: &Value, target: &HandlerTarget) -> Result<(String, u16), String> {
    let port = port(&target.container, action.get("port")).ok_or("the handler has no valid container port")?;
    let host = Some(text(action, "host")).filter(|host| !host.is_empty()).unwrap_or(&target.address);
    Ok((host.to_owned(), port))
}

async fn connect((host, port): (String, u16)) -> Result<TcpStream, String> {
    let stream = TcpStream::connect((host.as_str(), port)).await;
    stream.map_err(|e| format!("dial tcp {host}:{port}: {e}"))
}

async fn run_http(get: &Value, target: &HandlerTarget) -> Result<(), String> {
    let (host, port) = address_of(get, target)?;
    let path = Some(text(get, "path")).filter(|path| !path.is_empty()).unwrap_or("/");
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let request = request_text(get, &host, port, &path);
    let stream = connect((host.clone(), port)).await?;
    let is_tls = text(get, "scheme").eq_ignore_ascii_case("https");
    let answer = if is_tls {
        let name = match host.parse::<IpAddr>() {
            Ok(ip) => ServerName::IpAddress(ip.into()),
            Err(_) => ServerName::try_from(host.clone()).map_err(|e| e.to_string())?,
        };
        let stream = unverified_tls()?.connect(name, stream).await.map_err(|e| format!("TLS: {e}"))?;
        ask(stream, &request).await?
    } else {
        ask(stream, &request).await?
    };
    judge(&answer)
}

fn request_text(get: &Value, host: &str, port: u16, path: &str) -> String {
    let headers = list(get, "httpHeaders");
    let own = |name: &str| headers.iter().find(|h| text(h, "name").eq_ignore_ascii_case(name));
    let host_header = own("host").map_or_else(
        || if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") },
        |header| text(header, "value").to_owned(),
    );
    let mut request = format!("GET {path} HTTP/1.1\r\nHost: {host_header}\r\nConnection: close\r\n");
    for (name, value) in [("User-Agent", "kube-probe/1.36"), ("Accept", "*/*")] {
        if own(name).is_none() {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    for header in headers.iter().filter(|h| !text(h, "name").eq_ignore_ascii_case("host")) {
        request.push_str(&format!("{}: {}\r\n", text(header, "name"), text(header, "value")));
    }
    request.push_str("\r\n");
    request
}

async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> Result<Vec<u8>, String> {
    stream.write_all(request.as_bytes()).await.map_err(|e| e.to_string())?;
    stream.flush().await.map_err(|e| e.to_string())?;
    let mut answer = Vec::new();
    let limit = u64::try_from(ANSWER_BYTES_MAX).unwrap_or(u64::MAX);
    // A connection reset after the response is common and ignored.
    match stream.take(limit).read_to_end(&mut answer).await {
        Err(error) if answer.is_empty() => Err(error.to_string()),
        _ => Ok(answer),
    }
}

/// Status codes from 200 to 399 are a success.
fn judge(answer: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(answer);
    let mut words = text.split_whitespace();
    let is_http = words.next().is_some_and(|word| word.starts_with("HTTP/"));
    let code = words.next().and_then(|word| word.parse::<u16>().ok()).filter(|_| is_http);
    match code {
        Some(200..400) => Ok(()),
        Some(code) => Err(format!("HTTP probe failed with statuscode: {code}")),
        None => Err("malformed HTTP response".to_owned()),
    }
}

async fn run_grpc(grpc: &Value, target: &HandlerTarget, timeout: Duration) -> Result<(), String> {
    let (host, port) = address_of(grpc, target)?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let endpoint = Endpoint::from_shared(format!("http://{host}:{port}")).map_err(|e| e.to_string())?;
    let channel = endpoint.connect().await.map_err(|e| format!("failed to connect service {host}:{port}: {e}"))?;
    let is_serving = probe_grpc_health(channel, text(grpc, "service"), timeout).await.map_err(|e| e.to_string())?;
    if is_serving { Ok(()) } else { Err("service unhealthy (responded with \"NOT_SERVING\")".to_owned()) }
}

/// Probes do not verify certificates, which rarely name a pod's address.
fn unverified_tls() -> Result<TlsConnector, String> {
    let mut config = client_config(Trust::Anyone, Arc::new(ClientIdentity::default())).map_err(|e| e.to_string())?;
    // The request is HTTP/1.1, so no ALPN is offered.
    config.alpn_protocols.clear();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;

    fn target() -> HandlerTarget {
        let runtime = Runtime::connect(std::path::Path::new("/nonexistent/socket")).expect("nothing is opened yet");
        let container = Arc::new(json!({"ports": []}));
        HandlerTarget { runtime, container_id: "c".into(), container, address: "127.0.0.1".into() }
    }

    /// Answers every connection with these bytes and records the requests.
    async fn server(answer: &'static str) -> (u16, tokio::sync::mpsc::UnboundedReceiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (asked, questions) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut buffer = vec![0; 4096];
                let read = stream.read(&mut buffer).await.unwrap_or_default();
                let _ = asked.send(String::from_utf8_lossy(&buffer[..read]).into_owned());
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        (port, questions)
    }

    async fn probed(answer: &'static str) -> Result<(), String> {
        let (port, _questions) = server(answer).await;
        run(&json!({"httpGet": {"port": port, "path": "x"}}), &target(), Duration::from_secs(5)).await
    }

    #[tokio::test]
    async fn the_status_code_decides() {
        assert_eq!(probed("HTTP/1.1 200 OK\r\n\r\nhi").await, Ok(()));
        assert_eq!(probed("HTTP/1.1 302 Found\r\n\r\n").await, Ok(()));
        let failed = probed("HTTP/1.1 503 Unavailable\r\n\r\n").await;
        assert_eq!(failed, Err("HTTP probe failed with statuscode: 503".to_owned()));
        assert!(probed("SSH-2.0\r\n").await.is_err());
    }

    #[tokio::test]
    async fn custom_headers_are_sent() {
        let (port, mut questions) = server("HTTP/1.0 200 OK\r\n\r\n").await;
        let get = json!({"httpGet": {"port": port, "path": "/healthz?x=1",
            "httpHeaders": [{"name": "Host", "value": "shop"}, {"name": "X-Key", "value": "1"}]}});
        run(&get, &target(), Duration::from_secs(5)).await.expect("answered");
        let question = questions.recv().await.expect("asked");
        assert!(question.starts_with("GET /healthz?x=1 HTTP/1.1\r\nHost: shop\r\n"), "{question}");
        assert!(question.contains("\r\nX-Key: 1\r\n"), "{question}");
    }

    #[tokio::test]
    async fn a_port_is_open_or_not() {
        let (port, _questions) = server("").await;
        let open = json!({"tcpSocket": {"port": port}});
        assert_eq!(run(&open, &target(), Duration::from_secs(5)).await, Ok(()));
        let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound").port();
        let shut = json!({"tcpSocket": {"port": free}});
        assert!(run(&shut, &target(), Duration::from_secs(5)).await.is_err());
    }
}
