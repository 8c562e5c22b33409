//! The readable history by key and by revision, as plain synchronous data.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use packing::Dictionary;

use crate::error::{Error, Result};
use crate::kv::{Event, KeyValue, LeaseId, RangeEnd, RangeRequest, Revision};
use crate::local::chain::{Chain, Version, event_of};
use crate::local::kept::Kept;

/// The revision of an empty store.
pub(crate) const FIRST_REVISION: Revision = 1;

pub(crate) struct Index {
    keys: BTreeMap<Arc<str>, Chain>,
    /// The key written at each revision, for everything after `compacted`.
    log: VecDeque<(Revision, Arc<str>)>,
    leased: HashMap<LeaseId, Leased>,
    /// Compression dictionaries by directory, such as `/core/pods/`.
    directories: HashMap<Box<str>, Dictionary>,
    revision: Revision,
    compacted: Revision,
    /// Bytes of replaced and deleted values, which compaction frees.
    history_bytes: usize,
}

/// Keys written under a lease.
#[derive(Default)]
struct Leased {
    keys: BTreeSet<Arc<str>>,
    /// Compression dictionary for their values.
    dictionary: Dictionary,
}

/// One page of a range with the key to continue from.
pub(crate) struct Page {
    pub kvs: Vec<KeyValue>,
    pub next: Option<Arc<str>>,
}

