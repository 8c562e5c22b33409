//! Converts the objects of a write to another served version of its resource.

use std::borrow::Cow;
use std::sync::Arc;

use object::{Object, Status};

use super::Matched;
use super::facts::Facts;
use crate::convert;
use crate::served_resources::Resource;

/// Other served versions of the resource, of other groups too where they keep their objects in the same place.
pub fn equivalents(facts: &Facts<'_>) -> Vec<Arc<Resource>> {
    let asked = &facts.attributes.resource.kind;
    let same = |other: &&Arc<Resource>| {
        other.kind.storage_resource == asked.storage_resource && other.kind.gvk != asked.gvk && other.kind.stored
    };
    facts.scope.resources.registry.snapshot().ordered.iter().filter(same).cloned().collect()
}

/// An object of the request in the version it is to be shown in.
pub async fn show<'o>(facts: &Facts<'_>, matched: &Matched, object: &'o Object) -> Result<Cow<'o, Object>, Status> {
    match matched {
        Matched::As(other) if is_own_kind(facts, object) => {
            between(facts, facts.attributes.resource, other, object.clone()).await.map(Cow::Owned)
        }
        _ => Ok(Cow::Borrowed(object)),
    }
}

/// The way back, for an object a webhook has changed.
pub async fn take_back(facts: &Facts<'_>, matched: &Matched, object: Object) -> Result<Object, Status> {
    match matched {
        Matched::As(other) if object.gvk() == other.kind.gvk => {
            between(facts, other, facts.attributes.resource, object).await
        }
        _ => Ok(object),
    }
}

/// Bodies of subresources (a Scale, an Eviction) have one version only.
fn is_own_kind(facts: &Facts<'_>, object: &Object) -> bool {
    object.gvk() == facts.attributes.resource.kind.gvk
}

async fn between(facts: &Facts<'_>, from: &Resource, to: &Resource, object: Object) -> Result<Object, Status> {
    let stored = convert::to_storage(facts.scope.resources, from, object).await?;
    convert::to_served(facts.scope.resources, to, stored).await
}
