//! Brings objects to the form that validation expects: known fields only, nulls dropped, defaults filled in.

use object::request::FieldValidation;
use object::{Object, Status, schema};

use crate::context::Context;
use crate::decode::{self, Complaints, Decoded, Findings};
use crate::served_resources::Resource;

/// Takes a decoded body as an object of the resource and shapes it.
pub fn read_object(
    ctx: &Context,
    resource: &Resource,
    decoded: Decoded,
    validation: FieldValidation,
) -> Result<Object, Status> {
    let Decoded { value, findings } = decoded;
    let object = decode::object_of(resource, value)?;
    shape(ctx, resource, object, validation, findings)
}

/// Prunes unknown fields (or refuses them), checks types of built-in kinds and applies defaults. Patches pass here too.
pub fn shape(
    ctx: &Context,
    resource: &Resource,
    object: Object,
    validation: FieldValidation,
    findings: Findings,
) -> Result<Object, Status> {
    let kind = &resource.kind;
    let mut value = object.into_value();
    let shape = &kind.schema;
    if resource.custom.is_none() {
        schema::drop_nulls(shape, &mut value);
        schema::decode_check(shape, &value).map_err(|problem| {
            let (kind, version) = (&kind.gvk.kind, &kind.gvk.version);
            Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {problem}"))
        })?;
        schema::canonicalize(shape, &mut value);
        let unknown = schema::prune(shape, &mut value);
        report(ctx, resource, findings.of_typed(unknown), validation)?;
    } else {
        let refuse = |error: object::FieldError| Status::bad_request(error.to_string());
        schema::coerce(shape, &mut value).map_err(refuse)?;
        schema::drop_forbidden_nulls(shape, &mut value);
        let (mut unknown, of_embedded) = schema::prune_metadata(shape, &mut value);
        unknown.extend(schema::prune(shape, &mut value));
        unknown.extend(of_embedded);
        report(ctx, resource, findings.of_custom(unknown), validation)?;
    }
    schema::apply_defaults(shape, &mut value);
    let mut object =
        Object::from_value(value).ok_or_else(|| Status::bad_request("the object must be a JSON object"))?;
    if resource.custom.is_none() && kind.stored {
        kinds::strategies::shape::settle(&mut object);
    }
    kind.strategy.default(&mut object);
    Ok(object)
}

/// Refuses an object for what a strict reader finds wrong with it, or warns, as the client asked.
pub fn report(
    ctx: &Context,
    resource: &Resource,
    complaints: Complaints,
    validation: FieldValidation,
) -> Result<(), Status> {
    match validation {
        FieldValidation::Strict if !complaints.is_empty() => {
            let (kind, version) = (&resource.kind.gvk.kind, &resource.kind.gvk.version);
            let list = complaints.as_error();
            Err(Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {list}"
            )))
        }
        FieldValidation::Warn => {
            complaints.into_texts().for_each(|complaint| ctx.warn(complaint));
            Ok(())
        }
        _ => Ok(()),
    }
}
