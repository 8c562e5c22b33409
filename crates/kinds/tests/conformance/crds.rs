//! Custom kinds that use every keyword of structural schemas, as a CustomResourceDefinition and as our kinds.

use std::sync::Arc;

use kinds::kind::ScaleSelector;
use kinds::openapi::{OpenApiEntry, definition_name};
use kinds::{Catalog, Kind, SelectableField, ServedSubresource, SubresourceKind};
use object::request::{Subresource, Verb};
use object::{GroupResource, GroupVersionKind};
use serde_json::{Value, json};

pub fn definitions() -> Vec<Value> {
    vec![
        crd(
            json!({ "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wd"], "categories": ["all"] }),
            "Namespaced",
            json!([
                {
                    "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": widget() },
                    "selectableFields": [{ "jsonPath": ".spec.mode" }],
                    "subresources": { "status": {}, "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas" } },
                },
                {
                    "name": "v1beta1", "served": true, "storage": false,
                    "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
                },
            ]),
        ),
        crd(
            json!({ "plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetCollection" }),
            "Cluster",
            json!([{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": gadget() } }]),
        ),
    ]
}

fn crd(names: Value, scope: &str, versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.example.com", names["plural"].as_str().expect("named")) },
        "spec": { "group": "example.com", "scope": scope, "names": names, "versions": versions },
    })
}

fn gadget() -> Value {
    json!({ "type": "object", "properties": {
        "metadata": { "type": "object", "properties": { "name": { "type": "string", "maxLength": 5 } } },
        "spec": { "type": "object" },
    } })
}

fn widget() -> Value {
    json!({
        "description": "A widget does things.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": { "type": "object", "required": ["size", "name"], "properties": {
                "size": { "type": "integer", "minimum": 1, "maximum": 10, "default": 3, "description": "How large." },
                "replicas": { "type": "integer", "format": "int32" },
                "name": { "type": "string", "nullable": true, "pattern": "^[a-z]+$", "maxLength": 10 },
                "port": { "x-kubernetes-int-or-string": true },
                "percent": { "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }], "pattern": "%$" },
                "raw": { "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": { "a": { "type": "string" } } },
                "open": { "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true },
                "closed": { "type": "object", "x-kubernetes-embedded-resource": true, "properties": { "spec": { "type": "object" } } },
                "mode": { "type": "string", "enum": ["A", "B"] },
                "list": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": { "type": "object", "required": ["k"], "properties": { "k": { "type": "string" }, "v": { "type": "string", "nullable": true } } },
                },
                "maybe": { "type": "array", "nullable": true, "items": { "type": "string" } },
                "map": { "type": "object", "additionalProperties": { "type": "string", "nullable": true } },
                "either": { "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } }, "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] },
                "checked": { "type": "object", "x-kubernetes-map-type": "atomic", "x-kubernetes-validations": [{ "rule": "self.a != 'x'", "message": "refused" }],
                             "properties": { "a": { "type": "string", "default": "q" } } },
            } },
            "status": { "type": "object", "properties": { "replicas": { "type": "integer" } } },
        },
    })
}

/// The kinds an API server creates from a definition.
pub fn entries(crd: &Value) -> Vec<OpenApiEntry> {
    let versions = crd["spec"]["versions"].as_array().expect("versions");
    versions.iter().map(|version| entry(&crd["spec"], version)).collect()
}

fn entry(spec: &Value, version: &Value) -> OpenApiEntry {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let words = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
    let (group, names, name) = (text(&spec["group"]), &spec["names"], text(&version["name"]));
    let gvk = GroupVersionKind::new(group.clone(), name.clone(), text(&names["kind"]));
    let model = Catalog::builtin().kinds()[2].as_ref().clone();
    let kind = Kind {
        list_kind: text(&names["listKind"]),
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        short_names: words(&names["shortNames"]),
        categories: words(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        storage: GroupVersionKind::new(group.clone(), "v1", gvk.kind.clone()),
        storage_resource: GroupResource::new(group.clone(), text(&names["plural"])),
        verbs: Verb::OF_CUSTOM_RESOURCES.to_vec(),
        subresources: subresources(&gvk, &version["subresources"]),
        selectable_fields: selectable_fields(&version["selectableFields"]),
        definition: definition_name(&group, &name, &gvk.kind),
        gvk,
        ..model
    };
    OpenApiEntry { kind: Arc::new(kind), schema: Some(Arc::new(version["schema"]["openAPIV3Schema"].clone())) }
}

fn selectable_fields(declared: &Value) -> Vec<SelectableField> {
    let own = declared.as_array().into_iter().flatten().filter_map(|field| field["jsonPath"].as_str());
    let own = own.map(|path| path.trim_start_matches('.'));
    ["metadata.name", "metadata.namespace"].into_iter().chain(own).map(SelectableField::path).collect()
}

fn subresources(parent: &GroupVersionKind, declared: &Value) -> Vec<ServedSubresource> {
    let verbs = vec![Verb::Get, Verb::Patch, Verb::Update];
    let scale = SubresourceKind::Scale {
        spec_replicas: ".spec.replicas".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        label_selector: ScaleSelector::None,
    };
    let status = ServedSubresource {
        name: Subresource::Status,
        kind: SubresourceKind::Status,
        gvk: parent.clone(),
        verbs: verbs.clone(),
    };
    let scale = ServedSubresource {
        name: Subresource::Scale,
        kind: scale,
        gvk: GroupVersionKind::new("autoscaling", "v1", "Scale"),
        verbs,
    };
    [status, scale].into_iter().filter(|sub| declared.get(sub.name.as_str()).is_some()).collect()
}
