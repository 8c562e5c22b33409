//! The network client against a small server that misbehaves on request.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use bytes::Bytes;
use cluster_client::remote::config::{BasicAuth, ClientCertificate, Credentials, Pem, RemoteConfig};
use cluster_client::remote::exec::ExecPlugin;
use cluster_client::{
    ApiRequest, ClusterClient, ConnectError, Endpoint, ResourceRef, User, WatchCall, WriteOptions, is_unreachable,
};
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use object::builtin;
use object::{GroupVersionKind, GroupVersionResource, Object};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The requests the server received, and its next responses.
#[derive(Default)]
struct Script {
    seen: Mutex<Vec<String>>,
    /// `CODE` or `CODE Retry-After-seconds`; 200 once empty.
    answers: Mutex<VecDeque<&'static str>>,
    connections: AtomicUsize,
}

struct Server {
    address: SocketAddr,
    script: Arc<Script>,
    ca: String,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Server {
    async fn start(protocols: &[&[u8]], wants_client_certificate: bool) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a CA");
        let key = KeyPair::generate().expect("a key");
        let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned(), "api.test".to_owned()]).expect("parameters");
        let leaf = leaf.signed_by(&key, &issuer).expect("a certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().expect("versions");
        let builder = if wants_client_certificate {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(issuer.pem().as_bytes()).expect("PEM")).expect("a CA");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.allow_unauthenticated().build().expect("a verifier"))
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("PEM");
        let mut config = builder.with_single_cert(vec![leaf.der().clone()], key).expect("a certificate");
        config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let script = Arc::new(Script::default());
        tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), Arc::clone(&script)));
        Self { address, script, ca: issuer.pem(), issuer }
    }

    async fn http2() -> Self {
        Self::start(&[b"h2", b"http/1.1"], false).await
    }

    fn config(&self) -> RemoteConfig {
        let ca = Some(Pem::Text(self.ca.clone().into_bytes()));
        RemoteConfig { ca, ..RemoteConfig::new(format!("https://{}", self.address)) }
    }

    fn client(&self) -> ClusterClient {
        connect(self.config())
    }

    fn client_with(&self, credentials: Credentials) -> ClusterClient {
        connect(RemoteConfig { credentials, ..self.config() })
    }

    fn answer(&self, answers: &[&'static str]) {
        self.script.answers.lock().extend(answers);
    }

    /// The requests received since the last call.
    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.script.seen.lock())
    }

    fn client_certificate(&self, user: &str) -> (String, String) {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
        params.distinguished_name.push(rcgen::DnType::CommonName, user);
        let key = KeyPair::generate().expect("a key");
        (params.signed_by(&key, &self.issuer).expect("a certificate").pem(), key.serialize_pem())
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, script: Arc<Script>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, script) = (tls.clone(), Arc::clone(&script));
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            script.connections.fetch_add(1, Ordering::SeqCst);
            let has_certificate = stream.get_ref().1.peer_certificates().is_some();
            let service = service_fn(move |request| {
                let response = serve(request, has_certificate, &script);
                async move { Ok::<_, Infallible>(response) }
            });
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn serve(request: Request<Incoming>, certificate: bool, script: &Script) -> Response<Body> {
    let header = |name: &str| request.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or("-").to_owned();
    let line = format!("{:?} {} {}", request.version(), request.method(), request.uri().path());
    let identity = if certificate { "certificate".to_owned() } else { header("authorization") };
    script.seen.lock().push(format!("{line} {identity} {}", header("impersonate-user")));
    if request.uri().query().is_some_and(|q| q.contains("watch=true")) {
        let event = Bytes::from("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"x\"}}}\n");
        let open = futures::stream::once(async { Ok(Frame::data(event)) }).chain(futures::stream::pending());
        return Response::new(StreamBody::new(open).boxed_unsync());
    }
    let answer = script.answers.lock().pop_front().unwrap_or("200");
    let (code, retry_after) = answer.split_once(' ').map_or((answer, None), |(code, after)| (code, Some(after)));
    let mut response = Response::builder().status(code);
    if let Some(seconds) = retry_after {
        response = response.header("retry-after", seconds);
    }
    let body = Bytes::from(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}"#);
    response.body(Full::new(body).boxed_unsync()).expect("a response")
}

