//! Removes a cluster; the removal always ends.
//!
//! 1. Its execution namespace is deleted, so that no work can be written for it any more; Kubernetes' namespace
//!    controller deletes the works in it.
//! 2. Each work has the execution finalizer. While the member is ready, member-sync deletes the work's objects there and
//!    takes the finalizer off. When the member is not ready, it only takes the finalizer off, and so does
//!    this controller: for a pull cluster whose agent is gone there is no member-sync.
//! 3. Once the namespace has gone, the scheduler must have moved every binding elsewhere. Bindings it does not look at
//!    (their policy is gone, their scheduling is suspended, another scheduler has them) would block it forever.
//! 4. The finalizer of the cluster comes off.
//!
//! In 2 and 3 the number of works or bindings that are left is counted. When it has not fallen for `removal_patience`,
//! what holds the removal up is left behind: works lose their finalizer (their objects stay in the member), bindings lose
//! the cluster. Both are recorded as events.

use std::sync::Arc;
use std::time::Duration;

use api::cluster::{CONDITION_READY, FINALIZER};
use api::networking::{FINALIZER_SLICE_DISPATCH, FINALIZER_SLICES};
use api::work::{FINALIZER_EXECUTION, WORKS};
use cluster_client::{DeleteOptions, ListOptions, Preconditions, ResourceRef};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use object::{Object, Status, conditions};
use reconcile::{ObjectKey, Outcome, ReconcileError, commit_object};
use serde_json::Value;

use crate::lifecycle::Lifecycle;
use crate::plane::{FIELD_MANAGER, namespaces};

/// Works and bindings that are written at the same time.
const WRITES_AT_ONCE: usize = 16;

/// Remaining objects, and the time of the last progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    stage: Stage,
    left: usize,
    since: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Works,
    Bindings,
}

/// The observed state of a cluster that is being removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    is_ready: bool,
    space: Space,
    bindings_left: usize,
    /// Nothing went for longer than patience lasts.
    is_stuck: bool,
}

/// The execution namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    Present,
    Leaving,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    DeleteSpace,
    /// Take the execution finalizer off all works.
    AbandonWorks,
    /// Take the cluster out of the bindings that still have it.
    AbandonBindings,
    /// Let the cluster go.
    Release,
}

fn plan(facts: Facts) -> Vec<Act> {
    match facts.space {
        Space::Gone if facts.bindings_left == 0 => vec![Act::Release],
        Space::Gone if facts.is_stuck => vec![Act::AbandonBindings],
        Space::Gone => vec![],
        Space::Present | Space::Leaving => {
            let delete = (facts.space == Space::Present).then_some(Act::DeleteSpace);
            let abandon = (!facts.is_ready || facts.is_stuck).then_some(Act::AbandonWorks);
            delete.into_iter().chain(abandon).collect()
        }
    }
}

/// Updates the progress with the number of objects left; the time stays while that does not decrease.
fn advance(before: Option<&Progress>, stage: Stage, left: usize, now: Timestamp) -> Progress {
    let since = match before {
        Some(before) if before.stage == stage && before.left <= left => before.since,
        _ => now,
    };
    Progress { stage, left, since }
}

fn is_stuck(progress: &Progress, patience: Duration, now: Timestamp) -> bool {
    progress.left > 0 && now.duration_since(progress.since) >= patience.try_into().unwrap_or(jiff::SignedDuration::MAX)
}

