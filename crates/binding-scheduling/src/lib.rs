//! Runs the scheduler over the bindings of a control plane.
//!
//! Watches ResourceBindings, ClusterResourceBindings and Clusters. Owns these fields of a binding: `spec.clusters`,
//! the annotation `policy.karmada.io/applied-placement`, the condition `Scheduled`, `schedulerObservedGeneration`,
//! `schedulerObservingAffinityName` and `lastScheduledTime`. With the gate ResilientFailover it records moves in the
//! annotation `flotilla.dev/failover-history` and evicts gracefully on failback.

mod commit;
mod descheduler;
mod failback;
mod gather;
mod queue;
mod schedule;
mod triggers;

use std::collections::HashMap;
use std::sync::Arc;

use api::features::Features;
use cluster_client::ClusterClient;
use estimator::client::{EstimatorSettings, Estimators};
use parking_lot::Mutex;
use plane_metrics::PlaneMetrics;
use plane_state::MemberCapacity;
use reconcile::{Clock, Index, Mirror, Mirrors, ObjectKey, Recorder};
use scheduler::{ClusterSnapshot, Plugins, SchedulerOptions};
use tokio_util::sync::CancellationToken;

use crate::failback::PlannedReturn;
use crate::gather::CapacityRefresh;
use crate::queue::SchedulingQueue;

pub use descheduler::Descheduling;
pub use plane_state::Decisions;

/// The field manager of all writes.
pub const FIELD_MANAGER: &str = "karmada-scheduler";

/// Bindings processed before yielding to other tasks. On a busy runtime, yielding after each binding would place only
/// one binding per round of all other tasks, and after a cluster loss most rounds would be spent on bindings that
/// were just written.
const BINDINGS_PER_TURN: usize = 16;

/// The dependencies of the scheduling component.
pub struct SchedulingDeps {
    pub mirrors: Mirrors,
    pub member_capacity: MemberCapacity,
    pub decisions: Decisions,
    pub features: Arc<Features>,
    pub clock: Arc<dyn Clock>,
    pub metrics: PlaneMetrics,
    pub settings: SchedulingSettings,
}

/// Karmada's flags with its defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulingSettings {
    /// Only bindings that ask for this scheduler are placed.
    pub scheduler_name: String,
    /// Enabled plugins: `*`, names, and `-name` to disable one.
    pub plugins: Vec<String>,
    pub empty_workload_propagation: bool,
    /// Estimate capacity from the nodes of watched members in addition to their resource summaries.
    pub estimate_from_nodes: bool,
    /// Settings for asking the estimators of members; `None` does not ask them.
    pub estimators: Option<EstimatorSettings>,
    /// Descheduler settings; `None` disables the descheduler.
    pub descheduling: Option<Descheduling>,
    /// Maximum number of concurrent placement writes.
    pub writes_at_once: usize,
}

impl Default for SchedulingSettings {
    fn default() -> Self {
        Self {
            scheduler_name: api::policy::DEFAULT_SCHEDULER.to_owned(),
            plugins: vec!["*".to_owned()],
            empty_workload_propagation: false,
            estimate_from_nodes: true,
            estimators: None,
            descheduling: None,
            writes_at_once: 64,
        }
    }
}

/// State shared by the tasks of the scheduler.
struct BindingScheduler {
    client: ClusterClient,
    member_capacity: MemberCapacity,
    decisions: Decisions,
    clock: Arc<dyn Clock>,
    settings: SchedulingSettings,
    options: SchedulerOptions,
    queue: SchedulingQueue,
    bindings: Mirror,
    cluster_bindings: Mirror,
    /// By workload affinity and anti-affinity group.
    bindings_by_group: Index<String>,
    /// Bindings of both scopes that left a cluster by failover and were not assigned to it again.
    left: [Index<()>; 2],
    /// Bindings with replicas that found no node; `None` unless descheduling is enabled.
    unschedulable: Option<Index<()>>,
    clusters: Mirror,
    snapshot: Mutex<ClusterSnapshot>,
    capacity: Mutex<CapacityRefresh>,
    /// Estimators of members, if they are asked.
    estimators: Option<Arc<Estimators>>,
    /// The clusters of placements that are decided and not written yet, needed by workloads with affinity or anti-affinity to
    /// them. Bounded by the number of concurrent writes.
    pending: Mutex<HashMap<ObjectKey, Vec<String>>>,
    recorder: Recorder,
    /// Records descheduling events.
    deschedulings: Recorder,
    metrics: PlaneMetrics,
    /// True if the feature gate ResilientFailover is on.
    is_resilient: bool,
    /// PropagationPolicies and ClusterPropagationPolicies with failback enabled; empty unless failback is possible.
    failback_policies: Vec<Index<()>>,
    /// Bindings that may return and wait for their decision; bounded by `queue`.
    failbacks: Mutex<HashMap<ObjectKey, PlannedReturn>>,
}

