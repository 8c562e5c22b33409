//! Drives workloads out of clusters with NoExecute taints that their placement does not tolerate.
//!
//! Karmada looks at all bindings of a tainted cluster every ten seconds; here a changed taint makes all bindings of the
//! cluster due, a changed binding itself, and a toleration that runs out the binding at that time. Evictions are paced:
//! a cluster that fails must not bring down the others by everything arriving at once.
//!
//! With the gate ResilientFailover the rate is that of all evictions together, clusters that are lost are tolerated for
//! a while by those whose policy says nothing, and when no cluster is well nothing is driven out of any: then it is the
//! control plane that is cut off.
//!
//! Writes `spec.clusters` and `spec.gracefulEvictionTasks` of bindings.

mod pace;
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::policy::{ANNOTATION_APPLIED_PLACEMENT, FailoverBehavior, Placement};
use api::work::{BindingSpec, BindingStatus};
use jiff::Timestamp;
use object::taints::Taint;
use object::{Object, Status};
use propagation::binding_scope::check_stored;
use propagation::eviction::{Eviction, evict, evict_on_record};
use propagation::taint_eviction::{TaintVerdict, judge_taints, tolerations};
use reconcile::{Change, Controller, ObjectKey, Outcome, ReconcileError, Recorder, Regarding, Source, commit_object};
use tokio_util::sync::CancellationToken;

use crate::eviction::pace::{Pace, interval};
use crate::eviction::plan::{plan_eviction, plan_eviction_of_loss, purge_mode, state_of};
use crate::plane::{FIELD_MANAGER, Plane, target_names};
use crate::taint_policies::lost::is_of_loss;

const COMPONENT: &str = "taint-manager";
/// The evictor of ResourceBindings, and that of ClusterResourceBindings.
const NAMES: [&str; 2] = ["binding-eviction", "cluster-binding-eviction"];
/// Workers for each kind of binding, each of which keeps to the rate by itself, as in Karmada.
const WORKERS: usize = 3;
/// Workers that share one rate: more of them only write in parallel, which is cheaper.
const RESILIENT_WORKERS: usize = 16;
/// Retries of a binding write after a conflict.
const TRIES_MAX: usize = 3;
/// Interval for checking whether the control plane is isolated.
const CUT_OFF_WAIT: Duration = Duration::from_secs(5);
/// After a start, or when the machine wakes up, clusters have this long to say that they are back before a loss that was
/// noted earlier counts.
const START_WAIT: Duration = Duration::from_secs(10);

/// A binding that may have to leave a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Tenancy {
    cluster: String,
    binding: ObjectKey,
}

/// One for ResourceBindings, one for ClusterResourceBindings: `kind` is which.
struct Evictor {
    plane: Arc<Plane>,
    kind: usize,
    events: Recorder,
    /// Shared by both kinds.
    pace: Arc<Pace>,
    cancel: CancellationToken,
}

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    // Karmada runs the manager and lets it do nothing.
    if !plane.settings.enable_no_execute_taint_eviction {
        return;
    }
    let events = plane.recorder(COMPONENT, &cancel);
    let pace = Arc::new(Pace::new(interval(plane.settings.resource_eviction_rate)));
    let evictors = NAMES.into_iter().enumerate().map(|(kind, name)| {
        let (plane, events, pace) = (Arc::clone(&plane), events.clone(), Arc::clone(&pace));
        run_evictor(name, Evictor { plane, kind, events, pace, cancel: cancel.clone() })
    });
    futures::future::join_all(evictors).await;
}

async fn run_evictor(name: &'static str, evictor: Evictor) {
    let evictor = Arc::new(evictor);
    let (by_taint, by_binding) = (Arc::clone(&evictor), Arc::clone(&evictor));
    let sources = vec![
        Source::new(&evictor.plane.clusters, move |change| by_taint.tenants_of_tainted(change)),
        Source::new(&evictor.plane.bindings[evictor.kind], move |change| by_binding.tainted_homes(change)),
    ];
    let cancel = evictor.cancel.clone();
    let workers = if evictor.plane.features.resilient_failover { RESILIENT_WORKERS } else { WORKERS };
    let controller = Controller::<Tenancy>::new(name).observed_by(&evictor.plane.metrics.controllers);
    let reconcile = move |tenancy: Tenancy| reconcile(Arc::clone(&evictor), tenancy);
    controller.run(sources, workers, cancel, reconcile).await;
}

