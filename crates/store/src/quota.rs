//! The size limit of a store: how much of it is used, and which writes are still admitted.
//!
//! Deletes are always admitted: only they free space, and what they add is smaller than what they free. A part of the limit is
//! reserved for updates that hardly grow their value, because an object with finalizers is deleted by such updates, and because
//! the heartbeats of members are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::kv::KeyValue;
use crate::local::change::Write;

/// The part of the limit that is reserved is one of this many, and at most [`RESERVE_BYTES_MAX`].
const RESERVE_DIVISOR: u64 = 16;
const RESERVE_BYTES_MAX: u64 = 64 << 20;
/// An update that makes its value at most this much longer may use the reserve: a deletion timestamp, a condition, an entry of
/// managed fields.
const GROWTH_BYTES_MAX: usize = 512;
/// Approximate bytes of a row in addition to its key and value.
const ROW_BYTES: u64 = 64;
/// Larger values fill whole pages.
const PAGE_BYTES: u64 = 8192;
/// A store without space for an object of this size is full.
const TYPICAL_BYTES: u64 = 2 * PAGE_BYTES;
const MEBIBYTE: f64 = (1 << 20) as f64;

/// The most that the data of a store may use, in bytes; 0 is no limit. Clones share the value, so that it can be set while the
/// store is open.
#[derive(Clone, Debug, Default)]
pub struct SizeLimit(Arc<AtomicU64>);

impl SizeLimit {
    pub fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The size limit of a store and what counts against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    pub limit_bytes: u64,
    /// Space in use by current and former values; freed space in the file does not count.
    pub used_bytes: u64,
}

impl Quota {
    /// The error for the next write, if an object of usual size has no space.
    pub fn problem(&self) -> Option<Error> {
        let is_full = self.used_bytes + TYPICAL_BYTES > self.limit_bytes - self.reserve();
        is_full.then(|| self.error())
    }

    /// Counts a write, or refuses it.
    pub(crate) fn admit(&mut self, write: &Write, current: Option<&KeyValue>) -> Result<()> {
        let (key, value) = match write {
            Write::Delete { .. } => return Ok(()),
            Write::Create { key, value, .. } | Write::Update { key, value, .. } => (key, value),
        };
        let grows_little = current.is_some_and(|current| value.len() <= current.value.len() + GROWTH_BYTES_MAX);
        let reserved = if grows_little { 0 } else { self.reserve() };
        self.add(row_bytes(key.len() + value.len()), reserved)
    }

    /// Counts a lease, or refuses it: it is granted for a key that has no space either.
    pub(crate) fn admit_lease(&mut self) -> Result<()> {
        self.add(ROW_BYTES, self.reserve())
    }

    fn add(&mut self, bytes: u64, reserved: u64) -> Result<()> {
        if self.used_bytes + bytes > self.limit_bytes - reserved {
            return Err(self.error());
        }
        self.used_bytes += bytes;
        Ok(())
    }

    pub(crate) fn reserve(&self) -> u64 {
        (self.limit_bytes / RESERVE_DIVISOR).min(RESERVE_BYTES_MAX)
    }

    fn error(&self) -> Error {
        // The same text until there is space again: it becomes a condition of an instance.
        let mebibytes = self.limit_bytes as f64 / MEBIBYTE;
        Error::NoSpace(format!("the size limit of {mebibytes:.1} MiB is reached; delete objects or raise the limit"))
    }
}

fn row_bytes(content: usize) -> u64 {
    let bytes = content as u64 + ROW_BYTES;
    if bytes > PAGE_BYTES / 2 { bytes.next_multiple_of(PAGE_BYTES) } else { bytes }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const LIMIT: u64 = 16 << 20;

    fn key_value(length: usize) -> KeyValue {
        let value = Bytes::from(vec![0; length]);
        KeyValue { key: "/k".into(), value, create_revision: 2, mod_revision: 2, lease: None }
    }

    fn update(length: usize) -> Write {
        Write::Update { key: "/k".into(), value: vec![0; length].into(), expected: 2, lease: None }
    }

    #[track_caller]
    fn check(used_bytes: u64, write: &Write, current: Option<usize>, expected: bool) {
        let mut quota = Quota { limit_bytes: LIMIT, used_bytes };
        let admitted = quota.admit(write, current.map(key_value).as_ref());
        assert_eq!(admitted.is_ok(), expected, "{used_bytes} {write:?}");
        assert!(admitted.is_ok() || quota.used_bytes == used_bytes, "a refused write is not counted");
    }

    #[test]
    fn the_reserve_is_for_updates_that_hardly_grow_their_value() {
        let create = Write::Create { key: "/k".into(), value: vec![0; 1000].into(), lease: None };
        let delete = Write::Delete { key: "/k".into(), expected: None };
        let reserve = LIMIT / RESERVE_DIVISOR;
        for (used, creates, updates) in [
            (LIMIT / 2, true, true),
            (LIMIT - reserve - 100, false, true),
            (LIMIT - 2000, false, true),
            (LIMIT - 100, false, false),
            (2 * LIMIT, false, false),
        ] {
            check(used, &create, None, creates);
            check(used, &update(1400), Some(1000), updates);
            check(used, &update(1600), Some(1000), creates);
            check(used, &delete, Some(1000), true);
        }
    }

    #[test]
    fn writes_of_one_transaction_add_up() {
        let mut quota = Quota { limit_bytes: LIMIT, used_bytes: 0 };
        let admitted = (0..).take_while(|_| quota.admit(&update(1 << 20), None).is_ok()).count();
        assert_eq!(admitted, 14);
        assert!(quota.admit_lease().is_ok() && quota.problem().is_none(), "small objects have space");
    }

    #[test]
    fn the_error_names_the_limit() {
        let quota = Quota { limit_bytes: LIMIT, used_bytes: 20 << 20 };
        let text = quota.problem().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains("the size limit of 16.0 MiB is reached"), "{text}");
    }
}
