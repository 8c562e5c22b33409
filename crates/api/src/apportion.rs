//! Apportions a number among parties by votes with the Webster (Sainte-Laguë) method: the next seat goes to the
//! highest quotient of votes and seats.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use crate::names::fnv32a;

/// The order of names for equal votes and seats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TieBreak {
    #[default]
    NameAscending,
    NameDescending,
}

impl TieBreak {
    /// By the hash of a uid, so that remainders of many workloads do not all go to the same cluster.
    pub fn of_uid(uid: &str) -> Self {
        if !uid.is_empty() && fnv32a(uid) & 1 == 1 { Self::NameDescending } else { Self::NameAscending }
    }
}

/// A recipient of seats: its index in name order, its votes, and its current seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Party {
    pub index: usize,
    pub votes: i64,
    pub seats: i32,
}

/// Distributes `seats` more, one by one; calls `on_seat` with the recipient of each. Parties are returned in the
/// order of names.
pub fn give_out(seats: i32, parties: Vec<Party>, tie: TieBreak, mut on_seat: impl FnMut(usize)) -> Vec<Party> {
    let mut claims: BinaryHeap<Claim> = parties.into_iter().map(|party| Claim { party, tie }).collect();
    for _ in 0..seats {
        let Some(mut first) = claims.peek_mut() else { break };
        on_seat(first.party.index);
        first.party.seats += 1;
    }
    let mut parties: Vec<Party> = claims.into_iter().map(|claim| claim.party).collect();
    parties.sort_by_key(|party| party.index);
    parties
}

/// Adds `seats` to the `initial` seats of the parties. A party with only initial seats has no votes. The result is
/// sorted by name; without parties nothing is distributed.
pub fn apportion<'a>(
    seats: i32,
    votes: impl IntoIterator<Item = (&'a str, i64)>,
    initial: impl IntoIterator<Item = (&'a str, i32)>,
    tie: TieBreak,
) -> BTreeMap<&'a str, i32> {
    let mut by_name: BTreeMap<&str, (i64, i32)> = BTreeMap::new();
    for (name, seats) in initial {
        by_name.insert(name, (0, seats));
    }
    for (name, votes) in votes {
        by_name.entry(name).or_default().0 = votes;
    }
    let parties = by_name.values().enumerate();
    let parties = parties.map(|(index, (votes, seats))| Party { index, votes: *votes, seats: *seats }).collect();
    let shared = give_out(seats, parties, tie, |_| {});
    by_name.into_keys().zip(shared).map(|(name, party)| (name, party.seats)).collect()
}

/// A party competing for the next seat.
pub struct Claim {
    pub party: Party,
    pub tie: TieBreak,
}

impl Claim {
    fn quotient(&self) -> f64 {
        self.party.votes as f64 / (2 * i64::from(self.party.seats) + 1) as f64
    }
}

impl Ord for Claim {
    /// The greatest gets the next seat: by quotient, then fewer seats, then by name.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_name = match self.tie {
            TieBreak::NameAscending => other.party.index.cmp(&self.party.index),
            TieBreak::NameDescending => self.party.index.cmp(&other.party.index),
        };
        let by_seats = other.party.seats.cmp(&self.party.seats);
        self.quotient().total_cmp(&other.quotient()).then(by_seats).then(by_name)
    }
}

impl PartialOrd for Claim {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Claim {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Claim {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(seats: i32, votes: &[(&str, i64)], initial: &[(&str, i32)], tie: TieBreak, expected: &[(&str, i32)]) {
        let got = apportion(seats, votes.iter().copied(), initial.iter().copied(), tie);
        assert_eq!(got.into_iter().collect::<Vec<_>>(), expected, "{seats} by {votes:?} over {initial:?}");
    }

    #[test]
    fn seats_follow_votes() {
        let up = TieBreak::NameAscending;
        let down = TieBreak::NameDescending;
        check(0, &[("a", 1)], &[], up, &[("a", 0)]);
        check(5, &[], &[], up, &[]);
        check(9, &[("a", 1), ("b", 2)], &[], up, &[("a", 3), ("b", 6)]);
        check(12, &[("a", 1), ("b", 2), ("c", 3)], &[], up, &[("a", 2), ("b", 4), ("c", 6)]);
        check(7, &[("a", 53), ("b", 24), ("c", 23)], &[], up, &[("a", 3), ("b", 2), ("c", 2)]);
        check(1, &[("a", 1), ("b", 1)], &[], up, &[("a", 1), ("b", 0)]);
        check(1, &[("a", 1), ("b", 1)], &[], down, &[("a", 0), ("b", 1)]);
        // Equal quotients: 3/1 and 9/3. The party with fewer seats goes first, regardless of names.
        check(1, &[("a", 9), ("b", 3)], &[("a", 1)], up, &[("a", 1), ("b", 1)]);
        check(3, &[("a", 1)], &[("a", 2), ("gone", 4)], up, &[("a", 5), ("gone", 4)]);
        check(2, &[("a", 0), ("b", 0)], &[], up, &[("a", 1), ("b", 1)]);
    }

    #[test]
    fn ties_are_broken_by_the_hash_of_the_uid() {
        assert_eq!(TieBreak::of_uid(""), TieBreak::NameAscending);
        let odd = ["a", "b", "c", "d"].map(|uid| (fnv32a(uid) & 1 == 1, TieBreak::of_uid(uid)));
        assert!(odd.iter().all(|(is_odd, tie)| *is_odd == (*tie == TieBreak::NameDescending)));
        assert!(odd.iter().any(|(is_odd, _)| *is_odd) && odd.iter().any(|(is_odd, _)| !*is_odd));
    }
}
