//! A work's manifests as they lie in it, read without copying them.

use object::gvk::{GroupVersion, GroupVersionKind};
use object::{Object, Status};
use serde_json::Value;

/// One manifest of a work.
#[derive(Clone, Copy)]
pub struct Manifest<'a> {
    pub ordinal: usize,
    value: &'a Value,
}

/// The manifests of a work in their order.
pub fn manifests(work: &Object) -> impl Iterator<Item = Manifest<'_>> {
    let values = work.items(&["spec", "workload", "manifests"]).iter();
    values.enumerate().map(|(ordinal, value)| Manifest { ordinal, value })
}

pub fn is_suspended(work: &Object) -> bool {
    work.bool_at(&["spec", "suspendDispatching"]) == Some(true)
}

/// Does what the work put into the member stay when the work goes?
pub fn is_preserved(work: &Object) -> bool {
    work.bool_at(&["spec", "preserveResourcesOnDeletion"]) == Some(true)
}

impl<'a> Manifest<'a> {
    pub fn kind(&self) -> &'a str {
        self.text("/kind")
    }

    pub fn name(&self) -> &'a str {
        self.text("/metadata/name")
    }

    pub fn namespace(&self) -> &'a str {
        self.text("/metadata/namespace")
    }

    pub fn api_version(&self) -> &'a str {
        self.text("/apiVersion")
    }

    /// Kind, namespace and name, as people write them.
    pub fn described(&self) -> String {
        match self.namespace() {
            "" => format!("{} {}", self.kind(), self.name()),
            namespace => format!("{} {namespace}/{}", self.kind(), self.name()),
        }
    }

    pub fn annotation(&self, key: &str) -> &'a str {
        self.value["metadata"]["annotations"][key].as_str().unwrap_or_default()
    }

    pub fn gvk(&self) -> Result<GroupVersionKind, Status> {
        let version = GroupVersion::parse(self.api_version()).filter(|_| !self.kind().is_empty());
        let version = version.ok_or_else(|| Status::bad_request("Object 'Kind' or 'apiVersion' is missing"))?;
        Ok(version.kind(self.kind()))
    }

    /// A copy to send or change.
    pub fn to_object(self) -> Result<Object, Status> {
        Object::from_value(self.value.clone()).ok_or_else(|| Status::bad_request("a manifest is not an object"))
    }

    fn text(&self, pointer: &str) -> &'a str {
        self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
}
