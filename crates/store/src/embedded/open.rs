//! Opens a data directory: locks it, checks for damage, reads everything into memory, starts the threads.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::mpsc;

use crate::embedded::ack::AckFile;
use crate::embedded::deferred::DeferredWrites;
use crate::embedded::fault::explain;
use crate::embedded::housekeeper::{Housekeeper, Shared};
use crate::embedded::lock::DirLock;
use crate::embedded::table::{self, Ledger};
use crate::embedded::writer::{ObsoleteRow, Writer};
use crate::embedded::{Embedded, EmbeddedOptions, fill, wal};
use crate::error::{Error, Result};
use crate::local::Local;
use crate::local::index::Index;
use crate::local::lease::{Lease, Leases};

/// Writers that may wait for the disk at a time; more wait for a slot in the queue.
const QUEUE_REQUESTS_MAX: usize = 1024;
/// Rows hold objects of one or two KiB; pages of this size waste less than SQLite's 4 KiB.
const PAGE_BYTES: u64 = 8192;
/// The log file is truncated to this length after it was longer.
const LOG_BYTES_KEPT: i64 = 64 << 20;

/// The files of a data directory.
pub(crate) struct Files {
    pub database: PathBuf,
    pub log: PathBuf,
    pub ack: PathBuf,
    pub lock: PathBuf,
}

impl Files {
    pub fn of(directory: &Path) -> Files {
        Files {
            database: directory.join("store.db"),
            log: directory.join("store.db-wal"),
            ack: directory.join("store.ack"),
            lock: directory.join("store.lock"),
        }
    }
}

pub(super) fn open(options: &EmbeddedOptions) -> Result<Embedded> {
    let directory = &options.directory;
    let files = Files::of(directory);
    let at = |error: std::io::Error| io_error(directory, &error);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(at)?;
    let lock = DirLock::acquire(&files.lock)?;
    fill::refuse_unfinished(directory)?;
    fill::refuse_moved(directory)?;
    let acknowledged = AckFile::read(&files.ack)?;
    refuse_missing_database(&files, acknowledged)?;
    wal::verify(&files.log)?;

    let mut connection = connect(&files.database)?;
    configure(&connection).map_err(|error| explain(&files.database, &error))?;
    table::prepare(&mut connection, &files.database)?;
    let contents = read(&connection, &files.database)?;
    refuse_lost_tail(&files, acknowledged, &contents.ledger)?;
    empty_log(&connection, &files);
    let ack = Arc::new(AckFile::create(&files.ack, contents.ledger.sequence)?);
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(at)?;

    start(options, files, connection, contents, ack, lock)
}

pub(super) fn io_error(path: &Path, error: &std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::StorageFull => Error::NoSpace(format!("{}: {error}", path.display())),
        _ => Error::Io(format!("{}: {error}", path.display())),
    }
}

/// SQLite creates a new database if the file is missing or empty, and drops a log that does not belong to it.
fn refuse_missing_database(files: &Files, acknowledged: Option<u64>) -> Result<()> {
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    if length(&files.database) > 0 {
        return Ok(());
    }
    let database = files.database.display();
    if acknowledged.is_some_and(|sequence| sequence > 0) || length(&files.log) > 0 {
        return Err(Error::Corrupt(format!(
            "{database} is missing or empty although writes were acknowledged. Restore a backup, or remove {} and {} to start \
             with an empty store",
            files.ack.display(),
            files.log.display()
        )));
    }
    Ok(())
}

pub(super) fn refuse_lost_tail(files: &Files, acknowledged: Option<u64>, ledger: &Ledger) -> Result<()> {
    match acknowledged {
        Some(acknowledged) if acknowledged > ledger.sequence => Err(Error::Corrupt(format!(
            "{} ends at transaction {} (revision {}) but writes up to transaction {acknowledged} were acknowledged: the end of \
             the data was lost or damaged. Restore a backup, or remove {} to accept the loss",
            files.database.display(),
            ledger.sequence,
            ledger.revision,
            files.ack.display()
        ))),
        _ => Ok(()),
    }
}

