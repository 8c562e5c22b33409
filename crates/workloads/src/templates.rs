//! Pods from their owner's template, and names that follow from what a template says.

use object::{GroupVersionKind, Object};
use serde_json::{Map, Value};

use crate::owners::controller_reference;

/// Letters that spell no word and are not taken for one another, as Kubernetes has them in generated names.
const SAFE: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// What the API leaves of a prefix before it adds five letters.
pub const GENERATED_PREFIX_MAX: usize = 58;

/// A pod as the template says, owned by `owner`, its name to be made by the API.
pub fn pod_from(template: &Value, owner: &Object) -> Object {
    let mut pod = Object::default();
    pod.set_gvk(&GroupVersionKind::new("", "v1", "Pod"));
    pod.set_namespace(owner.namespace());
    pod.set(&["metadata", "generateName"], format!("{}-", owner.name()));
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template["metadata"].get(field).filter(|value| !value.is_null()) {
            pod.set(&["metadata", field], value.clone());
        }
    }
    pod.set(&["metadata", "ownerReferences"], vec![controller_reference(owner)]);
    pod.set(&["spec"], template.get("spec").cloned().unwrap_or_else(|| Value::Object(Map::new())));
    pod
}

/// A short name for what a template says. The count tells apart templates that would get the same.
pub fn hash(template: &Value, collisions: Option<i64>) -> String {
    let mut text = template.to_string();
    if let Some(collisions) = collisions {
        text.push_str(&collisions.to_string());
    }
    let sum = fnv1a(text.as_bytes()).to_string();
    sum.bytes().map(|byte| char::from(SAFE[usize::from(byte) % SAFE.len()])).collect()
}

/// 32 bits are what Kubernetes takes; collisions are handled by whoever asks for a hash.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Whether two values mean the same: absent, null and empty do.
pub fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let absent = Value::Null;
            a.iter().all(|(key, value)| is_same(value, b.get(key).unwrap_or(&absent)))
                && b.iter().all(|(key, value)| a.contains_key(key) || is_empty(value))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (a, b) => a == b || (is_empty(a) && is_empty(b)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// Absolute, or a percentage of the total; `None` where it is neither.
pub fn scaled(value: Option<&Value>, total: i64, round_up: bool) -> Option<i64> {
    match value? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => {
            let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
            let product = percent.checked_mul(total)?;
            Some(if round_up { (product + 99).div_euclid(100) } else { product.div_euclid(100) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hashes_are_stable_safe_and_told_apart_by_the_collision_count() {
        let template = json!({"spec": {"containers": [{"image": "nginx"}]}});
        assert_eq!(hash(&template, None), hash(&template, None));
        assert_ne!(hash(&template, None), hash(&template, Some(1)));
        assert_ne!(hash(&template, None), hash(&json!({"spec": {"containers": [{"image": "httpd"}]}}), None));
        assert!(hash(&template, None).bytes().all(|byte| SAFE.contains(&byte)));
    }

    #[track_caller]
    fn check_same(a: Value, b: Value, expected: bool) {
        assert_eq!((is_same(&a, &b), is_same(&b, &a)), (expected, expected), "{a} {b}");
    }

    #[test]
    fn absent_null_and_empty_mean_the_same() {
        check_same(json!({"a": {"b": null}}), json!({"a": {}}), true);
        check_same(json!({"a": {"b": []}}), json!({}), true);
        check_same(json!({"a": 0}), json!({}), false);
        check_same(json!({"a": [{"b": 1}]}), json!({"a": [{"b": 1, "c": {}}]}), true);
        check_same(json!({"a": [1]}), json!({"a": [1, 2]}), false);
    }

    #[test]
    fn shares_are_rounded_as_asked() {
        let check = |value: Value, total, round_up, expected| {
            assert_eq!(scaled(Some(&value), total, round_up), expected, "{value} of {total}");
        };
        check(json!(3), 10, true, Some(3));
        check(json!("25%"), 10, true, Some(3));
        check(json!("25%"), 10, false, Some(2));
        check(json!("0%"), 10, true, Some(0));
        check(json!("x"), 10, true, None);
        assert_eq!(scaled(None, 10, true), None);
    }
}
