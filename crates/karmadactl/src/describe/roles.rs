//! Descriptions of roles and role bindings, in kubectl's form.

use std::collections::BTreeMap;
use std::fmt::Write;

use object::Object;
use serde_json::Value;

use super::containers::items;
use super::text::{labels_and_annotations, line, scalar};

/// A rule with one resource or one URL, as kubectl breaks rules down.
#[derive(Clone, Default)]
struct PlainRule {
    group: Option<String>,
    resource: Option<String>,
    resource_name: Option<String>,
    url: Option<String>,
    verbs: Vec<String>,
}

impl PlainRule {
    /// The order of rules is that of their Go form.
    fn sort_key(&self) -> String {
        let list = |value: &Option<String>| value.clone().unwrap_or_default();
        format!(
            "&PolicyRule{{Verbs:[{}],APIGroups:[{}],Resources:[{}],ResourceNames:[{}],NonResourceURLs:[{}],}}",
            self.verbs.join(" "),
            list(&self.group),
            list(&self.resource),
            list(&self.resource_name),
            list(&self.url)
        )
    }

    /// `RESOURCE.GROUP/SUBRESOURCE`.
    fn full_resource(&self) -> String {
        let resource = self.resource.as_deref().unwrap_or_default();
        let (name, subresource) =
            resource.split_once('/').map_or((resource, String::new()), |(name, sub)| (name, format!("/{sub}")));
        match self.group.as_deref() {
            None | Some("") => format!("{name}{subresource}"),
            Some(group) => format!("{name}.{group}{subresource}"),
        }
    }
}

/// Writes a Role or a ClusterRole.
pub fn role(text: &mut String, role: &Object) {
    line(text, "Name", role.name());
    labels_and_annotations(text, role);
    text.push_str("PolicyRule:\n  Resources\tNon-Resource URLs\tResource Names\tVerbs\n");
    text.push_str("  ---------\t-----------------\t--------------\t-----\n");
    for rule in compact(role.items(&["rules"])) {
        let list = |value: &Option<String>| value.clone().unwrap_or_default();
        let _ = writeln!(
            text,
            "  {}\t[{}]\t[{}]\t[{}]",
            rule.full_resource(),
            list(&rule.url),
            list(&rule.resource_name),
            rule.verbs.join(" ")
        );
    }
}

/// Breaks rules down to single resources, and joins the verbs of each.
fn compact(rules: &[Value]) -> Vec<PlainRule> {
    let mut plain: Vec<PlainRule> = Vec::new();
    let mut of_resources: BTreeMap<(String, String, Option<String>), PlainRule> = BTreeMap::new();
    for rule in rules {
        let names = items(rule, "resourceNames");
        let names: Vec<Option<String>> =
            if names.is_empty() { vec![None] } else { names.iter().map(|name| Some(scalar(name))).collect() };
        for (group, resource) in pairs(items(rule, "apiGroups"), items(rule, "resources")) {
            for verb in items(rule, "verbs").iter().map(scalar) {
                for name in &names {
                    let found = of_resources.entry((group.clone(), resource.clone(), name.clone())).or_default();
                    found.group = Some(group.clone());
                    found.resource = Some(resource.clone());
                    found.resource_name.clone_from(name);
                    if !found.verbs.contains(&verb) {
                        found.verbs.push(verb.clone());
                    }
                }
            }
        }
        for (url, verb) in pairs(items(rule, "nonResourceURLs"), items(rule, "verbs")) {
            plain.push(PlainRule { url: Some(url), verbs: vec![verb], ..PlainRule::default() });
        }
    }
    plain.extend(of_resources.into_values());
    plain.sort_by_cached_key(PlainRule::sort_key);
    plain
}

fn pairs(outer: &[Value], inner: &[Value]) -> Vec<(String, String)> {
    outer.iter().flat_map(|a| inner.iter().map(move |b| (scalar(a), scalar(b)))).collect()
}

/// Writes a RoleBinding or a ClusterRoleBinding.
pub fn role_binding(text: &mut String, binding: &Object) {
    line(text, "Name", binding.name());
    labels_and_annotations(text, binding);
    text.push_str("Role:\n");
    line(text, "  Kind", binding.str_at(&["roleRef", "kind"]));
    line(text, "  Name", binding.str_at(&["roleRef", "name"]));
    text.push_str("Subjects:\n  Kind\tName\tNamespace\n  ----\t----\t---------\n");
    for subject in binding.items(&["subjects"]) {
        let field = |name: &str| scalar(&subject[name]);
        let _ = writeln!(text, "  {}\t{}\t{}", field("kind"), field("name"), field("namespace"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tabs;

    #[test]
    fn rules_are_shown_by_resource_with_all_verbs() {
        let rules = json!([
            {"apiGroups": ["apps"], "resources": ["deployments", "deployments/scale"], "verbs": ["get"]},
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "update"]},
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["get"]},
            {"nonResourceURLs": ["/healthz"], "verbs": ["get"]},
        ]);
        let object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "reader"}, "rules": rules});
        let mut text = String::new();
        role(&mut text, &Object::from_value(object).unwrap());
        let expected = "\
Name:         reader
Labels:       <none>
Annotations:  <none>
PolicyRule:
  Resources               Non-Resource URLs  Resource Names  Verbs
  ---------               -----------------  --------------  -----
  deployments.apps        []                 []              [get update]
                          [/healthz]         []              [get]
  secrets                 []                 [a]             [get]
  deployments.apps/scale  []                 []              [get]
";
        assert_eq!(tabs::align(&text, tabs::DESCRIPTION), expected);
    }
}
