//! `endpointsliceDispatch`: gives the slices collected from providers of a MultiClusterService to its consumers.
//!
//! Writes the Works of consumers and the conditions `EndpointSliceDispatched` and `flotilla.dev/EndpointsReachable`, and
//! takes its finalizer off collected Works once their copies are gone.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::networking::{
    CONDITION_ENDPOINTS_REACHABLE, CONDITION_SLICES_DISPATCHED, FINALIZER_SLICE_DISPATCH, MULTI_CLUSTER_SERVICES,
    SERVICE_NAME,
};
use object::Object;
use object::conditions::{self, NewCondition};
use propagation::services::SliceRefusal;
use propagation::services::collection::{Collector, ServiceKey};
use propagation::services::dispatch::{
    DispatchFacts, DispatchPlan, is_dispatched, plan_dispatch, source_of, unreachable_message,
};
use propagation::services::exposure::{Clusters, Role, check_cluster, concerns, is_cross_cluster};
use reconcile::{Change, Controller, Index, Mirror, ObjectKey, Outcome, ReconcileError, Recorder, Source};
use tokio_util::sync::CancellationToken;

use crate::plane::{ServicePlane, has_cluster_turned, has_work_changed};

const COMPONENT: &str = "endpointslice-dispatch-controller";
const WORKERS: usize = 4;
const DISPATCHED: &str = "EndpointSlice are dispatched successfully";
/// Refusals that a condition shows.
const SHOWN_MAX: usize = 5;

/// Keys of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Service(ServiceKey),
    /// A collected Work that goes, or is collected for something else now.
    Leaving(ObjectKey),
}

struct Dispatch {
    plane: Arc<ServicePlane>,
    services: Mirror,
    /// Works of consumers by the collected Work they were made of.
    by_source: Index<(String, String)>,
    events: Recorder,
}

pub async fn run(plane: Arc<ServicePlane>, cancel: CancellationToken) {
    let controller = Arc::new(Dispatch {
        services: plane.mirrors.of(&MULTI_CLUSTER_SERVICES.gvr()),
        by_source: plane.works.index(|work| source_of(work).into_iter().collect()),
        events: plane.recorder(COMPONENT, &cancel),
        plane,
    });
    let by_cluster = Arc::clone(&controller);
    let sources = vec![
        Source::new(&controller.plane.works, of_work),
        Source::new(&controller.services, of_service),
        Source::new(&controller.plane.clusters, move |change| by_cluster.of_cluster(change)),
    ];
    let running = Controller::new(COMPONENT).observed_by(&controller.plane.metrics.controllers);
    let reconcile = move |key: Key| {
        let controller = Arc::clone(&controller);
        async move {
            match key {
                Key::Service(service) => controller.reconcile(&service).await,
                Key::Leaving(work) => controller.release(&work).await,
            }
        }
    };
    running.run(sources, WORKERS, cancel, reconcile).await;
}

fn of_work(change: &Change) -> Vec<Key> {
    let states = || [&change.before, &change.now].into_iter().flatten();
    let mut keys: Vec<Key> =
        states().filter_map(|work| Collector::Service.service_of(work)).map(Key::Service).collect();
    keys.dedup();
    if change.now.as_ref().is_some_and(|work| is_leaving(work)) {
        keys.push(Key::Leaving(change.key.clone()));
    }
    if keys.is_empty() || !has_work_changed(change) { Vec::new() } else { keys }
}

fn is_leaving(work: &Object) -> bool {
    work.has_finalizer(FINALIZER_SLICE_DISPATCH)
        && (work.is_deleting() || work.label(SERVICE_NAME).unwrap_or_default().is_empty())
}

fn of_service(change: &Change) -> Vec<Key> {
    let is_same = match (&change.before, &change.now) {
        (Some(before), Some(now)) => {
            before.get(&["spec"]) == now.get(&["spec"]) && before.is_deleting() == now.is_deleting()
        }
        _ => false,
    };
    if is_same { Vec::new() } else { vec![Key::Service(service_key(&change.key))] }
}

fn service_key(key: &ObjectKey) -> ServiceKey {
    ServiceKey { namespace: key.namespace.clone(), name: key.name.clone() }
}

impl Dispatch {
    fn of_cluster(&self, change: &Change) -> Vec<Key> {
        if change.is_initial || !has_cluster_turned(change) {
            return Vec::new();
        }
        let services = self.services.list().into_iter().filter(|service| concerns(service, &change.key.name));
        services.map(|service| Key::Service(service_key(&ObjectKey::of(&service)))).collect()
    }

