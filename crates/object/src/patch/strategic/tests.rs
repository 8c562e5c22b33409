//! Directives and merge keys, with cases from apimachinery v0.36, pkg/util/strategicpatch/patch_test.go.

use serde_json::json;

use super::*;

fn schema() -> Schema {
    let item = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "value": {}, "other": {},
        "simple": {"type": "array", "items": {"type": "integer"}},
        "inner": {"type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
            "items": {"type": "object", "properties": {"name": {}, "value": {}}}},
    }});
    let keyed = json!({"type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name", "items": item});
    Schema::from_openapi(&json!({"type": "object", "properties": {
        "list": keyed, "replaced": {"type": "array", "items": item},
        "values": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": {"type": "integer"}},
        "map": {"type": "object", "properties": {"list": keyed, "a": {}}},
        "whole": {"type": "object", "x-kubernetes-patch-strategy": "replace"},
        "retained": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys"},
    }}))
    .expect("a schema")
}

fn check(document: Value, patch: Value, expected: Value) {
    let mut patched = document.clone();
    apply(&schema(), &mut patched, patch.clone()).unwrap_or_else(|error| panic!("{document} with {patch}: {error}"));
    assert_eq!(patched, expected, "{document} patched with {patch}");
}

#[test]
fn lists_merge_by_key_and_keep_their_order() {
    let item = |name: i32, value: i32| json!({"name": name, "value": value});
    let list = |items: &[Value]| json!({"list": items});
    let cases = [
        (list(&[item(1, 1), item(2, 2)]), list(&[item(2, 3)]), list(&[item(1, 1), item(2, 3)])),
        (list(&[item(1, 1)]), list(&[item(3, 3), item(2, 2)]), list(&[item(3, 3), item(2, 2), item(1, 1)])),
        (list(&[item(1, 1), item(2, 2)]), json!({"list": [{"$patch": "delete", "name": 1}]}), list(&[item(2, 2)])),
        (list(&[item(1, 1)]), json!({"list": [item(9, 9), {"$patch": "replace"}]}), list(&[item(9, 9)])),
        (list(&[item(1, 1)]), json!({"list": null}), json!({})),
        (
            json!({}),
            json!({"list": [{"name": 1, "value": null}, {"$patch": "delete", "name": 2}]}),
            json!({"list": [{"name": 1}]}),
        ),
        (
            list(&[item(1, 1), item(2, 2), item(3, 3)]),
            json!({"$setElementOrder/list": [{"name": 3}, {"name": 1}]}),
            json!({"list": [item(2, 2), item(3, 3), item(1, 1)]}),
        ),
        (
            list(&[item(1, 1), item(2, 2)]),
            json!({"$setElementOrder/list": [{"name": 2}, {"name": 4}, {"name": 1}], "list": [item(4, 4)]}),
            list(&[item(2, 2), item(4, 4), item(1, 1)]),
        ),
        (json!({"replaced": [1, 2]}), json!({"replaced": [3]}), json!({"replaced": [3]})),
        (json!({"values": [1, 2]}), json!({"values": [3, 2]}), json!({"values": [3, 1, 2]})),
        (json!({"values": [1, 2, 3]}), json!({"$deleteFromPrimitiveList/values": [2]}), json!({"values": [1, 3]})),
        (
            json!({"values": [1, 2, 3]}),
            json!({"$deleteFromPrimitiveList/values": [2], "$setElementOrder/values": [3, 1, 4], "values": [4]}),
            json!({"values": [3, 1, 4]}),
        ),
    ];
    for (document, patch, expected) in cases {
        check(document, patch, expected);
    }
}

#[test]
fn maps_merge_by_default() {
    let cases = [
        (json!({"map": {"a": 1, "b": 2}}), json!({"map": {"a": null, "c": 3}}), json!({"map": {"b": 2, "c": 3}})),
        (json!({"map": {"a": 1}}), json!({"map": {"$patch": "replace", "c": 3}}), json!({"map": {"c": 3}})),
        (json!({"map": {"a": 1}}), json!({"map": {"$patch": "delete"}}), json!({"map": {}})),
        (json!({"whole": {"a": 1}}), json!({"whole": {"b": 1}}), json!({"whole": {"b": 1}})),
        (
            json!({"retained": {"type": "A", "a": {"x": 1}}}),
            json!({"retained": {"$retainKeys": ["type", "b"], "type": "B", "b": {"y": 1}}}),
            json!({"retained": {"type": "B", "b": {"y": 1}}}),
        ),
        (json!({"map": 1}), json!({"map": {"a": {"$patch": "delete"}, "b": 1}}), json!({"map": {"b": 1}})),
        (json!({"a": 1}), json!({"$patch": "replace", "z": 1}), json!({"z": 1})),
        (json!({"a": 1}), json!({"unknown": {"x": null, "y": 1}}), json!({"a": 1, "unknown": {"y": 1}})),
    ];
    for (document, patch, expected) in cases {
        check(document, patch, expected);
    }
}

#[test]
fn invalid_directives_get_the_error_of_kube_apiserver() {
    let cases = [
        (
            json!({"map": {"a": 1}}),
            json!({"map": {"$patch": "bogus"}}),
            500,
            "unknown patch type: bogus in map: map[$patch:bogus]",
        ),
        (
            json!({"map": {"a": 1}}),
            json!({"map": {"$retainKeys": ["q"], "z": 1}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (json!({}), json!({"$setElementOrder/list": "x"}), 500, "expected a []interface {}, but received a string"),
        (json!({}), json!({"$setElementOrder": []}), 400, "invalid patch format of setElementOrder list"),
        (json!({}), json!({"$deleteFromPrimitiveList": []}), 400, "invalid patch format of primitive list"),
        (
            json!({"list": [{"name": 1}]}),
            json!({"list": [{"value": 2}]}),
            500,
            "map: map[value:2] does not contain declared merge key: name",
        ),
        (json!({"values": [1]}), json!({"values": ["a"]}), 500, "list element types are not identical: [[1] [a]]"),
        (
            json!({"list": [[1]]}),
            json!({"list": [[2]]}),
            422,
            "the server rejected our request due to an error in our request",
        ),
        (json!({}), json!([1]), 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ];
    for (document, patch, code, message) in cases {
        let error = apply(&schema(), &mut document.clone(), patch.clone()).expect_err("refused");
        let status = error.to_status();
        assert_eq!((status.code, status.message.as_str()), (code, message), "{document} patched with {patch}");
    }
}
