//! Selection of webhooks, their requests, and the handling of responses.

use std::borrow::Cow;

use jiff::Timestamp;

use super::*;
use crate::customization::Scripts;
use crate::lua::Run;
use crate::pod::PodOptions;
use crate::question::{Components, Dependencies, Health, ReflectStatus, Replicas, Retain, ReviseReplicas};

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

fn hooks(configurations: &[Arc<Object>]) -> Webhooks {
    let mut problems = Vec::new();
    let webhooks = Webhooks::new(configurations, &mut problems);
    assert_eq!(problems, Vec::<String>::new());
    webhooks
}

/// One webhook for everything.
fn everything() -> Webhooks {
    hooks(&[configuration("all", json!([hook("hook", json!([rule(&["*"], "*", "*", "*")]))]))])
}

fn picked<'a, Q: Question>(webhooks: &'a Webhooks, question: &Q) -> &'a Hook {
    let object = question.object();
    webhooks.pick(object.api_version(), object.kind(), Q::OPERATION).expect("a webhook for it")
}

/// The answer of a webhook that responds with these fields.
fn answered<Q: Question>(fields: &Value, question: Q) -> InterpretResult<Q::Answer> {
    let webhooks = everything();
    let hook = picked(&webhooks, &question);
    let request = hook.request(&question, || "id-1".to_owned()).expect("a known version");
    let mut response = json!({"uid": request.body["request"]["uid"], "successful": true});
    object::patch::merge::apply(&mut response, fields).expect("merges");
    let fetched = WebhookAnswer { uid: request.uid, body: Ok(json!({"response": response})) };
    hook.answer(&question, Some(&fetched))
}

fn retain<'a>(desired: &'a Object, observed: &'a Object) -> Retain<'a> {
    Retain { desired: Cow::Borrowed(desired), observed }
}

#[test]
fn the_matching_webhook_with_the_smallest_name_is_called() {
    let webhooks = hooks(&[
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
    ]);
    let picked =
        |operation| webhooks.pick("example.io/v1", "Workload", operation).map(|hook: &Hook| hook.name.as_str());
    assert_eq!(picked(Operation::InterpretHealth), Some("a/y"));
    assert_eq!(picked(Operation::Retain), Some("a/y"));
    assert_eq!(picked(Operation::InterpretReplica), Some("b/all"));
    let none = hooks(&[configuration("a", json!([hook("x", json!([]))]))]);
    assert!(none.pick("example.io/v1", "Workload", Operation::Retain).is_none());
}

#[test]
fn the_request_contains_the_operation_and_inputs() {
    /// Every input at once, which no operation has.
    struct Everything<'a>(Retain<'a>, &'a [AggregatedStatusItem]);

    impl Question for Everything<'_> {
        type Answer = Object;
        const OPERATION: Operation = Operation::Retain;

        fn object(&self) -> &Object {
            self.0.object()
        }

        fn inputs(&self) -> OperationInputs<'_> {
            OperationInputs { replicas: 5, items: self.1, ..self.0.inputs() }
        }

        fn by_scripts(&self, run: Run<'_>, scripts: &Scripts) -> InterpretResult<Object> {
            self.0.by_scripts(run, scripts)
        }

        fn by_webhook(&self, response: &Response<'_>) -> Result<Object, ResponseError> {
            self.0.by_webhook(response)
        }

        fn by_native(self, options: PodOptions, now: Timestamp) -> InterpretResult<Object> {
            self.0.by_native(options, now)
        }
    }

    let (desired, observed) = (workload(), workload());
    let items = [AggregatedStatusItem { cluster_name: "m1".into(), ..Default::default() }];
    let question = Everything(retain(&desired, &observed), &items);
    let webhooks = everything();
    let call = picked(&webhooks, &question).request(&question, || "id-1".to_owned()).expect("a known version");
    assert_eq!((call.webhook.as_str(), call.uid.as_str(), call.timeout_seconds), ("all/hook", "id-1", Some(3)));
    assert_eq!(call.client_config, json!({"url": "https://example.test/interpret"}));
    assert_eq!(call.body["kind"], "ResourceInterpreterContext");
    assert_eq!(
        call.body["request"],
        json!({"uid": "id-1", "kind": {"group": "example.io", "version": "v1", "kind": "Workload"}, "name": "w",
            "namespace": "ns", "operation": "Retain", "object": workload().to_value(), "replicas": 5,
            "observedObject": workload().to_value(), "aggregatedStatus": [{"clusterName": "m1"}]})
    );
    assert_eq!(answered(&json!({}), question), Ok(workload()), "no patch changes nothing");
    let health = Health(&desired);
    let call = picked(&webhooks, &health).request(&health, || "id-2".to_owned()).expect("a known version");
    assert_eq!(call.body["request"]["replicas"], 0, "always there");
}

