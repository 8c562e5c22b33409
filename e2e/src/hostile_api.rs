//! An API server of a member that answers to harm its control plane: huge, deep or endless documents.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The document that does the harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostileAnswer {
    /// A list with millions of empty items.
    EmptyItems,
    /// A list with one object that is nested too deep.
    DeepObject,
    /// A watch with new objects without end.
    WatchFlood,
    /// Discovery with far more resources than an API has.
    Discovery,
    /// A control plane whose lists have a next page without end.
    EndlessPages,
    /// A control plane that redirects every request to itself, below another path.
    Redirects,
    /// A control plane whose answers are not JSON.
    Garbage,
}

/// Serves on a port of loopback until the test ends.
pub struct HostileApi {
    pub port: u16,
    /// Its certificate, which is valid for `localhost`.
    pub certificate_pem: String,
    harmful: Arc<AtomicUsize>,
}

/// Resources that the control plane looks at in every member.
const RESOURCES: &[(&str, &str, bool)] =
    &[("pods", "Pod", true), ("nodes", "Node", false), ("secrets", "Secret", true)];
const EMPTY_ITEMS: usize = 7_000_000;
const DISCOVERED: usize = 200_000;
const DEEP_LEVELS: usize = 300;
/// So many events, of 2 KiB each, count as a flood; it goes on after that.
const FLOOD_EVENTS: usize = 5_000;

/// A path with a redirect to another server.
pub const REDIRECT: &str = "/hostile/redirect";
/// A path with a page that would act on the browser of a user of the control plane.
pub const PAGE: &str = "/hostile/page";
const PAGE_STATUS: &str = "200 OK\r\nset-cookie: __Host-flotilla-session=stolen; Path=/; Secure\r\nclear-site-data: \"*\"\r\n\
    access-control-allow-origin: https://elsewhere.example\r\nservice-worker-allowed: /";

type TlsStream = StreamOwned<ServerConnection, TcpStream>;

impl HostileApi {
    pub fn start(answer: HostileAnswer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let ((tls, certificate_pem), harmful) = (tls_config(), Arc::new(AtomicUsize::new(0)));
        let api = Self { port, certificate_pem, harmful: Arc::clone(&harmful) };
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (tls, harmful) = (Arc::clone(&tls), Arc::clone(&harmful));
                // A client that has had enough closes the connection, and the write fails.
                std::thread::spawn(move || drop(serve(socket, tls, answer, &harmful)));
            }
        });
        api
    }

    /// Number of harmful answers that were sent, to their end or until the client closed the connection. A watch that does
    /// not end counts once it has sent `FLOOD_EVENTS`.
    pub fn harmful_answers(&self) -> usize {
        self.harmful.load(Ordering::Relaxed)
    }
}

/// The configuration of a server, and its certificate.
fn tls_config() -> (Arc<ServerConfig>, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let certificate: CertificateDer<'static> = made.cert.der().clone();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("TLS versions").with_no_client_auth().with_single_cert(vec![certificate], key);
    (Arc::new(config.expect("a pair")), made.cert.pem())
}

