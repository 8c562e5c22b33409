//! A server in this process, without sockets, and callers of every sort.
#![allow(dead_code)]

use std::sync::Arc;
use std::time::Duration;

use apiserver::admission::{Admission, Chain};
use apiserver::aggregate::Aggregator;
use apiserver::audit::Audit;
use apiserver::auth::escalation::EscalationCheck;
use apiserver::auth::{
    AnonymousAccess, Auth, AuthConfig, Authorizer, FrontProxyConfig, OidcConfig, ServiceAccountConfig, bootstrap,
};
use apiserver::documents::Version;
use apiserver::http::{Peer, RequestBody, handle};
use apiserver::limits::LimitsConfig;
use apiserver::server::{Server, ServerConfig};
use cluster_client::remote::addresses::AddressPolicy;
use http::Request;
use http_body_util::BodyExt;
use jiff::Timestamp;
use object::request::User;
use pki::authority::{CertificateAuthority, CertificateRequest};
use pki::jwt::signer::JwtSigner;
use pki::key::PrivateKey;
use pki::tls::client_trust::ClientTrust;
use pki::token::Secret;
use rustls_pki_types::CertificateDer;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
pub const BOB_TOKEN: &str = "token-of-bob";

pub struct World {
    pub server: Arc<Server>,
    pub ca: CertificateAuthority,
    pub front_proxy_ca: CertificateAuthority,
    pub signer: JwtSigner,
}

/// A caller: credentials and additional headers.
#[derive(Clone, Default)]
pub struct Caller {
    certificates: Vec<CertificateDer<'static>>,
    headers: Vec<(String, String)>,
}

impl Caller {
    pub fn anonymous() -> Self {
        Self::default()
    }

    pub fn token(token: &str) -> Self {
        Self::anonymous().with("authorization", &format!("Bearer {token}"))
    }

    pub fn with(mut self, header: &str, value: &str) -> Self {
        self.headers.push((header.to_owned(), value.to_owned()));
        self
    }

    pub fn showing(certificate: &pki::certificate::Certificate) -> Self {
        Self { certificates: vec![CertificateDer::from(certificate.der().to_vec())], headers: Vec::new() }
    }
}

/// A response.
pub struct Reply {
    pub code: u16,
    pub headers: http::HeaderMap,
    pub body: Value,
}