#[test]
fn responses_contain_the_result_of_the_operation() {
    let object = workload();
    let fields = json!({"replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}});
    let (replicas, requirements) = answered(&fields, Replicas(&object)).expect("answered");
    assert_eq!((replicas, requirements.expect("some").resource_request.len()), (3, 1));
    let fields = json!({"components": [{"name": "a", "replicas": 1}]});
    assert_eq!(answered(&fields, Components(&object)).expect("answered").len(), 1);
    let fields = json!({"dependencies": [{"apiVersion": "v1", "kind": "Secret", "name": "s"}]});
    assert_eq!(answered(&fields, Dependencies(&object)).expect("answered")[0].name, "s");
    let fields = json!({"rawStatus": {"a": 1}, "healthy": false});
    assert_eq!(answered(&fields, ReflectStatus(&object)), Ok(Some(json!({"a": 1}))));
    assert_eq!(answered(&fields, Health(&object)), Ok(false));
    let patch = STANDARD.encode(r#"[{"op": "replace", "path": "/spec/replicas", "value": 9}]"#);
    let question = ReviseReplicas { object: Cow::Borrowed(&object), replicas: 9 };
    let patched = answered(&json!({"patch": patch, "patchType": "JSONPatch"}), question);
    assert_eq!(patched.expect("answered").i64_at(&["spec", "replicas"]), Some(9));
}

#[test]
fn incomplete_responses_are_errors() {
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
        let object = workload();
        let error = match operation {
            Operation::InterpretReplica => answered(&fields, Replicas(&object)).map(drop),
            Operation::InterpretStatus => answered(&fields, ReflectStatus(&object)).map(drop),
            Operation::InterpretHealth => answered(&fields, Health(&object)).map(drop),
            Operation::InterpretDependency => answered(&fields, Dependencies(&object)).map(drop),
            _ => answered(&fields, retain(&object, &object)).map(drop),
        };
        let error = error.expect_err(expected);
        assert!(error.0.contains(expected), "{fields}: {error}");
    }
}

#[test]
fn a_webhook_that_cannot_be_called_is_an_error() {
    let all = json!([rule(&["*"], "*", "*", "*")]);
    let object = workload();
    let health = Health(&object);
    let webhooks = hooks(&[configuration("c", json!([hook("h", all.clone())]))]);
    let error = picked(&webhooks, &health).answer(&health, None).expect_err("not asked");
    assert!(error.0.contains("failed to call webhook: webhook c/h cannot be called from here"), "{error}");
    let refused = WebhookAnswer { uid: "id-1".to_owned(), body: Err("connection refused".to_owned()) };
    let error = picked(&webhooks, &health).answer(&health, Some(&refused)).expect_err("no answer");
    assert!(error.0.contains("failed to call webhook: connection refused"), "{error}");
    let mut old = hook("h", all);
    old["interpreterContextVersions"] = json!(["v2"]);
    let webhooks = hooks(&[configuration("c", json!([old]))]);
    assert_eq!(picked(&webhooks, &health).request(&health, String::new), None);
    let error = picked(&webhooks, &health).answer(&health, None).expect_err("another version");
    assert!(
        error.0.contains("webhook does not accept known ResourceInterpreterContext versions (v1alpha1)"),
        "{error}"
    );
}
