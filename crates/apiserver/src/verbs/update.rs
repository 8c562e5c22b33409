//! Replaces and patches objects: one loop that reads, changes, checks and writes if the revision is unchanged.

use std::borrow::Cow;

use kinds::WriteContext;
use kinds::strategies::certificates;
use kinds::strategies::core::{namespace, pod};
use kinds::strategies::metadata::validate_object_meta_update;
use object::depth::READ_DEPTH_MAX;
use object::request::{Subresource, WriteOptions};
use object::{FieldError, FieldPath, GroupKind, Object, Status};
use serde_json::Value;

use super::write::{
    attributes, check_uid, copy, counts_generation, keep_system_fields, options_value, place_in_namespace,
    refuse_invalid, spec_differs,
};
use super::{Answer, Target, create};
use crate::admission::{Attributes, Operation};
use crate::context::Context;
use crate::scope::WriteScope;
use crate::served_resources::ServedResources;
use crate::storage::{self, Current, Outcome, Stored};
use crate::{convert, managed, validate};

/// Lost races after which the client gets a conflict. Each loss means that another writer succeeded.
const RACES_MAX: usize = 100;

/// A change of the current object.
pub trait Change: Send + Sync {
    /// The new object in the served version, shaped and defaulted, managed fields included.
    fn apply(
        &self,
        registry: &ServedResources,
        ctx: &Context,
        target: &Target,
        current: &Object,
    ) -> Result<Object, Status>;

    /// Returns true when the change may be retried on a newer object: not when the client named a resourceVersion.
    fn can_retry(&self) -> bool;

    /// The name of the options in admission.
    fn options_kind(&self) -> &'static str;

    /// The body that admission receives instead of the object, for a subresource with a body of its own.
    fn body(&self) -> Option<&dyn Body> {
        None
    }
}

/// The body of a subresource, as clients send it and admission receives it.
pub trait Body: Send + Sync {
    fn subresource(&self) -> Subresource;

    fn operation(&self) -> Operation;

    fn show(&self, object: &Object) -> Object;

    /// Copies the changes that admission made to the body into the object.
    fn take_back(&self, body: &Object, object: &mut Object);
}

/// A PUT: the client's object takes the place of the stored one.
pub struct Replace<'a> {
    pub object: Object,
    pub options: &'a WriteOptions,
}

impl Change for Replace<'_> {
    fn apply(
        &self,
        registry: &ServedResources,
        ctx: &Context,
        target: &Target,
        current: &Object,
    ) -> Result<Object, Status> {
        let mut new = self.object.clone();
        check_identity(target, &mut new, current)?;
        if target.subresource.is_some() {
            keep_outside_subresource(target, &mut new, current);
        }
        managed::on_write(registry, ctx, target, Some(current), &mut new, self.options);
        Ok(new)
    }

    fn can_retry(&self) -> bool {
        self.object.resource_version().is_empty()
    }

    fn options_kind(&self) -> &'static str {
        "UpdateOptions"
    }
}

pub async fn replace(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    object: Object,
    options: &WriteOptions,
) -> Result<Answer, Status> {
    if object.name().is_empty() {
        return Err(Status::bad_request("the name of the object must be set"));
    }
    if object.name() != target.name {
        let (body, url) = (object.name(), &target.name);
        return Err(Status::bad_request(format!(
            "the name of the object ({body}) does not match the name on the URL ({url})"
        )));
    }
    let mut object = object;
    place_in_namespace(target, &mut object)?;
    let strategy = &target.resource.kind.strategy;
    if object.resource_version().is_empty() && !strategy.allows_unconditional_update() {
        scope.objects.get(&target.key()).await?.ok_or_else(|| target.not_found())?;
        let error =
            FieldError::invalid(FieldPath::new("metadata.resourceVersion"), 0, "must be specified for an update");
        // kube-apiserver names the resource here, where other errors name the kind.
        let resource = target.resource.kind.group_resource();
        return Err(Status::invalid(&GroupKind::new(resource.group, resource.resource), &target.name, &[error]));
    }
    let creates = strategy.allows_create_on_update() && target.subresource.is_none();
    if creates && object.resource_version().is_empty() && scope.objects.get(&target.key()).await?.is_none() {
        target.require_create(scope, ctx).await?;
        return create::create(scope, ctx, target, object, options).await;
    }
    change(scope, ctx, target, &Replace { object, options }, options).await
}

