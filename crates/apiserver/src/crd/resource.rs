//! Reads a CustomResourceDefinition into the kinds it serves.

use std::sync::Arc;

use kinds::kind::ScaleSelector;
use kinds::printers::CrdPrinter;
use kinds::strategy::Strategy;
use kinds::{Kind, SelectableField, ServedSubresource, SubresourceKind};
use object::request::{Subresource, Verb};
use object::schema::Schema;
use object::{FieldPath, GroupResource, GroupVersionKind, Object};
use serde_json::Value;

use super::{Conversion, Custom};

/// Custom kinds follow the rules all kinds share; their own are in their schema.
struct CustomStrategy;

impl Strategy for CustomStrategy {
    fn counts_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

const PART_VERBS: &[Verb] = &[Verb::Get, Verb::Patch, Verb::Update];

/// Every served version of the definition.
pub fn kinds_of(definition: &Object) -> Vec<(Kind, Custom)> {
    let versions = definition.items(&["spec", "versions"]);
    let storage = versions.iter().find(|v| v["storage"] == true).and_then(|v| v["name"].as_str()).unwrap_or_default();
    let served = versions.iter().filter(|v| v["served"] == true);
    served.map(|version| (kind(definition, version, storage), custom(definition, version))).collect()
}

fn kind(definition: &Object, version: &Value, storage: &str) -> Kind {
    let group = definition.str_at(&["spec", "group"]);
    let name = |field: &str| definition.str_at(&["status", "acceptedNames", field]).to_owned();
    let list = |field: &str| -> Vec<String> {
        let items = definition.items(&["status", "acceptedNames", field]).iter();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let version_name = version["name"].as_str().unwrap_or_default();
    let gvk = GroupVersionKind::new(group, version_name, name("kind"));
    Kind {
        list_kind: name("listKind"),
        plural: name("plural"),
        singular: name("singular"),
        short_names: list("shortNames"),
        categories: list("categories"),
        namespaced: definition.str_at(&["spec", "scope"]) == "Namespaced",
        storage: GroupVersionKind::new(group, storage, name("kind")),
        storage_resource: GroupResource::new(group, name("plural")),
        stored: true,
        verbs: Verb::OF_CUSTOM_RESOURCES.to_vec(),
        subresources: subresources(version, &gvk),
        schema: schema(version),
        definition: kinds::openapi::definition_name(group, version_name, &name("kind")),
        selectable_fields: selectable(version),
        strategy: Arc::new(CustomStrategy),
        printer: Arc::new(CrdPrinter::new(&version["additionalPrinterColumns"])),
        deprecation: deprecation(version, &gvk),
        own_schema: None,
        gvk,
    }
}

fn schema(version: &Value) -> Schema {
    match version["schema"].get("openAPIV3Schema") {
        Some(schema) => Schema::from_openapi(schema).unwrap_or_else(|error| {
            // Definitions are validated before they are stored, so this is a definition of an older, laxer server.
            tracing::warn!(%error, "a stored schema cannot be read; its objects are not validated");
            Schema::anything()
        }),
        None => Schema::anything(),
    }
}

fn custom(definition: &Object, version: &Value) -> Custom {
    let raw_schema = version["schema"].get("openAPIV3Schema").cloned().map(Arc::new);
    let rules = raw_schema.as_ref().map(|schema| {
        let (rules, errors) = cel::rules::CompiledRules::compile(schema, &FieldPath::root());
        for error in errors {
            tracing::warn!(definition = definition.name(), %error, "a stored rule does not compile and is not enforced");
        }
        rules
    });
    let conversion = match definition.str_at(&["spec", "conversion", "strategy"]) {
        "Webhook" => {
            let webhook = definition.get(&["spec", "conversion", "webhook"]).cloned().unwrap_or_default();
            Conversion::Webhook(Arc::new(webhook))
        }
        _ => Conversion::None,
    };
    Custom {
        has_defaults: raw_schema.as_ref().is_some_and(|schema| has_default(schema)),
        definition_name: definition.name().to_owned(),
        raw_schema,
        rules: rules.filter(|rules| !rules.is_empty()),
        conversion,
        terminating: definition.is_deleting(),
    }
}

/// Returns true when a schema sets a default anywhere.
fn has_default(schema: &Value) -> bool {
    let Value::Object(map) = schema else { return false };
    let below = |key: &str| map.get(key).and_then(Value::as_object).into_iter().flat_map(|map| map.values());
    map.get("default").is_some_and(|default| !default.is_null())
        || below("properties").any(has_default)
        || ["items", "additionalProperties"].iter().any(|key| map.get(*key).is_some_and(has_default))
}

fn subresources(version: &Value, gvk: &GroupVersionKind) -> Vec<ServedSubresource> {
    let mut found = Vec::new();
    if version["subresources"].get("status").is_some() {
        found.push(ServedSubresource {
            name: Subresource::Status,
            kind: SubresourceKind::Status,
            gvk: gvk.clone(),
            verbs: PART_VERBS.to_vec(),
        });
    }
    if let Some(scale) = version["subresources"].get("scale") {
        let path = |key: &str| scale[key].as_str().unwrap_or_default().to_owned();
        let label_selector = match scale["labelSelectorPath"].as_str() {
            Some(path) if !path.is_empty() => ScaleSelector::Text(path.to_owned()),
            _ => ScaleSelector::None,
        };
        found.push(ServedSubresource {
            name: Subresource::Scale,
            kind: SubresourceKind::Scale {
                spec_replicas: path("specReplicasPath"),
                status_replicas: path("statusReplicasPath"),
                label_selector,
            },
            gvk: GroupVersionKind::new("autoscaling", "v1", "Scale"),
            verbs: PART_VERBS.to_vec(),
        });
    }
    found
}

fn selectable(version: &Value) -> Vec<SelectableField> {
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    let paths = fields.filter_map(|field| field["jsonPath"].as_str());
    paths.map(|path| SelectableField::path(path.trim_start_matches('.'))).collect()
}

fn deprecation(version: &Value, gvk: &GroupVersionKind) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    let text = version["deprecationWarning"].as_str().map(str::to_owned);
    Some(text.unwrap_or_else(|| format!("{}/{} {} is deprecated", gvk.group, gvk.version, gvk.kind)))
}
