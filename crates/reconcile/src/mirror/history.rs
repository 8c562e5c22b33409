//! The recent changes of a mirror, for those who follow it from a version of its API on.

use std::collections::VecDeque;
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::watch;

use crate::mirror::store::Kept;
use crate::mirror::{ObjectKey, Shared};

/// Changes that are remembered: so many, and one more for every few objects there are, since many objects change often.
pub const STEPS_MIN: usize = 100;
const OBJECTS_PER_STEP: usize = 8;
pub const STEPS_MAX: usize = 4096;

/// What the objects of remembered changes may take; the newest change is remembered whatever it takes.
pub const STEPS_BYTES_MAX: usize = 4 << 20;

/// Changes a follower takes at once under the lock.
const STEPS_AT_ONCE: usize = 256;

/// What became of one object at one time. Nothing is left out between two steps.
#[derive(Clone)]
pub struct Step {
    pub key: ObjectKey,
    pub before: Option<Kept>,
    /// `None` when it is gone.
    pub now: Option<Kept>,
    /// The version of the API the change made.
    pub version: u64,
}

/// The changes asked for are no longer remembered: everything must be read again.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("too old resource version: {asked} ({oldest})")]
pub struct TooOld {
    pub asked: u64,
    pub oldest: u64,
}

/// Steps in order, numbered from the first there ever was.
pub struct History {
    steps: VecDeque<Step>,
    /// The number of the first step that is kept.
    first: u64,
    bytes: usize,
    /// Whoever has seen this version or a later one can be told of everything since.
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
    /// `objects` is how many there are.
    pub fn record(&mut self, step: Step, objects: usize) {
        let steps_max = (STEPS_MIN + objects / OBJECTS_PER_STEP).min(STEPS_MAX);
        self.newest = self.newest.max(step.version);
        self.bytes += size(&step);
        // Versions only grow; one that is no number counts as the newest.
        self.steps.push_back(Step { version: self.newest, ..step });
        while self.steps.len() > steps_max || (self.bytes > STEPS_BYTES_MAX && self.steps.len() > 1) {
            self.forget_oldest();
        }
    }

    /// Everything was read at this version. Before the first reading nothing is known, and after one from the past, as a
    /// restored API gives it, nothing that was known counts.
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

    /// Lets followers look: something happened, or nothing will any more.
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

    fn from(&self, number: u64) -> Result<Vec<Step>, TooOld> {
        let Some(skipped) = number.checked_sub(self.first) else {
            return Err(TooOld { asked: self.oldest.saturating_sub(1), oldest: self.oldest });
        };
        Ok(self.steps.iter().skip(skipped as usize).take(STEPS_AT_ONCE).cloned().collect())
    }
}

fn size(step: &Step) -> usize {
    step.now.as_ref().or(step.before.as_ref()).map_or(0, Kept::size)
}

/// A place in the history of a mirror.
pub struct Follower {
    shared: Arc<Shared>,
    /// The number of the next step.
    next: u64,
    /// Steps up to this version were seen elsewhere.
    beyond: u64,
    /// The version that was told last.
    told: String,
    wake: watch::Receiver<()>,
}

/// What a follower is told.
pub struct Progress {
    pub steps: Vec<Step>,
    /// The version of the API up to which everything has been told with this; `None` while more is to come.
    pub version: Option<String>,
}

impl Follower {
    /// Tells of everything that happens from now on.
    pub(super) fn from_now(shared: &Arc<Shared>) -> Self {
        let store = shared.store.read();
        let history = store.history();
        Self::new(shared, history, history.end(), 0, store.version())
    }

    fn new(shared: &Arc<Shared>, history: &History, next: u64, beyond: u64, told: &str) -> Self {
        let wake = history.wake.subscribe();
        Self { shared: Arc::clone(shared), next, beyond, told: told.to_owned(), wake }
    }

    /// Tells of everything after a version. One that the mirror has yet to reach is waited for.
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

    /// Waits for steps, or for the API to say that there were none; `None` once the mirror has ended and all was told.
    pub async fn next(&mut self) -> Result<Option<Progress>, TooOld> {
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

    /// What can be told at once.
    fn take(&mut self) -> Result<Option<Progress>, TooOld> {
        let store = self.shared.store.read();
        loop {
            let mut steps = store.history().from(self.next)?;
            self.next += steps.len() as u64;
            steps.retain(|step| step.version > self.beyond);
            let is_all = self.next == store.history().end();
            let version = (is_all && self.told != store.version()).then(|| store.version().to_owned());
            if let Some(version) = &version {
                version.clone_into(&mut self.told);
            }
            if !steps.is_empty() || version.is_some() {
                return Ok(Some(Progress { steps, version }));
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

    fn step(name: &str, version: u64, bytes: usize) -> Step {
        let mut object = Object::new(&GroupVersionKind::new("", "v1", "ConfigMap"), Some("a"), name);
        object.set(&["data"], "x".repeat(bytes));
        let now = Some(Kept::Packed(Packed::plain(object.encode()), Weak::new()));
        Step { key: ObjectKey::new("a", name), before: None, now, version }
    }

    fn told(history: &History, number: u64) -> Result<Vec<u64>, TooOld> {
        Ok(history.from(number)?.iter().map(|step| step.version).collect())
    }

    #[test]
    fn what_is_too_much_is_forgotten_from_the_oldest_on() {
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
        assert_eq!(told(&history, 0), Err(TooOld { asked: 10, oldest: 11 }));
        history.record(step("large", 5001, STEPS_BYTES_MAX + 1), OBJECTS_PER_STEP);
        assert_eq!(told(&history, history.first), Ok(vec![5001]), "the newest is kept whatever it takes");
        assert_eq!(history.oldest, 5000);
    }

    #[test]
    fn an_api_that_was_set_back_starts_a_new_history() {
        let mut history = History::default();
        history.read_at(10, true);
        history.record(step("x", 12, 1), 1);
        history.read_at(20, false);
        assert_eq!((told(&history, 0), history.oldest), (Ok(vec![12]), 10), "a later list takes nothing away");
        history.read_at(5, false);
        assert_eq!((history.steps.len(), history.first, history.oldest, history.newest), (0, 1, 5, 5));
    }
}
