//! Reports EndpointSlices of a member to the control plane, for services that are provided or exported by it.
//!
//! The slices of a member are watched only while a Work of the member asks for some. One key is one service: its slices in
//! the member, the Works that ask for them and the Works that hold them decide together what is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::features::Features;
use api::networking::{CONTROLLER_DISPATCH, CONTROLLER_IMPORT, LABEL_SLICE_CONTROLLER, LABEL_SLICE_SERVICE};
use api::work::WORKS;
use cluster_client::{ClusterClient, DeleteOptions, Patch, Preconditions, ResourceRef, WriteOptions};
use object::{Object, Status, builtin};
use parking_lot::Mutex;
use propagation::services::collection::{
    CollectedChange, CollectionFacts, Collector, Released, ServiceKey, collected_for, is_taken, plan_collection,
    service_of_slice, wanted_by,
};
use propagation::works::{DesiredWork, WorkChange};
use reconcile::{
    Change, Committed, Index, Mirror, MirrorLimits, MirrorSpec, ObjectKey, Outcome, Priority, ReconcileError,
    WorkQueue, commit_object,
};
use tokio_util::sync::CancellationToken;

use crate::member::{FIELD_MANAGER, Member, MemberState};
use crate::workers;

/// Name of the controller, in logs and metrics.
const CONTROLLER: &str = "endpointslice-collect-controller";
/// Services of one member that are handled at the same time.
const WORKERS: usize = 4;
/// Slices of a member that are mirrored; a member with more reports none.
const LIMITS: MirrorLimits = MirrorLimits { objects: 50_000, bytes: 128 * 1024 * 1024 };

/// Which controllers of Karmada that report slices are switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectSettings {
    /// `serviceExport`.
    pub exports: bool,
    /// `endpointsliceCollect`; needs the gate MultiClusterService too.
    pub services: bool,
}

impl Default for CollectSettings {
    fn default() -> Self {
        Self { exports: true, services: true }
    }
}

/// A service in an execution namespace; no service stands for any that is asked for.
pub type SliceWorkKey = (String, Option<ServiceKey>);

/// Stands for any service whose slices are reported: a service has a name.
fn any_reported() -> Option<ServiceKey> {
    Some(ServiceKey::default())
}

