//! Documents of custom kinds and of the cache; compared with a real server in tests/conformance.

use object::GroupVersionKind;

use super::*;
use crate::Catalog;

fn builtin_entries() -> Vec<OpenApiEntry> {
    Catalog::builtin().kinds().iter().map(|kind| OpenApiEntry { kind: kind.clone(), schema: None }).collect()
}

fn widget(schema: Value) -> OpenApiEntry {
    let mut kind = Catalog::builtin().kinds()[2].as_ref().clone();
    kind.gvk = GroupVersionKind::new("example.com", "v1", "Widget");
    kind.plural = "widgets".to_owned();
    kind.list_kind = "WidgetList".to_owned();
    kind.definition = definition_name("example.com", "v1", "Widget");
    OpenApiEntry { kind: Arc::new(kind), schema: Some(Arc::new(schema)) }
}

fn parsed(document: &Document) -> Value {
    serde_json::from_slice(&document.inflate()).expect("documents are JSON")
}

/// The published forms (v2, v3) of a field of a custom kind.
fn published(field: Value) -> (Value, Value) {
    let api = OpenApi::new(vec![widget(json!({ "type": "object", "properties": { "f": field } }))]);
    let v2 = parsed(&api.v2_json())["definitions"]["com.example.v1.Widget"]["properties"]["f"].clone();
    let v3 = parsed(&api.v3_document("apis/example.com/v1").expect("served"));
    (v2, v3["components"]["schemas"]["com.example.v1.Widget"]["properties"]["f"].clone())
}

#[test]
fn custom_schemas_are_reduced_for_v2() {
    let cases = [
        (json!({ "type": "string", "nullable": true, "maxLength": 10 }), json!({ "maxLength": 10 })),
        (json!({ "type": "integer", "default": 3, "minimum": 1 }), json!({ "type": "integer", "minimum": 1 })),
        (
            json!({ "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] }),
            json!({ "x-kubernetes-int-or-string": true }),
        ),
        (
            json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": { "a": {} } }),
            json!({ "x-kubernetes-preserve-unknown-fields": true }),
        ),
        (
            json!({ "type": "object", "required": ["n"], "properties": { "n": { "type": "string", "nullable": true } } }),
            json!({ "type": "object", "properties": { "n": {} } }),
        ),
        (
            json!({ "type": "array", "items": { "type": "string" } }),
            json!({ "type": "array", "items": { "type": "string" } }),
        ),
    ];
    for (field, expected) in cases {
        let (v2, v3) = published(field.clone());
        assert_eq!(v2, expected, "v2 of {field}");
        assert_eq!(v3, field, "v3 keeps the schema as it is");
    }
}

#[test]
fn embedded_objects_get_the_fields_of_objects() {
    let (v2, v3) = published(json!({ "type": "object", "x-kubernetes-embedded-resource": true }));
    for schema in [v2, v3] {
        assert_eq!(schema["required"], json!(["kind", "apiVersion"]));
        assert!(schema["properties"]["metadata"].is_object());
    }
}

#[test]
fn a_kind_that_keeps_unknown_fields_is_opaque_in_v2() {
    let api = OpenApi::new(vec![widget(json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }))]);
    let v2 = parsed(&api.v2_json());
    assert!(v2["definitions"]["com.example.v1.Widget"].get("properties").is_none());
}

#[test]
fn only_documents_of_changed_groups_get_new_hashes() {
    let before = OpenApi::new(builtin_entries());
    before.v3_document("apis/apps/v1").expect("served");
    let mut entries = builtin_entries();
    entries.push(widget(json!({ "type": "object" })));
    let with_widget = before.with_entries(entries.clone());
    entries.pop();
    entries.push(widget(json!({ "type": "object", "properties": { "spec": { "type": "object" } } })));
    let with_changed = with_widget.with_entries(entries);
    let hash = |api: &OpenApi, name: &str| api.v3_index()["paths"][name]["serverRelativeURL"].clone();
    assert_eq!(hash(&before, "apis/apps/v1"), hash(&with_changed, "apis/apps/v1"));
    assert_ne!(hash(&with_widget, "apis/example.com/v1"), hash(&with_changed, "apis/example.com/v1"));
    assert_ne!(before.v2_json().hash, with_widget.v2_json().hash);
    assert_eq!(with_changed.cache.lock().keys().collect::<Vec<_>>(), ["apis/apps/v1"]);
}

#[test]
fn every_reference_of_every_document_exists() {
    let api = OpenApi::new(builtin_entries());
    for name in api.v3_names() {
        let document = api.v3_document(&name).expect("listed");
        let text = String::from_utf8(document.inflate()).expect("JSON is UTF-8");
        let value: Value = serde_json::from_str(&text).expect("documents are JSON");
        for part in text.split("#/components/schemas/").skip(1) {
            let target = part.split('"').next().expect("split yields at least one part");
            assert!(value["components"]["schemas"].get(target).is_some(), "{name} refers to {target}");
        }
    }
}

#[test]
fn unknown_document_names_are_not_served() {
    let api = OpenApi::new(builtin_entries());
    assert!(api.v3_document("apis/apps/v2").is_none());
    assert!(api.v3_document("v2.json").is_none());
}
