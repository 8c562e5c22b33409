//! Checks a history of clients against the semantics of one register per key with a total order of revisions.
//!
//! All watchers together define the events and their order: the truth. Every response to a client must be consistent
//! with it. A write with an unknown result may have happened or not, but not twice and not before it was sent.

use std::collections::{BTreeMap, BTreeSet};

use super::{HistoryEntry, Micros, Operation, Revision, Version, WatchRecord, WriteOutcome};

/// More of the same kind would only hide the first ones.
const VIOLATIONS_MAX: usize = 50;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: &'static str,
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// The size of a history, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub acknowledged: usize,
    pub refused: usize,
    pub unknown: usize,
    pub reads: usize,
    pub lists: usize,
    pub events: usize,
}

pub fn count(entries: &[HistoryEntry]) -> Counts {
    let mut counts = Counts::default();
    for entry in entries {
        match entry {
            HistoryEntry::Write { outcome: WriteOutcome::Acknowledged(_), .. } => counts.acknowledged += 1,
            HistoryEntry::Write { outcome: WriteOutcome::Unsupported(_), .. } => counts.refused += 1,
            HistoryEntry::Write { outcome: WriteOutcome::Unknown(_), .. } => counts.unknown += 1,
            HistoryEntry::Read { .. } => counts.reads += 1,
            HistoryEntry::List { .. } => counts.lists += 1,
            HistoryEntry::Watch { seen: WatchRecord::Put { .. } | WatchRecord::Gone { .. }, .. } => counts.events += 1,
            HistoryEntry::Watch { .. } => {}
        }
    }
    counts
}

/// Returns everything in the history that no correct server could have returned. The last list must follow all
/// writes.
pub fn check(entries: &[HistoryEntry]) -> Vec<Violation> {
    let mut found = Vec::new();
    let truth = Truth::gather(entries, &mut found);
    check_watches(entries, &truth, &mut found);
    check_writes(entries, &truth, &mut found);
    check_origins(entries, &truth, &mut found);
    check_real_time(entries, &truth, &mut found);
    check_lists(entries, &truth, &mut found);
    found.truncate(VIOLATIONS_MAX);
    found
}

/// A change of one key: a new value, or `None` for a delete.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    key: String,
    value: Option<String>,
}

/// The events by revision, as seen by all watchers together.
#[derive(Default)]
struct Truth {
    changes: BTreeMap<Revision, Change>,
    by_key: BTreeMap<String, BTreeMap<Revision, Option<String>>>,
    /// Ranges of revisions covered by at least one watcher: after the first, up to the second.
    covered: Vec<(Revision, Revision)>,
}

impl Truth {
    fn gather(entries: &[HistoryEntry], found: &mut Vec<Violation>) -> Self {
        let mut truth = Self::default();
        let mut open: BTreeMap<&str, (Revision, Revision)> = BTreeMap::new();
        for entry in entries {
            let HistoryEntry::Watch { watcher, seen, .. } = entry else { continue };
            match seen {
                WatchRecord::From(revision) => {
                    truth.covered.extend(open.insert(watcher, (*revision, *revision)));
                }
                WatchRecord::Ended(_) => truth.covered.extend(open.remove(watcher.as_str())),
                WatchRecord::Bookmark(revision) => reach(&mut open, watcher, *revision),
                WatchRecord::Put { key, version } => {
                    reach(&mut open, watcher, version.revision);
                    truth.learn(version.revision, key, Some(&version.value), watcher, found);
                }
                WatchRecord::Gone { key, revision } => {
                    reach(&mut open, watcher, *revision);
                    truth.learn(*revision, key, None, watcher, found);
                }
            }
        }
        truth.covered.extend(open.into_values());
        truth.covered.sort_unstable();
        truth
    }

    fn learn(&mut self, at: Revision, key: &str, value: Option<&String>, watcher: &str, found: &mut Vec<Violation>) {
        let change = Change { key: key.to_owned(), value: value.cloned() };
        match self.changes.get(&at) {
            Some(known) if *known != change => {
                let what = format!("revision {at} is {change:?} to {watcher} and {known:?} to others");
                found.push(Violation { rule: "one history", what });
            }
            Some(_) => {}
            None => {
                self.by_key.entry(key.to_owned()).or_default().insert(at, value.cloned());
                self.changes.insert(at, change);
            }
        }
    }

