//! Restores a snapshot into a data directory: built next to the existing data, read back, then moved into place.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::Connection;

use crate::embedded::fault::explain;
use crate::embedded::lock::DirLock;
use crate::embedded::open::{self, Files};
use crate::embedded::table::{self, Ledger};
use crate::error::{Error, Result};
use crate::kv::{KeyValue, Revision};
use crate::local::chain::Version;
use crate::local::lease::Lease;
use crate::reserved::{RESTORED, Restored};
use crate::snapshot::{Fill, REVISION_GAP, StoreSnapshot, digest};

/// Exists from the start of a restore to its end.
const UNFINISHED: &str = "restore.unfinished";
/// Exists if the contents were moved to another store.
const MOVED: &str = "moved";
/// Rows per transaction, to report progress and bound memory.
const BATCH_ROWS: usize = 1000;

/// A filled directory that servers cannot open yet, so that other files can still be added.
pub struct Filled {
    directory: PathBuf,
    /// The directory with the previous data, if any.
    pub kept: Option<PathBuf>,
    pub revision: Revision,
    _lock: DirLock,
}

impl Filled {
    /// Allows servers to open the directory.
    pub fn finish(self) -> Result<()> {
        remove_mark(&self.directory, MOVED)?;
        remove_mark(&self.directory, UNFINISHED)
    }
}

/// Reports whether the directory has a store, complete or not.
pub fn is_filled(directory: &Path) -> bool {
    let files = Files::of(directory);
    [&files.database, &files.log, &files.ack].iter().any(|file| file.exists())
}

