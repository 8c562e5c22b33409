//! A server in this process with dynamic admission, and a webhook server with configurable answers.
#![allow(dead_code)]

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apiserver::admission::policies::{MutatingPolicies, ValidatingPolicies};
use apiserver::admission::webhooks::{MutatingWebhooks, ValidatingWebhooks};
use apiserver::admission::{Admission, AdmissionScope, Attributes, Chain};
use apiserver::aggregate::Aggregator;
use apiserver::audit::{Audit, Level, Policy, Rotation};
use apiserver::auth::webhook::TokenWebhook;
use apiserver::auth::{AnonymousAccess, Auth, AuthConfig, Authorizer, ServiceAccountConfig};
use apiserver::context::Context;
use apiserver::documents::Version;
use apiserver::extension::Extension;
use apiserver::http::{Peer, RequestBody, handle};
use apiserver::limits::LimitsConfig;
use apiserver::server::{Server, ServerConfig};
use async_trait::async_trait;
use base64::Engine;
use bytes::Bytes;
use cluster_client::remote::addresses::AddressPolicy;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use object::request::User;
use object::{Object, Status};
use parking_lot::Mutex;
use pki::authority::{CertificateAuthority, CertificateRequest};
use pki::jwt::signer::JwtSigner;
use pki::key::PrivateKey;
use pki::tls::client_trust::ClientTrust;
use pki::tls::server::{ClientCertificates, ReloadableCertResolver, server_config};
use pki::token::Secret;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
pub const CONFIGMAPS: &str = "/api/v1/namespaces/team/configmaps";

pub struct World {
    pub server: Arc<Server>,
    audit_log: PathBuf,
}

pub struct Reply {
    pub code: u16,
    pub warnings: Vec<String>,
    pub body: Value,
}

impl Reply {
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

/// A step of the server's own: completes objects that webhooks mark.
struct Completes;

#[async_trait]
impl Admission for Completes {
    fn name(&self) -> &'static str {
        "Completes"
    }

    async fn mutate(
        &self,
        _: AdmissionScope<'_>,
        _: &Context,
        _: &Attributes<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        if object.annotation("complete-me").is_some() {
            object.set_annotation("completed", "yes");
        }
        Ok(())
    }
}

fn metadata_of_all() -> Policy {
    Policy::everything(Level::Metadata)
}

/// The futures are on the heap, because the compiler refuses to nest them as deep as the server's are.
impl World {
    pub async fn new() -> Self {
        Box::pin(Self::serving(kinds::builtin(), Vec::new())).await
    }

    /// With more kinds, and with steps after the usual ones.
    pub async fn serving(kinds: Vec<kinds::Kind>, more_steps: Vec<Box<dyn Admission>>) -> Self {
        Box::pin(Self::build(kinds, more_steps, Vec::new(), (None, vec![Authorizer::Rbac]), metadata_of_all())).await
    }

    /// With webhooks that identify and authorize callers.
    pub async fn judged_by(tokens: Option<TokenWebhook>, authorizers: Vec<Authorizer>) -> Self {
        Box::pin(Self::build(kinds::builtin(), Vec::new(), Vec::new(), (tokens, authorizers), metadata_of_all())).await
    }

    /// With paths outside of the API.
    pub async fn extended(extensions: Vec<Box<dyn Extension>>) -> Self {
        Box::pin(Self::build(
            kinds::builtin(),
            Vec::new(),
            extensions,
            (None, vec![Authorizer::Rbac]),
            metadata_of_all(),
        ))
        .await
    }

    /// With an audit policy, and with steps and paths that the test observes.
    pub async fn recorded(
        policy: Policy,
        more_steps: Vec<Box<dyn Admission>>,
        extensions: Vec<Box<dyn Extension>>,
    ) -> Self {
        Box::pin(Self::build(kinds::builtin(), more_steps, extensions, (None, vec![Authorizer::Rbac]), policy)).await
    }