impl Evictor {
    /// Everything in a cluster whose NoExecute taints are new.
    fn tenants_of_tainted(&self, change: &Change) -> Vec<Tenancy> {
        let taints = |cluster: &Option<Arc<Object>>| cluster.as_ref().map(|c| no_execute(c)).unwrap_or_default();
        let now = taints(&change.now);
        if now.is_empty() || now == taints(&change.before) {
            return Vec::new();
        }
        let cluster = &change.key.name;
        let tenants = self.plane.placed_on_kind(self.kind, cluster);
        tenants.iter().map(|b| Tenancy { cluster: cluster.clone(), binding: ObjectKey::of(b) }).collect()
    }

    /// The tainted clusters a binding is in. Most of the time there is none, and nothing is looked at.
    fn tainted_homes(&self, change: &Change) -> Vec<Tenancy> {
        let Some(now) = &change.now else { return Vec::new() };
        let tainted = self.plane.evicting_clusters();
        let homes = tainted.iter().filter(|cluster| target_names(now).any(|target| target == cluster.name()));
        homes.map(|c| Tenancy { cluster: c.name().to_owned(), binding: change.key.clone() }).collect()
    }

    async fn read(&self, tenancy: &Tenancy) -> Result<Option<Arc<Object>>, Status> {
        self.plane.client.find(self.plane.bindings[self.kind].target(&tenancy.binding)).await
    }

    /// `newer` is the binding where the mirror is known to be late.
    fn gather(&self, tenancy: &Tenancy, newer: Option<Arc<Object>>) -> Option<(Arc<Object>, Vec<Taint>)> {
        let binding = newer.or_else(|| self.plane.bindings[self.kind].get(&tenancy.binding))?;
        let is_there = !binding.is_deleting()
            && target_names(&binding).any(|target| target == tenancy.cluster)
            && check_stored(&binding).is_ok();
        let taints = no_execute(&*self.plane.cluster(&tenancy.cluster)?);
        (is_there && !taints.is_empty()).then_some((binding, taints))
    }

    /// Must the workload leave? Without a placement nothing is known of what is tolerated; when one is applied, the
    /// binding comes again.
    fn judge(&self, tenancy: &Tenancy, binding: &Object, taints: &[Taint]) -> Result<TaintVerdict, ReconcileError> {
        let Some(placement) = applied_placement(binding)? else { return Ok(TaintVerdict::Stay) };
        let now = self.plane.clock.now();
        if !self.plane.features.resilient_failover {
            return Ok(judge_taints(taints, &placement.cluster_tolerations, now));
        }
        let failover: Option<FailoverBehavior> = api::read_at(binding, &["spec", "failover"])?;
        let tolerated =
            tolerations(&placement.cluster_tolerations, failover.as_ref(), &self.plane.settings.default_tolerations);
        let verdict = judge_taints(taints, &tolerated, now);
        if verdict != TaintVerdict::Leave || !taints.iter().all(is_of_loss) {
            return Ok(verdict);
        }
        let awake_since = self.plane.suspend_detector.awake_since(now);
        let since_start = Duration::try_from(now.duration_since(awake_since)).unwrap_or_default();
        let was_lost_before = taints.iter().all(|taint| is_added_before(taint, awake_since));
        if was_lost_before && since_start < START_WAIT {
            return Ok(TaintVerdict::StayFor(START_WAIT - since_start));
        }
        match self.plane.has_other_ready_cluster(&tenancy.cluster) {
            true => Ok(TaintVerdict::Leave),
            false => Ok(TaintVerdict::StayFor(CUT_OFF_WAIT)),
        }
    }

    fn name(&self) -> &'static str {
        NAMES[self.kind]
    }

    async fn evict(&self, cluster: &str, binding: &Object, taints: &[Taint]) -> Result<(), Status> {
        let started = Instant::now();
        let result = self.commit_eviction(cluster, binding, taints).await;
        self.plane.metrics.members.eviction_processed(self.name(), result.is_ok(), started.elapsed());
        result
    }

    async fn commit_eviction(&self, cluster: &str, binding: &Object, taints: &[Taint]) -> Result<(), Status> {
        let spec: BindingSpec = api::read(binding)?;
        let features = &self.plane.features;
        let mode = purge_mode(spec.failover.as_ref(), self.plane.settings.no_execute_taint_eviction_purge_mode);
        let status: BindingStatus = api::read_at(binding, &["status"])?;
        let preserved_label_state = match features.stateful_failover_injection {
            true => state_of(&spec, &status, cluster).map_err(Status::internal)?,
            false => BTreeMap::new(),
        };
        let eviction = Eviction { preserved_label_state, ..plan_eviction(mode) };
        let mut desired = binding.clone();
        if features.resilient_failover {
            let loss = plan_eviction_of_loss(eviction, &spec, &status, cluster, taints, features);
            let loss = loss.map_err(Status::internal)?;
            evict_on_record(&mut desired, cluster, loss, self.plane.clock.now());
        } else {
            evict(&mut desired, cluster, eviction);
        }
        let target = self.plane.bindings[self.kind].target(&ObjectKey::of(binding));
        let result = commit_object(&self.plane.client, target, binding, &desired, FIELD_MANAGER).await;
        let Err(status) = result else { return Ok(()) };
        if !status.is_conflict() {
            let message = format!("Evict from cluster {cluster} failed.");
            let resource = spec.resource;
            let template = Regarding {
                api_version: resource.api_version,
                kind: resource.kind,
                namespace: resource.namespace,
                name: resource.name,
                uid: resource.uid,
            };
            self.events.warning(binding, "EvictWorkloadFromClusterFailed", message.clone());
            self.events.warning(template, "EvictWorkloadFromClusterFailed", message);
        }
        Err(status)
    }

    /// Waits until it may be this one's turn. Says whether there is to be one.
    async fn turn(&self) -> bool {
        tokio::select! {
            () = self.cancel.cancelled() => false,
            () = self.pace.turn() => true,
        }
    }

    /// Holds the worker after an eviction, as Karmada's do.
    async fn pause(&self) {
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = tokio::time::sleep(interval(self.plane.settings.resource_eviction_rate)) => {}
        }
    }
}

