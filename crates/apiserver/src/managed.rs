//! Field ownership: managed fields of plain writes and of server-side apply.

use std::sync::LazyLock;

use object::patch::apply::{self, ApplyContext};
use object::patch::fieldset::{Path, Set};
use object::request::{Subresource, WriteOptions};
use object::schema::Schema;
use object::{GroupVersion, GroupVersionKind, Object, Status};

use crate::context::Context;
use crate::served_resources::ServedResources;
use crate::verbs::Target;

/// Attributes the changes of `new` against `live` to the request's manager.
pub fn on_write(
    registry: &ServedResources,
    ctx: &Context,
    target: &Target,
    live: Option<&Object>,
    new: &mut Object,
    options: &WriteOptions,
) {
    if options.is_untracked {
        return;
    }
    let manager = options.field_manager.clone().unwrap_or_else(|| ctx.default_manager());
    with_context(registry, ctx, target, |apply_context| apply::update_managers(apply_context, live, new, &manager));
}

/// The manager of an applied configuration; `force` takes over fields from other managers.
#[derive(Clone, Copy)]
pub struct Ownership<'a> {
    pub manager: &'a str,
    pub force: bool,
}

/// Merges an applied configuration into `live`.
pub fn apply(
    registry: &ServedResources,
    ctx: &Context,
    target: &Target,
    live: Option<&Object>,
    applied: &Object,
    ownership: &Ownership<'_>,
) -> Result<Object, Status> {
    let Ownership { manager, force } = *ownership;
    with_context(registry, ctx, target, |apply_context| {
        apply::apply(apply_context, live, applied, manager, force).map_err(|error| error.to_status())
    })
}

fn with_context<T>(
    registry: &ServedResources,
    ctx: &Context,
    target: &Target,
    work: impl FnOnce(ApplyContext<'_>) -> T,
) -> T {
    let kind = &target.resource.kind;
    let snapshot = registry.snapshot();
    let versions = |api_version: &str| -> Option<Schema> {
        let GroupVersion { group, version } = GroupVersion::parse(api_version)?;
        let gvk = GroupVersionKind::new(group, version, kind.gvk.kind.clone());
        snapshot.find_kind(&gvk).map(|resource| resource.kind.schema.clone())
    };
    work(ApplyContext {
        schema: &kind.schema,
        versions: &versions,
        subresource: Subresource::name_of(target.subresource.as_ref()),
        now: ctx.now,
        reset_fields: reset_fields(target),
    })
}

/// Fields that the endpoint overwrites itself; no manager can own them through it.
fn reset_fields(target: &Target) -> Option<&'static Set> {
    static STATUS: LazyLock<Set> = LazyLock::new(|| Set::from_iter([Path::fields(&["status"])]));
    static SPEC: LazyLock<Set> = LazyLock::new(|| Set::from_iter([Path::fields(&["spec"])]));
    match &target.subresource {
        None if target.resource.kind.has_status() => Some(&STATUS),
        Some(Subresource::Status) => Some(&SPEC),
        _ => None,
    }
}
