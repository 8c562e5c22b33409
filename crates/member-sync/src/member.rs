//! One member: its client, what is known of it, its queue. Nothing of one member waits for another.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use api::cluster::{CONDITION_READY, ClusterSpec};
use api::core::{Condition, find_condition};
use api::features::Features;
use api::names;
use cluster_client::{ClusterClient, RestMapper};
use object::Object;
use object::builtin;
use parking_lot::Mutex;
use plane_metrics::PlaneMetrics;
use plane_state::MemberCapacity;
use reconcile::controller::ending_of;
use reconcile::{Clock, Index, Mirror, ObjectKey, Outcome, Priority, ReconcileError, Recorder, WorkQueue};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::collect::{self, Collection, SliceWorkKey};
use crate::manifest::{self, manifests};
use crate::record::Records;
use crate::settings::Settings;
use crate::status::threshold::Threshold;
use crate::status::unschedulable::Waiting;
use crate::watches::{Waits, Watches, work_of_object};
use crate::{dispatch, removal, status, workers};

/// Field manager of this crate.
pub const FIELD_MANAGER: &str = "karmada-controller-manager";

/// Name of the Work controller, in logs and metrics.
const CONTROLLER: &str = "execution-controller";

/// Event recorders; shared by all members.
#[derive(Clone)]
pub struct Recorders {
    /// As `execution-controller`.
    pub execution: Recorder,
    /// As `work-status-controller`.
    pub work_status: Recorder,
}

impl Recorders {
    pub fn start(plane: &ClusterClient, clock: &Arc<dyn Clock>, cancel: &CancellationToken) -> Self {
        let recorder = |name| Recorder::start(plane.clone(), name, Arc::clone(clock), cancel.clone());
        Self { execution: recorder("execution-controller"), work_status: recorder("work-status-controller") }
    }
}

/// State shared by all members of a control plane.
#[derive(Clone)]
pub struct Plane {
    pub client: ClusterClient,
    /// The works of this member at least.
    pub works: Mirror,
    /// Works that ask for EndpointSlices or hold them.
    pub slice_works: Index<SliceWorkKey>,
    /// Works that others need in the member first, by namespace.
    pub ground_works: Index<String>,
    /// The Cluster of this member at least.
    pub clusters: Mirror,
    pub interpreter: interpreter_runtime::SharedInterpreter,
    pub member_capacity: MemberCapacity,
    pub features: Arc<Features>,
    pub clock: Arc<dyn Clock>,
    pub metrics: PlaneMetrics,
    pub recorders: Recorders,
    pub settings: Settings,
}

pub struct Member {
    pub plane: Plane,
    pub cluster: String,
    pub execution_namespace: String,
    pub client: ClusterClient,
    /// The reason there is no client; `client` then refuses every call.
    pub link_problem: Option<String>,
    pub queue: Arc<WorkQueue<String>>,
    pub mapper: RestMapper,
    pub watches: Watches,
    pub records: Records,
    pub collection: Collection,
    /// Unschedulable pods, which the status of Works includes.
    pub waiting: Mutex<Waiting>,
    /// Thresholds for changes of its readiness.
    pub threshold: Arc<Mutex<Threshold>>,
    /// Asks for a heartbeat now.
    pub heartbeat_now: Notify,
    pub cancel: CancellationToken,
}

/// The state of the member as its Cluster shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberState {
    pub is_ready: bool,
    pub is_leaving: bool,
}

impl MemberState {
    pub fn of(cluster: &Object) -> Self {
        let conditions: Vec<Condition> = api::read_at(cluster, &["status", "conditions"]).unwrap_or_default();
        let is_ready = find_condition(&conditions, CONDITION_READY).is_some_and(Condition::is_true);
        Self { is_ready, is_leaving: cluster.is_deleting() }
    }
}

impl Member {
    pub fn new(
        plane: Plane,
        cluster: &str,
        client: ClusterClient,
        link_problem: Option<String>,
        threshold: Arc<Mutex<Threshold>>,
        cancel: CancellationToken,
    ) -> Arc<Self> {
        let execution_namespace = names::execution_namespace(cluster);
        let keys_waiting_max = reconcile::queue::KEYS_WAITING_MAX;
        let queue = WorkQueue::new(plane.settings.backoff, keys_waiting_max);
        let queue = Arc::new(queue.observed_by(plane.metrics.controllers.queue(CONTROLLER)));
        let watches = Watches::new(
            client.clone(),
            &execution_namespace,
            Arc::clone(&queue),
            Waits { sync: plane.settings.sync_wait, reflect: plane.settings.reflect_wait },
            cancel.child_token(),
        );
        let collection = Collection::new(&plane.features, plane.settings.collect);
        Arc::new(Self {
            mapper: RestMapper::new(client.clone()),
            watches,
            queue,
            plane,
            cluster: cluster.to_owned(),
            execution_namespace,
            client,
            link_problem,
            records: Records::default(),
            collection,
            waiting: Mutex::default(),
            threshold,
            heartbeat_now: Notify::new(),
            cancel,
        })
    }

