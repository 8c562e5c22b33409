//! The CEL rules of a definition's schemas: they must compile and be cheap enough.

use cel::rules::CompiledRules;
use serde_json::Value;

use super::openapi::Tolerance;
use crate::strategies::fields::Field;

/// Reports rules that do not compile or cost too much. The schema is structural.
pub(super) fn validate(schema: Field<'_>, value: &Value, tolerance: &Tolerance) {
    let (_, errors) = match tolerance.is_stored(value) {
        true => CompiledRules::compile_stored(value, &schema.field_path()),
        false => CompiledRules::compile(value, &schema.field_path()),
    };
    schema.report().extend(errors);
}
