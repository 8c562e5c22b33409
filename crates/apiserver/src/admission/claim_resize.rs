//! Refuses to grow a claim whose storage class does not allow it.

use async_trait::async_trait;
use object::quantity::Quantity;
use object::{Object, Status};

use super::{Admission, Attributes, Operation};
use crate::admission::AdmissionScope;
use crate::context::Context;
use crate::resources::Resources;

const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// kube-apiserver's `PersistentVolumeClaimResize`; for servers that have volumes.
pub struct ClaimResize;

#[async_trait]
impl Admission for ClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let kind = &attributes.resource.kind.gvk;
        let is_claim = kind.group.is_empty() && kind.kind == "PersistentVolumeClaim";
        let updates = attributes.operation == Operation::Update && attributes.subresource.is_none();
        let (Some(new), Some(old)) = (object.filter(|_| is_claim && updates), attributes.old) else { return Ok(()) };
        if !grows(new, old) {
            return Ok(());
        }
        let refuse = |text: &str| {
            let resource = attributes.resource.kind.group_resource();
            Err(Status::forbidden(&resource, attributes.name_in_refusals(object), text))
        };
        if old.str_at(&["status", "phase"]) != "Bound" {
            return refuse("Only bound persistent volume claims can be expanded");
        }
        if !allows_expansion(scope.resources, new).await? {
            return refuse(
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
            );
        }
        Ok(())
    }
}

fn grows(new: &Object, old: &Object) -> bool {
    let size = |claim: &Object| Quantity::parse(claim.str_at(&["spec", "resources", "requests", "storage"])).ok();
    matches!((size(new), size(old)), (Some(new), Some(old)) if new > old)
}

async fn allows_expansion(resources: Resources<'_>, claim: &Object) -> Result<bool, Status> {
    let class = claim.annotation(OLD_CLASS).unwrap_or_else(|| claim.str_at(&["spec", "storageClassName"]));
    let resource = resources.registry.find("storage.k8s.io", "v1", "storageclasses");
    let Some(resource) = resource.filter(|_| !class.is_empty()) else { return Ok(false) };
    let found = resources.objects.get(&resource.key("", class)).await?;
    Ok(found.is_some_and(|class| class.object.bool_at(&["allowVolumeExpansion"]) == Some(true)))
}
