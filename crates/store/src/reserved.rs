//! Keys a store reserves for itself: its format, its revision offset, and its restore or move state.
//!
//! The embedded engine stores its format in the database header and keeps revisions unchanged; these keys serve
//! engines that are accessed through [`Store`] only.

use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Store;
use crate::error::{Error, Result};
use crate::kv::Revision;
use crate::shifted::Shifted;
use crate::snapshot::{self, StoreSnapshot};

const PREFIX: &str = "/flotilla.store/";
pub(crate) const FORMAT_KEY: &str = "/flotilla.store/format";
pub(crate) const REVISIONS: &str = "/flotilla.store/revisions";
pub(crate) const UNFINISHED: &str = "/flotilla.store/unfinished";
pub(crate) const MOVED: &str = "/flotilla.store/moved";
/// Exists while overwritten values may remain in the files of the store.
const SCRUB: &str = "/flotilla.store/scrub";
/// Exists from a restore until an operator confirms that the control plane may act on the restored state.
pub const RESTORED: &str = "/flotilla.store/restored";

/// Incremented when older programs can no longer read a store that is not embedded.
pub const FORMAT: i64 = 1;

/// Attempts of a write that conflicts with others.
const ATTEMPTS_MAX: usize = 8;

/// Reports whether the key is the store's own and not part of its contents.
pub fn is_reserved(key: &str) -> bool {
    key.starts_with(PREFIX)
}

/// Information a restore leaves for the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Restored {
    /// Distinguishes this restored control plane from the original, and from others restored from the same backup.
    pub instance: String,
    pub restored_at: String,
    pub backup_taken_at: String,
    pub backup_revision: Revision,
    /// The address of the original control plane.
    pub former_url: Option<String>,
    /// The control plane of another product that the contents were imported from; `None` after a restore.
    pub imported_from: Option<String>,
}

/// The mapping of engine revisions to store revisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revisions {
    /// Added to every revision of the engine.
    pub offset: Revision,
    /// Earlier revisions cannot be read: they belong to the store this one was filled from.
    pub floor: Revision,
}

/// Opens a store for a server: rejects one that is newer, unfinished or moved, and applies the revision offset.
pub async fn admit(raw: Arc<dyn Store>, place: &str) -> Result<Arc<dyn Store>> {
    check(&*raw, place).await?;
    put_format(&*raw).await?;
    let revisions = revisions(&*raw).await?;
    if revisions == Revisions::default() {
        return Ok(raw);
    }
    Ok(Arc::new(Shifted::new(raw, revisions)))
}

/// [`admit`] for read-only callers.
pub async fn check(raw: &dyn Store, place: &str) -> Result<()> {
    if let (Some(format), _) = raw.get(FORMAT_KEY).await? {
        let text = String::from_utf8_lossy(&format.value).into_owned();
        let found: i64 =
            text.trim().parse().map_err(|_| Error::Corrupt(format!("{place}: storage format {text:?}")))?;
        if found > FORMAT {
            return Err(Error::NewerFormat { path: place.to_owned(), found, supported: FORMAT });
        }
    }
    for (key, what) in [(UNFINISHED, "is not whole"), (MOVED, "is no longer in use")] {
        if let (Some(why), _) = raw.get(key).await? {
            return Err(Error::Unfinished(format!("{place} {what}: {}", String::from_utf8_lossy(&why.value))));
        }
    }
    Ok(())
}

pub(crate) async fn revisions(raw: &dyn Store) -> Result<Revisions> {
    Ok(get_json(raw, REVISIONS).await?.unwrap_or_default())
}

/// The restore information, until [`forget_restored`].
pub async fn restored(store: &dyn Store) -> Result<Option<Restored>> {
    get_json(store, RESTORED).await
}

pub async fn forget_restored(store: &dyn Store) -> Result<()> {
    remove(store, RESTORED).await
}

/// Records that the contents were moved elsewhere; servers refuse to open the store from now on.
pub async fn mark_moved(raw: &dyn Store, text: &str) -> Result<()> {
    put(raw, MOVED, text.to_owned().into()).await
}

/// All contents of a store with the revisions servers see, even if it is marked as moved. Writes nothing.
pub async fn read_marked(raw: Arc<dyn Store>, progress: &mut (dyn FnMut(u64) + Send)) -> Result<StoreSnapshot> {
    let revisions = revisions(&*raw).await?;
    if let (Some(why), _) = raw.get(UNFINISHED).await? {
        return Err(Error::Unfinished(format!("the store is incomplete: {}", String::from_utf8_lossy(&why.value))));
    }
    snapshot::take(&Shifted::new(raw, revisions), progress).await
}

/// Reverts [`mark_moved`].
pub async fn unmark_moved(raw: &dyn Store) -> Result<()> {
    remove(raw, MOVED).await
}

pub(crate) async fn begin(raw: &dyn Store, doing: &str) -> Result<()> {
    put(raw, UNFINISHED, doing.to_owned().into()).await
}

pub(crate) async fn put_format(raw: &dyn Store) -> Result<()> {
    match raw.create(FORMAT_KEY, FORMAT.to_string().into(), None).await {
        Ok(_) | Err(Error::Exists { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

pub(crate) async fn put_json(store: &dyn Store, key: &str, value: &impl Serialize) -> Result<()> {
    let json = serde_json::to_vec(value).map_err(|error| Error::Invalid(error.to_string()))?;
    put(store, key, json.into()).await
}

async fn get_json<T: DeserializeOwned>(store: &dyn Store, key: &str) -> Result<Option<T>> {
    let (Some(found), _) = store.get(key).await? else { return Ok(None) };
    let read = serde_json::from_slice(&found.value);
    read.map(Some).map_err(|error| Error::Corrupt(format!("{key} is invalid: {error}")))
}

async fn put(store: &dyn Store, key: &str, value: Bytes) -> Result<()> {
    let mut result = store.create(key, value.clone(), None).await;
    for _ in 0..ATTEMPTS_MAX {
        result = match result {
            Err(Error::Exists { current } | Error::Conflict { current: Some(current) }) => {
                store.update(key, value.clone(), current.mod_revision, None).await
            }
            Err(Error::Conflict { current: None }) => store.create(key, value.clone(), None).await,
            done => return done.map(drop),
        };
    }
    result.map(drop)
}

pub(crate) async fn remove(store: &dyn Store, key: &str) -> Result<()> {
    match store.delete(key, None).await {
        Ok(_) | Err(Error::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Records that the files may still contain values that must not remain, until [`end_scrub`].
pub async fn begin_scrub(raw: &dyn Store) -> Result<()> {
    match raw.create(SCRUB, "1".into(), None).await {
        Ok(_) | Err(Error::Exists { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

pub async fn needs_scrub(raw: &dyn Store) -> Result<bool> {
    Ok(raw.get(SCRUB).await?.0.is_some())
}

pub async fn end_scrub(raw: &dyn Store) -> Result<()> {
    remove(raw, SCRUB).await
}