    async fn reconcile(&self, key: &ServiceKey) -> Result<Outcome, ReconcileError> {
        let service = self.services.get(&ObjectKey::new(&key.namespace, &key.name));
        let service = service.filter(|service| !service.is_deleting() && is_cross_cluster(service));
        let clusters = match &service {
            Some(service) => Clusters::of(service, &self.plane.cluster_names())?,
            None => Clusters::default(),
        };
        let works = self.plane.works_by_service.list(key);
        let plan = plan_dispatch(&DispatchFacts {
            service: service.as_deref(),
            able: &self.able_consumers(&clusters),
            clusters: &clusters,
            works: &works,
            other_work: &|namespace, name| self.plane.works.get(&ObjectKey::new(namespace, name)),
        });
        let Some(service) = service else {
            return self.commit(plan).await.map(|_| Outcome::Done);
        };
        if plan.sources > 0 {
            self.report_absences(&service, &clusters);
        }
        let (has_sources, failure) = (plan.sources > 0, refusals(&plan.refused));
        let unreachable = unreachable_message(&plan.unreachable);
        let (has_written, failure, result) = match self.commit(plan).await {
            Ok(has_written) => (has_written, failure, Ok(Outcome::Done)),
            Err(error) => (false, Some(error.to_string()), Err(error)),
        };
        if has_sources || failure.is_some() {
            self.conclude(&service, failure.as_deref(), &unreachable, has_written).await?;
        }
        result
    }

    fn able_consumers(&self, clusters: &Clusters) -> BTreeSet<String> {
        let is_able = |name: &&String| {
            let cluster = self.plane.cluster(name);
            check_cluster(cluster.as_deref()).is_ok() && cluster.is_some_and(|cluster| !cluster.is_deleting())
        };
        clusters.consumers.iter().filter(is_able).cloned().collect()
    }

    fn report_absences(&self, service: &Arc<Object>, clusters: &Clusters) {
        for name in &clusters.consumers {
            if let Err(absence) = check_cluster(self.plane.cluster(name).as_deref()) {
                self.events.warning(&**service, absence.reason(), absence.message(Role::Consumer, name));
            }
        }
    }

    /// Writes what a plan asks for; a Work that fails holds up no other.
    async fn commit(&self, plan: DispatchPlan) -> Result<bool, ReconcileError> {
        let (mut has_written, mut failed) = (false, None);
        for work in plan.deletes {
            if let Err(status) = self.plane.delete_work(&work).await {
                failed = Some(status.into());
            }
        }
        for work in plan.works {
            match self.plane.commit_work(work).await {
                Ok(is_written) => has_written |= is_written,
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(has_written), Err)
    }

    async fn conclude(
        &self,
        service: &Arc<Object>,
        failure: Option<&str>,
        unreachable: &str,
        has_written: bool,
    ) -> Result<(), ReconcileError> {
        let kind = CONDITION_SLICES_DISPATCHED;
        let dispatched = match failure {
            None => {
                NewCondition { kind, status: "True", reason: "EndpointSliceDispatchedSucceed", message: DISPATCHED }
            }
            Some(message) => NewCondition { kind, status: "False", reason: "EndpointSliceDispatchedFailed", message },
        };
        let mut set = vec![dispatched];
        let mut removed = Vec::new();
        match unreachable {
            "" => removed.push(CONDITION_ENDPOINTS_REACHABLE),
            message => set.push(NewCondition {
                kind: CONDITION_ENDPOINTS_REACHABLE,
                status: "False",
                reason: "PodNetworksOverlap",
                message,
            }),
        }
        let had = conditions::find(service, CONDITION_ENDPOINTS_REACHABLE).map(|condition| condition.message());
        if !unreachable.is_empty() && had != Some(unreachable) {
            self.events.warning(&**service, "PodNetworksOverlap", unreachable);
        }
        let has_changed = self.plane.commit_conditions(&self.services, service, &set, &removed).await?;
        match failure {
            Some(why) if has_changed => self.events.warning(&**service, "DispatchEndpointSliceFailed", why),
            None if has_changed || has_written => {
                self.events.normal(&**service, "DispatchEndpointSliceSucceed", DISPATCHED);
            }
            _ => {}
        }
        Ok(())
    }

    /// Removes the copies of a collected slice, then lets its Work go.
    async fn release(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(work) = self.plane.works.get(key).filter(|work| is_leaving(work)) else { return Ok(Outcome::Done) };
        let copies = self.by_source.list(&(key.namespace.clone(), key.name.clone()));
        for copy in copies.iter().filter(|copy| is_dispatched(copy)) {
            self.plane.delete_work(copy).await?;
        }
        self.plane.release_work(&work, FINALIZER_SLICE_DISPATCH).await?;
        Ok(Outcome::Done)
    }
}

/// The slices that are left out, as one text. A cluster that does not provide the service is none of its owner's problems.
fn refusals(refused: &BTreeSet<SliceRefusal>) -> Option<String> {
    let is_problem = |refusal: &&SliceRefusal| !matches!(refusal, SliceRefusal::NotAProvider { .. });
    let texts: Vec<String> = refused.iter().filter(is_problem).take(SHOWN_MAX).map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

#[cfg(test)]
mod tests;
