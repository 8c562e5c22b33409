//! A store whose revisions are those of another plus a constant, so that an engine with its own revisions continues
//! after the store it was filled from.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::kv::{KeyValue, LeaseId, RangeRequest, RangeResult, Revision};
use crate::reserved::Revisions;
use crate::{Quota, Store, WatchStream};

pub(crate) struct Shifted {
    raw: Arc<dyn Store>,
    revisions: Revisions,
}

impl Shifted {
    pub fn new(raw: Arc<dyn Store>, revisions: Revisions) -> Self {
        Shifted { raw, revisions }
    }

    /// Converts a store revision to an engine revision; revisions before the floor do not exist in the engine.
    fn inward(&self, requested: Revision) -> Result<Revision> {
        if requested < self.revisions.floor {
            return Err(Error::Compacted { requested, compacted: self.revisions.floor });
        }
        Ok(requested - self.revisions.offset)
    }

    /// Converts a guard: no key has a version from before the floor.
    fn guard(&self, expected: Revision) -> Revision {
        expected.saturating_sub(self.revisions.offset)
    }

    fn outward(&self, revision: Revision) -> Revision {
        revision + self.revisions.offset
    }

    fn kv(&self, kv: KeyValue) -> KeyValue {
        shift(kv, self.revisions.offset)
    }

    fn error(&self, error: Error) -> Error {
        match error {
            Error::Compacted { requested, compacted } => {
                Error::Compacted { requested: self.outward(requested), compacted: self.outward(compacted) }
            }
            Error::FutureRevision { requested, current } => {
                Error::FutureRevision { requested: self.outward(requested), current: self.outward(current) }
            }
            Error::Exists { current } => Error::Exists { current: self.kv(current) },
            Error::Conflict { current } => Error::Conflict { current: current.map(|kv| self.kv(kv)) },
            other => other,
        }
    }
}

pub(crate) fn shift(kv: KeyValue, offset: Revision) -> KeyValue {
    // A delete has no creation revision.
    let create_revision = if kv.create_revision == 0 { 0 } else { kv.create_revision + offset };
    KeyValue { create_revision, mod_revision: kv.mod_revision + offset, ..kv }
}

#[async_trait]
impl Store for Shifted {
    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision)> {
        let (found, revision) = self.raw.get(key).await.map_err(|error| self.error(error))?;
        Ok((found.map(|kv| self.kv(kv)), self.outward(revision)))
    }

    async fn range(&self, request: RangeRequest<'_>) -> Result<RangeResult> {
        let revision = request.revision.map(|revision| self.inward(revision)).transpose()?;
        let found = self.raw.range(RangeRequest { revision, ..request }).await.map_err(|error| self.error(error))?;
        Ok(RangeResult {
            kvs: found.kvs.into_iter().map(|kv| self.kv(kv)).collect(),
            revision: self.outward(found.revision),
            ..found
        })
    }

    async fn count(&self, prefix: &str) -> Result<u64> {
        self.raw.count(prefix).await
    }

    async fn create(&self, key: &str, value: Bytes, lease: Option<LeaseId>) -> Result<Revision> {
        let written = self.raw.create(key, value, lease).await;
        written.map(|revision| self.outward(revision)).map_err(|error| self.error(error))
    }

    async fn update(&self, key: &str, value: Bytes, expected: Revision, lease: Option<LeaseId>) -> Result<Revision> {
        let written = self.raw.update(key, value, self.guard(expected), lease).await;
        written.map(|revision| self.outward(revision)).map_err(|error| self.error(error))
    }

    async fn delete(&self, key: &str, expected: Option<Revision>) -> Result<(Revision, KeyValue)> {
        let deleted = self.raw.delete(key, expected.map(|expected| self.guard(expected))).await;
        let (revision, kv) = deleted.map_err(|error| self.error(error))?;
        Ok((self.outward(revision), self.kv(kv)))
    }

    async fn watch(&self, prefix: &str, from: Revision) -> Result<WatchStream> {
        // No reader has seen the floor itself, so watching from it is never needed.
        let from = self.inward(from.max(1))?;
        let watch = self.raw.watch(prefix, from).await.map_err(|error| self.error(error))?;
        Ok(watch.shifted(self.revisions.offset))
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.raw.compact(self.inward(revision)?).await.map_err(|error| self.error(error))
    }

    async fn revision(&self) -> Result<Revision> {
        Ok(self.outward(self.raw.revision().await?))
    }

    async fn compacted(&self) -> Revision {
        self.outward(self.raw.compacted().await).max(self.revisions.floor)
    }

    async fn grant(&self, ttl_seconds: i64) -> Result<LeaseId> {
        self.raw.grant(ttl_seconds).await
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<()> {
        self.raw.keep_alive(lease).await
    }

    async fn revoke(&self, lease: LeaseId) -> Result<()> {
        self.raw.revoke(lease).await
    }

    async fn lease_ttl(&self, lease: LeaseId) -> Result<i64> {
        self.raw.lease_ttl(lease).await
    }

    async fn health(&self) -> Result<()> {
        self.raw.health().await
    }

    fn engine(&self) -> &'static str {
        self.raw.engine()
    }

    async fn size_bytes(&self) -> Result<u64> {
        self.raw.size_bytes().await
    }

    fn quota(&self) -> Option<Quota> {
        self.raw.quota()
    }

    async fn close(&self) {
        self.raw.close().await;
    }
}
