//! Templates that no policy selects, until one does.

use std::collections::BTreeSet;

use propagation::policy::{Policy, Scope};

use crate::templates::Template;

/// At most as many as there are templates.
#[derive(Default)]
pub struct Waiting {
    /// In the order of a template's fields, so that those of a kind lie together.
    templates: BTreeSet<Template>,
}

impl Waiting {
    pub fn insert(&mut self, template: Template) {
        self.templates.insert(template);
    }

    pub fn remove(&mut self, template: &Template) {
        self.templates.remove(template);
    }

    /// No object of the kind can wait: it is no longer served.
    pub fn remove_kind(&mut self, api_version: &str, kind: &str) {
        self.templates.retain(|template| template.api_version != api_version || template.kind != kind);
    }

    /// Returns the templates the policy may select by name; labels are not checked.
    pub fn maybe_selected(&self, policy: &Policy) -> BTreeSet<Template> {
        let mut found = BTreeSet::new();
        for selector in &policy.selectors {
            let wanted = &selector.written;
            let namespace = match policy.scope() {
                Scope::Namespaced => policy.key.namespace.as_str(),
                Scope::Cluster => wanted.namespace.as_str(),
            };
            let first = Template::new(&wanted.api_version, &wanted.kind, namespace, "");
            let of_kind = self.templates.range(first..).take_while(|template| {
                let is_of_kind = template.api_version == wanted.api_version && template.kind == wanted.kind;
                is_of_kind && (namespace.is_empty() || template.namespace == namespace)
            });
            let fitting = of_kind.filter(|template| wanted.name.is_empty() || wanted.name == template.name);
            found.extend(fitting.cloned());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object::Object;
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(namespace: Option<&str>, selectors: Value, expected: &[&str]) {
        let mut waiting = Waiting::default();
        for (kind, namespace, name) in [
            ("ConfigMap", "a", "x"),
            ("ConfigMap", "a", "y"),
            ("ConfigMap", "b", "x"),
            ("Namespace", "", "a"),
            ("Secret", "a", "x"),
        ] {
            waiting.insert(Template::new("v1", kind, namespace, name));
        }
        let mut value = json!({"metadata": {"name": "p"}, "spec": {"resourceSelectors": selectors}});
        if let Some(namespace) = namespace {
            value["metadata"]["namespace"] = namespace.into();
        }
        let policy = Policy::read(Arc::new(Object::from_value(value).expect("a map"))).expect("readable");
        let found = waiting.maybe_selected(&policy);
        let found: Vec<String> = found.iter().map(|t| format!("{} {}/{}", t.kind, t.namespace, t.name)).collect();
        assert_eq!(found, expected, "{selectors}");
    }

    #[test]
    fn waiting_templates_are_found_by_policies() {
        let maps = json!([{"apiVersion": "v1", "kind": "ConfigMap"}]);
        check(None, maps.clone(), &["ConfigMap a/x", "ConfigMap a/y", "ConfigMap b/x"]);
        check(Some("a"), maps.clone(), &["ConfigMap a/x", "ConfigMap a/y"]);
        check(Some("c"), maps, &[]);
        check(
            None,
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}]),
            &["ConfigMap a/x", "ConfigMap b/x"],
        );
        check(None, json!([{"apiVersion": "v1", "kind": "Secret", "namespace": "b"}]), &[]);
        check(None, json!([{"apiVersion": "v1", "kind": "Namespace", "name": "a"}]), &["Namespace /a"]);
        check(None, json!([{"apiVersion": "v2", "kind": "ConfigMap"}]), &[]);
    }

    #[test]
    fn kinds_that_are_no_longer_served_do_not_wait() {
        let mut waiting = Waiting::default();
        waiting.insert(Template::new("v1", "ConfigMap", "a", "x"));
        waiting.insert(Template::new("v1", "Secret", "a", "x"));
        waiting.remove_kind("v1", "ConfigMap");
        assert_eq!(waiting.templates.len(), 1);
    }
}
