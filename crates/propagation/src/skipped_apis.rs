//! APIs whose objects stay in the control plane: Karmada's own, events, leases, and those named by a flag.

use std::collections::BTreeSet;

use object::{GroupVersion, GroupVersionKind};

/// A value of `--skipped-propagating-apis` that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SkippedApisError(String);

/// Groups whose objects are never propagated: Karmada's own, and events.
const SKIPPED_GROUPS: &[&str] = &[
    "cluster.karmada.io",
    "policy.karmada.io",
    "work.karmada.io",
    "config.karmada.io",
    "networking.karmada.io",
    "autoscaling.karmada.io",
    "remedy.karmada.io",
    "apps.karmada.io",
    "events.k8s.io",
];

/// APIs whose objects are never propagated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedApis {
    groups: BTreeSet<String>,
    versions: BTreeSet<GroupVersion>,
    kinds: BTreeSet<GroupVersionKind>,
}

impl Default for SkippedApis {
    fn default() -> Self {
        Self {
            groups: SKIPPED_GROUPS.iter().map(|group| (*group).to_owned()).collect(),
            versions: [GroupVersion::new("coordination.k8s.io", "v1")].into(),
            kinds: [GroupVersionKind::new("", "v1", "Event")].into(),
        }
    }
}

impl SkippedApis {
    /// Reads `group;group/version;group/version/Kind,Kind;v1/Kind` in addition to the defaults.
    pub fn parse(text: &str) -> Result<Self, SkippedApisError> {
        let mut skipped = Self::default();
        for item in text.split(';').filter(|item| !item.is_empty()) {
            skipped.add(item)?;
        }
        Ok(skipped)
    }

    fn add(&mut self, item: &str) -> Result<(), SkippedApisError> {
        match item.split('/').collect::<Vec<_>>()[..] {
            [group] => drop(self.groups.insert(group.to_owned())),
            // The core group has no name; whatever begins like its version is of it.
            [version, kinds] if version.starts_with("v1") => self.add_kinds("", "v1", kinds),
            [group, version] => drop(self.versions.insert(GroupVersion::new(group, version))),
            [group, version, kinds] => self.add_kinds(group, version, kinds),
            _ => {
                let text = format!(
                    "--skipped-propagating-apis: {item:?} is not like group, group/version or \
                    group/version/Kind,Kind"
                );
                return Err(SkippedApisError(text));
            }
        }
        Ok(())
    }

    fn add_kinds(&mut self, group: &str, version: &str, kinds: &str) {
        self.kinds.extend(kinds.split(',').map(|kind| GroupVersionKind::new(group, version, kind)));
    }

    pub fn contains(&self, gvk: &GroupVersionKind) -> bool {
        self.groups.contains(&gvk.group) || self.versions.contains(&gvk.group_version()) || self.kinds.contains(gvk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(flag: &str, api_version: &str, kind: &str, expected: bool) {
        let gvk = GroupVersion::parse(api_version).expect("a group and version").kind(kind);
        let skipped = SkippedApis::parse(flag).expect("valid");
        assert_eq!(skipped.contains(&gvk), expected, "{flag:?} {api_version} {kind}");
    }

    #[test]
    fn apis_are_skipped_by_group_version_and_kind() {
        check("", "apps/v1", "Deployment", false);
        check("", "policy.karmada.io/v1alpha1", "PropagationPolicy", true);
        check("", "search.karmada.io/v1alpha1", "ResourceRegistry", false);
        check("", "events.k8s.io/v1", "Event", true);
        check("", "v1", "Event", true);
        check("", "coordination.k8s.io/v1", "Lease", true);
        check("", "coordination.k8s.io/v1beta1", "Lease", false);
        check("apps", "apps/v1", "Deployment", true);
        check("apps/v1", "apps/v1", "Deployment", true);
        check("apps/v1beta1", "apps/v1", "Deployment", false);
        check("apps/v1/Deployment,DaemonSet", "apps/v1", "DaemonSet", true);
        check("apps/v1/Deployment,DaemonSet", "apps/v1", "StatefulSet", false);
        check("v1/Pod,Node;batch", "v1", "Node", true);
        check("v1/Pod,Node;batch", "batch/v1", "Job", true);
        check("v1/Pod,Node;batch", "v1", "Service", false);
        // The defaults stay.
        check("batch", "v1", "Event", true);
        assert!(SkippedApis::parse("a/b/c/d").is_err());
    }
}
