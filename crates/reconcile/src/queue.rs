//! A work queue: each key at most once, never given to two workers, retried with backoff.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::QueueMetrics;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backoff::{Backoff, KEY_BACKOFF};

/// Waiting keys before `add` blocks its caller.
pub const KEYS_WAITING_MAX: usize = 100_000;

/// Higher goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(pub i32);

impl Priority {
    /// For existing objects at startup: must not delay current changes.
    pub const LOW: Self = Self(-100);
    pub const NORMAL: Self = Self(0);
    pub const HIGH: Self = Self(100);
}

/// A work queue. Shared by reference; every method takes `&self`.
pub struct WorkQueue<K> {
    state: Mutex<State<K>>,
    backoff: Backoff,
    keys_waiting_max: usize,
    /// A key is ready, a delay changed, or the queue is shut down.
    wake: Notify,
    /// A key was taken: there is space for another.
    space_freed: Notify,
    counters: Counters,
    metrics: Option<QueueMetrics>,
}

struct State<K> {
    /// Ready keys in order of delivery.
    ready: BTreeMap<(Reverse<Priority>, u64), K>,
    keys: HashMap<K, KeyState>,
    /// Keys that become ready later.
    delayed: BTreeMap<(Instant, u64), (K, Priority)>,
    delayed_at: HashMap<K, (Instant, u64)>,
    failures: HashMap<K, u32>,
    sequence: u64,
    is_shut: bool,
}

#[derive(Clone, Copy)]
enum KeyState {
    Ready {
        priority: Priority,
        sequence: u64,
        since: Instant,
    },
    /// A worker is processing it.
    Taken,
    /// A worker is processing it and it was added again.
    TakenAndDue {
        priority: Priority,
    },
}

#[derive(Default)]
struct Counters {
    adds: AtomicU64,
    retries: AtomicU64,
    taken: AtomicU64,
}

/// Counters for `/metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    pub adds: u64,
    pub retries: u64,
    pub taken: u64,
    pub ready: usize,
    pub delayed: usize,
    pub in_work: usize,
}

