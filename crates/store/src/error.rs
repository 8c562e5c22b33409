//! Store errors, by what a caller can do about them.

use crate::kv::{KeyValue, LeaseId, Revision};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The requested history is gone: list again and watch from there.
    #[error("revision {requested} has been compacted (oldest readable revision is {compacted})")]
    Compacted { requested: Revision, compacted: Revision },

    #[error("revision {requested} is in the future (current revision is {current})")]
    FutureRevision { requested: Revision, current: Revision },

    #[error("key {:?} already exists at revision {}", current.key, current.mod_revision)]
    Exists { current: KeyValue },

    /// The guard of an update or delete failed; `None` if the key of an update does not exist.
    #[error("key was changed by another writer{}", current.as_ref().map(|kv| format!(" at revision {}", kv.mod_revision)).unwrap_or_default())]
    Conflict { current: Option<KeyValue> },

    #[error("key not found")]
    NotFound,

    #[error("lease {0} not found")]
    LeaseNotFound(LeaseId),

    /// Rejected before any attempt, such as a value that is too large.
    #[error("invalid request: {0}")]
    Invalid(String),

    /// Nothing was written; reads continue and writes succeed again once there is space.
    #[error("no space left for the store: {0}")]
    NoSpace(String),

    /// Nothing was written or read; a retry may succeed.
    #[error("store unavailable: {0}")]
    Unavailable(String),

    /// The write may or may not have happened, and reading did not resolve it.
    #[error("outcome of the write is unknown: {0}")]
    Unknown(String),

    /// Stored data is damaged. The text names the file and the remedy.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),

    /// A value cannot be decrypted. The text names the key and what is missing.
    #[error("{0}")]
    Sealed(String),

    /// Another process (or another store of this one) has the data directory open.
    #[error("{0}")]
    Locked(String),

    #[error(
        "{path} has storage format {found}, this program understands up to {supported}: use a newer version of the program"
    )]
    NewerFormat { path: String, found: i64, supported: i64 },

    /// The store must not be served: a restore or move was interrupted, or its contents were moved elsewhere.
    #[error("{0}")]
    Unfinished(String),

    #[error("storage error: {0}")]
    Io(String),

    #[error("the store is closed")]
    Closed,
}
