//! Leases of local engines, and the thread that expires them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};
use crate::kv::LeaseId;

/// A longer TTL is practically infinite; the bound prevents overflow.
const TTL_SECONDS_MAX: i64 = 9_000_000_000;

/// A lease as granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub id: LeaseId,
    pub ttl_seconds: i64,
}

#[derive(Default)]
struct Deadlines {
    leases: HashMap<LeaseId, (i64, Instant)>,
    order: BTreeSet<(Instant, LeaseId)>,
    last_id: LeaseId,
    stopped: bool,
}

/// All leases of a store by expiry.
#[derive(Default)]
pub(crate) struct Leases {
    deadlines: Mutex<Deadlines>,
    changed: Condvar,
}

impl Leases {
    /// A new lease that does not run yet; [`Leases::start`] starts it once it is durable.
    pub fn prepare(&self, ttl_seconds: i64) -> Result<Lease> {
        if !(1..=TTL_SECONDS_MAX).contains(&ttl_seconds) {
            return Err(Error::Invalid(format!("a lease of {ttl_seconds} seconds: must be 1 to {TTL_SECONDS_MAX}")));
        }
        let mut deadlines = self.deadlines.lock();
        // Derived from the clock, so that an id from before a restart never refers to another lease.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
        deadlines.last_id = now.max(deadlines.last_id + 1);
        Ok(Lease { id: deadlines.last_id, ttl_seconds })
    }

    pub fn start(&self, lease: Lease) {
        let mut deadlines = self.deadlines.lock();
        let end = Instant::now() + Duration::from_secs(lease.ttl_seconds.unsigned_abs());
        deadlines.last_id = deadlines.last_id.max(lease.id);
        deadlines.leases.insert(lease.id, (lease.ttl_seconds, end));
        deadlines.order.insert((end, lease.id));
        self.changed.notify_one();
    }

    pub fn find(&self, id: LeaseId) -> Option<Lease> {
        self.deadlines.lock().leases.get(&id).map(|(ttl_seconds, _)| Lease { id, ttl_seconds: *ttl_seconds })
    }

    pub fn contains(&self, id: LeaseId) -> bool {
        self.deadlines.lock().leases.contains_key(&id)
    }

    pub fn keep_alive(&self, id: LeaseId) -> Result<()> {
        let mut deadlines = self.deadlines.lock();
        let (ttl, old) = *deadlines.leases.get(&id).ok_or(Error::LeaseNotFound(id))?;
        let end = Instant::now() + Duration::from_secs(ttl.unsigned_abs());
        deadlines.order.remove(&(old, id));
        deadlines.order.insert((end, id));
        deadlines.leases.insert(id, (ttl, end));
        Ok(())
    }

    pub fn remove(&self, id: LeaseId) -> bool {
        let mut deadlines = self.deadlines.lock();
        let Some((_, end)) = deadlines.leases.remove(&id) else { return false };
        deadlines.order.remove(&(end, id));
        true
    }

    /// Stops the thread of [`Leases::expire_in_background`].
    pub fn stop(&self) {
        self.deadlines.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Calls `expire` for each lease that has expired, until stopped. `expire` must remove the lease, or it is called
    /// again after `RETRY`.
    pub fn expire_in_background(
        self: &Arc<Self>,
        mut expire: impl FnMut(LeaseId) + Send + 'static,
    ) -> std::io::Result<()> {
        let leases = self.clone();
        std::thread::Builder::new()
            .name("store-leases".into())
            .spawn(move || {
                while let Some(id) = leases.wait_for_end() {
                    expire(id);
                }
            })
            .map(drop)
    }

    fn wait_for_end(&self) -> Option<LeaseId> {
        /// Delay before a failed expiry is retried.
        const RETRY: Duration = Duration::from_secs(1);
        let mut deadlines = self.deadlines.lock();
        loop {
            if deadlines.stopped {
                return None;
            }
            let Some(&(end, id)) = deadlines.order.first() else {
                self.changed.wait(&mut deadlines);
                continue;
            };
            let now = Instant::now();
            if end > now {
                self.changed.wait_until(&mut deadlines, end);
                continue;
            }
            deadlines.order.remove(&(end, id));
            deadlines.order.insert((now + RETRY, id));
            if let Some(entry) = deadlines.leases.get_mut(&id) {
                entry.1 = now + RETRY;
            }
            return Some(id);
        }
    }
}
