//! Compressed parts of lists, kept so that the next list of the same objects sends them as they are.
//!
//! A part stands for the entries it was made of: a changed object is another entry, so a part is never out of date. A part is
//! kept from the second list on that has it, since most lists are read once.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use flate2::Crc;
use parking_lot::Mutex;

use crate::cache::Entry;

/// Bytes of all kept parts.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// Bytes that are kept after the bound was reached, so that a server at its bound does not look for old parts each time.
const KEPT_BYTES_AFTER: usize = KEPT_BYTES_MAX / 4 * 3;
/// Parts that were seen once and are not kept yet.
const SEEN_MAX: usize = 16 << 10;
/// Rounds of housekeeping for which an unused part is kept: about five minutes.
const UNUSED_ROUNDS_MAX: u64 = 10;
/// Memory of a kept part in addition to its content.
const PART_OVERHEAD_BYTES: usize = 256;

/// A compressed part of a list with the checksum of its plain form.
pub struct Part {
    /// Deflate blocks that refer to nothing before them and end at a byte boundary.
    pub deflated: Bytes,
    pub crc: Crc,
}

/// Identifies the content of a part: its form, and the addresses of its entries.
#[derive(Default)]
pub struct PartKey(Vec<usize>);

impl PartKey {
    /// Begins the key of another part.
    pub fn begin(&mut self, is_first: bool, is_kind_shown: bool) {
        self.0.clear();
        self.0.push(usize::from(is_first) | usize::from(is_kind_shown) << 1);
    }

    pub fn add(&mut self, entry: &Arc<Entry>) {
        self.0.push(Arc::as_ptr(entry) as usize);
    }
}

/// The kept parts of all resources of a server.
#[derive(Default)]
pub struct CompressedParts {
    state: Mutex<Kept>,
    hasher: RandomState,
}

#[derive(Default)]
struct Kept {
    parts: HashMap<Vec<usize>, KeptPart>,
    bytes: usize,
    /// Hashes of keys that occurred once since the last round.
    seen: HashSet<u64>,
    uses: u64,
    round: u64,
}

struct KeptPart {
    part: Arc<Part>,
    /// While these exist, no other entry has the address of one of them.
    entries: Box<[Weak<Entry>]>,
    used: u64,
    used_in_round: u64,
}

impl KeptPart {
    fn bytes(&self) -> usize {
        self.part.deflated.len() + self.entries.len() * 2 * size_of::<usize>() + PART_OVERHEAD_BYTES
    }

    /// An object of it has changed: no list has it again.
    fn is_stale(&self) -> bool {
        self.entries.iter().any(|entry| entry.strong_count() == 0)
    }
}

impl CompressedParts {
    pub fn find(&self, key: &PartKey) -> Option<Arc<Part>> {
        let kept = &mut *self.state.lock();
        let found = kept.parts.get_mut(&key.0)?;
        kept.uses += 1;
        (found.used, found.used_in_round) = (kept.uses, kept.round);
        Some(found.part.clone())
    }

    /// Keeps a part that was seen before, and remembers that it was seen now.
    pub fn note(&self, key: &PartKey, entries: &[Arc<Entry>], part: &Arc<Part>) {
        let hash = self.hasher.hash_one(&key.0);
        let kept = &mut *self.state.lock();
        if !kept.seen.remove(&hash) {
            if kept.seen.len() >= SEEN_MAX {
                kept.seen.clear();
            }
            kept.seen.insert(hash);
            return;
        }
        kept.uses += 1;
        let entries = entries.iter().map(Arc::downgrade).collect();
        let (used, used_in_round) = (kept.uses, kept.round);
        let new = KeptPart { part: part.clone(), entries, used, used_in_round };
        kept.bytes += new.bytes();
        if let Some(old) = kept.parts.insert(key.0.clone(), new) {
            kept.bytes -= old.bytes();
        }
        if kept.bytes > KEPT_BYTES_MAX {
            kept.make_space();
        }
    }

    /// Shows the memory of the kept parts in a registry.
    pub fn measure(self: Arc<Self>, registry: &metrics::Registry) {
        let help = "Memory of compressed parts of lists that are kept for later lists.";
        let gauge = registry.gauge("flotilla_compressed_lists_bytes", &[], help);
        registry.before_render(move || gauge.set(&[], self.bytes() as f64));
    }