    /// Reports whether a watcher covered this revision, so that an unknown event did not happen.
    fn is_covered(&self, revision: Revision) -> bool {
        self.covered.iter().any(|(from, to)| *from < revision && revision <= *to)
    }

    /// Reports whether watchers covered the whole range between two revisions.
    fn is_covered_between(&self, after: Revision, to: Revision) -> bool {
        let mut reached = after;
        for (from, until) in &self.covered {
            if *from <= reached {
                reached = reached.max(*until);
            }
        }
        reached >= to
    }

    fn before(&self, key: &str, revision: Revision) -> Option<(Revision, &Option<String>)> {
        let (at, value) = self.by_key.get(key)?.range(..revision).next_back()?;
        Some((*at, value))
    }

    fn next(&self, key: &str, after: Revision) -> Option<Revision> {
        self.by_key.get(key)?.range(after + 1..).next().map(|(at, _)| *at)
    }

    fn holds(&self, key: &str, version: &Version) -> bool {
        let known = self.changes.get(&version.revision);
        known.is_some_and(|change| change.key == key && change.value.as_deref() == Some(version.value.as_str()))
    }
}

fn reach(open: &mut BTreeMap<&str, (Revision, Revision)>, watcher: &str, revision: Revision) {
    if let Some(range) = open.get_mut(watcher) {
        range.1 = range.1.max(revision);
    }
}

/// Each watch delivers all events of its time, once and in order.
fn check_watches(entries: &[HistoryEntry], truth: &Truth, found: &mut Vec<Violation>) {
    let mut last: BTreeMap<&str, Revision> = BTreeMap::new();
    for entry in entries {
        let HistoryEntry::Watch { watcher, seen, .. } = entry else { continue };
        let (revision, is_event) = match seen {
            WatchRecord::From(revision) => {
                last.insert(watcher, *revision);
                continue;
            }
            WatchRecord::Ended(_) => continue,
            WatchRecord::Bookmark(revision) => (*revision, false),
            WatchRecord::Put { version, .. } => (version.revision, true),
            WatchRecord::Gone { revision, .. } => (*revision, true),
        };
        let before = last.get(watcher.as_str()).copied().unwrap_or(0);
        if revision < before || (is_event && revision == before) {
            let what = format!("{watcher} received revision {revision} after {before}");
            found.push(Violation { rule: "watch order", what });
            continue;
        }
        let upto = if is_event { revision } else { revision + 1 };
        for missed in truth.changes.range(before + 1..upto) {
            let what = format!("{watcher} received {revision} after {before} without {missed:?}");
            found.push(Violation { rule: "watch gap", what });
        }
        last.insert(watcher, revision);
    }
}

/// Each acknowledged write happened, on top of its expected state.
fn check_writes(entries: &[HistoryEntry], truth: &Truth, found: &mut Vec<Violation>) {
    let mut deleted: BTreeSet<(&str, Revision)> = BTreeSet::new();
    for entry in entries {
        let HistoryEntry::Write { key, operation, outcome: WriteOutcome::Acknowledged(revision), .. } = entry else {
            continue;
        };
        let value = match operation {
            Operation::Create { value } | Operation::Update { value, .. } | Operation::Patch { value } => value,
            Operation::Delete { expected } => {
                check_deletion(truth, key, *expected, found);
                if !deleted.insert((key, *expected)) {
                    let what = format!("two deletions of {key} at {expected} were acknowledged");
                    found.push(Violation { rule: "compare and set", what });
                }
                continue;
            }
        };
        let Some(revision) = *revision else {
            found
                .push(Violation { rule: "answer", what: format!("{key}={value} was acknowledged without a revision") });
            continue;
        };
        let version = Version { revision, value: value.clone() };
        if !truth.holds(key, &version) && (truth.is_covered(revision) || truth.changes.contains_key(&revision)) {
            let what = format!("{key}={value} was acknowledged at {revision} and never happened");
            found.push(Violation { rule: "lost write", what });
            continue;
        }
        check_base(truth, key, operation, revision, found);
    }
}

