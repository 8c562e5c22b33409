//! The nodes and their pods, updated one pod and one node at a time.
//!
//! Pods with the same namespace, labels and owner are counted together per node, so that evaluating a selector visits
//! groups of pods, not every pod.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use object::Object;
use object::taints::Taint;

use crate::amounts::{Amounts, read_pod_count};
use crate::labels::Labels;
use crate::pod::{HostPort, Pod, PodTerms};
use crate::slab::Slab;

/// Everything placement reads. Adding or removing a pod or a node takes constant time.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub(crate) nodes: Slab<NodeState>,
    nodes_by_name: HashMap<Arc<str>, u32>,
    known_nodes: usize,
    pub(crate) pods: Slab<Placed>,
    pods_by_key: HashMap<Box<str>, u32>,
    pub(crate) groups: Slab<PodGroup>,
    groups_by_key: HashMap<GroupKey, u32>,
    groups_by_namespace: HashMap<Arc<str>, BTreeSet<u32>>,
    pub(crate) bearers: Slab<Bearer>,
    bearers_by_key: HashMap<String, u32>,
    namespaces: HashMap<Box<str>, Labels>,
    /// Number of placed pods that mount a claim, by `namespace/name`.
    claim_users: HashMap<Box<str>, u32>,
    nominated_on: HashMap<Box<str>, u32>,
}

/// A node, or only its name if pods refer to a node that is not known.
#[derive(Clone, Debug, Default)]
pub struct NodeState {
    pub name: Arc<str>,
    /// `None` while the node object itself is unknown.
    pub info: Option<NodeInfo>,
    pub requested: Amounts,
    pub assumed_milli_cpu: i64,
    pub assumed_memory: i64,
    pub pods: Vec<u32>,
    pub ports: Vec<HostPort>,
    pub nominated: Vec<Nominated>,
}

/// The properties of a node, read from its object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeInfo {
    pub labels: Labels,
    pub taints: Vec<Taint>,
    pub is_unschedulable: bool,
    pub allocatable: Amounts,
    pub pods_max: i64,
}

/// A pod nominated to a node but not yet placed.
#[derive(Clone, Debug)]
pub struct Nominated {
    pub key: Box<str>,
    pub priority: i32,
    pub requested: Amounts,
    pub ports: Box<[HostPort]>,
}

/// A placed pod's entry.
#[derive(Clone, Debug)]
pub struct Placed {
    pub pod: PlacedPod,
    pub node: u32,
    /// Index in the node's list.
    at: u32,
    pub group: u32,
    pub bearer: Option<u32>,
}

#[derive(Clone, Debug)]
pub struct PlacedPod {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub priority: i32,
    pub started: i64,
    pub is_preempted: bool,
    pub is_terminating: bool,
    requested: Amounts,
    assumed_milli_cpu: i64,
    assumed_memory: i64,
    ports: Box<[HostPort]>,
    claims: Box<[Box<str>]>,
    owner: Arc<str>,
    pub labels: Labels,
    terms: Option<Arc<PodTerms>>,
}

/// Pods with the same namespace, labels and owner.
#[derive(Clone, Debug)]
pub struct PodGroup {
    pub key: GroupKey,
    /// Number of pods per node.
    pub on: HashMap<u32, u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupKey {
    pub namespace: Arc<str>,
    pub labels: Labels,
    pub owner: Arc<str>,
    pub is_terminating: bool,
}

/// Pods with the same affinity terms.
#[derive(Clone, Debug)]
pub struct Bearer {
    key: String,
    pub terms: Arc<PodTerms>,
    pub on: HashMap<u32, u32>,
}

impl NodeInfo {
    pub fn read(node: &Object) -> Self {
        let allocatable = node.get(&["status", "allocatable"]).or_else(|| node.get(&["status", "capacity"]));
        Self {
            labels: Labels::of(node),
            taints: Taint::read_all(node.items(&["spec", "taints"])),
            is_unschedulable: node.bool_at(&["spec", "unschedulable"]).unwrap_or(false),
            allocatable: Amounts::read(allocatable),
            pods_max: read_pod_count(allocatable),
        }
    }
}

fn key_of(namespace: &str, name: &str) -> Box<str> {
    format!("{namespace}/{name}").into()
}

impl Cluster {
    /// Updates a node; returns true if it changed.
    pub fn set_node(&mut self, node: &Object) -> bool {
        self.set_node_info(node.name(), NodeInfo::read(node))
    }