    /// Runs until its token is cancelled. Works come through `work_changed` and the Cluster through `cluster_changed`.
    pub async fn run(self: Arc<Self>) {
        let handler = Arc::clone(&self);
        let worker_metrics = self.plane.metrics.controllers.workers(CONTROLLER, self.plane.settings.workers);
        let reconcile = move |name: String| {
            let (handler, started, since) = (Arc::clone(&handler), worker_metrics.started(), Instant::now());
            async move {
                let metrics = handler.plane.metrics.propagation.clone();
                let result = handler.reconcile(name).await;
                metrics.work_dispatched(matches!(result, Ok(Outcome::Done | Outcome::After(_))), since.elapsed());
                started.ended(ending_of(&result));
                result
            }
        };
        let works = workers::run(
            CONTROLLER,
            Arc::clone(&self.queue),
            self.plane.settings.workers,
            self.cancel.clone(),
            reconcile,
        );
        self.wake_all();
        let collecting = collect::run(Arc::clone(&self), self.cancel.clone());
        let runs = self.plane.settings.runs;
        let works = async {
            match runs.execution {
                true => works.await,
                false => self.cancel.cancelled().await,
            }
        };
        let heartbeat = async {
            if runs.cluster_status {
                status::run(Arc::clone(&self), self.cancel.clone()).await;
            }
        };
        tokio::join!(works, heartbeat, collecting, self.wake_after_safe_mode());
        self.plane.member_capacity.forget(&self.cluster);
    }

    /// Queues all works again when safe mode ends.
    async fn wake_after_safe_mode(&self) {
        loop {
            tokio::select! {
                () = self.cancel.cancelled() => return,
                () = self.plane.settings.gate.ended() => self.wake_all(),
            }
        }
    }

    /// A work of this member has changed or is new.
    pub fn work_changed(&self, before: Option<&Object>, now: Option<&Object>) {
        let Some(work) = now.or(before) else { return };
        self.collection.work_changed(before, now);
        let is_news = match (before, now) {
            // Our own writes of the status come back here.
            (Some(before), Some(now)) => {
                before.generation() != now.generation()
                    || before.uid() != now.uid()
                    || before.is_deleting() != now.is_deleting()
            }
            _ => true,
        };
        if is_news {
            let priority = if is_ground(work) { Priority::HIGH } else { Priority::NORMAL };
            self.queue.add_now(work.name().to_owned(), priority);
        }
    }

    /// The Cluster of this member has changed.
    pub fn cluster_changed(&self, before: Option<&Object>, now: &Object) {
        let (was, is) = (before.map(MemberState::of).unwrap_or_default(), MemberState::of(now));
        if is.is_ready && !was.is_ready && before.is_some() {
            // Changes were missed while it was away, and what it serves may be other than it was.
            self.watches.restart();
            self.mapper.invalidate();
            self.collection.restart();
        }
        if was != is {
            self.wake_all();
            collect::wake_all(self);
        }
        if before.is_none_or(|before| before.generation() != now.generation() || has_new_finalizers(before, now)) {
            self.heartbeat_now.notify_one();
        }
    }

    /// Looks at every work of the member again.
    pub fn wake_all(&self) {
        let ground: HashSet<ObjectKey> = self.plane.ground_works.keys(&self.execution_namespace).into_iter().collect();
        for key in self.plane.works.keys_within(&self.execution_namespace) {
            let priority = if ground.contains(&key) { Priority::HIGH } else { Priority::LOW };
            self.queue.forget(&key.name);
            self.queue.add_now(key.name, priority);
        }
    }

    /// Handles a change of unschedulable pods: the Work of the Deployment, if any, reports it.
    pub fn deployment_waits(&self, deployment: &ObjectKey) {
        let gvr = builtin::deployments();
        let Some(found) = self.watches.known(&gvr).and_then(|mirror| mirror.get(deployment)) else { return };
        if let Some(work) = work_of_object(&found, &self.execution_namespace) {
            self.queue.add_after(work, self.plane.settings.reflect_wait, Priority::NORMAL);
        }
    }

    /// Returns the Cluster object of the member; `None` when the control plane has none.
    pub fn cluster_object(&self) -> Option<Arc<Object>> {
        self.plane.clusters.get(&ObjectKey::new("", &self.cluster))
    }

    pub fn spec(&self) -> ClusterSpec {
        self.cluster_object().and_then(|cluster| api::read(&cluster).ok()).unwrap_or_default()
    }

    async fn reconcile(self: Arc<Self>, name: String) -> Result<Outcome, ReconcileError> {
        let Some(work) = self.plane.works.get(&ObjectKey::new(&self.execution_namespace, &name)) else {
            self.records.forget(&name);
            return Ok(Outcome::Done);
        };
        let Some(cluster) = self.cluster_object() else { return Ok(Outcome::Done) };
        let state = MemberState::of(&cluster);
        if work.is_deleting() {
            return removal::remove(&self, &work, state).await;
        }
        dispatch::dispatch(&self, &work, state).await
    }

    /// Closes the watches on resources that no work of the member uses any more.
    pub async fn close_unused_watches(&self) {
        let works = self.plane.works.list_within(&self.execution_namespace);
        let kinds: HashSet<_> = works.iter().flat_map(|work| manifests(work)).filter_map(|m| m.gvk().ok()).collect();
        let mut used = HashSet::new();
        for kind in kinds {
            match self.mapper.resource_of(&kind).await {
                Ok(resource) => drop(used.insert(resource.gvr)),
                Err(status) if status.is_not_found() => {}
                // Not known is not unused.
                Err(_) => return,
            }
        }
        self.watches.keep_only(&used);
    }
}

fn has_new_finalizers(before: &Object, now: &Object) -> bool {
    before.finalizers().count() != now.finalizers().count()
}

/// Others need namespaces and definitions to be there first.
fn is_ground(work: &Object) -> bool {
    let kind = manifest::manifests(work).next().map(|manifest| manifest.kind());
    kind.is_some_and(|kind| matches!(kind, "Namespace" | "CustomResourceDefinition"))
}

/// The works that go first, by namespace.
pub fn index_ground_works(works: &Mirror) -> Index<String> {
    works.index(|work| if is_ground(work) { vec![work.namespace().to_owned()] } else { Vec::new() })
}
