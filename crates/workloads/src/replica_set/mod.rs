//! Maintains the replicas of ReplicaSets and ReplicationControllers. Triggered by both and by their pods.
//!
//! Writes pods and the status of its owners.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use cluster_client::ResourceRef;
use object::Object;
use parking_lot::Mutex;
use reconcile::{Controller, Index, Mirror, ObjectKey, Outcome, ReconcileError, Source, commit_status};
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, FIELD_MANAGER};
use crate::dispatch::{PodRoute, selector_of};
use crate::owners::{OwnerKey, controller_uid, owned_by};
use crate::pod_control::{ClaimRules, PodControl, is_namespace_terminating, slow_start};
use crate::pods::{Pod, next_availability};
use crate::ranking::Ranking;
use crate::replica_set::plan::{Scale, plan_scale, plan_status};
use crate::start::sooner;
use crate::templates::pod_from;

const WORKERS: usize = 4;

/// The differences between ReplicaSets and ReplicationControllers: the selector and one status field.
pub struct Sort {
    pub kind: &'static str,
    pub component: &'static str,
    /// By the controllers of the owners themselves.
    pub owners: fn(&Cluster) -> &Index<OwnerKey>,
    pub counts_terminating: bool,
}

pub const REPLICA_SETS: Sort = Sort {
    kind: "ReplicaSet",
    component: "replicaset-controller",
    owners: |cluster| &cluster.replica_sets_by_owner,
    counts_terminating: true,
};

pub const REPLICATION_CONTROLLERS: Sort = Sort {
    kind: "ReplicationController",
    component: "replication-controller",
    owners: |cluster| &cluster.replication_controllers_by_owner,
    counts_terminating: false,
};

struct Sets {
    sort: Sort,
    owners: Mirror,
    by_owner: Index<OwnerKey>,
    control: PodControl,
}

/// Returns the controller and the route for its pod events.
pub fn start(cluster: &Arc<Cluster>, sort: Sort) -> (PodRoute, impl Future<Output = ()> + Send + use<>) {
    let by_owner = (sort.owners)(cluster).clone();
    let owners = by_owner.mirror().clone();
    let rules = ClaimRules { only_active: true, ..ClaimRules::default() };
    let control = PodControl::new(cluster, sort.component, &owners, rules);
    let controller = Controller::new(sort.component);
    let route = PodRoute::new(sort.kind, &owners, &controller, &control);
    let sets = Arc::new(Sets { sort, owners, by_owner, control });
    let cancel = cluster.cancelled();
    (route, run(sets, controller, cancel))
}

async fn run(sets: Arc<Sets>, controller: Controller<ObjectKey>, cancel: CancellationToken) {
    let sources = vec![Source::each(&sets.owners)];
    controller.run(sources, WORKERS, cancel, move |key| reconcile(Arc::clone(&sets), key)).await;
}

async fn reconcile(sets: Arc<Sets>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let Some(set) = sets.owners.get(&key) else {
        sets.control.pace.forget(&key);
        return Ok(Outcome::Done);
    };
    let Some(selector) = selector_of(&set) else { return Ok(Outcome::Done) };
    let mut pods = sets.control.claim(&set, &selector).await?;
    let scale = match set.is_deleting() {
        true => Scale::Enough,
        false => sets.plan(&set, &pods),
    };
    let managed = sets.commit_scale(&set, &mut pods, &scale).await;
    let now = sets.control.cluster.now();
    let status = plan_status(&set, &pods, sets.sort.counts_terminating, managed.as_ref().err(), &scale, now);
    let mut desired = Object::default();
    desired.set(&["status"], status);
    let target = ResourceRef::of(sets.owners.gvr(), &set);
    commit_status(&sets.control.cluster.client, target, &set, &desired, FIELD_MANAGER).await?;
    managed?;
    let ready_seconds_min = set.i64_at(&["spec", "minReadySeconds"]).unwrap_or(0);
    let active: Vec<Pod> = pods.into_iter().filter(Pod::is_active).collect();
    Ok(sooner(Outcome::Done, next_availability(&active, ready_seconds_min, now)))
}

impl Sets {
    fn plan(&self, set: &Object, pods: &[Pod]) -> Scale {
        let active: Vec<Pod> = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
        let wanted = usize::try_from(set.i64_at(&["spec", "replicas"]).unwrap_or(1)).unwrap_or(0);
        let related_by_node = match active.len() > wanted && wanted > 0 {
            true => self.related_by_node(set, &active),
            false => HashMap::new(),
        };
        plan_scale(
            active,
            wanted,
            &Ranking::Spread { related_by_node: &related_by_node, now: self.control.cluster.now() },
        )
    }

    /// Returns the number of active pods of all sets of the same Deployment by node.
    fn related_by_node(&self, set: &Object, own: &[Pod]) -> HashMap<String, usize> {
        let mut related: Vec<Pod> = own.to_vec();
        if let Some(owner) = controller_uid(set) {
            let siblings = owned_by(&self.by_owner, owner).into_iter().filter(|other| other.uid() != set.uid());
            for sibling in siblings.filter(|other| other.i64_at(&["status", "replicas"]).unwrap_or(0) > 0) {
                let pods = owned_by(&self.control.cluster.pods_by_owner, sibling.uid());
                related.extend(pods.into_iter().map(Pod::new).filter(Pod::is_active));
            }
        }
        let mut by_node = HashMap::new();
        for pod in related {
            *by_node.entry(pod.node_name().to_owned()).or_insert(0) += 1;
        }
        by_node
    }

    /// Creates or deletes pods and updates the list accordingly.
    async fn commit_scale(&self, set: &Object, pods: &mut Vec<Pod>, scale: &Scale) -> Result<(), ReconcileError> {
        match scale {
            Scale::Enough => Ok(()),
            Scale::Create(count) => {
                let created = Mutex::new(Vec::new());
                let template = set.get(&["spec", "template"]).cloned().unwrap_or_default();
                let create = || async {
                    match self.control.create_with_event(set, pod_from(&template, set)).await {
                        Ok(pod) => created.lock().push(Pod::new(pod)),
                        Err(status) if is_namespace_terminating(&status) => {}
                        Err(status) => return Err(status),
                    }
                    Ok(())
                };
                let (_, result) = slow_start((0..*count).map(|_| create())).await;
                pods.extend(created.into_inner());
                Ok(result?)
            }
            Scale::Delete(deleting) => {
                let result = self.control.delete_all(set, deleting).await;
                if result.is_ok() {
                    for pod in pods.iter_mut().filter(|pod| deleting.iter().any(|deleting| deleting.uid() == pod.uid()))
                    {
                        *pod = Pod::deleting(Arc::clone(&pod.object));
                    }
                }
                Ok(result?)
            }
        }
    }
}
