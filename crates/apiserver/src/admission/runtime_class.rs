//! Rejects pods that name a missing runtime class; the overhead and the node constraints of pods come from their class.

use async_trait::async_trait;
use object::quantity::Quantity;
use object::{Object, Status};
use serde_json::{Map, Value};

use super::{Admission, Attributes, Operation};
use crate::admission::AdmissionScope;
use crate::context::Context;
use crate::resources::Resources;

/// kube-apiserver's `RuntimeClass` (plugin/pkg/admission/runtimeclass).
pub struct RuntimeClasses;

#[async_trait]
impl Admission for RuntimeClasses {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    async fn mutate(
        &self,
        scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        pod: &mut Object,
    ) -> Result<(), Status> {
        if !is_new_pod(attributes) {
            return Ok(());
        }
        let class = find_class(scope.resources, attributes, pod).await?;
        let Some(class) = class else { return Ok(()) };
        let set = set_overhead(pod, &class).and_then(|()| set_scheduling(pod, &class));
        set.map_err(|detail| refuse(attributes, pod, detail))
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let Some(pod) = object.filter(|_| is_new_pod(attributes)) else { return Ok(()) };
        let class = find_class(scope.resources, attributes, pod).await?;
        check_overhead(pod, class.as_ref()).map_err(|detail| refuse(attributes, pod, detail))
    }
}

fn is_new_pod(attributes: &Attributes<'_>) -> bool {
    let kind = &attributes.resource.kind.gvk;
    attributes.operation == Operation::Create
        && kind.group.is_empty()
        && kind.kind == "Pod"
        && attributes.subresource.is_none()
}

async fn find_class(
    resources: Resources<'_>,
    attributes: &Attributes<'_>,
    pod: &Object,
) -> Result<Option<Object>, Status> {
    let Some(resource) = resources.registry.find("node.k8s.io", "v1", "runtimeclasses") else { return Ok(None) };
    let Some(name) = pod.get(&["spec", "runtimeClassName"]).and_then(Value::as_str) else { return Ok(None) };
    match resources.objects.get(&resource.key("", name)).await? {
        Some(class) => Ok(Some(class.object)),
        None => Err(refuse(attributes, pod, format!("pod rejected: RuntimeClass {name:?} not found"))),
    }
}

/// Returns the overhead that a class declares, which may be empty.
fn overhead_of(class: &Object) -> Option<Map<String, Value>> {
    let overhead = class.get(&["overhead"]).filter(|overhead| !overhead.is_null())?;
    Some(overhead["podFixed"].as_object().cloned().unwrap_or_default())
}

fn overhead_in(pod: &Object) -> Option<&Map<String, Value>> {
    pod.get(&["spec", "overhead"]).and_then(Value::as_object)
}

/// Compares amounts by value: `1` and `1000m` are equal.
fn is_same_overhead(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let amount = |value: &Value| Quantity::parse(value.as_str().unwrap_or_default()).ok();
    let is_same =
        |value: &Value, other: &Value| value == other || amount(value).is_some_and(|a| Some(a) == amount(other));
    one.len() == other.len() && one.iter().all(|(key, value)| other.get(key).is_some_and(|o| is_same(value, o)))
}

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

fn set_overhead(pod: &mut Object, class: &Object) -> Result<(), String> {
    let Some(declared) = overhead_of(class) else { return Ok(()) };
    if overhead_in(pod).is_some_and(|given| !is_same_overhead(given, &declared)) {
        return Err(MISMATCH.to_owned());
    }
    if !declared.is_empty() {
        pod.set(&["spec", "overhead"], declared);
    }
    Ok(())
}

fn check_overhead(pod: &Object, class: Option<&Object>) -> Result<(), String> {
    let given = overhead_in(pod);
    match class.and_then(overhead_of) {
        Some(declared) if is_same_overhead(given.unwrap_or(&Map::new()), &declared) => Ok(()),
        Some(_) => Err(MISMATCH.to_owned()),
        None if given.is_none() => Ok(()),
        None => Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".to_owned()),
    }
}

