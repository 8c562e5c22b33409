//! Structural schemas in a compact form shared by all walks (prune, default, validate, merge).
//!
//! A `Schema` is a cheap handle on an arena of nodes; built-in kinds share one arena and refer to each other by name,
//! a CRD version has its own arena. Descriptions are not kept here: only `explain` reads them.

mod convert;
mod decode;
mod default;
mod embedded;
mod format;
mod list;
mod pattern;
mod prune;
mod read;
mod validate;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub use convert::conversion_check;
pub use decode::{canonicalize, decode_check, normalize_numbers};
pub use default::{apply_defaults, fill_zeros};
pub use embedded::{coerce, prune_metadata};
pub use format::has_format;
pub use pattern::CompiledPattern;
pub use prune::{drop_forbidden_nulls, drop_nulls, prune, unknown_fields};
pub use read::{SchemaError, SchemaSetBuilder};
pub use validate::{validate, validate_update};

/// A handle on the schema of one kind.
#[derive(Clone, Debug)]
pub struct Schema {
    set: Arc<SchemaSet>,
    root: SchemaId,
}

/// All nodes of a family of schemas.
#[derive(Debug, Default)]
pub struct SchemaSet {
    pub(crate) nodes: Vec<SchemaNode>,
    pub(crate) named: BTreeMap<String, SchemaId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaId(pub(crate) u32);

/// One position in an object, seen through its schema. Cheap to copy.
#[derive(Clone, Copy)]
pub struct SchemaRef<'a> {
    set: &'a SchemaSet,
    id: SchemaId,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchemaType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// A string or an integer (ports, percentages).
    IntOrString,
    /// No type given: any value is valid.
    #[default]
    Any,
}

/// The merge behavior of lists in server-side apply (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    /// Items are identified by these fields.
    Map(Vec<String>),
}

/// The treatment of a field in a strategic merge patch (`x-kubernetes-patch-strategy`, `-merge-key`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    pub merge: bool,
    pub retain_keys: bool,
    /// The map is replaced as a whole.
    pub replace: bool,
    pub merge_key: Option<String>,
}

/// The rules of one position. Fields mirror the OpenAPI keywords they come from.
#[derive(Clone, Debug, Default)]
pub struct SchemaNode {
    /// The name of the definition, such as `io.k8s.api.apps.v1.DeploymentSpec`; positions of a CRD have none.
    pub definition: Option<Arc<str>>,
    pub ty: SchemaType,
    /// Shared, because every reference to a definition repeats its shape.
    pub properties: Arc<BTreeMap<Box<str>, SchemaId>>,
    pub additional: Option<SchemaId>,
    pub items: Option<SchemaId>,
    pub required: Vec<Box<str>>,
    pub default: Option<Box<Value>>,
    /// The value Go writes for a missing field: structs and required plain values (`x-zero`).
    pub zero: Option<Box<Value>>,
    pub nullable: bool,
    pub list_type: ListType,
    /// Maps merge field by field unless they are atomic (`x-kubernetes-map-type: atomic`).
    pub atomic_map: bool,
    pub patch: PatchStrategy,
    /// Unknown fields below are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// A whole object with apiVersion, kind and metadata (`x-kubernetes-embedded-resource`).
    pub embedded: bool,
    /// Value rules, absent on most nodes and shared like the shape.
    pub rules: Option<Arc<Rules>>,
}

/// Bounds and patterns a value must meet.
#[derive(Debug, Default, Clone)]
pub struct Rules {
    pub format: Option<String>,
    pub pattern: Option<String>,
    pub compiled: CompiledPattern,
    pub enumeration: Vec<Value>,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub exclusive_minimum: bool,
    pub exclusive_maximum: bool,
    pub multiple_of: Option<f64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    pub min_items: Option<u64>,
    pub max_items: Option<u64>,
    pub unique_items: bool,
    pub min_properties: Option<u64>,
    pub max_properties: Option<u64>,
    pub all_of: Vec<SchemaId>,
    pub any_of: Vec<SchemaId>,
    pub one_of: Vec<SchemaId>,
    pub not: Option<SchemaId>,
    /// `x-kubernetes-validations` as written; the CEL evaluator compiles them.
    pub validations: Vec<Value>,
}

impl Schema {
    pub fn new(set: Arc<SchemaSet>, root: SchemaId) -> Self {
        Self { set, root }
    }

    /// A schema without rules: every field is kept and none is checked.
    pub fn anything() -> Self {
        let node = SchemaNode { preserve_unknown: true, ..SchemaNode::default() };
        Self { set: Arc::new(SchemaSet { nodes: vec![node], named: BTreeMap::new() }), root: SchemaId(0) }
    }

    /// Parses one OpenAPI v3 structural schema (the form of a CRD version's `schema.openAPIV3Schema`).
    pub fn from_openapi(schema: &Value) -> Result<Self, SchemaError> {
        let mut builder = SchemaSetBuilder::default();
        let root = builder.add(schema)?;
        Ok(Self { set: Arc::new(builder.finish()?), root })
    }

    pub fn root(&self) -> SchemaRef<'_> {
        SchemaRef { set: &self.set, id: self.root }
    }
}

impl SchemaSet {
    /// The schema registered under a definition name such as `io.k8s.api.core.v1.Pod`.
    pub fn named(self: &Arc<Self>, name: &str) -> Option<Schema> {
        self.named.get(name).map(|id| Schema { set: self.clone(), root: *id })
    }
}

impl SchemaNode {
    /// The Go name of the struct, such as `DeploymentSpec`; empty without a definition.
    pub fn definition_name(&self) -> &str {
        self.definition.as_deref().map_or("", |name| name.rsplit('.').next().unwrap_or(name))
    }

    /// The Go name with its package, such as `v1.DeploymentSpec`.
    pub fn go_type(&self) -> &str {
        let name = self.definition.as_deref().unwrap_or_default();
        let dot = name.rmatch_indices('.').nth(1).map_or(0, |(index, _)| index + 1);
        &name[dot..]
    }
}

impl<'a> SchemaRef<'a> {
    pub fn node(self) -> &'a SchemaNode {
        &self.set.nodes[self.id.0 as usize]
    }

    pub fn ty(self) -> SchemaType {
        self.node().ty
    }

    /// The schema of a named field: a declared property, else the additional-properties schema.
    pub fn field(self, name: &str) -> Option<SchemaRef<'a>> {
        let node = self.node();
        node.properties.get(name).copied().or(node.additional).map(|id| self.at(id))
    }

    pub fn property(self, name: &str) -> Option<SchemaRef<'a>> {
        self.node().properties.get(name).map(|id| self.at(*id))
    }

    pub fn properties(self) -> impl Iterator<Item = (&'a str, SchemaRef<'a>)> {
        self.node().properties.iter().map(move |(name, id)| (&**name, self.at(*id)))
    }

    pub fn items(self) -> Option<SchemaRef<'a>> {
        self.node().items.map(|id| self.at(id))
    }

    pub fn additional(self) -> Option<SchemaRef<'a>> {
        self.node().additional.map(|id| self.at(id))
    }

    pub fn rules(self) -> Option<&'a Rules> {
        self.node().rules.as_deref()
    }

    pub fn at(self, id: SchemaId) -> SchemaRef<'a> {
        SchemaRef { set: self.set, id }
    }
}
