//! Readers of network protocols: streams of pods, the tunnel of an agent, certificates, tokens.

use std::convert::Infallible;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body_util::Empty;
use pki::certificate::Certificate;
use pki::csr::Csr;
use pki::jwt::verifier::{JwtVerifier, TimeRules, peek_issuer};
use pki::jwt::{Algorithm, jwks};
use pod_streams::spdy::Codec;
use pod_streams::websocket::{Encoding, EndSignals, over, start};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::codec::Decoder;

/// Far more than any reader needs for an input in memory.
const ANSWER_MAX: Duration = Duration::from_secs(10);
const PIPE_BYTES: usize = 1 << 20;

fn block_on(future: impl Future<Output = ()>) {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime needs no input");
    }
    RUNTIME.with(|runtime| {
        let ended = runtime.block_on(async { tokio::time::timeout(ANSWER_MAX, future).await });
        ended.expect("the reader ends when the connection does");
    });
}

/// Frames with compressed headers, arriving in pieces.
pub fn spdy(data: &[u8]) {
    let mut codec = Codec::default();
    let mut arriving = BytesMut::new();
    for piece in data.chunks(1 + data.len() / 3) {
        arriving.extend_from_slice(piece);
        while let Ok(Some(_)) = codec.decode(&mut arriving) {}
    }
}

/// Channels over a WebSocket, in each encoding.
pub fn websocket(data: &[u8]) {
    let encodings = [
        Encoding::Base64,
        Encoding::Binary(EndSignals::Sent),
        Encoding::Binary(EndSignals::Received),
        Encoding::Binary(EndSignals::Unsupported),
    ];
    let encoding = encodings[data.len() % encodings.len()];
    let data = data.to_vec();
    block_on(async move {
        let (mut peer, ours) = tokio::io::duplex(PIPE_BYTES);
        let mut channels = start(over(ours, Role::Server).await, encoding);
        drop(channels.out);
        let _ = peer.write_all(&data).await;
        drop(peer);
        while channels.arriving.recv().await.is_some() {}
        let _ = channels.driver.await;
    });
}

/// The side of a tunnel that serves HTTP/2: whatever the peer sends, the connection ends with it.
pub fn tunnel(data: &[u8]) {
    let data = data.to_vec();
    block_on(async move {
        let (mut peer, ours) = tokio::io::duplex(PIPE_BYTES);
        let refuse =
            |_: Request<hyper::body::Incoming>| async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) };
        let serving = hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new())
            .max_concurrent_streams(16)
            .serve_connection(hyper_util::rt::TokioIo::new(ours), hyper::service::service_fn(refuse));
        let sending = async move {
            let _ = peer.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
            let _ = peer.write_all(&data).await;
        };
        let _ = tokio::join!(serving, sending);
    });
}

pub fn certificates(data: &[u8]) {
    for certificate in [Certificate::from_der(data), Certificate::from_pem(data)].into_iter().flatten() {
        let _ =
            (certificate.subject(), certificate.alternative_names(), certificate.not_before(), certificate.not_after());
        let _ = (certificate.public_key(), certificate.fingerprint_sha256(), certificate.is_signed_by(&certificate));
        let again = Certificate::from_pem(certificate.to_pem().as_bytes());
        assert_eq!(again.ok().map(|again| again.der().to_vec()), Some(certificate.der().to_vec()));
    }
    for request in [Csr::from_der(data), Csr::from_pem(data)].into_iter().flatten() {
        let _ = (request.subject(), request.alternative_names(), request.public_key());
    }
    let _ = Certificate::bundle_from_pem(data);
}

/// Tokens and key sets; no token is valid without a key.
pub fn tokens(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = peek_issuer(&text);
    let keys = jwks::parse(data).unwrap_or_default();
    if !keys.is_empty() {
        let _ = jwks::publish(&keys);
    }
    let times = TimeRules { leeway: Duration::from_secs(60), requires_expiry: true };
    let verifier = JwtVerifier::new(keys, &[Algorithm::Rs256, Algorithm::Es256], times);
    assert!(verifier.verify(&text, jiff::Timestamp::UNIX_EPOCH).is_err(), "a token without a key was accepted");
}