fn check_deletion(truth: &Truth, key: &str, expected: Revision, found: &mut Vec<Violation>) {
    let next = truth.next(key, expected);
    let went = next.is_some_and(|at| truth.by_key[key][&at].is_none());
    let until = next.unwrap_or_else(|| truth.changes.keys().next_back().copied().unwrap_or(0));
    if !went && truth.is_covered_between(expected, until) {
        let what = format!("the deletion of {key} at {expected} was acknowledged, next came {next:?}");
        found.push(Violation { rule: "lost write", what });
    }
}

/// Checks that a write happened on top of its expected state.
fn check_base(truth: &Truth, key: &str, operation: &Operation, revision: Revision, found: &mut Vec<Violation>) {
    let before = truth.before(key, revision);
    let is_fit = match (operation, before) {
        (Operation::Create { .. }, None) => true,
        (Operation::Create { .. }, Some((at, value))) => value.is_none() || !truth.is_covered_between(at, revision),
        (Operation::Update { expected, .. }, Some((at, _))) => {
            at == *expected || !truth.is_covered_between(at.min(*expected), revision)
        }
        (Operation::Update { expected, .. }, None) => !truth.is_covered_between(*expected, revision),
        _ => true,
    };
    if !is_fit {
        let what = format!("{operation:?} of {key} became revision {revision} on top of {before:?}");
        found.push(Violation { rule: "compare and set", what });
    }
}

/// Every event has an earlier request, happened once, and was not rejected.
fn check_origins(entries: &[HistoryEntry], truth: &Truth, found: &mut Vec<Violation>) {
    let mut asked: BTreeMap<&str, (&str, Micros, &WriteOutcome, &Operation)> = BTreeMap::new();
    for entry in entries {
        let HistoryEntry::Write { key, operation, outcome, invoked, .. } = entry else { continue };
        let (Operation::Create { value } | Operation::Update { value, .. } | Operation::Patch { value }) = operation
        else {
            continue;
        };
        asked.insert(value, (key, *invoked, outcome, operation));
    }
    let mut seen: BTreeMap<&str, Revision> = BTreeMap::new();
    for (revision, change) in &truth.changes {
        let Some(value) = &change.value else { continue };
        let Some((key, _, outcome, operation)) = asked.get(value.as_str()) else {
            let what = format!("{}={value} at {revision} was never requested", change.key);
            found.push(Violation { rule: "invented", what });
            continue;
        };
        if let Some(first) = seen.insert(value, *revision) {
            let what = format!("{key}={value} happened at {first} and again at {revision}");
            found.push(Violation { rule: "happened twice", what });
        }
        match outcome {
            WriteOutcome::Unsupported(code) => {
                let what = format!("{key}={value} was refused with {code} and happened at {revision}");
                found.push(Violation { rule: "refused but done", what });
            }
            // Acknowledged writes are checked with their own revision.
            WriteOutcome::Acknowledged(_) => {}
            WriteOutcome::Unknown(_) => check_base(truth, key, operation, *revision, found),
        }
    }
}

/// A response is never older than any earlier response to any client.
fn check_real_time(entries: &[HistoryEntry], truth: &Truth, found: &mut Vec<Violation>) {
    // Known facts in order: (time, key, revision).
    let mut facts: Vec<(Micros, &str, Revision)> = Vec::new();
    for entry in entries {
        match entry {
            HistoryEntry::Write { returned, key, outcome: WriteOutcome::Acknowledged(Some(revision)), .. } => {
                facts.push((*returned, key, *revision));
            }
            HistoryEntry::Read { returned, key, found: Some(version), .. } => {
                facts.push((*returned, key, version.revision))
            }
            HistoryEntry::Watch { at, seen: WatchRecord::Put { key, version }, .. } => {
                facts.push((*at, key, version.revision))
            }
            HistoryEntry::Watch { at, seen: WatchRecord::Gone { key, revision }, .. } => {
                facts.push((*at, key, *revision))
            }
            _ => {}
        }
    }
    facts.sort_unstable();
    let mut asks: Vec<(Micros, &HistoryEntry)> =
        entries.iter().filter_map(|entry| Some((invoked(entry)?, entry))).collect();
    asks.sort_by_key(|(at, _)| *at);
    let mut known = facts.into_iter().peekable();
    let (mut newest_of_key, mut newest): (BTreeMap<&str, Revision>, Revision) = (BTreeMap::new(), 0);
    for (at, entry) in asks {
        while let Some((_, key, revision)) = known.next_if(|(when, _, _)| *when < at) {
            let of_key = newest_of_key.entry(key).or_default();
            *of_key = (*of_key).max(revision);
            newest = newest.max(revision);
        }
        check_not_older(entry, &newest_of_key, newest, truth, found);
    }
}

