//! Selection of webhooks, their requests, and the handling of responses.

use parking_lot::Mutex;

use super::*;

/// Responds with these fields, and records the requests.
struct Scripted {
    fields: Value,
    calls: Mutex<Vec<WebhookCall>>,
}

#[async_trait]
impl WebhookCaller for Scripted {
    async fn call(&self, call: WebhookCall) -> Result<Value, String> {
        let mut response = json!({"uid": call.body["request"]["uid"], "successful": true});
        object::patch::merge::apply(&mut response, &self.fields).expect("merges");
        self.calls.lock().push(call);
        Ok(json!({"response": response}))
    }
}

fn configuration(name: &str, webhooks: Value) -> Arc<Object> {
    let value = json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": {"name": name}, "webhooks": webhooks});
    Arc::new(Object::from_value(value).expect("a map"))
}

fn rule(operations: &[&str], group: &str, version: &str, kind: &str) -> Value {
    json!({"operations": operations, "apiGroups": [group], "apiVersions": [version], "kinds": [kind]})
}

fn hook(name: &str, rules: Value) -> Value {
    json!({"name": name, "rules": rules, "interpreterContextVersions": ["v9", "v1alpha1"],
        "clientConfig": {"url": "https://example.test/interpret"}, "timeoutSeconds": 3})
}

fn workload() -> Object {
    let value = json!({"apiVersion": "example.io/v1", "kind": "Workload",
        "metadata": {"name": "w", "namespace": "ns"}, "spec": {"replicas": 2}});
    Object::from_value(value).expect("a map")
}

/// One webhook for everything, which responds with these fields.
fn answering(fields: Value) -> (Webhooks, Arc<Scripted>) {
    let caller = Arc::new(Scripted { fields, calls: Mutex::new(Vec::new()) });
    let all = configuration("all", json!([hook("hook", json!([rule(&["*"], "*", "*", "*")]))]));
    (Webhooks::new(&[all], caller.clone()), caller)
}

#[test]
fn the_matching_webhook_with_the_smallest_name_is_called() {
    let gvk = workload().gvk();
    let webhooks = Webhooks::new(
        &[
            configuration("b", json!([hook("all", json!([rule(&["*"], "*", "*", "*")]))])),
            configuration(
                "a",
                json!([
                    hook("z", json!([rule(&["InterpretHealth"], "example.io", "v1", "Workload")])),
                    hook(
                        "y",
                        json!([
                            rule(&["InterpretHealth", "Retain"], "example.io", "*", "Workload"),
                            rule(&["InterpretReplica"], "other.io", "v1", "Workload")
                        ])
                    ),
                ]),
            ),
        ],
        Arc::new(NoWebhooks),
    );
    let picked = |operation| webhooks.pick(&gvk, operation).map(|hook| hook.uid.as_str());
    assert_eq!(picked(Operation::InterpretHealth), Some("a/y"));
    assert_eq!(picked(Operation::Retain), Some("a/y"));
    assert_eq!(picked(Operation::InterpretReplica), Some("b/all"));
    let none = Webhooks::new(&[configuration("a", json!([hook("x", json!([]))]))], Arc::new(NoWebhooks));
    assert!(!none.has_hook(&gvk, Operation::Retain));
}

#[tokio::test]
async fn the_request_contains_the_operation_and_inputs() {
    let (webhooks, caller) = answering(json!({}));
    let observed = workload();
    let items = [AggregatedStatusItem { cluster_name: "m1".into(), ..Default::default() }];
    let question = OperationInputs { replicas: 5, observed: Some(&observed), items: &items };
    let answer = webhooks.patched(&workload(), Operation::Retain, question).await.expect("asked");
    assert_eq!(answer, Ok(workload()), "no patch changes nothing");
    let call = caller.calls.lock()[0].clone();
    assert_eq!((call.uid.as_str(), call.timeout_seconds), ("all/hook", Some(3)));
    assert_eq!(call.client_config, json!({"url": "https://example.test/interpret"}));
    assert_eq!(call.body["kind"], "ResourceInterpreterContext");
    let mut request = call.body["request"].clone();
    assert!(request["uid"].as_str().is_some_and(|uid| uid.len() == 36));
    request["uid"] = Value::Null;
    assert_eq!(
        request,
        json!({"uid": null, "kind": {"group": "example.io", "version": "v1", "kind": "Workload"}, "name": "w",
            "namespace": "ns", "operation": "Retain", "object": workload().to_value(), "replicas": 5,
            "observedObject": workload().to_value(), "aggregatedStatus": [{"clusterName": "m1"}]})
    );
    webhooks.is_healthy(&workload()).await.expect("asked").expect_err("no answer");
    assert_eq!(caller.calls.lock()[1].body["request"]["replicas"], 0, "always there");
}