async fn reconcile(evictor: Arc<Evictor>, tenancy: Tenancy) -> Result<Outcome, ReconcileError> {
    let Some((binding, taints)) = evictor.gather(&tenancy, None) else { return Ok(Outcome::Done) };
    match evictor.judge(&tenancy, &binding, &taints)? {
        TaintVerdict::Stay => Ok(Outcome::Done),
        TaintVerdict::StayFor(wait) => Ok(Outcome::After(wait)),
        TaintVerdict::Leave => {
            let (members, kind) = (&evictor.plane.metrics.members, binding.str_at(&["spec", "resource", "kind"]));
            members.eviction_waits(evictor.name(), &tenancy.cluster, kind, 1.0);
            let result = leave(&evictor, &tenancy, &binding, &taints).await;
            members.eviction_waits(evictor.name(), &tenancy.cluster, kind, -1.0);
            result
        }
    }
}

async fn leave(
    evictor: &Evictor,
    tenancy: &Tenancy,
    binding: &Object,
    taints: &[Taint],
) -> Result<Outcome, ReconcileError> {
    if evictor.plane.features.resilient_failover {
        return leave_in_turn(evictor, tenancy).await;
    }
    evictor.evict(&tenancy.cluster, binding, taints).await?;
    evictor.pause().await;
    Ok(Outcome::Done)
}

/// Waits for its turn, and leaves if that is still so then: the cluster may have come back meanwhile.
async fn leave_in_turn(evictor: &Evictor, tenancy: &Tenancy) -> Result<Outcome, ReconcileError> {
    if !evictor.turn().await {
        return Ok(Outcome::Done);
    }
    let mut newer = None;
    for _ in 0..TRIES_MAX {
        let Some((binding, taints)) = evictor.gather(tenancy, newer.take()) else { return Ok(Outcome::Done) };
        match evictor.judge(tenancy, &binding, &taints)? {
            TaintVerdict::Stay => return Ok(Outcome::Done),
            TaintVerdict::StayFor(wait) => return Ok(Outcome::After(wait)),
            TaintVerdict::Leave => {}
        }
        match evictor.evict(&tenancy.cluster, &binding, &taints).await {
            Ok(()) => return Ok(Outcome::Done),
            // To wait for the mirror would cost another turn, and there are not many.
            Err(status) if status.is_conflict() => newer = evictor.read(tenancy).await?,
            Err(status) => return Err(status.into()),
        }
    }
    Ok(Outcome::Retry)
}

fn is_added_before(taint: &Taint, time: Timestamp) -> bool {
    taint.time_added.as_deref().and_then(object::time::parse).is_some_and(|added| added < time)
}

/// The placement the scheduler went by.
fn applied_placement(binding: &Object) -> Result<Option<Placement>, ReconcileError> {
    let Some(text) = binding.annotation(ANNOTATION_APPLIED_PLACEMENT) else { return Ok(None) };
    serde_json::from_str(text).map_err(|error| {
        ReconcileError::other(format!("the applied placement of {} cannot be read: {error}", ObjectKey::of(binding)))
    })
}

fn no_execute(cluster: &Object) -> Vec<Taint> {
    let taints: Vec<Taint> = api::read_at(cluster, &["spec", "taints"]).unwrap_or_default();
    taints.into_iter().filter(|taint| taint.effect == "NoExecute").collect()
}

#[cfg(test)]
mod tests;
