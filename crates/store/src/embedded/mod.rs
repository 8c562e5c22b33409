//! The default engine: all data in memory for reads, SQLite on disk, one writer thread that batches flushes.
//!
//! The writer thread decides a write against memory, commits it together with other waiting writes, and only then
//! publishes it to readers and watchers and answers. Reads never touch the disk.

mod ack;
mod backup;
mod batch;
mod deferred;
mod fault;
mod fill;
mod housekeeper;
mod lock;
mod open;
mod table;
mod wal;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};

use crate::embedded::batch::{Request, Written};
use crate::embedded::deferred::{DEFERRED_FOR, DeferredWrites, Queued};
use crate::embedded::housekeeper::Shared;
use crate::embedded::open::Files;
use crate::error::{Error, Result};
use crate::kv::{KeyValue, LeaseId, RangeRequest, RangeResult, Revision};
use crate::local::change::Write;
use crate::local::lease::Leases;
use crate::local::{Local, Retention};
use crate::quota::{Quota, SizeLimit};
use crate::{Store, WatchStream};

pub use backup::snapshot;
pub use fill::{Filled, fill, is_filled, mark_moved, unmark_moved};

/// Longer keys are a bug of the caller.
const KEY_BYTES_MAX: usize = 4096;
/// SQLite's limit is a gigabyte; no legitimate object comes close to this size.
const VALUE_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// Created if missing.
    pub directory: PathBuf,
    pub retention: Retention,
    /// Writes that would use more space than this fail with [`Error::NoSpace`].
    pub size_limit: SizeLimit,
}

impl EmbeddedOptions {
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        EmbeddedOptions {
            directory: directory.into(),
            retention: Retention::default(),
            size_limit: SizeLimit::default(),
        }
    }
}

/// A store in a local directory. Dropping it waits for accepted writes and releases the lock.
pub struct Embedded {
    files: Files,
    local: Arc<Local>,
    leases: Arc<Leases>,
    shared: Arc<Shared>,
    size_limit: SizeLimit,
    /// `None` only while dropping.
    requests: Option<mpsc::Sender<Request>>,
    /// Writes that wait for the flush of others.
    deferred: Arc<DeferredWrites>,
    finished: watch::Receiver<bool>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Embedded {
    /// Opens or creates the store. Reads all of it, so call it where blocking is allowed.
    pub fn open(options: &EmbeddedOptions) -> Result<Embedded> {
        open::open(options)
    }

    fn expire_leases(&self) -> std::io::Result<()> {
        let requests = self.requests.as_ref().map(mpsc::Sender::downgrade);
        self.leases.expire_in_background(move |lease| {
            let Some(requests) = requests.as_ref().and_then(mpsc::WeakSender::upgrade) else { return };
            let (reply, answer) = oneshot::channel();
            // If it fails, revoking the lease is retried later.
            if requests.blocking_send(Request::Revoke { lease, reply }).is_ok() {
                answer.blocking_recv().ok();
            }
        })
    }

    fn state(&self) -> Result<&Arc<Local>> {
        if *self.finished.borrow() { Err(Error::Closed) } else { Ok(&self.local) }
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<Result<T>>) -> Request) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or(Error::Closed)?;
        requests.send(request(reply)).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// A write with a lease, such as that of an event, expires anyway and has no caller in a hurry: it shares the flush of
    /// other writes. It is on disk before it is answered all the same.
    async fn write(&self, write: Write) -> Result<Written> {
        if write.lease().is_none() {
            return self.ask(|reply| Request::Write { write, reply }).await;
        }
        let (reply, answer) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or(Error::Closed)?;
        match self.deferred.add(Request::Write { write, reply }) {
            Queued::First => {
                let requests = requests.downgrade();
                tokio::spawn(async move {
                    tokio::time::sleep(DEFERRED_FOR).await;
                    if let Some(requests) = requests.upgrade() {
                        requests.send(Request::Flush).await.ok();
                    }
                });
            }
            Queued::Behind => {}
            Queued::Closed => return Err(Error::Closed),
            Queued::Full => requests.send(Request::Flush).await.map_err(|_| Error::Closed)?,
        }
        answer.await.map_err(|_| Error::Closed)?
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.requests = None;
        self.leases.stop();
        if let Some(writer) = self.writer.lock().take()
            && writer.join().is_err()
        {
            tracing::error!("the writer thread of the store panicked");
        }
    }
}

