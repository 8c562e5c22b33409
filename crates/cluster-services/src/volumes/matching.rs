//! Matches volumes to claims. Pure.

use std::cmp::Ordering;

use object::Object;
use object::quantity::Quantity;
use object::selector::LabelSelector;
use serde_json::Value;

const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Returns the class of a claim or volume; `None` if unset, `Some("")` if explicitly none.
pub fn class_of(object: &Object) -> Option<&str> {
    object.annotation(OLD_CLASS).or_else(|| object.get(&["spec", "storageClassName"]).and_then(Value::as_str))
}

pub fn asked_storage(claim: &Object) -> Quantity {
    read_quantity(claim.get(&["spec", "resources", "requests", "storage"]))
}

pub fn capacity_of(volume: &Object) -> Quantity {
    read_quantity(volume.get(&["spec", "capacity", "storage"]))
}

fn read_quantity(value: Option<&Value>) -> Quantity {
    value.and_then(Value::as_str).and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
}

/// Compares `a` and `b` by amount.
pub fn compare(a: &Quantity, b: &Quantity) -> Ordering {
    a.minus(b).as_f64().total_cmp(&0.0)
}

/// Reports whether the volume is reserved for this claim, by its creator or by a binding in progress.
pub fn is_meant_for(volume: &Object, claim: &Object) -> bool {
    let reference = |field: &str| volume.str_at(&["spec", "claimRef", field]);
    reference("name") == claim.name()
        && reference("namespace") == claim.namespace()
        && (reference("uid").is_empty() || reference("uid") == claim.uid())
}

/// Reports whether an available volume satisfies the claim.
pub fn fits(volume: &Object, claim: &Object) -> bool {
    let is_free = volume.get(&["spec", "claimRef"]).is_none_or(Value::is_null);
    let is_meant = is_meant_for(volume, claim);
    if volume.is_deleting() || !(is_free || is_meant) {
        return false;
    }
    if class_of(volume).unwrap_or_default() != class_of(claim).unwrap_or_default() || mode_of(volume) != mode_of(claim)
    {
        return false;
    }
    let has = volume.items(&["spec", "accessModes"]);
    let wants = claim.items(&["spec", "accessModes"]);
    let is_chosen = |selector: &Value| LabelSelector::from_value(Some(selector)).is_ok_and(|s| s.matches(volume));
    wants.iter().all(|mode| has.contains(mode))
        && compare(&capacity_of(volume), &asked_storage(claim)).is_ge()
        && (is_meant || claim.get(&["spec", "selector"]).is_none_or(is_chosen))
}

fn mode_of(object: &Object) -> &str {
    match object.str_at(&["spec", "volumeMode"]) {
        "" => "Filesystem",
        mode => mode,
    }
}

/// Returns the best volume for a claim: a reserved one, else the smallest that is large enough; ties by name.
pub fn best<'a, O: AsRef<Object>>(volumes: &'a [O], claim: &Object) -> Option<&'a O> {
    let fitting = volumes.iter().filter(|volume| fits(volume.as_ref(), claim));
    fitting.min_by(|a, b| {
        let (a, b) = (a.as_ref(), b.as_ref());
        let meant = is_meant_for(b, claim).cmp(&is_meant_for(a, claim));
        meant.then_with(|| compare(&capacity_of(a), &capacity_of(b))).then_with(|| a.name().cmp(b.name()))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn volume(name: &str, size: &str, more: Value) -> Arc<Object> {
        let mut spec =
            json!({"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "s"});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let object = json!({"metadata": {"name": name, "labels": {"disk": name}}, "spec": spec});
        Arc::new(Object::from_value(object).expect("a map"))
    }

    #[track_caller]
    fn check(claim_more: Value, expected: Option<&str>) {
        let volumes = [
            volume("small", "1Gi", json!({})),
            volume("big", "10Gi", json!({})),
            volume("medium", "5Gi", json!({})),
            volume("taken", "5Gi", json!({"claimRef": {"namespace": "a", "name": "other", "uid": "u"}})),
            volume("block", "5Gi", json!({"volumeMode": "Block"})),
            volume("meant", "9Gi", json!({"claimRef": {"namespace": "a", "name": "mine"}})),
            volume("shared", "5Gi", json!({"accessModes": ["ReadWriteMany"]})),
        ];
        let mut spec = json!({"resources": {"requests": {"storage": "2Gi"}}, "accessModes": ["ReadWriteOnce"],
            "storageClassName": "s"});
        let name = claim_more["name"].as_str().unwrap_or("claim").to_owned();
        for (key, value) in claim_more.as_object().into_iter().flatten().filter(|(key, _)| *key != "name") {
            spec[key] = value.clone();
        }
        let claim = json!({"metadata": {"name": name, "namespace": "a", "uid": "c"}, "spec": spec});
        let claim = Object::from_value(claim).expect("a map");
        assert_eq!(best(&volumes, &claim).map(|volume| volume.name()), expected, "{claim_more}");
    }

    #[test]
    fn the_smallest_sufficient_volume_is_chosen() {
        check(json!({}), Some("medium"));
        check(json!({"resources": {"requests": {"storage": "6Gi"}}}), Some("big"));
        check(json!({"resources": {"requests": {"storage": "60Gi"}}}), None);
        check(json!({"storageClassName": "t"}), None);
        check(json!({"volumeMode": "Block"}), Some("block"));
        check(json!({"name": "mine"}), Some("meant"));
        check(json!({"selector": {"matchLabels": {"disk": "big"}}}), Some("big"));
        check(json!({"accessModes": ["ReadWriteOnce", "ReadWriteMany"]}), None);
    }
}