impl Lifecycle {
    pub async fn remove(&self, cluster: &Object) -> Result<Outcome, ReconcileError> {
        if !cluster.has_finalizer(FINALIZER) {
            return Ok(Outcome::Done);
        }
        let space_name = api::names::execution_namespace(cluster.name());
        let space = self.plane.client.find(ResourceRef::cluster(&namespaces(), &space_name)).await?;
        let works = match &space {
            Some(_) => self.gather_works(&space_name).await?,
            None => Vec::new(),
        };
        let facts = self.facts(cluster, space.as_deref(), works.len());
        for act in plan(facts) {
            match act {
                Act::DeleteSpace => self.delete_space(cluster, space.as_deref()).await?,
                Act::AbandonWorks => self.abandon_works(cluster, &works, facts).await?,
                Act::AbandonBindings => self.abandon_bindings(cluster).await?,
                Act::Release => {
                    self.release(cluster).await?;
                    return Ok(Outcome::Done);
                }
            }
        }
        Ok(Outcome::After(self.plane.settings.removal_check_every))
    }

    fn facts(&self, cluster: &Object, space: Option<&Object>, works_left: usize) -> Facts {
        let space = match space {
            None => Space::Gone,
            Some(space) if space.is_deleting() => Space::Leaving,
            Some(_) => Space::Present,
        };
        let bindings_left = self.plane.placed_on(cluster.name()).len();
        let (stage, left) =
            if space == Space::Gone { (Stage::Bindings, bindings_left) } else { (Stage::Works, works_left) };
        let now = self.plane.clock.now();
        let mut removals = self.removals.lock();
        let progress = advance(removals.get(cluster.name()), stage, left, now);
        let is_stuck = is_stuck(&progress, self.plane.settings.removal_patience, now);
        removals.insert(cluster.name().to_owned(), progress);
        Facts { is_ready: is_ready(cluster), space, bindings_left, is_stuck }
    }

    async fn gather_works(&self, space_name: &str) -> Result<Vec<Arc<Object>>, Status> {
        let target = ResourceRef::within(&WORKS.gvr(), space_name);
        Ok(self.plane.client.list_all(target, ListOptions::default()).await?.items)
    }

    async fn delete_space(&self, cluster: &Object, space: Option<&Object>) -> Result<(), Status> {
        let Some(space) = space else { return Ok(()) };
        let uid = Some(space.uid().to_owned());
        let options =
            DeleteOptions { preconditions: Preconditions { uid, ..Default::default() }, ..Default::default() };
        match self.plane.client.delete(ResourceRef::cluster(&namespaces(), space.name()), options).await {
            Err(status) if !status.is_not_found() => {
                self.events.warning(cluster, "RemoveExecutionSpaceFailed", status.to_string());
                Err(status)
            }
            _ => {
                let message = format!("Removed execution space for cluster({}).", cluster.name());
                self.events.normal(cluster, "RemoveExecutionSpaceSucceed", message);
                Ok(())
            }
        }
    }

    async fn abandon_works(&self, cluster: &Object, works: &[Arc<Object>], facts: Facts) -> Result<(), Status> {
        let finalizers: &[&str] = match facts.is_stuck {
            true => &[FINALIZER_EXECUTION, FINALIZER_SLICES, FINALIZER_SLICE_DISPATCH],
            // The other two are held by controllers of the plane, which let go soon unless they are switched off.
            false => &[FINALIZER_EXECUTION],
        };
        let is_held = |work: &&Arc<Object>| finalizers.iter().any(|finalizer| work.has_finalizer(finalizer));
        let held: Vec<&Arc<Object>> = works.iter().filter(is_held).collect();
        if held.is_empty() {
            return Ok(());
        }
        if facts.is_ready {
            let message =
                format!("Left {} works of cluster({}) behind in it: they did not go.", held.len(), cluster.name());
            self.events.warning(cluster, "RemoveExecutionSpaceFailed", message);
        }
        let edits = held.into_iter().map(|work| {
            let mut desired = Object::clone(work);
            for finalizer in finalizers {
                desired.remove_finalizer(finalizer);
            }
            (ResourceRef::of(&WORKS.gvr(), work), Arc::clone(work), desired)
        });
        self.commit_all(edits.collect()).await
    }

