//! A pod as the rules read it, and the wording they share.

use serde_json::Value;

use super::Violation;

pub(super) struct PodView<'a> {
    pub(super) metadata: &'a Value,
    pub(super) spec: &'a Value,
}

impl<'a> PodView<'a> {
    /// Init containers, containers and ephemeral containers.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(move |key| spec[key].as_array().into_iter().flatten())
    }

    /// The names of the containers that a predicate selects.
    pub(super) fn names_of(&self, selects: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(|container| selects(container)).map(name).collect()
    }

    pub(super) fn security(&self) -> &'a Value {
        &self.spec["securityContext"]
    }

    pub(super) fn is_windows(&self) -> bool {
        self.spec["os"]["name"] == "windows"
    }

    /// In a user namespace of its own, root in the pod is not root on the node.
    pub(super) fn has_own_users(&self) -> bool {
        self.spec["hostUsers"] == false
    }

    pub(super) fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let annotations = self.metadata["annotations"].as_object().into_iter().flatten();
        annotations.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }
}

pub(super) fn name(value: &Value) -> &str {
    value["name"].as_str().unwrap_or_default()
}

pub(super) fn violation(reason: impl Into<String>, detail: impl Into<String>) -> Option<Violation> {
    Some(Violation { reason: reason.into(), detail: detail.into() })
}

pub(super) fn plural<'t>(count: usize, one: &'t str, many: &'t str) -> &'t str {
    if count == 1 { one } else { many }
}

pub(super) fn quoted<T: AsRef<str>>(items: &[T]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    format!("\"{}\"", items.join("\", \""))
}

pub(super) fn sorted(mut items: Vec<String>) -> Vec<String> {
    items.sort();
    items.dedup();
    items
}

/// `container "a"` or `containers "a", "b"`.
pub(super) fn containers_named(names: &[&str]) -> String {
    format!("{} {}", plural(names.len(), "container", "containers"), quoted(names))
}

/// `pod`, `container "a"`, or both.
pub(super) fn setters(pod: bool, containers: &[&str]) -> Option<String> {
    let containers = (!containers.is_empty()).then(|| containers_named(containers));
    let all: Vec<String> = pod.then(|| "pod".to_owned()).into_iter().chain(containers).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}
