//! Objects nested deeper than can be stored are refused by every write; those stored by an older version can be deleted.

mod admission_world;

use std::sync::Arc;
use std::time::Duration;

use admission_world::{Answer, Webhooks, World};
use apiserver::storage::Stored;
use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use object::depth::{self, DEPTH_MAX, READ_DEPTH_MAX};
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const BLOBS: &str = "/apis/example.com/v1/namespaces/team/blobs";

fn definition() -> Value {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "metadata": {"name": "blobs.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "blobs", "singular": "blob", "kind": "Blob", "listKind": "BlobList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free}}}}],
        },
    })
}

async fn world() -> World {
    let world = World::new().await;
    apiserver::prepare(&world.server, Vec::new()).await.expect("prepared");
    world.make(DEFINITIONS, definition()).await;
    for _ in 0..400 {
        if world.ask("GET", BLOBS, Value::Null).await.code == 200 {
            return world;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("blobs are not served");
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!({"x": inner}))
}

fn blob(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Blob", "metadata": {"name": name}, "spec": spec})
}

async fn send(world: &World, method: &str, path: &str, content_type: &str, body: String) -> (u16, String) {
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let request = request.header("authorization", "Bearer admin");
    let request = request.body(apiserver::http::RequestBody::Whole(body.into())).expect("a request");
    let address = "127.0.0.1:1".parse().expect("an address");
    let peer = Arc::new(apiserver::http::Peer { address, certificates: Vec::new(), server_name: None });
    let (parts, body) = apiserver::http::handle(world.server.clone(), peer, request).await.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    (parts.status.as_u16(), String::from_utf8_lossy(&bytes).into_owned())
}

/// Every object that was accepted is within the limit and can be deleted again.
async fn check_stored(world: &World, path: &str) {
    let (code, text) = send(world, "GET", path, "", String::new()).await;
    assert_eq!(code, 200, "{path}: {text}");
    assert!(depth::of_json(text.as_bytes()) <= DEPTH_MAX, "{path} is {} deep", depth::of_json(text.as_bytes()));
    let deleted = world.ask("DELETE", path, Value::Null).await;
    assert_eq!(deleted.code, 200, "{path}: {}", deleted.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn created_objects_are_refused_at_the_limit_and_deletable_below_it() {
    let world = world().await;
    let mut refused = 0;
    for depth in (58..=READ_DEPTH_MAX + 3).chain([1_000]) {
        let name = format!("b{depth}");
        let body = blob(&name, nested(depth)).to_string();
        // The YAML reader needs more stack for a level and stops at 64 of them.
        for (method, path, content_type, accepted_to) in [
            ("POST", BLOBS.to_owned(), "application/json", DEPTH_MAX - 10),
            ("POST", BLOBS.to_owned(), "application/yaml", 60),
            ("PATCH", format!("{BLOBS}/{name}?fieldManager=m"), "application/apply-patch+yaml", 60),
        ] {
            let (dry, _) = send(&world, method, &with_dry_run(&path), content_type, body.clone()).await;
            let (code, text) = send(&world, method, &path, content_type, body.clone()).await;
            assert_eq!(dry, code, "{depth} {content_type}: {text}");
            match code {
                201 => check_stored(&world, &format!("{BLOBS}/{name}")).await,
                400 | 422 => refused += 1,
                other => panic!("{depth} {content_type}: {other} {text}"),
            }
            assert!(code != 201 || depth <= DEPTH_MAX, "{depth} {content_type}");
            assert!(code == 201 || depth > accepted_to, "{depth} {content_type}: {text}");
        }
    }
    assert!(refused > 50);
}

fn with_dry_run(path: &str) -> String {
    format!("{path}{}dryRun=All", if path.contains('?') { '&' } else { '?' })
}

/// A JSON patch that moves what it has nested into what it nests next.
fn moves(base: &str, rounds: usize, levels: usize) -> Value {
    let mut operations = vec![json!({"op": "add", "path": format!("{base}/q0"), "value": {}})];
    for round in 0..rounds {
        let (from, to) = (round % 2, (round + 1) % 2);
        operations.push(json!({"op": "add", "path": format!("{base}/q{to}"), "value": nested(levels)}));
        let path = format!("{base}/q{to}{}", "/x".repeat(levels));
        operations.push(json!({"op": "move", "from": format!("{base}/q{from}"), "path": path}));
    }
    Value::from(operations)
}

#[tokio::test(flavor = "multi_thread")]
async fn patches_cannot_nest_an_object_deeper_than_the_limit() {
    let world = world().await;
    world.make(BLOBS, blob("b", json!({"q0": {}}))).await;
    // The form of a Work, whose manifests are free-form.
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    world.make(BLOBS, blob("w", json!({"workload": {"manifests": [manifest]}}))).await;
    world.make("/api/v1/namespaces/team/configmaps", json!({"metadata": {"name": "c"}})).await;
    let json_patch = "application/json-patch+json";
    let merge = "application/merge-patch+json";
    let cases = [
        (format!("{BLOBS}/b"), json_patch, moves("/spec", 200, 99)),
        (format!("{BLOBS}/b"), json_patch, moves("/spec", 4_000, 20)),
        (format!("{BLOBS}/w"), json_patch, moves("/spec/workload/manifests/0", 10, 20)),
        ("/api/v1/namespaces/team/configmaps/c".to_owned(), json_patch, moves("", 200, 99)),
        (format!("{BLOBS}/b"), merge, json!({"spec": nested(110)})),
        (format!("{BLOBS}/w"), merge, json!({"spec": {"workload": {"manifests": [nested(110)]}}})),
    ];
    for (path, content_type, body) in cases {
        let (code, text) = send(&world, "PATCH", &path, content_type, body.to_string()).await;
        assert_eq!(code, 422, "{path}: {text}");
        assert!(text.contains("levels deep"), "{text}");
    }
    for path in [format!("{BLOBS}/b"), format!("{BLOBS}/w")] {
        check_stored(&world, &path).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_cannot_nest_an_object_deeper_than_the_limit() {
    let (world, hooks) = (world().await, Webhooks::start().await);
    let rules =
        json!([{"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["blobs"], "operations": ["*"]}]);
    hooks.answers("deepens", Answer::allow());
    let hook = hooks.hook("deepens", json!({"rules": rules}));
    world
        .configure("mutatingwebhookconfigurations", json!({"metadata": {"name": "deepens"}, "webhooks": [hook]}))
        .await;
    let add = |levels: usize| json!([{"op": "add", "path": "/spec/q", "value": nested(levels)}]);
    for (patch, is_stored) in [
        (add(40), true),
        (moves("/spec", 2, 20), true),
        (add(110), false),
        (moves("/spec", 200, 99), false),
        (moves("/spec", 4_000, 20), false),
    ] {
        hooks.answers("deepens", Answer::patch(patch));
        let made = world.ask("POST", BLOBS, blob("b", json!({}))).await;
        let path = format!("{BLOBS}/b");
        if is_stored {
            assert_eq!(made.code, 201, "{}", made.body);
            hooks.answers("deepens", Answer::allow());
            check_stored(&world, &path).await;
        } else {
            assert!(matches!(made.code, 422 | 500), "{}", made.body);
            assert!(made.message().contains("levels deep"), "{}", made.message());
            assert_eq!(world.ask("GET", &path, Value::Null).await.code, 404, "nothing is stored");
        }
    }
    // A response that no reader accepts fails the call.
    let inner = "[".repeat(300) + &"]".repeat(300);
    hooks.answers("deepens", Answer::Text(format!(r#"{{"response":{inner}}}"#)));
    let made = world.ask("POST", BLOBS, blob("b", json!({}))).await;
    assert_eq!(made.code, 500, "{}", made.body);
}

/// Puts an object into the store as a version without a depth limit could.
async fn store_deep(world: &World, name: &str, depth: usize, finalizers: &str) {
    let inner = "[".repeat(depth) + &"]".repeat(depth);
    let bytes = format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Blob","metadata":{{"name":"{name}","namespace":"team","uid":"u-{name}","finalizers":{finalizers}}},"spec":{{"a":{inner}}}}}"#
    );
    let resource = world.server.registry.find("example.com", "v1", "blobs").expect("served");
    let key = resource.key("team", name);
    world.server.objects.store().create(&key, Bytes::from(bytes), None).await.expect("stored");
    world.settle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_were_stored_too_deep_can_be_read_and_deleted() {
    let world = world().await;
    for depth in [DEPTH_MAX, READ_DEPTH_MAX, 1_000, 500_000] {
        store_deep(&world, "plain", depth, "[]").await;
        let path = format!("{BLOBS}/plain");
        let (code, text) = send(&world, "GET", &path, "", String::new()).await;
        assert_eq!((code, depth::of_json(text.as_bytes())), (200, depth + 2));
        let deleted = world.ask("DELETE", &path, Value::Null).await;
        assert_eq!(deleted.code, 200, "{depth}: {}", deleted.body);

        store_deep(&world, "guarded", depth, r#"["example.com/f"]"#).await;
        let path = format!("{BLOBS}/guarded");
        assert_eq!(world.ask("DELETE", &path, Value::Null).await.code, 200);
        let (code, text) = send(&world, "GET", &path, "", String::new()).await;
        assert!(code == 200 && text.contains("deletionTimestamp"), "{code}");
        let freed = world.ask("PATCH", &path, json!({"metadata": {"finalizers": null}})).await;
        assert_eq!(freed.code, 200, "{depth}: {}", freed.body);
        assert_eq!(world.ask("GET", &path, Value::Null).await.code, 404);

        store_deep(&world, "many", depth, "[]").await;
        let deleted = world.ask("DELETE", BLOBS, Value::Null).await;
        assert_eq!(deleted.code, 200, "{depth}");
        assert_eq!(world.ask("GET", BLOBS, Value::Null).await.body["items"], json!([]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_was_stored_too_deep_can_be_changed_but_not_deepened() {
    let world = world().await;
    store_deep(&world, "b", 110, "[]").await;
    let path = format!("{BLOBS}/b");
    let labelled = world.ask("PATCH", &path, json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!((labelled.code, labelled.warnings.len()), (200, 0), "{}", labelled.body);
    let (code, _) = send(
        &world,
        "PATCH",
        &path,
        "application/json-patch+json",
        json!([{"op": "add", "path": "/spec/c", "value": {}}, {"op": "move", "from": "/spec/a", "path": "/spec/c/a"}])
            .to_string(),
    )
    .await;
    assert_eq!(code, 422);

    store_deep(&world, "cut", 5_000, "[]").await;
    let path = format!("{BLOBS}/cut");
    let labelled = world.ask("PATCH", &path, json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!((labelled.code, labelled.warnings.len()), (200, 1), "{}", labelled.body);
    let mut whole = blob("cut", json!({"a": 1}));
    whole["metadata"]["resourceVersion"] = labelled.body["metadata"]["resourceVersion"].clone();
    let replaced = world.ask("PUT", &path, whole).await;
    assert_eq!(replaced.code, 200, "{}", replaced.body);
    check_stored(&world, &path).await;
}

#[test]
fn in_process_readers_do_not_panic_on_a_deep_entry() {
    let inner = "[".repeat(200_000) + &"]".repeat(200_000);
    let bytes = format!(r#"{{"apiVersion":"v1","kind":"A","metadata":{{"name":"a"}},"spec":{inner}}}"#);
    let stored = Stored::new(Bytes::from(bytes), 7).expect("it has metadata");
    assert_eq!(stored.decode().expect("readable").resource_version(), "7");
    assert_eq!(stored.decode_unmanaged().expect("readable").name(), "a");
}
