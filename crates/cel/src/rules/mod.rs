//! The `x-kubernetes-validations` rules of a schema: compiled with the CRD, applied to every object.
//!
//! ```
//! use cel::{Budget, rules::CompiledRules};
//! use object::FieldPath;
//!
//! let schema = serde_json::json!({
//!     "type": "object",
//!     "properties": {"spec": {
//!         "type": "object",
//!         "properties": {"replicas": {"type": "integer"}},
//!         "x-kubernetes-validations": [{"rule": "self.replicas > 0", "message": "must be positive"}],
//!     }},
//! });
//! let (rules, errors) = CompiledRules::compile(&schema, &FieldPath::root());
//! assert!(errors.is_empty());
//! let object = serde_json::json!({"spec": {"replicas": 0}});
//! let outcome = rules.validate(&FieldPath::root(), &object, None, &mut Budget::for_validation());
//! assert_eq!(outcome.errors[0].to_string(), "spec: Invalid value: must be positive");
//! ```

mod compile;
mod correlate;
mod cost;
mod field_path;
mod validate;

pub use cost::{RULE_COST_LIMIT, SCHEMA_COST_LIMIT};
pub use validate::Validation;

use crate::program::Program;
use crate::schema::Schema;
use object::FieldErrorKind;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// All rules of one schema.
#[derive(Debug)]
pub struct CompiledRules {
    schema: Schema,
    root: Option<RuleNode>,
}

impl CompiledRules {
    /// The schema has no rules; validating would do nothing.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }
}

/// A position in the schema at or below which there are rules.
#[derive(Debug, Default)]
struct RuleNode {
    rules: Vec<Rule>,
    /// Set if no rule can run here because expressions cannot see the data's type.
    untyped: bool,
    properties: BTreeMap<String, RuleNode>,
    additional: Option<Box<RuleNode>>,
    items: Option<Box<RuleNode>>,
    all_of: Vec<RuleNode>,
}

impl RuleNode {
    fn is_empty(&self) -> bool {
        self.rules.is_empty()
            && self.properties.is_empty()
            && self.additional.is_none()
            && self.items.is_none()
            && self.all_of.is_empty()
    }

    fn or_none(self) -> Option<Self> {
        (!self.is_empty()).then_some(self)
    }
}

#[derive(Debug)]
struct Rule {
    text: RuleText,
    /// The program or its error; `None` for a blank rule.
    program: Option<Result<Program, String>>,
    message_program: Option<Program>,
    /// Path of the error, relative to the rule.
    field_path: Option<String>,
    uses_old_self: bool,
}

/// A rule as written.
#[derive(Debug, Clone, Default)]
struct RuleText {
    rule: String,
    message: String,
    message_expression: String,
    reason: Option<String>,
    field_path: String,
    optional_old_self: Option<bool>,
}

impl RuleText {
    fn from_json(rule: &Json) -> Self {
        let text = |key: &str| rule.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        Self {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: rule.get("reason").and_then(Json::as_str).map(str::to_owned),
            field_path: text("fieldPath"),
            optional_old_self: rule.get("optionalOldSelf").and_then(Json::as_bool),
        }
    }

    /// The rule's name in error messages.
    fn name(&self) -> &str {
        if self.message.is_empty() { self.rule.trim() } else { self.message.trim() }
    }

    fn default_message(&self) -> String {
        if self.message.is_empty() { format!("failed rule: {}", self.name()) } else { self.message.trim().to_owned() }
    }

    fn is_optional(&self) -> bool {
        self.optional_old_self == Some(true)
    }

    fn error_kind(&self) -> FieldErrorKind {
        match self.reason.as_deref() {
            Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
            Some("FieldValueRequired") => FieldErrorKind::Required,
            Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
            _ => FieldErrorKind::Invalid,
        }
    }

    /// The rule as the invalid value of an error, formatted as in Kubernetes.
    fn shown(&self) -> String {
        let quoted = |text: &str| {
            let plain = Json::from(text).to_string();
            plain.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
        };
        format!(
            "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
            quoted(&self.rule),
            quoted(&self.message),
            quoted(&self.message_expression),
            self.reason.as_deref().map_or("null".to_owned(), quoted),
            quoted(&self.field_path),
            self.optional_old_self.map_or("null".to_owned(), |flag| flag.to_string()),
        )
    }
}