/// Works that ask for slices or hold them, of all members.
pub fn index_works(works: &Mirror) -> Index<SliceWorkKey> {
    works.index(|work| {
        let (wanted, reported) = (wanted_by(work), collected_for(work));
        let any = [(!wanted.is_empty()).then_some(None), (!reported.is_empty()).then(any_reported)];
        let services = wanted.into_iter().map(|(_, service)| service).chain(reported).map(Some);
        let mut keys: Vec<SliceWorkKey> =
            services.chain(any.into_iter().flatten()).map(|service| (work.namespace().to_owned(), service)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    })
}

/// The collection of one member.
pub struct Collection {
    enabled: Vec<Collector>,
    queue: Arc<WorkQueue<ServiceKey>>,
    open: Mutex<Option<SliceWatch>>,
}

#[derive(Clone)]
struct SliceWatch {
    mirror: Mirror,
    by_service: Index<ServiceKey>,
    cancel: CancellationToken,
}

impl Collection {
    pub fn new(features: &Features, settings: CollectSettings) -> Self {
        let is_on = |collector: &Collector| match collector {
            Collector::Service => features.multi_cluster_service && settings.services,
            Collector::Export => settings.exports,
        };
        let enabled = Collector::ALL.into_iter().filter(is_on).collect();
        Self { enabled, queue: Arc::default(), open: Mutex::default() }
    }

    /// A Work of the member has changed.
    pub fn work_changed(&self, before: Option<&Object>, now: Option<&Object>) {
        if self.enabled.is_empty() {
            return;
        }
        let wanted = [before, now].map(|work| work.map(wanted_by).unwrap_or_default());
        let mut services: Vec<ServiceKey> = Vec::new();
        if wanted[0] != wanted[1] {
            services.extend(wanted.into_iter().flatten().map(|(_, service)| service));
        }
        let shape = |work: &Object| (work.generation(), work.is_deleting(), work.get(&["metadata", "labels"]).cloned());
        if before.map(shape) != now.map(shape) {
            services.extend([before, now].into_iter().flatten().flat_map(collected_for));
        }
        for service in services {
            self.queue.add_now(service, Priority::NORMAL);
        }
    }

    /// Watches again from the start: changes were missed while the member was away.
    pub fn restart(&self) {
        self.close();
    }

    fn close(&self) {
        if let Some(watch) = self.open.lock().take() {
            watch.cancel.cancel();
        }
    }

    /// The watch on the slices of the member; opened by the first service that needs it.
    fn opened(&self, member: &Arc<Member>) -> SliceWatch {
        let mut open = self.open.lock();
        if let Some(watch) = &*open {
            return watch.clone();
        }
        let cancel = member.cancel.child_token();
        let selector =
            format!("{LABEL_SLICE_SERVICE},{LABEL_SLICE_CONTROLLER} notin ({CONTROLLER_DISPATCH},{CONTROLLER_IMPORT})");
        let spec = MirrorSpec::new(&builtin::endpoint_slices()).packed().limits(LIMITS).labels(&selector);
        let spec = spec.trim(|slice| drop(slice.remove(&["metadata", "managedFields"])));
        let mirror = Mirror::start(member.client.clone(), spec, cancel.clone());
        let by_service = mirror.index(|slice| service_of_slice(slice).into_iter().collect());
        let following = follow(Arc::clone(member), mirror.clone());
        tokio::spawn(cancel.clone().run_until_cancelled_owned(following));
        let watch = SliceWatch { mirror, by_service, cancel };
        *open = Some(watch.clone());
        watch
    }
}

/// Queues the services of changed slices, and all that are wanted once the copy is complete.
async fn follow(member: Arc<Member>, mirror: Mirror) {
    let mut changes = mirror.subscribe();
    let woken = async {
        mirror.synced().await;
        wake_all(&member);
    };
    let pumped = async {
        while let Some(Change { before, now, .. }) = changes.next().await {
            for service in [before, now].into_iter().flatten().filter_map(|slice| service_of_slice(&slice)) {
                let is_asked_for = !member.plane.slice_works.keys(&key_of(&member, &service)).is_empty();
                if is_asked_for {
                    member.collection.queue.add_now(service, Priority::NORMAL);
                }
            }
        }
    };
    tokio::join!(woken, pumped);
}

fn key_of(member: &Member, service: &ServiceKey) -> SliceWorkKey {
    (member.execution_namespace.clone(), Some(service.clone()))
}

/// Looks at every service of the member that is asked for or reported.
pub fn wake_all(member: &Member) {
    if member.collection.enabled.is_empty() {
        return;
    }
    let queue = &member.collection.queue;
    let wanted = member.plane.slice_works.list(&(member.execution_namespace.clone(), None));
    for (_, service) in wanted.iter().flat_map(|work| wanted_by(work)) {
        queue.add_now(service, Priority::LOW);
    }
}

/// Runs until cancelled.
pub async fn run(member: Arc<Member>, cancel: CancellationToken) {
    if member.collection.enabled.is_empty() {
        return cancel.cancelled().await;
    }
    wake_reported(&member);
    let handler = Arc::clone(&member);
    let reconcile = move |service: ServiceKey| {
        let member = Arc::clone(&handler);
        async move { reconcile(&member, &service).await }
    };
    let queue = Arc::clone(&member.collection.queue);
    workers::run(CONTROLLER, queue, WORKERS, cancel, reconcile).await;
    member.collection.close();
}

/// At the start, also services whose slices are reported though nothing asks for them any more.
fn wake_reported(member: &Member) {
    let reported = member.plane.slice_works.list(&(member.execution_namespace.clone(), any_reported()));
    for service in reported.iter().flat_map(|work| collected_for(work)) {
        member.collection.queue.add_now(service, Priority::LOW);
    }
    wake_all(member);
}

async fn reconcile(member: &Arc<Member>, service: &ServiceKey) -> Result<Outcome, ReconcileError> {
    let collection = &member.collection;
    let asked = member.plane.slice_works.list(&key_of(member, service));
    let is_wanted = |collector: &Collector| {
        let wants = |work: &Arc<Object>| wanted_by(work).iter().any(|(by, of)| by == collector && of == service);
        asked.iter().any(wants)
    };
    let wanted: BTreeMap<Collector, bool> =
        collection.enabled.iter().map(|collector| (*collector, is_wanted(collector))).collect();
    let mut slices = Vec::new();
    if wanted.values().any(|is_wanted| *is_wanted) {
        let is_ready = member.cluster_object().is_some_and(|cluster| MemberState::of(&cluster).is_ready);
        // Its watch is opened again when it is ready; until then what is known stays.
        if !is_ready {
            return Ok(Outcome::Done);
        }
        let watch = collection.opened(member);
        if !watch.mirror.is_synced() {
            return Ok(Outcome::Done);
        }
        slices = watch.by_service.list(service);
    }
    let works: Vec<Arc<Object>> = asked.into_iter().filter(|work| !collected_for(work).is_empty()).collect();
    let facts = CollectionFacts { cluster: &member.cluster, service, wanted: &wanted, slices: &slices, works: &works };
    let plan = plan_collection(&facts);
    for refusal in &plan.refused {
        tracing::warn!(cluster = member.cluster, %refusal, "an EndpointSlice is not collected");
    }
    let mut outcome = Outcome::Done;
    for change in plan.changes {
        let committed = match change {
            CollectedChange::Report(work) => commit_report(member, *work, &slices).await,
            CollectedChange::Release(work, released) => commit_release(member, &work, released).await,
        };
        match committed {
            Ok(then) if then != Outcome::Done => outcome = then,
            Ok(_) => {}
            Err(status) => return Err(status.into()),
        }
    }
    if member.plane.slice_works.keys(&(member.execution_namespace.clone(), None)).is_empty() {
        collection.close();
    }
    Ok(outcome)
}

async fn commit_report(member: &Member, work: DesiredWork, slices: &[Arc<Object>]) -> Result<Outcome, Status> {
    let (plane, key) = (&member.plane, ObjectKey::new(&work.namespace, &work.name));
    let existing = plane.works.get(&key);
    let slice =
        slices.iter().find(|slice| api::names::work_name(slice.kind(), slice.name(), slice.namespace()) == key.name);
    if let (Some(existing), Some(slice)) = (&existing, slice)
        && is_taken(existing, slice)
    {
        tracing::warn!(work = %key, slice = slice.name(), "the name of the Work of a slice is taken");
        return Ok(Outcome::Done);
    }
    let options = WriteOptions::managed_by(FIELD_MANAGER);
    let written = match work.plan(existing.as_deref()) {
        // It is created again once it is gone.
        Err(_) => return Ok(Outcome::Retry),
        Ok(WorkChange::Unchanged) => return Ok(Outcome::Done),
        Ok(WorkChange::Create(work)) => {
            plane.client.create(ResourceRef::within(&WORKS.gvr(), &key.namespace), work, options).await?
        }
        Ok(WorkChange::Patch(patch)) => {
            plane.client.patch(plane.works.target(&key), Patch::merge(patch), options).await?
        }
    };
    plane.works.note(&written);
    Ok(Outcome::Done)
}

async fn commit_release(member: &Member, work: &Arc<Object>, released: Released) -> Result<Outcome, Status> {
    let (client, works): (&ClusterClient, &Mirror) = (&member.plane.client, &member.plane.works);
    let target = works.target(&ObjectKey::of(work));
    let result = match released {
        Released::Delete => {
            let preconditions = Preconditions { uid: Some(work.uid().to_owned()), resource_version: None };
            let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
            client.delete(target, options).await.map(|answer| works.note_deleted(work, &answer))
        }
        Released::Relabel(desired) => {
            let committed = commit_object(client, target, work, &desired, FIELD_MANAGER).await;
            committed.map(|committed| match committed {
                Committed::Written(written) => works.note(&written),
                Committed::Unchanged => {}
            })
        }
    };
    match result {
        Err(status) if status.is_not_found() => works.note_gone(work),
        result => result?,
    }
    Ok(Outcome::Done)
}
