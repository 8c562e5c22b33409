//! Clients that speak protobuf: bodies, answers, lists, watches and errors.

mod admission_world;

use std::sync::Arc;

use admission_world::World;
use apiserver::http::{Peer, RequestBody, handle};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use kinds::protobuf;
use serde_json::{Value, json};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/team/deployments";

/// A request whose body, if any, goes as protobuf.
async fn send(
    world: &World,
    method: &str,
    path: &str,
    accept: &str,
    body: Value,
) -> Response<apiserver::respond::Body> {
    let body = match &body {
        Value::Object(object) => protobuf::encode(object).expect("a built-in kind"),
        _ => Vec::new(),
    };
    let request = Request::builder().method(method).uri(path).header("authorization", "Bearer admin");
    let request = request.header("content-type", PROTOBUF).header("accept", accept);
    let request = request.body(RequestBody::Whole(body.into())).expect("a request");
    let peer = Arc::new(Peer {
        address: "127.0.0.1:1".parse().expect("an address"),
        certificates: Vec::new(),
        server_name: None,
    });
    handle(world.server.clone(), peer, request).await
}

/// Code, content type and document of the answer.
async fn ask(world: &World, method: &str, path: &str, accept: &str, body: Value) -> (u16, String, Value) {
    let response = send(world, method, path, accept, body).await;
    let (parts, body) = response.into_parts();
    let content_type = parts.headers["content-type"].to_str().expect("text").to_owned();
    let bytes = body.collect().await.expect("a body").to_bytes();
    let document = if content_type == PROTOBUF {
        protobuf::decode(&bytes).expect("readable")
    } else {
        serde_json::from_slice(&bytes).unwrap_or(Value::Null)
    };
    (parts.status.as_u16(), content_type, document)
}

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx", "resources": {"limits": {"cpu": "100m"}}}]},
            },
        },
    })
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            map.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[tokio::test]
async fn objects_written_as_protobuf_read_the_same_as_json() {
    let world = World::new().await;
    let (code, content_type, created) = ask(&world, "POST", DEPLOYMENTS, PROTOBUF, deployment("web")).await;
    assert_eq!((code, content_type.as_str()), (201, PROTOBUF), "{created}");
    assert_eq!(created["spec"]["replicas"], 0);
    let path = format!("{DEPLOYMENTS}/web");
    let (_, content_type, as_json) = ask(&world, "GET", &path, "application/json", Value::Null).await;
    assert_eq!(content_type, "application/json");
    let (_, _, as_protobuf) = ask(&world, "GET", &path, PROTOBUF, Value::Null).await;
    assert_eq!(without_nulls(as_protobuf), without_nulls(as_json));

    let (_, _, list) = ask(&world, "GET", DEPLOYMENTS, PROTOBUF, Value::Null).await;
    assert_eq!((&list["kind"], &list["items"][0]["metadata"]["name"]), (&json!("DeploymentList"), &json!("web")));
    let (_, _, partial) = ask(&world, "GET", &path, METADATA, Value::Null).await;
    assert_eq!((&partial["kind"], &partial["metadata"]["name"]), (&json!("PartialObjectMetadata"), &json!("web")));
}

#[tokio::test]
async fn delete_options_and_refusals_travel_as_protobuf() {
    let world = World::new().await;
    ask(&world, "POST", DEPLOYMENTS, PROTOBUF, deployment("web")).await;
    let path = format!("{DEPLOYMENTS}/web");
    let options =
        |uid: &Value| json!({"apiVersion": "apps/v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}});
    let (code, content_type, status) = ask(&world, "DELETE", &path, PROTOBUF, options(&json!("another"))).await;
    assert_eq!((code, content_type.as_str(), &status["reason"]), (409, PROTOBUF, &json!("Conflict")), "{status}");
    let (_, _, current) = ask(&world, "GET", &path, PROTOBUF, Value::Null).await;
    let (code, _, status) = ask(&world, "DELETE", &path, PROTOBUF, options(&current["metadata"]["uid"])).await;
    assert_eq!((code, &status["status"]), (200, &json!("Success")), "{status}");
    let (code, content_type, status) = ask(&world, "GET", &path, PROTOBUF, Value::Null).await;
    assert_eq!((code, content_type.as_str(), &status["details"]["name"]), (404, PROTOBUF, &json!("web")));
}

#[tokio::test]
async fn a_watch_sends_frames_with_their_length() {
    let world = World::new().await;
    ask(&world, "POST", DEPLOYMENTS, PROTOBUF, deployment("web")).await;
    let path = format!("{DEPLOYMENTS}?watch=true&resourceVersion=0");
    let response = send(&world, "GET", &path, PROTOBUF, Value::Null).await;
    assert_eq!(response.headers()["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
    let mut body = response.into_body();
    let frame: Bytes = body.frame().await.expect("a change").expect("readable").into_data().expect("data");
    let length = u32::from_be_bytes(frame[..4].try_into().expect("four bytes")) as usize;
    assert!(frame.len() >= length + 4, "{} < {length}", frame.len());
    assert_eq!(&frame[4..11], b"\x0a\x05ADDED");
    let start = frame.windows(4).position(|window| window == protobuf::MAGIC).expect("an enveloped object");
    let object = protobuf::decode(&frame[start..length + 4]).expect("readable");
    assert_eq!((&object["kind"], &object["metadata"]["name"]), (&json!("Deployment"), &json!("web")));
}
