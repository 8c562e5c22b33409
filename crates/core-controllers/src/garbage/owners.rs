//! Looks up the owners of an object in the API.

use cluster_client::{ListOptions, ResourceRef};
use object::object::OwnerReference;
use object::{GroupVersion, Object, Status};

use super::Collector;
use super::graph::{FOREGROUND, OwnerKey};
use super::plan::OwnerState;
use crate::events::{self, EventContent};

const COMPONENT: &str = "garbage-collector-controller";

/// The reason why the owners cannot be determined.
pub enum OwnerLookupError {
    /// The kind of the owner is not served now; that may change.
    UnknownKind,
    /// A cluster-scoped object references a namespaced owner: no such owner can exist.
    NoNamespace,
    Api(Status),
}

impl Collector {
    /// Returns the state of every owner, in the order of the references.
    pub(super) async fn gather_owners(&self, object: &Object) -> Result<Vec<OwnerState>, OwnerLookupError> {
        let mut states = Vec::new();
        for owner in object.owner_references() {
            states.push(self.gather_owner(object, &owner).await?);
        }
        Ok(states)
    }

    async fn gather_owner(&self, object: &Object, owner: &OwnerReference) -> Result<OwnerState, OwnerLookupError> {
        let place =
            |namespace: &str| OwnerKey::new(namespace, [&owner.api_version, &owner.kind, &owner.name, &owner.uid]);
        let is_known_absent = {
            let graph = self.graph.lock();
            graph.is_absent(place("")) || graph.is_absent(place(object.namespace()))
        };
        if is_known_absent {
            return Ok(OwnerState::Absent);
        }
        let gvk =
            GroupVersion::parse(&owner.api_version).ok_or(OwnerLookupError::UnknownKind)?.kind(owner.kind.as_str());
        let resource = match self.mapper.resource_of(&gvk).await {
            Err(status) if status.is_not_found() => return Err(OwnerLookupError::UnknownKind),
            found => found.map_err(OwnerLookupError::Api)?,
        };
        if resource.namespaced && object.namespace().is_empty() {
            self.report_namespace(object, owner).await;
            return Err(OwnerLookupError::NoNamespace);
        }
        let target = match resource.namespaced {
            true => ResourceRef::namespaced(&resource.gvr, object.namespace(), &owner.name),
            false => ResourceRef::cluster(&resource.gvr, &owner.name),
        };
        let found = match self.client.get(target).await {
            Ok(found) => Some(found),
            // A NotFound without details means that the kind is not served.
            Err(status) if status.is_not_found() && status.details.is_none() => {
                return Err(OwnerLookupError::UnknownKind);
            }
            Err(status) if status.is_not_found() => None,
            Err(status) => return Err(OwnerLookupError::Api(status)),
        };
        if let Some(found) = found.filter(|found| found.uid() == owner.uid) {
            let is_waiting = found.is_deleting() && found.has_finalizer(FOREGROUND);
            return Ok(if is_waiting { OwnerState::Waiting } else { OwnerState::Present });
        }
        let looked_in = if resource.namespaced { object.namespace() } else { "" };
        if self.graph.lock().note_absent(place(looked_in)) && resource.namespaced {
            self.report_other_namespace(object, owner, &ResourceRef::all(&resource.gvr)).await;
        }
        Ok(OwnerState::Absent)
    }

    /// Owner references do not cross namespaces. The event explains why the object was deleted.
    async fn report_other_namespace(&self, object: &Object, owner: &OwnerReference, everywhere: &ResourceRef) {
        let field_selector = Some(format!("metadata.name={}", owner.name));
        let options = ListOptions { field_selector, ..ListOptions::default() };
        let Ok(found) = self.client.list_all(everywhere.clone(), options).await else { return };
        if found.items.iter().any(|candidate| candidate.uid() == owner.uid) {
            self.report_namespace(object, owner).await;
        }
    }

    async fn report_namespace(&self, object: &Object, owner: &OwnerReference) {
        let namespace = object.namespace();
        let OwnerReference { api_version, kind, name, uid, .. } = owner;
        let message = format!(
            "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in namespace {namespace:?}"
        );
        let notice = EventContent { component: COMPONENT, about: object, reason: "OwnerRefInvalidNamespace", message };
        events::warn(&self.client, notice, self.clock.now()).await;
    }
}
