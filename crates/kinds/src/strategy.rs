//! The behavior of a kind on writes: defaulting, preparation and validation. The server determines the order of
//! calls:
//!
//! create: default → prepare_create → (admission) → validate_create.
//! update: default → prepare_update → (admission) → validate_update.
//! status: default → prepare_status → (admission) → validate_status.
//!
//! The server itself does what is common to all kinds: metadata (names, labels, annotations, owners, finalizers,
//! managedFields), uid, creationTimestamp, generation, resourceVersion and dropping `status` on create/update if the
//! kind has a status subresource; schema pruning and schema defaults come before `default`.

use object::{FieldError, Object};

/// The context of a write besides the objects themselves.
#[derive(Clone, Debug)]
pub struct WriteContext {
    pub now: jiff::Timestamp,
    /// The authenticated user, for kinds that record the requester (CSRs).
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: Vec<(String, Vec<String>)>,
}

pub trait Strategy: Send + Sync {
    /// Defaults that a schema cannot express. Must be idempotent.
    fn default(&self, _object: &mut Object) {}

    fn prepare_create(&self, _object: &mut Object, _ctx: &WriteContext) {}

    fn validate_create(&self, _object: &Object) -> Vec<FieldError> {
        Vec::new()
    }

    fn prepare_update(&self, _new: &mut Object, _old: &Object, _ctx: &WriteContext) {}

    fn validate_update(&self, new: &Object, _old: &Object) -> Vec<FieldError> {
        self.validate_create(new)
    }

    /// Runs for `/status` (and, by default, for nothing else); the server has already copied spec and metadata from
    /// the old object.
    fn prepare_status(&self, _new: &mut Object, _old: &Object, _ctx: &WriteContext) {}

    fn validate_status(&self, _new: &Object, _old: &Object) -> Vec<FieldError> {
        Vec::new()
    }

    /// Warnings for the client on success (deprecated fields, suspicious values).
    fn warnings(&self, _new: &Object, _old: Option<&Object>) -> Vec<String> {
        Vec::new()
    }

    /// The name rule of the kind; most are DNS subdomains.
    fn validate_name(&self, name: &str) -> Vec<String> {
        object::names::dns1123_subdomain(name)
    }

    /// Reports whether `metadata.generation` counts changes of everything except metadata and status.
    fn counts_generation(&self) -> bool {
        false
    }

    /// Reports whether a PUT without resourceVersion may overwrite.
    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// Reports whether a PUT to a missing name creates it.
    fn allows_create_on_update(&self) -> bool {
        false
    }

    /// Seconds a deleted object stays before removal, if any (pods); `None` removes it at once.
    fn grace_period_seconds(&self, _object: &Object, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Reports whether a client can set `status` on creation (as for nodes).
    fn keeps_status_on_create(&self) -> bool {
        false
    }

    /// Reports whether something blocks the removal of a deleted object. Namespaces also check `spec.finalizers`.
    fn blocks_removal(&self, object: &Object) -> bool {
        object.finalizers().next().is_some()
    }

    /// Changes of the object when its deletion begins (a namespace becomes Terminating).
    fn begin_deletion(&self, _object: &mut Object) {}

    /// Reports whether dependents are orphaned without a `propagationPolicy` (only for ReplicationControllers and v1beta
    /// kinds).
    fn orphans_by_default(&self) -> bool {
        false
    }

    /// Converts an object of this served version to the stored one. Built-in v1 kinds are stored unchanged.
    fn to_storage(&self, object: Object) -> Object {
        object
    }

    #[allow(clippy::wrong_self_convention)] // The strategy converts; it is not what is converted.
    fn from_storage(&self, object: Object) -> Object {
        object
    }
}
