//! One rule of a webhook or policy: groups, versions, resources, operations, scope and, for policies, names.

use object::request::Subresource;
use serde_json::Value;

use super::facts::Facts;
use crate::served_resources::Resource;

pub struct Rule {
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resource and subresource; `*` stands for any of either.
    resources: Vec<(String, String)>,
    operations: Vec<String>,
    scope: Scope,
    /// Empty means every name.
    names: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Any,
    Namespaced,
    Cluster,
}

impl Rule {
    pub fn read(rule: &Value) -> Self {
        let list = |key: &str| -> Vec<String> {
            let items = rule[key].as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let split = |text: String| match text.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
            None => (text, String::new()),
        };
        Self {
            groups: list("apiGroups"),
            versions: list("apiVersions"),
            resources: list("resources").into_iter().map(split).collect(),
            operations: list("operations"),
            scope: match rule["scope"].as_str() {
                Some("Namespaced") => Scope::Namespaced,
                Some("Cluster") => Scope::Cluster,
                _ => Scope::Any,
            },
            names: list("resourceNames"),
        }
    }

    /// Returns true when the rule matches this write with its resource taken as `resource`.
    pub fn matches(&self, facts: &Facts<'_>, resource: &Resource) -> bool {
        let attributes = facts.attributes;
        let gvk = &resource.kind.gvk;
        let in_namespace = !facts.is_about_namespace() && !facts.namespace.is_empty();
        let scope = match self.scope {
            Scope::Any => true,
            Scope::Namespaced => in_namespace,
            Scope::Cluster => !in_namespace,
        };
        let is_resource = |(wanted, sub): &(String, String)| {
            is_or_any(wanted, &resource.kind.plural) && is_or_any(sub, Subresource::name_of(attributes.subresource))
        };
        scope
            && has(&self.operations, attributes.operation.name())
            && has(&self.groups, &gvk.group)
            && has(&self.versions, &gvk.version)
            && self.resources.iter().any(is_resource)
            && (self.names.is_empty() || self.names.iter().any(|name| name == attributes.name))
    }
}

fn is_or_any(wanted: &str, found: &str) -> bool {
    wanted == "*" || wanted == found
}

fn has(list: &[String], found: &str) -> bool {
    list.iter().any(|wanted| is_or_any(wanted, found))
}
