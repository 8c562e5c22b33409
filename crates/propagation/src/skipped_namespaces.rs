//! Namespaces that stay in the control plane: neither they nor what is in them is propagated.

use std::sync::Arc;

use regex::Regex;

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
}
