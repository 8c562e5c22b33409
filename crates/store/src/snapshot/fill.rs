//! Restores a snapshot through the [`Store`] trait, marked as unfinished until complete.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt, TryStreamExt};

use crate::Store;
use crate::error::{Error, Result};
use crate::kv::{KeyValue, LeaseId, RangeRequest};
use crate::reserved::{self, Restored, Revisions};
use crate::snapshot::{REVISION_GAP, StoreSnapshot, read_all};

/// Concurrent writes.
const WRITES_MAX: usize = 64;

/// Options for filling a store.
#[derive(Clone, Debug, Default)]
pub struct Fill {
    /// Left in the store for the server that opens it; `None` if it can continue normally.
    pub restored: Option<Restored>,
    /// The operation in progress, for the error of a server that opens the store meanwhile.
    pub doing: String,
}

/// Fills an empty store. `raw` has the engine's own revisions, unlike [`reserved::admit`].
///
/// The store is marked from the first write to the last, so that no server opens it half-filled.
pub async fn fill(
    raw: &dyn Store,
    snapshot: &StoreSnapshot,
    options: &Fill,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<()> {
    if let Some(found) = first_key(raw).await? {
        return Err(Error::Invalid(format!("the store is not empty: it has {found:?}")));
    }
    reserved::begin(raw, &options.doing).await?;
    let before = reserved::revisions(raw).await?;
    let start = raw.revision().await?;
    let offset = (snapshot.about.revision + REVISION_GAP).saturating_sub(start).max(before.offset);
    let revisions = Revisions { offset, floor: start + offset };
    reserved::put_json(raw, reserved::REVISIONS, &revisions).await?;

    let mut leases: HashMap<LeaseId, LeaseId> = HashMap::new();
    for lease in &snapshot.leases {
        leases.insert(lease.id, raw.grant(lease.ttl_seconds).await?);
    }
    let written = AtomicU64::new(0);
    futures::stream::iter(&snapshot.kvs)
        .map(|kv| create(raw, kv, &leases, &written, progress))
        .buffer_unordered(WRITES_MAX)
        .try_collect::<()>()
        .await?;
    verify(raw, snapshot).await?;
    reserved::put_format(raw).await?;
    if let Some(restored) = &options.restored {
        reserved::put_json(raw, reserved::RESTORED, restored).await?;
    }
    reserved::remove(raw, reserved::MOVED).await?;
    reserved::remove(raw, reserved::UNFINISHED).await
}

async fn create(
    raw: &dyn Store,
    kv: &KeyValue,
    leases: &HashMap<LeaseId, LeaseId>,
    written: &AtomicU64,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<()> {
    let lease = match kv.lease {
        Some(lease) => Some(*leases.get(&lease).ok_or(Error::LeaseNotFound(lease))?),
        None => None,
    };
    raw.create(&kv.key, kv.value.clone(), lease).await?;
    progress(written.fetch_add(1, Ordering::Relaxed) + 1);
    Ok(())
}

/// Reads everything back and compares.
async fn verify(raw: &dyn Store, snapshot: &StoreSnapshot) -> Result<()> {
    let (found, _) = read_all(raw, &mut |_| {}).await?;
    let (expected, is) = (snapshot.digest(), super::digest(&found));
    if expected == is {
        return Ok(());
    }
    Err(Error::Corrupt(format!(
        "what was written does not read back as it should: {} keys with digest {is}, not {} with {expected}. Is another \
         program writing there?",
        found.len(),
        snapshot.kvs.len(),
    )))
}

async fn first_key(raw: &dyn Store) -> Result<Option<String>> {
    let found = raw.range(RangeRequest::prefix("/").limit(16)).await?;
    Ok(found.kvs.iter().map(|kv| kv.key.to_string()).find(|key| !reserved::is_reserved(key)))
}

/// Removes everything except reserved keys, and marks the store as unfinished.
pub async fn clear(raw: &dyn Store, doing: &str) -> Result<u64> {
    reserved::begin(raw, doing).await?;
    let (kvs, _) = read_all(raw, &mut |_| {}).await?;
    let count = kvs.len() as u64;
    futures::stream::iter(kvs)
        .map(|kv| async move {
            match raw.delete(&kv.key, None).await {
                Ok(_) | Err(Error::NotFound) => Ok(()),
                Err(error) => Err(error),
            }
        })
        .buffer_unordered(WRITES_MAX)
        .try_collect::<()>()
        .await?;
    Ok(count)
}
