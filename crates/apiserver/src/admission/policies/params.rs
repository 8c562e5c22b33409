//! The objects a binding hands to its policy as `params`.

use std::sync::Arc;

use object::Object;
use object::selector::LabelSelector;
use serde_json::Value;

use super::policy::{Binding, PolicyBase};
use crate::admission::dynamic::facts::Facts;
use crate::cache::Filter;
use crate::convert;
use crate::served_resources::Resource;

/// The policy is evaluated once for each; `None` stands for `params` being null.
pub async fn collect(
    facts: &Facts<'_>,
    policy: &PolicyBase,
    binding: &Binding,
) -> Result<Vec<Option<Arc<Object>>>, String> {
    let (Some(kind), Some(reference)) = (&policy.param_kind, &binding.param_ref) else { return Ok(vec![None]) };
    let snapshot = facts.scope.resources.registry.snapshot();
    let resource = snapshot.find_kind(kind).ok_or_else(|| format!("paramKind kind `{kind}` not known"))?;
    let text = |key: &str| reference[key].as_str().unwrap_or_default();
    let namespace = match (resource.kind.namespaced, text("namespace")) {
        (false, "") => "",
        (false, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        (true, "") if facts.namespace.is_empty() => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned()
            );
        }
        (true, "") => facts.namespace,
        (true, named) => named,
    };
    let found = match text("name") {
        "" => select(facts, resource, namespace, &reference["selector"]).await?,
        name => named(facts, resource, namespace, name).await?,
    };
    if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found.into_iter().map(Some).collect())
}

async fn named(
    facts: &Facts<'_>,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<Vec<Arc<Object>>, String> {
    let found =
        facts.scope.resources.objects.get(&resource.key(namespace, name)).await.map_err(|status| status.message)?;
    match found {
        Some(current) => Ok(vec![Arc::new(show(facts, resource, current.object).await?)]),
        None => Ok(Vec::new()),
    }
}

async fn select(
    facts: &Facts<'_>,
    resource: &Resource,
    namespace: &str,
    selector: &Value,
) -> Result<Vec<Arc<Object>>, String> {
    let labels = LabelSelector::from_value(Some(selector)).map_err(|error| error.to_string())?;
    resource.cache.ready().await.map_err(|status| status.message)?;
    let filter = Filter { namespace: namespace.to_owned(), labels, ..Filter::default() };
    let mut found = Vec::new();
    for entry in resource.cache.entries(&filter) {
        found.push(Arc::new(show(facts, resource, (*entry.decode()).clone()).await?));
    }
    Ok(found)
}

async fn show(facts: &Facts<'_>, resource: &Resource, object: Object) -> Result<Object, String> {
    convert::to_served(facts.scope.resources, resource, object).await.map_err(|status| status.message)
}
