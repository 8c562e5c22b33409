//! What can go wrong, told apart by what a caller can do about it.

use crate::kv::{KeyValue, LeaseId, Revision};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The history asked for is gone: list again and watch from there.
    #[error("revision {requested} has been compacted (oldest readable revision is {compacted})")]
    Compacted { requested: Revision, compacted: Revision },

    #[error("revision {requested} is in the future (current revision is {current})")]
    FutureRevision { requested: Revision, current: Revision },

    #[error("key {:?} already exists at revision {}", current.key, current.mod_revision)]
    Exists { current: KeyValue },

    /// The guard of an update or delete did not hold; `None` when the key of an update does not exist.
    #[error("key was changed by another writer{}", current.as_ref().map(|kv| format!(" at revision {}", kv.mod_revision)).unwrap_or_default())]
    Conflict { current: Option<KeyValue> },

    #[error("key not found")]
    NotFound,

    #[error("lease {0} not found")]
    LeaseNotFound(LeaseId),

    /// Refused by the store before anything was tried, such as a value larger than it can hold.
    #[error("invalid request: {0}")]
    Invalid(String),

    /// Nothing was written; reads go on and writes succeed again when there is room.
    #[error("no space left for the store: {0}")]
    NoSpace(String),

    /// Nothing was written, or nothing could be read; trying again later may succeed.
    #[error("store unavailable: {0}")]
    Unavailable(String),

    /// The write may or may not have happened, and asking again did not settle which.
    #[error("outcome of the write is unknown: {0}")]
    Unknown(String),

    /// Stored data is damaged. The text says which file and what to do.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),

    /// Another process (or another store of this one) has the data directory open.
    #[error("{0}")]
    Locked(String),

    #[error(
        "{path} has storage format {found}, this program understands up to {supported}: use a newer version of the program"
    )]
    NewerFormat { path: String, found: i64, supported: i64 },

    /// The store is not to be served from: a restore or a move of it was interrupted, or its contents are elsewhere now.
    #[error("{0}")]
    Unfinished(String),

    #[error("storage error: {0}")]
    Io(String),

    #[error("the store is closed")]
    Closed,
}
