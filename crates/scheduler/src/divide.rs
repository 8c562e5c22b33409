//! Divides the replicas among the selected clusters.

use api::policy::{Placement, StaticClusterWeight};
use api::work::{BindingSpec, Component, TargetCluster, TargetComponent};

use crate::estimate::places_whole_sets;
use crate::explanation::{Division, Listener, TURNS_MAX, Weight};
use crate::filter::observed_term;
use crate::schedule::{Request, ScheduleError};
use crate::snapshot::ClusterSnapshot;
use crate::spread::Pick;
use crate::webster::{Party, TieBreak, share_out};

/// The replica division strategy of a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DivisionStrategy {
    /// Each cluster gets all replicas.
    Duplicated,
    Aggregated,
    StaticWeight,
    DynamicWeight,
    Unknown,
}

impl DivisionStrategy {
    pub fn of(placement: &Placement) -> Self {
        let Some(strategy) = placement.replica_scheduling.as_ref() else { return Self::Duplicated };
        let is_dynamic =
            strategy.weight_preference.as_ref().is_some_and(|preference| !preference.dynamic_weight.is_empty());
        match (strategy.replica_scheduling_type.as_str(), strategy.replica_division_preference.as_str()) {
            ("Duplicated", _) => Self::Duplicated,
            ("Divided", "Aggregated") => Self::Aggregated,
            ("Divided", "Weighted") if is_dynamic => Self::DynamicWeight,
            ("Divided", "Weighted") => Self::StaticWeight,
            _ => Self::Unknown,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Duplicated => "Duplicated",
            Self::Aggregated => "Aggregated",
            Self::StaticWeight => "StaticWeight",
            Self::DynamicWeight => "DynamicWeight",
            Self::Unknown => "",
        }
    }
}

/// A cluster and its share.
pub(crate) type Share = (usize, i32);

/// The inputs of a division, apart from the clusters.
struct Work<'a, 'l, L: Listener> {
    snapshot: &'a ClusterSnapshot,
    spec: &'a BindingSpec,
    placement: &'a Placement,
    strategy: DivisionStrategy,
    tie: TieBreak,
    is_fresh: bool,
    listener: &'l mut L,
}

/// Divides the replicas. Objects without replicas, and sets placed as a whole, go to every selected cluster.
pub(crate) fn divide<L: Listener>(
    snapshot: &ClusterSnapshot,
    request: &Request<'_>,
    placement: &Placement,
    picks: &[Pick],
    listener: &mut L,
) -> Result<Vec<Share>, ScheduleError> {
    let spec = request.spec;
    if picks.is_empty() {
        return Err(failed("no clusters available to schedule"));
    }
    let has_replicas = (spec.replicas > 0 || spec.replica_requirements.is_some()) && spec.components.len() <= 1;
    let mut work = Work {
        snapshot,
        spec,
        placement,
        strategy: DivisionStrategy::of(placement),
        tie: TieBreak::of_uid(&spec.resource.uid),
        is_fresh: request.is_reschedule(),
        listener,
    };
    let mut shares = if !has_replicas {
        let all: Vec<Share> = picks.iter().map(|pick| (pick.place, 0)).collect();
        work.report("None", "no replicas to share out: every selected cluster", 0, &all);
        all
    } else if has_overflow(request, placement) {
        work.by_tiers(picks)?
    } else {
        work.one_tier(picks, spec.replicas)?
    };
    if request.options.empty_workload_propagation {
        let missing = |pick: &&Pick| shares.iter().all(|(place, _)| *place != pick.place);
        let missing: Vec<Share> = picks.iter().filter(missing).map(|pick| (pick.place, 0)).collect();
        shares.extend(missing);
    }
    Ok(shares)
}

fn has_overflow(request: &Request<'_>, placement: &Placement) -> bool {
    !request.status.scheduler_observed_affinity_name.is_empty()
        && observed_term(placement, request.status).is_some_and(|term| term.overflow_affinities.is_some())
}

impl<L: Listener> Work<'_, '_, L> {
    /// Fills tier after tier; the next gets what the previous one has no capacity for.
    fn by_tiers(&mut self, picks: &[Pick]) -> Result<Vec<Share>, ScheduleError> {
        let mut orders: Vec<u32> = picks.iter().map(|pick| pick.overflow_order).collect();
        orders.sort_unstable();
        orders.dedup();
        let mut left = i64::from(self.spec.replicas);
        let mut shares = Vec::new();
        for order in orders {
            let tier: Vec<Pick> = picks.iter().filter(|pick| pick.overflow_order == order).copied().collect();
            let capacity: i64 = tier.iter().map(|pick| pick.available).sum();
            let replicas = left.min(capacity);
            shares.extend(self.one_tier(&tier, i32::try_from(replicas).unwrap_or(i32::MAX))?);
            left -= replicas;
            if left <= 0 {
                break;
            }
        }
        if left > 0 {
            return Err(not_enough("Clusters available replicas are not enough to schedule."));
        }
        Ok(shares)
    }

