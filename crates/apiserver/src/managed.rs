//! Field ownership: managed fields of plain writes and of server-side apply.

use std::sync::LazyLock;

use object::patch::apply::{self, ApplyContext};
use object::patch::fieldset::{Path, Set};
use object::schema::Schema;
use object::{GroupVersion, GroupVersionKind, Object, Status};

use crate::context::Context;
use crate::request::WriteOptions;
use crate::server::Server;
use crate::verbs::Target;

/// Attributes the changes of `new` against `live` to the request's manager.
pub fn on_write(
    server: &Server,
    ctx: &Context,
    target: &Target,
    live: Option<&Object>,
    new: &mut Object,
    options: &WriteOptions,
) {
    let manager = match options.field_manager.as_str() {
        "" => ctx.default_manager(),
        named => named.to_owned(),
    };
    with_context(server, ctx, target, |apply_context| apply::update_managers(apply_context, live, new, &manager));
}

/// Merges an applied configuration into `live`.
pub fn apply(
    server: &Server,
    ctx: &Context,
    target: &Target,
    live: Option<&Object>,
    applied: &Object,
    options: &WriteOptions,
) -> Result<Object, Status> {
    let force = options.force.unwrap_or(false);
    with_context(server, ctx, target, |apply_context| {
        apply::apply(apply_context, live, applied, &options.field_manager, force).map_err(|error| error.to_status())
    })
}

fn with_context<T>(server: &Server, ctx: &Context, target: &Target, work: impl FnOnce(ApplyContext<'_>) -> T) -> T {
    let kind = &target.resource.kind;
    let snapshot = server.registry.snapshot();
    let versions = |api_version: &str| -> Option<Schema> {
        let GroupVersion { group, version } = GroupVersion::parse(api_version)?;
        let gvk = GroupVersionKind::new(group, version, kind.gvk.kind.clone());
        snapshot.find_kind(&gvk).map(|resource| resource.kind.schema.clone())
    };
    work(ApplyContext {
        schema: &kind.schema,
        versions: &versions,
        subresource: &target.subresource,
        now: ctx.now,
        reset_fields: reset_fields(target),
    })
}

/// Fields that the endpoint overwrites itself; no manager can own them through it.
fn reset_fields(target: &Target) -> Option<&'static Set> {
    static STATUS: LazyLock<Set> = LazyLock::new(|| Set::from_iter([Path::fields(&["status"])]));
    static SPEC: LazyLock<Set> = LazyLock::new(|| Set::from_iter([Path::fields(&["spec"])]));
    match target.subresource.as_str() {
        "" if target.resource.kind.has_status() => Some(&STATUS),
        "status" => Some(&SPEC),
        _ => None,
    }
}
