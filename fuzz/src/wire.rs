//! Readers of network protocols: streams of pods, the tunnel of an agent, certificates, tokens.

use std::time::Duration;

use apiserver::auth::Discovery;
use apiserver::outgoing::{self, Credentials, Destination, OutgoingError};
use bytes::{Bytes, BytesMut};
use cluster_client::remote::addresses::AddressPolicy;
use hyper_util::rt::TokioIo;
use pki::certificate::Certificate;
use pki::csr::Csr;
use pki::jwt::verifier::{JwtVerifier, TimeRules, peek_issuer};
use pki::jwt::{Algorithm, jwks};
use plane_api::cluster_proxy::tunnels::{Tunnel, Tunnels};
use pod_streams::spdy::Codec;
use pod_streams::websocket::{Encoding, EndSignals, over, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::codec::Decoder;

/// Far more than any reader needs for an input in memory.
const ANSWER_MAX: Duration = Duration::from_secs(10);
const PIPE_BYTES: usize = 1 << 20;
/// An agent may allow the plane no request at all, and then it sends none.
const REQUEST_MAX: Duration = Duration::from_millis(20);

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

/// Bytes that an agent sends over its tunnel: the plane is the HTTP/2 client there and asks it for connections to the member. The first
/// byte says how many bytes arrive before the plane asks.
pub fn tunnel(data: &[u8]) {
    let Some((early, frames)) = data.split_first() else { return };
    let (early, late) = frames.split_at(usize::from(*early).min(frames.len()));
    let (early, late, sent) = (early.to_vec(), late.to_vec(), frames.len());
    block_on(async move {
        let (mut agent, ours) = tokio::io::duplex(PIPE_BYTES);
        let tunnels = Tunnels::alone(AddressPolicy::default());
        let keeping = tunnels.keep("member", "https://member".to_owned(), TokioIo::new(ours));
        let dialing = async {
            let Some(tunnel) = opened(&tunnels).await else { return };
            let Ok(mut stream) = tunnel.dial().await else { return };
            let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await;
            let mut read = Vec::new();
            let _ = stream.read_to_end(&mut read).await;
            assert!(read.len() <= sent, "more was read through the tunnel than was sent");
        };
        let sending = async move {
            let _ = agent.write_all(&early).await;
            let _ = tokio::time::timeout(REQUEST_MAX, request_arrives(&mut agent)).await;
            let _ = agent.write_all(&late).await;
            let _ = agent.shutdown().await;
            let _ = agent.read_to_end(&mut Vec::new()).await;
        };
        let _ = tokio::join!(keeping, dialing, sending);
    });
}

/// A tunnel that ends at once is never seen.
async fn opened(tunnels: &Tunnels) -> Option<Tunnel> {
    for _ in 0..100 {
        if let Some(tunnel) = tunnels.to("member") {
            return Some(tunnel);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Returns when the plane has sent the header of a request, or has ended the connection.
async fn request_arrives(agent: &mut DuplexStream) {
    let (mut received, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = agent.read(&mut piece).await {
        received.extend_from_slice(&piece[..count]);
        if has_headers(&received) {
            return;
        }
    }
}

fn has_headers(received: &[u8]) -> bool {
    const PREFACE_BYTES: usize = 24;
    const HEADERS: u8 = 1;
    let mut rest = received.get(PREFACE_BYTES..).unwrap_or_default();
    while let Some((head, _)) = rest.split_first_chunk::<9>() {
        if head[3] == HEADERS {
            return true;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        rest = usize::try_from(length).ok().and_then(|length| rest.get(head.len() + length..)).unwrap_or_default();
    }
    false
}

/// The answer of a webhook, such as that of the audit log: a status, headers and a body.
pub fn webhook_answers(data: &[u8]) {
    let (sent, answer) = (data.len(), data.to_vec());
    block_on(async move {
        let (mut webhook, ours) = tokio::io::duplex(PIPE_BYTES);
        let destination = Destination::of_url("https://webhook/audit", None).expect("a URL");
        let credentials = Credentials::default();
        let asking = async {
            let body = Bytes::from_static(b"{}");
            match outgoing::exchange_over(TokioIo::new(ours), &destination, &credentials, body).await {
                Ok(body) => assert!(body.len() <= sent, "more was read than sent"),
                Err(OutgoingError::Refused { code, problem }) => {
                    assert!(!(200..300).contains(&code), "{code} is no refusal");
                    // Bytes that are no text are replaced by a character of three.
                    assert!(problem.len() <= 3 * sent, "more was read than sent");
                }
                Err(_) => {}
            }
        };
        let answering = async move {
            let _ = webhook.read(&mut [0; 4096]).await;
            let _ = webhook.write_all(&answer).await;
            let _ = webhook.shutdown().await;
            let _ = webhook.read_to_end(&mut Vec::new()).await;
        };
        tokio::join!(asking, answering);
    });
}

/// The document of an OIDC issuer, its keys and a token, separated by a byte that is not valid in UTF-8.
pub fn oidc(data: &[u8]) {
    let mut documents = data.split(|byte| *byte == 0xff);
    if let Some(Ok(discovery)) = documents.next().map(|document| Discovery::parse(document, "https://issuer.example")) {
        for url in ["jwks_uri", "authorization_endpoint", "token_endpoint"].map(|field| discovery.url(field)) {
            assert!(url.map_or(true, |url| url.to_ascii_lowercase().starts_with("https://")), "not over TLS");
        }
    }
    let Some(Ok(keys)) = documents.next().map(jwks::parse) else { return };
    if let Ok(published) = jwks::publish(&keys) {
        let again = jwks::parse(published.to_string().as_bytes());
        assert_eq!(again.ok().map(|again| again.len()), Some(keys.len()), "keys that were published are lost");
    }
    let token = String::from_utf8_lossy(documents.next().unwrap_or_default()).into_owned();
    let times = TimeRules { leeway: Duration::from_secs(10), requires_expiry: true };
    let algorithms = [Algorithm::Rs256, Algorithm::Es256, Algorithm::Es384, Algorithm::EdDsa];
    let verifier = JwtVerifier::new(keys, &algorithms, times);
    let later = jiff::Timestamp::from_second(4_102_444_800).expect("the year 2100");
    assert!(verifier.verify(&token, later).is_err(), "a token is valid in 2100");
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