impl Index {
    pub fn new(revision: Revision, compacted: Revision) -> Self {
        Index {
            keys: BTreeMap::new(),
            log: VecDeque::new(),
            leased: HashMap::new(),
            directories: HashMap::new(),
            revision,
            compacted,
            history_bytes: 0,
        }
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    pub fn compacted(&self) -> Revision {
        self.compacted
    }

    pub fn history_events(&self) -> usize {
        self.log.len()
    }

    pub fn history_bytes(&self) -> usize {
        self.history_bytes
    }

    /// The revision that compacting the oldest `events` events would reach.
    pub fn revision_after(&self, events: usize) -> Revision {
        self.log.get(events).map_or(self.revision, |(revision, _)| *revision)
    }

    pub fn get(&self, key: &str) -> Option<KeyValue> {
        let (key, chain) = self.keys.get_key_value(key)?;
        chain.newest().to_kv(key)
    }

    pub fn lease_keys(&self, lease: LeaseId) -> Vec<Arc<str>> {
        self.leased.get(&lease).into_iter().flat_map(|leased| &leased.keys).cloned().collect()
    }

    /// The revision to read at, or the error.
    pub fn readable(&self, requested: Option<Revision>) -> Result<Revision> {
        match requested {
            None => Ok(self.revision),
            Some(requested) if requested > self.revision => {
                Err(Error::FutureRevision { requested, current: self.revision })
            }
            Some(requested) if requested < self.compacted => {
                Err(Error::Compacted { requested, compacted: self.compacted })
            }
            Some(requested) => Ok(requested),
        }
    }

    /// Up to `limit` pairs of the range as of `revision`, visiting at most `visits_max` keys.
    pub fn page(
        &self,
        from: Bound<&str>,
        within: &Span<'_>,
        revision: Revision,
        limit: usize,
        visits_max: usize,
    ) -> Page {
        let mut kvs = Vec::new();
        for (visits, (key, chain)) in within.keys(&self.keys, from).enumerate() {
            if kvs.len() == limit || visits == visits_max {
                return Page { kvs, next: Some(key.clone()) };
            }
            kvs.extend(chain.at(revision).and_then(|version| version.to_kv(key)));
        }
        Page { kvs, next: None }
    }

    /// The number of keys in the range as of `revision`, with the key to continue from after `visits_max`.
    pub fn count(
        &self,
        from: Bound<&str>,
        within: &Span<'_>,
        revision: Revision,
        visits_max: usize,
    ) -> (u64, Option<Arc<str>>) {
        let mut count = 0;
        for (visits, (key, chain)) in within.keys(&self.keys, from).enumerate() {
            if visits == visits_max {
                return (count, Some(key.clone()));
            }
            count += u64::from(chain.at(revision).is_some_and(|version| !version.is_deletion()));
        }
        (count, None)
    }

    /// Adds the next version of a key and returns the change.
    pub fn apply(&mut self, key: &Arc<str>, version: Version) -> Event {
        assert!(version.mod_revision > self.revision, "revisions are applied in order");
        self.revision = version.mod_revision;
        let (key, prev) = self.insert(key, version.clone(), |key, replaced| replaced.to_kv(key));
        let prev = prev.flatten();
        let prev_lease = prev.as_ref().and_then(|prev| prev.lease);
        if prev_lease != version.lease {
            self.attach(&key, prev_lease, version.lease);
        }
        let event = event_of(&key, &version, prev);
        self.log.push_back((version.mod_revision, key));
        event
    }

    fn keep(&mut self, key: &str, version: Version) -> Kept {
        let dictionary = match version.lease {
            Some(lease) => &self.leased.entry(lease).or_default().dictionary,
            None => {
                let directory = directory_of(key);
                if !self.directories.contains_key(directory) {
                    self.directories.insert(directory.into(), Dictionary::for_large_values());
                }
                &self.directories[directory]
            }
        };
        Kept::new(version, dictionary)
    }

    /// Returns the key as stored in the index, so that a key is in memory once, and the result of `see` on its
    /// previous version.
    fn insert<T>(
        &mut self,
        key: &Arc<str>,
        version: Version,
        see: impl FnOnce(&Arc<str>, &Kept) -> T,
    ) -> (Arc<str>, Option<T>) {
        let version = self.keep(key, version);
        let only = (Bound::Included(&**key), Bound::Included(&**key));
        match self.keys.range_mut::<str, _>(only).next() {
            Some((key, chain)) => {
                self.history_bytes += chain.newest().bytes();
                let prev = see(key, chain.newest());
                chain.push(version);
                (key.clone(), Some(prev))
            }
            None => {
                self.keys.insert(key.clone(), Chain::new(version));
                (key.clone(), None)
            }
        }
    }

    /// Adds a version read back from disk, in order of revision. Versions hidden by the compacted revision go to
    /// `pruned`.
    pub fn load(&mut self, key: Arc<str>, version: Version, mut pruned: impl FnMut(&Arc<str>, Version)) {
        let at = version.mod_revision;
        let lease = version.lease;
        let (key, prev_lease) = self.insert(&key, version, |_, replaced| replaced.lease);
        let prev_lease = prev_lease.flatten();
        if prev_lease != lease {
            self.attach(&key, prev_lease, lease);
        }
        if at > self.compacted {
            self.log.push_back((at, key));
        } else if let Some(chain) = self.keys.get_mut(&*key) {
            // Compacted rows come first, and none of them counts as history.
            self.history_bytes = 0;
            if chain.prune(self.compacted, |version| pruned(&key, version.version())) {
                self.keys.remove(&*key);
            }
        }
    }

    fn attach(&mut self, key: &Arc<str>, old: Option<LeaseId>, new: Option<LeaseId>) {
        if let Some(leased) = old.and_then(|old| self.leased.get_mut(&old)) {
            leased.keys.remove(&**key);
        }
        if let Some(new) = new {
            self.leased.entry(new).or_default().keys.insert(key.clone());
        }
    }

    pub fn forget_lease(&mut self, lease: LeaseId) {
        self.leased.remove(&lease);
    }

    /// Compacts at `revision`, or at an earlier one after `events_max` events; returns where it stopped. Steps keep
    /// the lock short when there is much to drop.
    pub fn compact(
        &mut self,
        revision: Revision,
        events_max: usize,
        mut pruned: impl FnMut(&Arc<str>, Version),
    ) -> Revision {
        let revision = revision.min(self.revision);
        let stop = self.log.get(events_max).map_or(revision, |(after, _)| revision.min(after - 1));
        while let Some((at, _)) = self.log.front()
            && *at <= stop
            && let Some((_, key)) = self.log.pop_front()
        {
            let Some(chain) = self.keys.get_mut(&*key) else { continue };
            let mut freed = 0;
            let gone = chain.prune(stop, |version| {
                freed += version.bytes();
                pruned(&key, version.version());
            });
            self.history_bytes = self.history_bytes.saturating_sub(freed);
            if gone {
                self.keys.remove(&*key);
            }
        }
        self.compacted = self.compacted.max(stop);
        stop
    }

    /// Events from `from` on that `wanted` accepts, at most `events_max`, visiting at most `visits_max` revisions;
    /// and the first revision not visited.
    pub fn events(
        &self,
        from: Revision,
        wanted: impl Fn(&str) -> bool,
        events_max: usize,
        visits_max: usize,
    ) -> (Vec<Event>, Revision) {
        let first = self.log.partition_point(|(revision, _)| *revision < from);
        let mut events = Vec::new();
        for (visits, (revision, key)) in self.log.range(first..).enumerate() {
            if events.len() == events_max || visits == visits_max {
                return (events, *revision);
            }
            if wanted(key) {
                events.extend(self.keys.get(&**key).and_then(|chain| chain.event_at(key, *revision)));
            }
        }
        (events, self.revision + 1)
    }
}

/// The first two segments of a key, such as `/core/pods/`; empty for a shorter key.
fn directory_of(key: &str) -> &str {
    key.match_indices('/').nth(2).map_or("", |(slash, _)| &key[..=slash])
}

/// The keys of a range.
pub(crate) enum Span<'a> {
    Prefix(&'a str),
    Before(&'a str),
    Only(&'a str),
}

impl<'a> Span<'a> {
    pub fn of(request: &RangeRequest<'a>) -> Self {
        match request.end {
            RangeEnd::Prefix => Span::Prefix(request.start),
            RangeEnd::Exclusive(end) => Span::Before(end),
            RangeEnd::Key => Span::Only(request.start),
        }
    }

    fn contains(&self, key: &str) -> bool {
        match self {
            Span::Prefix(prefix) => key.starts_with(prefix),
            Span::Before(end) => key < *end,
            Span::Only(only) => key == *only,
        }
    }

    fn keys<'i>(
        &self,
        keys: &'i BTreeMap<Arc<str>, Chain>,
        from: Bound<&str>,
    ) -> impl Iterator<Item = (&'i Arc<str>, &'i Chain)> {
        keys.range::<str, _>((from, Bound::Unbounded)).take_while(|(key, _)| self.contains(key))
    }
}
