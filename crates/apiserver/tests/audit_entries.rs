//! Every request has exactly one final audit entry, whatever its end, and no entry contains a credential.

mod admission_world;

use std::sync::Arc;
use std::time::Duration;

use admission_world::World;
use apiserver::admission::{Admission, AdmissionScope, Attributes};
use apiserver::audit::{Level, Policy};
use apiserver::context::Context;
use apiserver::direct::Direct;
use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use cluster_client::call::{ApiRequest, ResourceRef};
use cluster_client::{ClusterClient, Endpoint, Identity, User};
use http::Response;
use object::{GroupVersionResource, Object, Status};
use serde_json::{Value, json};

const CONFIGMAPS: &str = "/api/v1/namespaces/team/configmaps";
/// Longer than any request of these tests takes.
const DEADLINE: Duration = Duration::from_secs(30);

fn everything(level: &str) -> Policy {
    let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{{level: {level}}}]");
    Policy::parse(&text).expect("a policy")
}

/// Paths whose handler fails, does not end, or issues a credential.
struct Odd;

#[async_trait]
impl Extension for Odd {
    fn handles(&self, path: &str) -> bool {
        path.starts_with("/flotilla/")
    }

    async fn serve(&self, _: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        match request.incoming.info.path.as_str() {
            "/flotilla/panic" => panic!("a fault that the test causes"),
            "/flotilla/hang" => std::future::pending().await,
            _ => Ok(respond::value(200, &json!({"kubeconfig": "hunter2", "name": "visible"}))),
        }
    }
}

/// A step with a fault.
struct Faulty;

#[async_trait]
impl Admission for Faulty {
    fn name(&self) -> &'static str {
        "Faulty"
    }

    async fn mutate(
        &self,
        _: AdmissionScope<'_>,
        _: &Context,
        _: &Attributes<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        assert!(object.annotation("fault").is_none(), "a fault that the test causes");
        Ok(())
    }
}

async fn world(level: &str) -> World {
    World::recorded(everything(level), vec![Box::new(Faulty)], vec![Box::new(Odd)]).await
}

fn is_final(event: &Value) -> bool {
    event["stage"] == "ResponseComplete" || event["stage"] == "Panic"
}

