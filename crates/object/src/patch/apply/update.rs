//! Ownership after a write other than apply: the writer owns the changed fields, others lose them.

use serde_json::{Map, Value};

use super::owners::{Owners, never_tracked};
use super::{ApplyContext, as_map, set_managed_fields, zero_value};
use crate::object::Object;
use crate::patch::managed::{ManagedEntry, ManagedFields, ManagedOperation, is_reset};
use crate::patch::typed::Comparison;

/// Beyond this number the oldest managers are merged, to keep the list short.
const UPDATERS_MAX: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// Sets the managedFields of an object about to be stored by a create, update or patch. `live` is the stored object.
///
/// If no tracked field changed, the stored claims stay, including their times.
pub fn update_managers(ctx: ApplyContext<'_>, live: Option<&Object>, new: &mut Object, manager: &str) {
    let stored = live.and_then(|live| live.get(&["metadata", "managedFields"])).filter(|fields| !fields.is_null());
    let sent = new.remove(&["metadata", "managedFields"]).filter(|fields| !fields.is_null());
    let created = live.is_none_or(|live| live.uid().is_empty());
    let zero = if live.is_none() { zero_value(ctx.schema) } else { Value::Null };
    let before = live.map_or_else(|| as_map(&zero), Object::as_map);
    let owners = Owners::new(ctx, new.api_version());
    let mut changes = owners.compare(before, new.as_map());
    changes.removed = changes.removed.difference(never_tracked());
    changes.added = changes.added.difference(never_tracked());
    changes.modified = changes.modified.difference(never_tracked());
    let unchanged = sent.as_ref() == stored;
    let ignored = sent.is_none() || unchanged || !ctx.subresource.is_empty();
    if ignored && changes.is_same() {
        set_managed_fields(new, if unchanged { sent } else { stored.cloned() });
        return;
    }
    let mut managed = choose(stored, sent.as_ref().filter(|_| !ignored));
    if managed.is_empty() && !created {
        return;
    }
    track(&owners, (before, new.as_map()), changes, &mut managed, manager);
    set_managed_fields(new, managed.encode());
}

/// A writer may send managedFields: an empty list resets them, valid entries replace the stored ones, anything else
/// is ignored.
fn choose(stored: Option<&Value>, sent: Option<&Value>) -> ManagedFields {
    if is_reset(sent) {
        return ManagedFields::default();
    }
    match sent.map(|sent| ManagedFields::decode(Some(sent))) {
        Some(Ok(managed)) if !managed.is_empty() => managed,
        _ => ManagedFields::decode(stored).unwrap_or_default(),
    }
}

/// Attributes the difference between two objects to a manager.
pub(super) fn track(
    owners: &Owners<'_>,
    objects: (&Map<String, Value>, &Map<String, Value>),
    changes: Comparison,
    managed: &mut ManagedFields,
    manager: &str,
) {
    owners.reconcile(managed);
    owners.resolve(objects, &changes, managed, None, true).expect("a forced write conflicts with no one");
    let fields = changes.modified.union(changes.added).difference(never_tracked());
    if !fields.is_empty() {
        let me = owners.updater(manager, fields);
        match managed.find(&me) {
            Some(index) => {
                let previous = std::mem::take(&mut managed.entries[index].fields);
                managed.entries[index] = ManagedEntry { fields: me.fields.union(previous), ..me };
            }
            None => managed.entries.push(me),
        }
    }
    cap_updaters(managed);
}

/// Merges the oldest updaters of each version under one name.
fn cap_updaters(managed: &mut ManagedFields) {
    if managed.entries.iter().filter(|entry| entry.operation == ManagedOperation::Update).count() <= UPDATERS_MAX {
        return;
    }
    let (mut updaters, mut rest): (Vec<_>, Vec<_>) =
        std::mem::take(&mut managed.entries).into_iter().partition(|entry| entry.operation == ManagedOperation::Update);
    updaters.sort_by(|a, b| a.compare_times(b).then_with(|| a.identifier().cmp(&b.identifier())));
    let mut surplus = updaters.len() - UPDATERS_MAX;
    let mut kept: Vec<ManagedEntry> = Vec::with_capacity(UPDATERS_MAX);
    for entry in updaters {
        let same_version = kept.iter().position(|old| old.api_version == entry.api_version);
        match same_version {
            Some(index) if surplus > 0 => {
                let bucket = &mut kept[index];
                bucket.manager = ANCIENT.to_owned();
                bucket.subresource.clear();
                bucket.fields = std::mem::take(&mut bucket.fields).union(entry.fields);
                bucket.time = entry.time;
                surplus -= 1;
            }
            _ => kept.push(entry),
        }
    }
    rest.extend(kept);
    managed.entries = rest;
}

/// Restores an object's stored managedFields if only their times changed, so that a write without effect is a no-op.
/// Returns true if it did.
pub fn keep_times_of_unchanged(old: &Object, new: &mut Object) -> bool {
    let (Some(before), Some(after)) =
        (old.get(&["metadata", "managedFields"]), new.get(&["metadata", "managedFields"]))
    else {
        return false;
    };
    if before == after || !same_but_times(before, after) {
        return false;
    }
    let before = before.clone();
    let after = new.remove(&["metadata", "managedFields"]);
    let rest_is_same = {
        let mut stripped = old.clone();
        stripped.remove(&["metadata", "managedFields"]);
        stripped == *new
    };
    set_managed_fields(new, if rest_is_same { Some(before) } else { after });
    rest_is_same
}

fn same_but_times(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_array(), b.as_array()) else { return false };
    let timeless = |entry: &Value| {
        let mut entry = entry.clone();
        entry.as_object_mut().map(|map| map.remove("time"));
        entry
    };
    a.len() == b.len() && a.iter().all(|entry| b.iter().any(|other| timeless(entry) == timeless(other)))
}
