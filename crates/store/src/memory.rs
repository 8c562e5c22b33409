//! The in-memory engine, for tests and for state that need not outlive the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::kv::{KeyValue, LeaseId, RangeRequest, RangeResult, Revision};
use crate::local::change::Write;
use crate::local::lease::Leases;
use crate::local::{Local, Retention};
use crate::{Store, WatchStream};

/// Writes between two retention checks.
const RETENTION_EVERY: Revision = 256;

pub struct Memory {
    inner: Arc<Inner>,
    leases_started: std::sync::Once,
}

struct Inner {
    local: Arc<Local>,
    leases: Arc<Leases>,
    retention: Retention,
    closed: AtomicBool,
}

impl Default for Memory {
    fn default() -> Self {
        Memory::new()
    }
}

impl Memory {
    /// A store that keeps its history until compacted.
    pub fn new() -> Self {
        Memory::with_retention(Retention::UNBOUNDED)
    }

    pub fn with_retention(retention: Retention) -> Self {
        let inner = Inner { local: Arc::default(), leases: Arc::default(), retention, closed: AtomicBool::new(false) };
        Memory { inner: Arc::new(inner), leases_started: std::sync::Once::new() }
    }

    fn state(&self) -> Result<&Arc<Local>> {
        self.inner.open()?;
        Ok(&self.inner.local)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.inner.close();
    }
}

impl Inner {
    fn open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.leases.stop();
        self.local.close_watches();
    }

    fn write(&self, write: &Write) -> Result<(Revision, Option<KeyValue>)> {
        self.open()?;
        let result = self.local.write(|applier| {
            if let Some(lease) = write.lease()
                && !self.leases.contains(lease)
            {
                return Err(Error::LeaseNotFound(lease));
            }
            let current = applier.index.get(write.key());
            let revision = applier.index.revision() + 1;
            let version = write.decide(current.as_ref(), revision)?;
            applier.apply(write.key(), version);
            Ok((revision, current))
        });
        if let Ok((revision, _)) = &result
            && revision % RETENTION_EVERY == 0
            && let Some(expired) = self.local.expired(&self.retention, Instant::now())
        {
            // A concurrent compaction may have gone further, which is fine.
            self.local.compact(expired, |_, _| {}).ok();
        }
        result
    }

    fn revoke(&self, lease: LeaseId) -> Result<()> {
        self.open()?;
        self.local.write(|applier| {
            if !self.leases.remove(lease) {
                return Err(Error::LeaseNotFound(lease));
            }
            for key in applier.index.lease_keys(lease) {
                let current = applier.index.get(&key);
                let delete = Write::Delete { key: key.clone(), expected: None };
                let version = delete.decide(current.as_ref(), applier.index.revision() + 1)?;
                applier.apply(&key, version);
            }
            applier.forget_lease(lease);
            Ok(())
        })
    }
}

#[async_trait]
impl Store for Memory {
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
        Ok(self.inner.write(&Write::Create { key: key.into(), value, lease })?.0)
    }

    async fn update(&self, key: &str, value: Bytes, expected: Revision, lease: Option<LeaseId>) -> Result<Revision> {
        Ok(self.inner.write(&Write::Update { key: key.into(), value, expected, lease })?.0)
    }

    async fn delete(&self, key: &str, expected: Option<Revision>) -> Result<(Revision, KeyValue)> {
        let (revision, prev) = self.inner.write(&Write::Delete { key: key.into(), expected })?;
        Ok((revision, prev.ok_or(Error::NotFound)?))
    }

    async fn watch(&self, prefix: &str, from: Revision) -> Result<WatchStream> {
        Ok(WatchStream::local(self.state()?.watch(prefix, from)?))
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.state()?.compact(revision, |_, _| {})
    }

    async fn revision(&self) -> Result<Revision> {
        Ok(self.state()?.revision())
    }

    async fn compacted(&self) -> Revision {
        self.inner.local.compacted()
    }

    async fn grant(&self, ttl_seconds: i64) -> Result<LeaseId> {
        self.inner.open()?;
        let mut started = Ok(());
        self.leases_started.call_once(|| {
            let inner = Arc::downgrade(&self.inner);
            started = self.inner.leases.expire_in_background(move |lease| {
                if let Some(inner) = inner.upgrade() {
                    // Fails only if the lease was revoked or the store closed in the meantime.
                    inner.revoke(lease).ok();
                }
            });
        });
        started.map_err(|error| Error::Unavailable(format!("cannot start the thread that ends leases: {error}")))?;
        let lease = self.inner.leases.prepare(ttl_seconds)?;
        self.inner.leases.start(lease);
        Ok(lease.id)
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<()> {
        self.inner.open()?;
        self.inner.leases.keep_alive(lease)
    }

    async fn revoke(&self, lease: LeaseId) -> Result<()> {
        self.inner.revoke(lease)
    }

    async fn lease_ttl(&self, lease: LeaseId) -> Result<i64> {
        self.inner.open()?;
        self.inner.leases.find(lease).map(|lease| lease.ttl_seconds).ok_or(Error::LeaseNotFound(lease))
    }

    async fn health(&self) -> Result<()> {
        self.inner.open()
    }

    fn engine(&self) -> &'static str {
        "memory"
    }

    async fn size_bytes(&self) -> Result<u64> {
        let everything = self.state()?.range(RangeRequest::prefix(""))?;
        let live: usize = everything.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
        Ok((live + self.inner.local.read(|index| index.history_bytes())) as u64)
    }

    async fn close(&self) {
        self.inner.close();
    }

    fn local(&self) -> Option<&Local> {
        Some(&self.inner.local)
    }
}
