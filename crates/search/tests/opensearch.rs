//! Registries with an OpenSearch backend, against a small server that speaks the endpoints they use.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::cluster::CLUSTERS;
use api::search::RESOURCE_REGISTRIES;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::testing::MemoryApi;
use cluster_client::{ClusterClient, DeleteOptions, MemberClients, ResourceRef};
use object::{GroupVersionResource, Object, Status};
use reconcile::Mirrors;
use search::{Search, SearchDeps};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

const LIMIT: Duration = Duration::from_secs(30);

/// Indices with their documents, and the behaviour of the server.
#[derive(Default)]
struct State {
    indices: BTreeMap<String, BTreeMap<String, Value>>,
    mappings: BTreeMap<String, Value>,
    /// Requests to answer with 503 first.
    failures: usize,
    requests: usize,
    rejected: usize,
    /// `user:password` that requests must have.
    login: Option<String>,
}

struct OpenSearchServer {
    address: SocketAddr,
    state: Mutex<State>,
}

impl OpenSearchServer {
    async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let server = Arc::new(Self { address, state: Mutex::default() });
        let serving = Arc::clone(&server);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&serving).connection(stream));
            }
        });
        server
    }

    async fn connection(self: Arc<Self>, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        loop {
            let (mut first, mut length, mut login) = (String::new(), 0, None);
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                    return;
                }
                if first.is_empty() {
                    first = line;
                    continue;
                }
                let Some((name, value)) = line.trim().split_once(": ") else { break };
                match name.to_lowercase().as_str() {
                    "content-length" => length = value.parse().expect("a length"),
                    "authorization" => login = value.strip_prefix("Basic ").map(str::to_owned),
                    _ => {}
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.expect("a body");
            let target: Vec<&str> = first.split(' ').collect();
            let (code, answer) = self.answer(target[0], target[1], login, &String::from_utf8_lossy(&body));
            let answer = answer.to_string();
            let reply = format!(
                "HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{answer}",
                answer.len()
            );
            stream.write_all(reply.as_bytes()).await.expect("sent");
        }
    }

    fn answer(&self, method: &str, path: &str, login: Option<String>, body: &str) -> (u16, Value) {
        let mut state = self.state.lock().expect("not poisoned");
        state.requests += 1;
        let given = login.and_then(|login| STANDARD.decode(login).ok()).and_then(|login| String::from_utf8(login).ok());
        if state.login.is_some() && state.login != given {
            state.rejected += 1;
            return (401, json!({"error": "Unauthorized"}));
        }
        if state.failures > 0 {
            state.failures -= 1;
            return (503, json!({"error": "unavailable"}));
        }
        match (method, path) {
            ("POST", "/_bulk") => (200, state.bulk(body)),
            ("PUT", index) => {
                let index = index.trim_start_matches('/').to_owned();
                if state.indices.contains_key(&index) {
                    return (400, json!({"error": {"type": "resource_already_exists_exception"}}));
                }
                state.mappings.insert(index.clone(), serde_json::from_str(body).expect("JSON"));
                state.indices.insert(index, BTreeMap::new());
                (200, json!({"acknowledged": true}))
            }
            other => panic!("{other:?} is not an endpoint of this server"),
        }
    }

    /// Names of the documents of an index with the given field of each.
    fn documents(&self, index: &str, field: &str) -> Vec<String> {
        let state = self.state.lock().expect("not poisoned");
        let documents = state.indices.get(index).into_iter().flat_map(BTreeMap::values);
        let text = |document: &Value| {
            let metadata = &document["metadata"];
            let cluster = &metadata["annotations"]["resource.karmada.io/cached-from-cluster"];
            let (name, cluster) = (metadata["name"].as_str(), cluster.as_str());
            let value = document.pointer(field).and_then(Value::as_str).unwrap_or("-");
            format!("{}/{} {value}", cluster.unwrap_or("-"), name.unwrap_or("-"))
        };
        let mut found: Vec<String> = documents.map(text).collect();
        found.sort();
        found
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !is_so(self) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(tokio::time::timeout(LIMIT, waiting).await.is_ok(), "{what}");
    }
}

impl State {
    fn bulk(&mut self, body: &str) -> Value {
        let mut lines = body.lines();
        let mut items = Vec::new();
        while let Some(line) = lines.next() {
            let action: Value = serde_json::from_str(line).expect("an action");
            let (kind, target) = action.as_object().and_then(|map| map.iter().next()).expect("one action");
            let index = self.indices.get_mut(target["_index"].as_str().expect("an index")).expect("a known index");
            let id = target["_id"].as_str().filter(|id| !id.is_empty()).expect("an id").to_owned();
            assert_eq!(target["version_type"], "external_gte", "{target}");
            let status = match kind.as_str() {
                "index" => {
                    let document = serde_json::from_str(lines.next().expect("a document")).expect("JSON");
                    index.insert(id, document).map_or(201, |_| 200)
                }
                _ => index.remove(&id).map_or(404, |_| 200),
            };
            items.push(json!({kind.as_str(): {"status": status}}));
        }
        json!({"errors": false, "items": items})
    }
}

