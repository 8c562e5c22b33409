//! One write as all webhooks and policies see it.

use std::sync::Arc;

use object::{Object, Status};

use crate::admission::{AdmissionScope, Attributes};
use crate::context::Context;

pub struct Facts<'a> {
    pub scope: AdmissionScope<'a>,
    pub ctx: &'a Context,
    pub attributes: &'a Attributes<'a>,
    /// For a namespace this is the namespace itself, as in kube-apiserver.
    pub namespace: &'a str,
}

impl<'a> Facts<'a> {
    pub fn new(scope: AdmissionScope<'a>, ctx: &'a Context, attributes: &'a Attributes<'a>) -> Self {
        let mut facts = Self { scope, ctx, attributes, namespace: attributes.namespace };
        if facts.is_about_namespace() {
            facts.namespace = attributes.name;
        } else if !attributes.resource.kind.namespaced {
            facts.namespace = "";
        }
        facts
    }

    pub fn is_about_namespace(&self) -> bool {
        let kind = &self.attributes.resource.kind;
        kind.gvk.group.is_empty() && kind.plural == "namespaces"
    }

    /// The request's namespace; one that the cache does not have yet is looked up in the store.
    pub async fn namespace_object(&self) -> Result<Arc<Object>, Status> {
        let missing = || Status::internal("the server has no namespaces");
        let resource = self.scope.resources.registry.find("", "v1", "namespaces").ok_or_else(missing)?;
        resource.cache.ready().await?;
        if let Some(entry) = resource.cache.get(self.namespace) {
            return Ok(entry.decode());
        }
        match self.scope.resources.objects.get(&resource.key("", self.namespace)).await? {
            Some(found) => Ok(Arc::new(found.object)),
            None => Err(Status::not_found(&resource.kind.group_resource(), self.namespace)),
        }
    }

    /// Returns a refusal with the text of kube-apiserver's admission plugins.
    pub fn forbidden(&self, object: Option<&Object>, detail: impl std::fmt::Display) -> Status {
        let named = self.attributes.name_in_refusals(object);
        Status::forbidden(&self.attributes.resource.kind.group_resource(), named, detail)
    }
}
