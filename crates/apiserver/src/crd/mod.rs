//! CustomResourceDefinitions: kinds made at run time, with their schemas, rules and conversion.

pub mod controller;
pub mod conversion;
mod names;
mod resource;

use std::sync::Arc;

use object::Object;
use serde_json::Value;

pub use names::set_condition;

/// What a kind from a CRD has beyond a built-in one.
pub struct Custom {
    /// The name of the CustomResourceDefinition.
    pub definition_name: String,
    /// The version's schema as its author wrote it, descriptions included, for OpenAPI.
    pub raw_schema: Option<Arc<Value>>,
    pub rules: Option<cel::rules::CompiledRules>,
    pub conversion: Conversion,
    /// While the definition is being deleted nothing new may come.
    pub terminating: bool,
}

/// How objects get from one served version to another.
#[derive(Clone, Debug, PartialEq)]
pub enum Conversion {
    /// Only `apiVersion` changes.
    None,
    /// A webhook is asked; the value is the CRD's `spec.conversion.webhook`.
    Webhook(Arc<Value>),
}

impl Custom {
    /// Brings `object` to `api_version` where the versions differ by name only.
    pub fn convert_plainly(&self, mut object: Object, api_version: &str) -> Object {
        object.set(&["apiVersion"], api_version);
        object
    }
}