    pub fn set_node_info(&mut self, name: &str, info: NodeInfo) -> bool {
        let at = self.node_at(name);
        let Some(node) = self.nodes.get_mut(at) else { return false };
        if node.info.as_ref() == Some(&info) {
            return false;
        }
        self.known_nodes += usize::from(node.info.is_none());
        node.info = Some(info);
        true
    }

    /// Removes a node. Pods that still refer to it stay under its name.
    pub fn remove_node(&mut self, name: &str) {
        let Some(at) = self.nodes_by_name.get(name).copied() else { return };
        if let Some(node) = self.nodes.get_mut(at)
            && node.info.take().is_some()
        {
            self.known_nodes -= 1;
        }
        self.forget_if_empty(at);
    }

    pub fn node_count(&self) -> usize {
        self.known_nodes
    }

    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// The uid of the pod of this name that counts as placed.
    pub fn placed_uid(&self, namespace: &str, name: &str) -> Option<&str> {
        let at = self.pods_by_key.get(&*key_of(namespace, name))?;
        self.pods.get(*at).map(|placed| &*placed.pod.uid)
    }

    pub fn set_namespace(&mut self, name: &str, labels: Labels) {
        self.namespaces.insert(name.into(), labels);
    }

    pub fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// Counts the pod on its node, replacing its earlier state. A pod without a node is not counted.
    pub fn set_pod(&mut self, pod: &Pod) {
        self.set_pod_on(pod, &Arc::clone(&pod.node));
    }

    /// Counts the pod on a node it is about to be bound to.
    pub fn set_pod_on(&mut self, pod: &Pod, node: &str) {
        self.remove_pod(&pod.namespace, &pod.name);
        if node.is_empty() {
            return;
        }
        let placed = PlacedPod {
            namespace: Arc::clone(&pod.namespace),
            name: Arc::clone(&pod.name),
            uid: Arc::clone(&pod.uid),
            priority: pod.priority,
            started: pod.started,
            is_preempted: pod.is_preempted,
            is_terminating: pod.is_terminating,
            requested: pod.requests.asked.clone(),
            assumed_milli_cpu: pod.requests.assumed_milli_cpu,
            assumed_memory: pod.requests.assumed_memory,
            ports: pod.ports.clone(),
            claims: pod.claims.clone(),
            owner: Arc::clone(&pod.owner),
            labels: pod.labels.clone(),
            terms: pod.terms.clone(),
        };
        let at = self.node_at(node);
        self.put(placed, at);
    }

    /// Puts a pod on a node, permanently or during preemption trials.
    pub(crate) fn put(&mut self, pod: PlacedPod, node_at: u32) {
        let group = self.join_group(&pod, node_at);
        let bearer = pod.terms.as_ref().map(|terms| self.join_bearers(&pod.namespace, &Arc::clone(terms), node_at));
        for claim in &pod.claims {
            *self.claim_users.entry(key_of(&pod.namespace, claim)).or_insert(0) += 1;
        }
        let key = key_of(&pod.namespace, &pod.name);
        let Some(node) = self.nodes.get_mut(node_at) else { return };
        node.requested.add(&pod.requested);
        node.assumed_milli_cpu += pod.assumed_milli_cpu;
        node.assumed_memory += pod.assumed_memory;
        node.ports.extend(pod.ports.iter().cloned());
        let placed = Placed { pod, node: node_at, at: node.pods.len() as u32, group, bearer };
        let pod_at = self.pods.insert(placed);
        node.pods.push(pod_at);
        self.pods_by_key.insert(key, pod_at);
    }

