//! A set of clusters as a bitmap, by their index in a snapshot.

/// One bit per cluster. All sets of one snapshot have the same length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSet {
    words: Vec<u64>,
    len: usize,
}

impl ClusterSet {
    pub fn empty(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], len }
    }

    pub fn full(len: usize) -> Self {
        let mut set = Self { words: vec![u64::MAX; len.div_ceil(64)], len };
        set.trim();
        set
    }

    pub fn insert(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
    }

    pub fn remove(&mut self, index: usize) {
        self.words[index / 64] &= !(1 << (index % 64));
    }

    pub fn contains(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub fn intersect(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    pub fn unite(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    pub fn subtract(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
    }

    /// The members, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| Bits(*word).map(move |bit| at * 64 + bit))
    }

    fn trim(&mut self) {
        if let Some(last) = self.words.last_mut()
            && !self.len.is_multiple_of(64)
        {
            *last &= (1 << (self.len % 64)) - 1;
        }
    }
}

struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_span_several_words() {
        let mut set = ClusterSet::empty(130);
        for index in [0, 63, 64, 129] {
            set.insert(index);
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        set.remove(64);
        assert!(!set.contains(64) && set.contains(129) && !set.contains(500));
        let mut all = ClusterSet::full(130);
        assert_eq!(all.iter().count(), 130);
        all.subtract(&set);
        assert_eq!(all.iter().count(), 127);
        all.intersect(&set);
        assert!(all.is_empty());
    }
}
