//! Picks the groups (regions) that together have enough clusters and the highest weight.

use std::cmp::Reverse;

/// A group: its name, its number of clusters, and its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpreadGroup {
    pub name: String,
    pub value: usize,
    pub weight: i64,
}

/// Groups considered; of more, the heaviest.
pub const GROUPS_MAX: usize = 128;
/// Steps of the search; after these the best result so far is taken. Twenty groups without a bound take as many.
pub const STEPS_MAX: usize = 1 << 20;

/// A choice of groups: bits by rank, heaviest first.
#[derive(Clone, Copy)]
struct Path {
    ranks: u128,
    weight: i64,
    value: usize,
}

struct Search {
    /// By value; the search takes small groups first.
    groups: Vec<Ranked>,
    /// Suffix sums of the values of the groups.
    values_from: Vec<usize>,
    groups_min: usize,
    groups_max: usize,
    target: usize,
    steps: usize,
    paths: Vec<Path>,
}

struct Ranked {
    rank: usize,
    value: usize,
    weight: i64,
}

/// Returns the best groups: at least `groups_min`, at most `groups_max`, with `target` clusters in total. Empty if
/// there are none.
pub fn pick_groups(
    mut groups: Vec<SpreadGroup>,
    groups_min: usize,
    groups_max: usize,
    target: usize,
) -> Vec<SpreadGroup> {
    if groups.is_empty() {
        return groups;
    }
    groups.sort_by(|a, b| (Reverse(a.weight), &a.name).cmp(&(Reverse(b.weight), &b.name)));
    groups.truncate(GROUPS_MAX);
    let ranked =
        groups.iter().enumerate().map(|(rank, group)| Ranked { rank, value: group.value, weight: group.weight });
    let mut ranked: Vec<Ranked> = ranked.collect();
    // Stable: groups of equal value keep the order of their ranks.
    ranked.sort_by_key(|group| group.value);
    let mut values_from = vec![0; ranked.len() + 1];
    for at in (0..ranked.len()).rev() {
        values_from[at] = values_from[at + 1] + ranked[at].value;
    }
    let mut search =
        Search { groups: ranked, values_from, groups_min, groups_max, target, steps: 0, paths: Vec::new() };
    search.walk(Path { ranks: 0, weight: 0, value: 0 }, 0, 0);
    let Some(best) = best_path(search.paths) else { return Vec::new() };
    groups.into_iter().enumerate().filter(|(rank, _)| best.ranks >> rank & 1 == 1).map(|(_, group)| group).collect()
}

impl Search {
    fn walk(&mut self, path: Path, len: usize, begin: usize) {
        self.steps += 1;
        if path.value >= self.target && len >= self.groups_min && len <= self.groups_max {
            return self.paths.push(path);
        }
        if len >= self.groups_max || self.cannot_reach(path, len, begin) {
            return;
        }
        for at in begin..self.groups.len() {
            if self.steps >= STEPS_MAX {
                return;
            }
            let group = &self.groups[at];
            let next = Path {
                ranks: path.ranks | 1 << group.rank,
                weight: path.weight + group.weight,
                value: path.value + group.value,
            };
            self.walk(next, len + 1, at + 1);
            // All groups are needed: there is one path, already visited.
            if self.groups.len() == self.groups_min {
                break;
            }
        }
    }

    /// Reports whether not even the largest remaining groups suffice.
    fn cannot_reach(&self, path: Path, len: usize, begin: usize) -> bool {
        let more = (self.groups_max - len).min(self.groups.len() - begin);
        len + more < self.groups_min || path.value + self.values_from[self.groups.len() - more] < self.target
    }
}

/// The heaviest path; a path that is a prefix of it needs fewer groups and is preferred.
fn best_path(mut paths: Vec<Path>) -> Option<Path> {
    // Stable: of equals, the one found first.
    paths.sort_by_key(|path| (Reverse(path.weight), Reverse(path.value)));
    let mut ranked = paths.into_iter();
    let mut best = ranked.next()?;
    for path in ranked {
        let highest = 128 - path.ranks.leading_zeros();
        let is_beginning = path.ranks != best.ranks
            && best.ranks & path.ranks == path.ranks
            && best.ranks & !(u128::MAX.checked_shl(highest).unwrap_or(0)) == path.ranks;
        if is_beginning {
            best = path;
        }
    }
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(groups: &[(&str, usize, i64)], (min, max, target): (usize, usize, usize), expected: &[&str]) {
        let list = groups.iter().map(|(name, value, weight)| SpreadGroup {
            name: (*name).to_owned(),
            value: *value,
            weight: *weight,
        });
        let picked = pick_groups(list.collect(), min, max, target);
        assert_eq!(picked.iter().map(|group| group.name.as_str()).collect::<Vec<_>>(), expected, "{groups:?}");
    }

    /// The cases of karmada v1.18.2, pkg/scheduler/core/spreadconstraint/select_groups_test.go.
    #[test]
    fn regions_are_picked_as_karmada_picks_them() {
        let first = [("R1", 1, 80), ("R3", 1, 80), ("R2", 1, 60), ("R5", 2, 60), ("R4", 5, 50), ("R6", 3, 50)];
        check(&first, (1, 3, 10), &["R5", "R4", "R6"]);
        let second = [("R1", 1, 80), ("R2", 4, 40), ("R3", 1, 30), ("R4", 3, 30), ("R5", 3, 20), ("R6", 5, 10)];
        check(&second, (2, 6, 5), &["R1", "R2"]);
        let third = [("R1", 1, 60), ("R2", 1, 50), ("R3", 1, 40), ("R4", 3, 30), ("R5", 3, 20), ("R6", 3, 10)];
        check(&third, (1, 3, 6), &["R1", "R4", "R5"]);
        check(&[("R1", 1, 60), ("R2", 2, 50), ("R3", 3, 40), ("R4", 4, 30)], (1, 2, 5), &["R1", "R4"]);
        check(&[("R4", 1, 60), ("R3", 3, 50), ("R1", 3, 40), ("R2", 4, 30)], (1, 2, 5), &["R3", "R1"]);
        check(&[("R1", 1, 60), ("R2", 2, 50)], (2, 2, 4), &[]);
        check(&[("R1", 1, 60), ("R2", 2, 50)], (2, 2, 3), &["R1", "R2"]);
        // A missing upper bound is taken literally: there is nothing to pick.
        check(&[("R1", 1, 60)], (1, 0, 1), &[]);
        check(&[], (0, 3, 0), &[]);
    }

    #[test]
    fn many_regions_end_in_time() {
        let groups = (0..40).map(|n| SpreadGroup { name: format!("r{n:02}"), value: 1, weight: n }).collect();
        assert_eq!(pick_groups(groups, 1, 20, 20).len(), 20);
        let groups = (0..60).map(|n| SpreadGroup { name: format!("r{n:02}"), value: 1, weight: n }).collect();
        assert_eq!(pick_groups(groups, 1, 60, 1000), []);
    }
}
