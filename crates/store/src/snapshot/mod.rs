//! A consistent snapshot of a store: taken from any engine, saved to a file, restored into any engine, compared by
//! digest.
//!
//! Contains live keys without history. Reserved keys (`reserved`) are excluded.

pub mod file;
mod fill;

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::kv::{KeyValue, LeaseId, RangeRequest, Revision, prefix_end};
use crate::{Store, reserved};

pub use fill::{Fill, clear, fill};

/// Keys read from a store at a time.
const PAGE_KEYS: usize = 1000;
/// Attempts to read a store that compacts meanwhile.
const ATTEMPTS_MAX: usize = 5;
/// The gap between the revision of a snapshot and the first one of the store filled from it, as etcd's own tools
/// advise. A client that saw later revisions of the lost control plane holds one before all that is readable, so it
/// gets "gone, list again" instead of silently missing changes.
pub const REVISION_GAP: Revision = 1_000_000_000;

/// The origin of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct About {
    /// Time of the snapshot, as RFC 3339.
    pub taken_at: String,
    /// The program that took it.
    pub program: String,
    pub engine: String,
    pub revision: Revision,
    /// The address of the control plane it was taken from, if known.
    pub url: Option<String>,
}

/// A lease with at least one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotLease {
    pub id: LeaseId,
    pub ttl_seconds: i64,
}

/// A file that accompanies the store: keys and certificates.
#[derive(Clone, PartialEq, Eq)]
pub struct SnapshotFile {
    /// Relative, with slashes.
    pub path: String,
    pub mode: u32,
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for SnapshotFile {
    /// Omits the content, which may be a private key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.path, self.bytes.len())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreSnapshot {
    pub about: About,
    /// Sorted by key.
    pub kvs: Vec<KeyValue>,
    pub leases: Vec<SnapshotLease>,
    pub files: Vec<SnapshotFile>,
}

impl StoreSnapshot {
    /// A snapshot of the keys read at `revision`; leases without keys are omitted.
    pub(crate) fn new(engine: &str, revision: Revision, kvs: Vec<KeyValue>, leases: Vec<SnapshotLease>) -> Self {
        let used: BTreeSet<LeaseId> = kvs.iter().filter_map(|kv| kv.lease).collect();
        StoreSnapshot {
            about: About { engine: engine.to_owned(), revision, ..About::default() },
            kvs,
            leases: leases.into_iter().filter(|lease| used.contains(&lease.id)).collect(),
            files: Vec::new(),
        }
    }

    /// Counts keys by their first two segments: group and resource.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for kv in &self.kvs {
            let mut parts = kv.key.trim_start_matches('/').splitn(3, '/');
            let (group, resource) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let name = match group {
                "core" => resource.to_owned(),
                group => format!("{resource}.{group}"),
            };
            *counts.entry(name).or_default() += 1;
        }
        counts
    }

    pub fn digest(&self) -> String {
        digest(&self.kvs)
    }
}

/// A digest of keys and values in order; revisions and leases may differ between stores with the same contents.
pub fn digest(kvs: &[KeyValue]) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    for kv in kvs {
        context.update(&(kv.key.len() as u64).to_le_bytes());
        context.update(kv.key.as_bytes());
        context.update(&(kv.value.len() as u64).to_le_bytes());
        context.update(&kv.value);
        context.update(&[u8::from(kv.lease.is_some())]);
    }
    HEXLOWER.encode(context.finish().as_ref())
}

/// Reads everything at one revision through the [`Store`] trait. `progress` gets the number of keys read.
pub async fn take(store: &dyn Store, progress: &mut (dyn FnMut(u64) + Send)) -> Result<StoreSnapshot> {
    for _ in 1..ATTEMPTS_MAX {
        match take_once(store, progress).await {
            // The revision was compacted: start again at the latest.
            Err(Error::Compacted { .. }) => {}
            result => return result,
        }
    }
    take_once(store, progress).await
}

async fn take_once(store: &dyn Store, progress: &mut (dyn FnMut(u64) + Send)) -> Result<StoreSnapshot> {
    let (kvs, revision) = read_all(store, progress).await?;
    let ids: BTreeSet<LeaseId> = kvs.iter().filter_map(|kv| kv.lease).collect();
    let mut leases = Vec::new();
    for id in ids {
        match store.lease_ttl(id).await {
            Ok(ttl_seconds) => leases.push(SnapshotLease { id, ttl_seconds }),
            // It expired since the keys were read, and its keys with it.
            Err(Error::LeaseNotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let alive: BTreeSet<LeaseId> = leases.iter().map(|lease| lease.id).collect();
    let kvs = kvs.into_iter().filter(|kv| kv.lease.is_none_or(|lease| alive.contains(&lease))).collect();
    Ok(StoreSnapshot::new(store.engine(), revision, kvs, leases))
}

/// All keys except reserved ones, in order, at one revision.
pub(crate) async fn read_all(
    store: &dyn Store,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<(Vec<KeyValue>, Revision)> {
    let end = prefix_end("/").unwrap_or_default();
    let mut page = store.range(RangeRequest::prefix("/").limit(PAGE_KEYS)).await?;
    let revision = page.revision;
    let mut kvs: Vec<KeyValue> = Vec::new();
    loop {
        let next = page.kvs.last().filter(|_| page.more).map(|last| format!("{}\0", last.key));
        kvs.extend(page.kvs.into_iter().filter(|kv| !reserved::is_reserved(&kv.key)));
        progress(kvs.len() as u64);
        let Some(next) = next else { return Ok((kvs, revision)) };
        page = store.range(RangeRequest::between(&next, &end).limit(PAGE_KEYS).at(revision)).await?;
    }
}