/// Runs a change against the stored object until it is written or fails.
pub async fn change(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    change: &dyn Change,
    options: &WriteOptions,
) -> Result<Answer, Status> {
    let key = target.key();
    let mut current = scope.objects.get(&key).await?.ok_or_else(|| target.not_found())?;
    for _ in 0..RACES_MAX {
        let new = prepare(scope, ctx, target, change, &current, options).await?;
        if new.remove {
            match super::delete::remove(scope, target, &current, options.dry_run).await? {
                Outcome::Written(_) => {
                    let object = convert::to_served(scope.resources(), &target.resource, new.object).await?;
                    return Ok(Answer::Object { code: 200, object: object.into() });
                }
                Outcome::Raced(None) => return Err(target.not_found()),
                Outcome::Raced(Some(newer)) => {
                    current = *newer;
                    continue;
                }
            }
        }
        let bytes = storage::encode(&new.object);
        if options.dry_run {
            scope.objects.check_update(&key, &bytes).await?;
            let object = convert::to_served(scope.resources(), &target.resource, new.object).await?;
            return Ok(Answer::Object { code: 200, object: object.into() });
        }
        if bytes == current.bytes {
            return Ok(Answer::stored(200, Stored::written(bytes, current.revision)));
        }
        let lease = scope.lease_for(&target.resource).await?;
        match scope.objects.update(&key, bytes.clone(), current.revision, lease).await? {
            Outcome::Written(revision) => {
                if current.is_cut {
                    ctx.warn(format!(
                        "values nested deeper than {READ_DEPTH_MAX} levels in the stored object were removed"
                    ));
                }
                return Ok(Answer::written(200, Stored::written(bytes, revision), new.object));
            }
            Outcome::Raced(None) => return Err(target.not_found()),
            Outcome::Raced(Some(newer)) if change.can_retry() => current = *newer,
            Outcome::Raced(Some(_)) => break,
        }
    }
    Err(Status::stale(&target.resource.kind.group_resource(), &target.name))
}

struct Prepared {
    /// In the storage version.
    object: Object,
    /// The last finalizer of a deleted object was removed: remove the object.
    remove: bool,
}

async fn prepare(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    change: &dyn Change,
    current: &Current,
    options: &WriteOptions,
) -> Result<Prepared, Status> {
    let resource = &target.resource;
    let old = if convert::is_served_form(resource, &current.object) {
        Cow::Borrowed(&current.object)
    } else {
        Cow::Owned(convert::to_served(scope.resources(), resource, current.object.clone()).await?)
    };
    let mut new = change.apply(scope.registry, ctx, target, &old)?;
    let question = Question::new(target, change, &old, options);
    question.mutate(scope, ctx, &mut new).await?;

    keep_system_fields(&mut new, &old);
    let strategy = &resource.kind.strategy;
    let errors = settle(ctx, target, &mut new, &old);
    refuse_invalid(resource, &new, errors)?;
    if target.subresource.is_none() {
        for warning in strategy.warnings(&new, Some(&old)) {
            ctx.warn(warning);
        }
    }
    question.validate(scope, ctx, &new).await?;
    let grace_over = new.i64_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0;
    let remove = old.is_deleting() && grace_over && !strategy.blocks_removal(&new);
    Ok(Prepared { object: convert::to_storage(scope.resources(), resource, new).await?, remove })
}

/// Applies the rules of the endpoint to the new object and returns what is wrong with it.
fn settle(ctx: &Context, target: &Target, new: &mut Object, old: &Object) -> Vec<FieldError> {
    let resource = &target.resource;
    let strategy = &resource.kind.strategy;
    let write = ctx.write_context();
    match &target.subresource {
        None => {
            if resource.kind.has_status() {
                copy(new, old, &["status"]);
            }
            prepare_object(target, new, old, &write);
            validate::on_update(ctx, resource, new, old)
        }
        Some(Subresource::Status) => {
            strategy.prepare_status(new, old, &write);
            validate::on_status_update(ctx, resource, new, old)
        }
        // Other changes were dropped before; the rules for updates would undo this one.
        Some(Subresource::Finalize) => namespace::validate_finalize(new),
        Some(Subresource::EphemeralContainers) => {
            pod::prepare_ephemeral_containers(new, old);
            check_pod_part(new, old, pod::validate_ephemeral_containers)
        }
        Some(Subresource::Resize) => {
            pod::prepare_resize(new, old);
            check_pod_part(new, old, pod::validate_resize)
        }
        Some(Subresource::Approval) => {
            let approval = certificates::approval();
            approval.prepare_status(new, old, &write);
            approval.validate_status(new, old)
        }
        // Setting the node is the one change of a pod that the rules for updates would refuse.
        Some(Subresource::Binding) => {
            prepare_object(target, new, old, &write);
            Vec::new()
        }
        Some(_) => {
            prepare_object(target, new, old, &write);
            validate::on_update(ctx, resource, new, old)
        }
    }
}

