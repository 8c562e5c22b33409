//! Topology spread constraints.

use std::collections::HashMap;

use object::selector::LabelSelector;

use crate::cluster::{Cluster, NodeInfo, PodGroup};
use crate::outcome::Refusal;
use crate::pod::{Pod, Spread};

pub const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
/// kube-scheduler's default constraints: hosts loosely, zones more loosely.
const DEFAULT_SKEW_HOSTNAME: i64 = 3;
const DEFAULT_SKEW_ZONE: i64 = 5;

const NO_DOMAIN: u32 = u32::MAX;

/// One `DoNotSchedule` constraint, with the pods counted.
pub struct HardSpread {
    domains: Domains,
    /// Count of the emptiest eligible domain.
    least: i64,
    own: i64,
    max_skew: i64,
}

/// Number of pods in each domain of a topology key.
struct Domains {
    /// By node; `NO_DOMAIN` if the node lacks the label.
    of_node: Vec<u32>,
    counts: Vec<i64>,
    /// Some eligible node is in the domain.
    is_eligible: Vec<bool>,
}

impl Domains {
    /// Divides all nodes by a label. `counts_for` reports whether a node's pods count and its domain is eligible.
    fn divide(cluster: &Cluster, key: &str, counts_for: impl Fn(u32, &NodeInfo) -> bool) -> (Self, Vec<bool>) {
        let mut domains =
            Self { of_node: vec![NO_DOMAIN; cluster.nodes.places()], counts: Vec::new(), is_eligible: Vec::new() };
        let mut by_value: HashMap<&str, u32> = HashMap::new();
        let mut counting = vec![false; cluster.nodes.places()];
        for (at, node) in cluster.nodes.iter() {
            let Some(info) = &node.info else { continue };
            let Some(value) = info.labels.get(key) else { continue };
            let domain = *by_value.entry(value).or_insert_with(|| {
                domains.counts.push(0);
                domains.is_eligible.push(false);
                domains.counts.len() as u32 - 1
            });
            domains.of_node[at as usize] = domain;
            if counts_for(at, info) {
                counting[at as usize] = true;
                domains.is_eligible[domain as usize] = true;
            }
        }
        (domains, counting)
    }

    /// Makes every node with the label a domain of its own.
    fn each_node(cluster: &Cluster, key: &str) -> (Self, Vec<bool>) {
        let places = cluster.nodes.places();
        let mut of_node = vec![NO_DOMAIN; places];
        for (at, node) in cluster.nodes.iter() {
            if node.info.as_ref().is_some_and(|info| info.labels.get(key).is_some()) {
                of_node[at as usize] = at;
            }
        }
        (Self { of_node, counts: vec![0; places], is_eligible: Vec::new() }, vec![true; places])
    }

    fn count(&mut self, group: &PodGroup, counting: &[bool]) {
        for (node, count) in &group.on {
            let domain = self.of_node[*node as usize];
            if domain != NO_DOMAIN && counting[*node as usize] {
                self.counts[domain as usize] += i64::from(*count);
            }
        }
    }
}

/// Pods selected for this pod's constraints: those of its namespace that are not terminating. An empty selector
/// selects none.
fn counted<'a>(cluster: &'a Cluster, pod: &'a Pod, selector: &'a LabelSelector) -> impl Iterator<Item = &'a PodGroup> {
    let groups = cluster.groups_within(&pod.namespace);
    groups.filter(move |group| {
        !selector.is_everything() && !group.key.is_terminating && group.key.labels.are_matched_by(selector)
    })
}

fn counts_for(spread: &Spread, pod: &Pod, name: &str, info: &NodeInfo) -> bool {
    (!spread.honors_affinity || pod.wants_node(name, &info.labels))
        && (!spread.honors_taints
            || info.taints.iter().all(|taint| !taint.keeps_away() || taint.is_tolerated_by(&pod.tolerations)))
}

impl HardSpread {
    pub fn all(cluster: &Cluster, pod: &Pod) -> Vec<Self> {
        let hard: Vec<&Spread> = pod.spread.iter().filter(|spread| spread.is_required).collect();
        let has_all_keys = |info: &NodeInfo| hard.iter().all(|spread| info.labels.get(&spread.topology_key).is_some());
        hard.iter().map(|spread| Self::new(cluster, pod, spread, &has_all_keys)).collect()
    }

    fn new(cluster: &Cluster, pod: &Pod, spread: &Spread, has_all_keys: &impl Fn(&NodeInfo) -> bool) -> Self {
        let name = |at: u32| cluster.nodes.get(at).map(|node| &*node.name).unwrap_or_default();
        let counts = |at: u32, info: &NodeInfo| has_all_keys(info) && counts_for(spread, pod, name(at), info);
        let (mut domains, counting) = Domains::divide(cluster, &spread.topology_key, counts);
        for group in counted(cluster, pod, &spread.selector) {
            domains.count(group, &counting);
        }
        let eligible =
            || domains.counts.iter().zip(&domains.is_eligible).filter(|(_, is)| **is).map(|(count, _)| *count);
        let is_short_of_domains = (eligible().count() as i64) < spread.min_domains;
        let least = if is_short_of_domains { 0 } else { eligible().min().unwrap_or(i64::from(i32::MAX)) };
        let own = i64::from(pod.labels.are_matched_by(&spread.selector));
        Self { domains, least, own, max_skew: spread.max_skew }
    }