impl<K: Clone + Eq + Hash> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new(KEY_BACKOFF, KEYS_WAITING_MAX)
    }
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    pub fn new(backoff: Backoff, keys_waiting_max: usize) -> Self {
        let state = State {
            ready: BTreeMap::new(),
            keys: HashMap::new(),
            delayed: BTreeMap::new(),
            delayed_at: HashMap::new(),
            failures: HashMap::new(),
            sequence: 0,
            is_shut: false,
        };
        Self {
            state: Mutex::new(state),
            backoff,
            keys_waiting_max,
            wake: Notify::new(),
            space_freed: Notify::new(),
            counters: Counters::default(),
            metrics: None,
        }
    }

    /// Reports metrics.
    pub fn observed_by(mut self, metrics: QueueMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Adds a key, or raises the priority of a waiting one. Blocks while too many keys wait.
    pub async fn add(&self, key: K, priority: Priority) {
        loop {
            let space_freed = self.space_freed.notified();
            tokio::pin!(space_freed);
            // Registered before the check, so that space freed in between is not missed.
            space_freed.as_mut().enable();
            if self.may_add(&key) {
                break;
            }
            space_freed.await;
        }
        self.add_now(key, priority);
    }

    /// Adds a key regardless of the limit: for keys added by the workers themselves.
    pub fn add_now(&self, key: K, priority: Priority) {
        let mut state = self.state.lock();
        if state.is_shut {
            return;
        }
        self.counters.adds.fetch_add(1, Ordering::Relaxed);
        let waiting = state.ready.len();
        state.make_ready(key, priority);
        self.observe_depth(waiting, &state);
        if let Some(metrics) = &self.metrics {
            metrics.adds.add(1);
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Adds the key later. A key that is already waiting gets the earlier of both times.
    pub fn add_after(&self, key: K, wait: Duration, priority: Priority) {
        if wait.is_zero() {
            return self.add_now(key, priority);
        }
        let mut state = self.state.lock();
        if state.is_shut {
            return;
        }
        state.delay(key, Instant::now() + wait, priority);
        drop(state);
        self.wake.notify_one();
    }

    /// Adds the key after a delay that doubles each time, until `forget`.
    pub fn add_failed(&self, key: K, priority: Priority) -> Duration {
        self.counters.retries.fetch_add(1, Ordering::Relaxed);
        if let Some(metrics) = &self.metrics {
            metrics.retries.add(1);
        }
        let failures = {
            let mut state = self.state.lock();
            let failures = state.failures.entry(key.clone()).or_insert(0);
            *failures += 1;
            *failures
        };
        let wait = self.backoff.wait(failures - 1);
        self.add_after(key, wait, priority);
        wait
    }

    /// Resets the key's backoff.
    pub fn forget(&self, key: &K) {
        self.state.lock().failures.remove(key);
    }

    pub fn failures(&self, key: &K) -> u32 {
        self.state.lock().failures.get(key).copied().unwrap_or(0)
    }

    /// The next key, which belongs to the caller until `done`. `None` once the queue is shut down.
    pub async fn next(&self) -> Option<K> {
        loop {
            let wake = self.wake.notified();
            tokio::pin!(wake);
            wake.as_mut().enable();
            let next_due = {
                let mut state = self.state.lock();
                if state.is_shut {
                    return None;
                }
                let waiting = state.ready.len();
                state.promote_due(Instant::now());
                let taken = state.take();
                self.observe_depth(waiting, &state);
                if let Some((key, since)) = taken {
                    if let Some(metrics) = &self.metrics {
                        metrics.queue_time.observe(since.elapsed());
                    }
                    // One wakeup may stand for several keys.
                    if !state.ready.is_empty() {
                        self.wake.notify_one();
                    }
                    self.counters.taken.fetch_add(1, Ordering::Relaxed);
                    self.space_freed.notify_one();
                    return Some(key);
                }
                state.delayed.keys().next().map(|(at, _)| *at)
            };
            match next_due {
                None => wake.await,
                Some(at) => {
                    tokio::select! {
                        () = wake => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
            }
        }
    }

    /// Returns the key. If it was added again meanwhile it is ready now.
    pub fn done(&self, key: &K) {
        let mut state = self.state.lock();
        if let Some(KeyState::TakenAndDue { priority }) = state.keys.remove(key) {
            let waiting = state.ready.len();
            state.make_ready(key.clone(), priority);
            self.observe_depth(waiting, &state);
            drop(state);
            self.wake.notify_one();
        }
    }

    /// No more keys are delivered; callers waiting for a key or for space return.
    pub fn shut_down(&self) {
        let mut state = self.state.lock();
        let is_first = !std::mem::replace(&mut state.is_shut, true);
        if let (true, Some(metrics)) = (is_first, &self.metrics) {
            // Other queues may report under the same name; keys waiting here no longer count.
            metrics.depth.add(-(state.ready.len() as f64));
        }
        drop(state);
        self.wake.notify_waiters();
        self.space_freed.notify_waiters();
    }

    pub fn counts(&self) -> QueueCounts {
        let state = self.state.lock();
        QueueCounts {
            adds: self.counters.adds.load(Ordering::Relaxed),
            retries: self.counters.retries.load(Ordering::Relaxed),
            taken: self.counters.taken.load(Ordering::Relaxed),
            ready: state.ready.len(),
            delayed: state.delayed.len(),
            in_work: state.keys.len() - state.ready.len(),
        }
    }

    /// Queues of the same name are counted together, so the difference is reported.
    fn observe_depth(&self, before: usize, state: &State<K>) {
        let now = state.ready.len();
        if let (Some(metrics), true) = (&self.metrics, before != now) {
            metrics.depth.add(now as f64 - before as f64);
        }
    }

    fn may_add(&self, key: &K) -> bool {
        let state = self.state.lock();
        state.is_shut || state.ready.len() < self.keys_waiting_max || state.keys.contains_key(key)
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn make_ready(&mut self, key: K, priority: Priority) {
        // It is ready now, so its delayed entry is dropped.
        if let Some(at) = self.delayed_at.remove(&key) {
            self.delayed.remove(&at);
        }
        let place = match self.keys.get(&key).copied() {
            Some(KeyState::Ready { priority: old, .. }) if old >= priority => return,
            Some(KeyState::Ready { priority: old, sequence, since }) => {
                self.ready.remove(&(Reverse(old), sequence));
                self.enqueue(key.clone(), priority, since)
            }
            Some(KeyState::Taken) => KeyState::TakenAndDue { priority },
            Some(KeyState::TakenAndDue { priority: old }) => KeyState::TakenAndDue { priority: old.max(priority) },
            None => self.enqueue(key.clone(), priority, Instant::now()),
        };
        self.keys.insert(key, place);
    }

    fn enqueue(&mut self, key: K, priority: Priority, since: Instant) -> KeyState {
        self.sequence += 1;
        self.ready.insert((Reverse(priority), self.sequence), key);
        KeyState::Ready { priority, sequence: self.sequence, since }
    }

    fn delay(&mut self, key: K, at: Instant, priority: Priority) {
        if let Some(KeyState::Ready { .. }) = self.keys.get(&key) {
            return;
        }
        match self.delayed_at.get(&key) {
            Some((earlier, _)) if *earlier <= at => return,
            Some(later) => drop(self.delayed.remove(later)),
            None => {}
        }
        self.sequence += 1;
        self.delayed_at.insert(key.clone(), (at, self.sequence));
        self.delayed.insert((at, self.sequence), (key, priority));
    }

    fn promote_due(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let (key, priority) = entry.remove();
            self.delayed_at.remove(&key);
            self.make_ready(key, priority);
        }
    }

    /// The next key, and since when it was ready.
    fn take(&mut self) -> Option<(K, Instant)> {
        let (_, key) = self.ready.pop_first()?;
        match self.keys.insert(key.clone(), KeyState::Taken) {
            Some(KeyState::Ready { since, .. }) => Some((key, since)),
            _ => Some((key, Instant::now())),
        }
    }
}
