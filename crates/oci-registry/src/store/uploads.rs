//! Uploads on disk: started, appended to, restored after a crash, committed as a blob or removed.

use std::fs::{self, File};
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use tokio::sync::{Mutex, OwnedMutexGuard};
use uuid::Uuid;

use super::{Result, Store, StoreError, disk};
use crate::digest::{Algorithm, Digest, Hasher};
use crate::name::Repository;

/// An upload under way.
pub(super) struct Upload {
    /// The client that began it; `None` after a restart.
    client: Option<IpAddr>,
    session: Arc<Mutex<UploadSession>>,
}

/// The data of one upload; the holder of its lock may add to it.
pub struct UploadSession {
    id: Uuid,
    repository: Repository,
    dir: PathBuf,
    offset: u64,
    len_max: u64,
    /// Present while this process has seen every byte; otherwise the content is read again at the end.
    hasher: Option<Hasher>,
    is_over: bool,
}

impl UploadSession {
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
            // Part of it may have been written: the file's length is the offset now.
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

    /// Removes the data after `offset`.
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

    /// The digest of the content by this algorithm.
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
    /// Begins an upload of a client, within the limits in total and per client.
    pub fn begin_upload(&self, repository: &Repository, algorithm: Algorithm, client: Option<IpAddr>) -> Result<Uuid> {
        let id = Uuid::new_v4();
        let dir = self.root.join("uploads").join(id.to_string());
        {
            let mut uploads = self.uploads.lock();
            if uploads.len() >= self.limits.uploads_max {
                return Err(StoreError::TooManyUploads(uploads.len()));
            }
            let of_client = uploads.values().filter(|upload| client.is_some() && upload.client == client).count();
            if of_client >= self.limits.uploads_per_client_max {
                return Err(StoreError::TooManyUploads(of_client));
            }
            let session = self.session_of(id, repository.clone(), &dir, 0, Some(Hasher::new(algorithm)));
            uploads.insert(id, Upload { client, session });
        }
        let made = (|| {
            disk::make_dir(&dir)?;
            let data = dir.join("data");
            File::create(&data).map_err(StoreError::io("cannot make", &data))?;
            // Written last: a directory without it is not an upload.
            self.write(&dir.join("repository"), repository.as_str().as_bytes())
        })();
        if made.is_err() {
            self.uploads.lock().remove(&id);
            let _ = fs::remove_dir_all(&dir);
        }
        made.map(|()| id)
    }

    /// The upload of this id; the holder of its lock may add to it.
    pub fn upload(&self, id: Uuid) -> Result<Arc<Mutex<UploadSession>>> {
        self.uploads.lock().get(&id).map(|upload| upload.session.clone()).ok_or(StoreError::UploadUnknown)
    }

    /// Turns the upload into a blob when its digest is the expected one. The upload is over either way.
    pub fn commit_upload(&self, mut session: OwnedMutexGuard<UploadSession>, digest: &Digest) -> Result<()> {
        let actual = session.digest(digest.algorithm())?;
        if actual != *digest {
            self.end_upload(session)?;
            return Err(StoreError::DigestDiffers { expected: digest.clone(), actual });
        }
        let data = session.data();
        File::open(&data).and_then(|file| file.sync_all()).map_err(StoreError::io("cannot flush", &data))?;
        {
            let _gate = self.gate.read();
            // Also over an existing blob: a push repairs damage on disk.
            self.place(&data, &self.blob_path(digest))?;
            self.link_blob(session.repository(), digest)?;
        }
        self.end_upload(session)
    }

    /// Removes an upload and its data.
    pub fn end_upload(&self, mut session: OwnedMutexGuard<UploadSession>) -> Result<()> {
        session.is_over = true;
        self.uploads.lock().remove(&session.id);
        match fs::remove_dir_all(&session.dir) {
            Err(error) if !disk::is_missing(&error) => Err(StoreError::io("cannot remove", &session.dir)(error)),
            _ => Ok(()),
        }
    }

    /// Removes idle uploads and returns their number.
    pub fn expire_uploads(&self, now: SystemTime) -> Result<usize> {
        let sessions: Vec<_> = self.uploads.lock().values().map(|upload| upload.session.clone()).collect();
        let mut expired = 0;
        for session in sessions {
            // A locked upload is being written to and is not idle.
            let Ok(session) = session.try_lock_owned() else { continue };
            let Some(changed) = disk::modified(&session.data())? else { continue };
            let idle_max = match session.offset {
                0 => self.limits.upload_empty_max.min(self.limits.upload_idle_max),
                _ => self.limits.upload_idle_max,
            };
            if !session.is_over && now.duration_since(changed).is_ok_and(|idle| idle >= idle_max) {
                self.end_upload(session)?;
                expired += 1;
            }
        }
        Ok(expired)
    }

    /// Restores the uploads of a former process and removes incomplete directories.
    pub(super) fn find_uploads(&self) -> Result<()> {
        for dir in disk::entries(&self.root.join("uploads"))? {
            let id = dir.file_name().and_then(|name| name.to_str()).and_then(|name| Uuid::try_parse(name).ok());
            let name = disk::read(&dir.join("repository"))?;
            let repository = name.and_then(|name| String::from_utf8(name).ok()).and_then(|name| name.parse().ok());
            match (id, repository, fs::metadata(dir.join("data"))) {
                (Some(id), Some(repository), Ok(data)) => {
                    let session = self.session_of(id, repository, &dir, data.len(), None);
                    self.uploads.lock().insert(id, Upload { client: None, session });
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
    ) -> Arc<Mutex<UploadSession>> {
        let len_max = self.limits.blob_len_max;
        Arc::new(Mutex::new(UploadSession {
            id,
            repository,
            dir: dir.to_owned(),
            offset,
            len_max,
            hasher,
            is_over: false,
        }))
    }
}

impl UploadSession {
    /// Returns true when the upload ended while the caller waited for the lock.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}