fn invoked(entry: &HistoryEntry) -> Option<Micros> {
    match entry {
        HistoryEntry::Write { invoked, .. }
        | HistoryEntry::Read { invoked, .. }
        | HistoryEntry::List { invoked, .. } => Some(*invoked),
        HistoryEntry::Watch { .. } => None,
    }
}

fn check_not_older(
    entry: &HistoryEntry,
    newest_of_key: &BTreeMap<&str, Revision>,
    newest: Revision,
    truth: &Truth,
    found: &mut Vec<Violation>,
) {
    let of_key = |key: &str| newest_of_key.get(key).copied().unwrap_or(0);
    match entry {
        HistoryEntry::Write { session, key, outcome: WriteOutcome::Acknowledged(Some(revision)), .. }
            if *revision <= newest =>
        {
            let what = format!("{session} wrote {key} at {revision}, after {newest} had been returned");
            found.push(Violation { rule: "revisions grow", what });
        }
        HistoryEntry::Read { session, key, found: Some(version), .. } => {
            if version.revision < of_key(key) {
                let what =
                    format!("{session} read {key} at {}, after {} had been returned", version.revision, of_key(key));
                found.push(Violation { rule: "stale read", what });
            }
            if !truth.holds(key, version) && truth.is_covered(version.revision) {
                let what = format!("{session} read {key}={version:?}, which never existed");
                found.push(Violation { rule: "invented", what });
            }
        }
        HistoryEntry::Read { session, key, found: None, .. } => {
            let known = of_key(key);
            let is_gone_since = truth.by_key.get(key).is_none_or(|states| {
                let at_known = states.range(..=known).next_back().is_none_or(|(_, value)| value.is_none());
                at_known || states.range(known + 1..).any(|(_, value)| value.is_none())
            });
            if !is_gone_since {
                let what = format!("{session} found no {key}, which existed at {known} and was never deleted");
                found.push(Violation { rule: "stale read", what });
            }
        }
        HistoryEntry::List { session, revision, .. } if *revision < newest => {
            let what = format!("{session} received a list of {revision} after {newest} had been returned");
            found.push(Violation { rule: "stale list", what });
        }
        _ => {}
    }
}

/// A list is exactly the state at its revision.
fn check_lists(entries: &[HistoryEntry], truth: &Truth, found: &mut Vec<Violation>) {
    let first = truth.covered.first().map_or(Revision::MAX, |(from, _)| *from);
    for entry in entries {
        let HistoryEntry::List { session, revision, items, .. } = entry else { continue };
        if !truth.is_covered_between(first, *revision) {
            continue;
        }
        let expected: BTreeMap<&str, Version> = truth
            .by_key
            .iter()
            .filter_map(|(key, states)| {
                let (at, value) = states.range(..=*revision).next_back()?;
                Some((key.as_str(), Version { revision: *at, value: value.clone()? }))
            })
            .collect();
        let keys: BTreeSet<&str> = expected.keys().copied().chain(items.keys().map(String::as_str)).collect();
        for key in keys.into_iter().filter(|key| expected.get(key) != items.get(*key)) {
            let (is, should) = (items.get(key), expected.get(key));
            let what = format!("the list of {revision} for {session} has {key} as {is:?}, it was {should:?}");
            found.push(Violation { rule: "wrong list", what });
        }
    }
}
