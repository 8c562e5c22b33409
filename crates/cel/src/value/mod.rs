//! Values of expressions. JSON data is read in place, never copied up front.

mod compare;
mod json;
mod map;
pub(crate) mod record;
pub(crate) mod time;

pub(crate) use compare::{compare, concatenate, equal};
pub use map::Map;
pub(crate) use map::{Key, get, missing_key};
pub use record::Record;

use crate::library::authorizer::Authorization;
use crate::library::named_format::NamedFormat;
use crate::library::net::{Cidr, Ip};
use crate::library::quantity::Quantity;
use crate::library::semver::Semver;
use crate::library::url::Url;
use crate::schema::Schema;
use crate::types::{Type, opaque};
use serde_json::Value as Json;
use std::fmt;
use std::sync::Arc;
use time::{Duration, Timestamp};

#[derive(Debug, Clone)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Arc<[u8]>),
    Timestamp(Timestamp),
    Duration(Duration),
    List(List<'a>),
    Map(Map<'a>),
    Type(Type),
    Optional(Option<Arc<Value<'a>>>),
    Opaque(Opaque<'a>),
}

/// Values of the library types in [`opaque`].
#[derive(Debug, Clone)]
pub enum Opaque<'a> {
    Ip(Ip),
    Cidr(Cidr),
    Url(Arc<Url>),
    Quantity(Quantity),
    Semver(Arc<Semver>),
    Format(NamedFormat),
    Authorization(Authorization),
    /// Data preserved without a schema inside data that has one: it can only be compared.
    Preserved(&'a Json),
    /// An object that the expression built.
    Record(Arc<Record<'a>>),
}

/// A string, borrowed from the data where possible.
#[derive(Clone)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self::Borrowed(text)
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

#[derive(Debug, Clone)]
pub struct List<'a> {
    pub(crate) items: Items<'a>,
    pub(crate) kind: ListKind<'a>,
}

#[derive(Debug, Clone)]
pub(crate) enum Items<'a> {
    Made(Arc<Vec<Value<'a>>>),
    Json { items: &'a [Json], schema: Option<&'a Schema> },
}

/// The comparison and addition semantics of a list, from its `x-kubernetes-list-type`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ListKind<'a> {
    Plain,
    /// From data with a schema: comparing it with something else than a list is an error.
    Atomic,
    Set,
    Map {
        keys: &'a [String],
    },
}

impl<'a> List<'a> {
    pub(crate) fn made(items: Vec<Value<'a>>) -> Self {
        Self { items: Items::Made(Arc::new(items)), kind: ListKind::Plain }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.items {
            Items::Made(items) => items.len(),
            Items::Json { items, .. } => items.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get(&self, index: usize) -> Option<Evaluated<'a>> {
        match &self.items {
            Items::Made(items) => items.get(index).cloned().map(Ok),
            Items::Json { items, schema } => items.get(index).map(|item| json::item_value(item, *schema)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Evaluated<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// All items, or the first error among them.
    pub fn items(&self) -> Result<Vec<Value<'a>>, EvalError> {
        self.values()
    }

    pub(crate) fn values(&self) -> Result<Vec<Value<'a>>, EvalError> {
        self.iter().collect()
    }
}

/// The error of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The expression failed for this data: a missing key, an overflow, a bad conversion.
    #[error("{0}")]
    Failed(String),
    /// No function of this name takes arguments of these types.
    #[error("{0}")]
    NoSuchOverload(String),
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
    #[error("validation failed due to running out of cost budget, no further validation rules will be run")]
    OutOfBudget,
    #[error("operation interrupted")]
    Interrupted,
}

impl EvalError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    pub(crate) fn no_such_overload() -> Self {
        Self::NoSuchOverload("no such overload".to_owned())
    }

    /// Names the function, and its argument types where they are known.
    pub(crate) fn no_such_overload_of(call: &str) -> Self {
        Self::NoSuchOverload(format!("no such overload: {call}"))
    }

    /// `&&`, `||` and the quantifiers may ignore this error when the other operand decides.
    pub(crate) fn is_absorbable(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::NoSuchOverload(_))
    }
}

pub(crate) type Evaluated<'a> = Result<Value<'a>, EvalError>;

impl<'a> Value<'a> {
    /// Data without a schema: numbers are `int` if they are whole in JSON, else `double`.
    pub fn from_json(data: &'a Json) -> Self {
        json::dynamic_value(data)
    }

    /// Data read by its schema, as custom resources are.
    pub fn from_json_with_schema(data: &'a Json, schema: &'a Schema) -> Result<Self, EvalError> {
        json::typed_value(data, schema)
    }

    pub(crate) fn text(text: impl Into<Text<'a>>) -> Self {
        Self::String(text.into())
    }

    pub(crate) fn list(items: Vec<Value<'a>>) -> Self {
        Self::List(List::made(items))
    }

    pub(crate) fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub fn type_of(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Timestamp(_) => Type::Timestamp,
            Self::Duration(_) => Type::Duration,
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Self::Type(_) => Type::Type(None),
            Self::Optional(_) => Type::optional(Type::Dyn),
            Self::Opaque(value) => value.type_of(),
        }
    }

    pub(crate) fn type_name(&self) -> String {
        self.type_of().runtime_name().to_owned()
    }

    /// Characters, bytes, items or entries; one for everything else.
    pub(crate) fn cost_size(&self) -> u64 {
        match self {
            Self::String(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Optional(Some(value)) => value.cost_size(),
            Self::Opaque(Opaque::Ip(ip)) => ip.byte_length(),
            Self::Opaque(Opaque::Cidr(cidr)) => cidr.byte_length(),
            _ => 1,
        }
    }
}

impl Opaque<'_> {
    fn type_of(&self) -> Type {
        match self {
            Self::Ip(_) => Type::Opaque(opaque::IP),
            Self::Cidr(_) => Type::Opaque(opaque::CIDR),
            Self::Url(_) => Type::Opaque(opaque::URL),
            Self::Quantity(_) => Type::Opaque(opaque::QUANTITY),
            Self::Semver(_) => Type::Opaque(opaque::SEMVER),
            Self::Format(_) => Type::Opaque(opaque::NAMED_FORMAT),
            Self::Authorization(value) => Type::Opaque(value.type_name()),
            Self::Preserved(_) => Type::Dyn,
            Self::Record(record) => Type::of_record(&record.type_name).unwrap_or(Type::Dyn),
        }
    }
}