fn prepare_object(target: &Target, new: &mut Object, old: &Object, write: &WriteContext) {
    let resource = &target.resource;
    resource.kind.strategy.prepare_update(new, old, write);
    if counts_generation(resource) && spec_differs(resource, new, old) {
        new.set_generation(old.generation().saturating_add(1));
    }
}

/// The input of admission: the object, or the body of the subresource.
struct Question<'a> {
    target: Cow<'a, Target>,
    operation: Operation,
    old: Option<Cow<'a, Object>>,
    body: Option<&'a dyn Body>,
    options: Value,
    dry_run: bool,
}

impl<'a> Question<'a> {
    fn new(target: &'a Target, change: &'a dyn Change, old: &'a Object, options: &WriteOptions) -> Self {
        let mut question = Self {
            target: Cow::Borrowed(target),
            operation: Operation::Update,
            old: Some(Cow::Borrowed(old)),
            body: change.body(),
            options: options_value(change.options_kind(), options),
            dry_run: options.dry_run,
        };
        if let Some(body) = question.body {
            question.target = Cow::Owned(Target { subresource: Some(body.subresource()), ..target.clone() });
            question.operation = body.operation();
            question.old = (body.operation() == Operation::Update).then(|| Cow::Owned(body.show(old)));
        }
        question
    }

    fn attributes(&self) -> Attributes<'_> {
        attributes(&self.target, self.operation, self.old.as_deref(), self.options.clone(), self.dry_run)
    }

    async fn mutate(&self, scope: WriteScope<'_>, ctx: &Context, new: &mut Object) -> Result<(), Status> {
        let Some(body) = self.body else {
            return scope.mutate(ctx, &self.attributes(), new).await;
        };
        let mut shown = body.show(new);
        scope.mutate(ctx, &self.attributes(), &mut shown).await?;
        body.take_back(&shown, new);
        Ok(())
    }

    async fn validate(&self, scope: WriteScope<'_>, ctx: &Context, new: &Object) -> Result<(), Status> {
        let shown = self.body.map_or(Cow::Borrowed(new), |body| Cow::Owned(body.show(new)));
        scope.validate(ctx, &self.attributes(), Some(&shown)).await
    }
}

/// Ephemeral containers and resources of a pod have rules of their own; the rest of the pod is unchanged.
fn check_pod_part(
    new: &mut Object,
    old: &Object,
    validate: fn(&Object, &Object) -> Vec<FieldError>,
) -> Vec<FieldError> {
    if pod::spec_changed(new, old) {
        new.set_generation(old.generation().saturating_add(1));
    }
    let mut errors = validate_object_meta_update(new, old);
    errors.extend(validate(new, old));
    errors
}

/// Checks that resourceVersion and uid, where given, are those of the stored object.
fn check_identity(target: &Target, new: &mut Object, current: &Object) -> Result<(), Status> {
    let revision = new.resource_version();
    if revision.is_empty() || revision == "0" {
        new.remove(&["metadata", "resourceVersion"]);
    } else if revision != current.resource_version() {
        return Err(Status::stale(&target.resource.kind.group_resource(), &target.name));
    }
    check_uid(target, new.uid(), current)
}

/// A write to a subresource only touches its own part.
pub fn keep_outside_subresource(target: &Target, new: &mut Object, old: &Object) {
    match target.subresource {
        Some(Subresource::Status | Subresource::Approval) => {}
        Some(Subresource::Finalize) => return keep_all_but_finalizers(new, old),
        _ => return,
    }
    let status = new.remove(&["status"]);
    let managed = new.remove(&["metadata", "managedFields"]);
    let mut kept = old.clone();
    match status {
        Some(status) => kept.set(&["status"], status),
        None => {
            kept.remove(&["status"]);
        }
    }
    // As in kube-apiserver a status update of a built-in kind may carry annotations, finalizers and owners. Other kinds are
    // defined by CustomResourceDefinitions there, whose status updates change no metadata but managedFields.
    let is_built_in = target.resource.custom.is_none() && target.resource.kind.own_schema.is_none();
    if is_built_in {
        for field in ["annotations", "finalizers", "ownerReferences"] {
            copy(&mut kept, new, &["metadata", field]);
        }
    }
    if let Some(managed) = managed {
        kept.set(&["metadata", "managedFields"], managed);
    }
    *new = kept;
}

/// A finalize changes the namespace's own finalizers and nothing else.
fn keep_all_but_finalizers(new: &mut Object, old: &Object) {
    let mut kept = old.clone();
    copy(&mut kept, new, &["spec", "finalizers"]);
    if let Some(managed) = new.remove(&["metadata", "managedFields"]) {
        kept.set(&["metadata", "managedFields"], managed);
    }
    *new = kept;
}
