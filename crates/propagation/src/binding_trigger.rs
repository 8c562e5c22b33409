//! Detects changes of a template that matter, and those made by the control plane itself.

use api::work::LABEL_SKIP_AUTO_PROPAGATION;
use object::Object;
use serde_json::{Map, Value};

/// Metadata fields that every write changes.
const NOT_SPECIFIED: &[&str] = &["managedFields", "resourceVersion"];

/// Is there any difference but in the status and in what the API keeps for itself?
pub fn is_specification_changed(before: &Object, now: &Object) -> bool {
    !is_same_outside_metadata(before, now) || !is_same_metadata(before, now, NOT_SPECIFIED, &[])
}

/// Is every difference of the kind the control plane makes: its own labels and annotations?
pub fn is_changed_by_karmada_only(before: &Object, now: &Object) -> bool {
    let ignored = ["managedFields", "resourceVersion", "generation"];
    is_same_outside_metadata(before, now)
        && is_same_metadata(before, now, &ignored, &["labels", "annotations"])
        && is_same_map(before, now, "labels", |key| is_of_karmada(key) && key != LABEL_SKIP_AUTO_PROPAGATION)
        && is_same_map(before, now, "annotations", is_of_karmada)
}

fn is_of_karmada(key: &str) -> bool {
    key.contains(".karmada.io")
}

fn is_same_outside_metadata(before: &Object, now: &Object) -> bool {
    let ignore = |key: &String| matches!(key.as_str(), "status" | "metadata");
    let (before, now) = (before.as_map(), now.as_map());
    before.iter().all(|(key, value)| ignore(key) || now.get(key) == Some(value))
        && now.keys().all(|key| ignore(key) || before.contains_key(key))
}

fn is_same_metadata(before: &Object, now: &Object, ignored: &[&str], apart: &[&str]) -> bool {
    let ignore = |key: &str| ignored.contains(&key) || apart.contains(&key);
    is_same_but(before.get(&["metadata"]), now.get(&["metadata"]), ignore)
}

fn is_same_map(before: &Object, now: &Object, map: &str, ignore: impl Fn(&str) -> bool) -> bool {
    is_same_but(before.get(&["metadata", map]), now.get(&["metadata", map]), ignore)
}

/// Compares without copying: this runs for every event of every object. No map and an empty one are the same.
fn is_same_but(before: Option<&Value>, now: Option<&Value>, ignore: impl Fn(&str) -> bool) -> bool {
    let [before, now] = [before, now].map(|value| value.and_then(Value::as_object));
    is_within(before, now, &ignore) && is_within(now, before, &ignore)
}

fn is_within(
    part: Option<&Map<String, Value>>,
    whole: Option<&Map<String, Value>>,
    ignore: impl Fn(&str) -> bool,
) -> bool {
    let mut counted = part.into_iter().flatten().filter(|(key, _)| !ignore(key));
    counted.all(|(key, value)| whole.and_then(|whole| whole.get(key)) == Some(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(changes: Value) -> Object {
        let mut value = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1},
            "status": {"replicas": 0}, "metadata": {"name": "web", "namespace": "a", "generation": 1,
            "resourceVersion": "1", "labels": {"app": "web"}, "annotations": {"note": "x"}}});
        json_patch::merge(&mut value, &changes);
        Object::from_value(value).expect("a map")
    }

    #[track_caller]
    fn check(changes: Value, is_changed: bool, is_by_karmada: bool) {
        let (before, now) = (object(json!({})), object(changes.clone()));
        assert_eq!(is_specification_changed(&before, &now), is_changed, "{changes}");
        assert_eq!(is_specification_changed(&now, &before), is_changed, "back from {changes}");
        assert_eq!(is_changed_by_karmada_only(&before, &now), is_by_karmada, "{changes}");
        assert_eq!(is_changed_by_karmada_only(&now, &before), is_by_karmada, "back from {changes}");
    }

    #[test]
    fn status_and_bookkeeping_are_not_changes() {
        check(json!({}), false, true);
        check(json!({"status": {"replicas": 1}}), false, true);
        check(json!({"status": null}), false, true);
        check(json!({"metadata": {"resourceVersion": "2", "managedFields": [{}]}}), false, true);
    }

    #[test]
    fn changes_of_specs_and_user_labels_are_user_changes() {
        check(json!({"spec": {"replicas": 2}, "metadata": {"generation": 2}}), true, false);
        check(json!({"metadata": {"labels": {"app": "other"}}}), true, false);
        check(json!({"metadata": {"labels": null}}), true, false);
        check(json!({"metadata": {"annotations": {"note": null}}}), true, false);
        check(json!({"metadata": {"finalizers": ["x"]}}), true, false);
        check(json!({"data": {"a": "b"}}), true, false);
        // The one label under this name that users set.
        check(json!({"metadata": {"labels": {"namespace.karmada.io/skip-auto-propagation": "true"}}}), true, false);
    }

    #[test]
    fn claims_and_generations_come_from_the_control_plane() {
        let claim = json!({"metadata": {"generation": 2, "labels": {"propagationpolicy.karmada.io/permanent-id": "1"},
            "annotations": {"propagationpolicy.karmada.io/name": "p"}}});
        check(claim, true, true);
        check(json!({"metadata": {"annotations": {"namespace.karmada.io/skip-auto-propagation": "true"}}}), true, true);
    }

    #[test]
    fn maps_with_only_karmada_keys_are_not_changes() {
        let bare = object(json!({"metadata": {"labels": null, "annotations": null}}));
        let mut claimed = bare.clone();
        claimed.set_label("propagationpolicy.karmada.io/permanent-id", "1");
        claimed.set_annotation("propagationpolicy.karmada.io/name", "p");
        assert!(is_changed_by_karmada_only(&bare, &claimed) && is_changed_by_karmada_only(&claimed, &bare));
    }
}
