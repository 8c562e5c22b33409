//! Puts a snapshot into a store through the interface every engine has, marked as unfinished until it is all there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt, TryStreamExt};

use crate::Store;
use crate::error::{Error, Result};
use crate::kv::{KeyValue, LeaseId, RangeRequest};
use crate::reserved::{self, Restored, Revisions};
use crate::snapshot::{REVISION_GAP, Snapshot, read_all};

/// Writes under way at a time.
const WRITES_MAX: usize = 64;

/// How a store is filled.
#[derive(Clone, Debug, Default)]
pub struct Fill {
    /// Left in the store for the server that opens it; `None` when it may go on as if nothing had happened.
    pub restored: Option<Restored>,
    /// Why the store is not whole meanwhile, for whoever opens it.
    pub doing: String,
}

/// Fills a store that holds nothing. `raw` shows the engine's own revisions, as [`reserved::admit`] does not.
///
/// From the first write to the last the store is marked, so that no server takes a half for the whole.
pub async fn fill(
    raw: &dyn Store,
    snapshot: &Snapshot,
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
async fn verify(raw: &dyn Store, snapshot: &Snapshot) -> Result<()> {
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

/// Removes everything but what the store keeps for itself, marked as unfinished from then on.
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
