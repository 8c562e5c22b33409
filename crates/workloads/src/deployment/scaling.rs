//! Computes the replicas of each ReplicaSet of a Deployment.

use crate::deployment::plan::Rollout;
use crate::deployment::sets::{RolloutSet, by_age};
use crate::deployment::spec::DeploymentStrategy;

/// Returns the replicas the new set may have now.
pub fn new_replicas(rollout: &Rollout<'_>, new: usize) -> i64 {
    let spec = &rollout.spec;
    let current = rollout.sets[new].replicas;
    if spec.strategy == DeploymentStrategy::Recreate {
        return spec.replicas;
    }
    let total: i64 = rollout.sets.iter().map(|set| set.replicas).sum();
    let budget = spec.replicas + spec.surge_max() - total;
    if budget <= 0 { current } else { current + budget.min(spec.replicas - current) }
}

/// Scales down old sets while keeping the minimum available. Returns true if there was anything to scale down.
pub fn scale_down_old(rollout: &mut Rollout<'_>, new: usize) -> bool {
    let old = rollout.old_active();
    if old.is_empty() {
        return false;
    }
    let spec = rollout.spec;
    let total: i64 = rollout.sets.iter().map(|set| set.replicas).sum();
    let available_min = spec.replicas - spec.unavailable_max();
    // Unavailable new pods must not cause available old ones to be removed.
    let new_unavailable = rollout.sets[new].replicas - rollout.sets[new].available();
    let removable_max = total - available_min - new_unavailable;
    if removable_max <= 0 {
        return false;
    }
    let unhealthy = remove_unhealthy(rollout, &old, removable_max);
    let available: i64 = rollout.sets.iter().map(RolloutSet::available).sum();
    unhealthy + remove_healthy(rollout, &old, available - available_min) > 0
}

/// Removes unhealthy replicas first: they do not count as available and would block the rollout.
fn remove_unhealthy(rollout: &mut Rollout<'_>, old: &[usize], removable_max: i64) -> i64 {
    let mut removed = 0;
    for &index in old {
        let set = &rollout.sets[index];
        let count = (removable_max - removed).min(set.replicas - set.available());
        if count > 0 {
            removed += count;
            rollout.scale(index, rollout.sets[index].replicas - count);
        }
    }
    removed
}

fn remove_healthy(rollout: &mut Rollout<'_>, old: &[usize], removable_max: i64) -> i64 {
    let mut removed = 0;
    for &index in old {
        let count = rollout.sets[index].replicas.min(removable_max - removed);
        if count > 0 {
            removed += count;
            rollout.scale(index, rollout.sets[index].replicas - count);
        }
    }
    removed
}

/// Scales a Deployment outside of a rollout step, proportionally over its sets.
pub fn scale(rollout: &mut Rollout<'_>) {
    let active: Vec<usize> = (0..rollout.sets.len()).filter(|index| rollout.sets[*index].replicas > 0).collect();
    let latest = (0..rollout.sets.len()).max_by(|a, b| by_age(&rollout.sets[*a], &rollout.sets[*b]));
    match (active.as_slice(), rollout.new.or(latest)) {
        (_, None) => {}
        ([], Some(only)) | (&[only], _) => rollout.scale(only, rollout.spec.replicas),
        _ if rollout.new.is_some_and(|new| is_saturated(rollout, new)) => {
            for index in rollout.old_active() {
                rollout.scale(index, 0);
            }
        }
        _ if rollout.spec.strategy != DeploymentStrategy::Recreate => scale_by_share(rollout, active),
        _ => {}
    }
}

fn is_saturated(rollout: &Rollout<'_>, new: usize) -> bool {
    let (set, wanted) = (&rollout.sets[new], rollout.spec.replicas);
    set.replicas == wanted && set.desired_replicas() == Some(wanted) && set.available() == wanted
}

/// Larger sets first; among equals the newer gains first and the older loses first. The largest takes the remainder.
fn scale_by_share(rollout: &mut Rollout<'_>, mut active: Vec<usize>) {
    let spec = rollout.spec;
    let total: i64 = active.iter().map(|index| rollout.sets[*index].replicas).sum();
    let allowed = if spec.replicas > 0 { spec.replicas + spec.surge_max() } else { 0 };
    let to_add = allowed - total;
    active.sort_by(|a, b| {
        let (a, b) = (&rollout.sets[*a], &rollout.sets[*b]);
        let by_size = b.replicas.cmp(&a.replicas);
        by_size.then_with(|| if to_add > 0 { by_age(b, a) } else { by_age(a, b) })
    });
    let mut added = 0;
    let mut sizes = Vec::with_capacity(active.len());
    for &index in &active {
        let share = share_of(rollout, &rollout.sets[index], to_add, added);
        added += share;
        sizes.push(rollout.sets[index].replicas + share);
    }
    if let Some(largest) = sizes.first_mut() {
        *largest = (*largest + to_add - added).max(0);
    }
    for (index, size) in active.into_iter().zip(sizes) {
        rollout.sets[index].replicas = size;
        rollout.sets[index].note_scale(&spec);
    }
}

fn share_of(rollout: &Rollout<'_>, set: &RolloutSet, to_add: i64, added: i64) -> i64 {
    if to_add == 0 || set.replicas == 0 || to_add == added {
        return 0;
    }
    let spec = &rollout.spec;
    let share = if spec.replicas == 0 {
        -set.replicas
    } else {
        let actual = rollout.deployment.i64_at(&["status", "replicas"]).unwrap_or(0);
        let before = set.max_replicas().filter(|before| *before > 0).unwrap_or(actual);
        if before == 0 {
            return 0;
        }
        let size = (set.replicas * (spec.replicas + spec.surge_max())) as f64 / before as f64;
        size.round() as i64 - set.replicas
    };
    let left = to_add - added;
    if to_add > 0 { share.min(left) } else { share.max(left) }
}
