//! Blobs of a repository: existence, location, mounting from another repository, deletion.

use std::fs::File;
use std::path::Path;
use std::time::SystemTime;

use super::{Result, Store, StoreError, TOUCH_AFTER, disk};
use crate::digest::Digest;
use crate::name::Repository;

impl Store {
    /// Opens a blob for reading: the file and its size. Manifests are content too.
    pub fn open_blob(&self, repository: &Repository, digest: &Digest) -> Result<(File, u64)> {
        let unknown = || StoreError::BlobUnknown(digest.clone());
        let link = self.layer_link(repository, digest);
        let _gate = self.gate.read();
        match disk::modified(&link)? {
            Some(linked) => self.touch(&link, linked, digest)?,
            None if disk::is_file(&self.revision_link(repository, digest)) => {}
            None => return Err(unknown()),
        }
        let path = self.blob_path(digest);
        match File::open(&path) {
            Ok(file) => {
                let len = file.metadata().map_err(StoreError::io("cannot look at", &path))?.len();
                Ok((file, len))
            }
            Err(error) if disk::is_missing(&error) => Err(unknown()),
            Err(error) => Err(StoreError::io("cannot open", &path)(error)),
        }
    }

    /// A client that has seen a blob does not send it again, so the blob is kept for another period.
    fn touch(&self, link: &Path, linked: SystemTime, digest: &Digest) -> Result<()> {
        self.want(digest);
        if SystemTime::now().duration_since(linked).is_ok_and(|age| age < TOUCH_AFTER) {
            return Ok(());
        }
        let file = File::options().write(true).open(link);
        let touched = file.and_then(|file| file.set_modified(SystemTime::now()));
        touched.map_err(StoreError::io("cannot touch", link))
    }

    pub fn has_blob(&self, repository: &Repository, digest: &Digest) -> bool {
        disk::is_file(&self.layer_link(repository, digest)) && disk::is_file(&self.blob_path(digest))
    }

    /// Makes the blob of one repository one of another, if it is there.
    pub fn mount(&self, from: &Repository, to: &Repository, digest: &Digest) -> Result<bool> {
        let _gate = self.gate.read();
        if !self.has_blob(from, digest) {
            return Ok(false);
        }
        self.link_blob(to, digest)?;
        Ok(true)
    }

    /// Drops a blob from a repository; its content goes with the next collection, unless others have it.
    pub fn delete_blob(&self, repository: &Repository, digest: &Digest) -> Result<()> {
        let _gate = self.gate.write();
        if disk::remove(&self.layer_link(repository, digest))? {
            Ok(())
        } else {
            Err(StoreError::BlobUnknown(digest.clone()))
        }
    }

    /// The caller holds the gate.
    pub(super) fn link_blob(&self, repository: &Repository, digest: &Digest) -> Result<()> {
        self.want(digest);
        self.write(&self.layer_link(repository, digest), b"")
    }
}
