//! Reads the inputs of a decision: the binding, its peers, and the clusters with their current capacity.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::policy::ANNOTATION_APPLIED_PLACEMENT;
use api::work::{BindingSpec, BindingStatus, TargetCluster};
use estimator::client::EstimateQuery;
use object::{Object, Status};
use propagation::binding_scope::check_stored;
use propagation::failback::forget_holds;
use reconcile::{Mirror, ObjectKey};
use scheduler::{ClusterSnapshot, Peers, Request};
use tokio::time::Instant;

use crate::BindingScheduler;

/// Maximum age of member capacity; reservations cover decisions made meanwhile.
const CAPACITY_REFRESH: Duration = Duration::from_millis(200);
/// Interval for removing stale reservations.
const RESERVATION_SWEEP: Duration = Duration::from_secs(60);

/// When the capacity was last refreshed.
#[derive(Default)]
pub struct CapacityRefresh {
    refreshed: Option<Instant>,
    swept: Option<Instant>,
}

/// The fields of a binding that the scheduler reads.
pub struct Binding {
    pub key: ObjectKey,
    pub object: Arc<Object>,
    pub spec: BindingSpec,
    pub status: BindingStatus,
}

impl Binding {
    /// Refuses a binding that reaches beyond its scope.
    pub fn read(object: &Arc<Object>) -> Result<Self, Status> {
        check_stored(object).map_err(|refusal| Status::bad_request(refusal.to_string()))?;
        let mut spec: BindingSpec = api::read(object)?;
        forget_holds(&mut spec);
        Ok(Self {
            key: ObjectKey::of(object),
            object: Arc::clone(object),
            spec,
            status: api::read_at(object, &["status"])?,
        })
    }

    pub fn applied_placement(&self) -> &str {
        self.object.annotation(ANNOTATION_APPLIED_PLACEMENT).unwrap_or_default()
    }

    pub fn priority(&self) -> i32 {
        self.spec.schedule_priority.as_ref().map_or(0, |own| own.priority)
    }
}

/// Reads only the priority of a binding.
pub fn priority_of(object: &Object) -> i32 {
    let priority = object.i64_at(&["spec", "schedulePriority", "priority"]).unwrap_or(0);
    i32::try_from(priority).unwrap_or(0)
}

/// Returns the affinity groups a binding is indexed under.
pub fn groups_of(object: &Object) -> Vec<String> {
    let group = |field: &str| object.str_at(&["spec", "workloadAffinityGroups", field]);
    let named = |(mark, field): (&str, &str)| match group(field) {
        "" => None,
        group => Some(format!("{mark}/{}/{group}", object.namespace())),
    };
    [("together", "affinityGroup"), ("apart", "antiAffinityGroup")].into_iter().filter_map(named).collect()
}

impl BindingScheduler {
    pub fn mirror_of(&self, key: &ObjectKey) -> &Mirror {
        if key.namespace.is_empty() { &self.cluster_bindings } else { &self.bindings }
    }

    /// Loads all clusters into the snapshot.
    pub fn load_clusters(&self) {
        let mut snapshot = self.snapshot.lock();
        for cluster in self.clusters.list() {
            put(&mut snapshot, &cluster);
        }
        snapshot.settle();
    }

    /// Refreshes the capacity of the members if it is older than [`CAPACITY_REFRESH`].
    pub fn refresh_capacity(&self, snapshot: &mut ClusterSnapshot) {
        let mut capacity = self.capacity.lock();
        let is_due = |last: Option<Instant>, every: Duration| last.is_none_or(|last| last.elapsed() >= every);
        if is_due(capacity.refreshed, CAPACITY_REFRESH) {
            capacity.refreshed = Some(Instant::now());
            let names: Vec<String> = snapshot.names().map(str::to_owned).collect();
            for name in names {
                snapshot.set_nodes(&name, self.member_capacity.get(&name));
            }
            if is_due(capacity.swept, RESERVATION_SWEEP) {
                capacity.swept = Some(Instant::now());
                snapshot.release_expired(self.clock.now());
            }
            snapshot.settle();
        }
        snapshot.settle_clusters();
    }

    /// Asks the estimators of the clusters that the binding could be placed in. `None` if none is asked.
    pub async fn gather_answers(&self, key: &ObjectKey) -> Option<BTreeMap<String, i32>> {
        let estimators = self.estimators.as_ref()?;
        let object = self.mirror_of(key).get(key).filter(|object| !object.is_deleting())?;
        // The decision reports bindings that cannot be read.
        let binding = Binding::read(&object).ok()?;
        let Binding { spec, status, .. } = &binding;
        if spec.replicas == 0 && spec.components.is_empty() {
            return None;
        }
        let (clusters, assumed) = {
            let peers = self.gather_peers(&binding);
            let mut snapshot = self.snapshot.lock();
            self.refresh_capacity(&mut snapshot);
            scheduler::need(&snapshot, spec, status, binding.applied_placement(), &self.options)?;
            let request = Request { spec, status, peers: &peers, options: &self.options, answers: None };
            let mut clusters = scheduler::candidates(&snapshot, &request);
            clusters.retain(|cluster| !(estimators.skips_pull() && snapshot.is_pull(cluster)));
            let assumed = clusters.iter().map(|cluster| (cluster.clone(), snapshot.assumed_in(cluster)));
            let assumed: BTreeMap<_, _> = assumed.filter(|(_, workloads)| !workloads.is_empty()).collect();
            (clusters, assumed)
        };
        let is_set = scheduler::places_whole_sets(spec, &self.options);
        let query = EstimateQuery { resource: &spec.resource, spec, is_set, assumed };
        Some(estimators.ask(&clusters, &query).await)
    }

    /// Returns the clusters of the other bindings in the same groups, including pending placements.
    pub fn gather_peers(&self, binding: &Binding) -> Peers {
        let groups = match binding.spec.workload_affinity_groups.as_ref().filter(|_| self.options.workload_affinity) {
            Some(groups) if !binding.key.namespace.is_empty() => groups,
            _ => return Peers::default(),
        };
        let others = |mark: &str, group: &str| match group {
            "" => Vec::new(),
            group => self.clusters_of_group(&format!("{mark}/{}/{group}", binding.key.namespace), &binding.key),
        };
        Peers {
            together: others("together", &groups.affinity_group),
            apart: others("apart", &groups.anti_affinity_group),
        }
    }

    fn clusters_of_group(&self, group: &str, own: &ObjectKey) -> Vec<Vec<String>> {
        let pending = self.pending.lock();
        let clusters = |object: &Arc<Object>| {
            let key = ObjectKey::of(object);
            if key == *own {
                return None;
            }
            if let Some(clusters) = pending.get(&key).filter(|clusters| !clusters.is_empty()) {
                return Some(clusters.clone());
            }
            let targets: Vec<TargetCluster> = api::read_at(object, &["spec", "clusters"]).unwrap_or_default();
            Some(targets.into_iter().map(|target| target.name).collect())
        };
        self.bindings_by_group.list(group).iter().filter_map(clusters).collect()
    }
}

/// Updates a cluster. One that cannot be parsed keeps its last known state.
pub fn put(snapshot: &mut ClusterSnapshot, cluster: &Arc<Object>) {
    if let Err(error) = snapshot.put(cluster) {
        tracing::warn!(cluster = cluster.name(), %error, "failed to parse cluster");
    }
}
