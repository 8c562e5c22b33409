//! An OIDC issuer for tests.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apiserver::auth::{OidcConfig, SignInConfig, TokenRules};
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

/// A small issuer over TLS.
pub struct Issuer {
    pub url: String,
    pub ca_pem: String,
    keys: Mutex<Vec<VerificationKey>>,
    /// Requests for keys.
    pub asked: AtomicUsize,
}

impl Issuer {
    pub async fn start() -> Arc<Self> {
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

    pub fn add_key(&self) -> JwtSigner {
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

    pub fn config(&self) -> OidcConfig {
        OidcConfig {
            discovery_url: None,
            rules: TokenRules::Flags(OidcRules {
                issuer: self.url.clone(),
                audiences: vec!["flotilla".into()],
                username_claim: "email".into(),
                username_prefix: Some("oidc:".into()),
                groups_claim: Some("groups".into()),
                groups_prefix: "oidc:".into(),
                required_claims: BTreeMap::new(),
            }),
            trust: ServerTrust::Bundle(self.ca_pem.clone().into_bytes()),
            algorithms: Algorithm::ALL.to_vec(),
            sign_in: SignInConfig::default(),
        }
    }

    pub fn token(&self, signer: &JwtSigner, change: Value) -> String {
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
