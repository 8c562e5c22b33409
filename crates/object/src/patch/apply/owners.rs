//! Ownership bookkeeping: managers lose fields that others write, and a field without owners is removed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{ApplyContext, Conflicts};
use crate::patch::fieldset::{Path, Set};
use crate::patch::managed::{ManagedEntry, ManagedFields, ManagedOperation};
use crate::patch::typed::{self, Comparison};
use crate::schema::Schema;

/// The managers as seen by one write.
pub(super) struct Owners<'a> {
    ctx: ApplyContext<'a>,
    api_version: &'a str,
}

/// Fields set by the server, never owned by a manager.
pub(super) fn never_tracked() -> &'static Set {
    static FIELDS: LazyLock<Set> = LazyLock::new(|| {
        const METADATA: &[&str] = &[
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        ];
        let roots = ["apiVersion", "kind", "metadata"].map(|name| Path::fields(&[name]));
        roots.into_iter().chain(METADATA.iter().map(|name| Path::fields(&["metadata", name]))).collect()
    });
    &FIELDS
}

impl<'a> Owners<'a> {
    pub fn new(ctx: ApplyContext<'a>, api_version: &'a str) -> Self {
        Self { ctx, api_version }
    }

    fn schema(&self, api_version: &str) -> Option<Cow<'a, Schema>> {
        if api_version == self.api_version {
            return Some(Cow::Borrowed(self.ctx.schema));
        }
        self.ctx.versions.schema_for(api_version).map(Cow::Owned)
    }

    fn convert_map<'v>(&self, object: &'v Map<String, Value>, api_version: &str) -> Cow<'v, Map<String, Value>> {
        if api_version == self.api_version {
            return Cow::Borrowed(object);
        }
        match self.ctx.versions.convert(&Value::Object(object.clone()), api_version) {
            Some(Value::Object(converted)) => Cow::Owned(converted),
            _ => Cow::Borrowed(object),
        }
    }

    fn convert<'v>(&self, object: &'v Value, api_version: &str) -> Cow<'v, Value> {
        if api_version == self.api_version {
            return Cow::Borrowed(object);
        }
        self.ctx.versions.convert(object, api_version).map_or(Cow::Borrowed(object), Cow::Owned)
    }

    /// The claim of a writer other than an applier, with this write's time.
    pub fn updater(&self, manager: &str, fields: Set) -> ManagedEntry {
        ManagedEntry {
            manager: if manager.is_empty() { "unknown".to_owned() } else { manager.to_owned() },
            operation: ManagedOperation::Update,
            api_version: self.api_version.to_owned(),
            subresource: self.ctx.subresource.to_owned(),
            time: Some(crate::time::format_seconds(self.ctx.now)),
            fields,
        }
    }

    pub fn without_reset(&self, set: Set) -> Set {
        match self.ctx.reset_fields {
            Some(reset) => set.recursive_difference(reset),
            None => set,
        }
    }

    fn compare_by(&self, schema: &Schema, old: &Map<String, Value>, new: &Map<String, Value>) -> Comparison {
        let comparison = typed::compare(schema, old, new);
        match self.ctx.reset_fields {
            Some(reset) => comparison.without(reset),
            None => comparison,
        }
    }

    /// The changes of a write, in its own version, without the fields the endpoint resets.
    pub fn compare(&self, old: &Map<String, Value>, new: &Map<String, Value>) -> Comparison {
        self.compare_by(self.ctx.schema, old, new)
    }

    /// Adapts claims to schema changes, and drops claims of versions no longer served.
    pub fn reconcile(&self, managed: &mut ManagedFields) {
        managed.entries.retain_mut(|entry| {
            let Some(schema) = self.schema(&entry.api_version) else { return false };
            if let Some(fields) = typed::reconcile_with_schema(&schema, &entry.fields) {
                entry.fields = fields;
            }
            true
        });
    }

    /// Removes the fields this write changed or removed from every other manager. Without `force` this is a conflict.
    pub fn resolve(
        &self,
        (old, new): (&Map<String, Value>, &Map<String, Value>),
        own: &Comparison,
        managed: &mut ManagedFields,
        me: Option<&ManagedEntry>,
        force: bool,
    ) -> Result<(), Conflicts> {
        let mut by_version: BTreeMap<String, Option<Comparison>> = BTreeMap::new();
        let mut conflicts = Conflicts::default();
        let mut losses: Vec<Option<Set>> = Vec::with_capacity(managed.entries.len());
        for entry in &managed.entries {
            if me.is_some_and(|me| entry.is_same_manager(me)) {
                losses.push(None);
                continue;
            }
            let changed = if entry.api_version == self.api_version {
                Some(own)
            } else {
                let version = entry.api_version.as_str();
                by_version.entry(version.to_owned()).or_insert_with(|| self.compare_at(version, old, new)).as_ref()
            };
            let Some(changed) = changed else {
                losses.push(Some(entry.fields.clone()));
                continue;
            };
            let taken = entry.fields.intersection(&changed.modified).union(entry.fields.intersection(&changed.added));
            if !force && !taken.is_empty() {
                conflicts.add(entry, &taken);
            }
            losses.push(Some(taken.union(changed.removed.clone())));
        }
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
        for (entry, lost) in managed.entries.iter_mut().zip(losses) {
            if let Some(lost) = lost {
                entry.fields = std::mem::take(&mut entry.fields).difference(&lost);
            }
        }
        managed.entries.retain(|entry| !entry.fields.is_empty());
        Ok(())
    }

    fn compare_at(&self, version: &str, old: &Map<String, Value>, new: &Map<String, Value>) -> Option<Comparison> {
        let schema = self.schema(version)?;
        Some(self.compare_by(&schema, &self.convert_map(old, version), &self.convert_map(new, version)))
    }

    /// Removes fields that the applier applied last time, did not apply now, and no other manager owns.
    pub fn prune(&self, merged: Value, managed: &ManagedFields, last: &ManagedEntry) -> Value {
        let Some(schema) = self.schema(&last.api_version) else { return merged };
        let converted = self.convert(&merged, &last.api_version);
        let last_fields = typed::named_fields_as_members(&schema, &last.fields);
        let mut pruned = typed::remove_items(&schema, &converted, &last_fields);
        for (version, owned) in owned_by_version(managed, &last.api_version) {
            let Some(schema) = self.schema(version) else { continue };
            pruned = add_back(&schema, &self.convert(&merged, version), &self.convert(&pruned, version), &owned);
        }
        let pruned = self.convert(&pruned, &last.api_version);
        let removed = fields_of(&schema, &converted).difference(&fields_of(&schema, &pruned));
        let kept = typed::remove_items(&schema, &converted, &removed.intersection(&last_fields));
        if last.api_version == self.api_version {
            return kept;
        }
        self.ctx.versions.convert(&kept, self.api_version).unwrap_or(kept)
    }
}

/// Owned fields per version; the pruned version comes first, because others may be converted from it.
fn owned_by_version<'m>(managed: &'m ManagedFields, first: &'m str) -> Vec<(&'m str, Set)> {
    let mut owned: BTreeMap<&str, Set> = BTreeMap::new();
    for entry in &managed.entries {
        let set = owned.entry(&entry.api_version).or_default();
        *set = std::mem::take(set).union(entry.fields.clone());
    }
    let head = owned.remove(first).map(|set| (first, set));
    head.into_iter().chain(owned).collect()
}

fn fields_of(schema: &Schema, value: &Value) -> Set {
    typed::named_fields_as_members(schema, &typed::to_field_set(schema, value))
}

/// The merged object without the pruned fields, except for owned ones.
fn add_back(schema: &Schema, merged: &Value, pruned: &Value, owned: &Set) -> Value {
    let kept = fields_of(schema, pruned).union(typed::named_fields_as_members(schema, owned));
    typed::remove_items(schema, merged, &fields_of(schema, merged).difference(&kept))
}
