//! Structural schemas as expressions see them: types and size bounds of the data.

use crate::escape::escape;
use crate::types::Type;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Largest request of the API server; it bounds unbounded schemas.
pub const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;

const DURATION_JSON_MAX: u64 = 32;
const DURATION_JSON_MIN: u64 = 3;
const DATETIME_JSON_MAX: u64 = 32;
const DATETIME_JSON_MIN: u64 = 21;
const DATE_JSON: u64 = 12;
const STRING_JSON_MIN: u64 = 2;

/// The part of an OpenAPI v3 structural schema that determines types and sizes.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) nullable: bool,
    pub(crate) int_or_string: bool,
    pub(crate) embedded_resource: bool,
    pub(crate) preserve_unknown_fields: bool,
    pub(crate) properties: Option<BTreeMap<String, Schema>>,
    pub(crate) additional: Option<Box<Schema>>,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) list_type: Option<String>,
    pub(crate) list_map_keys: Vec<String>,
    pub(crate) map_type: Option<String>,
    required: Vec<String>,
    has_default: bool,
    enum_values: Vec<Json>,
    max_length: Option<u64>,
    max_items: Option<u64>,
    max_properties: Option<u64>,
}

impl Schema {
    /// Reads a schema from its JSON form. Unknown keywords are ignored.
    pub fn from_json(schema: &Json) -> Self {
        let text = |key: &str| schema.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        let flag = |key: &str| schema.get(key).and_then(Json::as_bool).unwrap_or(false);
        let bound = |key: &str| schema.get(key).and_then(Json::as_f64).map(|bound| bound.max(0.0) as u64);
        let names = |key: &str| -> Vec<String> {
            let listed = schema.get(key).and_then(Json::as_array).into_iter().flatten();
            listed.filter_map(Json::as_str).map(str::to_owned).collect()
        };
        let properties = schema.get("properties").and_then(Json::as_object).map(|properties| {
            properties.iter().map(|(name, property)| (name.clone(), Schema::from_json(property))).collect()
        });
        let nested = |key: &str| {
            schema.get(key).filter(|nested| nested.is_object()).map(|nested| Box::new(Schema::from_json(nested)))
        };
        Self {
            kind: text("type"),
            format: text("format"),
            nullable: flag("nullable"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            preserve_unknown_fields: flag("x-kubernetes-preserve-unknown-fields"),
            properties,
            additional: nested("additionalProperties"),
            items: nested("items"),
            list_type: schema.get("x-kubernetes-list-type").and_then(Json::as_str).map(str::to_owned),
            list_map_keys: names("x-kubernetes-list-map-keys"),
            map_type: schema.get("x-kubernetes-map-type").and_then(Json::as_str).map(str::to_owned),
            required: names("required"),
            has_default: schema.get("default").is_some_and(|default| !default.is_null()),
            enum_values: schema.get("enum").and_then(Json::as_array).cloned().unwrap_or_default(),
            max_length: bound("maxLength"),
            max_items: bound("maxItems"),
            max_properties: bound("maxProperties"),
        }
    }

    /// The schema of a resource root: name and kind are always readable, regardless of the schema.
    pub fn into_resource_root(mut self) -> Self {
        let string = || Schema { kind: "string".to_owned(), ..Schema::default() };
        let properties = self.properties.get_or_insert_default();
        let is_string = |schema: Option<&Schema>| schema.is_some_and(|schema| schema.kind == "string");
        let metadata = properties.get("metadata").and_then(|metadata| metadata.properties.as_ref());
        let complete = is_string(properties.get("kind"))
            && is_string(properties.get("apiVersion"))
            && metadata.is_some_and(|fields| is_string(fields.get("name")) && is_string(fields.get("generateName")));
        if !complete {
            properties.insert("kind".to_owned(), string());
            properties.insert("apiVersion".to_owned(), string());
            let fields = BTreeMap::from([("name".to_owned(), string()), ("generateName".to_owned(), string())]);
            let metadata = Schema { kind: "object".to_owned(), properties: Some(fields), ..Schema::default() };
            properties.insert("metadata".to_owned(), metadata);
        }
        self
    }

    pub(crate) fn max_items(&self) -> Option<u64> {
        self.max_items
    }

    pub(crate) fn max_properties(&self) -> Option<u64> {
        self.max_properties
    }

    /// Adds the resource fields to this schema, if it is embedded, and to every embedded resource below.
    pub fn complete_embedded(mut self) -> Self {
        if self.embedded_resource {
            self = self.into_resource_root();
        }
        self.properties = self
            .properties
            .map(|all| all.into_iter().map(|(name, schema)| (name, schema.complete_embedded())).collect());
        self.items = self.items.map(|items| Box::new(items.complete_embedded()));
        self.additional = self.additional.map(|values| Box::new(values.complete_embedded()));
        self
    }
}

/// A type with the bounds for cost estimation.
#[derive(Debug)]
pub struct Decl {
    pub ty: Type,
    /// Maximum number of characters, items or entries of a value; zero if not applicable.
    pub max_elements: u64,
    /// Minimum size of a value in JSON.
    pub min_serialized_size: u64,
    pub(crate) element: Option<Arc<Decl>>,
    pub(crate) key: Option<Arc<Decl>>,
    /// By escaped name.
    pub(crate) fields: BTreeMap<String, Arc<Decl>>,
}

impl Decl {
    fn simple(ty: Type, max_elements: u64, min_serialized_size: u64) -> Self {
        Self { ty, max_elements, min_serialized_size, element: None, key: None, fields: BTreeMap::new() }
    }
}

/// The type of data with the given schema; `None` if expressions cannot see such data. `name` is the name of the
/// object type; embedded resources must already be completed.
pub fn type_of_schema(schema: &Schema, name: &str) -> Option<Arc<Decl>> {
    decl(schema, name).map(Arc::new)
}

fn decl(schema: &Schema, name: &str) -> Option<Decl> {
    let text_max = REQUEST_BYTES_MAX - 2;
    // maxLength counts code points, costs count bytes.
    let from_max_length = schema.max_length.map(|length| length.saturating_mul(4));
    if schema.int_or_string {
        return Some(Decl::simple(Type::Dyn, from_max_length.unwrap_or(text_max), 1));
    }
    match schema.kind.as_str() {
        "array" => list_decl(schema, name),
        "object" => object_decl(schema, name),
        "string" => Some(match schema.format.as_str() {
            "byte" => Decl::simple(Type::Bytes, schema.max_length.unwrap_or(text_max), STRING_JSON_MIN),
            "duration" => Decl::simple(Type::Duration, DURATION_JSON_MAX, DURATION_JSON_MIN),
            "date" => Decl::simple(Type::Timestamp, DATE_JSON, DATE_JSON),
            "date-time" => Decl::simple(Type::Timestamp, DATETIME_JSON_MAX, DATETIME_JSON_MIN),
            _ => {
                let longest = schema.enum_values.iter().filter_map(Json::as_str).map(str::len).max().unwrap_or(0);
                let unbounded = if schema.enum_values.is_empty() { text_max } else { longest as u64 };
                Decl::simple(Type::String, from_max_length.unwrap_or(unbounded), STRING_JSON_MIN)
            }
        }),
        "boolean" => Some(Decl::simple(Type::Bool, 0, 4)),
        "number" => Some(Decl::simple(Type::Double, 0, 1)),
        "integer" => Some(Decl::simple(Type::Int, 0, 1)),
        _ => None,
    }
}

fn list_decl(schema: &Schema, name: &str) -> Option<Decl> {
    let element = Arc::new(decl(schema.items.as_deref()?, &format!("{name}.@idx"))?);
    let fitting = (REQUEST_BYTES_MAX - 2) / (element.min_serialized_size + 1);
    let mut list = Decl::simple(Type::list(element.ty.clone()), schema.max_items.unwrap_or(fitting), 2);
    list.element = Some(element);
    Some(list)
}

fn object_decl(schema: &Schema, name: &str) -> Option<Decl> {
    if let Some(values) = schema.additional.as_deref() {
        let value = Arc::new(decl(values, &format!("{name}.@elem"))?);
        // Two bytes of key, quotes, colon and comma come with every value.
        let fitting = (REQUEST_BYTES_MAX - 2) / (value.min_serialized_size + 6);
        let ty = Type::map(Type::String, value.ty.clone());
        let mut map = Decl::simple(ty, schema.max_properties.unwrap_or(fitting), 2);
        map.element = Some(value);
        map.key = Some(Arc::new(Decl::simple(Type::String, 0, 0)));
        return Some(map);
    }
    let mut fields = BTreeMap::new();
    let mut min_serialized_size = 2;
    for (property, property_schema) in schema.properties.iter().flatten() {
        let escaped = escape(property);
        let field_name = format!("{name}.{}", escaped.as_deref().unwrap_or(property));
        let Some(field) = decl(property_schema, &field_name) else { continue };
        if schema.required.contains(property) && !property_schema.has_default {
            min_serialized_size += property.len() as u64 + field.min_serialized_size + 4;
        }
        if let Some(escaped) = escaped {
            fields.insert(escaped, Arc::new(field));
        }
    }
    let types = fields.iter().map(|(field, decl): (&String, &Arc<Decl>)| (field.clone(), decl.ty.clone()));
    let mut object = Decl::simple(Type::object(name, types), 0, min_serialized_size);
    object.fields = fields;
    Some(object)
}
