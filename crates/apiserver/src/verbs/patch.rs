//! Patches: JSON, merge, strategic merge and server-side apply.

use object::request::{PatchKind, WriteOptions};
use object::{FieldError, FieldPath, GroupKind, Object, Status, patch, schema};
use serde_json::Value;

use super::update::{self, Change, keep_outside_subresource};
use super::write::{check_uid, place_in_namespace};
use super::{Answer, Target, create};
use crate::context::Context;
use crate::decode::{self, BodyFormat, Decoded, Findings};
use crate::managed::{self, Ownership};
use crate::scope::WriteScope;
use crate::served_resources::ServedResources;
use crate::shape;

pub async fn patch(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    kind: PatchKind,
    body: &[u8],
    options: &WriteOptions,
) -> Result<Answer, Status> {
    if let PatchKind::Apply { force } = kind {
        check_manager(options)?;
        let decoded = decode::decode(body, BodyFormat::Yaml)?;
        let validation = options.field_validation.unwrap_or_default();
        shape::report(ctx, &target.resource, decoded.findings.of_custom(Vec::new()), validation)?;
        return apply(scope, ctx, target, decoded.value, force, options).await;
    }
    let decoded = decode::decode(body, BodyFormat::Json)?;
    let Decoded { value, findings } = decoded;
    plain(scope, ctx, target, PlainPatch { kind, body: value, findings, options }).await
}

/// Patches with a body that has been read already.
pub async fn patch_value(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    kind: PatchKind,
    body: Value,
    options: &WriteOptions,
) -> Result<Answer, Status> {
    if let PatchKind::Apply { force } = kind {
        check_manager(options)?;
        return apply(scope, ctx, target, body, force, options).await;
    }
    plain(scope, ctx, target, PlainPatch { kind, body, findings: Findings::default(), options }).await
}

async fn plain(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    change: PlainPatch<'_>,
) -> Result<Answer, Status> {
    if change.kind == PatchKind::Strategic && target.resource.custom.is_some() {
        let accepted =
            [PatchKind::Json, PatchKind::Merge, PatchKind::Apply { force: false }].map(PatchKind::content_type);
        return Err(Status::unsupported_media_type(&accepted));
    }
    update::change(scope, ctx, target, &change, change.options).await
}

/// An apply is attributed to a manager that the client names.
fn check_manager(options: &WriteOptions) -> Result<(), Status> {
    if options.field_manager.is_some() {
        return Ok(());
    }
    let error = FieldError::required(FieldPath::new("fieldManager"), "is required for apply patch");
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", "PatchOptions"), "", &[error]))
}

/// A patch that is applied to the stored object.
struct PlainPatch<'a> {
    kind: PatchKind,
    body: Value,
    findings: Findings,
    options: &'a WriteOptions,
}

impl Change for PlainPatch<'_> {
    fn apply(
        &self,
        registry: &ServedResources,
        ctx: &Context,
        target: &Target,
        current: &Object,
    ) -> Result<Object, Status> {
        let patched = match self.kind {
            PatchKind::Strategic => {
                let mut patched = current.to_value();
                let body = self.body.clone();
                patch::strategic::apply(&target.resource.kind.schema, &mut patched, body).map_err(|e| e.to_status())?;
                as_object(patched)?
            }
            other => apply_plain(other, current, &self.body)?,
        };
        let patched = self.check_decodes(target, patched)?;
        check_same(target, &patched, current)?;
        let mut new = shape::shape(
            ctx,
            &target.resource,
            patched,
            self.options.field_validation.unwrap_or_default(),
            self.findings.clone(),
        )?;
        keep_outside_subresource(target, &mut new, current);
        managed::on_write(registry, ctx, target, Some(current), &mut new, self.options);
        Ok(new)
    }

    fn can_retry(&self) -> bool {
        true
    }

    fn options_kind(&self) -> &'static str {
        "PatchOptions"
    }
}

impl PlainPatch<'_> {
    /// A result that no Go type could hold is an error of the patch, with another text than a body that could not be read.
    fn check_decodes(&self, target: &Target, patched: Object) -> Result<Object, Status> {
        if target.resource.custom.is_some() {
            return Ok(patched);
        }
        let schema = &target.resource.kind.schema;
        let mut value = patched.into_value();
        schema::drop_nulls(schema, &mut value);
        let strategic = self.kind == PatchKind::Strategic;
        let checked =
            if strategic { schema::conversion_check(schema, &value) } else { schema::decode_check(schema, &value) };
        checked.map_err(|problem| {
            let shown = if strategic { object::field::go_value(&self.body) } else { value.to_string() };
            patch::undecodable(shown, &problem)
        })?;
        as_object(value)
    }
}

