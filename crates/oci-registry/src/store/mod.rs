//! Images on disk: content by digest, and links from repositories to it. Content is visible once it is complete and durable.
//!
//! ```text
//! DIR/lock                                            held by the one process that writes
//! DIR/blobs/sha256/ab/abcd…                           content: layers, configs, manifests
//! DIR/repositories/NAME/_layers/sha256/HEX            this repository has the blob; its mtime says when it was last wanted
//! DIR/repositories/NAME/_manifests/revisions/sha256/HEX   this repository has the manifest; holds its media type
//! DIR/repositories/NAME/_manifests/tags/TAG           holds a digest
//! DIR/repositories/NAME/_manifests/referrers/SUBJECT/DIGEST   holds the descriptor of what refers to SUBJECT
//! DIR/uploads/ID/{data,repository}                    content on its way in
//! ```
//! No part of a repository's name can begin with `_`, so nothing of a repository can be taken for a repository.

mod blobs;
mod disk;
mod gc;
mod listing;
mod manifests;
#[cfg(test)]
mod tests;
mod uploads;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use uuid::Uuid;

pub use gc::{GcOptions, GcReport};
pub use manifests::{PutManifest, StoredManifest};
pub use uploads::UploadSession;

use crate::digest::Digest;
use crate::manifest::Descriptor;
use crate::name::Repository;

/// A link this young is not touched again when it is asked for.
const TOUCH_AFTER: Duration = Duration::from_secs(60);

/// Limits of a store.
#[derive(Clone, Debug)]
pub struct StoreLimits {
    pub blob_len_max: u64,
    pub uploads_max: usize,
    /// Uploads under way from one client address.
    pub uploads_per_client_max: usize,
    /// An upload without new data for this long is removed.
    pub upload_idle_max: Duration,
    /// The same for an upload without any data.
    pub upload_empty_max: Duration,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            blob_len_max: 20 * 1024 * 1024 * 1024,
            uploads_max: 1_000,
            uploads_per_client_max: 100,
            upload_idle_max: Duration::from_secs(3600),
            upload_empty_max: Duration::from_secs(60),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{doing} {path}")]
    Io { doing: &'static str, path: String, source: io::Error },
    #[error("{0} is in use by another registry")]
    InUse(String),
    #[error("there is no blob {0} in this repository")]
    BlobUnknown(Digest),
    #[error("there is no manifest {0} in this repository")]
    ManifestUnknown(String),
    #[error("there is no repository {0}")]
    RepositoryUnknown(Repository),
    #[error("there is no such upload")]
    UploadUnknown,
    #[error("the content is {actual}, not {expected}")]
    DigestDiffers { expected: Digest, actual: Digest },
    #[error("{} of what the manifest refers to is not in this repository", .0.len())]
    ReferencesUnknown(Vec<Descriptor>),
    #[error("{0} uploads are under way, the maximum; finish or cancel one, or try again in a minute")]
    TooManyUploads(usize),
    #[error("blobs may have {0} bytes at most")]
    BlobTooLarge(u64),
    #[error(
        "{digest} in {repository} is damaged on disk: nothing was collected; push it again, or delete it with \
         DELETE /v2/{repository}/manifests/{digest}"
    )]
    Damaged { repository: Repository, digest: Digest },
    #[error("a collection is under way")]
    Collecting,
}

impl StoreError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::Io { doing, path, source }
    }
}

type Result<T, E = StoreError> = std::result::Result<T, E>;

pub struct Store {
    root: PathBuf,
    limits: StoreLimits,
    /// Read-locked while references are added, write-locked while content is removed.
    gate: RwLock<()>,
    /// Digests that came into use since a collection began to mark; none while there is no collection.
    wanted: Mutex<Option<HashSet<Digest>>>,
    uploads: Mutex<HashMap<Uuid, uploads::Upload>>,
    _lock: File,
}

impl Store {
    /// Opens the store for this process alone; makes it where there is none.
    pub fn open(root: &Path, limits: StoreLimits) -> Result<Self> {
        for part in ["", "blobs", "repositories", "uploads", "tmp"] {
            disk::make_dir(&root.join(part))?;
        }
        let path = root.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(StoreError::io("cannot open", &path))?;
        if lock.try_lock().is_err() {
            return Err(StoreError::InUse(root.display().to_string()));
        }
        let store = Self {
            root: root.to_owned(),
            limits,
            gate: RwLock::new(()),
            wanted: Mutex::new(None),
            uploads: Mutex::new(HashMap::new()),
            _lock: lock,
        };
        disk::empty(&root.join("tmp"))?;
        store.find_uploads()?;
        Ok(store)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    fn tmp(&self) -> PathBuf {
        self.root.join("tmp").join(Uuid::new_v4().to_string())
    }

    fn blob_path(&self, digest: &Digest) -> PathBuf {
        let hex = digest.hex();
        self.root.join("blobs").join(digest.algorithm().name()).join(&hex[..2]).join(hex)
    }

    fn repository_dir(&self, repository: &Repository) -> PathBuf {
        self.root.join("repositories").join(repository.as_str())
    }

    fn layer_link(&self, repository: &Repository, digest: &Digest) -> PathBuf {
        self.repository_dir(repository).join("_layers").join(digest.algorithm().name()).join(digest.hex())
    }

    fn revision_link(&self, repository: &Repository, digest: &Digest) -> PathBuf {
        let revisions = self.repository_dir(repository).join("_manifests/revisions");
        revisions.join(digest.algorithm().name()).join(digest.hex())
    }

    /// A collection under way keeps what this was called for.
    fn want(&self, digest: &Digest) {
        if let Some(wanted) = self.wanted.lock().as_mut() {
            wanted.insert(digest.clone());
        }
    }
}
