//! Counts the writes of this server by resource, for metrics.

use std::collections::BTreeMap;

use parking_lot::Mutex;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteKind {
    Create,
    Update,
    Delete,
}

impl WriteKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// Writes by key prefix, which is the resource. Bounded by the resources that were ever served.
#[derive(Default)]
pub struct WriteCounts {
    counts: Mutex<BTreeMap<Box<str>, [u64; 3]>>,
}

impl WriteCounts {
    pub fn count(&self, key: &str, kind: WriteKind) {
        let resource = resource_of(key);
        let mut counts = self.counts.lock();
        match counts.get_mut(resource) {
            Some(counts) => counts[kind as usize] += 1,
            None => {
                let mut first = [0; 3];
                first[kind as usize] = 1;
                counts.insert(resource.into(), first);
            }
        }
    }

    /// Group, resource and kind of write with its number, sorted. The group of core resources is empty.
    pub fn list(&self) -> Vec<(String, String, WriteKind, u64)> {
        let counts = self.counts.lock();
        let of_resource = |key: &str, numbers: &[u64; 3]| {
            let (group, resource) = key.split_once('/').unwrap_or(("", key));
            let group = if group == "core" { "" } else { group };
            let kinds = [WriteKind::Create, WriteKind::Update, WriteKind::Delete];
            let counted = kinds.map(|kind| (group.to_owned(), resource.to_owned(), kind, numbers[kind as usize]));
            counted.into_iter().filter(|(.., number)| *number > 0).collect::<Vec<_>>()
        };
        counts.iter().flat_map(|(key, numbers)| of_resource(key, numbers)).collect()
    }
}

/// `apps/deployments` of `/apps/deployments/default/web`.
fn resource_of(key: &str) -> &str {
    let key = key.strip_prefix('/').unwrap_or(key);
    let end = key.match_indices('/').nth(1).map_or(key.len(), |(at, _)| at);
    &key[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_by_resource() {
        let counts = WriteCounts::default();
        for (key, kind) in [
            ("/apps/deployments/default/web", WriteKind::Create),
            ("/apps/deployments/default/web", WriteKind::Update),
            ("/apps/deployments/other/web", WriteKind::Update),
            ("/core/namespaces/a", WriteKind::Delete),
        ] {
            counts.count(key, kind);
        }
        let expected = [
            ("apps", "deployments", WriteKind::Create, 1),
            ("apps", "deployments", WriteKind::Update, 2),
            ("", "namespaces", WriteKind::Delete, 1),
        ];
        let expected = expected.map(|(group, resource, kind, n)| (group.to_owned(), resource.to_owned(), kind, n));
        assert_eq!(counts.list(), expected);
    }
}
