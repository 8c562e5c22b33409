//! Refuses creates in namespaces that are missing or terminating, and deletes of system namespaces.

use std::borrow::Cow;

use async_trait::async_trait;
use object::{Object, Status};
use serde::Deserialize;

use super::{Admission, Attributes, Operation};
use crate::admission::AdmissionScope;
use crate::context::Context;
use crate::storage;

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
        let found = scope.resources.objects.store().get(&namespaces.key("", namespace)).await;
        let (Some(found), _) = found.map_err(storage::status_of_store)? else {
            return Err(Status::not_found(&namespaces.kind.group_resource(), namespace));
        };
        match is_open(&found.value) {
            true => Ok(()),
            false => Err(terminating(attributes, object, namespace)),
        }
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

/// The part of a namespace that decides; every create in it reads this.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NamespaceState<'a> {
    #[serde(borrow)]
    metadata: NamespaceMetadata<'a>,
    #[serde(borrow)]
    status: Option<NamespaceStatus<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NamespaceMetadata<'a> {
    #[serde(borrow)]
    deletion_timestamp: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamespaceStatus<'a> {
    #[serde(borrow)]
    phase: Cow<'a, str>,
}

/// Reports whether objects can be created in a stored namespace. One that cannot be read takes none.
fn is_open(namespace: &[u8]) -> bool {
    let Ok(state) = serde_json::from_slice::<NamespaceState<'_>>(namespace) else { return false };
    let is_terminating = state.status.is_some_and(|status| status.phase == "Terminating");
    state.metadata.deletion_timestamp.is_none() && !is_terminating
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

#[cfg(test)]
mod tests {
    use super::is_open;

    #[test]
    fn namespaces_are_open_until_they_are_deleted() {
        let cases = [
            (
                r#"{"metadata":{"name":"a","labels":{"x":"y"}},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}"#,
                true,
            ),
            (r#"{"metadata":{"name":"a"}}"#, true),
            (r#"{"metadata":{"deletionTimestamp":null},"status":{}}"#, true),
            (r#"{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Active"}}"#, false),
            (r#"{"metadata":{"name":"a"},"status":{"phase":"Termin\u0061ting"}}"#, false),
            ("no JSON", false),
        ];
        for (namespace, expected) in cases {
            assert_eq!(is_open(namespace.as_bytes()), expected, "{namespace}");
        }
    }
}
