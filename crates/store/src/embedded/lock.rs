//! Exclusive lock of a data directory, held by the kernel while the process lives.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::{Error, Result};

/// Dropping it releases the directory.
pub(crate) struct DirLock {
    file: File,
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // Closing is not enough: a child that was forked and has not started its program yet keeps the file open.
        if let Err(error) = self.file.unlock() {
            tracing::debug!(%error, "cannot unlock the data directory");
        }
    }
}

impl DirLock {
    pub fn acquire(path: &Path) -> Result<DirLock> {
        let failed = |error: std::io::Error| Error::Io(format!("lock file {}: {error}", path.display()));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Locked(describe_holder(path, &mut file))),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // The text is only for error messages; the lock works without it, so a full disk must not prevent opening.
        if let Err(error) = write_pid(&mut file) {
            tracing::warn!(path = %path.display(), %error, "cannot write the process id to the lock file");
        }
        Ok(DirLock { file })
    }
}

fn write_pid(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "{}", std::process::id())
}

fn describe_holder(path: &Path, file: &mut File) -> String {
    let directory = path.parent().unwrap_or(path).display();
    let mut text = String::new();
    let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse::<u32>().ok());
    match pid {
        Some(pid) if pid == std::process::id() => {
            format!("data directory {directory} is already open in this process (pid {pid})")
        }
        Some(pid) => {
            format!("data directory {directory} is in use by process {pid}: stop it first or use another directory")
        }
        None => {
            format!("data directory {directory} is in use by another process: stop it first or use another directory")
        }
    }
}
