//! Objects seen through their schema for merging: leaves, keyed lists and open maps.

mod atomics;
mod check;
mod compare;
mod fields;
mod merge;
mod remove;

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::fieldset::PathElement;
use crate::schema::{ListType, Schema, SchemaRef, SchemaType};

pub use atomics::atomic_fields;
pub use check::check_typed;
pub use compare::{Comparison, compare};
pub use fields::{named_fields_as_members, reconcile_with_schema, to_field_set};
pub use merge::merge;
pub use remove::{extract_items, remove_items};

/// The merge type of one position.
#[derive(Clone, Copy)]
pub(super) enum Type<'a> {
    Known {
        at: SchemaRef<'a>,
        /// Unknown fields above are kept, so open maps here are open too.
        preserve: bool,
        /// The root of an object, where `metadata` is ObjectMeta regardless of the schema.
        root: bool,
    },
    /// No schema: maps merge field by field, lists as a whole.
    Deduced,
    /// No schema, and all of it is one leaf.
    Atomic,
}

/// The shape of a position for the value it holds.
pub(super) enum Shape<'a> {
    Scalar,
    List(ListShape<'a>),
    Map(MapShape<'a>),
}

#[derive(Clone, Copy)]
pub(super) struct ListShape<'a> {
    /// `None` for lists without identity, which are one leaf.
    pub keys: Option<&'a [String]>,
    pub items: Type<'a>,
}

#[derive(Clone, Copy)]
pub(super) struct MapShape<'a> {
    pub atomic: bool,
    ty: Type<'a>,
}

impl<'a> Type<'a> {
    pub fn root(schema: &'a Schema) -> Self {
        Self::Known { at: schema.root(), preserve: false, root: true }
    }

    /// The shape of a value of this type; the value matters only if the type allows several.
    pub fn shape(self, value: Option<&Value>) -> Shape<'a> {
        match self {
            Self::Known { at, .. } => match at.node().definition_name() {
                "Quantity" => Shape::Scalar,
                "RawExtension" => Self::Atomic.shape(value),
                _ => self.known_shape(at, value),
            },
            Self::Deduced | Self::Atomic => match value {
                Some(Value::Array(_)) => Shape::List(ListShape { keys: None, items: Self::Atomic }),
                Some(Value::Object(_) | Value::Null) | None => {
                    Shape::Map(MapShape { atomic: matches!(self, Self::Atomic), ty: self })
                }
                Some(_) => Shape::Scalar,
            },
        }
    }

    fn known_shape(self, at: SchemaRef<'a>, value: Option<&Value>) -> Shape<'a> {
        match (at.ty(), value) {
            (SchemaType::Array, _) | (SchemaType::Any | SchemaType::IntOrString, Some(Value::Array(_))) => {
                let keys = match &at.node().list_type {
                    ListType::Atomic => None,
                    ListType::Set => Some(&[][..]),
                    ListType::Map(keys) => Some(keys.as_slice()),
                };
                let items = at.items().map_or(Self::Atomic, |items| self.inner(items));
                Shape::List(ListShape { keys, items })
            }
            (SchemaType::Object, _)
            | (SchemaType::Any | SchemaType::IntOrString, None | Some(Value::Object(_) | Value::Null)) => {
                Shape::Map(MapShape { atomic: at.node().atomic_map, ty: self })
            }
            _ => Shape::Scalar,
        }
    }

    /// The type of a position below. Definitions do not inherit openness, they declare it themselves.
    fn inner(self, at: SchemaRef<'a>) -> Self {
        let preserve = at.node().definition.is_none() && self.preserves();
        Self::Known { at, preserve, root: false }
    }

    fn preserves(self) -> bool {
        match self {
            Self::Known { at, preserve, .. } => preserve || at.node().preserve_unknown,
            Self::Deduced | Self::Atomic => true,
        }
    }

    /// Reports whether two values of this type have the same shape, so that one walk serves both.
    pub fn same_shape(self, a: &Value, b: &Value) -> bool {
        let open = match self {
            Self::Known { at, .. } => matches!(at.ty(), SchemaType::Any | SchemaType::IntOrString),
            Self::Deduced | Self::Atomic => true,
        };
        !open || std::mem::discriminant(&self.shape(Some(a))) == std::mem::discriminant(&self.shape(Some(b)))
    }
}

