//! Clients that hold connections without using them lose them, while others are served.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use listener::{ConnectionLimits, HttpListener, HttpSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

const SHORT: Duration = Duration::from_millis(300);
/// Far above every limit in these tests.
const DEADLINE: Duration = Duration::from_secs(30);

/// Serves `/` at once, `/slow` after several idle limits and `/large` with more than sockets buffer.
async fn start(limits: ConnectionLimits) -> (SocketAddr, DropGuard) {
    let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = tcp.local_addr().expect("an address");
    let http = HttpSettings {
        header_max: SHORT,
        streams_max: 10,
        stream_window: 65_535,
        connection_window: 65_535,
        stream_send_buffer: 65_536,
        drain_max: SHORT,
    };
    let stop = CancellationToken::new();
    let listener = HttpListener { tcp, tls: None, limits, http };
    tokio::spawn(listener.run(stop.clone(), |_| answer));
    (address, stop.drop_guard())
}

async fn answer(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let body = match request.uri().path() {
        "/slow" => {
            tokio::time::sleep(SHORT * 5).await;
            Bytes::from_static(b"slow")
        }
        "/large" => vec![b'x'; 32 << 20].into(),
        _ => Bytes::from_static(b"ok"),
    };
    Response::new(Full::new(body))
}

fn limits() -> ConnectionLimits {
    ConnectionLimits { first_request_max: SHORT, idle_max: SHORT, write_stall_max: SHORT, ..Default::default() }
}

async fn get(address: SocketAddr, path: &str) -> String {
    let mut client = TcpStream::connect(address).await.expect("connects");
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.expect("sent");
    let mut text = String::new();
    let _ = client.read_to_string(&mut text).await;
    text
}

/// Waits for the server's end of the connection; what it sent before does not matter.
async fn closed(mut client: TcpStream) {
    let mut buffer = [0; 4096];
    let read = async { while client.read(&mut buffer).await.is_ok_and(|count| count > 0) {} };
    tokio::time::timeout(DEADLINE, read).await.expect("the server closes the connection");
}

#[tokio::test]
async fn connections_without_a_request_are_closed_while_others_are_served() {
    let (address, _running) = start(limits()).await;
    let preface_and_settings = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let beginnings: [&[u8]; 5] =
        [b"", b"P", b"PRI * HTTP/2.0\r\n", preface_and_settings, b"GET / HTTP/1.1\r\nhost: a\r\nx"];
    let mut held = Vec::new();
    for beginning in beginnings.iter().cycle().take(50) {
        let mut client = TcpStream::connect(address).await.expect("connects");
        client.write_all(beginning).await.expect("sent");
        held.push(client);
    }
    assert!(get(address, "/").await.ends_with("ok"));
    for client in held {
        closed(client).await;
    }
}

#[tokio::test]
async fn a_connection_whose_request_takes_long_stays_open() {
    let (address, _running) = start(limits()).await;
    assert!(get(address, "/slow").await.ends_with("slow"));
}

#[tokio::test]
async fn a_client_that_does_not_read_loses_its_connection_and_its_permit() {
    let (address, _running) = start(ConnectionLimits { per_address_max: 1, ..limits() }).await;
    let mut stalled = TcpStream::connect(address).await.expect("connects");
    stalled.write_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("sent");
    let served = async {
        while !get(address, "/").await.ends_with("ok") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, served).await.expect("the permit is returned");
}