    pub fn judge(&self, node: u32) -> Result<(), Refusal> {
        let domain = self.domains.of_node[node as usize];
        if domain == NO_DOMAIN {
            return Err(Refusal::for_good(
                "node(s) didn't match pod topology spread constraints (missing required label)",
            ));
        }
        let skew = self.domains.counts[domain as usize] + self.own - self.least;
        match skew > self.max_skew {
            true => Err(Refusal::for_now("node(s) didn't match pod topology spread constraints")),
            false => Ok(()),
        }
    }
}

/// Scores of feasible nodes by how few matching pods are in their domains; `None` if there is nothing to spread.
pub fn score(cluster: &Cluster, pod: &Pod, feasible: &[u32]) -> Option<Vec<i64>> {
    let soft: Vec<Spread> = match pod.spread.is_empty() {
        true => defaults(pod),
        false => pod.spread.iter().filter(|spread| !spread.is_required).cloned().collect(),
    };
    if soft.is_empty() {
        return None;
    }
    let needs_all_keys = !pod.spread.is_empty();
    let has_all_keys = |info: &NodeInfo| soft.iter().all(|spread| info.labels.get(&spread.topology_key).is_some());
    let is_scored = |at: &u32| !needs_all_keys || cluster.info_at(*at).is_some_and(has_all_keys);
    let mut raw = vec![0.0; feasible.len()];
    for spread in &soft {
        let points = SoftSpread { cluster, pod, spread, feasible, needs_all_keys };
        points.add_to(&mut raw, &is_scored, &has_all_keys);
    }
    Some(normalize(feasible, &raw, &is_scored))
}

/// The default constraints, for pods of a controller that have none.
fn defaults(pod: &Pod) -> Vec<Spread> {
    if pod.owner.is_empty() {
        return Vec::new();
    }
    let constraint = |key: &str, max_skew: i64| Spread {
        max_skew,
        min_domains: 1,
        topology_key: key.into(),
        is_required: false,
        selector: LabelSelector::everything(),
        honors_affinity: true,
        honors_taints: false,
    };
    vec![constraint(HOSTNAME, DEFAULT_SKEW_HOSTNAME), constraint(ZONE, DEFAULT_SKEW_ZONE)]
}

struct SoftSpread<'a> {
    cluster: &'a Cluster,
    pod: &'a Pod,
    spread: &'a Spread,
    feasible: &'a [u32],
    needs_all_keys: bool,
}

impl SoftSpread<'_> {
    fn add_to(&self, raw: &mut [f64], is_scored: &impl Fn(&u32) -> bool, has_all_keys: &impl Fn(&NodeInfo) -> bool) {
        let Self { cluster, pod, spread, feasible, .. } = self;
        let is_hostname = *spread.topology_key == *HOSTNAME;
        let name = |at: u32| cluster.nodes.get(at).map(|node| &*node.name).unwrap_or_default();
        let counts = |at: u32, info: &NodeInfo| {
            (!self.needs_all_keys || has_all_keys(info)) && counts_for(spread, pod, name(at), info)
        };
        // Pods on the same host count regardless of the node policies, since it is the candidate itself.
        let (mut domains, counting) = match is_hostname {
            true => Domains::each_node(cluster, &spread.topology_key),
            false => Domains::divide(cluster, &spread.topology_key, counts),
        };
        self.count(&mut domains, &counting);
        let mut seen = vec![false; domains.counts.len()];
        let scored = || feasible.iter().enumerate().filter(|(_, at)| is_scored(at));
        let domain_of = |at: u32| Some(domains.of_node[at as usize]).filter(|domain| *domain != NO_DOMAIN);
        let mut size = 0;
        for (_, at) in scored() {
            match domain_of(*at) {
                _ if is_hostname => size += 1,
                Some(domain) if !std::mem::replace(&mut seen[domain as usize], true) => size += 1,
                _ => {}
            }
        }
        let weight = f64::from(size + 2).ln();
        for (index, at) in scored() {
            if let Some(domain) = domain_of(*at) {
                raw[index] += domains.counts[domain as usize] as f64 * weight + (spread.max_skew - 1) as f64;
            }
        }
    }

    fn count(&self, domains: &mut Domains, counting: &[bool]) {
        if self.pod.spread.is_empty() {
            let groups = self.cluster.groups_within(&self.pod.namespace);
            let siblings = groups.filter(|group| !group.key.is_terminating && group.key.owner == self.pod.owner);
            siblings.for_each(|group| domains.count(group, counting));
        } else {
            counted(self.cluster, self.pod, &self.spread.selector).for_each(|group| domains.count(group, counting));
        }
    }
}

/// Turns counts into scores: the lowest count gets the highest score.
fn normalize(feasible: &[u32], raw: &[f64], is_scored: &impl Fn(&u32) -> bool) -> Vec<i64> {
    let rounded: Vec<Option<i64>> =
        feasible.iter().zip(raw).map(|(at, raw)| is_scored(at).then(|| raw.round() as i64)).collect();
    let least = rounded.iter().flatten().min().copied().unwrap_or(0);
    let most = rounded.iter().flatten().max().copied().unwrap_or(0);
    let points = |score: &Option<i64>| match score {
        None => 0,
        Some(_) if most == 0 => 100,
        Some(score) => 100 * (most + least - score) / most,
    };
    rounded.iter().map(points).collect()
}
