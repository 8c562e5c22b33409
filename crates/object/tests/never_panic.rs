//! Walks and patches never panic on arbitrary JSON and mismatched schemas.

use object::patch::apply::{ApplyContext, apply, update_managers};
use object::patch::fieldset::Set;
use object::patch::{json as json_patch, merge, strategic, typed};
use object::schema::{self, Schema};
use object::{FieldPath, Object};
use proptest::prelude::*;
use serde_json::{Value, json};

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a",
        "b",
        "list",
        "set",
        "map",
        "spec",
        "metadata",
        "name",
        "labels",
        "finalizers",
        "ownerReferences",
        "uid",
        "managedFields",
        "$patch",
        "$retainKeys",
        "$setElementOrder/list",
        "$deleteFromPrimitiveList/set",
        "replace",
        "delete",
        "merge",
        ".",
        "f:a",
        "kind",
        "apiVersion",
        "1",
        "-",
        "2020-01-01T00:00:00Z",
        "5Gi",
        "",
    ])
    .prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|n| json!(n)),
        (0i64..3).prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(word(), inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn operation() -> impl Strategy<Value = Value> {
    let op = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "x"]);
    let path = || {
        prop::collection::vec(word(), 0..4).prop_map(|parts| parts.iter().map(|p| format!("/{p}")).collect::<String>())
    };
    (op, path(), path(), value())
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
}

fn schema() -> Schema {
    let item = json!({"type": "object", "properties": {"name": {"type": "string"}, "a": {"type": "integer", "default": 3}, "b": {}}});
    let keyed = json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"});
    let set = json!({"type": "array", "items": {"type": "string", "pattern": "^[a-z]$"}, "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"});
    let map = json!({"type": "object", "additionalProperties": {"type": "string", "format": "date-time"}, "maxProperties": 1});
    Schema::from_openapi(&json!({"type": "object", "properties": {"list": keyed, "set": set, "map": map, "a": {"x-kubernetes-preserve-unknown-fields": true},
        "b": {"x-kubernetes-int-or-string": true}, "spec": {"type": "object", "default": {}, "required": ["a"], "properties": {"list": keyed, "set": set, "map": map,
            "a": {"type": "object", "x-kubernetes-embedded-resource": true}, "b": {"oneOf": [{"type": "string"}, {"type": "integer", "multipleOf": 0.5}]}}}}}))
    .expect("a schema")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn patches_never_panic(document in value(), patch in value(), operations in prop::collection::vec(operation(), 0..5)) {
        let schema = schema();
        let _ = json_patch::apply(&mut document.clone(), &patch);
        let _ = json_patch::apply(&mut document.clone(), &Value::from(operations));
        let _ = merge::apply(&mut document.clone(), &patch);
        let _ = strategic::apply(&schema, &mut document.clone(), patch.clone());
    }

    #[test]
    fn walks_never_panic(document in value(), other in value()) {
        let schema = schema();
        let base = FieldPath::root();
        let _ = schema::validate(&schema, &document, &base);
        let _ = schema::validate_update(&schema, &document, &other, &base);
        let _ = schema::decode_check(&schema, &document);
        let reported = schema::unknown_fields(&schema, &document).len();
        let mut pruned = document.clone();
        prop_assert_eq!(schema::prune(&schema, &mut pruned).len(), reported);
        prop_assert!(schema::prune(&schema, &mut pruned).is_empty());
        for walk in [schema::drop_nulls, schema::drop_forbidden_nulls, schema::apply_defaults, schema::canonicalize, schema::fill_zeros] {
            let mut once = document.clone();
            walk(&schema, &mut once);
            let mut twice = once.clone();
            walk(&schema, &mut twice);
            prop_assert_eq!(once, twice);
        }
        let _ = schema::coerce(&schema, &mut document.clone());
        schema::normalize_numbers(&mut document.clone());
    }

    #[test]
    fn ownership_never_panics(live in value(), applied in value(), fields in value()) {
        let schema = schema();
        let versions = |_: &str| None;
        let ctx = ApplyContext { schema: &schema, versions: &versions, subresource: "", now: jiff::Timestamp::UNIX_EPOCH, reset_fields: None };
        let object = |value: &Value| Object::from_value(value.clone()).unwrap_or_default();
        let _ = apply(ctx, Some(&object(&live)), &object(&applied), "m", false);
        let _ = apply(ctx, None, &object(&applied), "kubectl", true);
        let mut new = object(&applied);
        update_managers(ctx, Some(&object(&live)), &mut new, "m");
        update_managers(ctx, None, &mut new, "m");
        let _ = typed::merge(&schema, &live, &applied);
        let set = Set::from_json(&fields).unwrap_or_default();
        let _ = typed::remove_items(&schema, &live, &set);
        let _ = typed::extract_items(&schema, &live, &typed::to_field_set(&schema, &applied));
    }
}
