//! Revisioned key-value storage: guarded writes, ranges at a revision, watches, compaction and leases over keys and bytes.
//!
//! The crate knows nothing of Kubernetes. One trait, [`Store`], has three engines: [`memory::Memory`], [`embedded::Embedded`]
//! (SQLite, the default) and [`etcd::Etcd`]; `tests/contract.rs` holds all three to the same promises.

mod error;
mod kv;
mod local;
mod shifted;
mod watch;

pub mod embedded;
pub mod etcd;
pub mod memory;
pub mod reserved;
pub mod snapshot;

use async_trait::async_trait;
use bytes::Bytes;

pub use error::{Error, Result};
pub use kv::{Event, EventKind, KeyValue, LeaseId, RangeEnd, RangeRequest, RangeResult, Revision, prefix_end};
pub use local::{Local, Retention};
pub use watch::{ProgressHandle, WatchBatch, WatchStream};

/// A revisioned map from keys to bytes.
///
/// Every successful write moves the store to the next [`Revision`]; an empty store is at revision 1. A write that has been
/// answered with `Ok` is as durable as the engine can make it, and every later read sees it.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The newest value of `key` with the revision of the store at the time of the read.
    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision)>;

    /// Keys in order, at the newest or at an older revision.
    ///
    /// Fails with [`Error::Compacted`] when the revision's history is gone and with [`Error::FutureRevision`] when the store
    /// has not reached it.
    async fn range(&self, request: RangeRequest<'_>) -> Result<RangeResult>;

    /// How many keys begin with `prefix` now.
    async fn count(&self, prefix: &str) -> Result<u64>;

    /// Writes a key that must not exist; [`Error::Exists`] carries what is there instead.
    async fn create(&self, key: &str, value: Bytes, lease: Option<LeaseId>) -> Result<Revision>;

    /// Replaces the value of a key that was last modified at `expected`; [`Error::Conflict`] carries what is there instead.
    /// The lease is replaced too: `None` detaches the key.
    async fn update(&self, key: &str, value: Bytes, expected: Revision, lease: Option<LeaseId>) -> Result<Revision>;

    /// Removes a key, when `expected` is given only if it was last modified there, and returns what was removed.
    /// [`Error::NotFound`] when there is no such key, [`Error::Conflict`] when the guard does not hold.
    async fn delete(&self, key: &str, expected: Option<Revision>) -> Result<(Revision, KeyValue)>;

    /// Every change to keys beginning with `prefix` at revision `from` or later, in order, each once.
    ///
    /// Revisions up to and including the compacted one may be refused with [`Error::Compacted`]; later ones never are. A
    /// stream whose consumer falls behind compaction ends with the same error.
    async fn watch(&self, prefix: &str, from: Revision) -> Result<WatchStream>;

    /// Forgets what was overwritten or deleted at or before `revision`. Reads at `revision` itself still work.
    async fn compact(&self, revision: Revision) -> Result<()>;

    /// The current revision, linearizable: not older than any write answered before the call.
    async fn revision(&self) -> Result<Revision>;

    /// The newest revision known to be compacted, 0 when there is none.
    async fn compacted(&self) -> Revision;

    /// A new lease that ends after `ttl_seconds` unless kept alive. Its keys are then deleted by ordinary delete events.
    async fn grant(&self, ttl_seconds: i64) -> Result<LeaseId>;

    /// Starts the lease's time again.
    async fn keep_alive(&self, lease: LeaseId) -> Result<()>;

    /// Ends the lease now and deletes its keys.
    async fn revoke(&self, lease: LeaseId) -> Result<()>;

    /// How long the lease was granted for, in seconds.
    async fn lease_ttl(&self, lease: LeaseId) -> Result<i64>;

    /// `Ok` when the store can be expected to take the next write.
    async fn health(&self) -> Result<()>;

    /// Why no write will succeed any more before the store is opened anew, if so.
    fn stopped(&self) -> Option<Error> {
        None
    }

    /// The engine's name for logs, metrics and messages.
    fn engine(&self) -> &'static str;

    /// What the store occupies where it keeps its data.
    async fn size_bytes(&self) -> Result<u64>;

    /// Finishes the writes already accepted and releases what the engine holds. Later calls fail with [`Error::Closed`].
    async fn close(&self);

    /// The in-memory state of an engine of this process, for reads without a future. `None` where reads need the network.
    fn local(&self) -> Option<&Local> {
        None
    }
}
