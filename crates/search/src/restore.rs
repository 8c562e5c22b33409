//! Restores bodies sent by clients for the member they came from: removes what was added on the way out.

use api::search::ANNOTATION_CACHED_FROM;
use serde_json::Value;

use crate::version;

/// Fields of a body that may contain a version: in an object, and in the options of a deletion.
const VERSIONS: [[&str; 2]; 2] = [["metadata", "resourceVersion"], ["preconditions", "resourceVersion"]];

/// Returns true if something was changed.
pub fn restore(body: &mut Value, cluster: &str) -> bool {
    let annotations = body.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    let stamp = annotations.and_then(Value::as_object_mut).and_then(|map| map.remove(ANNOTATION_CACHED_FROM));
    let mut is_changed = stamp.is_some();
    for [part, field] in VERSIONS {
        let Some(version) = body.get_mut(part).and_then(|part| part.get_mut(field)) else { continue };
        let Some(mut versions) = version.as_str().and_then(version::read) else { continue };
        *version = versions.remove(cluster).unwrap_or_default().into();
        is_changed = true;
    }
    is_changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::version::Versions;

    #[track_caller]
    fn check(mut body: Value, expected: Option<Value>) {
        let before = body.clone();
        let is_changed = restore(&mut body, "m1");
        assert_eq!((is_changed, &body), (expected.is_some(), expected.as_ref().unwrap_or(&before)));
    }

    #[test]
    fn a_member_gets_its_own_version_and_no_stamp() {
        let mut versions = Versions::one("m1", "7");
        versions.set("m2", "9");
        let composed = versions.to_string();
        check(
            json!({"metadata": {"name": "a", "resourceVersion": composed,
                "annotations": {ANNOTATION_CACHED_FROM: "m1", "x": "y"}}}),
            Some(json!({"metadata": {"name": "a", "resourceVersion": "7", "annotations": {"x": "y"}}})),
        );
        check(
            json!({"kind": "DeleteOptions", "preconditions": {"resourceVersion": composed, "uid": "u"}}),
            Some(json!({"kind": "DeleteOptions", "preconditions": {"resourceVersion": "7", "uid": "u"}})),
        );
        let other = Versions::one("m2", "9").to_string();
        check(json!({"metadata": {"resourceVersion": other}}), Some(json!({"metadata": {"resourceVersion": ""}})));
        check(json!({"metadata": {"resourceVersion": "12"}}), None);
        check(json!({"metadata": {"name": "a"}}), None);
        check(json!([{"op": "remove", "path": "/spec"}]), None);
        check(json!("text"), None);
    }
}
