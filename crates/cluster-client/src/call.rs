//! Requests to a Kubernetes API and its responses, independent of HTTP.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use object::request::{DeleteOptions, ListOptions, PatchKind, Subresource, Verb, WriteOptions};
use object::{GroupVersionResource, Object, Status};
use serde_json::Value;

/// The target of a call: a resource type, and optionally a namespace, an object, a subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceRef {
    pub gvr: GroupVersionResource,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<Subresource>,
}

/// One call: its target and request.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiCall {
    pub target: ResourceRef,
    pub request: ApiRequest,
}

/// A verb with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum ApiRequest {
    Get { resource_version: Option<String> },
    List(ListOptions),
    Create { object: Object, options: WriteOptions },
    Update { object: Object, options: WriteOptions },
    Patch { patch: Patch, options: WriteOptions },
    Delete(DeleteOptions),
    DeleteCollection { delete: DeleteOptions, list: ListOptions },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    pub kind: PatchKind,
    pub body: Value,
}

/// The response to a successful call.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The HTTP code: 201 if the call created the object, else 200 or 202.
    pub code: u16,
    pub body: ReplyBody,
    /// Texts of the `Warning` headers.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ReplyBody {
    /// The object after the call. A delete may return a `Status` object instead.
    Object(Arc<Object>),
    List(ObjectList),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectList {
    /// `apiVersion` and `kind` of the list itself: `v1`, `PodList`.
    pub api_version: String,
    pub kind: String,
    pub resource_version: String,
    /// Token for the next page; empty on the last one.
    pub continue_token: String,
    pub remaining_item_count: Option<u64>,
    /// Each with its own apiVersion and kind.
    pub items: Vec<Arc<Object>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchCall {
    pub gvr: GroupVersionResource,
    pub namespace: Option<String>,
    pub options: ListOptions,
    /// Request printer columns: objects may then arrive as a `Table` of one row, if the API supports tables.
    pub as_table: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    Added(Arc<Object>),
    Modified(Arc<Object>),
    /// The last state of the object, with the version of its deletion.
    Deleted(Arc<Object>),
    Bookmark {
        resource_version: String,
        initial_events_end: bool,
    },
    /// The watch failed; 410 means that its version expired and a list is needed.
    Error(Status),
}

pub type WatchEvents = Pin<Box<dyn Stream<Item = WatchEvent> + Send>>;

impl ResourceRef {
    /// All objects of the type, in every namespace.
    pub fn all(gvr: &GroupVersionResource) -> Self {
        Self { gvr: gvr.clone(), ..Self::default() }
    }

    /// All objects of the type in one namespace.
    pub fn within(gvr: &GroupVersionResource, namespace: &str) -> Self {
        Self { gvr: gvr.clone(), namespace: Some(namespace.to_owned()), ..Self::default() }
    }

    /// One cluster-scoped object.
    pub fn cluster(gvr: &GroupVersionResource, name: &str) -> Self {
        Self { gvr: gvr.clone(), name: Some(name.to_owned()), ..Self::default() }
    }

    /// One object in a namespace.
    pub fn namespaced(gvr: &GroupVersionResource, namespace: &str, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..Self::within(gvr, namespace) }
    }

    /// The reference of an object; without a namespace it is cluster-scoped.
    pub fn of(gvr: &GroupVersionResource, object: &Object) -> Self {
        let text = |s: &str| (!s.is_empty()).then(|| s.to_owned());
        Self { gvr: gvr.clone(), namespace: text(object.namespace()), name: text(object.name()), subresource: None }
    }

    pub fn subresource(mut self, subresource: Subresource) -> Self {
        self.subresource = Some(subresource);
        self
    }
}

impl ApiRequest {
    pub fn verb(&self) -> Verb {
        match self {
            Self::Get { .. } => Verb::Get,
            Self::List(_) => Verb::List,
            Self::Create { .. } => Verb::Create,
            Self::Update { .. } => Verb::Update,
            Self::Patch { .. } => Verb::Patch,
            Self::Delete(_) => Verb::Delete,
            Self::DeleteCollection { .. } => Verb::DeleteCollection,
        }
    }
}

impl Patch {
    pub fn json(body: Value) -> Self {
        Self { kind: PatchKind::Json, body }
    }

    pub fn merge(body: Value) -> Self {
        Self { kind: PatchKind::Merge, body }
    }

    pub fn strategic(body: Value) -> Self {
        Self { kind: PatchKind::Strategic, body }
    }

    pub fn apply(object: Object, force: bool) -> Self {
        Self { kind: PatchKind::Apply { force }, body: object.into_value() }
    }
}

impl Reply {
    pub fn object(code: u16, object: Arc<Object>) -> Self {
        Self { code, body: ReplyBody::Object(object), warnings: Vec::new() }
    }

    pub fn list(list: ObjectList) -> Self {
        Self { code: 200, body: ReplyBody::List(list), warnings: Vec::new() }
    }

    /// Reports whether the call created an object.
    pub fn created(&self) -> bool {
        self.code == 201
    }

    pub fn into_object(self) -> Result<Arc<Object>, Status> {
        match self.body {
            ReplyBody::Object(object) => Ok(object),
            ReplyBody::List(list) => Err(Status::internal(format!("expected one object, got a {}", list.kind))),
        }
    }

    pub fn into_list(self) -> Result<ObjectList, Status> {
        match self.body {
            ReplyBody::List(list) => Ok(list),
            ReplyBody::Object(object) => Err(Status::internal(format!("expected a list, got a {}", object.kind()))),
        }
    }
}
