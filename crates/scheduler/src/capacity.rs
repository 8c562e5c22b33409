//! Free capacity of a cluster: from its resource summary, its resource models and its nodes.

use std::collections::HashMap;
use std::sync::Arc;

use api::capacity::ClusterNodes;
use api::cluster::{ClusterSpec, ResourceSummary};
use api::core::{QuantityText, ResourceList};
use api::work::{BindingSpec, ReplicaRequirements};
use object::quantity::Quantity;

use crate::claim::Claim;
use crate::quota::QuotaUse;

/// Kubernetes' limit of pods per node, assumed for modelled nodes.
const PODS_PER_MODEL_NODE: i64 = 110;
const PODS: &str = "pods";
/// Integers below this are exact as floats.
const FLOAT_EXACT_MAX: i64 = 1 << 53;

/// Interned resource names. Append-only, so ids stay valid.
#[derive(Clone, Debug, Default)]
pub struct ResourceNames {
    ids: HashMap<String, usize>,
}

impl ResourceNames {
    fn intern(&mut self, name: &str) -> usize {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = self.ids.len();
        self.ids.insert(name.to_owned(), id);
        id
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.ids.get(name).copied()
    }
}

/// The requests of one replica.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demand {
    /// Name and amount: milli-units for cpu, whole units for the rest; zero requests are omitted.
    amounts: Vec<(String, i64)>,
    claim: Claim,
    /// The namespace whose quotas apply.
    namespace: String,
    /// The priority class, for scoped quotas.
    priority_class: String,
}

impl Demand {
    /// `spec` is the binding that the requirements belong to.
    pub fn new(spec: &BindingSpec, requirements: Option<&ReplicaRequirements>) -> Self {
        let Some(requirements) = requirements else { return Self::default() };
        let amounts = api::core::quantities(&requirements.resource_request)
            .map(|(name, quantity)| (name.to_owned(), amount(name, &quantity)))
            .filter(|(_, amount)| *amount > 0);
        // Pod templates have no namespace; use the workload's.
        let namespaces = [&requirements.namespace, &spec.resource.namespace];
        Self {
            amounts: amounts.collect(),
            claim: Claim::new(requirements.node_claim.as_ref()),
            namespace: namespaces.into_iter().find(|own| !own.is_empty()).cloned().unwrap_or_default(),
            priority_class: requirements.priority_class_name.clone(),
        }
    }

    pub fn amounts(&self) -> &[(String, i64)] {
        &self.amounts
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    pub fn priority_class(&self) -> &str {
        &self.priority_class
    }
}

/// Replicas that are placed together.
#[derive(Clone, Debug, PartialEq)]
pub struct ComponentDemand {
    pub replicas: i64,
    pub demand: Demand,
}

/// A demand with its resource ids resolved once for many clusters.
pub struct ResolvedDemand<'a> {
    demand: &'a Demand,
    resources: Vec<WantedResource>,
}

struct WantedResource {
    /// `None`: no cluster has this resource.
    id: Option<usize>,
    amount: i64,
    /// 1/amount: a division costs more than all other work per node.
    inverse: f64,
    /// Nodes limit this resource.
    is_counted: bool,
}

impl WantedResource {
    fn times_in(&self, left: i64) -> i64 {
        if left <= 0 {
            return 0;
        }
        // Off by at most one for amounts that a float holds exactly; corrected below.
        if left >= FLOAT_EXACT_MAX || self.amount >= FLOAT_EXACT_MAX {
            return left / self.amount;
        }
        let times = (left as f64 * self.inverse) as i64;
        match left - times * self.amount {
            rest if rest < 0 => times - 1,
            rest if rest >= self.amount => times + 1,
            _ => times,
        }
    }
}

impl<'a> ResolvedDemand<'a> {
    pub fn demand(&self) -> &'a Demand {
        self.demand
    }

    pub fn new(names: &ResourceNames, demand: &'a Demand) -> Self {
        let resolve = |(name, amount): &(String, i64)| WantedResource {
            id: names.find(name),
            amount: *amount,
            inverse: 1.0 / *amount as f64,
            is_counted: nodes_count(name),
        };
        Self { demand, resources: demand.amounts.iter().map(resolve).collect() }
    }
}

/// The free capacity of a cluster, less reservations.
#[derive(Clone, Debug, Default)]
pub struct Free {
    /// `None`: the cluster reports no resources.
    summary: Option<SummaryFree>,
    /// Nodes as described by the resource models; `None` without models.
    models: Option<Vec<NodeFree>>,
    /// The actual nodes; `None` if the member is not watched.
    nodes: Option<Vec<NodeFree>>,
    /// Quota used by replicas that are reserved here.
    quotas: QuotaUse,
}

