//! The verb of a request, as authorization, admission, audit and metrics name it.

use serde::{Serialize, Serializer};

/// A verb on a resource, or the method of a request for a plain URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    Create,
    Delete,
    DeleteCollection,
    #[default]
    Get,
    List,
    Patch,
    Update,
    Watch,
    /// Methods that only requests for plain URLs have as their verb.
    Head,
    Options,
    Post,
    Put,
    /// A method outside of Kubernetes' API.
    Other,
}

impl Verb {
    /// All verbs on resources, in the order of discovery documents of built-in kinds.
    pub const OF_RESOURCES: [Self; 8] = [
        Self::Create,
        Self::Delete,
        Self::DeleteCollection,
        Self::Get,
        Self::List,
        Self::Patch,
        Self::Update,
        Self::Watch,
    ];

    /// All verbs on resources, in the order of discovery documents of CustomResourceDefinitions.
    pub const OF_CUSTOM_RESOURCES: [Self; 8] = [
        Self::Delete,
        Self::DeleteCollection,
        Self::Get,
        Self::List,
        Self::Patch,
        Self::Create,
        Self::Update,
        Self::Watch,
    ];

    /// The name in rules, discovery documents, audit records and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Get => "get",
            Self::List => "list",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Watch => "watch",
            Self::Head => "head",
            Self::Options => "options",
            Self::Post => "post",
            Self::Put => "put",
            Self::Other => "other",
        }
    }

    /// The verb of a request for a plain URL: its method in lower case.
    pub fn of_method(method: &str) -> Self {
        match method {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            _ => Self::Other,
        }
    }

    /// Reports whether the verb changes nothing.
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Watch | Self::Head | Self::Options)
    }

    /// Reports whether the verb is about a collection and not about one object.
    pub fn is_of_collection(self) -> bool {
        matches!(self, Self::List | Self::Watch | Self::DeleteCollection)
    }
}

impl std::fmt::Display for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Verb {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
