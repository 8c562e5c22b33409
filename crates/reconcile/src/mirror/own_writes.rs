//! Writes of this process that the watch of a mirror has not shown yet.
//!
//! A controller that decides on a copy older than its own write repeats or reverts the write. So the answer of a write
//! is noted in the mirror, and reads show it until the watch has caught up. One rule for every kind of result:
//!
//! - **Created, updated, patched**: the answer is shown until the version of the mirror has reached the version of the
//!   answer. From then on the watch is believed, whatever it shows: the same version, a later one, or no object at all.
//! - **Deleted**: the uid is hidden until the watch has shown that it is gone. A later object of the same name has
//!   another uid and a later version, and is shown. After `HIDDEN_MAX` the watch is believed again, so that a wrong
//!   "not found" costs a repeated request and not a lost object.
//! - **Deletion that waits** for finalizers or a grace period: the answer is the object with a deletionTimestamp, and is
//!   noted like an update. The write that removes the last finalizer is a deletion.
//! - **Refused** (conflict, already exists, invalid): nothing is noted. "Not found" for a known uid is a deletion.
//! - **Unknown** (timeout, lost connection): nothing is noted. Writes are guarded by name, uid or resourceVersion, so
//!   that a repetition of a write that did happen is refused, and the next reconcile decides on what the watch shows.
//!
//! Versions are compared as numbers within one resource of one API. A list older than the mirror means that the API was
//! restored from a backup: all notes are dropped. At most `OWN_WRITES_MAX` are kept; the oldest is dropped first.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::mirror::ObjectKey;
use crate::mirror::kept::{Kept, Known, number};

/// Notes per mirror. A watch that works is a few writes behind; this many means that it is broken.
pub const OWN_WRITES_MAX: usize = 8192;

/// A deleted uid that the watch still shows after this time is shown again.
pub const HIDDEN_MAX: Duration = Duration::from_secs(30);

/// The notes of one mirror.
#[derive(Default)]
pub struct OwnWrites {
    notes: HashMap<ObjectKey, Note>,
    /// Notes whose version the watch has not reached, by version.
    ahead: BTreeSet<(u64, ObjectKey)>,
    /// Deletions, oldest first. Those that have ended are removed from the front.
    deletions: VecDeque<(Instant, ObjectKey)>,
}

struct Note {
    /// The version of the answer; of the last known copy for a deletion.
    version: u64,
    uid: String,
    /// Set for a deletion.
    deleted_at: Option<Instant>,
    /// The object as the watch shows it.
    shown: Option<Shown>,
}

/// An object as the watch shows it.
pub struct Shown {
    pub version: u64,
    pub uid: String,
    pub kept: Kept,
}

impl From<&Known> for Shown {
    fn from(known: &Known) -> Self {
        let (version, uid) = (number(known.tree.resource_version()), known.tree.uid().to_owned());
        Self { version, uid, kept: known.kept.clone() }
    }
}

/// The result of a write.
#[derive(Clone, Copy)]
pub struct Answer<'a> {
    /// The version of the answer; of the last known copy for a deletion.
    pub version: u64,
    pub uid: &'a str,
    pub is_deletion: bool,
}

impl OwnWrites {
    pub fn len(&self) -> usize {
        self.notes.len()
    }

    pub fn has(&self, key: &ObjectKey) -> bool {
        self.notes.contains_key(key)
    }

    pub fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.notes.keys()
    }

    /// Reports whether the answer is news for the readers of this object; `None` if the object has no note.
    pub fn is_news(&self, key: &ObjectKey, answer: Answer<'_>) -> Option<bool> {
        let note = self.notes.get(key)?;
        Some(match note.uid == answer.uid {
            // A deleted uid never comes back, and its deleter may know an older version than the last write.
            true => note.deleted_at.is_none() && (answer.is_deletion || answer.version > note.version),
            // Answers of concurrent writes arrive in any order.
            false => answer.version > note.version,
        })
    }

    /// Adds or replaces the note of an object. `shown` is what the watch shows, if there was no note before.
    pub fn note(&mut self, key: &ObjectKey, answer: Answer<'_>, shown: Option<Shown>) {
        let (version, shown) = match self.notes.remove(key) {
            Some(old) => {
                self.ahead.remove(&(old.version, key.clone()));
                (answer.version.max(old.version), old.shown)
            }
            None => (answer.version, shown),
        };
        let deleted_at = answer.is_deletion.then(Instant::now);
        self.deletions.extend(deleted_at.map(|at| (at, key.clone())));
        self.notes.insert(key.clone(), Note { version, uid: answer.uid.to_owned(), deleted_at, shown });
        self.ahead.insert((version, key.clone()));
    }

    /// Takes what the watch shows of an object that has a note.
    pub fn show(&mut self, key: &ObjectKey, shown: Option<Shown>) {
        if let Some(note) = self.notes.get_mut(key) {
            note.shown = shown;
        }
    }

    /// The objects whose notes may end now that the watch has reached this version and has just shown `changed`.
    pub fn due(&mut self, reached: u64, changed: &[ObjectKey]) -> Vec<ObjectKey> {
        let mut due = Vec::new();
        while self.ahead.first().is_some_and(|(version, _)| *version <= reached) {
            due.extend(self.ahead.pop_first().map(|(_, key)| key));
        }
        let is_reached = |key: &&ObjectKey| self.notes.get(*key).is_some_and(|note| note.version <= reached);
        due.extend(changed.iter().filter(is_reached).cloned());
        while let Some((at, key)) = self.deletions.front() {
            let is_open = self.notes.get(key).is_some_and(|note| note.deleted_at == Some(*at));
            if is_open && at.elapsed() < HIDDEN_MAX {
                break;
            }
            if is_open {
                due.push(key.clone());
            }
            self.deletions.pop_front();
        }
        due
    }

    /// Ends the note of an object if the watch has caught up with it. Returns what the watch shows.
    pub fn end(&mut self, key: &ObjectKey) -> Option<Option<Shown>> {
        let note = self.notes.get(key)?;
        if let (Some(deleted_at), Some(shown)) = (note.deleted_at, &note.shown)
            && note.uid == shown.uid
            && deleted_at.elapsed() < HIDDEN_MAX
        {
            return None;
        }
        self.drop_note(key)
    }

    /// Drops one note if there are too many.
    pub fn drop_excess(&mut self) -> Option<(ObjectKey, Option<Shown>)> {
        if self.notes.len() <= OWN_WRITES_MAX {
            return None;
        }
        let oldest = self.ahead.first().map(|(_, key)| key.clone());
        let open = || self.deletions.iter().map(|(_, key)| key).find(|key| self.notes.contains_key(key)).cloned();
        let key = oldest.or_else(open)?;
        let shown = self.drop_note(&key)?;
        Some((key, shown))
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn drop_note(&mut self, key: &ObjectKey) -> Option<Option<Shown>> {
        let note = self.notes.remove(key)?;
        self.ahead.remove(&(note.version, key.clone()));
        Some(note.shown)
    }
}