fn serve(
    socket: TcpStream,
    tls: Arc<ServerConfig>,
    answer: HostileAnswer,
    harmful: &AtomicUsize,
) -> std::io::Result<()> {
    let session = ServerConnection::new(tls).map_err(std::io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(session, socket));
    let mut request = String::new();
    stream.read_line(&mut request)?;
    let mut line = String::new();
    while stream.read_line(&mut line)? > 2 {
        line.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    match answer {
        HostileAnswer::Redirects if path.starts_with("/elsewhere") => {
            harmful.fetch_add(1, Ordering::Relaxed);
            return send(stream.get_mut(), "200 OK", "{}");
        }
        HostileAnswer::Redirects => return redirect(stream.get_mut(), &path),
        HostileAnswer::Garbage => return send(stream.get_mut(), "200 OK", "\u{0}[[[{not JSON"),
        HostileAnswer::EndlessPages => return endless_pages(stream.get_mut(), &path, harmful),
        _ => {}
    }
    let is_watch = path.contains("watch=");
    let floods = answer == HostileAnswer::WatchFlood && path.contains("/pods");
    if path.contains("sendInitialEvents=true") && !floods {
        let text = r#"{"kind":"Status","code":422,"reason":"Invalid","message":"no streaming lists"}"#;
        return send(stream.get_mut(), "422 Unprocessable Entity", text);
    }
    let count = |ended: std::io::Result<()>, does_harm: bool| {
        harmful.fetch_add(usize::from(does_harm), Ordering::Relaxed);
        ended
    };
    let of_list = matches!(answer, HostileAnswer::EmptyItems | HostileAnswer::DeepObject);
    match path.split('?').next().unwrap_or_default() {
        REDIRECT => send(stream.get_mut(), "302 Found\r\nlocation: https://elsewhere.example/", ""),
        PAGE => send(stream.get_mut(), PAGE_STATUS, "<script>fetch('/api/v1/secrets')</script>"),
        "/readyz" | "/healthz" | "/livez" => send(stream.get_mut(), "200 OK", "ok"),
        "/version" => send(stream.get_mut(), "200 OK", r#"{"major":"1","minor":"36","gitVersion":"v1.36.0"}"#),
        "/api" => send(stream.get_mut(), "200 OK", &core_discovery()),
        "/apis" => count(discovery(stream.get_mut(), answer), answer == HostileAnswer::Discovery),
        _ if is_watch && floods => flood(stream.get_mut(), harmful),
        // Silent until the client goes.
        _ if is_watch => {
            begin(stream.get_mut(), "200 OK")?;
            stream.read(&mut [0; 1]).map(drop)
        }
        path if path.ends_with("/pods") => count(pods(stream.get_mut(), answer), of_list),
        path if RESOURCES.iter().any(|(plural, ..)| path.ends_with(plural)) => send(
            stream.get_mut(),
            "200 OK",
            r#"{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#,
        ),
        _ => send(stream.get_mut(), "404 Not Found", r#"{"kind":"Status","code":404,"reason":"NotFound"}"#),
    }
}

fn begin(to: &mut TlsStream, status: &str) -> std::io::Result<()> {
    write!(to, "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n")?;
    to.flush()
}

fn send(to: &mut TlsStream, status: &str, body: &str) -> std::io::Result<()> {
    begin(to, status)?;
    to.write_all(body.as_bytes())?;
    end(to)
}

fn end(to: &mut TlsStream) -> std::io::Result<()> {
    to.conn.send_close_notify();
    to.flush()
}

fn core_discovery() -> String {
    let resource = |(plural, kind, namespaced): &(&str, &str, bool)| {
        let scope = if *namespaced { "Namespaced" } else { "Cluster" };
        format!(
            r#"{{"resource":"{plural}","responseKind":{{"group":"","version":"v1","kind":"{kind}"}},"scope":"{scope}","verbs":["get","list","watch","create","update","patch","delete"]}}"#
        )
    };
    let resources: Vec<String> = RESOURCES.iter().map(resource).collect();
    format!(
        r#"{{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{{"metadata":{{"name":""}},"versions":[{{"version":"v1","resources":[{}]}}]}}]}}"#,
        resources.join(",")
    )
}

fn discovery(to: &mut TlsStream, answer: HostileAnswer) -> std::io::Result<()> {
    begin(to, "200 OK")?;
    write!(to, r#"{{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":["#)?;
    if answer == HostileAnswer::Discovery {
        write!(to, r#"{{"metadata":{{"name":"g"}},"versions":[{{"version":"v1","resources":["#)?;
        for index in 0..DISCOVERED {
            let comma = if index == 0 { "" } else { "," };
            write!(to, r#"{comma}{{"resource":"r{index}","verbs":["get","list"]}}"#)?;
        }
        write!(to, "]}}]}}")?;
    }
    write!(to, "]}}")?;
    end(to)
}

fn pods(to: &mut TlsStream, answer: HostileAnswer) -> std::io::Result<()> {
    begin(to, "200 OK")?;
    write!(to, r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":["#)?;
    match answer {
        HostileAnswer::EmptyItems => to.write_all("{},".repeat(EMPTY_ITEMS).as_bytes())?,
        HostileAnswer::DeepObject => {
            let deep = format!("{}{}", "[".repeat(DEEP_LEVELS), "]".repeat(DEEP_LEVELS));
            write!(to, r#"{{"metadata":{{"name":"deep","namespace":"default"}},"spec":{deep}}},"#)?;
        }
        _ => {}
    }
    write!(to, r#"{{"metadata":{{"name":"last","namespace":"default"}}}}]}}"#)?;
    end(to)
}

fn redirect(to: &mut TlsStream, path: &str) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere{path}\r\nconnection: close\r\n\r\n");
    to.write_all(head.as_bytes())?;
    end(to)
}

/// As much of a control plane as an import needs, and lists that do not end.
fn endless_pages(to: &mut TlsStream, path: &str, harmful: &AtomicUsize) -> std::io::Result<()> {
    let text = match path.split('?').next().unwrap_or_default() {
        "/version" => r#"{"major":"1","minor":"36","gitVersion":"v1.36.0"}"#.to_owned(),
        "/readyz" | "/healthz" | "/livez" => "ok".to_owned(),
        "/apis/cluster.karmada.io" => r#"{"kind":"APIGroup","name":"cluster.karmada.io","versions":[]}"#.to_owned(),
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => {
            r#"{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{},"status":{"allowed":true}}"#.to_owned()
        }
        "/api" => core_discovery(),
        "/apis" => r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[]}"#.to_owned(),
        "/api/v1/namespaces/kube-system" => {
            r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"hostile"}}"#.to_owned()
        }
        path if path.ends_with("/pods") => {
            harmful.fetch_add(1, Ordering::Relaxed);
            let text = "x".repeat(1024);
            let pod = |number: usize| {
                format!(r#"{{"metadata":{{"name":"p{number}","namespace":"a","annotations":{{"text":"{text}"}}}}}}"#)
            };
            let pods: Vec<String> = (0..500).map(pod).collect();
            format!(
                r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"7","continue":"again"}},"items":[{}]}}"#,
                pods.join(",")
            )
        }
        _ => return send(to, "404 Not Found", r#"{"kind":"Status","code":404,"reason":"NotFound"}"#),
    };
    send(to, "200 OK", &text)
}

fn flood(to: &mut TlsStream, harmful: &AtomicUsize) -> std::io::Result<()> {
    begin(to, "200 OK")?;
    let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
    writeln!(to, "{bookmark}")?;
    let text = "x".repeat(2048);
    for index in 0.. {
        if index == FLOOD_EVENTS {
            harmful.fetch_add(1, Ordering::Relaxed);
        }
        writeln!(
            to,
            r#"{{"type":"ADDED","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"flood-{index}","namespace":"default","resourceVersion":"6"}},"spec":{{"text":"{text}"}}}}}}"#
        )?;
    }
    Ok(())
}
