//! Sets of completion indexes, written as `1,3-5,7`.

use std::fmt;

/// Sorted, disjoint ranges with inclusive ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes {
    ranges: Vec<(i64, i64)>,
}

impl Indexes {
    /// Parses indexes of a status or policy; ignores indexes from `end` on and invalid parts.
    pub fn parse(text: &str, end: i64) -> Self {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse::<i64>().ok()?, last.parse::<i64>().ok()?);
            (first < end).then_some((first, last.min(end - 1)))
        };
        Self::from_ranges(text.split(',').filter(|part| !part.is_empty()).filter_map(range).collect())
    }

    fn from_ranges(mut ranges: Vec<(i64, i64)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(previous) if first <= previous.1 + 1 => previous.1 = previous.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self { ranges: merged }
    }

    pub fn with(&self, indexes: impl IntoIterator<Item = i64>) -> Self {
        let single = indexes.into_iter().map(|index| (index, index));
        Self::from_ranges(self.ranges.iter().copied().chain(single).collect())
    }

    pub fn merge(&self, other: &Self) -> Self {
        Self::from_ranges(self.ranges.iter().chain(&other.ranges).copied().collect())
    }

    pub fn has(&self, index: i64) -> bool {
        let after = self.ranges.partition_point(|(_, last)| *last < index);
        self.ranges.get(after).is_some_and(|(first, _)| *first <= index)
    }

    pub fn total(&self) -> i64 {
        self.ranges.iter().map(|(first, last)| last - first + 1).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the size of the intersection.
    pub fn shared(&self, other: &Self) -> i64 {
        let overlap = |a: &(i64, i64), b: &(i64, i64)| (a.1.min(b.1) - a.0.max(b.0) + 1).max(0);
        self.ranges.iter().map(|a| other.ranges.iter().map(|b| overlap(a, b)).sum::<i64>()).sum()
    }

    /// Returns the first indexes below `end` that are not in the set.
    pub fn missing(&self, end: i64, count: usize) -> Vec<i64> {
        let mut missing = Vec::with_capacity(count.min(1024));
        let mut candidate = 0;
        for (first, last) in self.ranges.iter().copied().chain([(end, end)]) {
            while candidate < first.min(end) && missing.len() < count {
                missing.push(candidate);
                candidate += 1;
            }
            candidate = candidate.max(last + 1);
        }
        missing
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if position > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, end: i64, expected: &str, total: i64, missing: &[i64]) {
        let indexes = Indexes::parse(text, end);
        assert_eq!((indexes.to_string().as_str(), indexes.total()), (expected, total), "{text}");
        assert_eq!(indexes.missing(end, 3), missing, "{text}");
    }

    #[test]
    fn indexes_are_parsed_formatted_and_counted() {
        check("", 5, "", 0, &[0, 1, 2]);
        check("0-2,4", 6, "0-2,4", 4, &[3, 5]);
        check("0,1", 2, "0,1", 2, &[]);
        check("1,2,3", 5, "1-3", 3, &[0, 4]);
        check("0-9", 5, "0-4", 5, &[]);
        check("7", 5, "", 0, &[0, 1, 2]);
        check("x,1", 3, "1", 1, &[0, 2]);
    }

    #[test]
    fn sets_are_joined_and_compared() {
        let a = Indexes::parse("0-3", 10);
        assert_eq!(a.with([5, 4, 9]).to_string(), "0-5,9");
        assert_eq!(a.merge(&Indexes::parse("2-6", 10)).to_string(), "0-6");
        assert_eq!(a.shared(&Indexes::parse("1,3-7", 10)), 2);
        assert!(a.has(3) && !a.has(4));
    }
}
