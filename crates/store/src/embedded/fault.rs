//! What an error of SQLite means for the store: nothing happened, the disk is full, or the data can no longer be trusted.

use std::path::Path;

use rusqlite::{ErrorCode, ffi};

use crate::error::Error;

/// An error of the database at `path` in the words of the store.
pub(crate) fn explain(path: &Path, error: &rusqlite::Error) -> Error {
    let path = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::NoSpace(format!("{path}: {error}")),
        Some(ErrorCode::DatabaseCorrupt) => Error::Corrupt(format!("{path}: {error}. Restore a backup")),
        Some(ErrorCode::NotADatabase) => {
            Error::Corrupt(format!("{path}: not a database, or its header is damaged. Restore a backup"))
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Unavailable(format!("{path}: {error}")),
        _ => Error::Io(format!("{path}: {error}")),
    }
}

/// What may be done after a failed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aftermath {
    /// Nothing was written and the next transaction may succeed.
    Retry,
    /// The kernel may have dropped what it could not write, and what is in memory may not be what is on disk: no further
    /// write is safe in this process.
    Stop,
}

pub(crate) fn aftermath(error: &rusqlite::Error) -> Aftermath {
    match error.sqlite_error() {
        Some(failure) => match (failure.code, failure.extended_code) {
            (ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OutOfMemory, _) => {
                Aftermath::Retry
            }
            // A write that failed, for instance on a quota, leaves no commit mark, which is always the last thing written.
            (_, ffi::SQLITE_IOERR_WRITE) => Aftermath::Retry,
            _ => Aftermath::Stop,
        },
        None => Aftermath::Stop,
    }
}
