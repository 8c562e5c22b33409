//! The CEL rules of a definition's schemas: they must compile and be cheap enough.

use cel::rules::CompiledRules;
use object::FieldErrorKind;
use serde_json::Value;

use super::openapi::Tolerance;
use crate::strategies::fields::Field;

/// Reports rules that do not compile or cost too much. The schema is structural.
pub(super) fn validate(schema: Field<'_>, value: &Value, tolerance: &Tolerance) {
    let (_, mut errors) = CompiledRules::compile(value, &schema.field_path());
    // A schema that is already stored keeps its rules, even if estimates have grown since.
    if tolerance.is_stored(value) {
        errors.retain(|error| error.kind != FieldErrorKind::Forbidden || !error.detail.starts_with("estimated "));
    }
    schema.report().extend(errors);
}
