//! Reads OpenAPI schema documents into the compact arena, resolving `$ref` by definition name.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use thiserror::Error;

use super::{CompiledPattern, ListType, Node, PatchStrategy, Rules, SchemaId, SchemaSet, SchemaType};

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SchemaError {
    #[error("schema refers to {0:?}, which is not defined")]
    UnknownReference(String),
    #[error("schema {0:?} refers to itself and nothing else")]
    EmptyCycle(String),
    #[error("schema is nested deeper than {0} levels")]
    TooDeep(usize),
}

/// Deeper schemas than this are refused; the deepest real ones have about twenty levels.
const DEPTH_MAX: usize = 100;

/// The words that make up `Rules`.
const RULE_WORDS: &[&str] = &[
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
    "x-kubernetes-validations",
];

/// Collects nodes; references may come before what they name.
#[derive(Default)]
pub struct SchemaSetBuilder {
    nodes: Vec<Node>,
    named: BTreeMap<String, SchemaId>,
    defined: BTreeMap<String, bool>,
    /// Nodes that take their shape from a definition once all are known.
    overlays: BTreeMap<u32, Overlay>,
}

/// A place that refers to a definition and adds words of its own (a default, a merge key): the words belong to the
/// place, the shape to the definition.
struct Overlay {
    target: SchemaId,
    words: Map<String, Value>,
    rules: Option<Rules>,
}

impl Overlay {
    fn lay_on(self, node: &mut Node) {
        let words = Value::Object(self.words);
        let has = |word: &str| words.get(word).is_some();
        if has("default") {
            node.default = read_default(&words);
        }
        if has("x-zero") || has("default") {
            node.zero = read_zero(&words);
        }
        if has("nullable") {
            node.nullable = flag(&words, "nullable");
        }
        if has("x-kubernetes-list-type") {
            node.list_type = read_list_type(&words);
        }
        if has("x-kubernetes-map-type") {
            node.atomic_map = words["x-kubernetes-map-type"] == "atomic";
        }
        if has("x-kubernetes-patch-strategy") || has("x-kubernetes-patch-merge-key") {
            node.patch = read_patch_strategy(&words);
        }
        node.preserve_unknown |= flag(&words, "x-kubernetes-preserve-unknown-fields");
        node.embedded |= flag(&words, "x-kubernetes-embedded-resource");
        if let Some(mut rules) = self.rules {
            rules.all_of.push(self.target);
            node.rules = Some(Arc::new(rules));
        }
    }
}

impl SchemaSetBuilder {
    /// Adds a definition that others may refer to by name.
    pub fn define(&mut self, name: &str, schema: &Value) -> Result<SchemaId, SchemaError> {
        let id = self.reserve(name);
        self.defined.insert(name.to_owned(), true);
        if let Some(target) = reference_name(schema) {
            self.overlay(id, &target, schema, 0)?;
            return Ok(id);
        }
        let mut node = self.read(schema, 0)?;
        node.definition = Some(name.into());
        self.nodes[id.0 as usize] = node;
        Ok(id)
    }

    pub fn add(&mut self, schema: &Value) -> Result<SchemaId, SchemaError> {
        self.child(schema, 0)
    }