#[derive(Clone, Debug, Default)]
struct SummaryFree {
    pods: i64,
    /// By resource; `None` if the cluster does not have it.
    amounts: Vec<Option<i64>>,
}

/// A group of nodes that are equal in every respect that matters.
#[derive(Clone, Debug)]
struct NodeFree {
    count: i64,
    pods: i64,
    amounts: Vec<i64>,
    /// Index of the member's node; modelled nodes have no labels to match.
    node: Option<usize>,
}

/// Milli-units for cpu, whole units for the rest.
fn amount(name: &str, quantity: &Quantity) -> i64 {
    if name == "cpu" { quantity.milli_value() } else { quantity.value() }
}

/// Resources that limit nodes; any other name is ignored.
fn nodes_count(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || name.contains('/')
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
}

impl Free {
    pub fn new(
        names: &mut ResourceNames,
        spec: &ClusterSpec,
        summary: Option<&ResourceSummary>,
        nodes: Option<&Arc<ClusterNodes>>,
    ) -> Self {
        Self {
            summary: summary.map(|summary| SummaryFree::new(names, summary)),
            models: summary.and_then(|summary| model_nodes(names, spec, summary)),
            nodes: nodes.map(|nodes| real_nodes(names, nodes)),
            quotas: QuotaUse::default(),
        }
    }

    pub fn has_nodes(&self) -> bool {
        self.nodes.is_some()
    }

    /// The general estimator: replicas that the summary allows, or the models if there are any.
    pub fn by_summary(&self, wanted: Option<&ResolvedDemand<'_>>, use_models: bool) -> i32 {
        let Some(summary) = self.summary.as_ref().filter(|summary| summary.pods > 0) else { return 0 };
        let Some(wanted) = wanted else { return clamp(summary.pods) };
        if let Some(models) = self.models.as_ref().filter(|_| use_models) {
            let fit = total(models.iter().map(|node| node.count.saturating_mul(node.fits(wanted))));
            return clamp(fit.min(summary.pods));
        }
        clamp(summary.fits(wanted).min(summary.pods))
    }

    /// The accurate estimator: replicas that the nodes can run. `None` if the nodes are not known.
    pub fn by_nodes(&self, known: Option<&Arc<ClusterNodes>>, wanted: &ResolvedDemand<'_>) -> Option<i32> {
        let free = self.nodes.as_ref()?;
        let known = known?;
        let fits = |node: &NodeFree| match node.accepts(known, wanted.demand) {
            true => node.count.saturating_mul(node.fits(wanted)),
            false => 0,
        };
        Some(clamp(total(free.iter().map(fits))))
    }

    /// Replicas that the quotas of their namespace allow; `None` if no quota applies.
    pub fn by_quotas(&self, known: Option<&Arc<ClusterNodes>>, demand: &Demand) -> Option<i32> {
        self.quotas.replicas(known?, demand).map(clamp)
    }

    /// Whole sets of components that the quotas of their namespace allow.
    pub fn sets_by_quotas(&self, known: Option<&Arc<ClusterNodes>>, parts: &[ComponentDemand]) -> Option<i32> {
        self.quotas.sets(known?, parts).map(clamp)
    }

    /// Whole sets of components that the summary and the models allow.
    pub fn sets_by_summary(&self, names: &ResourceNames, parts: &[ComponentDemand], use_models: bool) -> i32 {
        let Some(summary) = self.summary.as_ref().filter(|summary| summary.pods > 0) else { return 0 };
        let pods: i64 = parts.iter().map(|part| part.replicas).sum();
        if pods <= 0 {
            return clamp(summary.pods);
        }
        let mut sets = summary.pods / pods;
        for (name, needed) in sum_of(parts) {
            let left = names.find(name).and_then(|id| summary.amounts.get(id).copied().flatten()).unwrap_or(0);
            sets = sets.min(left.max(0) / needed);
        }
        match self.models.as_ref().filter(|_| use_models && sets > 0) {
            Some(models) => clamp(simulate(models.clone(), None, names, parts, sets)),
            None => clamp(sets),
        }
    }

    /// Whole sets of components that the nodes can run.
    pub fn sets_by_nodes(
        &self,
        known: Option<&Arc<ClusterNodes>>,
        names: &ResourceNames,
        parts: &[ComponentDemand],
    ) -> Option<i32> {
        let free = self.nodes.as_ref()?;
        let pods: i64 = parts.iter().map(|part| part.replicas).sum();
        if pods <= 0 {
            return Some(i32::MAX);
        }
        Some(clamp(simulate(free.clone(), Some(known?), names, parts, i64::from(i32::MAX))))
    }

