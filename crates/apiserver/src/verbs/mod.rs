//! The verbs of the API on any resource, shared by HTTP and in-process callers.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub mod list;
pub mod ordered;
pub(crate) mod patch;
pub(crate) mod update;
pub(crate) mod watch;
mod write;

use std::sync::Arc;

use access::{Action, ResourceAction};
use object::request::{Subresource, Verb};
use object::{Object, Status};
use serde_json::Value;

use crate::context::Context;
use crate::convert;
use crate::resources::Resources;
use crate::scope::WriteScope;
use crate::served_resources::Resource;
use crate::storage::Stored;

pub use write::{attributes, check_uid};

/// The resolved target of a request.
#[derive(Clone)]
pub struct Target {
    pub resource: Arc<Resource>,
    /// Empty for cluster-wide kinds and for lists over all namespaces.
    pub namespace: String,
    pub name: String,
    pub subresource: Option<Subresource>,
}

impl Target {
    pub fn key(&self) -> String {
        self.resource.key(&self.namespace, &self.name)
    }

    /// Refuses a write that would create the object unless the user may create it. Authorization of the request only
    /// covered its own verb (`update` or `patch`). The name is known, so `resourceNames` apply.
    pub async fn require_create(&self, scope: WriteScope<'_>, ctx: &Context) -> Result<(), Status> {
        let kind = &self.resource.kind;
        let action = Action::Resource(ResourceAction {
            verb: Verb::Create.as_str(),
            group: &kind.gvk.group,
            version: &kind.gvk.version,
            resource: &kind.plural,
            subresource: Subresource::name_of(self.subresource.as_ref()),
            namespace: &self.namespace,
            name: &self.name,
        });
        scope.require(&ctx.user, &action).await
    }

    pub fn not_found(&self) -> Status {
        Status::not_found(&self.resource.kind.group_resource(), &self.name)
    }
}

/// The outcome of a verb on one object.
pub enum Answer {
    /// An object as stored, in the storage version; with its tree when it was just written.
    Stored { code: u16, stored: Stored, tree: Option<Box<Object>> },
    /// An object in the served version that is not (or not exactly) what the store holds: dry runs, scales, reviews.
    Object { code: u16, object: Arc<Object> },
    /// A `Status` document, the answer to most deletes.
    Status(Value),
}

impl Answer {
    pub fn stored(code: u16, stored: Stored) -> Self {
        Self::Stored { code, stored, tree: None }
    }

    pub fn written(code: u16, stored: Stored, mut tree: Object) -> Self {
        tree.set_resource_version(stored.revision);
        Self::Stored { code, stored, tree: Some(tree.into()) }
    }

    /// The object as the resource's own version shows it; `None` for an answer without one.
    pub async fn served(self, resources: Resources<'_>, resource: &Resource) -> Result<Option<Arc<Object>>, Status> {
        Ok(match self {
            Self::Stored { stored, tree, .. } => {
                Some(convert::stored_to_served(resources, resource, &stored, tree).await?)
            }
            Self::Object { object, .. } => Some(object),
            Self::Status(_) => None,
        })
    }
}
