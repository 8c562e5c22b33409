//! Selects among the candidates according to the spread constraints.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use api::policy::{Placement, SpreadConstraint};

use crate::divide::DivisionStrategy;
use crate::estimate::places_whole_sets;
use crate::explanation::{GroupScore, Listener, Selection};
use crate::groups::{SpreadGroup, pick_groups};
use crate::schedule::{Request, ScheduleError};
use crate::snapshot::ClusterSnapshot;

/// In the weight of a group, replicas come before scores.
const REPLICA_WORTH: i64 = 1000;

/// A feasible cluster with everything that decides its selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    pub place: usize,
    pub overflow_order: u32,
    pub score: i64,
    /// Replicas it can run in addition, plus those it has.
    pub available: i64,
    /// Replicas it can run in addition.
    pub allocatable: i32,
}

/// Best first.
pub(crate) fn sort(picks: &mut [Pick]) {
    picks.sort_unstable_by_key(|pick| (pick.overflow_order, Reverse(pick.score), Reverse(pick.available), pick.place));
}

/// The candidates that get the workload, best first.
pub(crate) fn select(
    snapshot: &ClusterSnapshot,
    request: &Request<'_>,
    placement: &Placement,
    mut picks: Vec<Pick>,
    listener: &mut impl Listener,
) -> Result<Vec<Pick>, ScheduleError> {
    sort(&mut picks);
    let strategy = DivisionStrategy::of(placement);
    let selected = if placement.spread_constraints.is_empty() {
        report(snapshot, listener, "every candidate: no spread constraints", &picks);
        picks
    } else if ignores_constraints(placement) {
        report(snapshot, listener, "every candidate: static weights take no account of spread constraints", &picks);
        picks
    } else {
        let need = if places_whole_sets(request.spec, request.options) { 1 } else { i64::from(request.spec.replicas) };
        // Every cluster gets all replicas, regardless of capacity.
        let need = (strategy != DivisionStrategy::Duplicated).then_some(need);
        by_constraints(snapshot, request, placement, picks, need, listener)?
    };
    Ok(selected)
}

/// Static weights determine the clusters themselves. `weightPreference: {}` is not a list and does not.
fn ignores_constraints(placement: &Placement) -> bool {
    let Some(strategy) = &placement.replica_scheduling else { return false };
    strategy.is_divided()
        && strategy.replica_division_preference == "Weighted"
        && strategy
            .weight_preference
            .as_ref()
            .is_none_or(|preference| !preference.static_weight_list.is_empty() && preference.dynamic_weight.is_empty())
}

fn by_constraints(
    snapshot: &ClusterSnapshot,
    request: &Request<'_>,
    placement: &Placement,
    picks: Vec<Pick>,
    need: Option<i64>,
    listener: &mut impl Listener,
) -> Result<Vec<Pick>, ScheduleError> {
    // Of two constraints on one field the later one applies.
    let constraint = |field: &str| placement.spread_constraints.iter().rfind(|own| own.spread_by_field == field);
    let cluster = constraint("cluster");
    let selected = match (constraint("region"), cluster) {
        (Some(region), _) => by_region(snapshot, request, placement, (region, cluster), &picks, listener),
        (None, Some(cluster)) => by_cluster(cluster, picks, need),
        (None, None) => Err(failed("just support cluster and region spread constraint")),
    }?;
    let rule = match constraint("region") {
        Some(_) => "the best of each chosen region, then the best of the rest",
        None if need.is_none() => "the best candidates",
        None => "the best candidates with enough capacity together",
    };
    listener.report(|attempt| {
        let selection = attempt.selection.get_or_insert_default();
        selection.rule = rule.to_owned();
        selection.clusters = names(snapshot, &selected);
    });
    Ok(selected)
}

fn by_cluster(
    constraint: &SpreadConstraint,
    mut picks: Vec<Pick>,
    need: Option<i64>,
) -> Result<Vec<Pick>, ScheduleError> {
    if (picks.len() as i64) < constraint.min_groups {
        return Err(failed("the number of feasible clusters is less than spreadConstraint.MinGroups"));
    }
    // A missing upper bound is taken literally, as in Karmada: nothing may be selected.
    let count = picks.len().min(usize::try_from(constraint.max_groups).unwrap_or(0));
    if let Some(need) = need {
        let enough = |picks: &[Pick]| picks.iter().map(|pick| pick.available).sum::<i64>() >= need;
        for last in (0..count).rev() {
            if enough(&picks[..count]) {
                break;
            }
            let roomier = best_of_rest(&picks[count..], picks[last].available);
            if let Some(other) = roomier {
                picks.swap(last, count + other);
            }
        }
        if count == 0 || !enough(&picks[..count]) {
            return Err(failed(&format!("no enough resource when selecting {count} clusters")));
        }
    }
    picks.truncate(count);
    Ok(picks)
}

/// The first of those with the most capacity, if they have more than `available`.
fn best_of_rest(rest: &[Pick], available: i64) -> Option<usize> {
    let mut best = None;
    let mut most = available;
    for (place, pick) in rest.iter().enumerate() {
        if pick.available > most {
            most = pick.available;
            best = Some(place);
        }
    }
    best
}

