//! AuthenticationConfiguration: claim mappings and rules in CEL, several issuers, requests without credentials, changes.

mod auth_issuer;
mod auth_world;

use apiserver::auth::structured::read_authentication;
use auth_issuer::Issuer;
use auth_world::{Caller, ISSUER, World};
use serde_json::{Value, json};

/// A configuration with one issuer; `rest` are the fields after `issuer`.
fn config(issuer: &Issuer, rest: Value) -> Value {
    let mut jwt = json!({"issuer": {
        "url": issuer.url, "audiences": ["flotilla", "other"], "audienceMatchPolicy": "MatchAny",
        "certificateAuthority": issuer.ca_pem,
    }});
    for (field, value) in rest.as_object().expect("a map") {
        jwt[field] = value.clone();
    }
    json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": [jwt]})
}

fn apply(world: &World, config: &Value) {
    let config = read_authentication(&config.to_string(), ISSUER).expect("a valid configuration");
    world.server.auth().configure(config);
}

/// The user of a token with these claims, or `None` when it is refused.
async fn user(issuer: &Issuer, rest: Value, claims: Value) -> Option<Value> {
    let world = World::new().await;
    let signer = issuer.add_key();
    apply(&world, &config(issuer, rest));
    let reply = world.whoami(&Caller::token(&issuer.token(&signer, claims))).await;
    match reply.code {
        201 => Some(reply.body["status"]["userInfo"].clone()),
        401 => None,
        other => panic!("{other}: {}", reply.body),
    }
}

async fn check(issuer: &Issuer, rest: Value, claims: Value, expected: Option<Value>) {
    let found = user(issuer, rest.clone(), claims.clone()).await;
    assert_eq!(found, expected, "{rest} {claims}");
}

#[tokio::test]
async fn claims_and_expressions_make_the_user() {
    let issuer = Issuer::start().await;
    let plain = json!({"claimMappings": {
        "username": {"claim": "sub", "prefix": "id:"}, "groups": {"claim": "groups", "prefix": "g:"},
        "uid": {"claim": "sub"},
    }});
    let known = json!({"username": "id:1", "uid": "1", "groups": ["g:dev", "system:authenticated"]});
    check(&issuer, plain.clone(), json!({}), Some(known)).await;
    check(&issuer, plain.clone(), json!({"aud": "third"}), None).await;
    check(&issuer, plain.clone(), json!({"iss": "https://elsewhere"}), None).await;
    check(&issuer, plain, json!({"sub": 7}), None).await;
    let expressions = json!({"claimMappings": {
        "username": {"expression": "claims.sub + '@' + claims.tenant"},
        "groups": {"expression": "claims.roles.split(',').map(role, 'role:' + role)"},
        "uid": {"expression": "claims.?oid.orValue('none')"},
        "extra": [
            {"key": "example.org/tenant", "valueExpression": "claims.tenant"},
            {"key": "example.org/none", "valueExpression": "[]"},
        ],
    }});
    let known = json!({"username": "1@acme", "uid": "none", "groups": ["role:a", "role:b", "system:authenticated"],
        "extra": {"example.org/tenant": ["acme"]}});
    check(&issuer, expressions.clone(), json!({"tenant": "acme", "roles": "a,b"}), Some(known)).await;
    check(&issuer, expressions, json!({"roles": "a,b"}), None).await;
}

#[tokio::test]
async fn rules_refuse_tokens_and_users() {
    let issuer = Issuer::start().await;
    let mapped = |rest: Value| {
        let mut all = json!({"claimMappings": {"username": {"claim": "sub", "prefix": ""}}});
        for (field, value) in rest.as_object().expect("a map") {
            all[field] = value.clone();
        }
        all
    };
    let one = Some(json!({"username": "1", "groups": ["system:authenticated"]}));
    let required = mapped(json!({"claimValidationRules": [{"claim": "hd", "requiredValue": "acme"}]}));
    check(&issuer, required.clone(), json!({"hd": "acme"}), one.clone()).await;
    check(&issuer, required, json!({"hd": "other"}), None).await;
    let lifetime = mapped(json!({"claimValidationRules": [
        {"expression": "claims.exp - claims.nbf <= 86400", "message": "lifetime must be at most a day"}]}));
    let now = jiff::Timestamp::now().as_second();
    check(&issuer, lifetime.clone(), json!({"nbf": now - 10}), one.clone()).await;
    check(&issuer, lifetime.clone(), json!({"nbf": now - 90_000}), None).await;
    check(&issuer, lifetime, json!({}), None).await;
    let reserved = mapped(json!({"userValidationRules": [
        {"expression": "!user.username.startsWith('system:')", "message": "reserved"}]}));
    check(&issuer, reserved.clone(), json!({}), one).await;
    check(&issuer, reserved, json!({"sub": "system:admin"}), None).await;
    let email = json!({"claimMappings": {"username": {"claim": "email", "prefix": ""}}});
    check(&issuer, email, json!({"email_verified": false}), None).await;
}

#[tokio::test]
async fn a_change_applies_to_the_next_request() {
    let (first, second) = (Issuer::start().await, Issuer::start().await);
    let world = World::new().await;
    let mappings = json!({"claimMappings": {"username": {"claim": "sub", "prefix": ""}}});
    let token = |issuer: &Issuer| Caller::token(&issuer.token(&issuer.add_key(), json!({})));
    let (of_first, of_second) = (token(&first), token(&second));
    let both = {
        let mut both = config(&first, mappings.clone());
        both["jwt"].as_array_mut().expect("a list").push(config(&second, mappings.clone())["jwt"][0].clone());
        both
    };
    for (config, expected) in [(both, [201, 201]), (config(&second, mappings), [401, 201])] {
        apply(&world, &config);
        let codes = [world.whoami(&of_first).await.code, world.whoami(&of_second).await.code];
        assert_eq!(codes, expected);
    }
    assert_eq!(world.whoami(&Caller::token(auth_world::BOB_TOKEN)).await.code, 201, "other tokens are not affected");
}

