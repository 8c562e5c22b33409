//! Users of an OIDC issuer: a small issuer over TLS, its keys fetched when needed and rotated.

mod auth_world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apiserver::auth::OidcConfig;
use auth_world::{Caller, World};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use parking_lot::Mutex;
use pki::authority::{CertificateAuthority, CertificateRequest};
use pki::jwt::Algorithm;
use pki::jwt::jwks::{self, VerificationKey};
use pki::jwt::signer::JwtSigner;
use pki::key::PrivateKey;
use pki::oidc::OidcRules;
use pki::tls::client::ServerTrust;
use pki::tls::server::{ClientCertificates, ReloadableCertResolver, server_config};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

struct Issuer {
    url: String,
    ca_pem: String,
    keys: Mutex<Vec<VerificationKey>>,
    asked: AtomicUsize,
}

impl Issuer {
    async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://127.0.0.1:{}", listener.local_addr().expect("bound").port());
        let now = Timestamp::now();
        let ca = CertificateAuthority::self_signed("issuer-ca", now).expect("an authority");
        let request = CertificateRequest::server("issuer", &[], &["127.0.0.1".parse().expect("an address")]);
        let serving = ca.issue(&request, now).expect("a certificate");
        let resolver = Arc::new(ReloadableCertResolver::new(&serving).expect("a pair"));
        let mut tls = server_config(resolver, ClientCertificates::Ask).expect("a configuration");
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let issuer = Arc::new(Self {
            url,
            ca_pem: ca.certificate().to_pem(),
            keys: Mutex::default(),
            asked: AtomicUsize::new(0),
        });
        tokio::spawn(serve(issuer.clone(), listener, TlsAcceptor::from(Arc::new(tls))));
        issuer
    }

    fn add_key(&self) -> JwtSigner {
        let signer = JwtSigner::new(PrivateKey::generate().expect("a key"));
        self.keys.lock().push(VerificationKey::new(signer.public_key().clone()));
        signer
    }

    fn answer(&self, path: &str) -> Value {
        match path {
            "/.well-known/openid-configuration" => {
                json!({"issuer": self.url, "jwks_uri": format!("{}/keys", self.url)})
            }
            _ => {
                self.asked.fetch_add(1, Ordering::SeqCst);
                jwks::publish(&self.keys.lock()).expect("publishable")
            }
        }
    }

    fn config(&self) -> OidcConfig {
        OidcConfig {
            rules: OidcRules {
                issuer: self.url.clone(),
                audiences: vec!["flotilla".into()],
                username_claim: "email".into(),
                username_prefix: Some("oidc:".into()),
                groups_claim: Some("groups".into()),
                groups_prefix: "oidc:".into(),
                required_claims: BTreeMap::new(),
            },
            trust: ServerTrust::Bundle(self.ca_pem.clone().into_bytes()),
            algorithms: Algorithm::ALL.to_vec(),
        }
    }

    fn token(&self, signer: &JwtSigner, change: Value) -> String {
        let now = Timestamp::now().as_second();
        let mut claims = json!({"iss": self.url, "aud": "flotilla", "sub": "1", "email": "ann@x", "groups": ["dev"], "exp": now + 600});
        for (claim, value) in change.as_object().expect("a map") {
            claims[claim] = value.clone();
        }
        signer.sign(claims.as_object().expect("a map")).expect("signed")
    }
}

async fn serve(issuer: Arc<Issuer>, listener: TcpListener, acceptor: TlsAcceptor) {
    while let Ok((stream, _)) = listener.accept().await {
        let (issuer, acceptor) = (issuer.clone(), acceptor.clone());
        tokio::spawn(async move {
            let stream = acceptor.accept(stream).await.expect("a handshake");
            let service = service_fn(|request: Request<hyper::body::Incoming>| {
                let body = issuer.answer(request.uri().path()).to_string();
                async { Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from(body)))) }
            });
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

#[tokio::test]
async fn users_of_the_issuer_are_known_by_their_claims() {
    let issuer = Issuer::start().await;
    let signer = issuer.add_key();
    let world = World::trusting(Some(issuer.config())).await;
    let stranger = JwtSigner::new(PrivateKey::generate().expect("a key"));
    let now = Timestamp::now().as_second();
    let cases = [
        (issuer.token(&signer, json!({})), 201),
        (issuer.token(&signer, json!({"aud": ["x", "flotilla"]})), 201),
        (issuer.token(&signer, json!({"aud": "x"})), 401),
        (issuer.token(&signer, json!({"exp": now - 60})), 401),
        (issuer.token(&signer, json!({"email": 7})), 401),
        (issuer.token(&signer, json!({"iss": "https://elsewhere"})), 401),
        (issuer.token(&stranger, json!({})), 401),
    ];
    for (token, code) in &cases {
        let reply = world.whoami(&Caller::token(token)).await;
        assert_eq!(reply.code, *code, "{}", reply.body);
    }
    let me = world.whoami(&Caller::token(&cases[0].0)).await;
    assert_eq!(
        me.body["status"]["userInfo"],
        json!({"username": "oidc:ann@x", "groups": ["oidc:dev", "system:authenticated"]})
    );
}

#[tokio::test]
async fn keys_are_fetched_once_and_unknown_key_ids_do_not_cause_more_fetches() {
    let issuer = Issuer::start().await;
    let signer = issuer.add_key();
    let world = World::trusting(Some(issuer.config())).await;
    for number in 0..20 {
        let token = issuer.token(&signer, json!({"jti": number.to_string()}));
        assert_eq!(world.whoami(&Caller::token(&token)).await.code, 201);
    }
    let stranger = JwtSigner::new(PrivateKey::generate().expect("a key"));
    for number in 0..20 {
        let token = issuer.token(&stranger, json!({"jti": number.to_string()}));
        assert_eq!(world.whoami(&Caller::token(&token)).await.code, 401);
    }
    assert_eq!(issuer.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_issuer_with_another_certificate_is_not_trusted() {
    let issuer = Issuer::start().await;
    let signer = issuer.add_key();
    let other = CertificateAuthority::self_signed("other", Timestamp::now()).expect("an authority");
    let trust = ServerTrust::Bundle(other.certificate().to_pem().into_bytes());
    let world = World::trusting(Some(OidcConfig { trust, ..issuer.config() })).await;
    assert_eq!(world.whoami(&Caller::token(&issuer.token(&signer, json!({})))).await.code, 401);
}
