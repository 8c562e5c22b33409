//! The database schema: one row per version by revision, and a ledger that every transaction keeps balanced.
//!
//! Rows are only inserted and removed. There is no index over keys on disk, because all of it is in memory. The
//! ledger counts the rows and sums their checksums, so a changed, lost or duplicated row is detected when the store
//! is opened.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::{Error, Result};
use crate::kv::Revision;
use crate::local::chain::Version;
use crate::local::index::FIRST_REVISION;
use crate::local::lease::Lease;

/// Incremented when older programs can no longer read the database.
pub(crate) const FORMAT: i64 = 1;
/// "FLOT", so that another program's database is not mistaken for ours.
const APPLICATION_ID: i64 = 0x464c_4f54;

const SCHEMA: &str = "
    CREATE TABLE log (
        revision INTEGER PRIMARY KEY,
        crc INTEGER NOT NULL,
        create_revision INTEGER NOT NULL,
        lease INTEGER,
        key TEXT NOT NULL,
        value BLOB
    ) STRICT;
    CREATE TABLE lease (id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, ttl INTEGER NOT NULL) STRICT;
    CREATE TABLE ledger (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        crc INTEGER NOT NULL,
        sequence INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        compacted INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        digest INTEGER NOT NULL
    ) STRICT;
";

/// Totals over the whole database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Incremented by each transaction.
    pub sequence: u64,
    pub revision: Revision,
    pub compacted: Revision,
    pub rows: u64,
    pub digest: u64,
}

impl Ledger {
    pub const EMPTY: Ledger = Ledger { sequence: 0, revision: FIRST_REVISION, compacted: 0, rows: 0, digest: 0 };

    pub fn add(&mut self, crc: u32) {
        self.rows = self.rows.wrapping_add(1);
        self.digest = self.digest.wrapping_add(u64::from(crc));
    }

    pub fn remove(&mut self, crc: u32) {
        self.rows = self.rows.wrapping_sub(1);
        self.digest = self.digest.wrapping_sub(u64::from(crc));
    }

    fn crc(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        for number in [self.sequence, self.revision, self.compacted, self.rows, self.digest] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.finalize()
    }
}

pub(crate) fn version_crc(key: &str, version: &Version) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&version.mod_revision.to_le_bytes());
    hasher.update(&version.create_revision.to_le_bytes());
    hasher.update(&version.lease.map_or([0; 9], |lease| {
        let mut marked = [1; 9];
        marked[1..].copy_from_slice(&lease.to_le_bytes());
        marked
    }));
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key.as_bytes());
    hasher.update(&[u8::from(version.value.is_some())]);
    hasher.update(version.value.as_deref().unwrap_or_default());
    hasher.finalize()
}

fn lease_crc(lease: &Lease) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(b"lease");
    hasher.update(&lease.id.to_le_bytes());
    hasher.update(&lease.ttl_seconds.to_le_bytes());
    hasher.finalize()
}

/// Creates a new database, or checks that an existing one is ours and of a known format.
pub(crate) fn prepare(connection: &mut Connection, path: &Path) -> Result<()> {
    let explain = |error: rusqlite::Error| super::fault::explain(path, &error);
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0)).map_err(explain)?;
    if tables == 0 {
        return create(connection).map_err(explain);
    }
    check_format(connection, path)
}

/// Rejects a database of another program or of an unknown format.
pub(crate) fn check_format(connection: &Connection, path: &Path) -> Result<()> {
    let explain = |error: rusqlite::Error| super::fault::explain(path, &error);
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(explain);
    if pragma("application_id")? != APPLICATION_ID {
        let path = path.display();
        return Err(Error::Corrupt(format!("{path}: not a database of this program, or its header is damaged")));
    }
    match pragma("user_version")? {
        FORMAT => Ok(()),
        found if found > FORMAT => {
            Err(Error::NewerFormat { path: path.display().to_string(), found, supported: FORMAT })
        }
        found => Err(Error::Corrupt(format!("{}: unknown storage format {found}", path.display()))),
    }
}

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(SCHEMA)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    let ledger = Ledger::EMPTY;
    transaction.execute(
        "INSERT INTO ledger (id, crc, sequence, revision, compacted, rows, digest) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            ledger.crc(),
            ledger.sequence as i64,
            ledger.revision as i64,
            ledger.compacted as i64,
            ledger.rows as i64,
            ledger.digest as i64
        ],
    )?;
    transaction.commit()
}

