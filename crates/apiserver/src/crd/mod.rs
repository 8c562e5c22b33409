//! CustomResourceDefinitions: kinds made at run time, with their schemas, rules and conversion.

pub mod controller;
pub mod conversion;
mod names;
mod resource;

use std::sync::Arc;

use kinds::Kind;
use object::{FieldPath, Object};
use serde_json::Value;

/// The parts of a kind from a CRD that a built-in kind does not have.
pub struct Custom {
    /// The name of the CustomResourceDefinition.
    pub definition_name: String,
    /// The version's schema as its author wrote it, descriptions included, for OpenAPI.
    pub raw_schema: Option<Arc<Value>>,
    pub rules: Option<cel::rules::CompiledRules>,
    pub conversion: Conversion,
    /// The schema sets defaults, which objects get when they are read too.
    pub has_defaults: bool,
    /// No object can be created while the definition is being deleted.
    pub terminating: bool,
}

/// The conversion of objects between served versions.
#[derive(Clone, Debug, PartialEq)]
pub enum Conversion {
    /// Only `apiVersion` changes.
    None,
    /// By a webhook; the value is the CRD's `spec.conversion.webhook`.
    Webhook(Arc<Value>),
    /// By the kind's strategy.
    Native,
}

impl Custom {
    /// Returns the parts that make a kind of the product behave as if it came from a definition; `None` for other kinds.
    pub fn of_own(kind: &Kind) -> Option<Self> {
        let own = kind.own_schema.as_ref().filter(|own| own.enforced)?;
        let (rules, errors) = cel::rules::CompiledRules::compile(&own.openapi, &FieldPath::root());
        debug_assert!(errors.is_empty(), "{}: {errors:?}", kind.gvk);
        Some(Self {
            has_defaults: false,
            definition_name: kind.group_resource().to_string(),
            raw_schema: None,
            rules: Some(rules).filter(|rules| !rules.is_empty()),
            conversion: Conversion::Native,
            terminating: false,
        })
    }

    /// Brings `object` to `api_version` where the versions differ by name only.
    pub fn convert_plainly(&self, mut object: Object, api_version: &str) -> Object {
        object.set(&["apiVersion"], api_version);
        object
    }
}
