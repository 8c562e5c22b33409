//! What clients asked, what they were told and what they saw, in a log that can be checked afterwards.

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

/// Microseconds since the run began, by one clock for all clients.
pub type Micros = u64;
/// A resourceVersion: here always a revision of the store.
pub type Revision = u64;

/// One state of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    pub revision: Revision,
    /// Every write has a value of its own, so a value names the write it came from.
    pub value: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    Create {
        value: String,
    },
    /// Only on top of the expected revision.
    Update {
        value: String,
        expected: Revision,
    },
    /// On top of whatever is there.
    Patch {
        value: String,
    },
    /// Only what has the expected revision.
    Delete {
        expected: Revision,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// With the revision the answer named; the answer to a deletion names none.
    Acknowledged(Option<Revision>),
    /// It certainly did not happen.
    Refused(u16),
    /// No answer, or one that leaves it open.
    Unknown(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// A watch began after this revision: what comes next is all that happened since.
    From(Revision),
    Put {
        key: String,
        version: Version,
    },
    Gone {
        key: String,
        revision: Revision,
    },
    /// Everything up to here was delivered.
    Bookmark(Revision),
    Ended(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "entry")]
pub enum Entry {
    Write {
        session: String,
        invoked: Micros,
        returned: Micros,
        key: String,
        operation: Operation,
        outcome: Outcome,
    },
    /// A read that was answered.
    Read {
        session: String,
        invoked: Micros,
        returned: Micros,
        key: String,
        found: Option<Version>,
    },
    /// A list of all keys that was answered and asked for the newest state.
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
        seen: Seen,
    },
}

/// Keeps entries in memory and on disk.
pub struct Log {
    start: Instant,
    kept: Mutex<(Vec<Entry>, BufWriter<File>)>,
}

impl Log {
    pub fn create(path: &Path) -> std::io::Result<Self> {
        Ok(Self { start: Instant::now(), kept: Mutex::new((Vec::new(), BufWriter::new(File::create(path)?))) })
    }

    pub fn now(&self) -> Micros {
        u64::try_from(self.start.elapsed().as_micros()).expect("a run is shorter than half a million years")
    }

    pub fn add(&self, entry: Entry) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let line = serde_json::to_string(&entry).expect("entries are plain data");
        writeln!(kept.1, "{line}").expect("the log can be written");
        kept.0.push(entry);
    }

    /// A copy of all there is, with the file brought up to it.
    pub fn entries(&self) -> Vec<Entry> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.1.flush().expect("the log can be written");
        kept.0.clone()
    }
}

/// A log that was written before.
pub fn read(path: &Path) -> std::io::Result<Vec<Entry>> {
    let text = std::fs::read_to_string(path)?;
    text.lines().map(|line| serde_json::from_str(line).map_err(std::io::Error::other)).collect()
}