/// Reads all rows by revision and checks them against the ledger.
pub(crate) fn read(
    connection: &Connection,
    path: &Path,
    mut version: impl FnMut(Arc<str>, Version),
    mut lease: impl FnMut(Lease),
) -> Result<Ledger> {
    let explain = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(_) => super::fault::explain(path, &error),
        // A column of another type, or text that is not UTF-8.
        None => Error::Corrupt(format!("{}: {error}. Restore a backup", path.display())),
    };
    let damaged = |what: String| Error::Corrupt(format!("{}: {what}. Restore a backup", path.display()));
    let ledger = read_ledger(connection).map_err(explain)?;
    let Some(ledger) = ledger else {
        return Err(damaged("the ledger is missing or does not match its checksum".into()));
    };
    let mut found = Ledger { rows: 0, digest: 0, ..ledger };
    let mut last = 0;

    let mut statement = connection
        .prepare("SELECT revision, crc, create_revision, lease, key, value FROM log ORDER BY revision")
        .map_err(explain)?;
    let mut rows = statement.query([]).map_err(explain)?;
    while let Some(row) = rows.next().map_err(explain)? {
        let (key, read, crc) = version_of(row).map_err(explain)?;
        if version_crc(key, &read) != crc {
            return Err(damaged(format!("the row of revision {} does not match its checksum", read.mod_revision)));
        }
        if read.mod_revision <= last || read.mod_revision > ledger.revision {
            return Err(damaged(format!("the row of revision {} is out of order", read.mod_revision)));
        }
        last = read.mod_revision;
        found.add(crc);
        version(key.into(), read);
    }

    let mut statement = connection.prepare("SELECT id, crc, ttl FROM lease").map_err(explain)?;
    let leases = statement
        .query_map([], |row| Ok((Lease { id: row.get(0)?, ttl_seconds: row.get(2)? }, row.get::<_, u32>(1)?)))
        .map_err(explain)?;
    for row in leases {
        let (read, crc) = row.map_err(explain)?;
        if lease_crc(&read) != crc {
            return Err(damaged(format!("lease {} does not match its checksum", read.id)));
        }
        found.add(crc);
        lease(read);
    }
    if found != ledger {
        return Err(damaged(format!(
            "{} rows were found where {} were written, or their checksums do not add up",
            found.rows, ledger.rows
        )));
    }
    Ok(ledger)
}

fn read_ledger(connection: &Connection) -> rusqlite::Result<Option<Ledger>> {
    let read = |row: &rusqlite::Row<'_>| {
        let number = |column| row.get::<_, i64>(column).map(|number| number as u64);
        let ledger = Ledger {
            sequence: number(1)?,
            revision: number(2)?,
            compacted: number(3)?,
            rows: number(4)?,
            digest: number(5)?,
        };
        Ok((ledger, row.get::<_, u32>(0)?))
    };
    let sql = "SELECT crc, sequence, revision, compacted, rows, digest FROM ledger WHERE id = 1";
    let found = connection.query_row(sql, [], read).optional()?;
    Ok(found.filter(|(ledger, crc)| ledger.crc() == *crc).map(|(ledger, _)| ledger))
}

fn version_of<'r>(row: &'r rusqlite::Row<'_>) -> rusqlite::Result<(&'r str, Version, u32)> {
    let key = row.get_ref(4)?.as_str()?;
    let value = row.get_ref(5)?.as_blob_or_null()?.map(Bytes::copy_from_slice);
    let version = Version {
        mod_revision: row.get::<_, i64>(0)? as u64,
        create_revision: row.get::<_, i64>(2)? as u64,
        lease: row.get(3)?,
        value,
    };
    Ok((key, version, row.get(1)?))
}

/// Bytes of the pages in use.
pub(crate) fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |sql: &str| connection.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0));
    let used = pragma("PRAGMA page_count")? - pragma("PRAGMA freelist_count")?;
    Ok((used * pragma("PRAGMA page_size")?).max(0) as u64)
}

/// Adds a version and returns its checksum for the ledger.
pub(crate) fn insert_version(connection: &Connection, key: &str, version: &Version) -> rusqlite::Result<u32> {
    let crc = version_crc(key, version);
    connection
        .prepare_cached(
            "INSERT INTO log (revision, crc, create_revision, lease, key, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            version.mod_revision as i64,
            crc,
            version.create_revision as i64,
            version.lease,
            key,
            version.value.as_deref()
        ])?;
    Ok(crc)
}

pub(crate) fn delete_version(connection: &Connection, revision: Revision) -> rusqlite::Result<()> {
    let removed = connection.prepare_cached("DELETE FROM log WHERE revision = ?1")?.execute([revision as i64])?;
    // The caller subtracts one row from the ledger.
    if removed == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(removed)) }
}

pub(crate) fn insert_lease(connection: &Connection, lease: &Lease) -> rusqlite::Result<u32> {
    let crc = lease_crc(lease);
    connection.prepare_cached("INSERT INTO lease (id, crc, ttl) VALUES (?1, ?2, ?3)")?.execute(params![
        lease.id,
        crc,
        lease.ttl_seconds
    ])?;
    Ok(crc)
}

pub(crate) fn delete_lease(connection: &Connection, lease: &Lease) -> rusqlite::Result<u32> {
    connection.prepare_cached("DELETE FROM lease WHERE id = ?1")?.execute([lease.id])?;
    Ok(lease_crc(lease))
}

pub(crate) fn write_ledger(connection: &Connection, ledger: &Ledger) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE ledger SET crc = ?1, sequence = ?2, revision = ?3, compacted = ?4, rows = ?5, digest = ?6 WHERE id = 1",
        )?
        .execute(params![
            ledger.crc(),
            ledger.sequence as i64,
            ledger.revision as i64,
            ledger.compacted as i64,
            ledger.rows as i64,
            ledger.digest as i64
        ])
        .map(drop)
}