impl Reply {
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl World {
    pub async fn new() -> Self {
        Self::trusting(None).await
    }

    /// With more admission steps.
    pub async fn admitting(steps: Vec<Box<dyn Admission>>) -> Self {
        let world = Self::build(None, steps);
        bootstrap::ensure(world.server.write_scope(), Vec::new()).await.expect("an empty store takes the defaults");
        world
    }

    pub async fn trusting(oidc: Option<OidcConfig>) -> Self {
        let world = Self::empty(oidc);
        bootstrap::ensure(world.server.write_scope(), Vec::new()).await.expect("an empty store takes the defaults");
        world
    }

    /// Without default policy.
    pub fn empty(oidc: Option<OidcConfig>) -> Self {
        Self::build(oidc, Vec::new())
    }

    fn build(oidc: Option<OidcConfig>, more_steps: Vec<Box<dyn Admission>>) -> Self {
        let now = Timestamp::now();
        let ca = CertificateAuthority::self_signed("test-ca", now).expect("an authority");
        let front_proxy_ca = CertificateAuthority::self_signed("front-proxy-ca", now).expect("an authority");
        let trust = |ca: &CertificateAuthority| {
            Arc::new(ClientTrust::new(std::slice::from_ref(ca.certificate())).expect("a usable authority"))
        };
        let signer = JwtSigner::new(PrivateKey::generate().expect("a key"));
        let bob = User { uid: "uid-of-bob".into(), ..User::new("bob", &["team-a"]) };
        let auth = Auth::new(AuthConfig {
            client_ca: trust(&ca),
            front_proxy: Some(FrontProxyConfig { ca: trust(&front_proxy_ca), allowed_names: vec!["proxy".into()] }),
            service_accounts: ServiceAccountConfig::new(ISSUER, signer.clone()),
            oidc,
            static_tokens: vec![(Secret::new(BOB_TOKEN), bob)],
            issued_tokens: None,
            token_webhook: None,
            authorizers: vec![Authorizer::Rbac],
            anonymous: AnonymousAccess::Default,
        });
        let mut steps: Vec<Box<dyn Admission>> = vec![Box::new(EscalationCheck)];
        steps.extend(more_steps);
        let server = Server::new(ServerConfig {
            store: Arc::new(store::memory::Memory::new()),
            kinds: kinds::builtin(),
            auth,
            admission: Chain::new(steps),
            aggregator: Aggregator::default(),
            audit: Audit::off(),
            limits: LimitsConfig::default(),
            version: Version::default(),
            event_ttl: Duration::from_secs(3600),
            addresses: AddressPolicy::default(),
            component_metrics: Default::default(),
            stop: CancellationToken::new(),
        });
        server.set_ready();
        Self { server, ca, front_proxy_ca, signer }
    }

    pub fn user(&self, name: &str, groups: &[&str]) -> Caller {
        Caller::showing(&issue(&self.ca, name, groups, Timestamp::now()))
    }

    pub fn admin(&self) -> Caller {
        self.user("admin", &["system:masters"])
    }

    pub async fn ask(&self, caller: &Caller, method: &str, path: &str, body: Value) -> Reply {
        let content_type = if method == "PATCH" { "application/apply-patch+yaml" } else { "application/json" };
        let mut request = Request::builder().method(method).uri(path).header("content-type", content_type);
        for (name, value) in &caller.headers {
            request = request.header(name, value);
        }
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = request.body(RequestBody::Whole(body.into())).expect("a request");
        let address = "127.0.0.1:1".parse().expect("an address");
        let peer = Arc::new(Peer { address, certificates: caller.certificates.clone(), server_name: None });
        let (parts, body) = handle(self.server.clone(), peer, request).await.into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Reply { code: parts.status.as_u16(), headers: parts.headers, body }
    }

    pub async fn get(&self, caller: &Caller, path: &str) -> Reply {
        self.ask(caller, "GET", path, Value::Null).await
    }

    /// Creates as the administrator and must succeed.
    pub async fn make(&self, path: &str, body: Value) -> Value {
        let reply = self.ask(&self.admin(), "POST", path, body).await;
        assert_eq!(reply.code, 201, "{path}: {}", reply.body);
        reply.body
    }

    pub async fn remove(&self, path: &str) {
        let reply = self.ask(&self.admin(), "DELETE", path, Value::Null).await;
        assert_eq!(reply.code, 200, "{path}: {}", reply.body);
    }

    pub async fn whoami(&self, caller: &Caller) -> Reply {
        self.ask(caller, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await
    }

    /// Lets `user` do `verbs` on `resource` everywhere.
    pub async fn allow(&self, name: &str, user: &str, rule: Value) {
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        self.make(&format!("{rbac}/clusterroles"), json!({"metadata": {"name": name}, "rules": [rule]})).await;
        self.make(
            &format!("{rbac}/clusterrolebindings"),
            json!({"metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]}),
        )
        .await;
    }

    pub async fn service_account(&self, namespace: &str, name: &str) -> Value {
        self.make(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), json!({"metadata": {"name": name}})).await
    }

    /// A token by TokenRequest.
    pub async fn token(&self, namespace: &str, name: &str, spec: Value) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let made = self.make(&path, json!({"spec": spec})).await;
        made["status"]["token"].as_str().expect("a token").to_owned()
    }

    pub async fn review_token(&self, token: &str, audiences: &[&str]) -> Value {
        let spec = json!({"token": token, "audiences": audiences});
        self.make("/apis/authentication.k8s.io/v1/tokenreviews", json!({"spec": spec})).await["status"].take()
    }
}

pub fn issue(ca: &CertificateAuthority, name: &str, groups: &[&str], now: Timestamp) -> pki::certificate::Certificate {
    let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
    ca.issue(&CertificateRequest::client(name, &groups), now).expect("a certificate").certificate
}
