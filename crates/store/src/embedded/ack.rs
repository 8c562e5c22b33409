//! The last acknowledged write, recorded next to the database so that a lost tail is detected.
//!
//! SQLite treats a damaged end of its write-ahead log as an unfinished transaction and drops it silently. The record
//! is written after each commit is on disk and before the writers are answered, so it is never ahead of the durable
//! state: a database behind its record has lost data. The record itself is not flushed each time; after a power
//! failure it may be older than the database, which is harmless.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::error::{Error, Result};

const MAGIC: &[u8; 8] = b"FLOTACK1";
const LENGTH: usize = 20;

pub(crate) struct AckFile {
    file: File,
}

impl AckFile {
    /// Returns the last recorded sequence number; `None` if the record is missing or unreadable.
    pub fn read(path: &Path) -> Result<Option<u64>> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::Io(format!("{}: {error}", path.display()))),
        };
        let sequence = decode(&bytes);
        if sequence.is_none() && !bytes.is_empty() {
            tracing::warn!(path = %path.display(), "the record of acknowledged writes is damaged, ignoring it");
        }
        Ok(sequence)
    }

    pub fn create(path: &Path, sequence: u64) -> Result<AckFile> {
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::StorageFull => Error::NoSpace(format!("{}: {error}", path.display())),
            _ => Error::Io(format!("{}: {error}", path.display())),
        };
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(path).map_err(failed)?;
        let ack = AckFile { file };
        ack.note(sequence).map_err(failed)?;
        ack.file.sync_data().map_err(failed)?;
        Ok(ack)
    }

    /// One write within one sector, so the record is either old or new, never mixed.
    pub fn note(&self, sequence: u64) -> std::io::Result<()> {
        self.file.write_all_at(&encode(sequence), 0)
    }

    pub fn sync(&self) -> std::io::Result<()> {
        self.file.sync_data()
    }
}

fn encode(sequence: u64) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..16]);
    bytes[16..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<u64> {
    let sequence = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    (bytes == encode(sequence)).then_some(sequence)
}
