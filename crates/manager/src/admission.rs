//! Admission rules of the manager that need more than the object.

use apiserver::admission::AdmissionScope;
use std::sync::Arc;

use apiserver::admission::{Admission, Attributes, Operation};
use apiserver::context::Context;
use async_trait::async_trait;
use instances::plane::PlaneFactory;
use manager_kinds::{KARMADAS, MANAGED_CLUSTERS, annotations, spec};
use object::{FieldError, FieldPath, Object, Status};

/// Refuses instances whose flags no server accepts, and the deletion of protected instances.
pub struct InstanceRules {
    pub factory: Arc<dyn PlaneFactory>,
}

#[async_trait]
impl Admission for InstanceRules {
    fn name(&self) -> &'static str {
        "InstanceRules"
    }

    async fn validate(
        &self,
        _scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let kind = &attributes.resource.kind;
        if kind.gvk != KARMADAS.gvk() || attributes.subresource.is_some() {
            return Ok(());
        }
        if attributes.operation == Operation::Delete {
            return refuse_protected(attributes);
        }
        let Some(object) = object.filter(|object| !object.is_deleting()) else { return Ok(()) };
        let flags = spec::read(object, annotations::read(object).0.mode).plane.flags;
        self.factory.check(&flags).map_err(|problem| {
            let error = FieldError::invalid(FieldPath::new("spec"), flags.join(" "), problem);
            Status::invalid(&kind.group_kind(), attributes.name_in_refusals(Some(object)), &[error])
        })
    }
}

/// Refuses the deletion of clusters that are joined to instances.
pub struct InventoryRules;

#[async_trait]
impl Admission for InventoryRules {
    fn name(&self) -> &'static str {
        "InventoryRules"
    }

    async fn validate(
        &self,
        _scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        _object: Option<&Object>,
    ) -> Result<(), Status> {
        let kind = &attributes.resource.kind;
        if kind.gvk != MANAGED_CLUSTERS.gvk() || attributes.operation != Operation::Delete {
            return Ok(());
        }
        let joined = attributes.old.map(|old| old.items(&["status", "joinedTo"])).unwrap_or_default();
        let names: Vec<&str> = joined.iter().filter_map(|entry| entry["instance"].as_str()).collect();
        if names.is_empty() {
            return Ok(());
        }
        let why = format!("the cluster is joined to {}: empty spec.instances first", names.join(", "));
        Err(Status::forbidden(&kind.group_resource(), attributes.name, why))
    }
}

fn refuse_protected(attributes: &Attributes<'_>) -> Result<(), Status> {
    let is_protected = attributes.old.is_some_and(|old| annotations::read(old).0.is_protected);
    if !is_protected {
        return Ok(());
    }
    let why = format!("the instance is protected: remove the annotation {} first", annotations::PROTECTED);
    Err(Status::forbidden(&attributes.resource.kind.group_resource(), attributes.name, why))
}
