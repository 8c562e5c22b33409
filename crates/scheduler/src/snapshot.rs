//! The clusters as decisions see them: parsed once per change, read many times.

use std::collections::HashMap;
use std::sync::Arc;

use api::capacity::ClusterNodes;
use api::cluster::{ClusterSpec, ClusterStatus, ResourceSummary};
use object::taints::Taint;
use object::{Object, Status};

use crate::affinity::AffinityCache;
use crate::capacity::{Free, ResourceNames};
use crate::reservations::Reserved;
use crate::set::ClusterSet;

/// All clusters of a control plane, and the reservations of earlier decisions.
#[derive(Default)]
pub struct ClusterSnapshot {
    /// Sorted by name, so that index order is name order.
    pub(crate) members: Vec<Member>,
    pub(crate) resources: ResourceNames,
    pub(crate) reserved: Reserved,
    pub(crate) shape: Shape,
    pub(crate) affinities: AffinityCache,
    /// Reservations keep their requirements.
    pub(crate) keeps_assumed: bool,
    /// The clusters have changed in more than their capacity since `shape` was computed.
    is_shape_stale: bool,
}

pub(crate) struct Member {
    pub name: String,
    pub object: Arc<Object>,
    pub spec: ClusterSpec,
    /// Taints that exclude workloads.
    pub taints: Vec<Taint>,
    summary: Option<ResourceSummary>,
    pub nodes: Option<Arc<ClusterNodes>>,
    pub free: Free,
    /// It has more free capacity than `free` shows: reservations were released.
    pub is_stale: bool,
    /// Counts changes of its capacity.
    pub capacity_version: u64,
    enablements: Vec<api::cluster::ApiEnablement>,
}

/// The filter inputs, for all clusters at once.
#[derive(Default)]
pub(crate) struct Shape {
    apis: HashMap<String, HashMap<String, ClusterSet>>,
    pub staying: ClusterSet,
    pub untainted: ClusterSet,
    pub with_provider: ClusterSet,
    pub with_region: ClusterSet,
    pub with_zones: ClusterSet,
}

impl ClusterSnapshot {
    /// A snapshot of these clusters. Fails if one cannot be parsed.
    pub fn of<'a>(clusters: impl IntoIterator<Item = &'a Arc<Object>>) -> Result<Self, Status> {
        let mut snapshot = Self::default();
        for cluster in clusters {
            let member = Member::read(&mut snapshot.resources, cluster, None)?;
            snapshot.members.push(member);
        }
        snapshot.members.sort_by(|a, b| a.name.cmp(&b.name));
        snapshot.reshape();
        Ok(snapshot)
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }

    /// Prepares for decisions after changes. Released reservations are returned to the clusters only here: until then
    /// they seem to have less, which is safe, and releasing many costs no more than releasing one.
    pub fn settle(&mut self) {
        self.settle_clusters();
        for at in 0..self.members.len() {
            if self.members[at].is_stale {
                self.restore(at);
            }
        }
    }

    /// Prepares for decisions without returning released reservations.
    pub fn settle_clusters(&mut self) {
        if self.is_shape_stale {
            self.reshape();
        }
    }

    /// Adds or replaces a cluster; call `settle` before the next decision.
    pub fn put(&mut self, cluster: &Arc<Object>) -> Result<(), Status> {
        let Some(at) = self.place(cluster.name()) else {
            let at = self.members.partition_point(|member| member.name.as_str() < cluster.name());
            let member = Member::read(&mut self.resources, cluster, None)?;
            self.members.insert(at, member);
            self.is_shape_stale = true;
            self.restore(at);
            return Ok(());
        };
        let old = &self.members[at];
        let mut new = Member::read(&mut self.resources, cluster, old.nodes.clone())?;
        let is_shape_same = old.has_shape_of(&new);
        let is_capacity_same = old.has_capacity_of(&new);
        new.capacity_version = old.capacity_version + u64::from(!is_capacity_same);
        self.members[at] = new;
        self.is_shape_stale |= !is_shape_same;
        self.restore(at);
        Ok(())
    }

    /// Removes a cluster; call `settle` before the next decision.
    pub fn remove(&mut self, cluster: &str) {
        if let Some(at) = self.place(cluster) {
            self.members.remove(at);
            self.is_shape_stale = true;
        }
    }

    /// Sets the nodes of a member; `None` if it is not watched.
    pub fn set_nodes(&mut self, cluster: &str, nodes: Option<Arc<ClusterNodes>>) {
        let Some(at) = self.place(cluster) else { return };
        let member = &mut self.members[at];
        let is_same = match (&member.nodes, &nodes) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            member.nodes = nodes;
            member.capacity_version += 1;
            self.restore(at);
        }
    }

    /// Reports whether a cluster is being deleted.
    pub fn is_leaving(&self, cluster: &str) -> bool {
        self.place(cluster).is_some_and(|at| self.members[at].object.is_deleting())
    }

    /// Reports whether a cluster is in sync mode Pull.
    pub fn is_pull(&self, cluster: &str) -> bool {
        self.place(cluster).is_some_and(|at| self.members[at].spec.sync_mode == api::cluster::SyncMode::Pull)
    }

    pub fn has(&self, cluster: &str) -> bool {
        self.place(cluster).is_some()
    }

    pub(crate) fn place(&self, cluster: &str) -> Option<usize> {
        self.members.binary_search_by(|member| member.name.as_str().cmp(cluster)).ok()
    }

    /// The existing clusters among these names.
    pub(crate) fn set_of<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> ClusterSet {
        let mut set = ClusterSet::empty(self.len());
        for place in names.into_iter().filter_map(|name| self.place(name)) {
            set.insert(place);
        }
        set
    }

    pub(crate) fn with_api(&self, api_version: &str, kind: &str) -> Option<&ClusterSet> {
        self.shape.apis.get(api_version)?.get(kind)
    }

    /// Recomputes a cluster's free capacity: its own figures less the reservations.
    pub(crate) fn restore(&mut self, at: usize) {
        let member = &mut self.members[at];
        member.is_stale = false;
        member.free = Free::new(&mut self.resources, &member.spec, member.summary.as_ref(), member.nodes.as_ref());
        self.reserved.settle(&member.name, member.capacity_version);
        for part in self.reserved.parts_in(&member.name) {
            member.free.deduct(member.nodes.as_ref(), &self.resources, part);
        }
    }

    fn reshape(&mut self) {
        self.shape = Shape::new(&self.members);
        self.affinities.clear();
        self.is_shape_stale = false;
    }
}

