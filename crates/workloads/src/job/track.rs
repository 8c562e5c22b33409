//! Counts finished pods exactly once: records their uids, removes their finalizers, then counts them.

use std::collections::HashSet;

use crate::job::plan::{Finish, JobFacts};
use crate::job::policy::FailureAction;
use crate::job::spec::{index_of, is_tracked};
use crate::job::status::JobStatus;
use crate::pods::Pod;

/// Maximum number of uids in a status; the rest is counted in the next round.
const UNCOUNTED_MAX: usize = 500;

/// The first phase of counting.
pub struct Tracking {
    /// Written before any finalizer is removed.
    pub status: JobStatus,
    pub release: Vec<Pod>,
    /// Uids of pods that hold the finalizer.
    pub held: HashSet<String>,
    /// There are more pods than fit into one round.
    pub is_partial: bool,
}

pub fn track(facts: &JobFacts<'_>, mut status: JobStatus, finish: Option<&Finish>) -> Tracking {
    let held: HashSet<String> =
        facts.pods.iter().filter(|pod| is_tracked(pod)).map(|pod| pod.uid().to_owned()).collect();
    status.count_released(|uid| held.contains(uid));
    let mut pods: Vec<&Pod> = facts.pods.iter().filter(|pod| is_tracked(pod)).collect();
    if facts.spec.is_indexed {
        pods.sort_by_key(|pod| index_of(pod));
    }
    let mut release = Vec::new();
    let mut indexes = Vec::new();
    let mut is_partial = false;
    for pod in pods {
        if !may_release(facts, pod, finish) {
            continue;
        }
        release.push(pod.clone());
        note(facts, pod, finish, &mut status, &mut indexes);
        if indexes.len() + status.uncounted_succeeded.len() + status.uncounted_failed.len() >= UNCOUNTED_MAX {
            is_partial = true;
            break;
        }
    }
    if facts.spec.is_indexed {
        // Only the indexes of pods released now.
        let completed = facts.succeeded_before.with(indexes);
        status.succeeded = completed.total();
        status.completed_indexes = completed.to_string();
        status.failed_indexes = facts.failed_indexes.as_ref().map(ToString::to_string);
    }
    Tracking { status, release, held, is_partial }
}

fn may_release(facts: &JobFacts<'_>, pod: &Pod, finish: Option<&Finish>) -> bool {
    if facts.is_deleting || finish.is_some() || pod.is_succeeded() {
        return true;
    }
    let is_held = || {
        let held = index_of(pod).and_then(|index| facts.held_by_index.get(&index));
        held.is_some_and(|held| held.uid() == pod.uid())
    };
    facts.spec.is_failed(pod) && !is_held()
}

/// Records the pod as succeeded or failed.
fn note(facts: &JobFacts<'_>, pod: &Pod, finish: Option<&Finish>, status: &mut JobStatus, indexes: &mut Vec<i64>) {
    let uid = pod.uid().to_owned();
    let index = facts.spec.index_of(pod);
    if pod.is_succeeded() && !status.uncounted_failed.contains(&uid) {
        match index {
            Some(index) if facts.spec.is_indexed => indexes.push(index),
            None if facts.spec.is_indexed => {}
            _ if status.uncounted_succeeded.contains(&uid) => {}
            _ => status.uncounted_succeeded.push(uid),
        }
        return;
    }
    let has_failed = facts.spec.is_failed(pod) || finish.is_some_and(|finish| !finish.is_success);
    let is_countable = !facts.spec.is_indexed || index.is_some();
    let is_new = !status.uncounted_failed.contains(&uid);
    if has_failed && is_countable && is_new && facts.judge(pod) != FailureAction::Ignore {
        status.uncounted_failed.push(uid);
    }
}
