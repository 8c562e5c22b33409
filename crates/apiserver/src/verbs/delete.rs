//! Deletes objects: at once, after a grace period, or when the last finalizer is removed.

use object::request::{DeleteOptions, PropagationPolicy};
use object::{Object, Status};

use super::list::list;
use super::write::{attributes, uid_conflict};
use super::{Answer, Target};
use crate::admission::Operation;
use crate::context::Context;
use crate::convert;
use crate::request::{Deletion, ListSelection};
use crate::scope::WriteScope;
use crate::storage::{self, Current, Outcome, Stored};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const RACES_MAX: usize = 100;

pub async fn delete(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    deletion: &Deletion,
) -> Result<Answer, Status> {
    let options = &deletion.options;
    let mut current = scope.objects.get(&target.key()).await?.ok_or_else(|| target.not_found())?;
    for _ in 0..RACES_MAX {
        check_preconditions(target, &current.object, options)?;
        let served = convert::to_served(scope.resources(), &target.resource, current.object.clone()).await?;
        let asked = attributes(target, Operation::Delete, Some(&served), deletion.as_sent.clone(), options.dry_run);
        scope.validate(ctx, &asked, None).await?;
        let marked = mark(ctx, target, &current.object, options);
        match marked {
            Marked::GoesNow => match remove(scope, target, &current, options.dry_run).await? {
                // Some kinds answer with the deleted object, the others with a success status.
                Outcome::Written(revision) if kinds::builtin::returns_deleted(&target.resource.kind.gvk) => {
                    let stored = Stored::written(current.bytes, revision);
                    return Ok(Answer::stored(200, stored));
                }
                Outcome::Written(_) => {
                    let resource = target.resource.kind.group_resource();
                    return Ok(Answer::Status(Status::deleted(&resource, &target.name, current.object.uid())));
                }
                Outcome::Raced(None) => return Err(target.not_found()),
                Outcome::Raced(Some(newer)) => current = *newer,
            },
            Marked::Unchanged => {
                return Ok(Answer::stored(200, Stored::written(current.bytes, current.revision)));
            }
            Marked::Waits(object) if options.dry_run => {
                let object = convert::to_served(scope.resources(), &target.resource, *object).await?;
                return Ok(Answer::Object { code: 200, object: object.into() });
            }
            Marked::Waits(object) => {
                let bytes = storage::encode(&object);
                match scope.objects.update(&target.key(), bytes.clone(), current.revision, None).await? {
                    Outcome::Written(revision) => {
                        return Ok(Answer::written(200, Stored::written(bytes, revision), *object));
                    }
                    Outcome::Raced(None) => return Err(target.not_found()),
                    Outcome::Raced(Some(newer)) => current = *newer,
                }
            }
        }
    }
    Err(Status::stale(&target.resource.kind.group_resource(), &target.name))
}

/// Removes the object from the store.
pub async fn remove(
    scope: WriteScope<'_>,
    target: &Target,
    current: &Current,
    dry_run: bool,
) -> Result<Outcome, Status> {
    if dry_run {
        return Ok(Outcome::Written(current.revision));
    }
    let outcome = scope.objects.delete(&target.key(), current.revision).await?;
    let kind = &target.resource.kind.storage;
    if matches!(outcome, Outcome::Written(_)) && kind.kind == "Service" && kind.group.is_empty() {
        crate::admission::service_ip::release(scope.resources(), &current.object).await?;
    }
    Ok(outcome)
}

fn check_preconditions(target: &Target, object: &Object, options: &DeleteOptions) -> Result<(), Status> {
    if let Some(uid) = &options.preconditions.uid
        && uid != object.uid()
    {
        return Err(uid_conflict(target, uid, object));
    }
    if let Some(wanted) = &options.preconditions.resource_version
        && wanted != object.resource_version()
    {
        let current = object.resource_version();
        let detail = format!(
            "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {current}"
        );
        return Err(Status::conflict(&target.resource.kind.group_resource(), &target.name, detail));
    }
    Ok(())
}

enum Marked {
    GoesNow,
    Unchanged,
    Waits(Box<Object>),
}

/// Decides the effect of a delete on the current object.
fn mark(ctx: &Context, target: &Target, object: &Object, options: &DeleteOptions) -> Marked {
    let strategy = &target.resource.kind.strategy;
    let mut marked = object.clone();
    set_deletion_finalizers(&mut marked, options, strategy.orphans_by_default());
    let requested = options.grace_period_seconds;
    let grace = match (strategy.grace_period_seconds(object, requested), object.is_deleting()) {
        (None, _) => 0,
        (Some(grace), false) => grace.max(0),
        // A second delete can only shorten the remaining time.
        (Some(grace), true) => {
            let left = object.i64_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
            if requested.is_some() { grace.clamp(0, left.max(0)) } else { left }
        }
    };
    if grace == 0 && !strategy.blocks_removal(&marked) {
        return Marked::GoesNow;
    }
    let shortens = object.i64_at(&["metadata", "deletionGracePeriodSeconds"]).is_some_and(|left| grace < left);
    if !object.is_deleting() || shortens {
        let ends = object::time::after(ctx.now, grace);
        marked.set(&["metadata", "deletionTimestamp"], object::time::format_seconds(ends));
        marked.set(&["metadata", "deletionGracePeriodSeconds"], grace);
        if marked.generation() > 0 {
            marked.set_generation(marked.generation().saturating_add(1));
        }
        strategy.begin_deletion(&mut marked);
    }
    if marked == *object { Marked::Unchanged } else { Marked::Waits(Box::new(marked)) }
}

/// Sets the finalizers by which the garbage collector handles dependents.
fn set_deletion_finalizers(object: &mut Object, options: &DeleteOptions, orphans_by_default: bool) {
    let wanted = match options.propagation_policy {
        Some(PropagationPolicy::Orphan) => Some(ORPHAN),
        Some(PropagationPolicy::Foreground) => Some(FOREGROUND),
        Some(PropagationPolicy::Background) => None,
        None if object.has_finalizer(ORPHAN) => Some(ORPHAN),
        None if object.has_finalizer(FOREGROUND) => Some(FOREGROUND),
        None if orphans_by_default => Some(ORPHAN),
        None => None,
    };
    for finalizer in [ORPHAN, FOREGROUND] {
        if wanted == Some(finalizer) {
            object.add_finalizer(finalizer);
        } else {
            object.remove_finalizer(finalizer);
        }
    }
}

/// Deletes every object that a list matches and returns the list.
pub async fn delete_collection(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    selection: &ListSelection,
    deletion: &Deletion,
) -> Result<super::list::Listed, Status> {
    let listed = list(scope.objects, target, selection).await?;
    for entry in &listed.entries {
        let one = Target { namespace: entry.namespace.to_string(), name: entry.name.to_string(), ..target.clone() };
        match delete(scope, ctx, &one, deletion).await {
            Ok(_) => {}
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status),
        }
    }
    Ok(listed)
}
