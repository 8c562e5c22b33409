//! Pods created from a template, and names derived from it.

use object::{GroupVersionKind, Object};
use serde_json::{Map, Value};

use crate::owners::controller_reference;

/// The alphabet of generated names in Kubernetes, without vowels and ambiguous characters.
const SAFE: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The API truncates a name prefix to this length before it appends five characters.
pub const GENERATED_PREFIX_MAX: usize = 58;

/// Returns a pod from the template, owned by `owner`, with a generated name.
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

/// Returns the hash of a template. The collision count distinguishes templates with equal hashes.
pub fn hash(template: &Value, collisions: Option<i64>) -> String {
    let mut text = template.to_string();
    if let Some(collisions) = collisions {
        text.push_str(&collisions.to_string());
    }
    let sum = fnv1a(text.as_bytes()).to_string();
    sum.bytes().map(|byte| char::from(SAFE[usize::from(byte) % SAFE.len()])).collect()
}

/// Kubernetes uses 32 bits; callers handle collisions.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Reports whether two values are semantically equal: absent, null and empty are.
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

/// Resolves an absolute number or a percentage of the total; `None` if it is neither.
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
    fn hashes_are_stable_safe_and_depend_on_the_collision_count() {
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
    fn percentages_are_rounded_as_requested() {
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