impl<'a> MapShape<'a> {
    /// The type of a field; `None` if the schema does not declare it.
    pub fn field(&self, name: &str) -> Option<Type<'a>> {
        let Type::Known { at, root, .. } = self.ty else { return Some(self.ty) };
        if root && name == "metadata" && at.property(name).is_none_or(|meta| meta.node().definition.is_none()) {
            return Some(Type::Known { at: OBJECT_META.root(), preserve: false, root: false });
        }
        if root && matches!(name, "apiVersion" | "kind") {
            return Some(at.property(name).map_or(Type::Deduced, |at| self.ty.inner(at)));
        }
        match at.field(name) {
            Some(below) => Some(self.ty.inner(below)),
            None => (self.ty.preserves() || at.node().properties.is_empty()).then_some(Type::Deduced),
        }
    }

    /// Like `field`; an undeclared field that passed the checks merges by its apparent type.
    pub fn field_or_deduced(&self, name: &str) -> Type<'a> {
        self.field(name).unwrap_or(Type::Deduced)
    }

    /// Reports whether the field is a struct field rather than an item of an open map.
    pub fn declares(&self, name: &str) -> bool {
        match self.ty {
            Type::Known { at, root, .. } => {
                at.property(name).is_some() || (root && matches!(name, "metadata" | "apiVersion" | "kind"))
            }
            Type::Deduced | Type::Atomic => false,
        }
    }

    pub fn is_deduced(&self) -> bool {
        !matches!(self.ty, Type::Known { .. })
    }
}

impl ListShape<'_> {
    /// The identity of an item. Missing key fields count with their default.
    pub fn element(&self, item: &Value) -> Result<PathElement, String> {
        match self.keys {
            None => Err("invalid indexing of non-associative list".to_owned()),
            Some([]) => match item {
                Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
                scalar => Ok(PathElement::Value(scalar.clone())),
            },
            Some(keys) => self.keyed_element(keys, item),
        }
    }

    fn keyed_element(&self, keys: &[String], item: &Value) -> Result<PathElement, String> {
        let map = match item {
            Value::Object(map) => map,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let mut found: Vec<(Box<str>, Value)> = Vec::with_capacity(keys.len());
        for key in keys {
            let value = map.get(key).cloned().or_else(|| self.key_default(key));
            found.extend(value.map(|value| (key.as_str().into(), value)));
        }
        if found.is_empty() {
            let names: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                names.join(" ")
            ));
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(PathElement::Key(found))
    }

    fn key_default(&self, key: &str) -> Option<Value> {
        let Type::Known { at, .. } = self.items else { return None };
        at.property(key)?.node().default.as_deref().cloned()
    }
}

/// The metadata of objects whose own schema leaves it open, such as custom resources.
static OBJECT_META: LazyLock<Schema> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let owner = json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
        "apiVersion": text, "kind": text, "name": text, "uid": text,
        "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"},
    }});
    let schema = json!({"type": "object", "properties": {
        "annotations": texts, "labels": texts,
        "creationTimestamp": text, "deletionTimestamp": text, "deletionGracePeriodSeconds": {"type": "integer"},
        "finalizers": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "generateName": text, "name": text, "namespace": text, "resourceVersion": text, "selfLink": text, "uid": text,
        "generation": {"type": "integer"},
        "managedFields": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic"},
        "ownerReferences": {"type": "array", "items": owner,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"]},
    }});
    Schema::from_openapi(&schema).expect("a constant schema reads")
});