/// A JSON or merge patch on a bare object, for subresources that are not stored.
pub fn apply_plain(kind: PatchKind, object: &Object, body: &Value) -> Result<Object, Status> {
    let mut patched = object.to_value();
    match kind {
        PatchKind::Json => patch::json::apply(&mut patched, body).map_err(|error| error.to_status())?,
        PatchKind::Merge | PatchKind::Strategic => {
            patch::merge::apply(&mut patched, body).map_err(|e| e.to_status())?
        }
        PatchKind::Apply { .. } => return Err(Status::unsupported_media_type(&PatchKind::CONTENT_TYPES[..3])),
    }
    as_object(patched)
}

fn as_object(value: Value) -> Result<Object, Status> {
    Object::from_value(value).ok_or_else(|| Status::bad_request("the patch must leave a JSON object"))
}

/// A patch may name the version it expects, and may not turn the object into another.
fn check_same(target: &Target, patched: &Object, current: &Object) -> Result<(), Status> {
    let resource = target.resource.kind.group_resource();
    if patched.resource_version() != current.resource_version() && !patched.resource_version().is_empty() {
        return Err(Status::stale(&resource, &target.name));
    }
    check_uid(target, patched.uid(), current)?;
    if patched.name() != current.name() {
        let (name, url) = (patched.name(), current.name());
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({url})"
        )));
    }
    if patched.gvk() != current.gvk() {
        let (got, want) = (patched.gvk(), current.gvk());
        return Err(Status::bad_request(format!("the patch changes {want} into {got}")));
    }
    Ok(())
}

/// A server-side apply: merges into the stored object, or creates it.
struct Applied<'a> {
    object: Object,
    ownership: Ownership<'a>,
    options: &'a WriteOptions,
}

async fn apply(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    body: Value,
    force: bool,
    options: &WriteOptions,
) -> Result<Answer, Status> {
    let ownership = Ownership { manager: options.field_manager.as_deref().unwrap_or_default(), force };
    let object = read_applied(target, body)?;
    if scope.objects.get(&target.key()).await?.is_some() {
        let applied = Applied { object: object.clone(), ownership, options };
        match update::change(scope, ctx, target, &applied, options).await {
            // Deleted in between: the apply creates it.
            Err(status) if status.is_not_found() && target.subresource.is_none() => {}
            other => return other,
        }
    }
    if target.subresource.is_some() {
        return Err(target.not_found());
    }
    if !object.uid().is_empty() {
        let detail = format!(
            "uid mismatch: the provided object specified uid {}, and no existing object was found",
            object.uid()
        );
        return Err(Status::conflict(&target.resource.kind.group_resource(), &target.name, detail));
    }
    target.require_create(scope, ctx).await?;
    let merged = managed::apply(scope.registry, ctx, target, None, &object, &ownership)?;
    let shaped =
        shape::shape(ctx, &target.resource, merged, options.field_validation.unwrap_or_default(), Findings::default())?;
    create::create_applied(scope, ctx, target, shaped, options).await
}

fn read_applied(target: &Target, body: Value) -> Result<Object, Status> {
    let Some(mut object) = Object::from_value(body) else {
        return Err(Status::bad_request("the applied configuration must be an object"));
    };
    let gvk = &target.resource.kind.gvk;
    if object.gvk() != *gvk {
        let (got, want) = (object.gvk(), gvk);
        return Err(Status::bad_request(format!(
            "Incorrect version specified in apply patch. Specified patch version: {}, expected: {}, kind {:?} for {:?}",
            got.api_version(),
            want.api_version(),
            got.kind,
            want.kind
        )));
    }
    match object.name() {
        "" => object.set_name(&target.name),
        name if name != target.name => {
            let url = &target.name;
            return Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({url})"
            )));
        }
        _ => {}
    }
    place_in_namespace(target, &mut object)?;
    Ok(object)
}

impl Change for Applied<'_> {
    fn apply(
        &self,
        registry: &ServedResources,
        ctx: &Context,
        target: &Target,
        current: &Object,
    ) -> Result<Object, Status> {
        check_same(target, &self.object, current)?;
        let merged = managed::apply(registry, ctx, target, Some(current), &self.object, &self.ownership)?;
        let mut new = shape::shape(
            ctx,
            &target.resource,
            merged,
            self.options.field_validation.unwrap_or_default(),
            Findings::default(),
        )?;
        keep_outside_subresource(target, &mut new, current);
        Ok(new)
    }

    fn can_retry(&self) -> bool {
        true
    }

    fn options_kind(&self) -> &'static str {
        "PatchOptions"
    }
}
