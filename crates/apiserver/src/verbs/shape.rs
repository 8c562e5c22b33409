//! Brings objects to the form that validation expects: known fields only, nulls dropped, defaults filled in.

use object::request::FieldValidation;
use object::{Object, Status, schema};

use crate::context::Context;
use crate::decode::{self, Decoded};
use crate::served_resources::Resource;

/// Takes a decoded body as an object of the resource and shapes it.
pub fn read_object(
    ctx: &Context,
    resource: &Resource,
    decoded: Decoded,
    validation: FieldValidation,
) -> Result<Object, Status> {
    let Decoded { value, duplicates } = decoded;
    let object = decode::object_of(resource, value)?;
    let complaints = duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect();
    shape(ctx, resource, object, validation, complaints)
}

/// Prunes unknown fields (or refuses them), checks types of built-in kinds and applies defaults. Patches pass here too.
pub fn shape(
    ctx: &Context,
    resource: &Resource,
    object: Object,
    validation: FieldValidation,
    mut complaints: Vec<String>,
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
    } else {
        let refuse = |error: object::FieldError| Status::bad_request(error.to_string());
        schema::coerce(shape, &mut value).map_err(refuse)?;
        schema::drop_forbidden_nulls(shape, &mut value);
    }
    let unknown = schema::prune(shape, &mut value);
    complaints.extend(unknown.into_iter().map(|path| format!("unknown field {path:?}")));
    report(ctx, resource, complaints, validation)?;
    schema::apply_defaults(shape, &mut value);
    let mut object =
        Object::from_value(value).ok_or_else(|| Status::bad_request("the object must be a JSON object"))?;
    if resource.custom.is_none() && kind.stored {
        kinds::strategies::shape::settle(&mut object);
    }
    kind.strategy.default(&mut object);
    Ok(object)
}

fn report(
    ctx: &Context,
    resource: &Resource,
    complaints: Vec<String>,
    validation: FieldValidation,
) -> Result<(), Status> {
    match validation {
        FieldValidation::Strict if !complaints.is_empty() => {
            let (kind, version) = (&resource.kind.gvk.kind, &resource.kind.gvk.version);
            let list = complaints.join(", ");
            Err(Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {list}"
            )))
        }
        FieldValidation::Warn => {
            complaints.into_iter().for_each(|complaint| ctx.warn(complaint));
            Ok(())
        }
        _ => Ok(()),
    }
}
