//! API resources, and parsing of typed views from objects.

use object::{GroupVersionKind, GroupVersionResource, Object, Status};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One kind of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
}

impl Resource {
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
    ) -> Self {
        Self { group, version, kind, plural, namespaced: true }
    }

    pub const fn cluster(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self { group, version, kind, plural, namespaced: false }
    }

    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(self.group, self.version, self.plural)
    }

    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(self.group, self.version, self.kind)
    }

    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// An empty object of this kind.
    pub fn object(&self, namespace: &str, name: &str) -> Object {
        Object::new(&self.gvk(), (!namespace.is_empty()).then_some(namespace), name)
    }
}

/// Parses the part of an object at a path; a missing part is the type's default.
///
/// Views are for reading. Writes go into the object at its path, so that unknown fields survive.
pub fn read_at<T: DeserializeOwned + Default>(object: &Object, path: &[&str]) -> Result<T, Status> {
    match object.get(path) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(value) => T::deserialize(value).map_err(|error| unreadable(object, path, &error)),
    }
}

/// Parses the `spec` of an object.
pub fn read<T: DeserializeOwned + Default>(object: &Object) -> Result<T, Status> {
    read_at(object, &["spec"])
}

fn unreadable(object: &Object, path: &[&str], error: &serde_json::Error) -> Status {
    let text = format!("{} {}: {} cannot be read: {error}", object.kind(), object.name(), path.join("."));
    Status::internal(text)
}
