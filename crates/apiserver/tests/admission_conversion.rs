//! Custom resources of several versions whose author converts between them by a webhook.

mod admission_world;

use std::time::Duration;

use admission_world::{Answer, Webhooks, World};
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(client_config: Value) -> Value {
    let version = |name: &str, storage: bool, field: &str| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"spec": {"type": "object", "properties": {field: {"type": "string"}}}}}}})
    };
    json!({
        "metadata": {"name": "hosts.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "hosts", "singular": "host", "kind": "Host", "listKind": "HostList"},
            "versions": [version("v1", true, "address"), version("v1old", false, "ip")],
            "conversion": {"strategy": "Webhook",
                "webhook": {"clientConfig": client_config, "conversionReviewVersions": ["v1"]}},
        },
    })
}

/// Renames the one field that differs between the versions.
fn convert(request: &Value) -> Value {
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let (from, to) = if wanted == "example.com/v1" { ("ip", "address") } else { ("address", "ip") };
    let objects = request["objects"].as_array().cloned().unwrap_or_default();
    let converted: Vec<Value> = objects
        .into_iter()
        .map(|mut object| {
            object["apiVersion"] = wanted.into();
            object["spec"] = json!({to: object["spec"][from]});
            object
        })
        .collect();
    json!({"result": {"status": "Success"}, "convertedObjects": converted})
}

async fn wait_for(world: &World, path: &str, code: u16) {
    for _ in 0..200 {
        if world.ask("GET", path, Value::Null).await.code == code {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{path} does not answer {code}");
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_returned_and_stored_in_the_requested_version() {
    let world = World::new().await;
    apiserver::prepare(&world.server, Vec::new()).await.expect("prepared");
    let hooks = Webhooks::start().await;
    hooks.answers("convert", Answer::Says(Box::new(convert)));
    world.make(DEFINITIONS, definition(hooks.hook("convert", json!({}))["clientConfig"].clone())).await;
    let (new, old) = ("/apis/example.com/v1/namespaces/team/hosts", "/apis/example.com/v1old/namespaces/team/hosts");
    wait_for(&world, new, 200).await;

    let made = json!({"apiVersion": "example.com/v1old", "kind": "Host", "metadata": {"name": "a"}, "spec": {"ip": "10.1.1.1"}});
    let made = world.make(old, made).await;
    assert_eq!(made["spec"], json!({"ip": "10.1.1.1"}));
    let shown = world.ask("GET", &format!("{new}/a"), Value::Null).await;
    assert_eq!(shown.body["spec"], json!({"address": "10.1.1.1"}), "{}", shown.body);
    let patched = world.ask("PATCH", &format!("{old}/a"), json!({"spec": {"ip": "10.2.2.2"}})).await;
    assert_eq!(patched.body["spec"], json!({"ip": "10.2.2.2"}), "{}", patched.body);
    let listed = world.ask("GET", new, Value::Null).await;
    assert_eq!(listed.body["items"][0]["spec"], json!({"address": "10.2.2.2"}));
    let listed = world.ask("GET", old, Value::Null).await;
    assert_eq!(listed.body["items"][0]["apiVersion"], "example.com/v1old");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_conversion_has_a_reason() {
    let world = World::new().await;
    apiserver::prepare(&world.server, Vec::new()).await.expect("prepared");
    let hooks = Webhooks::start().await;
    let refusal = json!({"result": {"status": "Failure", "message": "no such thing"}});
    hooks.answers("convert", Answer::response(refusal));
    world.make(DEFINITIONS, definition(hooks.hook("convert", json!({}))["clientConfig"].clone())).await;
    let (new, old) = ("/apis/example.com/v1/namespaces/team/hosts", "/apis/example.com/v1old/namespaces/team/hosts");
    wait_for(&world, new, 200).await;
    world
        .make(new, json!({"apiVersion": "example.com/v1", "kind": "Host", "metadata": {"name": "a"}, "spec": {}}))
        .await;
    let refused = world.ask("GET", &format!("{old}/a"), Value::Null).await;
    assert_eq!(refused.code, 500);
    assert!(refused.message().contains("no such thing"), "{}", refused.message());
}
