//! Details of requests that clients of kube-apiserver rely on. The expected texts were recorded from kube-apiserver 1.36.

mod admission_world;

use std::sync::Arc;
use std::time::Duration;

use admission_world::{CONFIGMAPS, World};
use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::http::{Peer, RequestBody, handle};
use apiserver::request::RequestInfo;
use apiserver::respond::Body;
use apiserver::server::Server;
use async_trait::async_trait;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use object::Status;
use serde_json::{Value, json};

/// Sends a request as it is and returns the code, the headers and the text of the response.
async fn send(
    world: &World,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, HeaderMap, String) {
    let mut request = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| *name == "authorization") {
        request = request.header("authorization", "Bearer admin");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(RequestBody::Whole(body.to_owned().into())).expect("a request");
    let peer = Arc::new(Peer {
        address: "127.0.0.1:1".parse().expect("an address"),
        certificates: Vec::new(),
        server_name: None,
    });
    let (parts, body) = handle(world.server.clone(), peer, request).await.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    (parts.status.as_u16(), parts.headers, String::from_utf8_lossy(&bytes).into_owned())
}

async fn strict_error(world: &World, path: &str, content: &str, body: &str) -> String {
    let path = format!("{path}?fieldValidation=Strict&dryRun=All");
    let (code, _, text) = send(world, "POST", &path, &[("content-type", content)], body).await;
    assert_eq!(code, 400, "{text}");
    let status: Value = serde_json::from_str(&text).expect("a status");
    let message = status["message"].as_str().unwrap_or_default();
    message.split_once("strict decoding error: ").map(|(_, list)| list.to_owned()).unwrap_or_else(|| message.to_owned())
}

#[tokio::test]
async fn strict_errors_of_typed_objects_come_in_the_order_of_the_document() {
    let world = World::new().await;
    let deployments = "/apis/apps/v1/namespaces/team/deployments";
    let body = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","name":"d","unknownMeta":"u","labels":
        {"a":"b","a":"c"}},"spec":{"unknown1":"v","unknownDupe":"a","unknownDupe":"b","paused":true,"paused":false,"selector":
        {"matchLabels":{"app":"n"}},"template":{"metadata":{"labels":{"app":"n"}},"spec":{"containers":[{"name":"c","image":"i",
        "unknownNested":"u","imagePullPolicy":"Never","imagePullPolicy":"Always"}]}}}}"#;
    let expected = "duplicate field \"metadata.name\", unknown field \"metadata.unknownMeta\", duplicate field \
        \"metadata.labels.a\", unknown field \"spec.unknown1\", unknown field \"spec.unknownDupe\", duplicate field \"spec.paused\", \
        unknown field \"spec.template.spec.containers[0].unknownNested\", duplicate field \
        \"spec.template.spec.containers[0].imagePullPolicy\"";
    assert_eq!(strict_error(&world, deployments, "application/json", body).await, expected);
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  name: b\nunknown: 1\ndata:\n  k: v\n  k: w\n";
    let expected = "yaml: unmarshal errors:\n  line 5: key \"name\" already set in map\n  line 9: key \"k\" already set in map, \
        unknown field \"unknown\"";
    assert_eq!(strict_error(&world, CONFIGMAPS, "application/yaml", yaml).await, expected);
    let path = format!("{CONFIGMAPS}?fieldValidation=Warn&dryRun=All");
    let (code, headers, text) = send(&world, "POST", &path, &[("content-type", "application/yaml")], yaml).await;
    assert_eq!(code, 201, "{text}");
    let warnings: Vec<&str> = headers.get_all("warning").iter().filter_map(|warning| warning.to_str().ok()).collect();
    let quoted = |text: &str| format!("299 - {}", Value::from(text));
    let expected = [
        "line 5: key \"name\" already set in map",
        "line 9: key \"k\" already set in map",
        "unknown field \"unknown\"",
    ];
    assert_eq!(warnings, expected.map(quoted));
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/team/things";

