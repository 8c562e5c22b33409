//! Copies of a store: made while it works, checked before they count, put back into an empty directory.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::embedded::fault::explain;
use crate::embedded::open::{self, Files};
use crate::embedded::{Options, table};
use crate::error::{Error, Result};
use crate::kv::Revision;

/// Copies the database to `path` in one consistent step. The file appears under its name only when it is whole and checked.
pub(super) fn copy(database: &Path, path: &Path) -> Result<Revision> {
    let failed = |error: std::io::Error| Error::Io(format!("backup to {}: {error}", path.display()));
    if path.exists() {
        return Err(Error::Invalid(format!("{} exists already", path.display())));
    }
    let partial = with_suffix(path, ".partial");
    remove_if_there(&partial).map_err(failed)?;
    let revision = copy_pages(database, &partial).and_then(|()| verify(&partial));
    if revision.is_err() {
        remove_if_there(&partial).ok();
    }
    let revision = revision?;
    File::open(&partial).and_then(|file| file.sync_all()).map_err(failed)?;
    std::fs::rename(&partial, path).map_err(failed)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
    Ok(revision)
}

fn copy_pages(database: &Path, partial: &Path) -> Result<()> {
    let from = open::connect(database)?;
    let mut to = open::connect(partial)?;
    {
        let backup = Backup::new(&from, &mut to).map_err(|error| explain(database, &error))?;
        // All at once: one read transaction, so one moment in time. Writers are not held up by a reader of the log.
        while backup.step(-1).map_err(|error| explain(partial, &error))? != StepResult::Done {
            std::thread::yield_now();
        }
    }
    // A backup is one file: no log beside it.
    to.pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(())).map_err(|error| explain(partial, &error))
}

/// Reads a whole database file and checks it against its checksums. Returns the revision it is at.
pub fn verify(path: &Path) -> Result<Revision> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| explain(path, &error))?;
    Ok(table::read(&connection, path, |_, _| {}, |_| {})?.revision)
}

/// Puts a backup into a directory that has no store yet.
pub fn restore(backup: &Path, options: &Options) -> Result<Revision> {
    let directory = &options.directory;
    let failed = |error: std::io::Error| Error::Io(format!("restore into {}: {error}", directory.display()));
    let files = Files::of(directory);
    for file in [&files.database, &files.log, &files.ack] {
        if file.exists() {
            return Err(Error::Invalid(format!("{} exists already: restore into an empty directory", file.display())));
        }
    }
    let revision = verify(backup)?;
    std::fs::create_dir_all(directory).map_err(failed)?;
    let partial = with_suffix(&files.database, ".partial");
    std::fs::copy(backup, &partial).map_err(failed)?;
    File::open(&partial).and_then(|file| file.sync_all()).map_err(failed)?;
    std::fs::rename(&partial, &files.database).map_err(failed)?;
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
    Ok(revision)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn remove_if_there(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