fn set_scheduling(pod: &mut Object, class: &Object) -> Result<(), String> {
    let Some(scheduling) = class.get(&["scheduling"]).filter(|scheduling| !scheduling.is_null()) else { return Ok(()) };
    let mut selector = pod.get(&["spec", "nodeSelector"]).and_then(Value::as_object).cloned().unwrap_or_default();
    for (key, value) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if let Some(given) = selector.get(key).filter(|given| *given != value) {
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                text(value),
                text(given)
            ));
        }
        selector.insert(key.clone(), value.clone());
    }
    if !selector.is_empty() {
        pod.set(&["spec", "nodeSelector"], selector);
    }
    let added = scheduling["tolerations"].as_array().map(Vec::as_slice).unwrap_or_default();
    let tolerations = merge_tolerations(&[pod.items(&["spec", "tolerations"]), added].concat());
    if !tolerations.is_empty() {
        pod.set(&["spec", "tolerations"], tolerations);
    }
    Ok(())
}

/// Returns the tolerations without those that others include. kube-apiserver's `MergeTolerations`
/// (pkg/util/tolerations/tolerations.go).
fn merge_tolerations(all: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let is_included = merged.iter().any(|kept| includes(kept, toleration))
            // Of equal ones the first is kept.
            || all[index + 1..].iter().any(|later| later != toleration && includes(later, toleration));
        if !is_included {
            merged.push(toleration.clone());
        }
    }
    merged
}

/// Reports whether `wide` tolerates every taint that `narrow` tolerates, for at least as long.
fn includes(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let text = |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
    let is_same = |field: &str| text(wide, field) == text(narrow, field);
    let (operator, effect) = (text(wide, "operator"), text(wide, "effect"));
    let has_all_keys = text(wide, "key").is_empty() && operator == "Exists";
    let ends_earlier = || {
        let seconds = |toleration: &Value| toleration["tolerationSeconds"].as_i64();
        seconds(wide).is_some_and(|limit| seconds(narrow).is_none_or(|narrow| narrow > limit))
    };
    (is_same("key") || has_all_keys)
        && (is_same("effect") || effect.is_empty())
        && !(effect == "NoExecute" && ends_earlier())
        && match operator.as_str() {
            "" | "Equal" => text(narrow, "operator") == "Equal" && is_same("value"),
            "Exists" => true,
            _ => false,
        }
}

fn refuse(attributes: &Attributes<'_>, pod: &Object, detail: String) -> Status {
    Status::forbidden(&attributes.resource.kind.group_resource(), attributes.name_in_refusals(Some(pod)), detail)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tolerations_that_others_include_are_left_out() {
        let check = |all: Value, expected: Value| {
            assert_eq!(Value::from(merge_tolerations(all.as_array().expect("a list"))), expected, "{all}");
        };
        let exact = json!({"key": "a", "operator": "Equal", "value": "x", "effect": "NoSchedule"});
        let any_value = json!({"key": "a", "operator": "Exists", "effect": "NoSchedule"});
        let other = json!({"key": "b", "operator": "Exists"});
        let everything = json!({"operator": "Exists"});
        check(json!([exact, other]), json!([exact, other]));
        check(json!([exact, exact]), json!([exact]));
        check(json!([exact, any_value]), json!([any_value]));
        check(json!([any_value, exact]), json!([any_value]));
        check(json!([exact, other, everything]), json!([everything]));
        let seconds = |seconds: i64| json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
        check(json!([seconds(5), seconds(9)]), json!([seconds(9)]));
        let always = json!({"key": "a", "operator": "Exists", "effect": "NoExecute"});
        check(json!([seconds(5), always]), json!([always]));
    }

    #[test]
    fn amounts_of_an_overhead_are_compared_by_value() {
        let check = |one: Value, other: Value, expected: bool| {
            let map = |value: &Value| value.as_object().cloned().expect("a map");
            assert_eq!(is_same_overhead(&map(&one), &map(&other)), expected, "{one} {other}");
        };
        check(json!({"cpu": "1"}), json!({"cpu": "1000m"}), true);
        check(json!({"cpu": "1"}), json!({"cpu": "2"}), false);
        check(json!({"cpu": "1"}), json!({"memory": "1"}), false);
        check(json!({}), json!({"cpu": "1"}), false);
    }
}