    async fn abandon_bindings(&self, cluster: &Object) -> Result<(), Status> {
        let held = self.plane.placed_on(cluster.name());
        let message =
            format!("Took cluster({}) out of {} bindings that no scheduler moved.", cluster.name(), held.len());
        self.events.warning(cluster, "RemoveClusterFromBindings", message);
        let edits = held.into_iter().map(|(mirror, binding)| {
            let mut desired = Object::clone(&binding);
            let targets = binding.items(&["spec", "clusters"]).iter().filter(|target| target["name"] != cluster.name());
            desired.set(&["spec", "clusters"], targets.cloned().collect::<Vec<Value>>());
            (mirror.target(&ObjectKey::of(&binding)), binding, desired)
        });
        self.commit_all(edits.collect()).await
    }

    /// A conflict or a missing object is left to the next check: the others must not wait for it.
    async fn commit_all(&self, edits: Vec<(ResourceRef, Arc<Object>, Object)>) -> Result<(), Status> {
        let writes = edits.into_iter().map(|(target, current, desired)| {
            let client = self.plane.client.clone();
            async move { commit_object(&client, target, &current, &desired, FIELD_MANAGER).await }
        });
        let results: Vec<_> = stream::iter(writes).buffer_unordered(WRITES_AT_ONCE).collect().await;
        let is_trouble = |status: &Status| !status.is_not_found() && !status.is_conflict();
        match results.into_iter().filter_map(Result::err).find(is_trouble) {
            Some(status) => Err(status),
            None => Ok(()),
        }
    }

    async fn release(&self, cluster: &Object) -> Result<(), Status> {
        let mut desired = cluster.clone();
        desired.remove_finalizer(FINALIZER);
        let target = self.plane.clusters.target(&ObjectKey::of(cluster));
        match commit_object(&self.plane.client, target, cluster, &desired, FIELD_MANAGER).await {
            Err(status) if !status.is_not_found() => Err(status),
            _ => Ok(()),
        }
    }
}

fn is_ready(cluster: &Object) -> bool {
    conditions::is_true(cluster, CONDITION_READY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(is_ready: bool, space: Space, bindings_left: usize, is_stuck: bool, expected: &[Act]) {
        assert_eq!(plan(Facts { is_ready, space, bindings_left, is_stuck }), expected);
    }

    #[test]
    fn the_namespace_is_deleted_first_then_the_bindings_then_the_cluster() {
        check(true, Space::Present, 3, false, &[Act::DeleteSpace]);
        check(true, Space::Leaving, 3, false, &[]);
        check(true, Space::Leaving, 0, false, &[]);
        check(true, Space::Gone, 3, false, &[]);
        check(true, Space::Gone, 0, false, &[Act::Release]);
    }

    #[test]
    fn removal_does_not_wait_for_an_unreachable_member_or_without_limit() {
        check(false, Space::Present, 3, false, &[Act::DeleteSpace, Act::AbandonWorks]);
        check(false, Space::Leaving, 3, false, &[Act::AbandonWorks]);
        check(true, Space::Leaving, 3, true, &[Act::AbandonWorks]);
        check(true, Space::Gone, 3, true, &[Act::AbandonBindings]);
        check(true, Space::Gone, 0, true, &[Act::Release]);
    }

    #[test]
    fn the_timeout_restarts_with_every_deleted_work() {
        let at = |second: i64| Timestamp::from_second(second).expect("in range");
        let patience = Duration::from_secs(10);
        let first = advance(None, Stage::Works, 5, at(0));
        let same = advance(Some(&first), Stage::Works, 5, at(10));
        assert!(is_stuck(&same, patience, at(10)) && !is_stuck(&same, patience, at(9)));
        let fewer = advance(Some(&same), Stage::Works, 4, at(10));
        assert!(!is_stuck(&fewer, patience, at(10)));
        let next = advance(Some(&fewer), Stage::Bindings, 9, at(20));
        assert!(!is_stuck(&next, patience, at(20)));
        assert!(!is_stuck(&advance(None, Stage::Works, 0, at(0)), patience, at(100)));
    }
}
