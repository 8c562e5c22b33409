//! Capacity of a member: sums over its nodes and pods, updated with each change.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use api::capacity::{Amounts, ClusterNodes, NodeCapacity};
use api::cluster::{AllocatableModeling, NodeSummary, ResourceModel, ResourceSummary};
use api::core::{QuantityText, ResourceList};
use object::quantity::{Quantity, QuantityFormat};
use object::taints::Taint;
use object::{Object, conditions};
use serde_json::{Map, Value, json};

use crate::status::unschedulable;

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
const PODS: &str = "pods";
const READY: &str = "Ready";

/// Resource requests of pods, by node and for unscheduled pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    by_node: HashMap<String, Amounts>,
    waiting: Amounts,
}

impl Usage {
    /// Takes in one change of a pod that has been through `trim_pod`.
    pub fn apply(&mut self, before: Option<&Object>, now: Option<&Object>) {
        for (pod, sign) in [(before, -1), (now, 1)] {
            if let Some(pod) = pod {
                self.add(pod, sign);
            }
        }
    }

    pub fn of_node(&self, node: &str) -> Option<&Amounts> {
        self.by_node.get(node)
    }

    fn add(&mut self, pod: &Object, sign: i64) {
        let node = pod.str_at(&["spec", "nodeName"]);
        // The scheduler of the member does not count what has ended either.
        if !node.is_empty() && matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed") {
            return;
        }
        let requests = pod.get(&["requests"]).and_then(Value::as_object).into_iter().flatten();
        let sums = match node {
            "" => &mut self.waiting,
            node => self.by_node.entry(node.to_owned()).or_default(),
        };
        for (name, amount) in requests {
            let sum = sums.entry(name.clone()).or_insert(0);
            *sum = sum.saturating_add(sign.saturating_mul(amount.as_i64().unwrap_or(0)));
        }
        sums.retain(|_, sum| *sum != 0);
        if !node.is_empty() && sums.is_empty() {
            self.by_node.remove(node);
        }
    }
}

/// Keeps of a pod where it is and what it asks for, as plain numbers.
pub fn trim_pod(pod: &mut Object) {
    let requests: Map<String, Value> = pod_requests(pod).into_iter().map(|(name, n)| (name, n.into())).collect();
    let metadata: Map<String, Value> = ["name", "namespace", "uid", "resourceVersion"]
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), pod.get(&["metadata", field])?.clone())))
        .collect();
    let mut kept = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": pod.str_at(&["spec", "nodeName"])},
        "status": {"phase": pod.str_at(&["status", "phase"])},
        "requests": requests,
    });
    if let Some(waiting) = unschedulable::kept_of(pod) {
        kept["unschedulable"] = waiting;
    }
    if let Some(kept) = Object::from_value(kept) {
        *pod = kept;
    }
}

/// Keeps of a node what placing depends on: of a hundred thousand of them, the rest would be most of the plane's memory.
pub fn trim_node(node: &mut Object) {
    for field in ["managedFields", "annotations"] {
        node.remove(&["metadata", field]);
    }
    for field in ["podCIDR", "podCIDRs", "providerID"] {
        node.remove(&["spec", field]);
    }
    let allocatable = node.get(&["status", "allocatable"]).cloned();
    let ready = conditions::find(node, READY).map(|ready| json!({"type": READY, "status": ready.status()}));
    let ready: Vec<Value> = ready.into_iter().collect();
    node.set(&["status"], json!({"allocatable": allocatable, "conditions": ready}));
}

/// The effective request, as the scheduler of the member counts it: what runs together, or the largest first step,
/// whichever is more, and the overhead. (Karmada takes first steps against its running total, where they vanish.)
fn pod_requests(pod: &Object) -> Amounts {
    let mut sum = Amounts::new();
    for container in pod.items(&["spec", "containers"]) {
        add(&mut sum, &container["resources"]["requests"]);
    }
    let mut first_steps = Amounts::new();
    let mut sidecars = Amounts::new();
    for container in pod.items(&["spec", "initContainers"]) {
        let mut step = sidecars.clone();
        add(&mut step, &container["resources"]["requests"]);
        if container["restartPolicy"] == "Always" {
            sidecars = step.clone();
        }
        for (name, amount) in step {
            let most = first_steps.entry(name).or_insert(0);
            *most = amount.max(*most);
        }
    }
    for (name, amount) in sidecars {
        *sum.entry(name).or_insert(0) += amount;
    }
    for (name, amount) in first_steps {
        let total = sum.entry(name).or_insert(0);
        *total = amount.max(*total);
    }
    add(&mut sum, pod.get(&["spec", "overhead"]).unwrap_or(&Value::Null));
    sum.insert(PODS.to_owned(), 1);
    sum
}

fn add(sums: &mut Amounts, list: &Value) {
    for (name, amount) in amounts(list) {
        let sum = sums.entry(name).or_insert(0);
        *sum = sum.saturating_add(amount);
    }
}

/// A list of quantities as plain numbers, of the resources that are counted.
fn amounts(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flatten();
    let known = entries.filter(|(name, _)| is_counted(name));
    known.filter_map(|(name, value)| Some((name.clone(), amount(name, &quantity(value)?)))).collect()
}

pub fn amount(name: &str, quantity: &Quantity) -> i64 {
    if name == CPU { quantity.milli_value() } else { quantity.value() }
}

pub fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

