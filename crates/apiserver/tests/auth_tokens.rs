//! ServiceAccount tokens from request to end of life.

mod auth_world;

use auth_world::{Caller, ISSUER, World};
use base64::Engine;
use jiff::Timestamp;
use pki::jwt::signer::JwtSigner;
use pki::key::PrivateKey;
use serde_json::{Map, Value, json};

const B64: base64::engine::GeneralPurpose = base64::engine::general_purpose::URL_SAFE_NO_PAD;

fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).expect("three parts");
    serde_json::from_slice(&B64.decode(payload).expect("base64")).expect("JSON")
}

fn pod(name: &str, account: &str, node: &str) -> Value {
    json!({"metadata": {"name": name},
        "spec": {"serviceAccountName": account, "nodeName": node, "containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn a_token_names_its_account_and_audience() {
    let world = World::new().await;
    let account = world.service_account("default", "sa").await;
    let path = "/api/v1/namespaces/default/serviceaccounts/sa/token";
    let made = world.make(path, json!({"spec": {"expirationSeconds": 700}})).await;
    assert_eq!(made["kind"], "TokenRequest");
    assert_eq!(made["spec"], json!({"audiences": [ISSUER], "expirationSeconds": 700, "boundObjectRef": null}));
    assert_eq!(made["metadata"]["uid"], account["metadata"]["uid"]);
    let said = claims(made["status"]["token"].as_str().expect("a token"));
    assert_eq!(
        said["kubernetes.io"],
        json!({"namespace": "default",
        "serviceaccount": {"name": "sa", "uid": account["metadata"]["uid"]}})
    );
    assert_eq!((&said["iss"], &said["sub"]), (&json!(ISSUER), &json!("system:serviceaccount:default:sa")));
    assert_eq!(said["aud"], json!([ISSUER]));
    assert_eq!(said["exp"].as_i64().expect("exp") - said["iat"].as_i64().expect("iat"), 700);
    assert_eq!(said["nbf"], said["iat"]);

    let token = made["status"]["token"].as_str().expect("a token");
    let me = world.whoami(&Caller::token(token)).await;
    assert_eq!(
        me.body["status"]["userInfo"],
        json!({"username": "system:serviceaccount:default:sa", "uid": account["metadata"]["uid"],
            "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": [format!("JTI={}", said["jti"].as_str().expect("jti"))]}})
    );
}

#[tokio::test]
async fn rejected_token_requests_have_a_reason() {
    let world = World::new().await;
    world.service_account("default", "sa").await;
    world.make("/api/v1/namespaces/default/pods", pod("p", "other", "")).await;
    let invalid = "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value:";
    let bound = |kind: &str, version: &str, name: &str| json!({"spec": {"boundObjectRef": {"kind": kind, "apiVersion": version, "name": name}}});
    let cases = [
        (json!({"spec": {"expirationSeconds": 599}}), 422, format!("{invalid} 599: may not specify a duration less than 10 minutes")),
        (json!({"spec": {"expirationSeconds": 4294967297u64}}), 422, format!("{invalid} 4294967297: may not specify a duration larger than 2^32 seconds")),
        (json!({"metadata": {"name": "other"}}), 422, "TokenRequest.authentication.k8s.io \"sa\" is invalid: metadata.name: Invalid value: \"other\": must match the service account name if specified".into()),
        (bound("Pod", "v1", "nope"), 404, "pods \"nope\" not found".into()),
        (bound("Pod", "v1", "p"), 400, "cannot bind token for serviceaccount \"sa\" to pod running with different serviceaccount name.".into()),
        (bound("Deployment", "apps/v1", "d"), 400, "cannot bind token to object of type apps/v1, Kind=Deployment".into()),
        (bound("Secret", "v1", ""), 400, "Name parameter required.".into()),
        (json!({"kind": "Pod", "apiVersion": "v1"}), 400, "Pod in version \"v1\" cannot be handled as a TokenRequest: converting (v1.Pod) to (authentication.TokenRequest): unknown conversion".into()),
    ];
    for (body, code, message) in cases {
        let reply =
            world.ask(&world.admin(), "POST", "/api/v1/namespaces/default/serviceaccounts/sa/token", body).await;
        assert_eq!((reply.code, reply.message()), (code, message.as_str()));
    }
    let none =
        world.ask(&world.admin(), "POST", "/api/v1/namespaces/default/serviceaccounts/none/token", json!({})).await;
    assert_eq!((none.code, none.message()), (404, "serviceaccounts \"none\" not found"));
    let wrong = json!({"spec": {"expirationSeconds": "x"}});
    let reply = world.ask(&world.admin(), "POST", "/api/v1/namespaces/default/serviceaccounts/sa/token", wrong).await;
    assert_eq!(reply.code, 400, "{}", reply.body);
}

#[tokio::test]
async fn a_token_is_invalid_once_its_bound_object_is_gone() {
    let world = World::new().await;
    let invalidated = "[invalid bearer token, service account token has been invalidated]";
    let cases = [
        ("Pod", "/api/v1/namespaces/default/pods", pod("x", "sa", "n1"), invalidated),
        ("Secret", "/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "x"}}), invalidated),
        ("Node", "/api/v1/nodes", json!({"metadata": {"name": "x"}}), invalidated),
    ];
    world.service_account("default", "sa").await;
    for (kind, path, object, expected) in cases {
        world.make(path, object).await;
        let reference = json!({"kind": kind, "apiVersion": "v1", "name": "x"});
        let token = world.token("default", "sa", json!({"boundObjectRef": reference})).await;
        assert_eq!(world.review_token(&token, &[]).await["authenticated"], true, "{kind}");
        let options = if kind == "Pod" { "?gracePeriodSeconds=0" } else { "" };
        world.remove(&format!("{path}/x{options}")).await;
        let status = world.review_token(&token, &[]).await;
        assert_eq!(status, json!({"user": {}, "error": expected}), "{kind}");
        assert_eq!(world.whoami(&Caller::token(&token)).await.code, 401, "{kind}");
    }
    let token = world.token("default", "sa", json!({})).await;
    world.remove("/api/v1/namespaces/default/serviceaccounts/sa").await;
    let gone = world.review_token(&token, &[]).await;
    assert_eq!(gone["error"], "[invalid bearer token, serviceaccounts \"sa\" not found]");
    // A new account of the same name is another account.
    world.service_account("default", "sa").await;
    assert_eq!(world.whoami(&Caller::token(&token)).await.code, 401);
}

#[tokio::test]
async fn a_pod_token_names_pod_and_node() {
    let world = World::new().await;
    world.service_account("default", "sa").await;
    let node = world.make("/api/v1/nodes", json!({"metadata": {"name": "n1"}})).await;
    let made = world.make("/api/v1/namespaces/default/pods", pod("x", "sa", "n1")).await;
    let reference = json!({"kind": "Pod", "apiVersion": "v1", "name": "x", "uid": made["metadata"]["uid"]});
    let token = world.token("default", "sa", json!({"boundObjectRef": reference, "expirationSeconds": 3607})).await;
    let said = claims(&token);
    // Kubelets' tokens live a year and warn after an hour.
    assert_eq!(said["exp"].as_i64().expect("exp") - said["iat"].as_i64().expect("iat"), 365 * 24 * 3600);
    assert_eq!(said["kubernetes.io"]["warnafter"].as_i64(), said["iat"].as_i64().map(|at| at + 3607));
    let extra = world.whoami(&Caller::token(&token)).await.body["status"]["userInfo"]["extra"].clone();
    assert_eq!(extra["authentication.kubernetes.io/pod-name"], json!(["x"]));
    assert_eq!(extra["authentication.kubernetes.io/pod-uid"], json!([made["metadata"]["uid"]]));
    assert_eq!(extra["authentication.kubernetes.io/node-name"], json!(["n1"]));
    assert_eq!(extra["authentication.kubernetes.io/node-uid"], json!([node["metadata"]["uid"]]));
}

#[tokio::test]
async fn tokens_are_valid_for_their_audience_only() {
    let world = World::new().await;
    world.service_account("default", "sa").await;
    let token = world.token("default", "sa", json!({"audiences": ["vault", "other"]})).await;
    assert_eq!(world.whoami(&Caller::token(&token)).await.code, 401);
    let status = world.review_token(&token, &["vault", "x"]).await;
    assert_eq!((&status["authenticated"], &status["audiences"]), (&json!(true), &json!(["vault"])));
    let status = world.review_token(&token, &[]).await;
    let expected = format!(
        "[invalid bearer token, token audiences [\"vault\" \"other\"] is invalid for the target audiences [\"{ISSUER}\"]]"
    );
    assert_eq!(status, json!({"user": {}, "error": expected}));
}

#[tokio::test]
async fn forged_and_stale_tokens_are_refused() {
    let world = World::new().await;
    let account = world.service_account("default", "sa").await;
    let now = Timestamp::now().as_second();
    let good = json!({"iss": ISSUER, "aud": [ISSUER], "sub": "system:serviceaccount:default:sa", "exp": now + 600, "iat": now,
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "sa", "uid": account["metadata"]["uid"]}}});
    let other_key = JwtSigner::new(PrivateKey::generate().expect("a key"));
    let cases = [
        (&world.signer, json!({}), 201),
        (&world.signer, json!({"exp": now - 120}), 401),
        (&world.signer, json!({"exp": null}), 401),
        (&world.signer, json!({"nbf": now + 600}), 401),
        (&world.signer, json!({"iss": "https://elsewhere"}), 401),
        (&world.signer, json!({"kubernetes.io": null}), 401),
        (
            &world.signer,
            json!({"kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "sa", "uid": "z"}}}),
            401,
        ),
        (&other_key, json!({}), 401),
    ];
    for (signer, change, code) in cases {
        let mut said: Map<String, Value> = good.as_object().expect("a map").clone();
        for (claim, value) in change.as_object().expect("a map") {
            match value {
                Value::Null => said.remove(claim),
                value => said.insert(claim.clone(), value.clone()),
            };
        }
        let token = signer.sign(&said).expect("signed");
        assert_eq!(world.whoami(&Caller::token(&token)).await.code, code, "{change}");
    }
    let token = world.signer.sign(good.as_object().expect("a map")).expect("signed");
    let (body, _) = token.rsplit_once('.').expect("three parts");
    let none = format!("{}.{}.", B64.encode(r#"{"alg":"none"}"#), body.split_once('.').expect("two parts").1);
    for broken in [format!("{body}."), format!("{body}.AAAA"), none, "a.b.c".to_owned(), format!("{token}.x")] {
        assert_eq!(world.whoami(&Caller::token(&broken)).await.code, 401, "{broken}");
    }
}

#[tokio::test]
async fn tokens_in_secrets_live_as_long_as_the_secret_holds_them() {
    let world = World::new().await;
    let account = world.service_account("default", "sa").await;
    let said = json!({"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:default:sa",
        "kubernetes.io/serviceaccount/namespace": "default", "kubernetes.io/serviceaccount/secret.name": "legacy",
        "kubernetes.io/serviceaccount/service-account.name": "sa",
        "kubernetes.io/serviceaccount/service-account.uid": account["metadata"]["uid"]});
    let token = world.signer.sign(said.as_object().expect("a map")).expect("signed");
    let review = async || world.review_token(&token, &[]).await;
    assert_eq!(review().await["error"], "[invalid bearer token, Token has been invalidated]");
    let secret = json!({"metadata": {"name": "legacy", "annotations": {"kubernetes.io/service-account.name": "sa"}},
        "type": "kubernetes.io/service-account-token", "stringData": {"token": token}});
    world.make("/api/v1/namespaces/default/secrets", secret).await;
    assert_eq!(review().await["user"]["username"], "system:serviceaccount:default:sa");
    assert_eq!(world.whoami(&Caller::token(&token)).await.code, 201);
    world.remove("/api/v1/namespaces/default/secrets/legacy").await;
    assert_eq!(review().await["error"], "[invalid bearer token, Token has been invalidated]");
}
