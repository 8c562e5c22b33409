//! Classifies SQLite errors: nothing was written, the disk is full, or the data can no longer be trusted.

use std::path::Path;

use rusqlite::{ErrorCode, ffi};

use crate::error::Error;

/// Converts a database error to a store error.
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

/// The safe reaction to a failed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aftermath {
    /// Nothing was written and the next transaction may succeed.
    Retry,
    /// The kernel may have dropped failed writes, and memory may differ from the disk: no further write is safe in
    /// this process.
    Stop,
}

pub(crate) fn aftermath(error: &rusqlite::Error) -> Aftermath {
    match error.sqlite_error() {
        Some(failure) => match (failure.code, failure.extended_code) {
            (ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OutOfMemory, _) => {
                Aftermath::Retry
            }
            // A failed write, for instance on a quota, leaves no commit record, which is always written last.
            (_, ffi::SQLITE_IOERR_WRITE) => Aftermath::Retry,
            _ => Aftermath::Stop,
        },
        None => Aftermath::Stop,
    }
}