fn check_sizes(key: &str, value: &Bytes) -> Result<()> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(Error::Invalid(format!("a key of {} bytes: must be 1 to {KEY_BYTES_MAX}", key.len())));
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(Error::Invalid(format!("a value of {} bytes: must be at most {VALUE_BYTES_MAX}", value.len())));
    }
    Ok(())
}

#[async_trait]
impl Store for Embedded {
    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision)> {
        Ok(self.state()?.get(key))
    }

    async fn range(&self, request: RangeRequest<'_>) -> Result<RangeResult> {
        self.state()?.range(request)
    }

    async fn count(&self, prefix: &str) -> Result<u64> {
        Ok(self.state()?.count(prefix))
    }

    async fn create(&self, key: &str, value: Bytes, lease: Option<LeaseId>) -> Result<Revision> {
        check_sizes(key, &value)?;
        Ok(self.write(Write::Create { key: key.into(), value, lease }).await?.0)
    }

    async fn update(&self, key: &str, value: Bytes, expected: Revision, lease: Option<LeaseId>) -> Result<Revision> {
        check_sizes(key, &value)?;
        Ok(self.write(Write::Update { key: key.into(), value, expected, lease }).await?.0)
    }

    async fn delete(&self, key: &str, expected: Option<Revision>) -> Result<(Revision, KeyValue)> {
        let (revision, prev) = self.write(Write::Delete { key: key.into(), expected }).await?;
        Ok((revision, prev.ok_or(Error::NotFound)?))
    }

    async fn watch(&self, prefix: &str, from: Revision) -> Result<WatchStream> {
        Ok(WatchStream::local(self.state()?.watch(prefix, from)?))
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.ask(|reply| Request::Compact { revision, reply }).await
    }

    async fn revision(&self) -> Result<Revision> {
        Ok(self.state()?.revision())
    }

    async fn compacted(&self) -> Revision {
        self.local.compacted()
    }

    async fn grant(&self, ttl_seconds: i64) -> Result<LeaseId> {
        self.ask(|reply| Request::Grant { ttl_seconds, reply }).await
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<()> {
        self.state()?;
        self.leases.keep_alive(lease)
    }

    async fn revoke(&self, lease: LeaseId) -> Result<()> {
        self.ask(|reply| Request::Revoke { lease, reply }).await
    }

    async fn lease_ttl(&self, lease: LeaseId) -> Result<i64> {
        self.state()?;
        self.leases.find(lease).map(|lease| lease.ttl_seconds).ok_or(Error::LeaseNotFound(lease))
    }

    async fn health(&self) -> Result<()> {
        self.state()?;
        self.shared.health()
    }

    fn stopped(&self) -> Option<Error> {
        self.shared.stopped()
    }

    fn engine(&self) -> &'static str {
        "embedded"
    }

    async fn size_bytes(&self) -> Result<u64> {
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        Ok(length(&self.files.database) + length(&self.files.log))
    }

    fn quota(&self) -> Option<Quota> {
        self.shared.quota(&self.size_limit)
    }

    async fn scrub(&self) -> Result<()> {
        self.ask(|reply| Request::Scrub { reply }).await
    }

    async fn close(&self) {
        if let Some(requests) = &self.requests
            && requests.send(Request::Close).await.is_ok()
        {
            let mut finished = self.finished.clone();
            finished.wait_for(|finished| *finished).await.ok();
        }
    }

    fn local(&self) -> Option<&Local> {
        Some(&self.local)
    }
}