#[tokio::test]
async fn paths_without_credentials_are_those_of_the_configuration() {
    let world = World::new().await;
    let check = async |anonymous: Value, expected: [u16; 4]| {
        let file = json!({"apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "AuthenticationConfiguration",
            "anonymous": anonymous});
        apply(&world, &file);
        let mut codes = Vec::new();
        for path in ["/livez", "/readyz", "/version", "/api"] {
            codes.push(world.get(&Caller::anonymous(), path).await.code);
        }
        assert_eq!(codes, expected, "{anonymous}");
    };
    check(json!({"enabled": false}), [401; 4]).await;
    check(json!({"enabled": true}), [200, 200, 200, 401]).await;
    check(json!({"enabled": true, "conditions": [{"path": "/livez"}]}), [200, 401, 401, 401]).await;
    // The roles still decide.
    check(json!({"enabled": true, "conditions": [{"path": "/livez"}, {"path": "/api"}]}), [200, 401, 401, 403]).await;
    check(Value::Null, [200, 200, 200, 401]).await;
}

#[test]
fn files_with_errors_are_refused_with_the_field() {
    let check = |text: &str, problem: &str| {
        let error = read_authentication(text, ISSUER).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(problem), "{text}\n{problem:?} is not in {error:?}");
    };
    let of = |rest: &str| format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n{rest}");
    let jwt = |issuer: &str, rest: &str| of(&format!("jwt: [{{issuer: {{{issuer}}}, {rest}}}]"));
    let good_issuer = "url: 'https://x', audiences: [a]";
    let named = "username: {claim: sub, prefix: ''}";
    let mapped = |rest: &str| jwt(good_issuer, &format!("claimMappings: {{{rest}}}"));
    let ruled = |rest: &str| jwt(good_issuer, &format!("claimMappings: {{{named}}}, {rest}"));
    assert!(read_authentication(&mapped(named), ISSUER).is_ok());
    check("a: [", "not YAML");
    check("kind: AuthenticationConfiguration", "must be apiserver.config.k8s.io/v1");
    check(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration",
        "AuthenticationConfiguration, not",
    );
    check(&of("jwts: []"), "unknown field `jwts`");
    check(&of("anonymous: {enabled: false, conditions: [{path: /x}]}"), "anonymous.conditions: enabled must be true");
    check(&of("anonymous: {enabled: true, conditions: [{path: x}]}"), "anonymous.conditions[0].path");
    for (issuer, problem) in [
        ("url: 'http://x', audiences: [a]", "jwt[0].issuer.url: \"http://x\" must be an https URL"),
        ("url: 'https://u:p@x', audiences: [a]", "must not contain a user name"),
        ("url: 'https://x?a=b', audiences: [a]", "must not contain a query"),
        ("url: 'https://x'", "jwt[0].issuer.audiences: at least one"),
        ("url: 'https://x', audiences: [a, a], audienceMatchPolicy: MatchAny", "audiences[1]: \"a\" occurs twice"),
        ("url: 'https://x', audiences: [a, b]", "audienceMatchPolicy: must be MatchAny"),
        ("url: 'https://x', audiences: [a], discoveryURL: 'https://x/'", "discoveryURL: must differ"),
        ("url: 'https://x', audiences: [a], certificateAuthority: text", "certificateAuthority: is not a bundle"),
        ("url: 'https://x', audiences: [a], egressSelectorType: cluster", "egressSelectorType: is not supported"),
        (&format!("url: '{ISSUER}', audiences: [a]"), "is the issuer of this server's ServiceAccount tokens"),
    ] {
        check(&jwt(issuer, &format!("claimMappings: {{{named}}}")), problem);
    }
    for (mappings, problem) in [
        ("groups: {claim: g, prefix: ''}", "claimMappings.username: claim or expression is required"),
        ("username: {claim: sub}", "claimMappings.username.prefix: is required"),
        ("username: {claim: sub, prefix: '', expression: claims.sub}", "cannot both be set"),
        ("username: {expression: 'claims.'}", "claimMappings.username.expression"),
        ("username: {expression: 'user.name'}", "claimMappings.username.expression"),
        ("username: {expression: 'claims.email'}", "requires claims.email_verified"),
        (&format!("{named}, extra: [{{key: team, valueExpression: claims.t}}]"), "extra[0].key: \"team\""),
        (&format!("{named}, extra: [{{key: x.k8s.io/t, valueExpression: claims.t}}]"), "reserved"),
        (&format!("{named}, extra: [{{key: a.b/C, valueExpression: claims.t}}]"), "must be lowercase"),
        (&format!("{named}, extra: [{{key: a.b/c}}]"), "valueExpression: is required"),
    ] {
        check(&mapped(mappings), problem);
    }
    for (rules, problem) in [
        ("claimValidationRules: [{}]", "claimValidationRules[0]: claim or expression is required"),
        ("claimValidationRules: [{expression: claims.x}]", "must evaluate to bool"),
        ("claimValidationRules: [{expression: 'true'}, {expression: 'true'}]", "[1].expression: occurs twice"),
        ("claimValidationRules: [{claim: a, message: m}]", "message: cannot be set with claim"),
        ("userValidationRules: [{expression: 'user.name == \"\"'}]", "undefined field 'name'"),
        ("userValidationRules: [{message: m}]", "userValidationRules[0].expression: is required"),
    ] {
        check(&ruled(rules), problem);
    }
}
