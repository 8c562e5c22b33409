//! Custom and external metrics of members on the control plane, over HTTP: a push-mode member whose adapter serves
//! `custom.metrics.k8s.io/v1beta1`, and a pull-mode member that cannot be dialed whose adapter serves v1beta2.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use e2e::agent::Agent;
use e2e::eventually::eventually;
use e2e::fleet::{run, text};
use e2e::flotilla::{Flotilla, binary};
use e2e::light_fleet::{QUICK_AGENT, QUICK_PLANE};
use e2e::light_member::LightMember;
use e2e::member::apply;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(60);
const READY: &str = r#"-o=jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
const CUSTOM: &str = "/apis/custom.metrics.k8s.io";
const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1";
const TIME: &str = "2026-01-01T00:00:00Z";

/// The metrics of one member.
#[derive(Clone, Copy)]
struct Adapter {
    /// The version of custom metrics that it serves.
    version: &'static str,
    hits: u32,
    queued: u32,
}

const PUSHED: Adapter = Adapter { version: "v1beta1", hits: 5, queued: 3 };
const PULLED: Adapter = Adapter { version: "v1beta2", hits: 7, queued: 4 };

impl Adapter {
    /// Serves on a port of loopback until the test ends.
    fn start(self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let tls = tls_config();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let tls = Arc::clone(&tls);
                std::thread::spawn(move || drop(self.serve(socket, tls)));
            }
        });
        port
    }

    fn serve(self, socket: TcpStream, tls: Arc<ServerConfig>) -> std::io::Result<()> {
        let session = ServerConnection::new(tls).map_err(std::io::Error::other)?;
        let mut stream = BufReader::new(StreamOwned::new(session, socket));
        let mut request = String::new();
        stream.read_line(&mut request)?;
        let mut line = String::new();
        while stream.read_line(&mut line)? > 2 {
            line.clear();
        }
        let path = request.split(' ').nth(1).unwrap_or_default().replace("%2A", "*");
        let (code, body) = match self.answer(&path) {
            Some(body) => ("200 OK", body),
            None => ("404 Not Found", json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})),
        };
        let body = body.to_string();
        let stream = stream.get_mut();
        write!(stream, "HTTP/1.1 {code}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len())?;
        write!(stream, "connection: close\r\n\r\n{body}")?;
        stream.flush()
    }

    fn answer(self, path: &str) -> Option<Value> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let custom = format!("{CUSTOM}/{}", self.version);
        let list = |version: &str, names: &[&str], kind: &str| {
            let resource = |name: &&str| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get"]});
            let resources: Vec<Value> = names.iter().map(resource).collect();
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources})
        };
        if path == custom {
            return Some(list(&custom["/apis/".len()..], &["pods/hits"], "MetricValueList"));
        }
        if path == EXTERNAL {
            return Some(list("external.metrics.k8s.io/v1beta1", &["queued"], "ExternalMetricValueList"));
        }
        let is_selected = !query.contains("other");
        if path == format!("{custom}/namespaces/default/pods/*/hits") {
            let items = if is_selected { vec![self.hits()] } else { Vec::new() };
            return Some(
                json!({"kind": "MetricValueList", "apiVersion": custom["/apis/".len()..], "metadata": {}, "items": items}),
            );
        }
        let queued = json!({"metricName": "queued", "metricLabels": {"queue": "a"}, "timestamp": TIME, "value": self.queued.to_string()});
        (path == format!("{EXTERNAL}/namespaces/default/queued")).then(|| {
            json!({"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {}, "items": [queued]})
        })
    }

    fn hits(self) -> Value {
        hits(self.version, self.hits)
    }

    /// Registers the server in its member.
    fn registration(self, port: u16) -> String {
        let service = |group: &str, version: &str| {
            format!(
                "---\napiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {{name: {version}.{group}}}\n\
                 spec:\n  group: {group}\n  version: {version}\n  groupPriorityMinimum: 100\n  versionPriority: 100\n\
                 \x20 insecureSkipTLSVerify: true\n  service: {{name: adapter, namespace: default, port: {port}}}\n"
            )
        };
        let adapter = "apiVersion: v1\nkind: Service\nmetadata: {name: adapter, namespace: default}\n\
            spec: {type: ExternalName, externalName: localhost}\n";
        let external = service("external.metrics.k8s.io", "v1beta1");
        format!("{adapter}{}{external}", service("custom.metrics.k8s.io", self.version))
    }
}

fn tls_config() -> Arc<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let certificate: CertificateDer<'static> = made.cert.der().clone();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("TLS versions").with_no_client_auth().with_single_cert(vec![certificate], key);
    Arc::new(config.expect("a pair"))
}

/// An item of a `MetricValueList` in one version.
fn hits(version: &str, value: u32) -> Value {
    let object = json!({"kind": "Pod", "namespace": "default", "name": "web-0", "apiVersion": "/v1"});
    let mut item = json!({"describedObject": object, "timestamp": TIME, "value": value.to_string()});
    match version {
        "v1beta1" => {
            item["metricName"] = "hits".into();
            item["selector"] = Value::Null;
        }
        _ => item["metric"] = json!({"name": "hits", "selector": null}),
    }
    item
}

struct MetricsFleet {
    plane: Flotilla,
    _agent: Agent,
    members: [LightMember; 2],
}

