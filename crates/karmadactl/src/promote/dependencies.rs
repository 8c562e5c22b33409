//! Dependencies of a promoted object: found by the interpreter, promoted first, and reverted on failure.

use std::sync::Arc;

use anyhow::Context;
use api::cluster::LABEL_MANAGED;
use api::config::{DependentObjectReference, INTERPRETER_CUSTOMIZATIONS, INTERPRETER_WEBHOOKS};
use api::features::Features;
use api::work::LABEL_WORK_ID;
use cluster_client::{
    ApiResource, ClusterClient, DeleteOptions, ListOptions, Patch, ResourceRef, RestMapper, WriteOptions,
};
use interpreter::question::Dependencies;
use interpreter::{Interpreter, Operation, Tier};
use interpreter_runtime::environment;
use jiff::Timestamp;
use object::{GroupVersion, Object};
use serde_json::{Value, json};

use crate::console::Console;
use crate::promote::{Promotion, as_template, create_template, full_name, place_of, quoted};

/// A dependency created in the control plane.
struct Made {
    resource: ApiResource,
    object: Object,
}

/// Promotes all dependencies or none: if one already exists, nothing is promoted, without an error.
pub async fn promote(
    console: &Console,
    plane: &ClusterClient,
    member: &ClusterClient,
    mapper: &RestMapper,
    promotion: &Promotion,
    source: &Object,
) -> anyhow::Result<()> {
    let Some(found) = interpret(console, plane, source).await? else { return Ok(()) };
    let mut made: Vec<Made> = Vec::new();
    let outcome = promote_all(console, plane, member, mapper, promotion, found, &mut made).await;
    if !matches!(outcome, Ok(true)) {
        for one in made.iter().rev() {
            if let Err(error) = revert(console, plane, member, one).await {
                console.warn(format!("dependency {} was not reverted: {error:#}", full_name(&one.object)));
            }
        }
    }
    outcome.map(drop)
}

/// Returns the dependencies of the object; `None` without an interpreter for it.
async fn interpret(
    console: &Console,
    plane: &ClusterClient,
    source: &Object,
) -> anyhow::Result<Option<Vec<DependentObjectReference>>> {
    let customizations = rules_of(plane, &INTERPRETER_CUSTOMIZATIONS).await?;
    let webhooks = rules_of(plane, &INTERPRETER_WEBHOOKS).await?;
    let interpreter = Interpreter::new(&customizations, &webhooks, &Features::default(), &environment::system());
    let gvk = source.gvk();
    if !interpreter.has_hook(&gvk, Operation::InterpretDependency) {
        console.warn("there is no interpreter configured support to interpret dependencies");
        return Ok(None);
    }
    let tier = tier_name(&interpreter.tier_of(source.api_version(), source.kind(), Operation::InterpretDependency));
    // As in karmadactl, webhooks are not called.
    let found = interpreter.answer(Dependencies(source), Timestamp::now(), None);
    let found =
        found.with_context(|| format!("{tier} interpreter failed to get dependencies of {}", full_name(source)))?;
    console.line(format!("use {tier} interpreter"))?;
    Ok(Some(found))
}

async fn rules_of(plane: &ClusterClient, resource: &api::Resource) -> anyhow::Result<Vec<Arc<Object>>> {
    let list = plane.list_all(ResourceRef::all(&resource.gvr()), ListOptions::default()).await;
    Ok(list.with_context(|| format!("cannot read the {} of the control plane", resource.plural))?.items)
}

/// Returns Karmada's name of the interpreter.
fn tier_name(tier: &Tier<'_>) -> &'static str {
    match tier {
        Tier::Customized(_) => "configurable",
        Tier::Webhook(_) => "customized",
        Tier::Bundled(_) => "third-party",
        Tier::Native => "default",
    }
}

/// Returns true if all were created.
async fn promote_all(
    console: &Console,
    plane: &ClusterClient,
    member: &ClusterClient,
    mapper: &RestMapper,
    promotion: &Promotion,
    found: Vec<DependentObjectReference>,
    made: &mut Vec<Made>,
) -> anyhow::Result<bool> {
    for reference in found {
        let gvk = GroupVersion::parse(&reference.api_version).unwrap_or_default().kind(&reference.kind);
        let resource =
            mapper.resource_of(&gvk).await.with_context(|| format!("the control plane does not serve {gvk}"))?;
        for object in read(member, promotion, &resource, &reference).await? {
            let template = as_template(object);
            let (gvr, full) = (quoted(&resource.gvr), full_name(&template));
            if plane.find(place_of(&resource, template.namespace(), template.name())).await?.is_some() {
                console.warn(format!(
                    "Dependency resource {gvr}({full}) already exist in karmada control plane, you can edit \
                     PropagationPolicy and OverridePolicy to propagate it"
                ));
                return Ok(false);
            }
            create_template(console, plane, &resource, template.clone()).await?;
            console.line(format!("Dependency resource {gvr}({full}) is promoted successfully"))?;
            made.push(Made { resource: resource.clone(), object: template });
        }
    }
    Ok(true)
}

/// Reads the dependency in the member, by name or by labels.
async fn read(
    member: &ClusterClient,
    promotion: &Promotion,
    resource: &ApiResource,
    reference: &DependentObjectReference,
) -> anyhow::Result<Vec<Object>> {
    let namespace = match reference.namespace.as_str() {
        "" => promotion.namespace.as_str(),
        namespace => namespace,
    };
    if !reference.name.is_empty() {
        let object = member.get(place_of(resource, namespace, &reference.name)).await;
        let object = object.with_context(|| {
            let (kind, name) = (&reference.kind, &reference.name);
            format!("failed to get dependency {kind:?}({namespace}/{name}) in cluster({})", promotion.cluster)
        })?;
        return Ok(vec![Object::clone(&object)]);
    }
    let place = match resource.namespaced {
        true => ResourceRef::within(&resource.gvr, namespace),
        false => ResourceRef::all(&resource.gvr),
    };
    let selector = reference.label_selector.clone().unwrap_or_default().compile();
    let selector = selector.map_err(|error| anyhow::anyhow!("invalid label selector of a dependency: {error}"))?;
    let list = member.list_all(place, ListOptions::default()).await?;
    Ok(list.items.iter().filter(|object| selector.matches(object)).map(|object| Object::clone(object)).collect())
}

/// Removes a dependency from the control plane. Its mark in the member is removed first, so that it is not deleted there.
async fn revert(console: &Console, plane: &ClusterClient, member: &ClusterClient, made: &Made) -> anyhow::Result<()> {
    let target = place_of(&made.resource, made.object.namespace(), made.object.name());
    let patch = json!({"metadata": {"labels": {LABEL_WORK_ID: Value::Null, LABEL_MANAGED: Value::Null}}});
    member.patch(target.clone(), Patch::merge(patch), WriteOptions::default()).await?;
    plane.delete(target, DeleteOptions::default()).await?;
    let (gvr, full) = (quoted(&made.resource.gvr), full_name(&made.object));
    console.line(format!("Dependency resource {gvr}({full}) is reverted successfully"))?;
    Ok(())
}