impl Shape {
    fn new(members: &[Member]) -> Self {
        let set = |holds: fn(&Member) -> bool| {
            let mut set = ClusterSet::empty(members.len());
            members.iter().enumerate().filter(|(_, member)| holds(member)).for_each(|(at, _)| set.insert(at));
            set
        };
        let mut apis: HashMap<String, HashMap<String, ClusterSet>> = HashMap::new();
        for (at, member) in members.iter().enumerate() {
            for group in &member.enablements {
                let kinds = match apis.get_mut(&group.group_version) {
                    Some(kinds) => kinds,
                    None => apis.entry(group.group_version.clone()).or_default(),
                };
                for resource in &group.resources {
                    match kinds.get_mut(&resource.kind) {
                        Some(set) => set.insert(at),
                        None => {
                            let mut set = ClusterSet::empty(members.len());
                            set.insert(at);
                            kinds.insert(resource.kind.clone(), set);
                        }
                    }
                }
            }
        }
        Self {
            apis,
            staying: set(|member| !member.object.is_deleting()),
            untainted: set(|member| member.taints.is_empty()),
            with_provider: set(|member| !member.spec.provider.is_empty()),
            with_region: set(|member| !member.spec.region.is_empty()),
            with_zones: set(|member| !member.spec.zones.is_empty()),
        }
    }
}

impl Member {
    fn read(
        resources: &mut ResourceNames,
        cluster: &Arc<Object>,
        nodes: Option<Arc<ClusterNodes>>,
    ) -> Result<Self, Status> {
        let spec: ClusterSpec = api::read(cluster)?;
        let status: ClusterStatus = api::read_at(cluster, &["status"])?;
        let keeps_away = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
        Ok(Self {
            name: cluster.name().to_owned(),
            object: Arc::clone(cluster),
            taints: spec.taints.iter().filter(keeps_away).cloned().collect(),
            free: Free::new(resources, &spec, status.resource_summary.as_ref(), nodes.as_ref()),
            summary: status.resource_summary,
            nodes,
            is_stale: false,
            capacity_version: 0,
            enablements: status.api_enablements,
            spec,
        })
    }

    fn has_shape_of(&self, other: &Self) -> bool {
        self.spec == other.spec
            && self.enablements == other.enablements
            && self.object.is_deleting() == other.object.is_deleting()
            && self.object.labels().eq(other.object.labels())
    }

    fn has_capacity_of(&self, other: &Self) -> bool {
        self.summary == other.summary && self.spec.resource_models == other.spec.resource_models
    }
}
