//! Hands a request to another server over an open connection and streams the answer back, upgrades included.

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, BodyStream, Full};
use hyper_util::rt::TokioIo;
use object::Status;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::http::{Incoming, RequestBody};
use crate::respond::Body;

/// Headers of one hop, and those by which a client could claim to be someone.
const DROPPED: &[&str] =
    &["authorization", "cookie", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding"];

/// Headers by which another server could act on the browsers and clients of this one: sign them out or in, give other sites
/// access, or run code of its own.
const FOREIGN: &[&str] = &[
    "set-cookie",
    "clear-site-data",
    "strict-transport-security",
    "service-worker-allowed",
    "access-control-allow-origin",
    "access-control-allow-credentials",
];

pub type OutgoingBody = BoxBody<Bytes, hyper::Error>;

/// A request that asks for its connection to become something else.
pub fn wants_upgrade(incoming: &Incoming) -> bool {
    incoming.headers.contains_key(header::UPGRADE)
}

pub fn body_of(body: RequestBody) -> OutgoingBody {
    match body {
        RequestBody::Incoming(body) => body.boxed(),
        RequestBody::Whole(bytes) => whole(bytes),
    }
}

pub fn whole(bytes: Bytes) -> OutgoingBody {
    Full::new(bytes).map_err(|never| match never {}).boxed()
}

/// The caller's headers without credentials and without claims of being someone.
pub fn passed_headers(headers: &HeaderMap, upgrade: bool) -> HeaderMap {
    let mut out = HeaderMap::new();
    for (name, value) in headers {
        let text = name.as_str();
        let connection = matches!(text, "connection" | "upgrade");
        let claims = text.starts_with("x-remote-") || text.starts_with("impersonate-");
        if !claims && !DROPPED.contains(&text) && (upgrade || !connection) {
            out.append(name.clone(), value.clone());
        }
    }
    out
}

/// Sends one request over a connection of its own.
pub async fn exchange<S>(
    stream: S,
    request: Request<OutgoingBody>,
) -> Result<Response<hyper::body::Incoming>, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // The connection lives as long as the answer is read; dropping the answer ends it.
    tokio::spawn(connection.with_upgrades());
    sender.send_request(request).await
}

/// The answer as the caller gets it: streamed, or as a joined connection when both ends switched.
pub fn answer(
    response: Response<hyper::body::Incoming>,
    client: Option<hyper::upgrade::OnUpgrade>,
) -> Result<Response<Body>, Status> {
    answer_until(response, client, std::future::pending())
}

/// The same; a joined connection is closed when `end` completes.
pub fn answer_until(
    response: Response<hyper::body::Incoming>,
    client: Option<hyper::upgrade::OnUpgrade>,
    end: impl Future<Output = ()> + Send + 'static,
) -> Result<Response<Body>, Status> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return switch(response, client, end);
    }
    // As in kube-apiserver: clients add their credentials to every request, and a redirect would send them elsewhere.
    if response.status().is_redirection() && response.headers().contains_key(header::LOCATION) {
        let text = "the backend attempted to redirect this request, which is not permitted";
        return Err(Status::new(502, "BadGateway", text));
    }
    Ok(stream_back(response))
}

/// Removes headers of another server that the clients of this one must not get.
fn without_foreign(headers: &mut HeaderMap) {
    for name in FOREIGN {
        headers.remove(*name);
    }
}

fn stream_back(response: Response<hyper::body::Incoming>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(header::CONNECTION);
    parts.headers.remove(header::TRANSFER_ENCODING);
    without_foreign(&mut parts.headers);
    // A page of another server that a browser opens here gets no origin: it can neither call this API nor use its console.
    parts.headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    parts.headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let frames = BodyStream::new(body).filter_map(|frame| async move {
        match frame {
            Ok(frame) => frame.into_data().ok().map(Ok),
            Err(error) => Some(Err(std::io::Error::other(error))),
        }
    });
    Response::from_parts(parts, Body::stream(frames))
}

/// Joins the two connections into one once both ends have switched.
fn switch(
    response: Response<hyper::body::Incoming>,
    client: Option<hyper::upgrade::OnUpgrade>,
    end: impl Future<Output = ()> + Send + 'static,
) -> Result<Response<Body>, Status> {
    let Some(client) = client else {
        return Err(Status::bad_request("this connection cannot be upgraded: use HTTP/1.1"));
    };
    let mut headers = response.headers().clone();
    without_foreign(&mut headers);
    tokio::spawn(async move {
        let (client, server) = match futures::try_join!(client, hyper::upgrade::on(response)) {
            Ok(both) => both,
            Err(error) => return tracing::debug!(%error, "an upgrade to another server failed"),
        };
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
            () = end => {}
        }
    });
    let mut answer = Response::new(Body::Whole(None));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *answer.headers_mut() = headers;
    Ok(answer)
}
