//! A store whose values are transformed on their way in and out, such as by encryption at rest.
//!
//! Keys, revisions, leases and history stay those of the engine; only bytes differ. The engine, its files, its backups and
//! its memory hold transformed values.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::kv::{Event, EventKind, KeyValue, LeaseId, RangeRequest, RangeResult, Revision};
use crate::{Local, Quota, Store, WatchBatch, WatchStream};

/// Converts between the values callers see and the values an engine stores.
#[async_trait]
pub trait ValueTransformer: Send + Sync + 'static {
    /// Returns the bytes to store for `value`.
    fn seal(&self, key: &str, value: Bytes) -> Result<Bytes>;

    /// Reports whether stored bytes are the value itself, as those of most keys are. Must be cheap.
    fn is_plain(&self, key: &str, stored: &Bytes) -> bool;

    /// Returns the value of stored bytes if that needs no remote call, `None` if it does.
    fn open_now(&self, key: &str, stored: &Bytes) -> Option<Result<Bytes>>;

    /// Returns the value of stored bytes.
    async fn open(&self, key: &str, stored: Bytes) -> Result<Bytes>;
}

/// A store with a [`ValueTransformer`] in front of it.
pub struct Transformed {
    raw: Arc<dyn Store>,
    transformer: Arc<dyn ValueTransformer>,
}

impl Transformed {
    pub fn new(raw: Arc<dyn Store>, transformer: Arc<dyn ValueTransformer>) -> Self {
        Self { raw, transformer }
    }

    async fn error(&self, error: Error) -> Error {
        let opened = match error {
            Error::Exists { current } => {
                open(&*self.transformer, current).await.map(|current| Error::Exists { current })
            }
            Error::Conflict { current: Some(current) } => {
                open(&*self.transformer, current).await.map(|current| Error::Conflict { current: Some(current) })
            }
            other => Ok(other),
        };
        opened.unwrap_or_else(|error| error)
    }
}

async fn open(transformer: &dyn ValueTransformer, kv: KeyValue) -> Result<KeyValue> {
    if transformer.is_plain(&kv.key, &kv.value) {
        return Ok(kv);
    }
    let value = match transformer.open_now(&kv.key, &kv.value) {
        Some(value) => value?,
        None => transformer.open(&kv.key, kv.value.clone()).await?,
    };
    Ok(KeyValue { value, ..kv })
}

/// Opens the values of a batch if none of them needs a remote call; otherwise returns the batch unchanged.
pub(crate) fn open_batch_now(
    transformer: &dyn ValueTransformer,
    batch: WatchBatch,
) -> std::result::Result<Result<WatchBatch>, WatchBatch> {
    let is_plain = |kv: &KeyValue| transformer.is_plain(&kv.key, &kv.value);
    let is_untouched = |event: &Event| {
        (event.kind == EventKind::Delete || is_plain(&event.kv)) && event.prev.as_ref().is_none_or(is_plain)
    };
    if batch.events.iter().all(is_untouched) {
        return Ok(Ok(batch));
    }
    let mut events = Vec::with_capacity(batch.events.len());
    for event in &batch.events {
        match open_event_now(transformer, event) {
            Some(Ok(event)) => events.push(event),
            Some(Err(error)) => return Ok(Err(error)),
            None => return Err(batch),
        }
    }
    Ok(Ok(WatchBatch { events, revision: batch.revision }))
}

fn open_event_now(transformer: &dyn ValueTransformer, event: &Event) -> Option<Result<Event>> {
    let value = match event.kind {
        EventKind::Delete => Ok(Bytes::new()),
        EventKind::Put => transformer.open_now(&event.kv.key, &event.kv.value)?,
    };
    let prev = match &event.prev {
        Some(prev) => {
            transformer.open_now(&prev.key, &prev.value)?.ok().map(|value| KeyValue { value, ..prev.clone() })
        }
        None => None,
    };
    Some(value.map(|value| Event { kind: event.kind, kv: KeyValue { value, ..event.kv.clone() }, prev }))
}

pub(crate) async fn open_batch(transformer: Arc<dyn ValueTransformer>, batch: WatchBatch) -> Result<WatchBatch> {
    let mut events = Vec::with_capacity(batch.events.len());
    for event in batch.events {
        let kv = match event.kind {
            EventKind::Delete => event.kv,
            EventKind::Put => open(&*transformer, event.kv).await?,
        };
        // The version before may be sealed with a key that is gone; readers cope without it.
        let prev = match event.prev {
            Some(prev) => open(&*transformer, prev).await.ok(),
            None => None,
        };
        events.push(Event { kind: event.kind, kv, prev });
    }
    Ok(WatchBatch { events, revision: batch.revision })
}

#[async_trait]
impl Store for Transformed {
    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision)> {
        match self.raw.get(key).await? {
            (Some(kv), revision) => Ok((Some(open(&*self.transformer, kv).await?), revision)),
            (None, revision) => Ok((None, revision)),
        }
    }

    async fn range(&self, request: RangeRequest<'_>) -> Result<RangeResult> {
        let mut found = self.raw.range(request).await?;
        for kv in &mut found.kvs {
            if self.transformer.is_plain(&kv.key, &kv.value) {
                continue;
            }
            kv.value = match self.transformer.open_now(&kv.key, &kv.value) {
                Some(value) => value?,
                None => self.transformer.open(&kv.key, kv.value.clone()).await?,
            };
        }
        Ok(found)
    }

    async fn count(&self, prefix: &str) -> Result<u64> {
        self.raw.count(prefix).await
    }

    async fn create(&self, key: &str, value: Bytes, lease: Option<LeaseId>) -> Result<Revision> {
        let sealed = self.transformer.seal(key, value)?;
        match self.raw.create(key, sealed, lease).await {
            Err(error) => Err(self.error(error).await),
            written => written,
        }
    }

    async fn update(&self, key: &str, value: Bytes, expected: Revision, lease: Option<LeaseId>) -> Result<Revision> {
        let sealed = self.transformer.seal(key, value)?;
        match self.raw.update(key, sealed, expected, lease).await {
            Err(error) => Err(self.error(error).await),
            written => written,
        }
    }

    async fn delete(&self, key: &str, expected: Option<Revision>) -> Result<(Revision, KeyValue)> {
        match self.raw.delete(key, expected).await {
            // The key is gone whether or not its last value can be read.
            Ok((revision, kv)) => Ok((revision, open(&*self.transformer, kv.clone()).await.unwrap_or(kv))),
            Err(error) => Err(self.error(error).await),
        }
    }

    async fn watch(&self, prefix: &str, from: Revision) -> Result<WatchStream> {
        Ok(self.raw.watch(prefix, from).await?.transformed(Arc::clone(&self.transformer)))
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.raw.compact(revision).await
    }

    async fn revision(&self) -> Result<Revision> {
        self.raw.revision().await
    }

    async fn compacted(&self) -> Revision {
        self.raw.compacted().await
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

    fn stopped(&self) -> Option<Error> {
        self.raw.stopped()
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

    async fn scrub(&self) -> Result<()> {
        self.raw.scrub().await
    }

    async fn close(&self) {
        self.raw.close().await;
    }

    /// Values in it are transformed; callers use it for revisions.
    fn local(&self) -> Option<&Local> {
        self.raw.local()
    }
}
