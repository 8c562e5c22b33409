//! ResourceInterpreterCustomizations: every script compiles, and no two of them implement the same operation of a kind.

use std::sync::Arc;

use api::config;
use apiserver::admission::Attributes;
use apiserver::cache::Filter;
use object::{Object, Status};
use validation::rules::{Denial, customization_problem};

/// Compiles a Lua script or returns the error.
pub type CompileScript = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

const WEBHOOK: &str = "resourceinterpretercustomization.karmada.io";

/// Does nothing for other kinds.
pub async fn check(attributes: &Attributes<'_>, object: &Object, compile: &CompileScript) -> Result<(), Status> {
    let kind = &attributes.resource.kind;
    if kind.gvk.group != config::GROUP || kind.plural != config::INTERPRETER_CUSTOMIZATIONS.plural {
        return Ok(());
    }
    let cache = &attributes.resource.cache;
    cache.ready().await?;
    // A conflicting customization may have been written just before this one.
    cache.fresh().await?;
    let others: Vec<Arc<Object>> = cache.entries(&Filter::default()).iter().map(|entry| entry.decode()).collect();
    match customization_problem(object, &others, &**compile) {
        Some(problem) => Err(Denial::forbidden(WEBHOOK, problem).status()),
        None => Ok(()),
    }
}
