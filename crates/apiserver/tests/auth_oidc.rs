//! Users of an OIDC issuer: a small issuer over TLS, its keys fetched when needed and rotated.

mod auth_issuer;
mod auth_world;

use std::sync::atomic::Ordering;

use apiserver::auth::OidcConfig;
use auth_issuer::Issuer;
use auth_world::{Caller, World};
use jiff::Timestamp;
use pki::authority::CertificateAuthority;
use pki::jwt::signer::JwtSigner;
use pki::key::PrivateKey;
use pki::tls::client::ServerTrust;
use serde_json::json;

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
