//! Replicas that were assigned to a cluster but do not show in its reported capacity yet, so that a burst of
//! decisions never assigns the same capacity twice.

use std::collections::{BTreeMap, HashMap};

use api::work::{AggregatedStatusItem, BindingSpec, Component, TargetCluster};
use jiff::Timestamp;

use crate::capacity::{ComponentDemand, parts_in_cluster};
use crate::snapshot::ClusterSnapshot;

/// Lifetime of a reservation without a status from the member; Karmada's value.
pub const RESERVATION_LIFE: jiff::SignedDuration = jiff::SignedDuration::from_mins(5);
/// Reservations kept per cluster; beyond this the oldest are dropped.
pub const RESERVATIONS_PER_CLUSTER_MAX: usize = 10_000;
/// Reservations that one request to an estimator names.
const ASSUMED_MAX: usize = 1000;

/// All reservations, by cluster and then by binding.
#[derive(Default)]
pub(crate) struct Reserved {
    by_cluster: HashMap<String, BTreeMap<String, Reservation>>,
}

struct Reservation {
    parts: Vec<ComponentDemand>,
    /// The same for estimators of the members; empty unless they are asked.
    assumed: Vec<Component>,
    namespace: String,
    replicas: i64,
    expires: Timestamp,
    /// The version of the cluster's capacity when it was made.
    capacity_version: u64,
    /// The member has the pods; its next report will include them.
    is_seen: bool,
}

impl Reserved {
    pub fn parts_in(&self, cluster: &str) -> impl Iterator<Item = &ComponentDemand> {
        self.by_cluster.get(cluster).into_iter().flat_map(BTreeMap::values).flat_map(|reservation| &reservation.parts)
    }

    /// Drops reservations that the cluster's reported capacity already includes.
    pub fn settle(&mut self, cluster: &str, capacity_version: u64) {
        if let Some(reservations) = self.by_cluster.get_mut(cluster) {
            reservations.retain(|_, own| !(own.is_seen && own.capacity_version < capacity_version));
        }
    }

    fn replicas(&self, cluster: &str, binding: &str) -> i64 {
        self.by_cluster.get(cluster).and_then(|own| own.get(binding)).map_or(0, |reservation| reservation.replicas)
    }
}

impl ClusterSnapshot {
    /// Reserves what a decision assigned beyond the binding's previous targets, until the members report it.
    pub fn reserve(&mut self, binding: &str, spec: &BindingSpec, targets: &[TargetCluster], now: Timestamp) {
        if !spec.is_workload() {
            return;
        }
        for old in spec.clusters.iter().filter(|old| targets.iter().all(|target| target.name != old.name)) {
            self.release_in(&old.name, binding);
        }
        for target in targets {
            self.reserve_in(&target.name, binding, spec, beyond(spec, target), now);
        }
    }

    /// Undoes `reserve` for a placement that was not written.
    pub fn unreserve(&mut self, binding: &str, spec: &BindingSpec, targets: &[TargetCluster], now: Timestamp) {
        for target in targets.iter().filter(|_| spec.is_workload()) {
            self.reserve_in(&target.name, binding, spec, -beyond(spec, target), now);
        }
    }

    fn reserve_in(&mut self, cluster: &str, binding: &str, spec: &BindingSpec, more: i64, now: Timestamp) {
        let Some(at) = self.place(cluster).filter(|_| more != 0) else { return };
        let replicas = self.reserved.replicas(cluster, binding) + more;
        if replicas <= 0 {
            return self.release_in(cluster, binding);
        }
        let member = &mut self.members[at];
        let own = self.reserved.by_cluster.entry(cluster.to_owned()).or_default();
        if own.len() >= RESERVATIONS_PER_CLUSTER_MAX {
            let oldest = own.iter().min_by_key(|(_, reservation)| reservation.expires).map(|(key, _)| key.clone());
            oldest.and_then(|key| own.remove(&key));
        }
        let reservation = Reservation {
            parts: parts_in_cluster(spec, replicas),
            assumed: if self.keeps_assumed { assumed_of(spec, replicas) } else { Vec::new() },
            namespace: spec.resource.namespace.clone(),
            replicas,
            expires: now.checked_add(RESERVATION_LIFE).unwrap_or(Timestamp::MAX),
            capacity_version: member.capacity_version,
            is_seen: false,
        };
        own.insert(binding.to_owned(), reservation);
        match more > 0 {
            true => {
                for part in &parts_in_cluster(spec, more) {
                    member.free.deduct(member.nodes.as_ref(), &self.resources, part);
                }
            }
            false => member.is_stale = true,
        }
    }