fn definition(size: Value) -> Value {
    let embedded =
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let spec = json!({"type": "object", "properties": {"known": {"type": "string"}, "size": size, "inner": embedded}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

async fn wait_until(world: &World, path: &str, check: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..400 {
        let reply = world.ask("GET", path, Value::Null).await;
        if reply.code == 200 && check(&reply.body) {
            return reply.body;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{path} does not become what is expected: {}", world.ask("GET", path, Value::Null).await.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_are_checked_strictly_and_get_new_defaults_when_read() {
    let world = World::new().await;
    apiserver::prepare(&world.server, Vec::new()).await.expect("prepared");
    world.make(DEFINITIONS, definition(json!({"type": "integer"}))).await;
    wait_until(&world, THINGS, |_| true).await;
    let body = r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t","name":"t","unknownMeta":1},"spec":{"unknown":1,
        "known":"a","known":"b","inner":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","unknownInner":1},"free":1}}}"#;
    let expected = "duplicate field \"metadata.name\", duplicate field \"spec.known\", unknown field \"metadata.unknownMeta\", \
        unknown field \"spec.unknown\", unknown field \"spec.inner.metadata.unknownInner\"";
    assert_eq!(strict_error(&world, THINGS, "application/json", body).await, expected);
    let thing =
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"known": "a"}});
    let made = world.make(THINGS, thing).await;
    assert_eq!(made["spec"], json!({"known": "a"}));
    let path = format!("{DEFINITIONS}/things.example.com");
    let versions = definition(json!({"type": "integer", "default": 3}))["spec"]["versions"].clone();
    let reply = world.ask("PATCH", &path, json!({"spec": {"versions": versions}})).await;
    assert_eq!(reply.code, 200, "{}", reply.body);
    let expected = json!({"known": "a", "size": 3});
    wait_until(&world, &format!("{THINGS}/t"), |thing| thing["spec"] == expected).await;
    let listed = world.ask("GET", THINGS, Value::Null).await.body;
    assert_eq!(listed["items"][0]["spec"], expected);
    assert_eq!(
        listed["items"][0]["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"],
        "nothing was written"
    );
}

#[tokio::test]
async fn an_expired_continue_token_has_a_successor_that_resumes_at_the_same_key() {
    let world = World::new().await;
    for index in 0..5 {
        world.make(CONFIGMAPS, json!({"metadata": {"name": format!("c{index}")}})).await;
    }
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().into_iter().flatten();
        items.map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let page = |token: &Value| format!("{CONFIGMAPS}?limit=2&continue={}", token.as_str().unwrap_or_default());
    let first = world.ask("GET", &format!("{CONFIGMAPS}?limit=2"), Value::Null).await.body;
    let token = &first["metadata"]["continue"];
    assert_eq!(world.ask("GET", &page(token), Value::Null).await.code, 200);
    world.make(CONFIGMAPS, json!({"metadata": {"name": "later"}})).await;
    let now = world.server.objects.store().revision().await.expect("a revision");
    world.server.objects.forget_history_before(now);
    let expired = world.ask("GET", &page(token), Value::Null).await;
    assert_eq!((expired.code, expired.body["reason"].as_str()), (410, Some("Expired")), "{}", expired.body);
    let next = world.ask("GET", &page(&expired.body["metadata"]["continue"]), Value::Null).await.body;
    assert_eq!(
        (names(&next), &next["metadata"]["remainingItemCount"]),
        (vec!["c2".to_owned(), "c3".to_owned()], &json!(2))
    );
    let last = world.ask("GET", &page(&next["metadata"]["continue"]), Value::Null).await.body;
    assert_eq!(names(&last), ["c4", "later"]);
    assert_eq!(last["metadata"]["resourceVersion"], next["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn streamed_lists_have_tables_with_columns_once() {
    let world = World::new().await;
    let secrets = "/api/v1/namespaces/team/secrets";
    for name in ["a", "b"] {
        world.make(secrets, json!({"metadata": {"name": name, "labels": {"w": "1"}}})).await;
    }
    let query =
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
    let table = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let path = format!("{secrets}?{query}&labelSelector=w=1");
    let (code, _, text) = send(&world, "GET", &path, &[table], "").await;
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    assert_eq!((code, events.len() >= 3), (200, true), "{text}");
    assert_eq!(events[0]["object"]["columnDefinitions"].as_array().map(Vec::len), Some(4));
    assert_eq!(events[1]["object"].get("columnDefinitions"), Some(&Value::Null));
    let version = &events[2]["object"]["metadata"]["resourceVersion"];
    let row = json!({"cells": ["", "", 0, "<unknown>"], "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}}}});
    let expected = json!({"type": "BOOKMARK", "object": {"kind": "Table", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": version}, "columnDefinitions": null, "rows": [row]}});
    assert_eq!(events[2], expected);
    let (_, _, text) = send(&world, "GET", &format!("{secrets}?{query}&labelSelector=w=none"), &[table], "").await;
    let first: Value = serde_json::from_str(text.lines().next().unwrap_or_default()).expect("an event");
    assert_eq!(
        first["object"]["columnDefinitions"].as_array().map(Vec::len),
        Some(4),
        "the first event has the columns"
    );
}

#[tokio::test]
async fn answers_that_are_no_objects_have_no_tables() {
    let world = World::new().await;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let body = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"nonResourceAttributes":
        {"path":"/","verb":"get"}}}"#;
    let json = ("content-type", "application/json");
    for (accept, code) in [
        ("application/json;as=Table;v=v1;g=meta.k8s.io", 406),
        ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", 406),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", 201),
        ("application/json", 201),
    ] {
        let (found, _, text) = send(&world, "POST", path, &[json, ("accept", accept)], body).await;
        assert_eq!(found, code, "{accept}: {text}");
    }
}

#[tokio::test]
async fn health_checks_have_the_names_of_kube_apiserver() {
    let world = World::new().await;
    for (path, more) in
        [("/livez", "ping"), ("/readyz", "informer-sync"), ("/healthz", "poststarthook/rbac/bootstrap-roles")]
    {
        let (code, _, text) = send(&world, "GET", &format!("{path}?verbose"), &[], "").await;
        assert_eq!(code, 200, "{text}");
        for name in ["ping", "log", "etcd", "poststarthook/crd-informer-synced", "autoregister-completion", more] {
            assert!(text.lines().any(|line| line == format!("[+]{name} ok")), "{path} has no {name}: {text}");
        }
        let (code, _, text) = send(&world, "GET", &format!("{path}/etcd"), &[], "").await;
        assert_eq!((code, text.as_str()), (200, "ok"));
    }
}

#[tokio::test]
async fn requests_are_classified_by_flow_schemas() {
    let world = World::new().await;
    apiserver::prepare(&world.server, Vec::new()).await.expect("prepared");
    let rules = json!([{"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}]);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    world.make(&format!("{rbac}/clusterroles"), json!({"metadata": {"name": "all"}, "rules": rules})).await;
    world
        .make(
            &format!("{rbac}/clusterrolebindings"),
            json!({"metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]}),
        )
        .await;
    world.settle().await;
    let group = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let uid = |body: Value| body["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let classified = async |user: &str| {
        let bearer = format!("Bearer {user}");
        let (_, headers, _) =
            send(&world, "GET", "/api/v1/namespaces/team/pods", &[("authorization", &bearer)], "").await;
        let header = |name: &str| headers.get(name).and_then(|uid| uid.to_str().ok()).unwrap_or_default().to_owned();
        (header("x-kubernetes-pf-flowschema-uid"), header("x-kubernetes-pf-prioritylevel-uid"))
    };
    for (user, name) in [("admin", "exempt"), ("bob", "global-default")] {
        let schema = uid(world.ask("GET", &format!("{group}/flowschemas/{name}"), Value::Null).await.body);
        let level =
            uid(world.ask("GET", &format!("{group}/prioritylevelconfigurations/{name}"), Value::Null).await.body);
        assert!(!schema.is_empty() && !level.is_empty(), "the default objects exist");
        assert_eq!(classified(user).await, (schema, level), "{user}");
    }
    // A level without seats refuses, and only those whose requests it gets.
    let limited =
        json!({"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}});
    world
        .make(
            &format!("{group}/prioritylevelconfigurations"),
            json!({"metadata": {"name": "none"}, "spec": {"type": "Limited", "limited": limited}}),
        )
        .await;
    let rule = json!({
        "subjects": [{"kind": "User", "user": {"name": "bob"}}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["pods"], "namespaces": ["team"]}],
    });
    let spec = json!({"priorityLevelConfiguration": {"name": "none"}, "matchingPrecedence": 50, "rules": [rule]});
    world.make(&format!("{group}/flowschemas"), json!({"metadata": {"name": "none"}, "spec": spec})).await;
    world.settle().await;
    let refused = world.ask_as("bob", "GET", "/api/v1/namespaces/team/pods", Value::Null).await;
    assert_eq!(refused.code, 429, "{}", refused.body);
    assert_eq!(world.ask_as("bob", "GET", "/api/v1/namespaces/other/pods", Value::Null).await.code, 200);
    assert_eq!(world.ask("GET", "/api/v1/namespaces/team/pods", Value::Null).await.code, 200);
}

#[tokio::test]
async fn documents_have_the_text_of_kube_apiserver() {
    let world = World::new().await;
    let resource = "{\"name\":\"configmaps\",\"singularName\":\"configmap\",\"namespaced\":true,\"kind\":\"ConfigMap\",\
         \"verbs\":[\"create\",\"delete\",\"deletecollection\",\"get\",\"list\",\"patch\",\"update\",\"watch\"],\
         \"shortNames\":[\"cm\"],\"storageVersionHash\":";
    let group = "{\"kind\":\"APIGroup\",\"apiVersion\":\"v1\",\"name\":\"apps\",\"versions\":[{\"groupVersion\":\"apps/v1\",\
         \"version\":\"v1\"}],\"preferredVersion\":{\"groupVersion\":\"apps/v1\",\"version\":\"v1\"}}";
    let aggregated = "{\"resource\":\"configmaps\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"ConfigMap\"},\
         \"scope\":\"Namespaced\",\"singularResource\":\"configmap\",\"verbs\":[";
    let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for (path, accept, expected) in [
        (
            "/api/v1",
            "application/json",
            "{\"kind\":\"APIResourceList\",\"groupVersion\":\"v1\",\"resources\":[{\"name\":",
        ),
        ("/api/v1", "application/json", resource),
        ("/apis/apps", "application/json", group),
        ("/apis", "application/json", "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[{\"name\":"),
        ("/api", "application/json", "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],"),
        ("/api", discovery, aggregated),
    ] {
        let (_, _, text) = send(&world, "GET", path, &[("accept", accept)], "").await;
        assert!(text.contains(expected), "{path} has no {expected}");
    }
    let (_, _, text) = send(&world, "GET", "/openapi/v2", &[("accept", "application/json")], "").await;
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let pods = "/api/v1/namespaces/{namespace}/pods";
    for (path, method, expected) in [
        (pods.to_owned(), "get", "list or watch objects of kind Pod"),
        (pods.to_owned(), "post", "create a Pod"),
        (pods.to_owned(), "delete", "delete collection of Pod"),
        (format!("{pods}/{{name}}"), "get", "read the specified Pod"),
        (format!("{pods}/{{name}}"), "patch", "partially update the specified Pod"),
        (format!("{pods}/{{name}}/status"), "put", "replace status of the specified Pod"),
        (format!("{pods}/{{name}}/exec"), "get", "connect GET requests to exec of Pod"),
        (format!("{pods}/{{name}}/eviction"), "post", "create eviction of a Pod"),
        ("/api/v1/namespaces/{namespace}/endpoints".to_owned(), "post", "create Endpoints"),
        ("/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses".to_owned(), "post", "create an Ingress"),
        ("/api/v1/".to_owned(), "get", "get available resources"),
    ] {
        assert_eq!(document["paths"][&path][method]["description"], expected, "{method} {path}");
    }
}

/// The fields of pkg/apis/events/v1/conversion.go. Both groups read the same objects.
#[tokio::test]
async fn events_are_selected_by_the_fields_of_their_group() {
    let world = World::new().await;
    let (core, group) = ("/api/v1/namespaces/team/events", "/apis/events.k8s.io/v1/namespaces/team/events");
    let regarding = json!({"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "p", "uid": "u-1",
        "resourceVersion": "7", "fieldPath": "spec"});
    let event = json!({"metadata": {"name": "mine"}, "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Make",
        "reason": "Made", "type": "Normal", "reportingController": "example.com/c", "reportingInstance": "i",
        "regarding": regarding});
    world.make(group, event).await;
    let other = json!({"metadata": {"name": "other"}, "involvedObject": {"kind": "Node", "namespace": "team"},
        "reason": "Seen", "type": "Warning"});
    let revision = world.make(core, other).await["metadata"]["resourceVersion"].as_str().expect("text").to_owned();
    let exact = format!("resourceVersion={revision}&resourceVersionMatch=Exact&limit=5");
    for selector in [
        "regarding.kind=Pod",
        "regarding.name=p",
        "regarding.uid=u-1",
        "regarding.apiVersion=v1",
        "regarding.resourceVersion=7",
        "regarding.fieldPath=spec",
        "regarding.namespace=team,regarding.kind!=Node",
        "reportingController=example.com/c",
        "source=example.com/c",
        "reason=Made",
        "type=Normal",
    ] {
        for more in ["", exact.as_str()] {
            let reply = world.ask("GET", &format!("{group}?fieldSelector={selector}&{more}"), Value::Null).await;
            let items = reply.body["items"].as_array().into_iter().flatten();
            let names: Vec<&str> = items.filter_map(|item| item["metadata"]["name"].as_str()).collect();
            assert_eq!(names, ["mine"], "{selector} {more}: {}", reply.body);
        }
    }
    let watch = "watch=true&resourceVersion=0&timeoutSeconds=1&fieldSelector=regarding.name=p";
    let (_, _, text) = send(&world, "GET", &format!("{group}?{watch}"), &[], "").await;
    let first: Value = serde_json::from_str(text.lines().next().unwrap_or_default()).expect("an event");
    assert_eq!((&first["type"], &first["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("mine")));
    for (path, field) in [(core, "regarding.name"), (group, "involvedObject.name")] {
        let reply = world.ask("GET", &format!("{path}?fieldSelector={field}=p"), Value::Null).await;
        assert_eq!(reply.message(), format!("field label not supported: {field}"));
    }
}

/// Rejects requests of one client, as the control plane does for commands that need running pods.
struct Advice;

#[async_trait]
impl Extension for Advice {
    fn handles(&self, _: &str) -> bool {
        false
    }

    fn rejection(&self, _: &RequestInfo, headers: &HeaderMap) -> Option<Status> {
        headers.get("kubectl-command").map(|_| Status::new(404, "NotFound", "use another command"))
    }

    async fn serve(&self, _: &Arc<Server>, _: ExtensionRequest) -> Result<Response<Body>, Status> {
        Err(Status::resource_not_served())
    }
}

#[tokio::test]
async fn a_rejection_about_a_missing_object_says_that_it_is_missing() {
    let world = World::extended(vec![Box::new(Advice)]).await;
    world.make(CONFIGMAPS, json!({"metadata": {"name": "there"}})).await;
    for (path, message) in [
        (format!("{CONFIGMAPS}/there"), "use another command"),
        (format!("{CONFIGMAPS}/abc"), "configmaps \"abc\" not found: use another command"),
        (CONFIGMAPS.to_owned(), "use another command"),
    ] {
        let (code, _, text) = send(&world, "GET", &path, &[("kubectl-command", "kubectl exec")], "").await;
        let status: Value = serde_json::from_str(&text).expect("a status");
        assert_eq!((code, &status["reason"], &status["message"]), (404, &json!("NotFound"), &json!(message)), "{path}");
    }
}
