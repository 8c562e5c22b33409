//! Discovery documents of the served kinds: group and resource lists, and aggregated discovery.
//!
//! Pure functions over kinds. A server that also proxies groups of other servers merges their `Group`s into the
//! result of `groups`, sorts it with `sort_groups` and builds the lists from that.

mod aggregated;
mod legacy;
mod version;

use std::sync::Arc;

use object::GroupVersion;

use crate::builtin;
use crate::kind::Kind;
use crate::schemas;

pub use aggregated::{group_discovery, group_discovery_list};
pub use legacy::{api_group, api_group_list, api_resource_list, api_versions, storage_version_hash};
pub use version::VersionRank;

/// The priority of a group without a registered one: that of CustomResourceDefinitions.
pub const GROUP_PRIORITY_CUSTOM: i32 = 1000;
/// The priority of each of their versions, which leaves the order to the version names.
pub const VERSION_PRIORITY_CUSTOM: i32 = 100;

/// A served group. The core group has the empty name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryGroup {
    pub name: String,
    /// Preferred first.
    pub versions: Vec<String>,
    /// Groups with higher priority come first.
    pub priority: i32,
}

/// Groups in discovery order, including the core group.
pub fn groups(kinds: &[Arc<Kind>]) -> Vec<DiscoveryGroup> {
    let mut groups: Vec<DiscoveryGroup> = Vec::new();
    for kind in kinds {
        let gv = kind.gvk.group_version();
        let index = groups.iter().position(|group| group.name == gv.group).unwrap_or_else(|| {
            let own = kind.own_schema.as_ref().map(|own| own.priority);
            let priority = builtin::priority(&gv).or(own).map_or(GROUP_PRIORITY_CUSTOM, |priority| priority.group);
            groups.push(DiscoveryGroup { name: gv.group.clone(), versions: Vec::new(), priority });
            groups.len() - 1
        });
        if !groups[index].versions.contains(&gv.version) {
            groups[index].versions.push(gv.version);
        }
    }
    for group in &mut groups {
        let name = group.name.clone();
        group.versions.sort_by_key(|version| VersionRank::of(&GroupVersion::new(name.clone(), version.clone())));
    }
    sort_groups(&mut groups);
    groups
}

pub fn sort_groups(groups: &mut [DiscoveryGroup]) {
    groups.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name)));
}

/// The kinds of one group version, sorted by resource.
fn kinds_of<'a>(kinds: &'a [Arc<Kind>], gv: &GroupVersion) -> Vec<&'a Arc<Kind>> {
    let mut found: Vec<&Arc<Kind>> =
        kinds.iter().filter(|kind| kind.gvk.group == gv.group && kind.gvk.version == gv.version).collect();
    found.sort_by(|a, b| a.plural.cmp(&b.plural));
    found
}

/// Built-in kinds omit group and version where they equal the list's; custom ones include them.
fn is_custom(kind: &Kind) -> bool {
    schemas::named(&kind.definition).is_none()
}

#[cfg(test)]
mod tests;
