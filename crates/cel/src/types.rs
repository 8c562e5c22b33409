//! The types of CEL expressions.

use crate::value::record::{JSON_PATCH, OBJECT};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Types without structure visible to expressions, each defined by a library.
pub mod opaque {
    pub const IP: &str = "net.IP";
    pub const CIDR: &str = "net.CIDR";
    pub const URL: &str = "kubernetes.URL";
    pub const QUANTITY: &str = "kubernetes.Quantity";
    pub const SEMVER: &str = "kubernetes.Semver";
    pub const NAMED_FORMAT: &str = "kubernetes.NamedFormat";
    pub const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
    pub const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
    pub const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
    pub const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
    pub const DECISION: &str = "kubernetes.authorization.Decision";

    pub(crate) const ALL: [&str; 11] =
        [IP, CIDR, URL, QUANTITY, SEMVER, NAMED_FORMAT, AUTHORIZER, PATH_CHECK, GROUP_CHECK, RESOURCE_CHECK, DECISION];
}

#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    Dyn,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    Object(Arc<ObjectType>),
    Optional(Arc<Type>),
    /// The type of a type; without a parameter, the type of all types.
    Type(Option<Arc<Type>>),
    /// One of the names in [`opaque`].
    Opaque(&'static str),
    /// A type parameter of a declared function.
    Param(char),
    /// A type not known yet while an expression is being checked.
    Free(usize),
    /// The type of an ill-typed expression; it fits everywhere so that one error is reported once.
    Error,
}

/// An object with named fields. Two object types are the same type when they have the same name.
#[derive(Debug)]
pub struct ObjectType {
    pub name: String,
    pub fields: BTreeMap<String, Type>,
    /// Fields that are not listed have any type.
    pub is_open: bool,
}

impl ObjectType {
    pub(crate) fn field(&self, name: &str) -> Option<Type> {
        self.fields.get(name).cloned().or_else(|| self.is_open.then_some(Type::Dyn))
    }
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Type {
    pub fn list(element: Type) -> Self {
        Self::List(Arc::new(element))
    }

    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    pub fn optional(value: Type) -> Self {
        Self::Optional(Arc::new(value))
    }

    pub fn object(name: impl Into<String>, fields: impl IntoIterator<Item = (String, Type)>) -> Self {
        let fields = fields.into_iter().collect();
        Self::Object(Arc::new(ObjectType { name: name.into(), fields, is_open: false }))
    }

    /// The type of one operation of a JSON patch.
    pub fn json_patch() -> Self {
        let text = ["op", "path", "from"].map(|name| (name.to_owned(), Self::String));
        Self::object(JSON_PATCH, text.into_iter().chain([("value".to_owned(), Self::Dyn)]))
    }

    /// The type of an object that an expression builds for an apply configuration.
    pub fn apply_configuration() -> Self {
        Self::open_object(OBJECT)
    }

    fn open_object(name: &str) -> Self {
        Self::Object(Arc::new(ObjectType { name: name.to_owned(), fields: BTreeMap::new(), is_open: true }))
    }

    /// The type of `NAME{…}` in expressions that build patches.
    pub(crate) fn of_record(name: &str) -> Option<Self> {
        match name {
            JSON_PATCH => Some(Self::json_patch()),
            OBJECT => Some(Self::apply_configuration()),
            _ => name.strip_prefix(OBJECT).filter(|rest| rest.starts_with('.')).map(|_| Self::open_object(name)),
        }
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Types to which null may be assigned although they are not dynamic.
    pub(crate) fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Opaque(_) | Self::Optional(_) | Self::Object(_) | Self::Duration | Self::Timestamp | Self::Null
        )
    }

    /// A value of this type has a size that does not depend on the data.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Double | Self::Duration | Self::Int | Self::Timestamp | Self::Uint => true,
            Self::Optional(inner) => inner.is_scalar(),
            _ => false,
        }
    }

    /// The name returned by `type()`, without parameters.
    pub(crate) fn runtime_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::Dyn => "dyn",
            Self::List(_) => "list",
            Self::Map(..) => "map",
            Self::Object(object) => &object.name,
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Opaque(name) => name,
            Self::Param(_) | Self::Free(_) => "dyn",
            Self::Error => "error",
        }
    }
}

/// Types as spelled in compile errors.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Type(Some(inner)) => write!(f, "type({inner})"),
            Self::Param(name) => write!(f, "{name}"),
            Self::Free(number) => write!(f, "_var{number}"),
            Self::Error => f.write_str("!error!"),
            other => f.write_str(other.runtime_name()),
        }
    }
}
