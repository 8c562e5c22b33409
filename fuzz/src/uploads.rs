//! Upload sessions of the registry: pieces in order and out of order, ranges, right and wrong digests.

use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{CONTENT_RANGE, LOCATION, RANGE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use oci_registry::digest::Digest;
use oci_registry::server::{RegistryConfig, RunningRegistry, start};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

const REQUESTS_MAX: usize = 8;
/// Small, so that inputs reach it.
const BLOB_BYTES_MAX: u64 = 4096;

/// A registry that the inputs of one thread share.
struct Registry {
    runtime: Runtime,
    running: RunningRegistry,
    _directory: tempfile::TempDir,
}

impl Registry {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let (runtime, directory) =
            (runtime.expect("a runtime needs no input"), tempfile::tempdir().expect("a temporary directory"));
        let mut config = RegistryConfig::new(directory.path(), SocketAddr::from(([127, 0, 0, 1], 0)));
        config.limits.blob_len_max = BLOB_BYTES_MAX;
        let running = runtime.block_on(start(config, CancellationToken::new())).expect("a registry");
        Self { runtime, running, _directory: directory }
    }
}

/// The state of an upload as its client may expect it.
struct Session {
    registry: SocketAddr,
    location: String,
    /// The content that was acknowledged.
    content: Vec<u8>,
    is_over: bool,
}

/// Requests on one upload, separated by a byte that is not valid in UTF-8. The first byte of each chooses what it does, the rest of its
/// first line is its Content-Range, and what follows is its body. The registry has what it acknowledged and nothing else.
pub fn registry_uploads(data: &[u8]) {
    thread_local! {
        static REGISTRY: Registry = Registry::start();
    }
    REGISTRY.with(|registry| {
        registry.runtime.block_on(async {
            let mut session = Session::begin(registry.running.address).await;
            for request in data.split(|byte| *byte == 0xff).take(REQUESTS_MAX) {
                session.act(request).await;
            }
            session.send(Method::DELETE, "", b"", b"").await;
        });
    });
}

impl Session {
    async fn begin(registry: SocketAddr) -> Self {
        let mut session =
            Self { registry, location: "/v2/a/b/blobs/uploads/".to_owned(), content: Vec::new(), is_over: false };
        let begun = session.send(Method::POST, "", b"", b"").await;
        assert_eq!(begun.status(), StatusCode::ACCEPTED);
        session.location = text(&begun, LOCATION.as_str()).to_owned();
        session
    }

    async fn send(&self, method: Method, query: &str, range: &[u8], body: &[u8]) -> Response<Bytes> {
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
        let uri = format!("http://{}{}{query}", self.registry, self.location);
        let mut request = Request::builder().method(method).uri(uri);
        if let Ok(range) = HeaderValue::from_bytes(range)
            && !range.is_empty()
        {
            request = request.header(CONTENT_RANGE, range);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body))).expect("a request");
        let (parts, body) = client.request(request).await.expect("an answer").into_parts();
        Response::from_parts(parts, body.collect().await.expect("a body").to_bytes())
    }

    async fn act(&mut self, request: &[u8]) {
        let Some((choice, rest)) = request.split_first() else { return };
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (range, body) = end.map_or((&[][..], rest), |end| (&rest[..end], &rest[end + 1..]));
        let after = [self.content.as_slice(), body].concat();
        match choice {
            b'g' => self.check_state(false).await,
            b'd' => {
                self.send(Method::DELETE, "", b"", b"").await;
                self.is_over = true;
                self.check_state(true).await;
            }
            b'f' => {
                let finished = self.send(Method::PUT, &format!("?digest={}", Digest::of(&after)), range, body).await;
                self.finished(finished.status(), &after).await;
            }
            b'w' => {
                let other = Digest::of(&[after.as_slice(), b"!"].concat());
                let finished = self.send(Method::PUT, &format!("?digest={other}"), range, body).await;
                assert!(!finished.status().is_success(), "a wrong digest was accepted");
                self.check_state(true).await;
            }
            _ => {
                let answer = self.send(Method::PATCH, "", range, body).await;
                if answer.status() == StatusCode::ACCEPTED {
                    assert!(!self.is_over, "an upload that is over was continued");
                    self.content = after;
                }
                self.check_state(false).await;
            }
        }
    }

    /// A blob that was created has the content that was sent.
    async fn finished(&mut self, status: StatusCode, content: &[u8]) {
        if status != StatusCode::CREATED {
            return self.check_state(true).await;
        }
        assert!(!self.is_over && content.len() as u64 <= BLOB_BYTES_MAX, "an impossible blob was created");
        self.is_over = true;
        let upload = std::mem::replace(&mut self.location, format!("/v2/a/b/blobs/{}", Digest::of(content)));
        let blob = self.send(Method::GET, "", b"", b"").await;
        assert!(blob.status() == StatusCode::OK && blob.body() == content, "a blob has another content than was sent");
        self.location = upload;
    }

    /// The registry has every byte that it acknowledged and no other. `may_end` says whether the last request may have ended the upload.
    async fn check_state(&mut self, may_end: bool) {
        let state = self.send(Method::GET, "", b"", b"").await;
        if state.status() == StatusCode::NOT_FOUND {
            assert!(self.is_over || may_end, "an upload was lost");
            self.is_over = true;
            return;
        }
        assert_eq!((state.status(), self.is_over), (StatusCode::NO_CONTENT, false), "an upload that is over goes on");
        assert_eq!(text(&state, RANGE.as_str()), format!("0-{}", self.content.len().saturating_sub(1)));
    }
}

fn text<'a>(response: &'a Response<Bytes>, header: &str) -> &'a str {
    response.headers().get(header).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
