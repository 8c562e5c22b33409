//! Background maintenance that must not delay writers: checkpoints, compaction, sweeping, probing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::embedded::ack::AckFile;
use crate::embedded::batch::Request;
use crate::embedded::fault::Aftermath;
use crate::error::{Error, Result};
use crate::local::{Local, Retention};
use crate::quota::{Quota, SizeLimit};

const TICK: Duration = Duration::from_millis(250);
/// Interval between probes of a failing disk.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Log size that is checkpointed without waiting for an idle moment.
const CHECKPOINT_BYTES: u64 = 8 << 20;
/// Log length from which the writer completes a checkpoint.
const LOG_FRAMES_MAX: i64 = 4096;
/// The part of the size limit that former versions may have is one of this many.
const HISTORY_DIVISOR: u64 = 4;
/// Age up to which former versions are kept in a full store, so that deletes and updates soon free the space of what they replace.
const FULL_AGE: Duration = Duration::from_secs(30);

#[derive(Clone)]
enum Health {
    Good,
    Failing(Error),
    Stopped(Error),
}

/// State shared by the writer and the housekeeper.
pub(crate) struct Shared {
    health: Mutex<Health>,
    stopping: Mutex<bool>,
    wake: Condvar,
    /// Approximate bytes written to the log since the last checkpoint.
    log_bytes: AtomicU64,
    commits: AtomicU64,
    doomed: AtomicUsize,
    checkpoint_duty: AtomicBool,
    used_bytes: AtomicU64,
    /// The size limit is reached.
    is_full: AtomicBool,
}

impl Shared {
    pub fn new(doomed: usize, used_bytes: u64) -> Self {
        Shared {
            health: Mutex::new(Health::Good),
            stopping: Mutex::new(false),
            wake: Condvar::new(),
            log_bytes: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            doomed: AtomicUsize::new(doomed),
            checkpoint_duty: AtomicBool::new(false),
            used_bytes: AtomicU64::new(used_bytes),
            is_full: AtomicBool::new(false),
        }
    }

    pub fn health(&self) -> Result<()> {
        match &*self.health.lock() {
            Health::Good => Ok(()),
            Health::Failing(error) | Health::Stopped(error) => Err(error.clone()),
        }
    }

    /// The reason why writes are stopped, if they are.
    pub fn stopped(&self) -> Option<Error> {
        match &*self.health.lock() {
            Health::Stopped(error) => Some(error.clone()),
            _ => None,
        }
    }

    pub fn failed(&self, error: Error, aftermath: Aftermath) {
        let mut health = self.health.lock();
        let first = matches!(*health, Health::Good);
        *health = match aftermath {
            Aftermath::Retry => {
                if first {
                    tracing::error!(%error, "no space left; refusing writes until space is available");
                }
                Health::Failing(error)
            }
            Aftermath::Stop => {
                tracing::error!(%error, "the store refuses all further writes until it is restarted");
                Health::Stopped(error)
            }
        };
    }

    pub fn committed(&self, bytes: usize, doomed: usize) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.doomed.store(doomed, Ordering::Relaxed);
        {
            let mut health = self.health.lock();
            if matches!(*health, Health::Failing(_)) {
                tracing::info!("the store accepts writes again");
                *health = Health::Good;
            }
        }
        if self.log_bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64 >= CHECKPOINT_BYTES {
            self.wake.notify_one();
        }
    }

    /// Records the space in use after a transaction.
    pub fn measured(&self, used_bytes: u64, limit: &SizeLimit) {
        self.used_bytes.store(used_bytes, Ordering::Relaxed);
        let problem = self.quota(limit).and_then(|quota| quota.problem());
        let was_full = self.is_full.swap(problem.is_some(), Ordering::Relaxed);
        match problem {
            Some(error) if !was_full => tracing::warn!(%error, "refusing writes that need space"),
            None if was_full => tracing::info!("the store is below its size limit again"),
            _ => {}
        }
    }

    pub fn quota(&self, limit: &SizeLimit) -> Option<Quota> {
        let limit_bytes = limit.bytes();
        (limit_bytes > 0).then(|| Quota { limit_bytes, used_bytes: self.used_bytes.load(Ordering::Relaxed) })
    }

    pub fn take_checkpoint_duty(&self) -> bool {
        self.checkpoint_duty.load(Ordering::Relaxed) && self.checkpoint_duty.swap(false, Ordering::Relaxed)
    }

    pub fn stop(&self) {
        *self.stopping.lock() = true;
        self.wake.notify_all();
    }

    /// Returns `false` on shutdown.
    fn wait(&self) -> bool {
        let mut stopping = self.stopping.lock();
        if !*stopping && self.log_bytes.load(Ordering::Relaxed) < CHECKPOINT_BYTES {
            self.wake.wait_for(&mut stopping, TICK);
        }
        !*stopping
    }
}

