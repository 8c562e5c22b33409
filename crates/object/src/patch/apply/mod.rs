//! Server-side apply: merges a configuration, tracks field ownership, and reports conflicts.

mod conflict;
mod last_applied;
mod owners;
mod update;

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::PatchError;
use super::fieldset::Set;
use super::managed::{ManagedEntry, ManagedFields, ManagedOperation};
use super::typed;
use crate::depth;
use crate::object::Object;
use crate::schema::{self, Schema};
use crate::status::Status;

pub use conflict::{Conflict, Conflicts};
pub use update::{keep_times_of_unchanged, update_managers};

use owners::Owners;

/// The kind and request of a write that updates managed fields.
#[derive(Clone, Copy)]
pub struct ApplyContext<'a> {
    /// The schema of the request's version.
    pub schema: &'a Schema,
    pub versions: &'a dyn Versions,
    /// Empty for the main resource.
    pub subresource: &'a str,
    pub now: Timestamp,
    /// Fields this endpoint resets (`status` on the main resource, all else on `/status`): never owned.
    pub reset_fields: Option<&'a Set>,
}

/// Looks up the schemas of other versions that managers used.
pub trait Versions {
    /// Returns `None` if the version is no longer served; its claims are dropped.
    fn schema_for(&self, api_version: &str) -> Option<Schema>;

    /// Converts the object to that version; `None` if the versions differ by name only.
    fn convert(&self, _object: &Value, _api_version: &str) -> Option<Value> {
        None
    }
}

impl<F: Fn(&str) -> Option<Schema>> Versions for F {
    fn schema_for(&self, api_version: &str) -> Option<Schema> {
        self(api_version)
    }
}

/// The error of an apply.
#[derive(Clone, Debug, PartialEq)]
pub enum ApplyError {
    Conflicts(Conflicts),
    /// The request is wrong, independent of the stored object.
    BadRequest(String),
    /// The applied configuration is nested deeper than can be stored.
    TooDeep {
        depth: usize,
    },
    /// An object does not fit its schema; Kubernetes answers these with a plain 500.
    Untyped(String),
}

impl ApplyError {
    pub fn to_status(&self) -> Status {
        match self {
            Self::Conflicts(conflicts) => conflicts.to_status(),
            Self::BadRequest(message) => Status::bad_request(message.clone()),
            Self::TooDeep { depth } => PatchError::too_deep(*depth).to_status(),
            Self::Untyped(message) => Status::new(500, "", message.clone()),
        }
    }
}

/// The manager of all fields an object had before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Applies a configuration. `live` is `None` if the apply creates the object. The result includes its managedFields;
/// defaulting and validation are up to the caller.
pub fn apply(
    ctx: ApplyContext<'_>,
    live: Option<&Object>,
    applied: &Object,
    manager: &str,
    force: bool,
) -> Result<Object, ApplyError> {
    if applied.get(&["metadata", "managedFields"]).is_some_and(|fields| !fields.is_null()) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    let depth = depth::of(applied.as_value());
    if depth > depth::DEPTH_MAX {
        return Err(ApplyError::TooDeep { depth });
    }
    let subject = ApplyInput::of(ctx, live, applied)?;
    let outcome = match subject.apply(ctx, manager, force) {
        Err(ApplyError::Conflicts(conflicts)) if manager == last_applied::KUBECTL => {
            // Unchanged fields of client-side apply already belong to kubectl: taking them is no conflict.
            match last_applied::allowed_conflicts(ctx.schema, &subject.live, applied.api_version()) {
                Some(allowed) => {
                    let left = conflicts.without(&allowed);
                    if !left.is_empty() {
                        return Err(ApplyError::Conflicts(left));
                    }
                    subject.apply(ctx, manager, true)
                }
                None => Err(ApplyError::Conflicts(conflicts)),
            }
        }
        other => other,
    };
    let (mut object, managed) = outcome?;
    drop_nulls(ctx.schema, &mut object);
    let mut object = Object::from_value(object).unwrap_or_default();
    set_managed_fields(&mut object, managed.encode());
    if manager == last_applied::KUBECTL {
        last_applied::refresh(&mut object, applied);
    }
    Ok(object)
}

/// The validated objects of one apply, with the stored ownership.
struct ApplyInput {
    live: Value,
    config: Value,
    managed: ManagedFields,
    api_version: String,
}

