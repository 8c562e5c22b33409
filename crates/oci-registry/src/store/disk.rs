//! Files that are complete or absent: written to a temporary file, flushed, renamed, and the rename flushed too.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Result, Store, StoreError};

/// Makes a directory and those above it, so that they survive a power cut.
pub fn make_dir(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent {
        make_dir(parent)?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(StoreError::io("cannot make the directory", path)(error));
        }
        _ => {}
    }
    parent.map_or(Ok(()), sync_dir)
}

pub fn sync_dir(path: &Path) -> Result<()> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(StoreError::io("cannot flush", path))
}

pub fn empty(dir: &Path) -> Result<()> {
    for entry in entries(dir)? {
        fs::remove_file(&entry).map_err(StoreError::io("cannot remove", &entry))?;
    }
    Ok(())
}

/// The entries of a directory; none when it does not exist.
pub fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let read = match fs::read_dir(dir) {
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        read => read.map_err(StoreError::io("cannot list", dir))?,
    };
    let mut found = Vec::new();
    for entry in read {
        found.push(entry.map_err(StoreError::io("cannot list", dir))?.path());
    }
    Ok(found)
}

/// Names longer than the file system takes are names of nothing.
pub fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}

/// The content of a small file, if it is there.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(StoreError::io("cannot read", path)(error)),
    }
}

/// Returns true when there was a file to remove.
pub fn remove(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(StoreError::io("cannot remove", path)(error)),
    }
}

pub fn modified(path: &Path) -> Result<Option<SystemTime>> {
    match fs::metadata(path).and_then(|metadata| metadata.modified()) {
        Ok(time) => Ok(Some(time)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(StoreError::io("cannot look at", path)(error)),
    }
}

pub fn is_file(path: &Path) -> bool {
    path.is_file()
}

impl Store {
    /// Puts small content in its place, replacing what was there.
    pub(super) fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let tmp = self.tmp();
        let written = File::create(&tmp).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        written.map_err(StoreError::io("cannot write", &tmp))?;
        self.place(&tmp, path)
    }

    /// Moves a file that is already flushed to its place.
    pub(super) fn place(&self, from: &Path, to: &Path) -> Result<()> {
        let parent = to.parent().expect("every place of the store is below its root");
        make_dir(parent)?;
        fs::rename(from, to).map_err(StoreError::io("cannot make visible", to))?;
        sync_dir(parent)
    }
}
