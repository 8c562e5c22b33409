//! Validation in its layers: metadata every kind shares, the schema and CEL rules of custom kinds, the kind's own rules.

use kinds::strategies::metadata::{validate_object_meta, validate_object_meta_update};
use object::{FieldError, FieldErrorKind, FieldPath, Object, schema};

use crate::context::Context;
use crate::served_resources::Resource;

pub fn on_create(ctx: &Context, resource: &Resource, object: &Object) -> Vec<FieldError> {
    let kind = &resource.kind;
    let mut errors = validate_object_meta(object, kind.namespaced, |name| kind.strategy.validate_name(name));
    errors.extend(on_custom(ctx, resource, object, None));
    errors.extend(kind.strategy.validate_create(object));
    if errors.is_empty() {
        errors.extend(names_that_break_paths(object));
    }
    errors
}

/// As in kube-apiserver no kind may have a name that is not one segment of a path, even if its own rules allow it.
fn names_that_break_paths(object: &Object) -> Vec<FieldError> {
    let refuse = |problem| FieldError::invalid(FieldPath::new("metadata.name"), object.name(), problem);
    object::names::path_segment(object.name()).into_iter().map(refuse).collect()
}

pub fn on_update(ctx: &Context, resource: &Resource, new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = validate_object_meta_update(new, old);
    errors.extend(on_custom(ctx, resource, new, Some(old)));
    errors.extend(resource.kind.strategy.validate_update(new, old));
    errors
}

pub fn on_status_update(ctx: &Context, resource: &Resource, new: &Object, old: &Object) -> Vec<FieldError> {
    let mut errors = validate_object_meta_update(new, old);
    errors.extend(on_custom(ctx, resource, new, Some(old)));
    errors.extend(resource.kind.strategy.validate_status(new, old));
    errors
}

/// Schema and CEL of a custom kind; built-in kinds have rules in code instead.
fn on_custom(ctx: &Context, resource: &Resource, new: &Object, old: Option<&Object>) -> Vec<FieldError> {
    let Some(custom) = &resource.custom else { return Vec::new() };
    let shape = &resource.kind.schema;
    let (new, old) = (new.as_value(), old.map(Object::as_value));
    let mut errors = match old {
        None => schema::validate(shape, new, &FieldPath::root()),
        Some(old) => schema::validate_update(shape, new, old, &FieldPath::root()),
    };
    let Some(rules) = &custom.rules else { return errors };
    // Rules assume a value of the right shape: otherwise they are skipped, and an error says so.
    let in_doubt = |error: &FieldError| {
        use FieldErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
        matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
    };
    if errors.iter().any(in_doubt) {
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        errors.push(FieldError::invalid(FieldPath::root(), serde_json::Value::Null, detail));
    } else {
        let mut budget = cel::Budget::for_validation();
        let found = rules.validate(&FieldPath::root(), new, old, &mut budget);
        errors.extend(found.errors);
        // An unchanged value that was invalid before is accepted with a warning.
        found.warnings.into_iter().for_each(|warning| ctx.warn(warning));
    }
    errors
}
