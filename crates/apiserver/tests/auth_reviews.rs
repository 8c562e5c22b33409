//! The access reviews: `kubectl auth can-i`, `can-i --list`, `whoami` and what other servers ask.

mod auth_world;

use auth_world::{BOB_TOKEN, ISSUER, World};
use serde_json::{Value, json};

const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";

#[tokio::test]
async fn access_reviews_have_a_result_and_a_reason() {
    let world = World::new().await;
    world.allow("reader", "ann", json!({"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get"]})).await;
    let why = r#"RBAC: allowed by ClusterRoleBinding "reader" of ClusterRole "reader" to User "ann""#;
    let public = r#"RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated""#;
    let pods = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let cases = [
        (json!({"user": "ann", "resourceAttributes": pods}), json!({"allowed": true, "reason": why})),
        (
            json!({"user": "ann", "resourceAttributes": {"verb": "get", "resource": "pods", "subresource": "log"}}),
            json!({"allowed": true, "reason": why}),
        ),
        (json!({"user": "ann", "resourceAttributes": {"verb": "list", "resource": "pods"}}), json!({"allowed": false})),
        (json!({"user": "bob", "resourceAttributes": pods}), json!({"allowed": false})),
        (
            json!({"groups": ["system:masters"], "resourceAttributes": {"verb": "*", "group": "*", "resource": "*"}}),
            json!({"allowed": true}),
        ),
        (
            json!({"user": "x", "groups": ["system:authenticated"], "nonResourceAttributes": {"path": "/healthz", "verb": "get"}}),
            json!({"allowed": true, "reason": public}),
        ),
    ];
    for (spec, expected) in cases {
        let review = world.make(&format!("{AUTHORIZATION}/subjectaccessreviews"), json!({"spec": spec})).await;
        assert_eq!(review["status"], expected, "{spec}");
        assert_eq!(review["spec"], spec);
    }
    let own = json!({"spec": {"resourceAttributes": pods}});
    let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    for (name, allowed) in [("ann", true), ("bob", false)] {
        let reply = world.ask(&world.user(name, &[]), "POST", &path, own.clone()).await;
        assert_eq!((reply.code, &reply.body["status"]["allowed"]), (201, &json!(allowed)), "{}", reply.body);
    }
    // Asking about others needs the right to ask.
    let other = json!({"spec": {"user": "x", "resourceAttributes": pods}});
    let reply =
        world.ask(&world.user("ann", &[]), "POST", &format!("{AUTHORIZATION}/subjectaccessreviews"), other).await;
    assert_eq!(reply.code, 403);
}

#[tokio::test]
async fn invalid_access_reviews_are_refused() {
    let world = World::new().await;
    let global = "subjectaccessreviews";
    let local = "namespaces/default/localsubjectaccessreviews";
    let cases = [
        (
            global,
            json!({"spec": {"user": "x"}}),
            422,
            ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            global,
            json!({"spec": {"resourceAttributes": {"verb": "get"}}}),
            422,
            ".authorization.k8s.io \"\" is invalid: spec.user: Invalid value: \"\": at least one of user or group must be specified",
        ),
        (
            local,
            json!({"spec": {"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "other"}}}),
            422,
            ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \"other\": must match metadata.namespace",
        ),
        ("selfsubjectrulesreviews", json!({"spec": {}}), 400, "no namespace on request"),
    ];
    for (path, body, code, message) in cases {
        let reply = world.ask(&world.admin(), "POST", &format!("{AUTHORIZATION}/{path}"), body).await;
        assert_eq!((reply.code, reply.message()), (code, message));
    }
    for (method, path, code) in [
        ("GET", "selfsubjectrulesreviews", 405),
        ("PUT", "selfsubjectaccessreviews", 405),
        ("GET", "selfsubjectaccessreviews/x", 405),
    ] {
        let reply = world.ask(&world.admin(), method, &format!("{AUTHORIZATION}/{path}"), Value::Null).await;
        assert!(reply.code == code || reply.code == 404, "{method} {path}: {}", reply.body);
    }
    let ok = json!({"spec": {"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}});
    let review = world.make(&format!("{AUTHORIZATION}/{local}"), ok).await;
    assert_eq!((&review["status"], &review["metadata"]["namespace"]), (&json!({"allowed": false}), &json!("default")));
}

#[tokio::test]
async fn the_rules_review_lists_all_rules_of_the_user() {
    let world = World::new().await;
    let path = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    let body = json!({"spec": {"namespace": "default"}});
    let reply = world.ask(&world.user("ann", &[]), "POST", &path, body.clone()).await;
    let status = &reply.body["status"];
    assert_eq!(reply.code, 201, "{}", reply.body);
    assert_eq!((&status["incomplete"], &reply.body["spec"]), (&json!(false), &json!({})));
    let create =
        |group: &str, resources: Value| json!({"verbs": ["create"], "apiGroups": [group], "resources": resources});
    assert_eq!(
        status["resourceRules"],
        json!([
            create("authorization.k8s.io", json!(["selfsubjectaccessreviews", "selfsubjectrulesreviews"])),
            create("authentication.k8s.io", json!(["selfsubjectreviews"])),
        ])
    );
    assert_eq!(
        status["nonResourceRules"][1],
        json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]})
    );
    let admin = world.ask(&world.admin(), "POST", &path, body).await;
    assert_eq!(
        admin.body["status"]["resourceRules"][0],
        json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
    );
}

#[tokio::test]
async fn token_reviews_report_the_user_of_a_token() {
    let world = World::new().await;
    let bob = json!({"username": "bob", "uid": "uid-of-bob", "groups": ["team-a", "system:authenticated"]});
    let cases = [
        (BOB_TOKEN, vec![], json!({"authenticated": true, "user": bob, "audiences": [ISSUER]})),
        (BOB_TOKEN, vec!["x"], json!({"user": {}, "error": "invalid bearer token"})),
        ("garbage", vec![], json!({"user": {}, "error": "invalid bearer token"})),
        ("a.b.c", vec![], json!({"user": {}, "error": "invalid bearer token"})),
    ];
    for (token, audiences, expected) in cases {
        assert_eq!(world.review_token(token, &audiences).await, expected, "{token}");
    }
    let reply =
        world.ask(&world.admin(), "POST", "/apis/authentication.k8s.io/v1/tokenreviews", json!({"spec": {}})).await;
    assert_eq!((reply.code, reply.message()), (400, "token is required for TokenReview in authentication"));
}

#[tokio::test]
async fn bindings_and_component_statuses_answer() {
    let world = World::new().await;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let bindings = "/api/v1/namespaces/default/bindings";
    let missing = world.ask(&world.admin(), "POST", bindings, binding.clone()).await;
    assert_eq!((missing.code, missing.message()), (404, "pods \"p\" not found"));
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    world.make("/api/v1/namespaces/default/pods", pod).await;
    world.make(bindings, binding).await;
    let bound = world.get(&world.admin(), "/api/v1/namespaces/default/pods/p").await;
    assert_eq!(bound.body["spec"]["nodeName"], "n");
    let list = world.get(&world.admin(), "/api/v1/componentstatuses").await;
    assert_eq!(list.body["items"][0]["conditions"][0]["status"], "True", "{}", list.body);
}