    /// Releases all reservations of a binding: it was deleted, or its placement was not written.
    pub fn release(&mut self, binding: &str) {
        let holds = |own: &BTreeMap<String, Reservation>| own.contains_key(binding);
        let clusters: Vec<String> =
            self.reserved.by_cluster.iter().filter(|(_, own)| holds(own)).map(|(name, _)| name.clone()).collect();
        for cluster in clusters {
            self.release_in(&cluster, binding);
        }
    }

    /// Releases what the members report: healthy workloads at once, existing pods with the next capacity report.
    pub fn release_seen(&mut self, binding: &str, spec: &BindingSpec, statuses: &[AggregatedStatusItem]) {
        for item in statuses {
            let Some(own) = self.reserved.by_cluster.get_mut(&item.cluster_name) else { continue };
            let Some(reservation) = own.get_mut(binding) else { continue };
            if item.health == "Healthy" && has_all(spec, item) != Some(false) {
                self.release_in(&item.cluster_name, binding);
            } else if has_all(spec, item) == Some(true) {
                reservation.is_seen = true;
                let is_outdated = self
                    .place(&item.cluster_name)
                    .is_none_or(|at| self.members[at].capacity_version > self.version_of(&item.cluster_name, binding));
                if is_outdated {
                    self.release_in(&item.cluster_name, binding);
                }
            }
        }
    }

    /// Releases reservations older than [`RESERVATION_LIFE`].
    pub fn release_expired(&mut self, now: Timestamp) {
        let mut touched = Vec::new();
        for (cluster, own) in &mut self.reserved.by_cluster {
            let before = own.len();
            own.retain(|_, reservation| reservation.expires > now);
            if own.len() < before {
                touched.push(cluster.clone());
            }
        }
        self.reserved.by_cluster.retain(|_, own| !own.is_empty());
        for at in touched.iter().filter_map(|cluster| self.place(cluster)).collect::<Vec<_>>() {
            self.members[at].is_stale = true;
        }
    }

    /// Keeps the requirements of reservations, for estimators of the members.
    pub fn keep_assumed(&mut self) {
        self.keeps_assumed = true;
    }

    /// Returns the reservations in a cluster, each with its namespace; only after `keep_assumed`.
    pub fn assumed_in(&self, cluster: &str) -> Vec<(String, Vec<Component>)> {
        let own = self.reserved.by_cluster.get(cluster).into_iter().flat_map(BTreeMap::values);
        own.filter(|reservation| !reservation.assumed.is_empty())
            .take(ASSUMED_MAX)
            .map(|reservation| (reservation.namespace.clone(), reservation.assumed.clone()))
            .collect()
    }

    /// Reports whether the binding has a reservation in the cluster.
    pub fn has_reserved(&self, binding: &str, cluster: &str) -> bool {
        self.reserved.by_cluster.get(cluster).is_some_and(|own| own.contains_key(binding))
    }

    /// Number of replicas reserved in a cluster.
    pub fn reserved_in(&self, cluster: &str) -> i64 {
        let own = self.reserved.by_cluster.get(cluster);
        own.into_iter().flat_map(BTreeMap::values).map(|reservation| reservation.replicas).sum()
    }

    fn version_of(&self, cluster: &str, binding: &str) -> u64 {
        let own = self.reserved.by_cluster.get(cluster);
        own.and_then(|own| own.get(binding)).map_or(0, |reservation| reservation.capacity_version)
    }

    fn release_in(&mut self, cluster: &str, binding: &str) {
        let Some(own) = self.reserved.by_cluster.get_mut(cluster) else { return };
        if own.remove(binding).is_none() {
            return;
        }
        if own.is_empty() {
            self.reserved.by_cluster.remove(cluster);
        }
        if let Some(at) = self.place(cluster) {
            self.members[at].is_stale = true;
        }
    }
}

/// The replicas of a binding in a cluster, as components.
fn assumed_of(spec: &BindingSpec, replicas: i64) -> Vec<Component> {
    if !spec.components.is_empty() {
        return spec.components.clone();
    }
    let replicas = i32::try_from(replicas).unwrap_or(i32::MAX);
    let name = spec.resource.name.clone();
    vec![Component { name, replicas, replica_requirements: spec.replica_requirements.clone() }]
}

/// The increase of a target: in replicas, or 1 for a set of components that is new there.
fn beyond(spec: &BindingSpec, target: &TargetCluster) -> i64 {
    let had = spec.target(&target.name);
    match spec.components.is_empty() {
        true => i64::from(target.replicas) - had.map_or(0, |had| i64::from(had.replicas)),
        false => i64::from(had.is_none()),
    }
}

/// Reports whether the member has all its pods; `None` if its status does not include it.
fn has_all(spec: &BindingSpec, item: &AggregatedStatusItem) -> Option<bool> {
    let given = i64::from(spec.target(&item.cluster_name)?.replicas);
    let has = item.status.as_ref()?.get("replicas")?.as_i64()?;
    Some(has >= given)
}
