//! Precedence between tiers.

use serde_json::{Value, json};

use super::*;
use crate::question::{Components, Dependencies, Health, ReflectStatus, Replicas};

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

fn customization(name: &str, api_version: &str, kind: &str, rules: Value) -> Arc<Object> {
    Arc::new(object(json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": name},
        "spec": {"target": {"apiVersion": api_version, "kind": kind}, "customizations": rules}})))
}

fn health(result: &str) -> Value {
    json!({"healthInterpretation": {"luaScript": format!("function InterpretHealth(o) {result} end")}})
}

fn needs(name: &str) -> Value {
    let script =
        format!("function GetDependencies(o) return {{{{apiVersion='v1', kind='Secret', name='{name}'}}}} end");
    json!({"dependencyInterpretation": {"luaScript": script}})
}

fn interpreter_of(customizations: &[Arc<Object>], webhooks: &[Arc<Object>]) -> Interpreter {
    Interpreter::new(customizations, webhooks, &Features::default(), &ScriptEnvironment::for_tests())
}

/// Answers a question; a webhook, if one is asked, reports every object as healthy.
fn ask<Q: Question>(interpreter: &Interpreter, question: Q) -> InterpretResult<Q::Answer> {
    let request = interpreter.webhook_request(&question, || "1".to_owned());
    let healthy = |request: WebhookRequest| WebhookAnswer {
        body: Ok(json!({"response": {"uid": request.body["request"]["uid"], "successful": true, "healthy": true}})),
        uid: request.uid,
    };
    interpreter.answer(question, Timestamp::UNIX_EPOCH, request.map(healthy).as_ref())
}

/// A webhook for the health of everything.
fn webhook() -> Arc<Object> {
    let everything =
        json!({"operations": ["InterpretHealth"], "apiGroups": ["*"], "apiVersions": ["*"], "kinds": ["*"]});
    Arc::new(object(json!({"metadata": {"name": "w"}, "webhooks": [{"name": "h", "rules": [everything],
        "interpreterContextVersions": ["v1alpha1"], "clientConfig": {}}]})))
}

fn sick_claim() -> Object {
    object(
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "status": {"phase": "Pending"}}),
    )
}

fn sick_clone_set() -> Object {
    object(
        json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "c", "generation": 2},
        "status": {"observedGeneration": 1}}),
    )
}

#[test]
fn customizations_come_before_webhooks_before_bundled_before_native_rules() {
    let plain = interpreter_of(&[], &[]);
    assert_eq!(ask(&plain, Health(&sick_claim())), Ok(false), "native");
    assert_eq!(ask(&plain, Health(&sick_clone_set())), Ok(false), "bundled");
    let hooked = interpreter_of(&[], &[webhook()]);
    assert_eq!(ask(&hooked, Health(&sick_claim())), Ok(true), "webhook");
    assert_eq!(ask(&hooked, Health(&sick_clone_set())), Ok(true), "webhook");
    let rules = [
        customization("a", "v1", "PersistentVolumeClaim", health("error('mine')")),
        customization("b", "apps.kruise.io/v1alpha1", "CloneSet", health("return o.status.observedGeneration == 1")),
    ];
    let customized = interpreter_of(&rules, &[webhook()]);
    let error = ask(&customized, Health(&sick_claim())).expect_err("its error is final");
    assert!(error.0.ends_with("mine"), "{error}");
    assert_eq!(ask(&customized, Health(&sick_clone_set())), Ok(true), "customization");
    let other = object(json!({"apiVersion": "v2", "kind": "PersistentVolumeClaim"}));
    assert_eq!(ask(&customized, Health(&other)), Ok(true), "versions are matched exactly");
}

#[test]
fn the_first_customization_by_name_answers_each_operation() {
    let (version, kind) = ("example.io/v1", "Thing");
    let rules = [
        customization("b", version, kind, health("return true")),
        customization(
            "c",
            version,
            kind,
            json!({"statusReflection": {"luaScript": "function ReflectStatus(o) return {from = 'c'} end"}}),
        ),
        customization("a", version, kind, health("return false")),
        customization("0", version, kind, json!({"healthInterpretation": {"luaScript": ""}})),
    ];
    let interpreter = interpreter_of(&rules, &[]);
    let thing = object(json!({"apiVersion": version, "kind": kind, "metadata": {"name": "t"}}));
    assert_eq!(ask(&interpreter, Health(&thing)), Ok(false));
    assert_eq!(ask(&interpreter, ReflectStatus(&thing)), Ok(Some(json!({"from": "c"}))));
    assert!(interpreter.has_hook(&thing.gvk(), Operation::InterpretHealth));
    assert!(!interpreter.has_hook(&thing.gvk(), Operation::Retain));
    assert!(interpreter.has_hook(&GroupVersionKind::new("x.io", "v1", "Y"), Operation::InterpretStatus));
}

#[test]
fn dependencies_of_all_customizations_count() {
    let (version, kind) = ("example.io/v1", "Thing");
    let thing = object(json!({"apiVersion": version, "kind": kind, "metadata": {"name": "t"}}));
    let mut rules = vec![
        customization("b", version, kind, needs("two")),
        customization("a", version, kind, needs("one")),
        customization("c", version, kind, needs("two")),
    ];
    let interpreter = interpreter_of(&rules, &[]);
    let found = ask(&interpreter, Dependencies(&thing)).expect("found");
    assert_eq!(found.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    rules.push(customization("d", version, kind, needs("")));
    let interpreter = interpreter_of(&rules, &[]);
    let error = ask(&interpreter, Dependencies(&thing)).expect_err("one names nothing");
    assert!(error.0.contains("dependency can not leave name and labelSelector all empty"), "{error}");
}

#[test]
fn components_have_no_native_rule() {
    let interpreter = interpreter_of(&[], &[]);
    let deployment = object(json!({"apiVersion": "apps/v1", "kind": "Deployment"}));
    assert!(!interpreter.has_hook(&deployment.gvk(), Operation::InterpretComponent));
    let error = ask(&interpreter, Components(&deployment)).expect_err("no rule");
    assert_eq!(error.0, "interface GetComponents not implemented yet");
}

#[test]
fn the_priority_class_follows_its_feature_gate() {
    let pod = object(
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeSelector": {"a": "b"}, "priorityClassName": "high"}}),
    );
    let features = Features { resource_quota_estimate: true, ..Features::default() };
    let with = Interpreter::new(&[], &[], &features, &ScriptEnvironment::for_tests());
    let without = interpreter_of(&[], &[]);
    for (interpreter, expected) in [(with, "high"), (without, "")] {
        let (_, requirements) = ask(&interpreter, Replicas(&pod)).expect("replicas");
        assert_eq!(requirements.expect("some").priority_class_name, expected);
    }
}

#[test]
fn rules_that_cannot_be_read_are_reported_and_ignored() {
    let broken = Arc::new(object(json!({"metadata": {"name": "broken"}, "spec": 7})));
    let hooks = Arc::new(object(json!({"metadata": {"name": "hooks"}, "webhooks": [7]})));
    let interpreter = interpreter_of(&[broken], &[hooks]);
    let [customization, webhook] = interpreter.problems() else { panic!("{:?}", interpreter.problems()) };
    assert!(customization.starts_with("customization broken cannot be read: "), "{customization}");
    assert!(webhook.starts_with("a webhook of hooks cannot be read: "), "{webhook}");
}
