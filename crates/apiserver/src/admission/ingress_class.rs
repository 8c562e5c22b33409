//! Sets the ingress class of Ingresses that name none.

use async_trait::async_trait;
use object::{Object, Status};

use super::{Admission, Attributes, Operation};
use crate::admission::AdmissionScope;
use crate::cache::Filter;
use crate::context::Context;
use crate::resources::Resources;

const IS_DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
const OLD_CLASS: &str = "kubernetes.io/ingress.class";

/// kube-apiserver's `DefaultIngressClass`.
pub struct DefaultIngressClass;

#[async_trait]
impl Admission for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    async fn mutate(
        &self,
        scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        ingress: &mut Object,
    ) -> Result<(), Status> {
        let kind = &attributes.resource.kind.gvk;
        let is_new = attributes.operation == Operation::Create
            && kind.group == "networking.k8s.io"
            && kind.kind == "Ingress"
            && attributes.subresource.is_none();
        let names_one = ingress.annotation(OLD_CLASS).is_some_and(|class| !class.is_empty())
            || ingress.get(&["spec", "ingressClassName"]).is_some_and(|class| !class.is_null());
        if is_new
            && !names_one
            && let Some(class) = default_class(scope.resources).await?
        {
            ingress.set(&["spec", "ingressClassName"], class);
        }
        Ok(())
    }
}

/// Returns the name of the default class; of several the newest, then the first by name.
async fn default_class(resources: Resources<'_>) -> Result<Option<String>, Status> {
    let Some(resource) = resources.registry.find("networking.k8s.io", "v1", "ingressclasses") else { return Ok(None) };
    resource.cache.fresh().await?;
    let classes = resource.cache.entries(&Filter::default());
    let classes = classes.iter().map(|entry| entry.decode());
    let defaults = classes.filter(|class| class.annotation(IS_DEFAULT) == Some("true"));
    let newest =
        defaults.max_by(|a, b| a.creation_timestamp().cmp(b.creation_timestamp()).then_with(|| b.name().cmp(a.name())));
    Ok(newest.map(|class| class.name().to_owned()))
}
