//! Compares defaults and errors with those of a real kube-apiserver 1.36 for the same requests.

use jiff::Timestamp;
use object::{FieldError, Object};
use serde_json::{Value, json};

use crate::strategies;
use crate::strategy::WriteContext;

/// Responses recorded from kube-apiserver: `{verb, object, old, result | causes}`, one list per group.
const RECORDED: &[(&str, &str)] = &[
    ("rbac", include_str!("../../testdata/rules/rbac.json")),
    ("certificates", include_str!("../../testdata/rules/certificates.json")),
    ("coordination", include_str!("../../testdata/rules/coordination.json")),
    ("definitions", include_str!("../../testdata/rules/definitions.json")),
    ("networking", include_str!("../../testdata/rules/networking.json")),
    ("policy", include_str!("../../testdata/rules/policy.json")),
    ("storage", include_str!("../../testdata/rules/storage.json")),
    ("small", include_str!("../../testdata/rules/small.json")),
    ("autoscaling", include_str!("../../testdata/rules/autoscaling.json")),
    ("flowcontrol", include_str!("../../testdata/rules/flowcontrol.json")),
    ("apiregistration", include_str!("../../testdata/rules/apiregistration.json")),
    ("reviews", include_str!("../../testdata/rules/reviews.json")),
    ("resource", include_str!("../../testdata/rules/resource.json")),
    ("admission", include_str!("../../testdata/rules/admission.json")),
];

fn context() -> WriteContext {
    WriteContext {
        now: Timestamp::UNIX_EPOCH,
        user: "admin".to_owned(),
        uid: "adminuid".to_owned(),
        groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
        extra: Vec::new(),
    }
}

/// Runs a request through the rules as the server does, without storing it.
fn answer(case: &Value) -> (Object, Vec<FieldError>) {
    let mut object = Object::from_value(case["object"].clone()).expect("an object");
    let strategy = strategies::for_kind(&object.gvk());
    strategy.default(&mut object);
    let ctx = context();
    let old = Object::from_value(case["old"].clone()).unwrap_or_default();
    let errors = match case["verb"].as_str().expect("a verb") {
        "create" => {
            strategy.prepare_create(&mut object, &ctx);
            strategy.validate_create(&object)
        }
        "update" => {
            strategy.prepare_update(&mut object, &old, &ctx);
            strategy.validate_update(&object, &old)
        }
        "approval" => {
            let strategy = super::certificates::approval();
            strategy.prepare_status(&mut object, &old, &ctx);
            strategy.validate_status(&object, &old)
        }
        _ => {
            strategy.prepare_status(&mut object, &old, &ctx);
            strategy.validate_status(&object, &old)
        }
    };
    (object, errors)
}

fn cause(error: &FieldError) -> Value {
    json!({"reason": error.kind.reason(), "field": error.path.as_str(), "message": error.body()})
}

/// Errors are compared without their order: Go iterates over maps in random order.
fn sorted(mut causes: Vec<Value>) -> Vec<Value> {
    causes.sort_by_key(|cause| (cause["field"].to_string(), cause["message"].to_string()));
    causes.dedup();
    causes
}

/// The difference as text; metadata is set by the server and not compared.
fn difference(case: &Value) -> Option<String> {
    let (mut object, errors) = answer(case);
    let expected = case["causes"].as_array().cloned().unwrap_or_default();
    let causes = sorted(errors.iter().map(cause).collect());
    let expected = sorted(expected);
    if causes != expected {
        let show = |causes: &[Value]| {
            causes.iter().map(|c| format!("\n    {} {}", c["field"], c["message"])).collect::<String>()
        };
        return Some(format!("errors\n  are: {}\n  should be: {}", show(&causes), show(&expected)));
    }
    let mut result = case["result"].clone();
    if result.is_null() {
        return None;
    }
    object.as_map_mut().remove("metadata");
    result.as_object_mut()?.remove("metadata");
    let mut object = object.into_value();
    drop_empty_lists(&mut object);
    (object != result).then(|| format!("result\n  is: {object}\n  should be: {result}"))
}

/// Go servers do not store an empty list; dropping it is a matter of encoding, not of rules.
fn drop_empty_lists(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
            map.values_mut().for_each(drop_empty_lists);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty_lists),
        _ => {}
    }
}

#[test]
fn requests_are_answered_as_by_kube_apiserver() {
    let mut differences = Vec::new();
    let mut total = 0;
    for (group, recorded) in RECORDED {
        let cases: Vec<Value> = serde_json::from_str(recorded).expect("recorded answers are JSON");
        total += cases.len();
        for case in &cases {
            if let Some(difference) = difference(case) {
                differences.push(format!("{group}: {} {}: {difference}", case["verb"], case["name"]));
            }
        }
    }
    assert!(total > 0);
    assert!(differences.is_empty(), "{} of {total} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn defaults_are_idempotent() {
    for (group, recorded) in RECORDED {
        let cases: Vec<Value> = serde_json::from_str(recorded).expect("recorded answers are JSON");
        for case in &cases {
            let mut once = Object::from_value(case["object"].clone()).expect("an object");
            let strategy = strategies::for_kind(&once.gvk());
            strategy.default(&mut once);
            let mut twice = once.clone();
            strategy.default(&mut twice);
            assert_eq!(once, twice, "{group}: {}", case["name"]);
        }
    }
}

#[test]
fn suspicious_values_are_warned_about() {
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"annotations": {"kubernetes.io/ingress.class": "x"}}, "spec": {}});
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "FQDN"});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {
        "versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": {"type": "string", "format": "odd"}}}}}]}});
    let cases = [
        (
            ingress,
            "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead",
        ),
        (slice, "spec.addressType: FQDN endpoints are deprecated"),
        (definition, "unrecognized format \"odd\""),
    ];
    for (object, expected) in cases {
        let object = Object::from_value(object).expect("an object");
        assert_eq!(strategies::for_kind(&object.gvk()).warnings(&object, None), [expected]);
    }
}

/// Pairs of one object in the stored and in another served version, as shown by kube-apiserver.
const CONVERSIONS: &str = include_str!("../../testdata/rules/conversions.json");

#[test]
fn versions_convert_as_by_kube_apiserver() {
    let pairs: Vec<Value> = serde_json::from_str(CONVERSIONS).expect("recorded pairs are JSON");
    for pair in &pairs {
        let object = |key: &str| Object::from_value(pair[key].clone()).expect("an object");
        let (stored, served) = (object("stored"), object("served"));
        let strategy = strategies::for_kind(&served.gvk());
        assert_eq!(strategy.from_storage(stored.clone()), served, "{} from storage", served.name());
        // Fields that an older version lacks are lost in the round trip, on either server.
        if pair["back"] == true {
            assert_eq!(strategy.to_storage(served.clone()), stored, "{} to storage", served.name());
        }
    }
}