/// The final entry of the newest request to this path; asserts that it is the only one of its request.
fn final_entry(world: &World, path: &str) -> Value {
    let events = world.audit_events();
    let of_path = |event: &&Value| is_final(event) && event["requestURI"] == path;
    let found = events.iter().rfind(of_path).unwrap_or_else(|| panic!("no entry of {path}"));
    let same = events.iter().filter(|event| is_final(event) && event["auditID"] == found["auditID"]);
    assert_eq!(same.count(), 1, "{path}: one final entry");
    found.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_recorded_once() {
    let world = world("Metadata").await;
    let faulty = json!({"metadata": {"name": "f", "annotations": {"fault": "yes"}}});
    // User, method, path, body; code and stage of the entry.
    let cases = [
        ("admin", "GET", "/api/v1/namespaces/team", Value::Null, 200, "ResponseComplete"),
        ("admin", "GET", "/api/v1/namespaces/absent", Value::Null, 404, "ResponseComplete"),
        ("admin", "GET", "/apis/absent.example.com/v1/things", Value::Null, 404, "ResponseComplete"),
        ("admin", "POST", CONFIGMAPS, json!({"metadata": {"name": "a"}}), 201, "ResponseComplete"),
        ("admin", "POST", CONFIGMAPS, json!({"metadata": {"name": "A?"}}), 422, "ResponseComplete"),
        ("admin", "POST", CONFIGMAPS, json!("no object"), 400, "ResponseComplete"),
        ("admin", "DELETE", "/version", Value::Null, 405, "ResponseComplete"),
        ("admin", "GET", "/api/v1/namespaces/%zz", Value::Null, 400, "ResponseComplete"),
        ("bob", "GET", "/api/v1/namespaces/team/secrets/s", Value::Null, 403, "ResponseComplete"),
        ("unknown", "GET", "/api/v1/namespaces/team/pods/p", Value::Null, 401, "ResponseComplete"),
        ("admin", "GET", "/flotilla/panic", Value::Null, 500, "Panic"),
        ("admin", "POST", CONFIGMAPS, faulty, 500, "Panic"),
    ];
    for (user, method, path, body, code, stage) in cases {
        let reply = world.ask_as(user, method, path, body).await;
        assert_eq!(reply.code, code, "{method} {path}: {}", reply.body);
        let entry = final_entry(&world, path);
        assert_eq!((&entry["responseStatus"]["code"], &entry["stage"]), (&json!(code), &json!(stage)), "{entry}");
        let name = if user == "unknown" { Value::Null } else { json!(user) };
        if code != 400 || method == "POST" {
            assert_eq!(entry["user"]["username"], name, "{entry}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_response_is_recorded_before_and_after_its_client_is_gone() {
    let world = Arc::new(world("Metadata").await);
    let asking = Arc::clone(&world);
    let request = tokio::spawn(async move { asking.ask("GET", "/flotilla/hang", Value::Null).await.code });
    let entries = || world.audit_events().into_iter().filter(|event| event["requestURI"] == "/flotilla/hang");
    let received = async {
        while entries().count() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    // In the file while the request runs, so that it is there if the process ends now.
    tokio::time::timeout(DEADLINE, received).await.expect("an entry");
    assert!(entries().all(|event| event["stage"] == "RequestReceived" && event["user"]["username"] == "admin"));
    request.abort();
    assert!(request.await.is_err());
    assert_eq!(final_entry(&world, "/flotilla/hang")["responseStatus"]["code"], 499);
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_in_the_process_are_recorded_like_clients() {
    let world = world("RequestResponse").await;
    let server = Arc::new(Direct::new(world.server.clone()));
    let identity = Identity::of(User::new("system:serviceaccount:kube-system:c", &["system:masters"]));
    let client = ClusterClient::connect(Endpoint::Direct { server, identity }).expect("it is in process");
    let target = |resource: &str| ResourceRef::within(&GroupVersionResource::new("", "v1", resource), "team");
    let create = |name: &str, more: Value| {
        let mut object = json!({"metadata": {"name": name, "namespace": "team"}});
        object.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        ApiRequest::Create { object: Object::from_value(object).expect("an object"), options: Default::default() }
    };
    let secret = json!({"data": {"password": "aHVudGVyMg=="}});
    client.call(target("secrets"), create("s", secret)).await.expect("created");
    let entry = final_entry(&world, "/api/v1/namespaces/team/secrets");
    assert_eq!(entry["userAgent"], "in-process");
    assert_eq!(entry["user"]["username"], "system:serviceaccount:kube-system:c");
    assert_eq!(entry["requestObject"]["metadata"]["name"], "s");
    assert_eq!(entry["responseStatus"]["code"], 201);

    let refused = client.call(target("absent"), create("x", json!({}))).await;
    assert_eq!(refused.err().map(|status| status.code), Some(404));
    assert_eq!(final_entry(&world, "/api/v1/namespaces/team/absent")["responseStatus"]["code"], 404);

    let fault = json!({"metadata": {"name": "f", "namespace": "team", "annotations": {"fault": "yes"}}});
    let (call, request) = (client.clone(), create("f", fault));
    let configmaps = target("configmaps");
    let failed = tokio::spawn(async move { call.call(configmaps, request).await.is_ok() }).await;
    assert!(failed.is_err_and(|error| error.is_panic()));
    assert_eq!(final_entry(&world, CONFIGMAPS)["stage"], "Panic");
    assert!(!all_text(&world).contains("aHVudGVyMg"));
}

fn all_text(world: &World) -> String {
    world.audit_events().iter().map(Value::to_string).collect()
}

/// At each level the parts of a request that are recorded; credentials in none of them.
#[tokio::test(flavor = "multi_thread")]
async fn each_level_records_its_parts_without_credentials() {
    let login = json!({"user": "visible", "password": "hunter2"});
    for level in ["None", "Metadata", "Request", "RequestResponse"] {
        let world = world(level).await;
        assert_eq!(world.ask("POST", "/flotilla/login?token=hunter2&a=b", login.clone()).await.code, 200);
        assert_eq!(world.ask("POST", CONFIGMAPS, json!({"metadata": {"name": "visible"}})).await.code, 201);
        let secret = json!({"metadata": {"name": "s"}, "stringData": {"a": "hunter2"}});
        assert_eq!(world.ask("POST", "/api/v1/namespaces/team/secrets", secret).await.code, 201);
        let patch = json!({"stringData": {"b": "hunter2"}});
        assert_eq!(world.ask("PATCH", "/api/v1/namespaces/team/secrets/s", patch).await.code, 200);
        let text = all_text(&world);
        assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{level}: {text}");
        if level == Level::None.name() {
            assert_eq!(text, "");
            continue;
        }
        let entry = final_entry(&world, "/flotilla/login?token=<masked>&a=b");
        assert_eq!(entry["requestObject"].is_object(), level != "Metadata", "{entry}");
        assert_eq!(entry["responseObject"].is_object(), level == "RequestResponse", "{entry}");
        // `audit_events` reads every line with the depth limit of a usual reader.
        let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(world.ask("PUT", "/api/v1/namespaces/team/configmaps/visible", deep).await.code, 400);
        let deep = final_entry(&world, "/api/v1/namespaces/team/configmaps/visible");
        assert!(deep["requestObject"].is_null(), "{deep}");
        let noted = deep["annotations"]["audit.flotilla.io/requestObject"].is_string();
        assert_eq!(noted, level != "Metadata", "{deep}");
        let entry = final_entry(&world, CONFIGMAPS);
        assert_eq!(entry["requestObject"]["metadata"]["name"] == "visible", level != "Metadata", "{entry}");
        assert_eq!(entry["responseObject"]["metadata"]["name"] == "visible", level == "RequestResponse", "{entry}");
    }
}