fn is_counted(name: &str) -> bool {
    matches!(name, CPU | MEMORY | EPHEMERAL_STORAGE | PODS)
        || name.contains('/')
        || is_huge_pages(name)
        || name.starts_with("attachable-volumes-")
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn as_quantity(name: &str, amount: i64) -> Quantity {
    match name {
        CPU => Quantity::from_milli(amount, QuantityFormat::DecimalSi),
        MEMORY | EPHEMERAL_STORAGE => Quantity::new(amount, QuantityFormat::BinarySi),
        name if is_huge_pages(name) => Quantity::new(amount, QuantityFormat::BinarySi),
        _ => Quantity::new(amount, QuantityFormat::DecimalSi),
    }
}

fn as_list(amounts: &Amounts) -> ResourceList {
    let positive = amounts.iter().filter(|(_, amount)| **amount > 0);
    positive.map(|(name, amount)| (name.clone(), QuantityText::from(&as_quantity(name, *amount)))).collect()
}

/// The ability of the nodes of a member to run pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    None,
    /// One is ready and takes pods.
    Usable,
    /// Those that are ready take none.
    Cordoned,
    NotReady,
}

impl Nodes {
    pub fn of(nodes: &[Arc<Object>]) -> Self {
        let is_cordoned = |node: &Arc<Object>| node.bool_at(&["spec", "unschedulable"]) == Some(true);
        let mut ready = nodes.iter().filter(|node| is_ready(node)).peekable();
        match (nodes.is_empty(), ready.peek().is_none()) {
            (true, _) => Self::None,
            (_, true) => Self::NotReady,
            _ if ready.all(is_cordoned) => Self::Cordoned,
            _ => Self::Usable,
        }
    }
}

fn is_ready(node: &Object) -> bool {
    conditions::is_true(node, READY)
}

pub fn node_summary(nodes: &[Arc<Object>]) -> NodeSummary {
    let is_ready = |node: &&Arc<Object>| is_ready(node);
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    NodeSummary { total_num: count(nodes.len()), ready_num: count(nodes.iter().filter(is_ready).count()) }
}

/// The sums Karmada publishes. `models` where nodes are also counted by grade.
pub fn resource_summary(nodes: &[Arc<Object>], usage: &Usage, models: &[ResourceModel]) -> ResourceSummary {
    let mut allocatable: BTreeMap<String, Quantity> = BTreeMap::new();
    for node in nodes {
        for (name, quantity) in allocatable_of(node) {
            let sum = allocatable.entry(name).or_default();
            *sum = if sum.is_zero() { quantity } else { sum.plus(&quantity) };
        }
    }
    let mut allocated = Amounts::new();
    for (name, amount) in usage.by_node.values().flatten() {
        let sum = allocated.entry(name.clone()).or_insert(0);
        *sum = sum.saturating_add(*amount);
    }
    ResourceSummary {
        allocatable: allocatable.iter().map(|(name, q)| (name.clone(), QuantityText::from(q))).collect(),
        allocating: as_list(&usage.waiting),
        allocated: as_list(&allocated),
        allocatable_modelings: modelings(nodes, usage, models),
    }
}

fn allocatable_of(node: &Object) -> impl Iterator<Item = (String, Quantity)> {
    let entries = node.get(&["status", "allocatable"]).and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), quantity(value)?)))
}

/// Counts the nodes of each grade by their free resources. (A full node is left out; Karmada stops counting at
/// the first full node, in random order.)
fn modelings(nodes: &[Arc<Object>], usage: &Usage, models: &[ResourceModel]) -> Vec<AllocatableModeling> {
    let mut counts = vec![0; models.len()];
    for node in nodes {
        let Some(free) = free_on(node, usage) else { continue };
        if let Some(grade) = grade_of(&free, models) {
            counts[grade] += 1;
        }
    }
    models.iter().zip(counts).map(|(model, count)| AllocatableModeling { grade: model.grade, count }).collect()
}

/// Returns the free resources of a node; `None` when it has no free pod slot.
fn free_on(node: &Object, usage: &Usage) -> Option<BTreeMap<String, Quantity>> {
    let mut free: BTreeMap<String, Quantity> = allocatable_of(node).collect();
    let Some(used) = usage.of_node(node.name()) else { return Some(free) };
    let slots = free.get(PODS).map(Quantity::value).unwrap_or(0) - used.get(PODS).copied().unwrap_or(0);
    if slots <= 0 {
        return None;
    }
    for (name, amount) in used {
        if let Some(quantity) = free.get_mut(name) {
            *quantity = quantity.minus(&as_quantity(name, *amount));
        }
    }
    Some(free)
}

/// The index of the highest grade all of whose lower bounds are met.
fn grade_of(free: &BTreeMap<String, Quantity>, models: &[ResourceModel]) -> Option<usize> {
    let names = models.first()?.ranges.iter().map(|range| range.name.as_str());
    let zero = Quantity::default();
    let highest = |name: &str| {
        let have = free.get(name).unwrap_or(&zero);
        models.iter().rposition(|model| {
            let bound = model.ranges.iter().find(|range| range.name == name);
            let bound = bound.and_then(|range| Quantity::parse(&range.min.0).ok()).unwrap_or_default();
            bound <= *have
        })
    };
    names.map(highest).min().flatten()
}

/// The nodes as the scheduler's estimator wants them.
pub fn cluster_nodes(nodes: &[Arc<Object>], usage: &Usage) -> ClusterNodes {
    let nodes = nodes.iter().map(|node| NodeCapacity {
        name: node.name().to_owned(),
        labels: node.labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        taints: api::read_at::<Vec<Taint>>(node, &["spec", "taints"]).unwrap_or_default(),
        is_unschedulable: node.bool_at(&["spec", "unschedulable"]) == Some(true),
        allocatable: node.get(&["status", "allocatable"]).map(amounts).unwrap_or_default(),
        requested: usage.of_node(node.name()).cloned().unwrap_or_default(),
    });
    ClusterNodes { nodes: nodes.collect(), ..ClusterNodes::default() }
}

#[cfg(test)]
#[path = "capacity_tests.rs"]
mod tests;
