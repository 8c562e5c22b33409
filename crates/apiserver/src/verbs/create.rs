//! Creates objects.

use object::request::WriteOptions;
use object::{FieldError, FieldPath, Object, Status};

use super::write::{attributes, counts_generation, options_value, place_in_namespace, refuse_invalid, stamp_new};
use super::{Answer, Target};
use crate::admission::Operation;
use crate::context::Context;
use crate::generated_name::generate_name;
use crate::scope::WriteScope;
use crate::storage::{self, Outcome, Stored};
use crate::{convert, managed, validate};

/// Maximum number of names generated for one object when they are taken.
const NAME_TRIES_MAX: usize = 8;

/// Creates `object`, which has been decoded, pruned and defaulted.
pub async fn create(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    object: Object,
    options: &WriteOptions,
) -> Result<Answer, Status> {
    let resource = &target.resource;
    let mut object = object;
    if !target.name.is_empty() && object.name().is_empty() {
        object.set_name(&target.name);
    }
    place_in_namespace(target, &mut object)?;
    if !object.resource_version().is_empty() {
        // Kubernetes finds this in its storage layer, where every error is an internal one.
        return Err(Status::new(500, "", "resourceVersion should not be set on objects to be created"));
    }
    if resource.kind.has_status() && !resource.kind.strategy.keeps_status_on_create() {
        object.remove(&["status"]);
    }
    managed::on_write(scope.registry, ctx, target, None, &mut object, options);
    create_applied(scope, ctx, target, object, options).await
}

/// Creates an object whose managed fields are settled, as an apply leaves it.
pub async fn create_applied(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    object: Object,
    options: &WriteOptions,
) -> Result<Answer, Status> {
    let resource = &target.resource;
    let mut object = object;
    let asked_options = options_value("CreateOptions", options);
    let unnamed = Target { name: object.name().to_owned(), ..target.clone() };
    let asked = attributes(&unnamed, Operation::Create, None, asked_options.clone(), options.dry_run);
    scope.mutate(ctx, &asked, &mut object).await?;

    // As in kube-apiserver a name is only generated after the mutating steps, which may set one.
    let generated = object.name().is_empty();
    name_it(target, &mut object)?;
    let named = Target { name: object.name().to_owned(), ..target.clone() };
    let asked = attributes(&named, Operation::Create, None, asked_options, options.dry_run);

    stamp_new(ctx, &mut object, counts_generation(resource));
    resource.kind.strategy.prepare_create(&mut object, &ctx.write_context());
    refuse_invalid(resource, &object, validate::on_create(ctx, resource, &object))?;
    for warning in resource.kind.strategy.warnings(&object, None) {
        ctx.warn(warning);
    }
    scope.validate(ctx, &asked, Some(&object)).await?;
    store_new(scope, &named, object, generated, options).await
}

fn name_it(target: &Target, object: &mut Object) -> Result<(), Status> {
    if !object.name().is_empty() {
        return Ok(());
    }
    let base = object.generate_name().to_owned();
    if base.is_empty() {
        let error = FieldError::required(FieldPath::new("metadata.name"), "name or generateName is required");
        return refuse_invalid(&target.resource, object, vec![error]);
    }
    object.set_name(&generate_name(&base));
    Ok(())
}

async fn store_new(
    scope: WriteScope<'_>,
    target: &Target,
    object: Object,
    generated: bool,
    options: &WriteOptions,
) -> Result<Answer, Status> {
    let resource = &target.resource;
    let mut object = convert::to_storage(scope.resources(), resource, object).await?;
    for attempt in 1.. {
        let name = object.name().to_owned();
        let key = resource.key(&target.namespace, &name);
        let bytes = storage::encode(&object);
        let outcome = if options.dry_run {
            storage::check_new(&bytes)?;
            dry_run_create(scope, &key).await?
        } else {
            let lease = scope.lease_for(resource).await?;
            scope.objects.create(&key, bytes.clone(), lease).await?
        };
        match outcome {
            Outcome::Written(revision) if options.dry_run => {
                let object = convert::to_served(scope.resources(), resource, object).await?;
                debug_assert_eq!(revision, 0);
                return Ok(Answer::Object { code: 201, object: object.into() });
            }
            Outcome::Written(revision) => {
                return Ok(Answer::written(201, Stored::written(bytes, revision), object));
            }
            Outcome::Raced(_) if generated && attempt < NAME_TRIES_MAX => {
                let base = object.generate_name().to_owned();
                object.set_name(&generate_name(&base));
            }
            Outcome::Raced(current) => return Err(taken(target, &name, current.as_deref())),
        }
    }
    unreachable!("the loop only ends by returning")
}

async fn dry_run_create(scope: WriteScope<'_>, key: &str) -> Result<Outcome, Status> {
    Ok(match scope.objects.get(key).await? {
        Some(current) => Outcome::Raced(Some(Box::new(current))),
        None => Outcome::Written(0),
    })
}

fn taken(target: &Target, name: &str, current: Option<&storage::Current>) -> Status {
    let mut status = Status::already_exists(&target.resource.kind.group_resource(), name);
    if current.is_some_and(|c| c.object.is_deleting()) {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}
