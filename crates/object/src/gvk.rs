//! Names of kinds and resources: group, version, kind and plural, in the combinations Kubernetes uses.

use std::fmt;

/// A group and version, written `v1` for the core group and `apps/v1` otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    pub group: String,
    pub version: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    pub group: String,
    pub kind: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    pub group: String,
    pub resource: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource {
    pub group: String,
    pub version: String,
    pub resource: String,
}

impl GroupVersion {
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Parses `v1` or `apps/v1`; fails on more than one slash.
    pub fn parse(api_version: &str) -> Option<Self> {
        match api_version.split_once('/') {
            None if api_version.is_empty() => None,
            None => Some(Self::new("", api_version)),
            Some((_, version)) if version.contains('/') || version.is_empty() => None,
            Some((group, version)) => Some(Self::new(group, version)),
        }
    }

    pub fn kind(&self, kind: impl Into<String>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }

    pub fn resource(&self, resource: impl Into<String>) -> GroupVersionResource {
        GroupVersionResource { group: self.group.clone(), version: self.version.clone(), resource: resource.into() }
    }
}

impl GroupVersionKind {
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.clone(), self.version.clone())
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    /// The `apiVersion` field of objects of this kind.
    pub fn api_version(&self) -> String {
        self.group_version().to_string()
    }
}

impl GroupVersionResource {
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.clone(), self.version.clone())
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.resource.clone() }
    }
}

impl GroupResource {
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

impl GroupKind {
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.version) } else { write!(f, "{}/{}", self.group, self.version) }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(f, &self.resource, &self.group)
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(f, &self.kind, &self.group)
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

fn write_qualified(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    if group.is_empty() { f.write_str(name) } else { write!(f, "{name}.{group}") }
}
