//! The recent changes of a mirror, for followers that start from a version.

use std::collections::VecDeque;
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::watch;

use crate::mirror::kept::Kept;
use crate::mirror::{ObjectKey, Shared};

/// Recorded changes: this many, plus one for every few objects, since more objects change more often.
pub const STEPS_MIN: usize = 100;
const OBJECTS_PER_STEP: usize = 8;
pub const STEPS_MAX: usize = 4096;

/// Maximum total size of the objects in recorded changes; the newest change is always kept.
pub const STEPS_BYTES_MAX: usize = 4 << 20;

/// Changes a follower takes per lock acquisition.
const STEPS_AT_ONCE: usize = 256;

/// One change of one object. No intermediate change is skipped.
#[derive(Clone)]
pub struct RecordedChange {
    pub key: ObjectKey,
    pub before: Option<Kept>,
    /// `None` if it was deleted.
    pub now: Option<Kept>,
    /// The version of the API after the change.
    pub version: u64,
}

/// The requested changes are no longer recorded: list again.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("too old resource version: {asked} ({oldest})")]
pub struct TooOld {
    pub asked: u64,
    pub oldest: u64,
}

/// Changes in order, numbered from the first one ever.
pub struct History {
    steps: VecDeque<RecordedChange>,
    /// The number of the first change that is kept.
    first: u64,
    bytes: usize,
    /// A follower at this version or later can be served all changes since.
    oldest: u64,
    newest: u64,
    wake: watch::Sender<()>,
}

impl Default for History {
    fn default() -> Self {
        let wake = watch::Sender::new(());
        Self { steps: VecDeque::new(), first: 0, bytes: 0, oldest: 0, newest: 0, wake }
    }
}

impl History {
    /// `objects` is the current number of objects.
    pub fn record(&mut self, step: RecordedChange, objects: usize) {
        let steps_max = (STEPS_MIN + objects / OBJECTS_PER_STEP).min(STEPS_MAX);
        self.newest = self.newest.max(step.version);
        self.bytes += size(&step);
        // Versions only grow; a non-numeric one counts as the newest.
        self.steps.push_back(RecordedChange { version: self.newest, ..step });
        while self.steps.len() > steps_max || (self.bytes > STEPS_BYTES_MAX && self.steps.len() > 1) {
            self.forget_oldest();
        }
    }

    /// Records a full list at this version. Before the first list there is no history, and after a list from the
    /// past, as from a restored API, the earlier history is void.
    pub fn read_at(&mut self, version: u64, is_first: bool) {
        if is_first || version < self.newest {
            while !self.steps.is_empty() {
                self.forget_oldest();
            }
            self.oldest = version;
            self.newest = version;
        }
        self.newest = self.newest.max(version);
    }

    /// Wakes followers: there are changes, or the mirror was closed.
    pub fn wake(&self) {
        self.wake.send_replace(());
    }

    fn forget_oldest(&mut self) {
        let Some(step) = self.steps.pop_front() else { return };
        self.first += 1;
        self.bytes -= size(&step);
        self.oldest = step.version;
    }

    fn end(&self) -> u64 {
        self.first + self.steps.len() as u64
    }

    fn from(&self, number: u64) -> Result<Vec<RecordedChange>, TooOld> {
        let Some(skipped) = number.checked_sub(self.first) else {
            return Err(TooOld { asked: self.oldest.saturating_sub(1), oldest: self.oldest });
        };
        Ok(self.steps.iter().skip(skipped as usize).take(STEPS_AT_ONCE).cloned().collect())
    }
}

fn size(step: &RecordedChange) -> usize {
    step.now.as_ref().or(step.before.as_ref()).map_or(0, Kept::size)
}

/// A position in the history of a mirror.
pub struct Follower {
    shared: Arc<Shared>,
    /// The number of the next change.
    next: u64,
    /// Changes up to this version were seen elsewhere.
    beyond: u64,
    /// The last version delivered.
    delivered_version: String,
    wake: watch::Receiver<()>,
}

/// A batch of changes for a follower.
pub struct ChangeBatch {
    pub steps: Vec<RecordedChange>,
    /// The version of the API that these changes complete; `None` while more follow.
    pub version: Option<String>,
}