    /// Subtracts replicas reserved in the cluster.
    pub fn deduct(&mut self, known: Option<&Arc<ClusterNodes>>, names: &ResourceNames, part: &ComponentDemand) {
        let wanted = ResolvedDemand::new(names, &part.demand);
        if let Some(summary) = &mut self.summary {
            summary.pods -= part.replicas;
            for resource in &wanted.resources {
                let left = resource.id.and_then(|id| summary.amounts.get_mut(id)).and_then(Option::as_mut);
                if let Some(left) = left {
                    *left = left.saturating_sub(resource.amount.saturating_mul(part.replicas));
                }
            }
        }
        if let Some(models) = &mut self.models {
            place(models, None, &wanted, part.replicas);
        }
        if let (Some(nodes), Some(known)) = (&mut self.nodes, known) {
            place(nodes, Some(known), &wanted, part.replicas);
            self.quotas.take(known, part);
        }
    }
}

impl SummaryFree {
    fn new(names: &mut ResourceNames, summary: &ResourceSummary) -> Self {
        let part = |list: &ResourceList, name: &str| {
            let read = |text: &QuantityText| Quantity::parse(&text.0).ok();
            list.get(name).and_then(read).unwrap_or_default()
        };
        let mut free = Self::default();
        for (name, allocatable) in api::core::quantities(&summary.allocatable) {
            let left = allocatable.minus(&part(&summary.allocated, name)).minus(&part(&summary.allocating, name));
            let id = names.intern(name);
            if free.amounts.len() <= id {
                free.amounts.resize(id + 1, None);
            }
            free.amounts[id] = Some(amount(name, &left));
        }
        let pods = |list: &ResourceList| part(list, PODS).value();
        free.pods = pods(&summary.allocatable)
            .saturating_sub(pods(&summary.allocated))
            .saturating_sub(pods(&summary.allocating));
        free
    }

    fn fits(&self, wanted: &ResolvedDemand<'_>) -> i64 {
        let mut fits = i64::MAX;
        for resource in &wanted.resources {
            let left = resource.id.and_then(|id| self.amounts.get(id).copied().flatten()).unwrap_or(0);
            fits = fits.min(resource.times_in(left));
        }
        fits
    }
}

impl NodeFree {
    fn fits(&self, wanted: &ResolvedDemand<'_>) -> i64 {
        let mut fits = self.pods;
        for resource in wanted.resources.iter().filter(|resource| resource.is_counted) {
            let left = resource.id.and_then(|id| self.amounts.get(id).copied()).unwrap_or(0);
            fits = fits.min(resource.times_in(left));
        }
        fits.max(0)
    }

    fn accepts(&self, known: &ClusterNodes, demand: &Demand) -> bool {
        let node = self.node.and_then(|index| known.nodes.get(index));
        node.is_none_or(|node| demand.claim.accepts(node))
    }

    fn take(&mut self, wanted: &ResolvedDemand<'_>, replicas: i64) {
        self.pods -= replicas;
        for resource in &wanted.resources {
            if let Some(left) = resource.id.and_then(|id| self.amounts.get_mut(id)) {
                *left = left.saturating_sub(resource.amount.saturating_mul(replicas));
            }
        }
    }
}

fn set_amount(amounts: &mut Vec<i64>, id: usize, value: i64) {
    if amounts.len() <= id {
        amounts.resize(id + 1, 0);
    }
    amounts[id] = value;
}

/// As many nodes of each grade as are counted, each with the minimum of its grade. `None` without models or counts,
/// or with an invalid count.
fn model_nodes(names: &mut ResourceNames, spec: &ClusterSpec, summary: &ResourceSummary) -> Option<Vec<NodeFree>> {
    let counts = &summary.allocatable_modelings;
    if counts.is_empty() || spec.resource_models.is_empty() || counts.iter().any(|model| model.count < 0) {
        return None;
    }
    let mut models: Vec<_> = spec.resource_models.iter().collect();
    models.sort_by_key(|model| model.grade);
    let nodes = models.into_iter().filter_map(|model| {
        let of_grade = counts.iter().filter(|count| count.grade == model.grade);
        let count: i64 = of_grade.map(|model| i64::from(model.count)).sum();
        let mut amounts = Vec::new();
        for range in &model.ranges {
            let least = Quantity::parse(&range.min.0).unwrap_or_default();
            set_amount(&mut amounts, names.intern(&range.name), amount(&range.name, &least));
        }
        (count > 0).then_some(NodeFree { count, pods: PODS_PER_MODEL_NODE, amounts, node: None })
    });
    Some(nodes.collect())
}