    async fn build(
        kinds: Vec<kinds::Kind>,
        more_steps: Vec<Box<dyn Admission>>,
        extensions: Vec<Box<dyn Extension>>,
        (token_webhook, authorizers): (Option<TokenWebhook>, Vec<Authorizer>),
        policy: Policy,
    ) -> Self {
        let ca = CertificateAuthority::self_signed("test-ca", Timestamp::now()).expect("an authority");
        let trust = ClientTrust::new(std::slice::from_ref(ca.certificate())).expect("a usable authority");
        let user = |name: &str, groups: &[&str]| (Secret::new(name), User::new(name, groups));
        let auth = Auth::new(AuthConfig {
            client_ca: Arc::new(trust),
            front_proxy: None,
            service_accounts: ServiceAccountConfig::new(
                "https://issuer",
                JwtSigner::new(PrivateKey::generate().expect("a key")),
            ),
            oidc: None,
            static_tokens: vec![user("admin", &["system:masters"]), user("bob", &["team-a"])],
            issued_tokens: None,
            token_webhook,
            authorizers,
            anonymous: AnonymousAccess::Default,
        });
        let mut steps: Vec<Box<dyn Admission>> = vec![
            Box::new(Completes),
            Box::new(MutatingPolicies::default()),
            Box::new(MutatingWebhooks::default()),
            Box::new(ValidatingPolicies::default()),
            Box::new(ValidatingWebhooks::default()),
        ];
        steps.extend(more_steps);
        let audit_log = std::env::temp_dir().join(format!("admission-{}.log", uuid::Uuid::new_v4()));
        let server = Server::new(ServerConfig {
            store: Arc::new(store::memory::Memory::new()),
            kinds,
            auth,
            admission: Chain::new(steps),
            aggregator: Aggregator::default(),
            audit: Audit::to_file(&audit_log, policy, Rotation::default()).expect("a log"),
            limits: LimitsConfig::default(),
            version: Version::default(),
            event_ttl: Duration::from_secs(3600),
            addresses: AddressPolicy::default(),
            component_metrics: Default::default(),
            stop: CancellationToken::new(),
        });
        server.install(apiserver::server::Handlers { extensions, ..Default::default() });
        server.set_ready();
        let world = Self { server, audit_log };
        for (name, labels) in [("team", json!({"tier": "prod"})), ("other", json!({}))] {
            world.make("/api/v1/namespaces", json!({"metadata": {"name": name, "labels": labels}})).await;
        }
        world
    }

    pub async fn ask(&self, method: &str, path: &str, body: Value) -> Reply {
        self.ask_as("admin", method, path, body).await
    }

    pub async fn ask_as(&self, user: &str, method: &str, path: &str, body: Value) -> Reply {
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        let request = request.header("authorization", format!("Bearer {user}"));
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = request.body(RequestBody::Whole(body.into())).expect("a request");
        let peer = Arc::new(Peer {
            address: "127.0.0.1:1".parse().expect("an address"),
            certificates: Vec::new(),
            server_name: None,
        });
        let (parts, body) = handle(self.server.clone(), peer, request).await.into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        let warnings = parts.headers.get_all("warning").iter();
        Reply {
            code: parts.status.as_u16(),
            warnings: warnings.map(|w| w.to_str().expect("text").to_owned()).collect(),
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        }
    }

    pub async fn make(&self, path: &str, body: Value) -> Value {
        let reply = self.ask("POST", path, body).await;
        assert_eq!(reply.code, 201, "{path}: {}", reply.body);
        reply.body
    }

    /// Creates a configuration and waits until it is in effect.
    pub async fn configure(&self, plural: &str, body: Value) {
        self.make(&format!("{GROUP}/{plural}"), body).await;
        self.settle().await;
    }

    pub async fn remove(&self, path: &str) {
        let reply = self.ask("DELETE", path, Value::Null).await;
        assert_eq!(reply.code, 200, "{path}: {}", reply.body);
        self.settle().await;
    }

    pub async fn settle(&self) {
        for (_, cache) in self.server.registry.caches() {
            cache.fresh().await.expect("a cache that keeps up");
        }
    }

    /// All audit events so far.
    pub fn audit_events(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(&self.audit_log).unwrap_or_default();
        log.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
    }

    /// The annotations of the newest audit record that has any of this key.
    pub async fn audited(&self, key: &str) -> Option<String> {
        for _ in 0..100 {
            let log = std::fs::read_to_string(&self.audit_log).unwrap_or_default();
            let mut events = log.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let found = events.find_map(|event| event["annotations"][key].as_str().map(str::to_owned));
            if found.is_some() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        None
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.audit_log);
    }
}

/// The response of the webhook server to a review.
pub enum Answer {
    /// The `response` of the review, without the uid.
    Says(Box<dyn Fn(&Value) -> Value + Send + Sync>),
    /// The whole document.
    Sends(Value),
    /// The whole document, in bytes that need not be valid.
    Text(String),
    Code(u16, &'static str),
    Hangs,
}

impl Answer {
    pub fn allow() -> Self {
        Self::response(json!({"allowed": true}))
    }

    pub fn response(response: Value) -> Self {
        Self::Says(Box::new(move |_| response.clone()))
    }

