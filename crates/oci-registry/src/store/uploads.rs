//! Content on its way in: started, added to in pieces, found again after a crash, made a blob or forgotten.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use tokio::sync::{Mutex, OwnedMutexGuard};
use uuid::Uuid;

use super::{Result, Store, StoreError, disk};
use crate::digest::{Algorithm, Digest, Hasher};
use crate::name::Repository;

/// One upload; whoever holds its lock may add to it.
pub struct Session {
    id: Uuid,
    repository: Repository,
    dir: PathBuf,
    offset: u64,
    len_max: u64,
    /// Runs along while this process sees every byte; else the content is read once more at the end.
    hasher: Option<Hasher>,
    is_over: bool,
}

impl Session {
    pub fn id(&self) -> Uuid {
        self.id
    }

    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Bytes that have arrived.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    pub fn append(&mut self, pieces: &[Bytes]) -> Result<()> {
        let total: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        if self.offset + total > self.len_max {
            return Err(StoreError::BlobTooLarge(self.len_max));
        }
        let data = self.data();
        let written = File::options().append(true).open(&data).and_then(|mut file| {
            for piece in pieces {
                file.write_all(piece)?;
            }
            Ok(())
        });
        if let Err(error) = written {
            // Part of it may be there: what the file says counts from here on.
            self.hasher = None;
            if let Ok(metadata) = fs::metadata(&data) {
                self.offset = metadata.len();
            }
            return Err(StoreError::io("cannot write", &data)(error));
        }
        self.offset += total;
        if let Some(hasher) = &mut self.hasher {
            pieces.iter().for_each(|piece| hasher.update(piece));
        }
        Ok(())
    }

    /// Forgets what came after `offset`.
    pub fn truncate(&mut self, offset: u64) -> Result<()> {
        if offset >= self.offset {
            return Ok(());
        }
        let data = self.data();
        let cut = File::options().write(true).open(&data).and_then(|file| file.set_len(offset));
        cut.map_err(StoreError::io("cannot shorten", &data))?;
        self.hasher = None;
        self.offset = offset;
        Ok(())
    }

    /// What the content is by the algorithm asked for.
    fn digest(&mut self, algorithm: Algorithm) -> Result<Digest> {
        match self.hasher.take() {
            Some(hasher) if hasher.algorithm() == algorithm => Ok(hasher.finish()),
            _ => {
                let data = self.data();
                let file = File::open(&data).map_err(StoreError::io("cannot open", &data))?;
                Digest::of_reader(algorithm, file).map_err(StoreError::io("cannot read", &data))
            }
        }
    }
}

impl Store {
    pub fn begin_upload(&self, repository: &Repository, algorithm: Algorithm) -> Result<Uuid> {
        let id = Uuid::new_v4();
        let dir = self.root.join("uploads").join(id.to_string());
        {
            let mut uploads = self.uploads.lock();
            if uploads.len() >= self.limits.uploads_max {
                return Err(StoreError::TooManyUploads(uploads.len()));
            }
            uploads.insert(id, self.session_of(id, repository.clone(), &dir, 0, Some(Hasher::new(algorithm))));
        }
        let made = (|| {
            disk::make_dir(&dir)?;
            let data = dir.join("data");
            File::create(&data).map_err(StoreError::io("cannot make", &data))?;
            // Last: an upload without a repository is none.
            self.write(&dir.join("repository"), repository.as_str().as_bytes())
        })();
        if made.is_err() {
            self.uploads.lock().remove(&id);
            let _ = fs::remove_dir_all(&dir);
        }
        made.map(|()| id)
    }

    /// The upload of this name in this repository; its lock is the right to add to it.
    pub fn upload(&self, id: Uuid) -> Result<Arc<Mutex<Session>>> {
        self.uploads.lock().get(&id).cloned().ok_or(StoreError::UploadUnknown)
    }

    /// Makes a blob of what arrived, if it is what it was said to be. The upload is over either way.
    pub fn commit_upload(&self, mut session: OwnedMutexGuard<Session>, digest: &Digest) -> Result<()> {
        let actual = session.digest(digest.algorithm())?;
        if actual != *digest {
            self.end_upload(session)?;
            return Err(StoreError::DigestDiffers { expected: digest.clone(), actual });
        }
        let data = session.data();
        File::open(&data).and_then(|file| file.sync_all()).map_err(StoreError::io("cannot flush", &data))?;
        {
            let _gate = self.gate.read();
            // Also over a blob of the same content: damage on disk is repaired by a push.
            self.place(&data, &self.blob_path(digest))?;
            self.link_blob(session.repository(), digest)?;
        }
        self.end_upload(session)
    }

    /// Forgets an upload and what arrived of it.
    pub fn end_upload(&self, mut session: OwnedMutexGuard<Session>) -> Result<()> {
        session.is_over = true;
        self.uploads.lock().remove(&session.id);
        match fs::remove_dir_all(&session.dir) {
            Err(error) if !disk::is_missing(&error) => Err(StoreError::io("cannot remove", &session.dir)(error)),
            _ => Ok(()),
        }
    }

    /// Forgets uploads nobody adds to any more; returns how many.
    pub fn expire_uploads(&self, now: SystemTime) -> Result<usize> {
        let sessions: Vec<_> = self.uploads.lock().values().cloned().collect();
        let mut expired = 0;
        for session in sessions {
            // One that is being added to is not idle.
            let Ok(session) = session.try_lock_owned() else { continue };
            let Some(changed) = disk::modified(&session.data())? else { continue };
            if !session.is_over && now.duration_since(changed).is_ok_and(|idle| idle >= self.limits.upload_idle_max) {
                self.end_upload(session)?;
                expired += 1;
            }
        }
        Ok(expired)
    }

    /// Takes up the uploads a former process left; what is not even half of one is removed.
    pub(super) fn find_uploads(&self) -> Result<()> {
        for dir in disk::entries(&self.root.join("uploads"))? {
            let id = dir.file_name().and_then(|name| name.to_str()).and_then(|name| Uuid::try_parse(name).ok());
            let name = disk::read(&dir.join("repository"))?;
            let repository = name.and_then(|name| String::from_utf8(name).ok()).and_then(|name| name.parse().ok());
            match (id, repository, fs::metadata(dir.join("data"))) {
                (Some(id), Some(repository), Ok(data)) => {
                    let session = self.session_of(id, repository, &dir, data.len(), None);
                    self.uploads.lock().insert(id, session);
                }
                _ => fs::remove_dir_all(&dir).map_err(StoreError::io("cannot remove", &dir))?,
            }
        }
        Ok(())
    }

    fn session_of(
        &self,
        id: Uuid,
        repository: Repository,
        dir: &Path,
        offset: u64,
        hasher: Option<Hasher>,
    ) -> Arc<Mutex<Session>> {
        let len_max = self.limits.blob_len_max;
        Arc::new(Mutex::new(Session { id, repository, dir: dir.to_owned(), offset, len_max, hasher, is_over: false }))
    }
}

impl Session {
    /// Whoever waited for the lock may have waited for the end.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}
