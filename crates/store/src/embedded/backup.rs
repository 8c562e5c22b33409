//! Reads a consistent snapshot of a data directory, with or without a running server.
//!
//! SQLite allows any number of processes to read while another writes, each from its own snapshot. So a backup needs
//! no server: it works while the server is busy, stuck or stopped, and the ledger proves that the data is complete.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OpenFlags};

use crate::embedded::ack::AckFile;
use crate::embedded::fault::explain;
use crate::embedded::lock::DirLock;
use crate::embedded::open::{self, Files};
use crate::embedded::{fill, table, wal};
use crate::error::{Error, Result};
use crate::kv::KeyValue;
use crate::local::chain::Version;
use crate::reserved;
use crate::snapshot::{SnapshotLease, StoreSnapshot};

/// Returns all live keys in the store of `directory`. Changes nothing there. Blocks.
pub fn snapshot(directory: &Path) -> Result<StoreSnapshot> {
    let files = Files::of(directory);
    if !files.database.exists() {
        return Err(Error::Invalid(format!("{} has no store: {} is missing", directory.display(), "store.db")));
    }
    fill::refuse_unfinished(directory)?;
    match DirLock::acquire(&files.lock) {
        // No server is running: data that a server would refuse to open must not become a backup that looks sound.
        Ok(_lock) => {
            wal::verify(&files.log)?;
            let acknowledged = AckFile::read(&files.ack)?;
            let (snapshot, ledger) = read(&files)?;
            open::refuse_lost_tail(&files, acknowledged, &ledger)?;
            Ok(snapshot)
        }
        Err(Error::Locked(_)) => Ok(read(&files)?.0),
        Err(error) => Err(error),
    }
}

fn read(files: &Files) -> Result<(StoreSnapshot, table::Ledger)> {
    let path = &files.database;
    let explained = |error: rusqlite::Error| explain(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(explained)?;
    connection.busy_timeout(std::time::Duration::from_secs(5)).map_err(explained)?;
    // One transaction gives one consistent snapshot for all statements.
    connection.execute_batch("BEGIN").map_err(explained)?;
    table::check_format(&connection, path)?;
    let mut live: BTreeMap<Arc<str>, Version> = BTreeMap::new();
    let mut leases = Vec::new();
    let ledger = table::read(
        &connection,
        path,
        |key, version| {
            if version.value.is_some() {
                live.insert(key, version);
            } else {
                live.remove(&key);
            }
        },
        |lease| leases.push(SnapshotLease { id: lease.id, ttl_seconds: lease.ttl_seconds }),
    )?;
    let live = live.into_iter().filter(|(key, _)| !reserved::is_reserved(key));
    let kvs: Vec<KeyValue> = live.filter_map(|(key, version)| version.into_kv(&key)).collect();
    Ok((StoreSnapshot::new("embedded", ledger.revision, kvs, leases), ledger))
}