    /// Memory of the kept parts.
    pub fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Drops parts whose objects have changed and those that no list had for some rounds. Called by housekeeping.
    pub fn forget_unused(&self) {
        let kept = &mut *self.state.lock();
        kept.round += 1;
        kept.seen = HashSet::new();
        let oldest = kept.round.saturating_sub(UNUSED_ROUNDS_MAX);
        kept.retain(|part| part.used_in_round >= oldest && !part.is_stale());
        kept.parts.shrink_to_fit();
    }
}

impl Kept {
    fn retain(&mut self, keep: impl Fn(&KeptPart) -> bool) {
        let bytes = &mut self.bytes;
        self.parts.retain(|_, part| {
            let is_kept = keep(part);
            if !is_kept {
                *bytes -= part.bytes();
            }
            is_kept
        });
    }

    /// Drops what is stale, then what was not used for longest.
    fn make_space(&mut self) {
        self.retain(|part| !part.is_stale());
        if self.bytes <= KEPT_BYTES_AFTER {
            return;
        }
        let mut uses: Vec<(u64, usize)> = self.parts.values().map(|part| (part.used, part.bytes())).collect();
        uses.sort_unstable();
        let mut excess = self.bytes - KEPT_BYTES_AFTER;
        let dropped = uses.iter().take_while(|(_, bytes)| {
            let is_dropped = excess > 0;
            excess = excess.saturating_sub(*bytes);
            is_dropped
        });
        let last = dropped.last().map_or(0, |(used, _)| *used);
        self.retain(|part| part.used > last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: usize) -> Arc<Entry> {
        let bytes = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        Arc::new(Entry::read("a", bytes.into(), 1, &[]).expect("readable"))
    }

    fn part(bytes: usize) -> Arc<Part> {
        Arc::new(Part { deflated: vec![0; bytes].into(), crc: Crc::new() })
    }

    fn key(entry: &Arc<Entry>) -> PartKey {
        let mut key = PartKey::default();
        key.begin(true, false);
        key.add(entry);
        key
    }

    fn keep(parts: &CompressedParts, entry: &Arc<Entry>, bytes: usize) {
        for _ in 0..2 {
            parts.note(&key(entry), std::slice::from_ref(entry), &part(bytes));
        }
    }

    #[test]
    fn a_part_is_kept_from_the_second_time_on_until_its_object_changes() {
        let (parts, entry) = (CompressedParts::default(), entry(1));
        parts.note(&key(&entry), std::slice::from_ref(&entry), &part(10));
        assert!(parts.find(&key(&entry)).is_none() && parts.bytes() == 0);
        parts.note(&key(&entry), std::slice::from_ref(&entry), &part(10));
        assert!(parts.find(&key(&entry)).is_some() && parts.bytes() > 10);
        parts.forget_unused();
        assert!(parts.find(&key(&entry)).is_some());
        drop(entry);
        parts.forget_unused();
        assert_eq!((parts.bytes(), parts.state.lock().parts.len()), (0, 0));
    }

    #[test]
    fn unused_parts_are_dropped_after_some_rounds() {
        let (parts, used, unused) = (CompressedParts::default(), entry(1), entry(2));
        keep(&parts, &used, 10);
        keep(&parts, &unused, 10);
        for _ in 0..=UNUSED_ROUNDS_MAX {
            assert!(parts.find(&key(&used)).is_some());
            parts.forget_unused();
        }
        assert!(parts.find(&key(&used)).is_some() && parts.find(&key(&unused)).is_none());
    }

    #[test]
    fn the_bound_drops_what_was_not_used_for_longest() {
        let parts = CompressedParts::default();
        let entries: Vec<Arc<Entry>> = (0..80).map(entry).collect();
        for entry in &entries {
            keep(&parts, entry, 1 << 20);
            assert!(parts.bytes() <= KEPT_BYTES_MAX);
            assert!(parts.find(&key(&entries[0])).is_some(), "used all the time");
        }
        let kept = entries.iter().filter(|entry| parts.find(&key(entry)).is_some()).count();
        assert!((23..=31).contains(&kept), "{kept}");
        assert!(parts.find(&key(&entries[79])).is_some() && parts.find(&key(&entries[1])).is_none());
    }

    #[test]
    fn keys_seen_once_take_bounded_memory() {
        let parts = CompressedParts::default();
        for number in 0..SEEN_MAX + 10 {
            let mut key = PartKey::default();
            key.0.push(number);
            parts.note(&key, &[], &part(1));
        }
        assert!(parts.state.lock().seen.len() <= SEEN_MAX && parts.bytes() == 0);
    }
}
