//! How a kind behaves on writes: what is defaulted, prepared, refused. The order of calls is the server's, not the kind's.
//!
//! create: default → prepare_create → (admission) → validate_create.
//! update: default → prepare_update → (admission) → validate_update.
//! status: default → prepare_status → (admission) → validate_status.
//! The server itself does what all kinds share: metadata (names, labels, annotations, owners, finalizers, managedFields),
//! uid, creationTimestamp, generation, resourceVersion and dropping `status` on create/update where the kind has a
//! status subresource; schema pruning and schema defaults come before `default`.

use object::{FieldError, Object};

/// What a write may know beside the objects themselves.
#[derive(Clone, Debug)]
pub struct WriteContext {
    pub now: jiff::Timestamp,
    /// The authenticated user, for kinds that record who did it (CSRs).
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

    /// Runs for `/status` (and, by default, for nothing else); the server has already kept spec and metadata from the old object.
    fn prepare_status(&self, _new: &mut Object, _old: &Object, _ctx: &WriteContext) {}

    fn validate_status(&self, _new: &Object, _old: &Object) -> Vec<FieldError> {
        Vec::new()
    }

    /// Warnings a client gets beside success (deprecated fields, suspicious values).
    fn warnings(&self, _new: &Object, _old: Option<&Object>) -> Vec<String> {
        Vec::new()
    }

    /// Name rule of the kind; most are DNS subdomains.
    fn validate_name(&self, name: &str) -> Vec<String> {
        object::names::dns1123_subdomain(name)
    }

    /// Does `metadata.generation` count changes of everything but metadata and status?
    fn counts_generation(&self) -> bool {
        false
    }

    /// May a PUT without resourceVersion overwrite?
    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// Does a PUT to a name that does not exist create it?
    fn allows_create_on_update(&self) -> bool {
        false
    }

    /// Seconds a deleted object stays before it goes, when it has any (pods); `None` deletes at once.
    fn grace_period_seconds(&self, _object: &Object, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// May a client set `status` when it creates the object (nodes do)?
    fn keeps_status_on_create(&self) -> bool {
        false
    }

    /// Does something still have to happen before a deleted object may go? Namespaces look at `spec.finalizers` too.
    fn blocks_removal(&self, object: &Object) -> bool {
        object.finalizers().next().is_some()
    }

    /// What changes in the object when its deletion begins (a namespace becomes Terminating).
    fn begin_deletion(&self, _object: &mut Object) {}

    /// What `propagationPolicy` means when the client names none: true orphans (only ReplicationControllers and v1beta kinds did).
    fn orphans_by_default(&self) -> bool {
        false
    }

    /// Brings an object of this served version to the stored one. Built-in v1 kinds are stored as they are.
    fn to_storage(&self, object: Object) -> Object {
        object
    }

    #[allow(clippy::wrong_self_convention)] // The strategy converts; it is not what is converted.
    fn from_storage(&self, object: Object) -> Object {
        object
    }
}
