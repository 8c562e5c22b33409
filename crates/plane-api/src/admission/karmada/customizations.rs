//! ResourceInterpreterCustomizations: every script compiles, and no two of them implement the same operation of a kind.

use std::sync::Arc;

use api::config;
use apiserver::admission::{Admission, AdmissionScope, Attributes};
use apiserver::cache::Filter;
use apiserver::context::Context;
use async_trait::async_trait;
use object::{Object, Status};
use validation::rules::{Denial, customization_problem};

use super::concerns;

/// Compiles a Lua script or returns the error.
pub type CompileScript = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

const WEBHOOK: &str = "resourceinterpretercustomization.karmada.io";

pub struct Customizations {
    pub compile: CompileScript,
}

#[async_trait]
impl Admission for Customizations {
    fn name(&self) -> &'static str {
        "KarmadaCustomizations"
    }

    async fn validate(
        &self,
        _scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let kind = &attributes.resource.kind;
        let mine = kind.gvk.group == config::GROUP && kind.plural == config::INTERPRETER_CUSTOMIZATIONS.plural;
        let Some(object) = object.filter(|_| mine && concerns(attributes)) else { return Ok(()) };
        let cache = &attributes.resource.cache;
        cache.ready().await?;
        // A conflicting customization may have been written just before this one.
        cache.fresh().await?;
        let others: Vec<Arc<Object>> = cache.entries(&Filter::default()).iter().map(|entry| entry.decode()).collect();
        match customization_problem(object, &others, &*self.compile) {
            Some(problem) => Err(Denial::forbidden(WEBHOOK, problem).status()),
            None => Ok(()),
        }
    }
}