fn connect(config: RemoteConfig) -> ClusterClient {
    ClusterClient::connect(Endpoint::Remote(config)).expect("usable")
}

fn pods() -> GroupVersionResource {
    builtin::pods()
}

async fn get(client: &ClusterClient) -> u16 {
    match client.call(ResourceRef::namespaced(&pods(), "a", "x"), ApiRequest::Get { resource_version: None }).await {
        Ok(reply) => reply.code,
        Err(status) => status.code,
    }
}

async fn post(client: &ClusterClient) -> u16 {
    let pod = Object::new(&GroupVersionKind::new("", "v1", "Pod"), Some("a"), "x");
    let verb = ApiRequest::Create { object: pod, options: WriteOptions::default() };
    match client.call(ResourceRef::within(&pods(), "a"), verb).await {
        Ok(reply) => reply.code,
        Err(status) => status.code,
    }
}

#[tokio::test]
async fn the_best_protocol_of_the_server_is_used() {
    for (protocols, version) in
        [(&[b"h2" as &[u8], b"http/1.1"][..], "HTTP/2.0"), (&[b"http/1.1"], "HTTP/1.1"), (&[], "HTTP/1.1")]
    {
        let server = Server::start(protocols, false).await;
        let client = server.client();
        for _ in 0..5 {
            assert_eq!(get(&client).await, 200);
        }
        assert!(server.seen().iter().all(|line| line.starts_with(version)));
        assert_eq!(server.script.connections.load(Ordering::SeqCst), 1, "one connection is used again");
    }
}

#[tokio::test]
async fn requested_retries_are_sent_when_safe() {
    let server = Server::http2().await;
    let client = server.client();
    let check = async |answers: &[&'static str], result: (u16, u16)| {
        server.answer(answers);
        assert_eq!((get(&client).await, server.script.answers.lock().len() as u16), (result.0, 0), "GET {answers:?}");
        server.answer(answers);
        let code = post(&client).await;
        server.script.answers.lock().clear();
        assert_eq!(code, result.1, "POST {answers:?}");
    };
    check(&["429 0", "429 0"], (200, 200)).await;
    check(&["503 0"], (200, 503)).await;
    check(&["503"], (503, 503)).await;
    check(&["500 0"], (500, 500)).await;
    check(&["429 0"; 6], (429, 429)).await;
}

/// Time is only paused between requests: real I/O does not advance with a paused clock.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_token_file_is_read_again() {
    let server = Server::http2().await;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("token");
    std::fs::write(&path, "first\n").expect("written");
    let client = server.client_with(Credentials { token_file: Some(path.clone()), ..Credentials::default() });
    get(&client).await;
    std::fs::write(&path, "second").expect("written");
    get(&client).await;
    pass(Duration::from_secs(61)).await;
    get(&client).await;
    std::fs::remove_file(&path).expect("removed");
    pass(Duration::from_secs(61)).await;
    get(&client).await;
    let tokens: Vec<String> =
        server.seen().iter().map(|line| line.split(' ').nth(4).unwrap_or("").to_owned()).collect();
    assert_eq!(tokens, ["first", "first", "second", "second"]);
}

#[tokio::test]
async fn basic_and_impersonation_are_sent() {
    let server = Server::http2().await;
    let basic = BasicAuth { username: "u".into(), password: "p".into() };
    let client = server.client_with(Credentials { basic: Some(basic), ..Credentials::default() });
    get(&client.impersonating(User::new("jane", &[]))).await;
    let login = base64::engine::general_purpose::STANDARD.encode("u:p");
    assert_eq!(server.seen(), [format!("HTTP/2.0 GET /api/v1/namespaces/a/pods/x Basic {login} jane")]);
}

/// A plugin that counts its runs in a file and prints `status` with the count `$n`.
fn plugin(dir: &Path, status: &str) -> ExecPlugin {
    let path = dir.join("plugin");
    let counter = dir.join("count");
    let script = format!(
        "echo x >> {0}\nn=$(wc -l < {0} | tr -d ' ')\n[ -n \"$KUBERNETES_EXEC_INFO\" ] || exit 3\n\
         cat <<END\n{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{status}}}\nEND\n",
        counter.display()
    );
    std::fs::write(&path, script).expect("written");
    ExecPlugin {
        api_version: "client.authentication.k8s.io/v1".into(),
        // Not executed directly: that fails while a child just forked by another test has it open for writing.
        command: "/bin/sh".into(),
        args: vec![path.display().to_string()],
        ..ExecPlugin::default()
    }
}

