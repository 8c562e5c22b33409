//! Refuses creates in namespaces that are missing or terminating, and deletes of system namespaces.

use async_trait::async_trait;
use object::{Object, Status};

use super::{Admission, Attributes, Operation};
use crate::admission::AdmissionScope;
use crate::context::Context;

/// Namespaces that cannot be deleted.
const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

pub struct NamespaceLifecycle;

#[async_trait]
impl Admission for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    async fn mutate(
        &self,
        scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        let created = attributes.operation == Operation::Create && attributes.subresource.is_none();
        if !created || attributes.namespace.is_empty() || !attributes.resource.kind.namespaced {
            return Ok(());
        }
        let Some(namespaces) = scope.resources.registry.find("", "v1", "namespaces") else { return Ok(()) };
        let namespace = attributes.namespace;
        let Some(found) = scope.resources.objects.get(&namespaces.key("", namespace)).await? else {
            return Err(Status::not_found(&namespaces.kind.group_resource(), namespace));
        };
        if !found.object.is_deleting() && found.object.str_at(&["status", "phase"]) != "Terminating" {
            return Ok(());
        }
        Err(terminating(attributes, object, namespace))
    }

    async fn validate(
        &self,
        _scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        _object: Option<&Object>,
    ) -> Result<(), Status> {
        let kind = &attributes.resource.kind;
        let is_namespace = kind.gvk.group.is_empty() && kind.gvk.kind == "Namespace";
        if attributes.operation == Operation::Delete && is_namespace && IMMORTAL.contains(&attributes.name) {
            let detail = "this namespace may not be deleted";
            return Err(Status::forbidden(&kind.group_resource(), attributes.name, detail));
        }
        Ok(())
    }
}

fn terminating(attributes: &Attributes<'_>, object: &Object, namespace: &str) -> Status {
    let detail = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let name = attributes.name_in_refusals(Some(object));
    let mut status = Status::forbidden(&attributes.resource.kind.group_resource(), name, detail);
    if let Some(details) = &mut status.details {
        details.causes.push(object::status::StatusCause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    status
}