impl MetricsFleet {
    fn start() -> Self {
        let (plane, pushed, pulled) = std::thread::scope(|scope| {
            let pushed = scope.spawn(|| LightMember::start(&[]));
            let pulled = scope.spawn(|| LightMember::start(&[]));
            let plane = Flotilla::start_with(QUICK_PLANE);
            (plane, pushed.join().expect("a member starts"), pulled.join().expect("a member starts"))
        });
        for (member, adapter) in [(&pushed, PUSHED), (&pulled, PULLED)] {
            let registered = apply(&member.kubeconfig, &["apply", "-f", "-"], &adapter.registration(adapter.start()));
            assert!(registered.status.success(), "{}", text(&registered));
        }
        let kubeconfig = pushed.kubeconfig.to_str().expect("a path in UTF-8");
        let joined = run(&binary(), &plane.kubeconfig, &["join", "pushed", "--cluster-kubeconfig", kubeconfig]);
        assert!(joined.status.success(), "{}", text(&joined));
        let flags = [QUICK_AGENT, &["--cluster-api-endpoint", "https://127.0.0.1:9"]].concat();
        let agent = Agent::ours_outside(&plane.kubeconfig, ("pulled", &pulled.kubeconfig), &flags);
        let fleet = Self { plane, _agent: agent, members: [pushed, pulled] };
        for cluster in ["pushed", "pulled"] {
            eventually(&format!("{cluster} is ready"), LIMIT, || {
                let ready = fleet.plane.kubectl(&["get", "cluster", cluster, READY]);
                ready.stdout == b"True"
            });
        }
        fleet
    }

    /// The document at a path, or the message of the error.
    fn get(&self, path: &str, more: &[&str]) -> Result<Value, String> {
        let output = self.plane.kubectl(&[&["get", "--raw", path], more].concat());
        match output.status.success() {
            true => Ok(serde_json::from_slice(&output.stdout).expect("JSON")),
            false => Err(text(&output)),
        }
    }

    fn items(&self, path: &str) -> Value {
        self.get(path, &[]).map_or_else(Value::from, |mut list| list["items"].take())
    }
}

#[test]
fn metrics_of_members_are_summed_in_each_version() {
    let fleet = MetricsFleet::start();
    let pods = |version: &str| format!("{CUSTOM}/{version}/namespaces/default/pods/*/hits");
    for version in ["v1beta1", "v1beta2"] {
        let expected = json!([hits(version, PUSHED.hits + PULLED.hits)]);
        let mut found = Value::Null;
        eventually(&format!("both members answer in {version}"), LIMIT, || {
            found = fleet.items(&pods(version));
            found == expected || found[0]["value"] == "12"
        });
        assert_eq!(found, expected, "{version}");
        let list = fleet.get(&pods(version), &[]).expect("a list");
        assert_eq!(
            (&list["kind"], &list["apiVersion"]),
            (&json!("MetricValueList"), &json!(format!("custom.metrics.k8s.io/{version}")))
        );
    }
    external_metrics_are_summed(&fleet);
    discovery_names_them(&fleet);
    errors_are_those_of_the_api(&fleet);
    a_member_without_metrics_is_left_out(&fleet);
}

fn external_metrics_are_summed(fleet: &MetricsFleet) {
    let item = json!({"metricName": "queued", "metricLabels": {"queue": "a"}, "timestamp": TIME, "value": "7"});
    assert_eq!(fleet.items(&format!("{EXTERNAL}/namespaces/default/queued")), json!([item]));
}

fn discovery_names_them(fleet: &MetricsFleet) {
    for (path, name) in [
        (format!("{CUSTOM}/v1beta1"), "pods/hits"),
        (format!("{CUSTOM}/v1beta2"), "pods/hits"),
        (EXTERNAL.to_owned(), "queued"),
    ] {
        eventually(&format!("{path} names {name}"), LIMIT, || {
            let resources = fleet.get(&path, &[]).unwrap_or_default();
            resources["resources"].as_array().into_iter().flatten().any(|resource| resource["name"] == name)
        });
    }
}

fn errors_are_those_of_the_api(fleet: &MetricsFleet) {
    let custom = format!("{CUSTOM}/v1beta2/namespaces/default/pods/*");
    for (path, expected) in [
        (format!("{custom}/unknown"), "could not find the metric unknown for pods"),
        (format!("{custom}/hits?labelSelector=app%3Dother"), "could not find the metric hits for pods"),
        (format!("{EXTERNAL}/namespaces/default/unknown"), "could not find the metric unknown"),
    ] {
        let error = fleet.get(&path, &[]).expect_err(&path);
        assert!(error.contains(expected), "{path}: {error}");
    }
    let refused = fleet.get(&format!("{custom}/hits"), &["--as=guest"]).expect_err("a guest has no rights");
    assert!(refused.contains("forbidden"), "{refused}");
}

fn a_member_without_metrics_is_left_out(fleet: &MetricsFleet) {
    let [pushed, _] = &fleet.members;
    pushed.expect_kubectl(&["delete", "apiservice", "v1beta1.custom.metrics.k8s.io"]);
    let path = format!("{CUSTOM}/v1beta2/namespaces/default/pods/*/hits");
    eventually("the sum is that of the other member", LIMIT, || fleet.items(&path)[0]["value"] == "7");
}
