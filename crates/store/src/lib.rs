//! Revisioned key-value storage: guarded writes, ranges at a revision, watches, compaction and leases over keys and bytes.
//!
//! Independent of Kubernetes. One trait, [`Store`], has three engines: [`memory::Memory`], [`embedded::Embedded`]
//! (SQLite, the default) and [`etcd::Etcd`]; `tests/contract.rs` checks all three against one contract.

mod error;
mod kv;
mod local;
mod quota;
mod shifted;
mod transform;
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
pub use quota::{Quota, SizeLimit};
pub use transform::{Transformed, ValueTransformer};
pub use watch::{ProgressHandle, WatchBatch, WatchStream};

/// A revisioned map from keys to bytes.
///
/// Every successful write moves the store to the next [`Revision`]; an empty store is at revision 1. A write answered
/// with `Ok` is as durable as the engine can make it, and every later read sees it.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Returns the latest value of `key` with the revision of the store at the time of the read.
    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision)>;

    /// Lists keys in order, at the latest or at an older revision.
    ///
    /// Fails with [`Error::Compacted`] if the revision's history is gone and with [`Error::FutureRevision`] if the
    /// store has not reached it.
    async fn range(&self, request: RangeRequest<'_>) -> Result<RangeResult>;

    /// Counts the keys beginning with `prefix`.
    async fn count(&self, prefix: &str) -> Result<u64>;

    /// Writes a key that must not exist; [`Error::Exists`] carries the existing value.
    async fn create(&self, key: &str, value: Bytes, lease: Option<LeaseId>) -> Result<Revision>;

    /// Replaces the value of a key that was last modified at `expected`; [`Error::Conflict`] carries the current
    /// value. The lease is replaced too: `None` detaches the key.
    async fn update(&self, key: &str, value: Bytes, expected: Revision, lease: Option<LeaseId>) -> Result<Revision>;

    /// Removes a key, with `expected` only if it was last modified there, and returns the removed value. Fails with
    /// [`Error::NotFound`] if the key does not exist, [`Error::Conflict`] if the guard fails.
    async fn delete(&self, key: &str, expected: Option<Revision>) -> Result<(Revision, KeyValue)>;

    /// Streams every change to keys beginning with `prefix` at revision `from` or later, in order, each once.
    ///
    /// Revisions up to and including the compacted one may be rejected with [`Error::Compacted`]; later ones never
    /// are. A stream whose consumer falls behind compaction ends with the same error.
    async fn watch(&self, prefix: &str, from: Revision) -> Result<WatchStream>;

    /// Drops versions overwritten or deleted at or before `revision`. Reads at `revision` itself still work.
    async fn compact(&self, revision: Revision) -> Result<()>;

    /// The current revision, linearizable: not older than any write answered before the call.
    async fn revision(&self) -> Result<Revision>;

    /// The newest revision known to be compacted, 0 when there is none.
    async fn compacted(&self) -> Revision;

    /// Grants a lease that expires after `ttl_seconds` unless kept alive. Its keys are then deleted with ordinary
    /// delete events.
    async fn grant(&self, ttl_seconds: i64) -> Result<LeaseId>;

    /// Restarts the lease's TTL.
    async fn keep_alive(&self, lease: LeaseId) -> Result<()>;

    /// Revokes the lease and deletes its keys.
    async fn revoke(&self, lease: LeaseId) -> Result<()>;

    /// The granted TTL of the lease, in seconds.
    async fn lease_ttl(&self, lease: LeaseId) -> Result<i64>;

    /// Returns `Ok` if the next write is expected to succeed.
    async fn health(&self) -> Result<()>;

    /// The reason why no write will succeed until the store is reopened, if there is one.
    fn stopped(&self) -> Option<Error> {
        None
    }

    /// The engine's name for logs, metrics and messages.
    fn engine(&self) -> &'static str;

    /// Size of the store where it keeps its data.
    async fn size_bytes(&self) -> Result<u64>;

    /// The size limit that this program applies; `None` without one, and for engines that apply their own.
    fn quota(&self) -> Option<Quota> {
        None
    }

    /// Removes compacted values from the engine's files, where free space may still contain them. Engines whose files
    /// belong to another program do nothing.
    async fn scrub(&self) -> Result<()> {
        Ok(())
    }

    /// Finishes accepted writes and releases the engine's resources. Later calls fail with [`Error::Closed`].
    async fn close(&self);

    /// The in-memory state of a local engine, for synchronous reads. `None` if reads need the network.
    fn local(&self) -> Option<&Local> {
        None
    }
}
