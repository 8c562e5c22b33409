//! Reads OpenAPI schema documents into the compact arena, resolving `$ref` by definition name.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use thiserror::Error;

use super::{ListType, Node, PatchStrategy, Rules, SchemaId, SchemaSet, SchemaType};

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SchemaError {
    #[error("schema refers to {0:?}, which is not defined")]
    UnknownReference(String),
    #[error("schema is nested deeper than {0} levels")]
    TooDeep(usize),
}

/// Deeper schemas than this are refused; the deepest real ones have about twenty levels.
const DEPTH_MAX: usize = 100;

/// Collects nodes; references may come before what they name.
#[derive(Default)]
pub struct SchemaSetBuilder {
    nodes: Vec<Node>,
    named: BTreeMap<String, SchemaId>,
    defined: BTreeMap<String, bool>,
}

impl SchemaSetBuilder {
    /// Adds a definition that others may refer to by name.
    pub fn define(&mut self, name: &str, schema: &Value) -> Result<SchemaId, SchemaError> {
        let id = self.reserve(name);
        self.defined.insert(name.to_owned(), true);
        let node = self.read(schema, 0)?;
        self.nodes[id.0 as usize] = node;
        Ok(id)
    }

    pub fn add(&mut self, schema: &Value) -> Result<SchemaId, SchemaError> {
        self.child(schema, 0)
    }

    pub fn finish(self) -> Result<SchemaSet, SchemaError> {
        match self.defined.into_iter().find(|(_, defined)| !defined) {
            Some((name, _)) => Err(SchemaError::UnknownReference(name)),
            None => Ok(SchemaSet { nodes: self.nodes, named: self.named }),
        }
    }

    fn reserve(&mut self, name: &str) -> SchemaId {
        if let Some(id) = self.named.get(name) {
            return *id;
        }
        let id = self.push(Node::default());
        self.named.insert(name.to_owned(), id);
        self.defined.entry(name.to_owned()).or_insert(false);
        id
    }

    fn push(&mut self, node: Node) -> SchemaId {
        let id = SchemaId(u32::try_from(self.nodes.len()).expect("far fewer than four billion nodes"));
        self.nodes.push(node);
        id
    }

    fn child(&mut self, schema: &Value, depth: usize) -> Result<SchemaId, SchemaError> {
        if depth > DEPTH_MAX {
            return Err(SchemaError::TooDeep(DEPTH_MAX));
        }
        if let Some(name) = reference_name(schema) {
            let target = self.reserve(&name);
            // Words beside a reference (a default, a merge key) belong to the place, not to the definition:
            // `read` keeps them on the parent's field through `overlay`.
            return Ok(target);
        }
        let node = self.read(schema, depth)?;
        Ok(self.push(node))
    }

    fn children(&mut self, list: Option<&Value>, depth: usize) -> Result<Vec<SchemaId>, SchemaError> {
        let items = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().map(|item| self.child(item, depth + 1)).collect()
    }

    fn read(&mut self, schema: &Value, depth: usize) -> Result<Node, SchemaError> {
        let mut node = Node { ty: read_type(schema), ..Node::default() };
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let id = self.child(property, depth + 1)?;
            node.properties.insert(name.as_str().into(), id);
        }
        node.additional = match &schema["additionalProperties"] {
            inner @ Value::Object(_) => Some(self.child(inner, depth + 1)?),
            Value::Bool(true) => Some(self.push(Node { preserve_unknown: true, ..Node::default() })),
            _ => None,
        };
        if schema["items"].is_object() {
            node.items = Some(self.child(&schema["items"], depth + 1)?);
        }
        node.required = strings(&schema["required"]).into_iter().map(Into::into).collect();
        node.default = schema.get("default").cloned().map(Box::new);
        node.nullable = flag(schema, "nullable");
        node.list_type = read_list_type(schema);
        node.atomic_map = schema["x-kubernetes-map-type"] == "atomic";
        node.patch = read_patch_strategy(schema);
        node.preserve_unknown = flag(schema, "x-kubernetes-preserve-unknown-fields");
        node.embedded = flag(schema, "x-kubernetes-embedded-resource");
        node.rules = self.read_rules(schema, depth)?.map(Box::new);
        Ok(node)
    }

    fn read_rules(&mut self, schema: &Value, depth: usize) -> Result<Option<Rules>, SchemaError> {
        const WORDS: &[&str] = &[
            "format",
            "pattern",
            "enum",
            "minimum",
            "maximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "uniqueItems",
            "minProperties",
            "maxProperties",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
        ];
        if !schema.as_object().is_some_and(|map| WORDS.iter().any(|word| map.contains_key(*word))) {
            return Ok(None);
        }
        let number = |key: &str| schema[key].as_f64();
        let count = |key: &str| schema[key].as_u64();
        Ok(Some(Rules {
            format: schema["format"].as_str().map(str::to_owned),
            pattern: schema["pattern"].as_str().map(str::to_owned),
            enumeration: schema["enum"].as_array().cloned().unwrap_or_default(),
            minimum: number("minimum"),
            maximum: number("maximum"),
            exclusive_minimum: flag(schema, "exclusiveMinimum"),
            exclusive_maximum: flag(schema, "exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            unique_items: flag(schema, "uniqueItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            all_of: self.children(schema.get("allOf"), depth)?,
            any_of: self.children(schema.get("anyOf"), depth)?,
            one_of: self.children(schema.get("oneOf"), depth)?,
            not: if schema["not"].is_object() { Some(self.child(&schema["not"], depth + 1)?) } else { None },
        }))
    }
}

/// The definition a schema points at, whether bare or wrapped in the one-element `allOf` of OpenAPI v3.
fn reference_name(schema: &Value) -> Option<String> {
    let pointer = schema["$ref"].as_str().or_else(|| match schema["allOf"].as_array().map(Vec::as_slice) {
        Some([only]) if schema.get("type").is_none() => only["$ref"].as_str(),
        _ => None,
    })?;
    Some(pointer.rsplit('/').next().unwrap_or(pointer).to_owned())
}

fn read_type(schema: &Value) -> SchemaType {
    if flag(schema, "x-kubernetes-int-or-string") || schema["format"] == "int-or-string" {
        return SchemaType::IntOrString;
    }
    match schema["type"].as_str() {
        Some("object") => SchemaType::Object,
        Some("array") => SchemaType::Array,
        Some("string") => SchemaType::String,
        Some("integer") => SchemaType::Integer,
        Some("number") => SchemaType::Number,
        Some("boolean") => SchemaType::Boolean,
        _ => SchemaType::Any,
    }
}

fn read_list_type(schema: &Value) -> ListType {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(strings(&schema["x-kubernetes-list-map-keys"])),
        _ => ListType::Atomic,
    }
}

fn read_patch_strategy(schema: &Value) -> PatchStrategy {
    let words = schema["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
    PatchStrategy {
        merge: words.split(',').any(|w| w == "merge"),
        retain_keys: words.split(',').any(|w| w == "retainKeys"),
        merge_key: schema["x-kubernetes-patch-merge-key"].as_str().map(str::to_owned),
    }
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn flag(schema: &Value, key: &str) -> bool {
    schema.as_object().and_then(|map: &Map<String, Value>| map.get(key)).and_then(Value::as_bool).unwrap_or(false)
}