async fn tokens_with(status: &str, answers: &[&'static str]) -> (Vec<String>, u16) {
    let (server, dir) = (Server::http2().await, tempfile::tempdir().expect("a directory"));
    let exec = Some(plugin(dir.path(), status));
    let client = server.client_with(Credentials { exec, ..Credentials::default() });
    server.answer(answers);
    let mut last = 0;
    for _ in 0..3 {
        last = get(&client).await;
    }
    (server.seen().iter().map(|line| line.split(' ').nth(4).unwrap_or("").to_owned()).collect(), last)
}

#[tokio::test]
async fn an_exec_credential_is_cached_until_it_expires_or_is_rejected() {
    let kept = tokens_with(r#"{"token":"t$n"}"#, &[]).await;
    assert_eq!(kept.0, ["t1", "t1", "t1"]);
    let expired = tokens_with(r#"{"token":"t$n","expirationTimestamp":"2020-01-01T00:00:00Z"}"#, &[]).await;
    assert_eq!(expired.0, ["t1", "t2", "t3"]);
    let valid = tokens_with(r#"{"token":"t$n","expirationTimestamp":"2999-01-01T00:00:00Z"}"#, &[]).await;
    assert_eq!(valid.0, ["t1", "t1", "t1"]);
    let refused = tokens_with(r#"{"token":"t$n"}"#, &["200", "401"]).await;
    assert_eq!(refused, (vec!["t1".into(), "t1".into(), "t2".into(), "t2".into()], 200));
    let useless = tokens_with("{}", &[]).await;
    assert_eq!(useless, (Vec::new(), 401));
}

#[tokio::test]
async fn a_client_certificate_is_presented_from_any_source() {
    let server = Server::start(&[b"h2"], true).await;
    let (certificate, key) = server.client_certificate("jane");
    get(&server.client()).await;
    let pem = |text: &str| Pem::Text(text.as_bytes().to_vec());
    let pair = Some(ClientCertificate { certificate: pem(&certificate), key: pem(&key) });
    get(&server.client_with(Credentials { client_certificate: pair, ..Credentials::default() })).await;
    let dir = tempfile::tempdir().expect("a directory");
    let status = serde_json::json!({"clientCertificateData": certificate, "clientKeyData": key}).to_string();
    // The shell's here-document would consume the backslashes of the JSON's line ends.
    let exec = Some(plugin(dir.path(), &status.replace('\\', "\\\\")));
    get(&server.client_with(Credentials { exec, ..Credentials::default() })).await;
    let identities: Vec<String> =
        server.seen().iter().map(|line| line.split(' ').nth(3).unwrap_or("").to_owned()).collect();
    assert_eq!(identities, ["-", "certificate", "certificate"]);
}

/// A proxy that answers the client's first bytes with `greet`, then forwards.
async fn proxy<F, R>(target: SocketAddr, greet: F) -> SocketAddr
where
    F: Fn(TcpStream) -> R + Send + Sync + 'static,
    R: Future<Output = TcpStream> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let mut client = greet(client).await;
            let mut server = TcpStream::connect(target).await.expect("the server is there");
            tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
        }
    });
    address
}

#[tokio::test]
async fn a_proxy_is_used() {
    let server = Server::http2().await;
    let http = proxy(server.address, |mut client: TcpStream| async move {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.expect("a request"));
        }
        let head = String::from_utf8(head).expect("text");
        assert!(head.starts_with("CONNECT api.test:443 HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("Proxy-Authorization: Basic bWU6cEBzcw==\r\n"), "{head}");
        client.write_all(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n").await.expect("written");
        client
    });
    let socks = proxy(server.address, |mut client: TcpStream| async move {
        let mut greeting = [0; 3];
        client.read_exact(&mut greeting).await.expect("a greeting");
        assert_eq!(greeting, [5, 1, 0]);
        client.write_all(&[5, 0]).await.expect("written");
        let mut request = [0; 15];
        client.read_exact(&mut request).await.expect("a request");
        assert_eq!(&request, b"\x05\x01\x00\x03\x08api.test\x01\xbb");
        client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.expect("written");
        client
    });
    for url in [format!("http://me:p%40ss@{}", http.await), format!("socks5://{}", socks.await)] {
        let config = RemoteConfig { server: "https://api.test".into(), proxy: Some(url.clone()), ..server.config() };
        assert_eq!(get(&connect(config)).await, 200, "{url}");
    }
    let refusing = proxy(server.address, |mut client: TcpStream| async move {
        client.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await.expect("written");
        client
    });
    let config = RemoteConfig { proxy: Some(format!("http://{}", refusing.await)), ..server.config() };
    let error = connect(config).get(ResourceRef::cluster(&pods(), "x")).await.expect_err("refused");
    assert!(is_unreachable(&error) && error.message.contains("403 Forbidden"), "{error}");
}

#[tokio::test]
async fn many_watches_do_not_block_requests() {
    let server = Server::http2().await;
    let client = connect(RemoteConfig { rate_limit: None, ..server.config() });
    let mut watches = Vec::new();
    for _ in 0..120 {
        let call = WatchCall { gvr: pods(), ..WatchCall::default() };
        let mut events = client.watch(call).await.expect("watching");
        events.next().await.expect("an event");
        watches.push(events);
    }
    assert_eq!(get(&client).await, 200);
    assert_eq!(server.script.connections.load(Ordering::SeqCst), 4, "three for watches, one for requests");
    drop(watches);
    let call = WatchCall { gvr: pods(), ..WatchCall::default() };
    client.watch(call).await.expect("watching").next().await.expect("an event");
    assert_eq!(server.script.connections.load(Ordering::SeqCst), 4, "places are used again");
}

#[tokio::test]
async fn the_server_certificate_is_verified_by_default() {
    let server = Server::http2().await;
    let stranger = Server::http2().await;
    let check = async |config: RemoteConfig, expected: u16| assert_eq!(get(&connect(config)).await, expected);
    let wrong_ca = RemoteConfig { ca: stranger.config().ca, ..server.config() };
    check(wrong_ca.clone(), 503).await;
    check(RemoteConfig { insecure_skip_tls_verify: true, ..wrong_ca }, 200).await;
    check(RemoteConfig { tls_server_name: Some("api.test".into()), ..server.config() }, 200).await;
    check(RemoteConfig { tls_server_name: Some("other.test".into()), ..server.config() }, 503).await;
}

#[test]
fn invalid_configurations_are_rejected_at_once() {
    let check = |config: RemoteConfig, expected: &str| {
        let error = ClusterClient::connect(Endpoint::Remote(config)).err().expect(expected).to_string();
        assert!(error.contains(expected), "{error} should say {expected}");
    };
    check(RemoteConfig::new("no address"), "not the address of a server");
    check(RemoteConfig::new("ftp://x"), "not the address of a server");
    let token = Credentials { token: Some("secret".into()), ..Credentials::default() };
    let clear = RemoteConfig { credentials: token, ..RemoteConfig::new("http://example.com") };
    assert!(!format!("{clear:?}").contains("secret"));
    check(clear, "not sent without TLS");
    let base = || RemoteConfig::new("https://x");
    check(RemoteConfig { proxy: Some("gopher://x".into()), ..base() }, "unsupported proxy scheme gopher");
    check(RemoteConfig { ca: Some(Pem::Text(b"x".to_vec())), ..base() }, "contains no certificate");
    let exec = ExecPlugin { api_version: "client.authentication.k8s.io/v1alpha1".into(), ..ExecPlugin::default() };
    let credentials = Credentials { exec: Some(exec), ..Credentials::default() };
    check(RemoteConfig { credentials, ..base() }, "unsupported exec plugin API version");
    let missing = RemoteConfig { ca: Some(Pem::File("/nonexistent/ca".into())), ..base() };
    let error = ClusterClient::connect(Endpoint::Remote(missing)).err();
    assert!(matches!(error, Some(ConnectError::CertificateAuthority(_))));
}