pub(crate) struct Housekeeper {
    pub connection: Connection,
    pub shared: Arc<Shared>,
    pub local: Arc<Local>,
    pub retention: Retention,
    pub size_limit: SizeLimit,
    pub ack: Arc<AckFile>,
    pub requests: mpsc::WeakSender<Request>,
}

impl Housekeeper {
    pub fn run(self) {
        let mut commits = 0;
        let mut probed = Instant::now();
        let mut synced = 0;
        while self.shared.wait() {
            let now = self.shared.commits.load(Ordering::Relaxed);
            let idle = std::mem::replace(&mut commits, now) == now;
            let log_bytes = self.shared.log_bytes.load(Ordering::Relaxed);
            if log_bytes >= CHECKPOINT_BYTES || (idle && log_bytes > 0) {
                // While the writer is busy a checkpoint never catches up entirely and the log would grow without
                // bound. From some length on the writer does the small rest, after which the log restarts from its
                // beginning.
                if checkpoint(&self.connection, &self.shared) > LOG_FRAMES_MAX {
                    self.shared.checkpoint_duty.store(true, Ordering::Relaxed);
                }
            }
            if idle && synced != now && self.ack.sync().is_ok() {
                synced = now;
            }
            if let Some(revision) = self.local.expired(&self.retention(), Instant::now()) {
                let (reply, _) = oneshot::channel();
                self.ask(Request::Compact { revision, reply });
            }
            let failing = self.shared.health().is_err() && probed.elapsed() >= PROBE_EVERY;
            if failing || (idle && self.shared.doomed.load(Ordering::Relaxed) > 0) {
                probed = Instant::now();
                self.ask(Request::Sweep);
            }
        }
    }

    /// Former versions count against the size limit too.
    fn retention(&self) -> Retention {
        let Retention { age, events, bytes } = self.retention;
        let Some(quota) = self.shared.quota(&self.size_limit).filter(|_| age < Duration::MAX) else {
            return self.retention;
        };
        let (age, most) = match quota.problem() {
            // Updates that use the reserve need it for one another.
            Some(_) => (age.min(FULL_AGE), quota.reserve() / 2),
            None => (age, quota.limit_bytes / HISTORY_DIVISOR),
        };
        Retention { age, events, bytes: bytes.min(usize::try_from(most).unwrap_or(usize::MAX)) }
    }

    /// Never blocks: if the queue is full, the next tick retries.
    fn ask(&self, request: Request) {
        if let Some(requests) = self.requests.upgrade() {
            requests.try_send(request).ok();
        }
    }
}

/// Moves the log into the database without blocking the writer. Returns the length of the log in frames.
pub(crate) fn checkpoint(connection: &Connection, shared: &Shared) -> i64 {
    let bytes = shared.log_bytes.swap(0, Ordering::Relaxed);
    match connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1)) {
        Ok(frames) => frames,
        Err(error) => {
            // On a full disk the log stays, readable and durable, until there is space.
            tracing::debug!(%error, "checkpoint postponed");
            shared.log_bytes.fetch_add(bytes.min(CHECKPOINT_BYTES - 1), Ordering::Relaxed);
            0
        }
    }
}
