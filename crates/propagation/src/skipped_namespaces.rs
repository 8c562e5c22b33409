//! Namespaces that stay in the control plane: neither they nor what is in them is propagated.

use std::sync::Arc;

use api::names::is_reserved_namespace;
use api::work::LABEL_SKIP_AUTO_PROPAGATION;
use object::Object;
use regex::Regex;

/// The reason why a namespace is not created in members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSynced {
    /// A namespace of the control plane itself, or `default`, which every cluster has.
    Reserved,
    Deleting,
    /// [`LABEL_SKIP_AUTO_PROPAGATION`].
    Label,
    /// `--skipped-propagating-namespaces`.
    Flag,
}

/// `--skipped-propagating-namespaces`.
#[derive(Clone, Debug)]
pub struct SkippedNamespaces {
    patterns: Arc<[Regex]>,
}

impl Default for SkippedNamespaces {
    fn default() -> Self {
        Self::parse(["kube-.*"]).expect("the default is a regular expression")
    }
}

impl SkippedNamespaces {
    /// Each a regular expression between the ends of a name, as Karmada has it. They replace the default `kube-.*`.
    pub fn parse<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, regex::Error> {
        let compiled = patterns.into_iter().map(|pattern| Regex::new(&format!("^{pattern}$")));
        Ok(Self { patterns: compiled.collect::<Result<_, _>>()? })
    }

    pub fn contains(&self, namespace: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.is_match(namespace))
    }

    /// Returns why a namespace is not created in members; `None` if it is.
    pub fn not_synced(&self, namespace: &Object) -> Option<NotSynced> {
        let name = namespace.name();
        let has_label =
            || namespace.label(LABEL_SKIP_AUTO_PROPAGATION).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if is_reserved_namespace(name) || name == "default" {
            Some(NotSynced::Reserved)
        } else if namespace.is_deleting() {
            Some(NotSynced::Deleting)
        } else if has_label() {
            Some(NotSynced::Label)
        } else {
            self.contains(name).then_some(NotSynced::Flag)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_skipped_by_whole_names() {
        let default = SkippedNamespaces::default();
        assert!(default.contains("kube-system") && !default.contains("kube") && !default.contains("my-kube-system"));
        let own = SkippedNamespaces::parse(["a", "b.*"]).expect("valid");
        assert!(own.contains("a") && own.contains("bcd") && !own.contains("ab") && !own.contains("kube-system"));
        assert!(SkippedNamespaces::parse(["("]).is_err());
    }

    #[test]
    fn a_namespace_is_synced_unless_it_is_reserved_labelled_or_skipped() {
        let check = |name: &str, label: &str, expected: Option<NotSynced>| {
            let mut namespace = Object::default();
            namespace.set(&["metadata", "name"], name);
            namespace.set_label(LABEL_SKIP_AUTO_PROPAGATION, label);
            assert_eq!(SkippedNamespaces::default().not_synced(&namespace), expected, "{name} {label}");
        };
        check("shop", "", None);
        check("shop", "false", None);
        check("shop", "True", Some(NotSynced::Label));
        check("kube-system", "", Some(NotSynced::Flag));
        check("default", "", Some(NotSynced::Reserved));
        for reserved in ["karmada-es-m1", "karmada-system", "karmada-cluster"] {
            check(reserved, "", Some(NotSynced::Reserved));
        }
        check("karmada-team", "", None);
    }
}