impl ApplyInput {
    fn of(ctx: ApplyContext<'_>, live: Option<&Object>, applied: &Object) -> Result<Self, ApplyError> {
        let config = applied.to_value();
        let (name, gvk) = (names_of(applied), applied.gvk());
        typed::check_typed(ctx.schema, &config, false).map_err(|error| {
            ApplyError::Untyped(format!("failed to create typed patch object ({name}; {gvk}): {error}"))
        })?;
        let managed = ManagedFields::decode(live.and_then(|live| live.get(&["metadata", "managedFields"])))
            .map_err(|error| ApplyError::Untyped(format!("failed to decode managed fields: {error}")))?;
        let mut object = match live {
            Some(live) => live.clone(),
            None => Object::from_value(zero_value(ctx.schema)).unwrap_or_default(),
        };
        object.set_gvk(&gvk);
        object.remove(&["metadata", "managedFields"]);
        let live_name = names_of(&object);
        let live = object.into_value();
        typed::check_typed(ctx.schema, &live, true).map_err(|error| {
            ApplyError::Untyped(format!("failed to create typed live object ({live_name}; {gvk}): {error}"))
        })?;
        Ok(Self { live, config, managed, api_version: applied.api_version().to_owned() })
    }

    fn apply(&self, ctx: ApplyContext<'_>, manager: &str, force: bool) -> Result<(Value, ManagedFields), ApplyError> {
        let mut managed = self.managed.clone();
        if managed.is_empty() {
            let empty = zero_value(ctx.schema);
            let owners = Owners::new(ctx, &self.api_version);
            let held = owners.compare(as_map(&empty), as_map(&self.live));
            let objects = (as_map(&empty), as_map(&self.live));
            update::track(&owners, objects, held, &mut managed, BEFORE_FIRST_APPLY);
        }
        let me = ManagedEntry {
            manager: if manager.is_empty() { "unknown".to_owned() } else { manager.to_owned() },
            operation: ManagedOperation::Apply,
            api_version: self.api_version.clone(),
            subresource: ctx.subresource.to_owned(),
            time: None,
            fields: Set::default(),
        };
        let owners = Owners::new(ctx, &self.api_version);
        owners.reconcile(&mut managed);
        let merged = typed::merge(ctx.schema, &self.live, &self.config);
        let claimed = owners.without_reset(typed::to_field_set(ctx.schema, &self.config));
        let last = managed.find(&me).map(|index| managed.entries.remove(index));
        let time = last.as_ref().and_then(|last| last.time.clone());
        managed.entries.push(ManagedEntry { time, fields: claimed, ..me.clone() });
        let pruned = match &last {
            Some(last) if !last.fields.is_empty() => owners.prune(merged, &managed, last),
            _ => merged,
        };
        let objects = (as_map(&self.live), as_map(&pruned));
        let changes = owners.compare(objects.0, objects.1);
        owners.resolve(objects, &changes, &mut managed, Some(&me), force).map_err(ApplyError::Conflicts)?;
        let changed = !super::fieldset::values_equal(&self.live, &pruned);
        strip_own(&mut managed, &me, changed.then(|| crate::time::format_seconds(ctx.now)));
        Ok((pruned, managed))
    }
}

/// Removes untracked fields from the manager's own entry, and updates its time if the object changed.
fn strip_own(managed: &mut ManagedFields, me: &ManagedEntry, stamp: Option<String>) {
    let Some(index) = managed.find(me) else { return };
    let entry = &mut managed.entries[index];
    entry.fields = std::mem::take(&mut entry.fields).difference(owners::never_tracked());
    if entry.fields.is_empty() {
        managed.entries.remove(index);
    } else if let Some(time) = stamp {
        entry.time = Some(time);
    }
}

/// The fields of an object; none for any other value.
fn as_map(value: &Value) -> &Map<String, Value> {
    static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    value.as_object().unwrap_or(&EMPTY)
}

/// The zero value of the kind in Go's decoder: structs that are always present. Custom resources have none.
fn zero_value(schema: &Schema) -> Value {
    let mut value = Value::Object(Map::new());
    if schema.root().node().definition.is_some() {
        schema::fill_zeros(schema, &mut value);
    }
    value
}

/// Removing the last item of a list leaves null, which only nullable fields of custom resources may keep.
fn drop_nulls(schema: &Schema, object: &mut Value) {
    if schema.root().node().definition.is_some() {
        schema::drop_nulls(schema, object);
    } else {
        schema::drop_forbidden_nulls(schema, object);
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| !value.is_null());
    }
}

fn set_managed_fields(object: &mut Object, fields: Option<Value>) {
    match fields {
        Some(fields) => object.set(&["metadata", "managedFields"], fields),
        None => {
            object.remove(&["metadata", "managedFields"]);
        }
    }
}

fn names_of(object: &Object) -> String {
    format!("{}/{}", object.namespace(), object.name())
}

#[cfg(test)]
mod tests;
