//! Target clusters of a binding, the clusters where Works may stay, and the replicas of each.

use std::collections::{BTreeMap, BTreeSet};

use api::apportion::{TieBreak, apportion};
use api::work::{BindingSpec, TargetCluster};
use object::Object;

use crate::failback::replicas_held;

/// Returns the clusters that get a work: the scheduled ones, with replicas that are held for a while, then those of the
/// bindings that require this one.
pub fn targets(spec: &BindingSpec) -> Vec<TargetCluster> {
    let held = |target: &TargetCluster| TargetCluster { replicas: replicas_held(spec, target), ..target.clone() };
    let mut targets: Vec<TargetCluster> = spec.clusters.iter().map(held).collect();
    for target in spec.required_by.iter().flat_map(|snapshot| &snapshot.clusters) {
        if !targets.iter().any(|known| known.name == target.name) {
            targets.push(target.clone());
        }
    }
    targets
}

/// Clusters in which a Work may exist: the targets, and those that are evicted gracefully.
pub fn existing_clusters(spec: &BindingSpec) -> BTreeSet<&str> {
    let scheduled = spec.clusters.iter();
    let required = spec.required_by.iter().flat_map(|snapshot| &snapshot.clusters);
    let left = spec.graceful_eviction_tasks.iter().filter(|task| !task.purges_first());
    let left = left.map(|task| task.from_cluster.as_str());
    scheduled.chain(required).map(|target| target.name.as_str()).chain(left).collect()
}

/// Members that must be rid of the workload before it starts elsewhere.
pub fn purged_first(spec: &BindingSpec) -> BTreeSet<&str> {
    let tasks = spec.graceful_eviction_tasks.iter().filter(|task| task.purges_first());
    tasks.map(|task| task.from_cluster.as_str()).collect()
}

/// Is the work made, but not applied in its member for now?
pub fn is_suspended(spec: &BindingSpec, cluster: &str) -> bool {
    let Some(suspension) = &spec.suspension else { return false };
    suspension.dispatching == Some(true)
        || suspension.dispatching_on_clusters.as_ref().is_some_and(|on| on.cluster_names.iter().any(|n| n == cluster))
}

/// The completions of a job whose replicas are divided, shared out like its replicas so that its parts end at about the
/// same time. `None` when the job keeps the ones of its template.
pub fn divide_completions<'a>(
    template: &Object,
    spec: &BindingSpec,
    targets: &'a [TargetCluster],
) -> Option<BTreeMap<&'a str, i32>> {
    let is_divided = spec.replicas > 0 && spec.placement.as_ref().is_some_and(|placement| placement.is_divided());
    if template.kind() != "Job" || !is_divided {
        return None;
    }
    let completions = i32::try_from(template.i64_at(&["spec", "completions"])?).ok()?;
    let votes = targets.iter().map(|target| (target.name.as_str(), i64::from(target.replicas)));
    let has_votes = targets.iter().any(|target| target.replicas > 0);
    has_votes.then(|| apportion(completions, votes, [], TieBreak::of_uid(template.uid())))
}

/// Gives a job its share. A job without completions works off a queue and gets none.
pub fn set_completions(manifest: &mut Object, completions: i32) {
    if manifest.i64_at(&["spec", "completions"]).is_some() {
        manifest.set(&["spec", "completions"], completions);
    }
}

/// Labels with the state of a workload that has just left its only member at once, for the member it goes to.
pub fn preserved_labels<'a>(
    spec: &'a BindingSpec,
    targets: &[TargetCluster],
    cluster: &str,
) -> Option<&'a BTreeMap<String, String>> {
    let task = spec.graceful_eviction_tasks.last().filter(|task| task.purges_first())?;
    let came_from_here = task.clusters_before_failover.iter().any(|before| before == cluster);
    (targets.len() == 1 && !came_from_here).then_some(&task.preserved_label_state)
}