fn real_nodes(names: &mut ResourceNames, known: &ClusterNodes) -> Vec<NodeFree> {
    let free = |(index, node): (usize, &api::capacity::NodeCapacity)| {
        let left = |name: &str| {
            let of = |amounts: &api::capacity::Amounts| amounts.get(name).copied().unwrap_or(0);
            of(&node.allocatable).saturating_sub(of(&node.requested)).max(0)
        };
        let mut amounts = Vec::new();
        for name in node.allocatable.keys().filter(|name| *name != PODS) {
            set_amount(&mut amounts, names.intern(name), left(name));
        }
        NodeFree { count: 1, pods: left(PODS), amounts, node: Some(index) }
    };
    known.nodes.iter().enumerate().map(free).collect()
}

/// The sum of all components' requests, by resource.
fn sum_of(parts: &[ComponentDemand]) -> Vec<(&str, i64)> {
    let mut sums: Vec<(&str, i64)> = Vec::new();
    for part in parts.iter().filter(|part| part.replicas > 0) {
        for (name, amount) in &part.demand.amounts {
            let needed = amount.saturating_mul(part.replicas);
            match sums.iter_mut().find(|(other, _)| other == name) {
                Some((_, sum)) => *sum = sum.saturating_add(needed),
                None => sums.push((name, needed)),
            }
        }
    }
    sums
}

/// Places whole sets on the nodes, first fit, until one does not fit.
fn simulate(
    mut nodes: Vec<NodeFree>,
    known: Option<&Arc<ClusterNodes>>,
    names: &ResourceNames,
    parts: &[ComponentDemand],
    sets_max: i64,
) -> i64 {
    let wanted: Vec<_> = parts.iter().map(|part| (ResolvedDemand::new(names, &part.demand), part.replicas)).collect();
    let mut sets = 0;
    while sets < sets_max
        && wanted.iter().all(|(wanted, replicas)| place(&mut nodes, known.map(|known| &**known), wanted, *replicas))
    {
        sets += 1;
    }
    sets
}

/// Places replicas on nodes, first fit; returns whether all fit.
fn place(nodes: &mut Vec<NodeFree>, known: Option<&ClusterNodes>, wanted: &ResolvedDemand<'_>, replicas: i64) -> bool {
    let mut left = replicas;
    let mut at = 0;
    while left > 0 && at < nodes.len() {
        let node = &nodes[at];
        let fits = node.fits(wanted);
        if fits == 0 || known.is_some_and(|known| !node.accepts(known, wanted.demand)) {
            at += 1;
            continue;
        }
        let (full, rest) = ((left / fits).min(node.count), left % fits);
        if full > 0 {
            at = split(nodes, at, full, |node| node.take(wanted, fits));
            left -= full * fits;
        } else {
            at = split(nodes, at, 1, |node| node.take(wanted, rest));
            left -= rest;
        }
    }
    left <= 0
}

/// Changes the first `count` nodes of a group; returns the index after them.
fn split(nodes: &mut Vec<NodeFree>, at: usize, count: i64, change: impl FnOnce(&mut NodeFree)) -> usize {
    if nodes[at].count > count {
        let mut rest = nodes[at].clone();
        rest.count -= count;
        nodes[at].count = count;
        nodes.insert(at + 1, rest);
    }
    change(&mut nodes[at]);
    at + 1
}

fn total(numbers: impl Iterator<Item = i64>) -> i64 {
    numbers.fold(0, i64::saturating_add)
}

fn clamp(number: i64) -> i32 {
    number.clamp(0, i64::from(i32::MAX)) as i32
}

/// The components of a binding as one set.
pub fn parts_of(spec: &BindingSpec) -> Vec<ComponentDemand> {
    let part = |component: &api::work::Component| ComponentDemand {
        replicas: i64::from(component.replicas),
        demand: Demand::new(spec, component.replica_requirements.as_ref()),
    };
    spec.components.iter().map(part).collect()
}

/// The demand of a binding with that many replicas in one cluster.
pub fn parts_in_cluster(spec: &BindingSpec, replicas: i64) -> Vec<ComponentDemand> {
    if spec.components.is_empty() {
        vec![ComponentDemand { replicas, demand: Demand::new(spec, spec.replica_requirements.as_ref()) }]
    } else {
        parts_of(spec)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(left: i64, amount: i64) -> i64 {
        WantedResource { id: None, amount, inverse: 1.0 / amount as f64, is_counted: true }.times_in(left)
    }

    proptest! {
        #[test]
        fn counting_without_dividing_counts_the_same(left in -5..i64::MAX, amount in 1..i64::MAX, shift in 0..62u32) {
            for (left, amount) in [(left, amount), (left >> shift, amount), (left, (amount >> shift).max(1)),
                (left >> shift, (amount >> shift).max(1)), ((amount >> shift).saturating_mul(3) - 1, (amount >> shift).max(1))] {
                prop_assert_eq!(times(left, amount), (left / amount).max(0), "{} in {}", amount, left);
            }
        }
    }
}