/// Schedules bindings until cancelled. Only one instance may run at a time, since reservations are kept in memory.
pub async fn run(parts: SchedulingDeps, cancel: CancellationToken) {
    let scheduler = Arc::new(BindingScheduler::new(parts, &cancel));
    let synced = async {
        scheduler.clusters.synced().await;
        scheduler.bindings.synced().await;
        scheduler.cluster_bindings.synced().await;
    };
    tokio::select! {
        () = synced => {}
        () = cancel.cancelled() => return,
    }
    scheduler.load_clusters();
    if scheduler.estimators.is_some() {
        scheduler.snapshot.lock().keep_assumed();
    }
    let watching = async {
        tokio::join!(
            triggers::watch_clusters(&scheduler),
            triggers::watch_bindings(&scheduler, &scheduler.bindings),
            triggers::watch_bindings(&scheduler, &scheduler.cluster_bindings),
            async {
                if scheduler.is_resilient {
                    failback::watch(&scheduler).await;
                }
            },
            async {
                if let Some(descheduling) = scheduler.settings.descheduling {
                    descheduler::watch(&scheduler, descheduling, &scheduler.deschedulings).await;
                }
            },
        );
    };
    tokio::select! {
        () = cancel.cancelled() => scheduler.queue.shut_down(),
        () = watching => {}
        () = schedule::run(&scheduler) => {}
    }
}

impl BindingScheduler {
    fn new(parts: SchedulingDeps, cancel: &CancellationToken) -> Self {
        let SchedulingDeps { mirrors, member_capacity, decisions, features, clock, metrics, settings } = parts;
        let client = mirrors.client().clone();
        let bindings = mirrors.packed(&api::work::RESOURCE_BINDINGS.gvr());
        let cluster_bindings = mirrors.packed(&api::work::CLUSTER_RESOURCE_BINDINGS.gvr());
        let policies = [api::policy::PROPAGATION_POLICIES, api::policy::CLUSTER_PROPAGATION_POLICIES]
            .into_iter()
            .filter(|_| features.resilient_failover)
            .map(|policies| mirrors.of(&policies.gvr()));
        let options = SchedulerOptions {
            plugins: Plugins::parse(settings.plugins.iter().map(String::as_str)),
            estimate_from_nodes: settings.estimate_from_nodes,
            empty_workload_propagation: settings.empty_workload_propagation,
            ..SchedulerOptions::new(&features)
        };
        Self {
            bindings_by_group: bindings.index(gather::groups_of),
            left: [&bindings, &cluster_bindings].map(|mirror| mirror.index(failback::left_a_cluster)),
            unschedulable: settings.descheduling.map(|_| bindings.index(descheduler::is_unschedulable)),
            bindings,
            cluster_bindings,
            failback_policies: policies.map(|mirror| mirror.index(failback::wants_failback)).collect(),
            failbacks: Mutex::default(),
            is_resilient: features.resilient_failover,
            clusters: mirrors.of(&api::cluster::CLUSTERS.gvr()),
            recorder: Recorder::start(
                client.clone(),
                api::policy::DEFAULT_SCHEDULER,
                Arc::clone(&clock),
                cancel.clone(),
            ),
            deschedulings: Recorder::start(client.clone(), descheduler::COMPONENT, Arc::clone(&clock), cancel.clone()),
            queue: SchedulingQueue::new(features.priority_based_scheduling, &metrics),
            snapshot: Mutex::default(),
            capacity: Mutex::default(),
            pending: Mutex::default(),
            estimators: estimators_of(&settings, &client),
            client,
            member_capacity,
            decisions,
            clock,
            metrics,
            settings,
            options,
        }
    }
}

fn estimators_of(settings: &SchedulingSettings, client: &ClusterClient) -> Option<Arc<Estimators>> {
    let estimators = Estimators::new(settings.estimators.clone()?, client.clone());
    // The flags were checked at start; the files may have changed since.
    estimators.inspect_err(|error| tracing::error!(%error, "the estimators of members are not asked")).ok()
}
