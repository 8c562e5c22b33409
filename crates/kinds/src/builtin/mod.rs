//! The built-in kinds of a Kubernetes 1.36 server.

mod row;
mod table;

use object::{GroupVersion, GroupVersionKind};

use crate::kind::{Kind, Priority};
use table::SECTIONS;

pub use row::definition_name;

/// All built-in kinds in discovery order.
pub fn builtin() -> Vec<Kind> {
    SECTIONS
        .iter()
        .flat_map(|section| section.rows.iter().map(|row| row.to_kind(section.group, section.version)))
        .collect()
}

/// The priority of a built-in group version; `None` for all others.
pub fn priority(gv: &GroupVersion) -> Option<Priority> {
    let section = SECTIONS.iter().find(|section| section.group == gv.group && section.version == gv.version)?;
    Some(Priority { group: section.group_priority, version: section.version_priority })
}

/// Reports whether DELETE responds with the deleted object. Most kinds respond with a Status once the object is gone.
pub fn returns_deleted(gvk: &GroupVersionKind) -> bool {
    match gvk.group.as_str() {
        "" => matches!(
            gvk.kind.as_str(),
            "PersistentVolume"
                | "PersistentVolumeClaim"
                | "Pod"
                | "PodTemplate"
                | "ResourceQuota"
                | "Service"
                | "ServiceAccount"
        ),
        "resource.k8s.io" => true,
        "storage.k8s.io" => gvk.kind != "CSIStorageCapacity",
        _ => false,
    }
}

/// Every built-in group version in discovery order.
pub fn group_versions() -> impl Iterator<Item = GroupVersion> {
    SECTIONS.iter().map(|section| GroupVersion::new(section.group, section.version))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_kinds_share_a_resource_or_a_kind_name() {
        let kinds = builtin();
        let resources: BTreeSet<_> = kinds.iter().map(Kind::gvr).collect();
        let names: BTreeSet<_> = kinds.iter().map(|kind| kind.gvk.clone()).collect();
        assert_eq!((resources.len(), names.len()), (kinds.len(), kinds.len()));
    }

    #[test]
    fn kinds_served_twice_share_one_storage() {
        let kinds = builtin();
        let place = |group: &str, version: &str, plural: &str| {
            let kind = kinds.iter().find(|k| k.gvk.group == group && k.gvk.version == version && k.plural == plural);
            let kind = kind.expect("built in");
            (kind.storage.to_string(), kind.storage_resource.to_string())
        };
        assert_eq!(place("", "v1", "events"), place("events.k8s.io", "v1", "events"));
        assert_eq!(
            place("autoscaling", "v1", "horizontalpodautoscalers"),
            place("autoscaling", "v2", "horizontalpodautoscalers")
        );
    }
}