#[tokio::test]
async fn responses_contain_the_result_of_the_operation() {
    let object = workload();
    let (webhooks, _) = answering(json!({"replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}}));
    let (replicas, requirements) = webhooks.replicas(&object).await.expect("asked").expect("answered");
    assert_eq!((replicas, requirements.expect("some").resource_request.len()), (3, 1));
    let (webhooks, _) = answering(json!({"components": [{"name": "a", "replicas": 1}]}));
    assert_eq!(webhooks.components(&object).await.expect("asked").expect("answered").len(), 1);
    let (webhooks, _) = answering(json!({"dependencies": [{"apiVersion": "v1", "kind": "Secret", "name": "s"}]}));
    assert_eq!(webhooks.dependencies(&object).await.expect("asked").expect("answered")[0].name, "s");
    let (webhooks, _) = answering(json!({"rawStatus": {"a": 1}, "healthy": false}));
    assert_eq!(webhooks.reflect_status(&object).await, Some(Ok(json!({"a": 1}))));
    assert_eq!(webhooks.is_healthy(&object).await, Some(Ok(false)));
    let patch = STANDARD.encode(r#"[{"op": "replace", "path": "/spec/replicas", "value": 9}]"#);
    let (webhooks, _) = answering(json!({"patch": patch, "patchType": "JSONPatch"}));
    let patched = webhooks.patched(&object, Operation::ReviseReplica, OperationInputs::default()).await.expect("asked");
    assert_eq!(patched.expect("answered").i64_at(&["spec", "replicas"]), Some(9));
}

#[tokio::test]
async fn incomplete_responses_are_errors() {
    let patch = STANDARD.encode("[]");
    let bad = STANDARD.encode(r#"[{"op": "remove", "path": "/spec/nothing"}]"#);
    let cases = [
        (
            Operation::InterpretReplica,
            json!({}),
            "received invalid webhook response: webhook returned nil response.replicas",
        ),
        (Operation::InterpretStatus, json!({}), "webhook returned nil response.rawStatus"),
        (Operation::InterpretHealth, json!({}), "webhook returned nil response.healthy"),
        (Operation::InterpretDependency, json!({"dependencies": [{"kind": "Secret"}]}), "missing required apiVersion"),
        (Operation::Retain, json!({"patch": patch}), "webhook returned nil response.patchType"),
        (Operation::Retain, json!({"patchType": "JSONPatch"}), "webhook returned empty response.patch"),
        (Operation::Retain, json!({"patch": patch, "patchType": "Merge"}), "invalid response.patchType of \"Merge\""),
        (Operation::Retain, json!({"patch": "%", "patchType": "JSONPatch"}), "response.patch cannot be read"),
        (Operation::Retain, json!({"patch": bad, "patchType": "JSONPatch"}), "nothing"),
        (
            Operation::Retain,
            json!({"successful": false}),
            "webhook require response.status when response.successful is false",
        ),
        (
            Operation::Retain,
            json!({"successful": false, "status": {"code": 500, "message": "broken"}}),
            "Internal error occurred: failed calling webhook \"all/hook\": webhook call failed, get status code: 500, msg: broken",
        ),
        (Operation::Retain, json!({"uid": "other"}), "expected response.uid "),
    ];
    for (operation, fields, expected) in cases {
        let (webhooks, _) = answering(fields.clone());
        let object = workload();
        let error = match operation {
            Operation::InterpretReplica => webhooks.replicas(&object).await.expect("asked").map(drop),
            Operation::InterpretStatus => webhooks.reflect_status(&object).await.expect("asked").map(drop),
            Operation::InterpretHealth => webhooks.is_healthy(&object).await.expect("asked").map(drop),
            Operation::InterpretDependency => webhooks.dependencies(&object).await.expect("asked").map(drop),
            _ => webhooks.patched(&object, operation, OperationInputs::default()).await.expect("asked").map(drop),
        };
        let error = error.expect_err(expected);
        assert!(error.0.contains(expected), "{fields}: {error}");
    }
}

#[tokio::test]
async fn a_webhook_that_cannot_be_called_is_an_error() {
    let all = json!([rule(&["*"], "*", "*", "*")]);
    let webhooks = Webhooks::new(&[configuration("c", json!([hook("h", all.clone())]))], Arc::new(NoWebhooks));
    let error = webhooks.is_healthy(&workload()).await.expect("asked").expect_err("no socket");
    assert!(error.0.contains("failed to call webhook: webhook c/h cannot be called from here"), "{error}");
    let mut old = hook("h", all);
    old["interpreterContextVersions"] = json!(["v2"]);
    let webhooks = Webhooks::new(&[configuration("c", json!([old]))], Arc::new(NoWebhooks));
    let error = webhooks.is_healthy(&workload()).await.expect("asked").expect_err("another version");
    assert!(
        error.0.contains("webhook does not accept known ResourceInterpreterContext versions (v1alpha1)"),
        "{error}"
    );
}
