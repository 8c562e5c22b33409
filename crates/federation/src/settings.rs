//! Settings of the controllers, with Karmada's flags and defaults.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster_client::ApiResource;
use object::{GroupVersion, GroupVersionKind};
use propagation::eviction::GRACEFUL_TIMEOUT;
use propagation::skipped_namespaces::SkippedNamespaces;

/// Settings of the controllers of this crate.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `--skipped-propagating-apis`.
    pub skipped_apis: SkippedApis,
    /// `--skipped-propagating-namespaces`.
    pub skipped_namespaces: SkippedNamespaces,
    /// Templates worked on at once. Workers wait for writes most of the time, and writes that wait together are
    /// committed together, so there are more than Karmada's five.
    pub template_workers: usize,
    /// Policies worked on at once, of either kind.
    pub policy_workers: usize,
    /// Bindings whose dependencies are worked on at once.
    pub dependency_workers: usize,
    /// Bindings that are turned into works at once.
    pub work_workers: usize,
    /// Bindings whose works are summed up at once.
    pub rollup_workers: usize,
    /// Bindings whose eviction tasks are looked at at once.
    pub eviction_workers: usize,
    /// `--graceful-eviction-timeout`.
    pub graceful_eviction_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            skipped_apis: SkippedApis::default(),
            skipped_namespaces: SkippedNamespaces::default(),
            template_workers: 32,
            policy_workers: 4,
            dependency_workers: 16,
            work_workers: 32,
            rollup_workers: 32,
            eviction_workers: 4,
            graceful_eviction_timeout: GRACEFUL_TIMEOUT,
        }
    }
}

/// A flag that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingError(String);

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
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        let mut skipped = Self::default();
        for item in text.split(';').filter(|item| !item.is_empty()) {
            skipped.add(item)?;
        }
        Ok(skipped)
    }

    fn add(&mut self, item: &str) -> Result<(), SettingError> {
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
                return Err(SettingError(text));
            }
        }
        Ok(())
    }

    fn add_kinds(&mut self, group: &str, version: &str, kinds: &str) {
        self.kinds.extend(kinds.split(',').map(|kind| GroupVersionKind::new(group, version, kind)));
    }

    pub fn skips(&self, resource: &ApiResource) -> bool {
        self.groups.contains(&resource.gvr.group)
            || self.versions.contains(&resource.gvr.group_version())
            || self.kinds.contains(&resource.gvk())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(flag: &str, api_version: &str, kind: &str, expected: bool) {
        let gv = GroupVersion::parse(api_version).expect("a group and version");
        let resource = ApiResource { gvr: gv.resource("x"), kind: kind.to_owned(), ..ApiResource::default() };
        let skipped = SkippedApis::parse(flag).expect("valid");
        assert_eq!(skipped.skips(&resource), expected, "{flag:?} {api_version} {kind}");
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
