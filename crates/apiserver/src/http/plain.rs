//! Metrics and health checks over plain HTTP, without credentials, for scrapers and probes that have none.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, header};
use hyper::body::Incoming;
use listener::{ConnectionLimits, ConnectionPeer, HttpListener, HttpSettings};
use object::query::Query;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::respond::{self, Body};
use crate::server::Server;

const HTTP: HttpSettings = HttpSettings {
    header_max: Duration::from_secs(5),
    streams_max: 4,
    stream_window: 64 << 10,
    connection_window: 64 << 10,
    stream_send_buffer: 64 << 10,
    drain_max: Duration::from_secs(1),
};
const CONNECTIONS_MAX: usize = 64;
/// Responses that are prepared at the same time; more requests wait.
const REQUESTS_MAX: usize = 4;

/// The paths of a plain listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainPaths {
    /// `/metrics`.
    pub metrics: bool,
    /// `/healthz`, `/livez` and `/readyz`.
    pub health: bool,
}

/// Serves these paths, and nothing else, until the server stops.
pub async fn serve_plain(server: Arc<Server>, tcp: TcpListener, paths: PlainPaths) {
    let limits = ConnectionLimits {
        connections_max: CONNECTIONS_MAX,
        per_address_max: CONNECTIONS_MAX,
        ..ConnectionLimits::default()
    };
    let listener = HttpListener { tcp, tls: None, limits, http: HTTP };
    let (stop, permits) = (server.stop.clone(), Arc::new(Semaphore::new(REQUESTS_MAX)));
    let serving = listener.run(stop, move |_: ConnectionPeer| {
        let (server, permits) = (server.clone(), permits.clone());
        move |request: Request<Incoming>| {
            let (server, permits) = (server.clone(), permits.clone());
            async move {
                let _permit = permits.acquire().await;
                answer(&server, paths, &request).await
            }
        }
    });
    serving.await;
}

async fn answer(server: &Arc<Server>, paths: PlainPaths, request: &Request<Incoming>) -> Response<Body> {
    let path = request.uri().path();
    let is_served = match path {
        "/metrics" => paths.metrics,
        "/healthz" | "/livez" | "/readyz" => paths.health,
        _ => false,
    };
    if !is_served {
        return respond::text(404, "text/plain; charset=utf-8", "404 page not found\n");
    }
    let mut response = match (request.method(), path) {
        (&Method::GET | &Method::HEAD, "/metrics") => crate::documents::metrics(server).await,
        (&Method::GET | &Method::HEAD, path) => {
            let query = Query::parse(request.uri().query().unwrap_or_default());
            crate::health::report(server.health_scope(), path, &query).await
        }
        _ => {
            let mut response = respond::text(405, "text/plain; charset=utf-8", "405 method not allowed\n");
            response.headers_mut().insert(header::ALLOW, http::HeaderValue::from_static("GET, HEAD"));
            response
        }
    };
    if request.method() == Method::HEAD {
        *response.body_mut() = Body::Whole(None);
    }
    response
}