fn pods() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "pods")
}

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

fn pod(namespace: &str, name: &str, uid: &str, node: &str) -> Object {
    object(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name, "uid": uid},
        "spec": {"nodeName": node}, "status": {"phase": "Running"}}))
}

fn login_secret(password: &str) -> Object {
    let data = json!({"username": STANDARD.encode("admin"), "password": STANDARD.encode(password)});
    object(
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "ns", "name": "login"}, "data": data}),
    )
}

struct Members(BTreeMap<&'static str, MemoryApi>);

impl MemberClients for Members {
    fn client(&self, cluster: &str) -> Result<ClusterClient, Status> {
        self.0.get(cluster).map(MemoryApi::client).ok_or_else(|| Status::unavailable("no such member"))
    }
}

struct World {
    plane: MemoryApi,
    member: MemoryApi,
    cancel: CancellationToken,
}

impl World {
    /// One member, and a registry of the pods in `namespace` with this server.
    fn start(server: &OpenSearchServer, namespace: &str) -> Self {
        let (plane, member, cancel) = (MemoryApi::default(), MemoryApi::default(), CancellationToken::new());
        plane.seed(&pods(), pod("plane", "own", "own", "n"));
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "a"},
            "spec": {"syncMode": "Push"}, "status": {"conditions": ready}});
        plane.seed(&CLUSTERS.gvr(), object(cluster));
        plane.seed(&GroupVersionResource::new("", "v1", "secrets"), login_secret("right"));
        let store = json!({"addresses": [format!("http://{}", server.address)],
            "secretRef": {"namespace": "ns", "name": "login"}});
        let registry = json!({"apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry",
            "metadata": {"name": "r"}, "spec": {"targetCluster": {}, "backendStore": {"openSearch": store},
            "resourceSelectors": [{"apiVersion": "v1", "kind": "Pod", "namespace": namespace}]}});
        plane.seed(&RESOURCE_REGISTRIES.gvr(), object(registry));
        let mirrors = Mirrors::new(plane.client(), cancel.clone());
        let members = Arc::new(Members(BTreeMap::from([("a", member.clone())])));
        tokio::spawn(Search::new(SearchDeps { mirrors, members, addresses: Default::default() }).run(cancel.clone()));
        Self { plane, member, cancel }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

#[tokio::test]
async fn objects_become_documents_and_follow_their_changes() {
    let server = OpenSearchServer::start().await;
    server.state.lock().expect("not poisoned").login = Some("admin:right".to_owned());
    let world = World::start(&server, "");
    world.member.seed(&pods(), pod("x", "one", "u1", "n1"));
    world.member.seed(&pods(), pod("y", "two", "u2", "n1"));
    let are = |expected: &'static [&'static str]| {
        move |server: &OpenSearchServer| server.documents("kubernetes-pod", "/spec") == expected
    };
    server.until("both", are(&["a/one {\"nodeName\":\"n1\"}", "a/two {\"nodeName\":\"n1\"}"])).await;
    world.member.seed(&pods(), pod("x", "one", "u1", "n2"));
    server.until("changed", are(&["a/one {\"nodeName\":\"n2\"}", "a/two {\"nodeName\":\"n1\"}"])).await;
    let two = ResourceRef::namespaced(&pods(), "y", "two");
    world.member.client().delete(two, DeleteOptions::default()).await.expect("deleted");
    server.until("deleted", are(&["a/one {\"nodeName\":\"n2\"}"])).await;
    let state = server.state.lock().expect("not poisoned");
    assert_eq!(state.mappings["kubernetes-pod"]["mappings"]["properties"]["spec"]["enabled"], false);
    assert_eq!(state.rejected, 0, "the login of the Secret is used");
}

#[tokio::test]
async fn only_selected_namespaces_are_written() {
    let server = OpenSearchServer::start().await;
    let world = World::start(&server, "x");
    world.member.seed(&pods(), pod("y", "other", "u0", "n1"));
    world.member.seed(&pods(), pod("x", "one", "u1", "n1"));
    server.until("one", |server| server.documents("kubernetes-pod", "/kind") == ["a/one Pod"]).await;
}

#[tokio::test]
async fn writes_are_repeated_until_the_server_accepts_them() {
    let server = OpenSearchServer::start().await;
    {
        let mut state = server.state.lock().expect("not poisoned");
        state.failures = 2;
        state.login = Some("admin:changed".to_owned());
    }
    let world = World::start(&server, "");
    world.member.seed(&pods(), pod("x", "one", "u1", "n1"));
    server.until("refused", |server| server.state.lock().expect("not poisoned").rejected > 0).await;
    // The Secret is read again after a failure.
    world.plane.seed(&GroupVersionResource::new("", "v1", "secrets"), login_secret("changed"));
    server.until("one", |server| server.documents("kubernetes-pod", "/kind") == ["a/one Pod"]).await;
    assert_eq!(server.state.lock().expect("not poisoned").failures, 0);
}
