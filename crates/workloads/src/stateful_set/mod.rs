//! Gives every pod of a StatefulSet a stable name and storage. Triggered by StatefulSets and their pods.
//!
//! Writes pods, PersistentVolumeClaims, ControllerRevisions and the status of StatefulSets.

mod commit;
mod plan;
mod retention;
mod spec;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use cluster_client::ResourceRef;
use object::Object;
use object::builtin;
use reconcile::{Change, Controller, Mirror, ObjectKey, Outcome, ReconcileError, Source, commit_status};

use crate::cluster::{Cluster, FIELD_MANAGER};
use crate::dispatch::{PodRoute, selector_of};
use crate::pod_control::{ClaimRules, PodControl};
use crate::pods::{Pod, next_availability};
use crate::revisions::{
    Revised, commit_revision, data_of, delete_revisions, gather_revisions, plan_revision, template_of,
};
use crate::start::sooner;
use crate::stateful_set::commit::RevisionTemplates;
use crate::stateful_set::plan::{StatefulSetInputs, plan};
use crate::stateful_set::spec::{REVISION_LABEL, StatefulSetSpec, is_member};

const COMPONENT: &str = "statefulset-controller";
const WORKERS: usize = 4;
const HASH_LABEL: &str = "controller.kubernetes.io/hash";

struct StatefulSets {
    cluster: Arc<Cluster>,
    control: PodControl,
}

/// Returns the controller and the route for its pod events.
pub fn start(cluster: &Arc<Cluster>) -> (PodRoute, impl Future<Output = ()> + Send + use<>) {
    let rules = ClaimRules { is_member: Some(is_member), ..ClaimRules::default() };
    let control = PodControl::new(cluster, COMPONENT, &cluster.stateful_sets, rules);
    let controller = Controller::new(COMPONENT);
    let route = PodRoute::new("StatefulSet", &cluster.stateful_sets, &controller, &control);
    let sets = Arc::new(StatefulSets { cluster: Arc::clone(cluster), control });
    let candidates = cluster.stateful_sets.clone();
    let sources = vec![
        Source::each(&cluster.stateful_sets),
        Source::new(&cluster.claims, move |change| waiting_for(&candidates, change)),
    ];
    let running = controller.run(sources, WORKERS, cluster.cancelled(), move |key| reconcile(Arc::clone(&sets), key));
    (route, running)
}

/// Returns the sets that may wait for the deletion of a claim before they create a pod with a new one.
fn waiting_for(sets: &Mirror, change: &Change) -> Vec<ObjectKey> {
    if change.now.is_some() {
        return Vec::new();
    }
    let Some((rest, _ordinal)) = change.key.name.rsplit_once('-') else { return Vec::new() };
    let sets = sets.list_within(&change.key.namespace).into_iter();
    let named = sets.filter(|set| rest.strip_suffix(set.name()).is_some_and(|template| template.ends_with('-')));
    named.map(|set| ObjectKey::of(&set)).collect()
}

async fn reconcile(sets: Arc<StatefulSets>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let cluster = &sets.cluster;
    let Some(set) = cluster.stateful_sets.get(&key) else {
        sets.control.pace.forget(&key);
        return Ok(Outcome::Done);
    };
    let Some(selector) = selector_of(&set) else { return Ok(Outcome::Done) };
    let gvr = builtin::stateful_sets();
    let revisions = gather_revisions(cluster, (&gvr, &set), &selector).await?;
    let pods = sets.control.claim(&set, &selector).await?;
    let revise = plan_revision(&revisions, &data_of(&set));
    let Revised { revision: update, collisions } = commit_revision(cluster, &set, revise, HASH_LABEL).await?;
    let current_name = set.str_at(&["status", "currentRevision"]);
    let current = revisions.iter().find(|revision| revision.name() == current_name).unwrap_or(&update);
    let now = cluster.now();
    let spec = StatefulSetSpec::of(&set);
    let claims = |name: &str| cluster.claims.get(&ObjectKey::new(set.namespace(), name));
    let plan = plan(&StatefulSetInputs {
        set: &set,
        spec,
        pods: &pods,
        current: current.name(),
        update: update.name(),
        collisions: collisions.unwrap_or(0),
        claims: &claims,
        now,
    });
    let templates = RevisionTemplates {
        current: (current.name().to_owned(), template_of(current)),
        update: (update.name().to_owned(), template_of(&update)),
    };
    let done = sets.commit_steps(&set, plan.steps, &templates).await;
    let mut desired = Object::default();
    desired.set(&["status"], plan.status);
    commit_status(&cluster.client, ResourceRef::of(&gvr, &set), &set, &desired, FIELD_MANAGER).await?;
    done?;
    delete_revisions(cluster, &surplus(&revisions, &pods, [current, &update], spec.history_max)).await?;
    Ok(sooner(Outcome::Done, next_availability(&pods, spec.ready_seconds_min, now)))
}

/// Returns the oldest unused revisions beyond the history limit.
fn surplus(revisions: &[Arc<Object>], pods: &[Pod], used: [&Arc<Object>; 2], history_max: i64) -> Vec<Arc<Object>> {
    let mut live: HashSet<&str> = pods.iter().filter_map(|pod| pod.label(REVISION_LABEL)).collect();
    live.extend(used.map(|revision| revision.name()));
    let past: Vec<_> = revisions.iter().filter(|revision| !live.contains(revision.name())).collect();
    let Ok(history_max) = usize::try_from(history_max) else { return Vec::new() };
    past.iter().take(past.len().saturating_sub(history_max)).map(|revision| Arc::clone(revision)).collect()
}