/// Fills `directory`. With `replace`, existing data is moved to a directory next to the new store; without, it is an
/// error.
///
/// A failure before the replacement leaves the directory unchanged. Later, or if the process is killed at any point,
/// the directory cannot be opened until a restore completes.
pub fn fill(
    directory: &Path,
    snapshot: &StoreSnapshot,
    options: &Fill,
    replace: bool,
    progress: &dyn Fn(u64),
) -> Result<Filled> {
    let at = |error: std::io::Error| open::io_error(directory, &error);
    let files = Files::of(directory);
    if is_filled(directory) && !replace {
        let text = format!("{} has a store already: use an empty directory, or --force", directory.display());
        return Err(Error::Invalid(text));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(at)?;
    let lock = DirLock::acquire(&files.lock)?;
    let was_unfinished = directory.join(UNFINISHED).exists();
    write_mark(directory, UNFINISHED, &options.doing)?;
    let partial = directory.join("store.db.partial");
    let built = build(&partial, snapshot, options, progress);
    let revision = match built {
        Ok(revision) => revision,
        Err(error) => {
            remove_partial(&partial).ok();
            if !was_unfinished {
                remove_mark(directory, UNFINISHED).ok();
            }
            return Err(error);
        }
    };
    let kept = keep_old(directory, &files).map_err(at)?;
    std::fs::rename(&partial, &files.database).map_err(at)?;
    sync_directory(directory)?;
    Ok(Filled { directory: directory.to_owned(), kept, revision, _lock: lock })
}

/// Records that the contents were moved elsewhere; servers refuse to open the store from now on.
pub fn mark_moved(directory: &Path, text: &str) -> Result<()> {
    let _lock = DirLock::acquire(&Files::of(directory).lock)?;
    write_mark(directory, MOVED, text)
}

/// Reverts [`mark_moved`].
pub fn unmark_moved(directory: &Path) -> Result<()> {
    remove_mark(directory, MOVED)
}

pub(super) fn refuse_unfinished(directory: &Path) -> Result<()> {
    refuse(directory, UNFINISHED, "is not whole")
}

pub(super) fn refuse_moved(directory: &Path) -> Result<()> {
    refuse(directory, MOVED, "is no longer in use")
}

fn refuse(directory: &Path, name: &str, what: &str) -> Result<()> {
    let mark = directory.join(name);
    match std::fs::read_to_string(&mark) {
        Ok(why) => {
            let (directory, mark) = (directory.display(), mark.display());
            Err(Error::Unfinished(format!("{directory} {what}: {why} ({mark})")))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(open::io_error(&mark, &error)),
    }
}

/// Writes the database and reads it back.
fn build(partial: &Path, snapshot: &StoreSnapshot, options: &Fill, progress: &dyn Fn(u64)) -> Result<Revision> {
    remove_partial(partial).map_err(|error| open::io_error(partial, &error))?;
    let mut connection = open::connect(partial)?;
    let explained = |error: rusqlite::Error| explain(partial, &error);
    open::set_page_size(&connection).map_err(explained)?;
    connection.pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(())).map_err(explained)?;
    // The file only counts once renamed, which happens after it was flushed.
    connection.pragma_update(None, "synchronous", "off").map_err(explained)?;
    table::prepare(&mut connection, partial)?;
    let (versions, ledger) = plan(snapshot, options.restored.as_ref())?;
    let revision = write(&mut connection, snapshot, &versions, ledger, progress).map_err(explained)?;
    connection.close().map_err(|(_, error)| explained(error))?;
    File::open(partial).and_then(|file| file.sync_all()).map_err(|error| open::io_error(partial, &error))?;
    verify(partial, snapshot)?;
    Ok(revision)
}

type Row = (Arc<str>, Version);

/// The rows by revision. Revisions are kept, so that objects unchanged since the backup keep their version; if an
/// engine wrote several keys at one revision, all but the first get new ones.
fn plan(snapshot: &StoreSnapshot, restored: Option<&Restored>) -> Result<(Vec<Row>, Ledger)> {
    let floor = snapshot.about.revision + REVISION_GAP;
    let mut revision = floor;
    let mut next = || {
        revision += 1;
        revision
    };
    let mut kvs: Vec<&KeyValue> = snapshot.kvs.iter().collect();
    kvs.sort_by_key(|kv| kv.mod_revision);
    let mut rows: Vec<Row> = Vec::with_capacity(kvs.len() + 1);
    let mut last = 0;
    for kv in kvs {
        let is_own = kv.mod_revision > last && kv.mod_revision <= snapshot.about.revision;
        let mod_revision = if is_own { kv.mod_revision } else { next() };
        last = last.max(kv.mod_revision);
        let value = Some(kv.value.clone());
        let create_revision = kv.create_revision.min(mod_revision);
        rows.push((kv.key.clone(), Version { mod_revision, create_revision, lease: kv.lease, value }));
    }
    if let Some(restored) = restored {
        let json = serde_json::to_vec(restored).map_err(|error| Error::Invalid(error.to_string()))?;
        let at = next();
        let version = Version { mod_revision: at, create_revision: at, lease: None, value: Some(json.into()) };
        rows.push((RESTORED.into(), version));
    }
    rows.sort_by_key(|(_, version)| version.mod_revision);
    // All of it counts as compacted: no watcher can have seen this store before.
    let ledger = Ledger { sequence: 1, revision: revision + 1, compacted: revision + 1, ..Ledger::EMPTY };
    Ok((rows, ledger))
}

fn write(
    connection: &mut Connection,
    snapshot: &StoreSnapshot,
    versions: &[Row],
    mut ledger: Ledger,
    progress: &dyn Fn(u64),
) -> rusqlite::Result<Revision> {
    let mut written = 0;
    for batch in versions.chunks(BATCH_ROWS) {
        let transaction = connection.transaction()?;
        for (key, version) in batch {
            ledger.add(table::insert_version(&transaction, key, version)?);
        }
        transaction.commit()?;
        written += batch.len() as u64;
        progress(written);
    }
    let transaction = connection.transaction()?;
    for lease in &snapshot.leases {
        let lease = Lease { id: lease.id, ttl_seconds: lease.ttl_seconds };
        ledger.add(table::insert_lease(&transaction, &lease)?);
    }
    table::write_ledger(&transaction, &ledger)?;
    transaction.commit()?;
    Ok(ledger.revision)
}

fn verify(partial: &Path, snapshot: &StoreSnapshot) -> Result<()> {
    let connection = open::connect(partial)?;
    let mut found: Vec<KeyValue> = Vec::new();
    table::read(&connection, partial, |key, version| found.extend(version.to_kv(&key)), |_| {})?;
    found.retain(|kv| !crate::reserved::is_reserved(&kv.key));
    found.sort_by(|a, b| a.key.cmp(&b.key));
    if digest(&found) == snapshot.digest() {
        return Ok(());
    }
    let text = format!("{}: the written data does not read back correctly", partial.display());
    Err(Error::Corrupt(text))
}

/// Moves existing data aside; `None` if there was none.
fn keep_old(directory: &Path, files: &Files) -> std::io::Result<Option<PathBuf>> {
    let old = [&files.database, &files.log, &files.ack];
    if !old.iter().any(|file| file.exists()) {
        return Ok(None);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let kept = directory.join(format!("replaced-{now}"));
    DirBuilder::new().mode(0o700).create(&kept)?;
    // The database last: a log without its database is refused, the other way round it might be opened.
    for file in [&files.ack, &files.log, &files.database] {
        if let Some(name) = file.file_name().filter(|_| file.exists()) {
            std::fs::rename(file, kept.join(name))?;
        }
    }
    // The index of another database's log must not be used.
    match std::fs::remove_file(directory.join("store.db-shm")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    Ok(Some(kept))
}

fn remove_partial(partial: &Path) -> std::io::Result<()> {
    for name in [partial.to_owned(), partial.with_extension("partial-journal")] {
        match std::fs::remove_file(name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn write_mark(directory: &Path, name: &str, text: &str) -> Result<()> {
    let path = directory.join(name);
    let written = || -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    written().map_err(|error| open::io_error(&path, &error))?;
    sync_directory(directory)
}

fn remove_mark(directory: &Path, name: &str) -> Result<()> {
    let path = directory.join(name);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(open::io_error(&path, &error)),
        _ => {}
    }
    sync_directory(directory)
}

fn sync_directory(directory: &Path) -> Result<()> {
    File::open(directory).and_then(|file| file.sync_all()).map_err(|error| open::io_error(directory, &error))
}
