//! Precedence between tiers.

use async_trait::async_trait;
use serde_json::json;

use super::*;
use crate::webhook::{NoWebhooks, WebhookCall};

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

/// A webhook for everything that reports every object as healthy.
struct Kind;

#[async_trait]
impl WebhookCaller for Kind {
    async fn call(&self, call: WebhookCall) -> Result<Value, String> {
        Ok(json!({"response": {"uid": call.body["request"]["uid"], "successful": true, "healthy": true}}))
    }
}

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

#[tokio::test]
async fn customizations_come_before_webhooks_before_bundled_before_native_rules() {
    let plain = Interpreter::new(&[], &[], Arc::new(NoWebhooks));
    assert_eq!(plain.is_healthy(&sick_claim()).await, Ok(false), "native");
    assert_eq!(plain.is_healthy(&sick_clone_set()).await, Ok(false), "bundled");
    let hooked = Interpreter::new(&[], &[webhook()], Arc::new(Kind));
    assert_eq!(hooked.is_healthy(&sick_claim()).await, Ok(true), "webhook");
    assert_eq!(hooked.is_healthy(&sick_clone_set()).await, Ok(true), "webhook");
    let rules = [
        customization("a", "v1", "PersistentVolumeClaim", health("error('mine')")),
        customization("b", "apps.kruise.io/v1alpha1", "CloneSet", health("return o.status.observedGeneration == 1")),
    ];
    let customized = Interpreter::new(&rules, &[webhook()], Arc::new(Kind));
    let error = customized.is_healthy(&sick_claim()).await.expect_err("its error is final");
    assert!(error.0.ends_with("mine"), "{error}");
    assert_eq!(customized.is_healthy(&sick_clone_set()).await, Ok(true), "customization");
    let other = object(json!({"apiVersion": "v2", "kind": "PersistentVolumeClaim"}));
    assert_eq!(customized.is_healthy(&other).await, Ok(true), "versions are matched exactly");
}

#[tokio::test]
async fn the_first_customization_by_name_answers_each_question() {
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
    let interpreter = Interpreter::new(&rules, &[], Arc::new(NoWebhooks));
    let thing = object(json!({"apiVersion": version, "kind": kind, "metadata": {"name": "t"}}));
    assert_eq!(interpreter.is_healthy(&thing).await, Ok(false));
    assert_eq!(interpreter.reflect_status(&thing).await, Ok(Some(json!({"from": "c"}))));
    assert!(interpreter.has_hook(&thing.gvk(), Operation::InterpretHealth));
    assert!(!interpreter.has_hook(&thing.gvk(), Operation::Retain));
    assert!(interpreter.has_hook(&GroupVersionKind::new("x.io", "v1", "Y"), Operation::InterpretStatus));
}

#[tokio::test]
async fn dependencies_of_all_customizations_count() {
    let (version, kind) = ("example.io/v1", "Thing");
    let thing = object(json!({"apiVersion": version, "kind": kind, "metadata": {"name": "t"}}));
    let mut rules = vec![
        customization("b", version, kind, needs("two")),
        customization("a", version, kind, needs("one")),
        customization("c", version, kind, needs("two")),
    ];
    let interpreter = Interpreter::new(&rules, &[], Arc::new(NoWebhooks));
    let found = interpreter.dependencies(&thing).await.expect("found");
    assert_eq!(found.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    rules.push(customization("d", version, kind, needs("")));
    let interpreter = Interpreter::new(&rules, &[], Arc::new(NoWebhooks));
    let error = interpreter.dependencies(&thing).await.expect_err("one names nothing");
    assert!(error.0.contains("dependency can not leave name and labelSelector all empty"), "{error}");
}

#[tokio::test]
async fn components_have_no_native_rule() {
    let interpreter = Interpreter::new(&[], &[], Arc::new(NoWebhooks));
    let deployment = object(json!({"apiVersion": "apps/v1", "kind": "Deployment"}));
    assert!(!interpreter.has_hook(&deployment.gvk(), Operation::InterpretComponent));
    let error = interpreter.components(&deployment).await.expect_err("no rule");
    assert_eq!(error.0, "interface GetComponents not implemented yet");
}

#[tokio::test]
async fn the_priority_class_follows_its_feature_gate() {
    let pod = object(
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"nodeSelector": {"a": "b"}, "priorityClassName": "high"}}),
    );
    let features = Features { resource_quota_estimate: true, ..Features::default() };
    let with = Interpreter::with_features(&[], &[], Arc::new(NoWebhooks), &features);
    let without = Interpreter::new(&[], &[], Arc::new(NoWebhooks));
    for (interpreter, expected) in [(with, "high"), (without, "")] {
        let (_, requirements) = interpreter.replicas(&pod).await.expect("replicas");
        assert_eq!(requirements.expect("some").priority_class_name, expected);
    }
}
