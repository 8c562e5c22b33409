//! Sets the storage class of claims that name none.

use std::sync::Arc;

use async_trait::async_trait;
use object::{Object, Status};
use serde_json::Value;

use super::{Admission, Attributes, Operation};
use crate::admission::AdmissionScope;
use crate::cache::Filter;
use crate::context::Context;
use crate::resources::Resources;

const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// kube-apiserver's `DefaultStorageClass`; for servers that have volumes.
pub struct DefaultStorageClass;

#[async_trait]
impl Admission for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    async fn mutate(
        &self,
        scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        claim: &mut Object,
    ) -> Result<(), Status> {
        let kind = &attributes.resource.kind.gvk;
        let is_new_claim = attributes.operation == Operation::Create
            && kind.group.is_empty()
            && kind.kind == "PersistentVolumeClaim"
            && attributes.subresource.is_none();
        let names_one = claim.annotation(OLD_CLASS).is_some()
            || claim.get(&["spec", "storageClassName"]).is_some_and(|class| !Value::is_null(class));
        if is_new_claim
            && !names_one
            && let Some(class) = default_class(scope.resources).await?
        {
            claim.set(&["spec", "storageClassName"], class.name());
        }
        Ok(())
    }
}

/// Of several the newest, then the first by name.
async fn default_class(resources: Resources<'_>) -> Result<Option<Arc<Object>>, Status> {
    let Some(resource) = resources.registry.find("storage.k8s.io", "v1", "storageclasses") else { return Ok(None) };
    resource.cache.fresh().await?;
    let classes = resource.cache.entries(&Filter::default());
    let classes = classes.iter().map(|entry| entry.decode());
    let defaults = classes.filter(|class| class.annotation(IS_DEFAULT) == Some("true"));
    Ok(defaults.max_by(|a, b| a.creation_timestamp().cmp(b.creation_timestamp()).then_with(|| b.name().cmp(a.name()))))
}
