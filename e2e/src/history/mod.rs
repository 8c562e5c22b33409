//! A log of client requests, responses and watch events that can be checked afterwards.

pub mod applied;
#[cfg(test)]
mod tests;
pub mod writes;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Microseconds since the start of the run, by one clock for all clients.
pub type Micros = u64;
/// A resourceVersion, which is always a revision of the store here.
pub type Revision = u64;

/// One state of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    pub revision: Revision,
    /// Values are unique, so a value identifies its write.
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    Create {
        value: String,
    },
    /// Conditional on the expected revision.
    Update {
        value: String,
        expected: Revision,
    },
    /// Unconditional.
    Patch {
        value: String,
    },
    /// Conditional on the expected revision.
    Delete {
        expected: Revision,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteOutcome {
    /// With the revision in the response; a delete response has none.
    Acknowledged(Option<Revision>),
    /// It certainly did not happen.
    Unsupported(u16),
    /// No response, or one that leaves the result open.
    Unknown(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WatchRecord {
    /// A watch started after this revision: all later events follow.
    From(Revision),
    Put {
        key: String,
        version: Version,
    },
    Gone {
        key: String,
        revision: Revision,
    },
    /// All events up to here were delivered.
    Bookmark(Revision),
    Ended(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "entry")]
pub enum HistoryEntry {
    Write {
        session: String,
        invoked: Micros,
        returned: Micros,
        key: String,
        operation: Operation,
        outcome: WriteOutcome,
    },
    /// A successful read.
    Read {
        session: String,
        invoked: Micros,
        returned: Micros,
        key: String,
        found: Option<Version>,
    },
    /// A successful list of all keys at the newest revision.
    List {
        session: String,
        invoked: Micros,
        returned: Micros,
        revision: Revision,
        items: BTreeMap<String, Version>,
    },
    Watch {
        watcher: String,
        at: Micros,
        seen: WatchRecord,
    },
}

/// Keeps entries in memory and on disk.
pub struct HistoryLog {
    start: Instant,
    kept: Mutex<(Vec<HistoryEntry>, BufWriter<File>)>,
}

impl HistoryLog {
    pub fn create(path: &Path) -> std::io::Result<Self> {
        Ok(Self { start: Instant::now(), kept: Mutex::new((Vec::new(), BufWriter::new(File::create(path)?))) })
    }

    pub fn now(&self) -> Micros {
        u64::try_from(self.start.elapsed().as_micros()).expect("a run is shorter than half a million years")
    }

    pub fn add(&self, entry: HistoryEntry) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let line = serde_json::to_string(&entry).expect("entries are plain data");
        writeln!(kept.1, "{line}").expect("the log can be written");
        kept.0.push(entry);
    }

    /// Returns a copy of all entries and flushes the file.
    pub fn entries(&self) -> Vec<HistoryEntry> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.1.flush().expect("the log can be written");
        kept.0.clone()
    }
}

/// Reads a log from a file.
pub fn read(path: &Path) -> std::io::Result<Vec<HistoryEntry>> {
    let text = std::fs::read_to_string(path)?;
    text.lines().map(|line| serde_json::from_str(line).map_err(std::io::Error::other)).collect()
}
