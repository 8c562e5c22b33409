//! A tunnel through which the control plane reaches the member, opened from the member's side.

use std::convert::Infallible;
use std::time::Duration;

use api::tunnel::{PATH, PROTOCOL, SERVER_HEADER};
use bytes::Bytes;
use cluster_client::remote::connect::{host_and_port, open_tcp};
use cluster_client::{ClusterClient, Upgraded};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use object::Status;
use reconcile::backoff::Backoff;
use tokio_util::sync::CancellationToken;

const BACKOFF: Backoff = Backoff { base: Duration::from_millis(500), max: Duration::from_secs(30) };
/// Retry interval with a control plane without tunnels (Karmada's): it may be replaced by one that has them.
const UNSUPPORTED_RETRY: Duration = Duration::from_secs(600);
/// Maximum number of connections to the member through one tunnel.
const CONNECTIONS_MAX: u32 = 256;
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Keeps the tunnel open until cancelled, and reopens it after failures.
pub async fn keep(plane: ClusterClient, cluster: String, member: String, cancel: CancellationToken) {
    let mut failures = 0;
    loop {
        let opened = tokio::select! {
            () = cancel.cancelled() => return,
            opened = open(&plane, &cluster, &member) => opened,
        };
        let wait = match opened {
            Ok(upgraded) => {
                tracing::info!(cluster, "the tunnel to the control plane is open");
                failures = 0;
                tokio::select! {
                    () = cancel.cancelled() => return,
                    ended = serve(upgraded, &member) => tracing::info!(?ended, "the tunnel to the control plane was closed"),
                }
                BACKOFF.jittered(0)
            }
            Err(status) if matches!(status.code, 403..=405 | 501) => {
                tracing::info!(%status, "the control plane does not support tunnels to this member");
                UNSUPPORTED_RETRY
            }
            Err(status) => {
                failures += 1;
                let wait = BACKOFF.jittered(failures);
                tracing::debug!(%status, ?wait, "cannot open the tunnel, will retry");
                wait
            }
        };
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

async fn open(plane: &ClusterClient, cluster: &str, member: &str) -> Result<Upgraded, Status> {
    let request = Request::get(format!("{PATH}{cluster}"))
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, HeaderValue::from_static(PROTOCOL))
        .header(SERVER_HEADER, member)
        .body(Bytes::new());
    plane.upgrade(request.map_err(|error| Status::bad_request(error.to_string()))?).await
}

/// Serves the connection opened from this side: every CONNECT goes to the member's API and nowhere else.
async fn serve(upgraded: Upgraded, member: &str) -> Result<(), hyper::Error> {
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).max_concurrent_streams(CONNECTIONS_MAX);
    builder.keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIMEOUT);
    let member = member.to_owned();
    let service = service_fn(move |request| {
        let member = member.clone();
        async move { Ok::<_, Infallible>(connect(request, &member).await) }
    });
    builder.serve_connection(TokioIo::new(upgraded.stream), service).await
}

async fn connect(request: Request<Incoming>, member: &str) -> Response<Empty<Bytes>> {
    let mut response = Response::new(Empty::new());
    if request.method() != Method::CONNECT {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        return response;
    }
    let mut stream = match dial(member).await {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!(member, %error, "cannot connect to the member's API for the control plane");
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            return response;
        }
    };
    tokio::spawn(async move {
        match hyper::upgrade::on(request).await {
            Ok(upgraded) => drop(tokio::io::copy_bidirectional(&mut TokioIo::new(upgraded), &mut stream).await),
            Err(error) => tracing::debug!(%error, "a connection through the tunnel failed"),
        }
    });
    response
}

async fn dial(member: &str) -> std::io::Result<tokio::net::TcpStream> {
    let uri: Uri = member.parse().map_err(std::io::Error::other)?;
    let (host, port) = host_and_port(&uri)?;
    let timed_out = || std::io::Error::new(std::io::ErrorKind::TimedOut, format!("no connection in {DIAL_TIMEOUT:?}"));
    tokio::time::timeout(DIAL_TIMEOUT, open_tcp(host, port)).await.unwrap_or_else(|_| Err(timed_out()))
}