fn by_region(
    snapshot: &ClusterSnapshot,
    request: &Request<'_>,
    placement: &Placement,
    (region, cluster): (&SpreadConstraint, Option<&SpreadConstraint>),
    picks: &[Pick],
    listener: &mut impl Listener,
) -> Result<Vec<Pick>, ScheduleError> {
    let mut regions: BTreeMap<&str, Vec<Pick>> = BTreeMap::new();
    for pick in picks {
        let name = snapshot.members[pick.place].spec.region.as_str();
        if !name.is_empty() {
            regions.entry(name).or_default().push(*pick);
        }
    }
    if (regions.len() as i64) < region.min_groups {
        return Err(failed("the number of feasible region is less than spreadConstraint.MinGroups"));
    }
    let clusters_min = cluster.map_or(0, |cluster| cluster.min_groups);
    let worth = |picks: &[Pick]| group_worth(request, placement, picks, region.min_groups, clusters_min);
    let groups: Vec<SpreadGroup> = regions
        .iter()
        .map(|(name, picks)| SpreadGroup { name: (*name).to_owned(), value: picks.len(), weight: worth(picks) })
        .collect();
    let size = |number: i64| usize::try_from(number).unwrap_or(0);
    let chosen = pick_groups(groups.clone(), size(region.min_groups), size(region.max_groups), size(clusters_min));
    report_groups(listener, &groups, &chosen);
    if chosen.is_empty() {
        return Err(failed("the number of clusters is less than the cluster spreadConstraint.MinGroups"));
    }
    let mut selected = Vec::new();
    let mut rest = Vec::new();
    for group in &chosen {
        let of_region = &regions[group.name.as_str()];
        selected.push(of_region[0]);
        rest.extend_from_slice(&of_region[1..]);
    }
    let count = (rest.len() + selected.len()).min(size(cluster.map_or(0, |cluster| cluster.max_groups)));
    sort(&mut rest);
    // Every chosen region keeps its best cluster, even if that makes more clusters than requested.
    rest.truncate(count.saturating_sub(selected.len()));
    selected.append(&mut rest);
    Ok(selected)
}

/// The weight of a region: first its capacity, then the scores of its clusters.
fn group_worth(
    request: &Request<'_>,
    placement: &Placement,
    picks: &[Pick],
    groups_min: i64,
    clusters_min: i64,
) -> i64 {
    let replicas = i64::from(request.spec.replicas);
    if !placement.is_divided() {
        let roomy = picks.iter().filter(|pick| pick.available >= replicas);
        let (count, score) = roomy.fold((0, 0), |(count, score), pick| (count + 1, score + pick.score));
        return if count == 0 { 0 } else { count * REPLICA_WORTH + score / count };
    }
    let groups_min = groups_min.max(1);
    let target = (replicas + groups_min - 1) / groups_min;
    let count_min = clusters_min.max(groups_min);
    let (mut count, mut available, mut score) = (0, 0, 0);
    for pick in picks {
        available += pick.available;
        score += pick.score;
        count += 1;
        if count >= count_min && available >= target {
            break;
        }
    }
    match available < target {
        true => available * REPLICA_WORTH + score / picks.len().max(1) as i64,
        false => target * REPLICA_WORTH + score / count.max(1),
    }
}

fn failed(message: &str) -> ScheduleError {
    ScheduleError::Failed(format!("failed to select clusters: {message}"))
}

fn names(snapshot: &ClusterSnapshot, picks: &[Pick]) -> Vec<String> {
    picks.iter().map(|pick| snapshot.members[pick.place].name.clone()).collect()
}

fn report(snapshot: &ClusterSnapshot, listener: &mut impl Listener, rule: &str, picks: &[Pick]) {
    listener.report(|attempt| {
        let clusters = names(snapshot, picks);
        attempt.selection = Some(Selection { rule: rule.to_owned(), groups: Vec::new(), clusters });
    });
}

fn report_groups(listener: &mut impl Listener, groups: &[SpreadGroup], chosen: &[SpreadGroup]) {
    listener.report(|attempt| {
        let score = |group: &SpreadGroup| GroupScore {
            name: group.name.clone(),
            clusters: group.value,
            score: group.weight,
            is_chosen: chosen.contains(group),
        };
        attempt.selection.get_or_insert_default().groups = groups.iter().map(score).collect();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores and capacity as in karmada v1.18.2, select_clusters_by_cluster_test.go, best first.
    #[track_caller]
    fn check(need: Option<i64>, clusters_max: i64, expected: &[usize]) {
        let pick = |(place, score, available): (usize, i64, i64)| Pick {
            place,
            overflow_order: 0,
            score,
            available,
            allocatable: 0,
        };
        let mut picks: Vec<Pick> = [(1, 20, 40), (2, 40, 60), (3, 30, 80), (4, 60, 50)].map(pick).into();
        sort(&mut picks);
        let constraint = SpreadConstraint { max_groups: clusters_max, ..SpreadConstraint::default() };
        let selected = by_cluster(&constraint, picks, need);
        let places: Vec<usize> = selected.into_iter().flatten().map(|pick| pick.place).collect();
        assert_eq!(places, expected, "{need:?} in {clusters_max}");
    }

    #[test]
    fn capacity_comes_before_score_only_when_needed() {
        check(None, 2, &[4, 2]);
        check(Some(100), 2, &[4, 2]);
        check(Some(120), 2, &[4, 3]);
        check(Some(140), 2, &[2, 3]);
        check(Some(200), 2, &[]);
        check(Some(200), 4, &[4, 2, 3, 1]);
    }
}