impl Follower {
    /// Follows everything from now on.
    pub(super) fn from_now(shared: &Arc<Shared>) -> Self {
        let store = shared.store.read();
        let history = store.history();
        Self::new(shared, history, history.end(), 0, store.version())
    }

    fn new(shared: &Arc<Shared>, history: &History, next: u64, beyond: u64, delivered_version: &str) -> Self {
        let wake = history.wake.subscribe();
        Self { shared: Arc::clone(shared), next, beyond, delivered_version: delivered_version.to_owned(), wake }
    }

    /// Follows everything after a version. Waits for a version that the mirror has yet to reach.
    pub(super) fn after(shared: &Arc<Shared>, version: u64) -> Result<Self, TooOld> {
        let store = shared.store.read();
        let history = store.history();
        if version < history.oldest {
            return Err(TooOld { asked: version, oldest: history.oldest });
        }
        let seen = history.steps.partition_point(|step| step.version <= version);
        let next = history.first + seen as u64;
        Ok(Self::new(shared, history, next, version, ""))
    }

    /// Waits for changes, or for a new version without changes; `None` once the mirror has ended and all was
    /// delivered.
    pub async fn next(&mut self) -> Result<Option<ChangeBatch>, TooOld> {
        loop {
            self.wake.mark_unchanged();
            if let Some(progress) = self.take()? {
                return Ok(Some(progress));
            }
            let is_closed = self.shared.store.read().is_closed();
            if is_closed || self.wake.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    /// Changes that are available now.
    fn take(&mut self) -> Result<Option<ChangeBatch>, TooOld> {
        let store = self.shared.store.read();
        loop {
            let mut steps = store.history().from(self.next)?;
            self.next += steps.len() as u64;
            steps.retain(|step| step.version > self.beyond);
            let is_all = self.next == store.history().end();
            let version = (is_all && self.delivered_version != store.version()).then(|| store.version().to_owned());
            if let Some(version) = &version {
                version.clone_into(&mut self.delivered_version);
            }
            if !steps.is_empty() || version.is_some() {
                return Ok(Some(ChangeBatch { steps, version }));
            }
            if is_all {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use object::{GroupVersionKind, Object};
    use packing::Packed;

    use super::*;

    fn step(name: &str, version: u64, bytes: usize) -> RecordedChange {
        let mut object = Object::new(&GroupVersionKind::new("", "v1", "ConfigMap"), Some("a"), name);
        object.set(&["data"], "x".repeat(bytes));
        let now = Some(Kept::Packed(Packed::plain(object.encode()), Weak::new()));
        RecordedChange { key: ObjectKey::new("a", name), before: None, now, version }
    }

    fn versions_from(history: &History, number: u64) -> Result<Vec<u64>, TooOld> {
        Ok(history.from(number)?.iter().map(|step| step.version).collect())
    }

    #[test]
    fn the_oldest_changes_are_dropped_first() {
        let mut history = History::default();
        history.read_at(10, true);
        for version in 11..11 + STEPS_MIN as u64 {
            history.record(step("x", version, 1), 0);
        }
        assert_eq!((history.first, history.oldest), (0, 10));
        history.record(step("x", 4999, 1), OBJECTS_PER_STEP);
        assert_eq!((history.first, history.oldest), (0, 10), "more objects, more history");
        history.record(step("x", 5000, 1), OBJECTS_PER_STEP);
        assert_eq!((history.first, history.oldest), (1, 11));
        assert_eq!(versions_from(&history, 0), Err(TooOld { asked: 10, oldest: 11 }));
        history.record(step("large", 5001, STEPS_BYTES_MAX + 1), OBJECTS_PER_STEP);
        assert_eq!(versions_from(&history, history.first), Ok(vec![5001]), "the newest is always kept");
        assert_eq!(history.oldest, 5000);
    }

    #[test]
    fn an_api_restored_to_an_earlier_version_starts_a_new_history() {
        let mut history = History::default();
        history.read_at(10, true);
        history.record(step("x", 12, 1), 1);
        history.read_at(20, false);
        assert_eq!((versions_from(&history, 0), history.oldest), (Ok(vec![12]), 10), "a later list drops nothing");
        history.read_at(5, false);
        assert_eq!((history.steps.len(), history.first, history.oldest, history.newest), (0, 1, 5, 5));
    }
}