    /// Omits clusters that got nothing.
    fn one_tier(&mut self, picks: &[Pick], replicas: i32) -> Result<Vec<Share>, ScheduleError> {
        let mut shares = match self.strategy {
            DivisionStrategy::Duplicated => {
                let all: Vec<Share> = picks.iter().map(|pick| (pick.place, replicas)).collect();
                self.report("Duplicated", "every selected cluster has all replicas", replicas, &all);
                all
            }
            DivisionStrategy::StaticWeight => self.by_static_weight(picks, replicas),
            DivisionStrategy::Aggregated | DivisionStrategy::DynamicWeight => self.by_capacity(picks, replicas)?,
            DivisionStrategy::Unknown => {
                let strategy = self.placement.replica_scheduling.clone().unwrap_or_default();
                return Err(failed(&format!(
                    "unsupported replica scheduling strategy, replicaSchedulingType: {}, replicaDivisionPreference: {}, \
                     please try another scheduling strategy",
                    strategy.replica_scheduling_type, strategy.replica_division_preference
                )));
            }
        };
        shares.retain(|(_, replicas)| *replicas > 0);
        Ok(shares)
    }

    /// By the weights in the list, regardless of capacity and the previous division.
    fn by_static_weight(&mut self, picks: &[Pick], replicas: i32) -> Vec<Share> {
        let preference = self.placement.replica_scheduling.as_ref().and_then(|own| own.weight_preference.as_ref());
        let list = preference.map(|preference| preference.static_weight_list.as_slice()).unwrap_or_default();
        let rules: Vec<_> = list.iter().map(|rule| (rule, self.snapshot.matching(&rule.target_cluster))).collect();
        let weight_of = |place: usize| {
            let matching = rules.iter().filter(|(_, set)| set.contains(place)).map(|(rule, _)| rule.weight);
            matching.max()
        };
        let weighed: Vec<(usize, i64)> = picks
            .iter()
            .filter_map(|pick| Some((pick.place, weight_of(pick.place).filter(|weight| *weight > 0)?)))
            .collect();
        if !weighed.is_empty() {
            return self.share("by static weight", replicas, &weighed, &[]);
        }
        if let Some(standby) = self.first_standby(list, picks) {
            let shares = vec![(standby, replicas)];
            let step = "no cluster with a positive weight is feasible: the first feasible one of weight 0 has all";
            self.report("StaticWeight", step, replicas, &shares);
            return shares;
        }
        let alike: Vec<(usize, i64)> = picks.iter().map(|pick| (pick.place, 1)).collect();
        self.share("evenly: the list weighs none of the clusters", replicas, &alike, &[])
    }

    /// Clusters of weight 0 are standbys: the first in the order of the list, and of the names within an entry.
    fn first_standby(&self, list: &[StaticClusterWeight], picks: &[Pick]) -> Option<usize> {
        list.iter().filter(|rule| rule.weight == 0).find_map(|rule| {
            let meant = self.snapshot.matching(&rule.target_cluster);
            let names = &rule.target_cluster.cluster_names;
            let rank = |place: usize| {
                let name = &self.snapshot.members[place].name;
                (names.iter().position(|own| own == name).unwrap_or(usize::MAX), place)
            };
            picks.iter().map(|pick| pick.place).filter(|place| meant.contains(*place)).min_by_key(|place| rank(*place))
        })
    }

    /// By free capacity: running replicas stay, unless a fresh placement was requested.
    fn by_capacity(&mut self, picks: &[Pick], replicas: i32) -> Result<Vec<Share>, ScheduleError> {
        let had: Vec<Share> = self
            .spec
            .clusters
            .iter()
            .filter_map(|target| Some((self.snapshot.place(&target.name)?, target.replicas)))
            .filter(|(place, _)| picks.iter().any(|pick| pick.place == *place))
            .collect();
        let assigned: i64 = had.iter().map(|(_, replicas)| i64::from(*replicas)).sum();
        let had_in = |place: usize| had.iter().find(|(own, _)| *own == place).map_or(0, |(_, replicas)| *replicas);
        if self.is_fresh {
            let capacity =
                picks.iter().map(|pick| (pick.place, i64::from(pick.allocatable) + i64::from(had_in(pick.place))));
            return self.fill(
                "fresh placement, by total capacity",
                replicas,
                capacity.collect(),
                &[],
                "do fresh scale",
            );
        }
        if assigned > i64::from(replicas) {
            let capacity = had.iter().map(|(place, replicas)| (*place, i64::from(*replicas)));
            return self.fill("scaled down, by current replicas", replicas, capacity.collect(), &[], "scale down");
        }
        if assigned < i64::from(replicas) {
            let more = i32::try_from(i64::from(replicas) - assigned).unwrap_or(i32::MAX);
            let capacity = picks.iter().map(|pick| (pick.place, i64::from(pick.allocatable))).collect();
            return self.fill("scaled up, by free capacity", more, capacity, &had, "scale up");
        }
        self.report(self.strategy.name(), "as before: the clusters have them all", replicas, &had);
        Ok(had)
    }