    pub fn finish(mut self) -> Result<SchemaSet, SchemaError> {
        if let Some((name, _)) = self.defined.iter().find(|(_, defined)| !**defined) {
            return Err(SchemaError::UnknownReference(name.clone()));
        }
        while let Some(id) = self.overlays.keys().next().copied() {
            self.resolve(SchemaId(id), 0)?;
        }
        Ok(SchemaSet { nodes: self.nodes, named: self.named })
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
            let own_words = schema.as_object().is_some_and(|map| map.keys().any(|word| is_overlay_word(word)));
            if !own_words {
                return Ok(self.reserve(&name));
            }
            let id = self.push(Node::default());
            self.overlay(id, &name, schema, depth)?;
            return Ok(id);
        }
        let node = self.read(schema, depth)?;
        Ok(self.push(node))
    }

    fn overlay(&mut self, id: SchemaId, target: &str, schema: &Value, depth: usize) -> Result<(), SchemaError> {
        let mut words = schema.as_object().cloned().unwrap_or_default();
        words.retain(|word, _| is_overlay_word(word));
        let rules = self.read_rules(&Value::Object(words.clone()), depth)?;
        let target = self.reserve(target);
        self.overlays.insert(id.0, Overlay { target, words, rules });
        Ok(())
    }

    /// Gives a node the shape of its target, which may itself be waiting for its own target.
    fn resolve(&mut self, id: SchemaId, depth: usize) -> Result<(), SchemaError> {
        let Some(overlay) = self.overlays.get(&id.0) else { return Ok(()) };
        let target = overlay.target;
        if depth > DEPTH_MAX {
            let name = self.named.iter().find(|(_, named)| **named == id).map(|(name, _)| name.clone());
            return Err(SchemaError::EmptyCycle(name.unwrap_or_default()));
        }
        self.resolve(target, depth + 1)?;
        let Some(overlay) = self.overlays.remove(&id.0) else { return Ok(()) };
        let mut node = self.nodes[target.0 as usize].clone();
        overlay.lay_on(&mut node);
        self.nodes[id.0 as usize] = node;
        Ok(())
    }

    fn children(&mut self, list: Option<&Value>, depth: usize) -> Result<Vec<SchemaId>, SchemaError> {
        let items = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().map(|item| self.child(item, depth + 1)).collect()
    }

    fn read(&mut self, schema: &Value, depth: usize) -> Result<Node, SchemaError> {
        let mut node = Node { ty: read_type(schema), ..Node::default() };
        let mut properties = BTreeMap::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            properties.insert(name.as_str().into(), self.child(property, depth + 1)?);
        }
        node.properties = Arc::new(properties);
        node.additional = match &schema["additionalProperties"] {
            inner @ Value::Object(_) => Some(self.child(inner, depth + 1)?),
            Value::Bool(true) => Some(self.push(Node { preserve_unknown: true, ..Node::default() })),
            _ => None,
        };
        if schema["items"].is_object() {
            node.items = Some(self.child(&schema["items"], depth + 1)?);
        }
        node.required = strings(&schema["required"]).into_iter().map(Into::into).collect();
        node.default = read_default(schema);
        node.zero = read_zero(schema);
        node.nullable = flag(schema, "nullable");
        node.list_type = read_list_type(schema);
        node.atomic_map = schema["x-kubernetes-map-type"] == "atomic";
        node.patch = read_patch_strategy(schema);
        node.preserve_unknown = flag(schema, "x-kubernetes-preserve-unknown-fields");
        node.embedded = flag(schema, "x-kubernetes-embedded-resource");
        node.rules = self.read_rules(schema, depth)?.map(Arc::new);
        Ok(node)
    }

    fn read_rules(&mut self, schema: &Value, depth: usize) -> Result<Option<Rules>, SchemaError> {
        if !schema.as_object().is_some_and(|map| RULE_WORDS.iter().any(|word| map.contains_key(*word))) {
            return Ok(None);
        }
        let number = |key: &str| schema[key].as_f64();
        let count = |key: &str| schema[key].as_u64();
        Ok(Some(Rules {
            format: schema["format"].as_str().map(str::to_owned),
            compiled: CompiledPattern::default(),
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
            validations: schema["x-kubernetes-validations"].as_array().cloned().unwrap_or_default(),
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

/// Returns true when a keyword next to a reference applies to the field. A description does not matter to a walk, and the
/// `allOf` is the reference itself.
fn is_overlay_word(word: &str) -> bool {
    const PLACE_WORDS: &[&str] = &[
        "default",
        "x-zero",
        "nullable",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-patch-strategy",
        "x-kubernetes-patch-merge-key",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ];
    PLACE_WORDS.contains(&word) || (word != "allOf" && RULE_WORDS.contains(&word))
}

fn read_default(schema: &Value) -> Option<Box<Value>> {
    schema.get("default").filter(|value| !value.is_null()).cloned().map(Box::new)
}

/// The zero value a built-in type always shows. OpenAPI documents show it as a default, which real defaults are never.
fn read_zero(schema: &Value) -> Option<Box<Value>> {
    if let Some(zero) = schema.get("x-zero") {
        return Some(Box::new(zero.clone()));
    }
    let shown = schema.get("default")?;
    let zero = match shown {
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(flag) => !flag,
        Value::Null | Value::Array(_) => false,
    };
    zero.then(|| Box::new(shown.clone()))
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
        Some(_) => ListType::Atomic,
        // Before list types there were patch strategies; apply reads them where nothing newer is said.
        None => match read_patch_strategy(schema) {
            PatchStrategy { merge: true, merge_key: Some(key), .. } => ListType::Map(vec![key]),
            PatchStrategy { merge: true, merge_key: None, .. } => ListType::Set,
            _ => ListType::Atomic,
        },
    }
}

fn read_patch_strategy(schema: &Value) -> PatchStrategy {
    let words = schema["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
    PatchStrategy {
        merge: words.split(',').any(|w| w == "merge"),
        retain_keys: words.split(',').any(|w| w == "retainKeys"),
        replace: words.split(',').any(|w| w == "replace"),
        merge_key: schema["x-kubernetes-patch-merge-key"].as_str().map(str::to_owned),
    }
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn flag(schema: &Value, key: &str) -> bool {
    schema.as_object().and_then(|map: &Map<String, Value>| map.get(key)).and_then(Value::as_bool).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn build(definitions: Value) -> Result<Arc<SchemaSet>, SchemaError> {
        let mut builder = SchemaSetBuilder::default();
        for (name, schema) in definitions.as_object().expect("a map of definitions") {
            builder.define(name, schema)?;
        }
        builder.finish().map(Arc::new)
    }

    #[test]
    fn keywords_next_to_a_reference_apply_to_the_field() {
        let set = build(json!({
            "io.x.Box": {"type": "object", "properties": {
                "plain": {"$ref": "#/definitions/io.x.Item"},
                "special": {"allOf": [{"$ref": "#/components/schemas/io.x.Item"}], "default": {"a": 1},
                    "nullable": true, "x-kubernetes-patch-strategy": "replace", "x-kubernetes-map-type": "atomic"},
            }},
            "io.x.Item": {"type": "object", "properties": {"a": {"type": "integer"}}},
        }))
        .expect("a valid set");
        let root = set.named("io.x.Box").expect("defined");
        let plain = root.root().property("plain").expect("declared").node();
        let special = root.root().property("special").expect("declared").node();
        assert_eq!((plain.default.is_some(), plain.nullable, plain.atomic_map), (false, false, false));
        assert_eq!((special.default.is_some(), special.nullable, special.atomic_map), (true, true, true));
        assert_eq!(plain.properties, special.properties);
        assert_eq!(special.definition_name(), "Item");
    }

    #[test]
    fn a_reference_to_nothing_is_refused() {
        let missing = build(json!({"A": {"properties": {"x": {"$ref": "#/B"}}}}));
        assert_eq!(missing.err(), Some(SchemaError::UnknownReference("B".into())));
        let circle = build(json!({"A": {"$ref": "#/B"}, "B": {"$ref": "#/A"}}));
        assert!(matches!(circle.err(), Some(SchemaError::EmptyCycle(_))));
        let chain =
            build(json!({"A": {"$ref": "#/B", "nullable": true}, "B": {"$ref": "#/C"}, "C": {"type": "string"}}));
        let schema = chain.expect("resolves").named("A").expect("defined");
        assert_eq!((schema.root().ty(), schema.root().node().nullable), (SchemaType::String, true));
    }
}
