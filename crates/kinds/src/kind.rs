//! The description of one kind, used by the API server, OpenAPI, discovery, tables and apply.

use std::sync::Arc;

use object::request::{Subresource, Verb};
use object::schema::Schema;
use object::{GroupKind, GroupResource, GroupVersionKind, GroupVersionResource, Object};
use serde_json::Value;

use crate::strategy::Strategy;

/// A served kind: built in, native to Flotilla, or made from one version of a CustomResourceDefinition.
#[derive(Clone)]
pub struct Kind {
    pub gvk: GroupVersionKind,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// The version (and for events the group) objects are stored in; may equal `gvk`.
    pub storage: GroupVersionKind,
    /// The group and plural in the storage key, shared by all served versions.
    pub storage_resource: GroupResource,
    /// False for virtual kinds (reviews, Binding, Eviction, TokenRequest).
    pub stored: bool,
    pub verbs: Vec<Verb>,
    pub subresources: Vec<ServedSubresource>,
    pub schema: Schema,
    /// The definition name in OpenAPI documents, such as `io.k8s.api.apps.v1.Deployment`.
    pub definition: String,
    pub selectable_fields: Vec<SelectableField>,
    pub strategy: Arc<dyn Strategy>,
    pub printer: Arc<dyn Printer>,
    /// A warning every caller gets, for deprecated versions.
    pub deprecation: Option<String>,
    /// Set for Flotilla's own kinds, whose definition is not part of Kubernetes.
    pub own_schema: Option<OwnSchema>,
}

/// The schema of a kind that is neither built in nor from a CustomResourceDefinition.
#[derive(Clone)]
pub struct OwnSchema {
    /// As in a CustomResourceDefinition, with descriptions, for OpenAPI.
    pub openapi: Arc<Value>,
    /// Position among groups and versions.
    pub priority: Priority,
    /// Validate objects like those of a CustomResourceDefinition? If not, only the types of fields are checked and
    /// the rest is up to the kind's strategy.
    pub enforced: bool,
}

/// The priorities of an APIService: the group's and the version's within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    pub group: i32,
    pub version: i32,
}

/// A subresource of a kind: its handler, body and verbs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedSubresource {
    pub name: Subresource,
    pub kind: SubresourceKind,
    /// The kind of the body, which differs from the parent's for scale, eviction, token and others.
    pub gvk: GroupVersionKind,
    pub verbs: Vec<Verb>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubresourceKind {
    Status,
    /// Paths as in a CRD: `.spec.replicas`, `.status.replicas`, `.status.selector` (a string) or none.
    Scale {
        spec_replicas: String,
        status_replicas: String,
        label_selector: ScaleSelector,
    },
    Finalize,
    Token,
    Approval,
    Binding,
    Eviction,
    EphemeralContainers,
    Resize,
    /// Served by the node or member: log, exec, attach, portforward, proxy.
    Connect,
}

/// The source of a scale subresource's selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScaleSelector {
    None,
    /// A label selector object (`spec.selector` of apps kinds) or plain map (ReplicationController).
    Object(String),
    /// Already a string (CRDs).
    Text(String),
}

/// A field usable in `fieldSelector=`, and how to read it.
#[derive(Clone)]
pub struct SelectableField {
    pub name: String,
    pub read: FieldReader,
}

#[derive(Clone)]
pub enum FieldReader {
    /// A plain path of keys; missing reads as "", booleans and numbers as text.
    Path(Vec<String>),
    Function(fn(&Object) -> String),
}

/// A column of `kubectl get` (the `columnDefinitions` of a Table).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub ty: String,
    pub format: String,
    pub description: String,
    /// 0 is always shown, 1 only with `-o wide`.
    pub priority: i32,
}

/// Turns objects into table rows.
pub trait Printer: Send + Sync {
    fn columns(&self) -> Vec<Column>;
    /// One cell per column. Ages are relative to `now`.
    fn cells(&self, object: &Object, now: jiff::Timestamp) -> Vec<Value>;
    /// Row conditions (finished pods and jobs are marked `Completed`).
    fn conditions(&self, _object: &Object) -> Vec<Value> {
        Vec::new()
    }
}

impl Kind {
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(self.gvk.group.clone(), self.gvk.version.clone(), self.plural.clone())
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.gvk.group.clone(), self.plural.clone())
    }

    pub fn group_kind(&self) -> GroupKind {
        self.gvk.group_kind()
    }

    pub fn subresource(&self, name: &Subresource) -> Option<&ServedSubresource> {
        self.subresources.iter().find(|served| served.name == *name)
    }

    pub fn has_status(&self) -> bool {
        self.subresource(&Subresource::Status).is_some()
    }

    pub fn allows(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }
}

impl SelectableField {
    pub fn path(name: &str) -> Self {
        Self { name: name.to_owned(), read: FieldReader::Path(name.split('.').map(str::to_owned).collect()) }
    }

    pub fn function(name: &str, read: fn(&Object) -> String) -> Self {
        Self { name: name.to_owned(), read: FieldReader::Function(read) }
    }

    pub fn value(&self, object: &Object) -> String {
        match &self.read {
            FieldReader::Function(read) => read(object),
            FieldReader::Path(path) => {
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                match object.get(&path) {
                    Some(Value::String(text)) => text.clone(),
                    Some(Value::Bool(flag)) => flag.to_string(),
                    Some(Value::Number(number)) => number.to_string(),
                    _ => String::new(),
                }
            }
        }
    }
}