    pub fn remove_pod(&mut self, namespace: &str, name: &str) -> bool {
        let Some(at) = self.pods_by_key.get(&*key_of(namespace, name)).copied() else { return false };
        if let Some((_, node)) = self.take(at) {
            self.forget_if_empty(node);
        }
        true
    }

    /// Takes a pod off its node during preemption trials.
    pub(crate) fn remove_placed(&mut self, namespace: &str, name: &str) {
        if let Some(at) = self.pods_by_key.get(&*key_of(namespace, name)).copied() {
            self.take(at);
        }
    }

    /// Takes a pod off its node; the node stays even if it is empty now.
    pub(crate) fn take(&mut self, at: u32) -> Option<(PlacedPod, u32)> {
        let Placed { pod, node: node_at, at: place, group, bearer } = self.pods.remove(at)?;
        self.pods_by_key.remove(&*key_of(&pod.namespace, &pod.name));
        for claim in &pod.claims {
            let key = key_of(&pod.namespace, claim);
            if let Some(users) = self.claim_users.get_mut(&*key) {
                *users -= 1;
                if *users == 0 {
                    self.claim_users.remove(&*key);
                }
            }
        }
        if let Some(node) = self.nodes.get_mut(node_at) {
            node.requested.subtract(&pod.requested);
            node.assumed_milli_cpu -= pod.assumed_milli_cpu;
            node.assumed_memory -= pod.assumed_memory;
            for port in &pod.ports {
                if let Some(found) = node.ports.iter().position(|known| known == port) {
                    node.ports.swap_remove(found);
                }
            }
            node.pods.swap_remove(place as usize);
            if let Some(moved) = node.pods.get(place as usize).copied()
                && let Some(moved) = self.pods.get_mut(moved)
            {
                moved.at = place;
            }
        }
        self.leave_group(group, node_at);
        if let Some(bearer) = bearer {
            self.leave_bearers(bearer, node_at);
        }
        Some((pod, node_at))
    }

    /// Reserves capacity on the node for this pod, which may be placed once others have terminated.
    pub fn nominate(&mut self, pod: &Pod, node: &str) {
        self.withdraw_nomination(&pod.namespace, &pod.name);
        let at = self.node_at(node);
        let key = key_of(&pod.namespace, &pod.name);
        if let Some(node) = self.nodes.get_mut(at) {
            let (requested, ports) = (pod.requests.asked.clone(), pod.ports.clone());
            node.nominated.push(Nominated { key: key.clone(), priority: pod.priority, requested, ports });
            self.nominated_on.insert(key, at);
        }
    }

    pub fn withdraw_nomination(&mut self, namespace: &str, name: &str) {
        let key = key_of(namespace, name);
        let Some(at) = self.nominated_on.remove(&*key) else { return };
        if let Some(node) = self.nodes.get_mut(at) {
            node.nominated.retain(|nominated| nominated.key != key);
        }
        self.forget_if_empty(at);
    }

    /// Number of placed pods that mount the claim.
    pub fn claim_users(&self, namespace: &str, claim: &str) -> u32 {
        self.claim_users.get(&*key_of(namespace, claim)).copied().unwrap_or(0)
    }

    /// The labels of a namespace; empty while it is unknown.
    pub fn namespace_labels(&self, name: &str) -> &Labels {
        static NONE: std::sync::LazyLock<Labels> = std::sync::LazyLock::new(Labels::default);
        self.namespaces.get(name).unwrap_or(&NONE)
    }

    pub fn info(&self, name: &str) -> Option<&NodeInfo> {
        self.nodes.get(*self.nodes_by_name.get(name)?)?.info.as_ref()
    }

