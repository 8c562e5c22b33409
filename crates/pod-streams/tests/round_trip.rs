//! Our client against our server, over an in-memory connection, with a predictable backend.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pod_streams::client::{self, ClientError, StreamTarget};
use pod_streams::{
    Attach, Exec, ExitStatus, LogOptions, LogStream, PodBackend, PodRef, Refusal, StreamRequest, Streams, TerminalSize,
    Tunnel,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// `cat` copies, `size` prints the first terminal size, `exit N` exits, anything else fails to start.
struct Echo;

#[async_trait]
impl PodBackend for Echo {
    async fn logs(&self, _: &PodRef, _: LogOptions) -> Result<LogStream, Refusal> {
        Err(Refusal::new(400, "no log"))
    }

    async fn exec(&self, _: &PodRef, exec: Exec, streams: Streams) -> Result<ExitStatus, Refusal> {
        let command: Vec<&str> = exec.command.iter().map(String::as_str).collect();
        let Streams { stdin, stdout, stderr, mut resize } = streams;
        match command.as_slice() {
            ["cat"] => {
                let (mut stdin, mut stdout) = (stdin.expect("asked for"), stdout.expect("asked for"));
                tokio::io::copy(&mut stdin, &mut stdout).await.map_err(|e| Refusal::new(500, e.to_string()))?;
                stderr.expect("asked for").write_all(b"done").await.map_err(|e| Refusal::new(500, e.to_string()))?;
                Ok(ExitStatus::Success)
            }
            ["size"] => {
                let TerminalSize { width, height } = resize.recv().await.expect("a size");
                let text = format!("{width}x{height}");
                let written = stdout.expect("asked for").write_all(text.as_bytes()).await;
                written.map_err(|e| Refusal::new(500, e.to_string()))?;
                Ok(ExitStatus::Success)
            }
            ["exit", code] => Ok(ExitStatus::Code(code.parse().expect("a number"))),
            _ => Err(Refusal::new(500, "no such command")),
        }
    }

    async fn attach(&self, _: &PodRef, _: Attach, _: Streams) -> Result<ExitStatus, Refusal> {
        Ok(ExitStatus::Success)
    }

    async fn port_forward(&self, _: &PodRef, port: u16) -> Result<Box<dyn Tunnel>, Refusal> {
        if port != 80 {
            return Err(Refusal::new(500, "connection refused"));
        }
        let (here, mut there) = tokio::io::duplex(1024);
        tokio::spawn(async move {
            let mut line = [0; 5];
            there.read_exact(&mut line).await.expect("five bytes");
            line.reverse();
            there.write_all(&line).await.expect("open");
        });
        Ok(Box::new(here))
    }
}

/// A connection to a server for one pod.
fn connect() -> DuplexStream {
    let (client, server) = tokio::io::duplex(64 * 1024);
    let service = service_fn(|mut request: Request<hyper::body::Incoming>| async move {
        let upgrade = request.extensions_mut().remove();
        let (parts, _) = request.into_parts();
        let is_forward = parts.uri.path().ends_with("portforward");
        let request = StreamRequest { uri: parts.uri, headers: parts.headers, upgrade, stop: CancellationToken::new() };
        let container = "main".to_owned();
        let pod = PodRef { namespace: "a".into(), name: "p".into(), uid: "u".into(), container };
        let answer = match is_forward {
            true => pod_streams::serve_port_forward(request, Arc::new(Echo), pod),
            false => pod_streams::serve_exec(request, Arc::new(Echo), pod),
        };
        let answer = match answer {
            Ok(response) => response.map(|()| Full::new(Bytes::new())),
            Err(refusal) => {
                let mut response = Response::new(Full::new(Bytes::from(refusal.message)));
                *response.status_mut() = refusal.code.try_into().expect("a code");
                response
            }
        };
        Ok::<_, std::convert::Infallible>(answer)
    });
    tokio::spawn(async move {
        let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(server), service);
        let _ = served.with_upgrades().await;
    });
    client
}

fn target(path_and_query: &str) -> StreamTarget {
    StreamTarget { host: "pods".into(), path_and_query: path_and_query.into(), headers: HeaderMap::new() }
}

struct Ran {
    end: Result<ExitStatus, ClientError>,
    stdout: String,
    stderr: String,
}

async fn run(query: &str, stdin: &[u8], sizes: &[TerminalSize]) -> Ran {
    let (out_here, mut out) = tokio::io::duplex(1 << 20);
    let (err_here, mut err) = tokio::io::duplex(1 << 20);
    let (sender, resize) = mpsc::channel(4);
    for size in sizes {
        sender.send(*size).await.expect("open");
    }
    let stdin = std::io::Cursor::new(stdin.to_vec());
    let streams = Streams {
        stdin: Some(Box::new(stdin)),
        stdout: Some(Box::new(out_here)),
        stderr: Some(Box::new(err_here)),
        resize,
    };
    let asked = target(&format!("/exec?{query}"));
    let end = tokio::time::timeout(Duration::from_secs(20), client::exec(connect(), &asked, streams));
    let end = end.await.expect("an end");
    let (mut stdout, mut stderr) = (String::new(), String::new());
    out.read_to_string(&mut stdout).await.expect("text");
    err.read_to_string(&mut stderr).await.expect("text");
    Ran { end, stdout, stderr }
}

#[tokio::test]
async fn a_command_reads_to_the_end_of_its_input_and_its_streams_stay_apart() {
    let input = "line\n".repeat(40_000);
    let ran = run("command=cat&stdin=true&stdout=true&stderr=true", input.as_bytes(), &[]).await;
    assert_eq!(ran.end.expect("ran"), ExitStatus::Success);
    assert!(ran.stdout == input, "{} of {} bytes", ran.stdout.len(), input.len());
    assert_eq!(ran.stderr, "done");
}

#[tokio::test]
async fn exit_codes_and_failures_arrive() {
    let ran = run("command=exit&command=42&stdout=true", b"", &[]).await;
    assert_eq!(ran.end.expect("ran"), ExitStatus::Code(42));
    let ran = run("command=nothing&stdout=true", b"", &[]).await;
    assert_eq!(ran.end.expect("asked"), ExitStatus::Failed("Internal error occurred: no such command".into()));
}

#[tokio::test]
async fn the_size_of_a_terminal_arrives() {
    let ran = run("command=size&stdout=true&tty=true&stdin=true", b"", &[TerminalSize { width: 80, height: 24 }]).await;
    assert_eq!(ran.stdout, "80x24");
}

#[tokio::test]
async fn a_request_without_streams_is_rejected_with_the_reason() {
    let ran = run("command=cat", b"", &[]).await;
    let Err(ClientError::Refused { code, message }) = ran.end else { panic!("it asked for no stream") };
    assert_eq!((code, message.as_str()), (400, "you must specify at least 1 of stdin, stdout, stderr"));
}

#[tokio::test]
async fn a_port_forwards_both_ways_and_reports_errors() {
    let mut tunnel = client::port_forward(connect(), &target("/portforward?ports=80")).await.expect("open");
    tunnel.write_all(b"hello").await.expect("sent");
    let mut text = String::new();
    tunnel.read_to_string(&mut text).await.expect("an answer and its end");
    assert_eq!(text, "olleh");

    let mut closed = client::port_forward(connect(), &target("/portforward?ports=81")).await.expect("asked");
    let error = closed.read_to_string(&mut text).await.expect_err("nothing listens there");
    assert_eq!(error.to_string(), "error forwarding port 81 to pod p, uid u: connection refused");
}