    /// Divides `replicas` by capacity and adds the kept ones.
    fn fill(
        &mut self,
        step: &str,
        replicas: i32,
        mut capacity: Vec<(usize, i64)>,
        kept: &[Share],
        action: &str,
    ) -> Result<Vec<Share>, ScheduleError> {
        // Stable: clusters of equal capacity keep the order of the candidates.
        capacity.sort_by_key(|(_, capacity)| std::cmp::Reverse(*capacity));
        let total: i64 = capacity.iter().map(|(_, capacity)| *capacity).sum();
        if total < i64::from(replicas) {
            return Err(not_enough(&format!(
                "failed to {action}: Clusters available replicas {total} are not enough to schedule."
            )));
        }
        if self.strategy == DivisionStrategy::Aggregated {
            // As few clusters as possible: those that already have replicas first.
            let has_some = |place: usize| kept.iter().any(|(own, replicas)| *own == place && *replicas > 0);
            capacity.sort_by_key(|(place, _)| !has_some(*place));
            let mut sum = 0;
            let needed = capacity.iter().position(|(_, capacity)| {
                sum += capacity;
                sum >= i64::from(replicas)
            });
            capacity.truncate(needed.map_or(capacity.len(), |last| last + 1));
        }
        Ok(self.share(step, replicas, &capacity, kept))
    }

    /// Webster's division, plus the kept replicas.
    fn share(&mut self, step: &str, replicas: i32, weights: &[(usize, i64)], kept: &[Share]) -> Vec<Share> {
        let parties = weights.iter().map(|(place, votes)| Party { index: *place, votes: *votes, seats: 0 }).collect();
        let mut turns = Vec::new();
        let shared = share_out(replicas, parties, self.tie, |place| {
            if turns.len() < TURNS_MAX {
                turns.push(place);
            }
        });
        let mut shares: Vec<Share> = shared.into_iter().map(|party| (party.index, party.seats)).collect();
        let mut only_kept: Vec<Share> = Vec::new();
        for (place, replicas) in kept {
            match shares.iter_mut().find(|(own, _)| own == place) {
                Some((_, share)) => *share += replicas,
                None => only_kept.push((*place, *replicas)),
            }
        }
        only_kept.sort_unstable();
        shares.extend(only_kept);
        let (snapshot, strategy) = (self.snapshot, self.strategy.name());
        self.listener.report(|attempt| {
            attempt.divisions.push(Division {
                strategy: strategy.to_owned(),
                step: step.to_owned(),
                replicas,
                weights: weights.iter().map(|(place, weight)| weight_of(snapshot, *place, *weight)).collect(),
                kept: named(snapshot, kept),
                turns: turns.iter().map(|place| snapshot.members[*place].name.clone()).collect(),
                result: named(snapshot, &shares),
            });
        });
        shares
    }

    fn report(&mut self, strategy: &str, step: &str, replicas: i32, shares: &[Share]) {
        let snapshot = self.snapshot;
        self.listener.report(|attempt| {
            attempt.divisions.push(Division {
                strategy: strategy.to_owned(),
                step: step.to_owned(),
                replicas,
                result: named(snapshot, shares),
                ..Division::default()
            });
        });
    }
}

fn weight_of(snapshot: &ClusterSnapshot, place: usize, weight: i64) -> Weight {
    Weight { cluster: snapshot.members[place].name.clone(), weight }
}

/// Shares with the names of their clusters.
fn named(snapshot: &ClusterSnapshot, shares: &[Share]) -> Vec<TargetCluster> {
    let target = |(place, replicas): &Share| TargetCluster {
        name: snapshot.members[*place].name.clone(),
        replicas: *replicas,
        components: Vec::new(),
    };
    shares.iter().map(target).collect()
}

/// The result: the shares and, for a set that is placed as a whole, the replicas of its components.
pub(crate) fn targets_of(snapshot: &ClusterSnapshot, request: &Request<'_>, shares: &[Share]) -> Vec<TargetCluster> {
    let Request { spec, options, .. } = request;
    let mut targets = named(snapshot, shares);
    if options.component_results && spec.components.len() > 1 && places_whole_sets(spec, options) {
        let component = |own: &Component| TargetComponent { name: own.name.clone(), replicas: own.replicas };
        for target in &mut targets {
            target.components = spec.components.iter().map(component).collect();
        }
    }
    targets
}

fn failed(message: &str) -> ScheduleError {
    ScheduleError::Failed(format!("failed to assign replicas: {message}"))
}

fn not_enough(message: &str) -> ScheduleError {
    ScheduleError::NotEnough(format!("failed to assign replicas: {message}"))
}