    pub fn patch(operations: Value) -> Self {
        Self::response(patch_response(operations))
    }
}

pub fn patch_response(operations: Value) -> Value {
    let patch = base64::engine::general_purpose::STANDARD.encode(operations.to_string());
    json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
}

/// Answers at `/NAME` for each configured name and records the reviews it receives.
pub struct Webhooks {
    port: u16,
    ca: String,
    answers: Mutex<HashMap<String, Arc<Answer>>>,
    asked: Mutex<Vec<(String, Value)>>,
}

impl Webhooks {
    pub async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let now = Timestamp::now();
        let ca = CertificateAuthority::self_signed("webhook-ca", now).expect("an authority");
        let request = CertificateRequest::server("webhook", &[], &["127.0.0.1".parse().expect("an address")]);
        let serving = ca.issue(&request, now).expect("a certificate");
        let resolver = Arc::new(ReloadableCertResolver::new(&serving).expect("a pair"));
        let mut tls = server_config(resolver, ClientCertificates::Ask).expect("a configuration");
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let hooks = Arc::new(Self {
            port: listener.local_addr().expect("bound").port(),
            ca: base64::engine::general_purpose::STANDARD.encode(ca.certificate().to_pem()),
            answers: Mutex::default(),
            asked: Mutex::default(),
        });
        tokio::spawn(hooks.clone().serve(listener, TlsAcceptor::from(Arc::new(tls))));
        hooks
    }

    async fn serve(self: Arc<Self>, listener: TcpListener, acceptor: TlsAcceptor) {
        while let Ok((stream, _)) = listener.accept().await {
            let (hooks, acceptor) = (self.clone(), acceptor.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(|request| hooks.clone().answer(request));
                let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                let _ = served.await;
            });
        }
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<hyper::body::Incoming>,
    ) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
        let name = request.uri().path().trim_start_matches('/').to_owned();
        let bytes = request.into_body().collect().await.expect("a body").to_bytes();
        let review: Value = serde_json::from_slice(&bytes).expect("JSON");
        let answer = self.answers.lock().get(&name).cloned().expect("an answer for every webhook");
        self.asked.lock().push((name, review.clone()));
        let (code, body) = match &*answer {
            Answer::Says(say) => {
                let mut response = say(&review["request"]);
                if response.get("uid").is_none() {
                    response["uid"] = review["request"]["uid"].clone();
                }
                let document =
                    json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response});
                (200, document.to_string())
            }
            Answer::Sends(document) => (200, document.to_string()),
            Answer::Text(text) => (200, text.clone()),
            Answer::Code(code, text) => (*code, (*text).to_owned()),
            Answer::Hangs => {
                tokio::time::sleep(Duration::from_secs(60)).await;
                (200, String::new())
            }
        };
        Ok(Response::builder().status(code).body(Full::new(Bytes::from(body))).expect("a response"))
    }

    pub fn answers(&self, name: &str, answer: Answer) {
        self.answers.lock().insert(name.to_owned(), Arc::new(answer));
    }

    pub fn url(&self, name: &str) -> String {
        format!("https://127.0.0.1:{}/{name}", self.port)
    }

    /// A kubeconfig whose server is `/NAME`.
    pub fn kubeconfig(&self, name: &str) -> String {
        let cluster = json!({"server": self.url(name), "certificate-authority-data": self.ca});
        json!({"clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"})
        .to_string()
    }

    /// Number of questions to `/NAME` so far.
    pub fn asked(&self, name: &str) -> usize {
        self.asked.lock().iter().filter(|(asked, _)| asked == name).count()
    }

    /// The documents that `/NAME` received so far.
    pub fn documents(&self, name: &str) -> Vec<Value> {
        self.asked.lock().iter().filter(|(asked, _)| asked == name).map(|(_, document)| document.clone()).collect()
    }

    /// A webhook about configmaps that answers at `/NAME`, with some of its fields replaced.
    pub fn hook(&self, name: &str, change: Value) -> Value {
        let mut hook = json!({
            "name": format!("{name}.example.com"),
            "clientConfig": {"url": self.url(name), "caBundle": self.ca},
            "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}],
        });
        for (key, value) in change.as_object().into_iter().flatten() {
            hook[key] = value.clone();
        }
        hook
    }

    /// Returns the requests the named webhook received since the last call, in order.
    pub fn take(&self, name: &str) -> Vec<Value> {
        let mut asked = self.asked.lock();
        let (taken, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut *asked).into_iter().partition(|(n, _)| n == name);
        *asked = kept;
        taken.into_iter().map(|(_, review)| review["request"].clone()).collect()
    }
}