    pub(crate) fn find_node(&self, name: &str) -> Option<u32> {
        let at = *self.nodes_by_name.get(name)?;
        self.nodes.get(at)?.info.is_some().then_some(at)
    }

    pub(crate) fn groups_within(&self, namespace: &str) -> impl Iterator<Item = &PodGroup> {
        let groups = self.groups_by_namespace.get(namespace).into_iter().flatten();
        groups.filter_map(|at| self.groups.get(*at))
    }

    pub(crate) fn info_at(&self, at: u32) -> Option<&NodeInfo> {
        self.nodes.get(at)?.info.as_ref()
    }

    fn node_at(&mut self, name: &str) -> u32 {
        if let Some(at) = self.nodes_by_name.get(name) {
            return *at;
        }
        let name: Arc<str> = name.into();
        let at = self.nodes.insert(NodeState { name: Arc::clone(&name), ..NodeState::default() });
        self.nodes_by_name.insert(name, at);
        at
    }

    fn forget_if_empty(&mut self, at: u32) {
        let is_empty = |node: &NodeState| node.info.is_none() && node.pods.is_empty() && node.nominated.is_empty();
        if self.nodes.get(at).is_some_and(is_empty)
            && let Some(node) = self.nodes.remove(at)
        {
            self.nodes_by_name.remove(&node.name);
        }
    }

    fn join_group(&mut self, pod: &PlacedPod, node: u32) -> u32 {
        let key = GroupKey {
            namespace: Arc::clone(&pod.namespace),
            labels: pod.labels.clone(),
            owner: Arc::clone(&pod.owner),
            is_terminating: pod.is_terminating,
        };
        let at = match self.groups_by_key.get(&key) {
            Some(at) => *at,
            None => {
                let at = self.groups.insert(PodGroup { key: key.clone(), on: HashMap::new() });
                self.groups_by_namespace.entry(Arc::clone(&key.namespace)).or_default().insert(at);
                self.groups_by_key.insert(key, at);
                at
            }
        };
        if let Some(group) = self.groups.get_mut(at) {
            *group.on.entry(node).or_insert(0) += 1;
        }
        at
    }

    fn leave_group(&mut self, at: u32, node: u32) {
        let Some(group) = self.groups.get_mut(at) else { return };
        step_off(&mut group.on, node);
        if !group.on.is_empty() {
            return;
        }
        let Some(group) = self.groups.remove(at) else { return };
        self.groups_by_key.remove(&group.key);
        if let Some(groups) = self.groups_by_namespace.get_mut(&group.key.namespace) {
            groups.remove(&at);
            if groups.is_empty() {
                self.groups_by_namespace.remove(&group.key.namespace);
            }
        }
    }

    fn join_bearers(&mut self, namespace: &str, terms: &Arc<PodTerms>, node: u32) -> u32 {
        // The debug form includes every field, so equal keys mean equal terms.
        let key = format!("{namespace} {terms:?}");
        let at = match self.bearers_by_key.get(&key) {
            Some(at) => *at,
            None => {
                let bearer = Bearer { key: key.clone(), terms: Arc::clone(terms), on: HashMap::new() };
                let at = self.bearers.insert(bearer);
                self.bearers_by_key.insert(key, at);
                at
            }
        };
        if let Some(bearer) = self.bearers.get_mut(at) {
            *bearer.on.entry(node).or_insert(0) += 1;
        }
        at
    }

    fn leave_bearers(&mut self, at: u32, node: u32) {
        let Some(bearer) = self.bearers.get_mut(at) else { return };
        step_off(&mut bearer.on, node);
        if bearer.on.is_empty()
            && let Some(bearer) = self.bearers.remove(at)
        {
            self.bearers_by_key.remove(&bearer.key);
        }
    }
}

fn step_off(on: &mut HashMap<u32, u32>, node: u32) {
    if let Some(count) = on.get_mut(&node) {
        *count -= 1;
        if *count == 0 {
            on.remove(&node);
        }
    }
}