pub(super) fn connect(database: &Path) -> Result<Connection> {
    // SQLite gives its other files the permissions of this one, and values may be secrets.
    let mut private = OpenOptions::new();
    private
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(database)
        .map_err(|error| io_error(database, &error))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(database, flags).map_err(|error| explain(database, &error))
}

pub(super) fn set_page_size(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "page_size", PAGE_BYTES as i64)
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    set_page_size(connection)?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "full")?;
    // The housekeeper runs the checkpoints.
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES_KEPT, |_| Ok(()))?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    Ok(())
}

pub(super) struct Contents {
    index: Index,
    leases: Vec<Lease>,
    doomed: VecDeque<ObsoleteRow>,
    pub ledger: Ledger,
}

/// Reads and checks the whole database.
pub(super) fn read(connection: &Connection, path: &Path) -> Result<Contents> {
    let mut rows = Vec::new();
    let mut leases = Vec::new();
    let ledger = table::read(connection, path, |key, version| rows.push((key, version)), |lease| leases.push(lease))?;
    let mut index = Index::new(ledger.revision, ledger.compacted);
    let mut doomed = VecDeque::new();
    for (key, version) in rows {
        index.load(key, version, |key, version| {
            doomed.push_back((version.mod_revision, table::version_crc(key, &version)));
        });
    }
    Ok(Contents { index, leases, doomed, ledger })
}

/// Moves the log into the database, so that leftovers of an unfinished transaction do not stay in it.
fn empty_log(connection: &Connection, files: &Files) {
    let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    if let Err(error) = emptied {
        tracing::warn!(path = %files.log.display(), %error, "the write-ahead log could not be emptied");
    }
}

fn start(
    options: &EmbeddedOptions,
    files: Files,
    connection: Connection,
    contents: Contents,
    ack: Arc<AckFile>,
    lock: DirLock,
) -> Result<Embedded> {
    let threads = |error: std::io::Error| Error::Unavailable(format!("cannot start a thread of the store: {error}"));
    let local = Arc::new(Local::new(contents.index));
    let leases = Arc::new(Leases::default());
    contents.leases.into_iter().for_each(|lease| leases.start(lease));
    let used = table::used_bytes(&connection).map_err(|error| explain(&files.database, &error))?;
    let shared = Arc::new(Shared::new(contents.doomed.len(), used));
    let (sender, requests) = mpsc::channel(QUEUE_REQUESTS_MAX);

    let side = connect(&files.database)?;
    configure(&side).map_err(|error| explain(&files.database, &error))?;
    let housekeeper = Housekeeper {
        connection: side,
        shared: shared.clone(),
        local: local.clone(),
        retention: options.retention,
        size_limit: options.size_limit.clone(),
        ack: ack.clone(),
        requests: sender.downgrade(),
    };
    let housekeeper = std::thread::Builder::new()
        .name("store-housekeeper".into())
        .spawn(move || housekeeper.run())
        .map_err(threads)?;
    let deferred = Arc::new(DeferredWrites::new());
    let writer = Writer {
        connection,
        path: files.database.clone(),
        local: local.clone(),
        leases: leases.clone(),
        shared: shared.clone(),
        size_limit: options.size_limit.clone(),
        ack,
        ledger: contents.ledger,
        doomed: contents.doomed,
        requests,
        deferred: deferred.clone(),
        housekeeper,
        lock,
    };
    let (done, finished) = tokio::sync::watch::channel(false);
    let writer = std::thread::Builder::new()
        .name("store-writer".into())
        .spawn(move || {
            writer.run();
            done.send_replace(true);
        })
        .map_err(threads)?;
    let writer = Mutex::new(Some(writer));
    let size_limit = options.size_limit.clone();
    let embedded =
        Embedded { files, local, leases, shared, size_limit, requests: Some(sender), deferred, finished, writer };
    embedded.expire_leases().map_err(threads)?;
    Ok(embedded)
}
