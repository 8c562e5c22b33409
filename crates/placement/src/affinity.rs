//! Inter-pod affinity and anti-affinity.

use std::collections::{HashMap, HashSet};

use crate::cluster::{Cluster, PodGroup};
use crate::labels::Labels;
use crate::outcome::Refusal;
use crate::pod::{Pod, PodTerm};

/// Weight of a placed pod's required affinity for the new pod, as in kube-scheduler.
const HARD_AFFINITY_WEIGHT: i64 = 1;

/// Topology domains that attract or repel a pod.
pub struct Neighbours<'a> {
    required: &'a [PodTerm],
    required_anti: &'a [PodTerm],
    /// Node label and value of the domains that hold all required pods.
    near: HashSet<(&'a str, &'a str)>,
    /// Node label and value of the domains that hold pods this one avoids.
    avoided: HashSet<(&'a str, &'a str)>,
    /// By node label, the values of the domains that hold pods avoiding this one.
    closed: HashMap<&'a str, HashSet<&'a str>>,
    /// No pod matches its affinity terms yet, but it matches them itself.
    is_first_of_its_kind: bool,
}

impl<'a> Neighbours<'a> {
    pub fn new(cluster: &'a Cluster, pod: &'a Pod) -> Self {
        let (required, required_anti) = match &pod.terms {
            Some(terms) => (&terms.required[..], &terms.required_anti[..]),
            None => (&[][..], &[][..]),
        };
        let mut near = HashSet::new();
        if let Some(first) = required.first() {
            let wanted = groups_for(cluster, first)
                .filter(|group| required.iter().all(|term| matches_group(cluster, term, group)));
            for group in wanted {
                for term in required {
                    near.extend(pairs(cluster, &group.on, &term.topology_key));
                }
            }
        }
        let mut avoided = HashSet::new();
        for term in required_anti {
            for group in groups_for(cluster, term).filter(|group| matches_group(cluster, term, group)) {
                avoided.extend(pairs(cluster, &group.on, &term.topology_key));
            }
        }
        let own = cluster.namespace_labels(&pod.namespace);
        let matches_itself = |term: &PodTerm| term.matches(&pod.namespace, &pod.labels, own);
        let is_first_of_its_kind = near.is_empty() && required.iter().all(matches_itself);
        Self { required, required_anti, near, avoided, closed: closed_to(cluster, pod), is_first_of_its_kind }
    }

    pub fn judge(&self, labels: &Labels) -> Result<(), Refusal> {
        self.judge_near(labels)?;
        let is_avoided = |term: &PodTerm| {
            labels.get(&term.topology_key).is_some_and(|v| self.avoided.contains(&(&*term.topology_key, v)))
        };
        if !self.avoided.is_empty() && self.required_anti.iter().any(is_avoided) {
            return Err(Refusal::for_now("node(s) didn't match pod anti-affinity rules"));
        }
        let is_closed = |(key, values): (&&str, &HashSet<&str>)| labels.get(key).is_some_and(|v| values.contains(v));
        if self.closed.iter().any(is_closed) {
            return Err(Refusal::for_now("node(s) didn't satisfy existing pods anti-affinity rules"));
        }
        Ok(())
    }

    fn judge_near(&self, labels: &Labels) -> Result<(), Refusal> {
        let mut is_near = true;
        for term in self.required {
            match labels.get(&term.topology_key) {
                Some(value) => is_near &= self.near.contains(&(&*term.topology_key, value)),
                None => return Err(Refusal::for_good("node(s) didn't match pod affinity rules")),
            }
        }
        match is_near || self.is_first_of_its_kind {
            true => Ok(()),
            false => Err(Refusal::for_good("node(s) didn't match pod affinity rules")),
        }
    }
}

/// Domains of pods whose required anti-affinity selects this pod.
fn closed_to<'a>(cluster: &'a Cluster, pod: &Pod) -> HashMap<&'a str, HashSet<&'a str>> {
    let own = cluster.namespace_labels(&pod.namespace);
    let mut closed: HashMap<&str, HashSet<&str>> = HashMap::new();
    for (_, bearer) in cluster.bearers.iter() {
        for term in bearer.terms.required_anti.iter().filter(|t| t.matches(&pod.namespace, &pod.labels, own)) {
            let values = pairs(cluster, &bearer.on, &term.topology_key).map(|(_, value)| value);
            closed.entry(&term.topology_key).or_default().extend(values);
        }
    }
    closed.retain(|_, values| !values.is_empty());
    closed
}

/// Pods a term can select: those of its namespaces if it lists them all.
fn groups_for<'a>(cluster: &'a Cluster, term: &'a PodTerm) -> Box<dyn Iterator<Item = &'a PodGroup> + 'a> {
    match &term.namespace_selector {
        None => Box::new(term.namespaces.iter().flat_map(|namespace| cluster.groups_within(namespace))),
        Some(_) => Box::new(cluster.groups.iter().map(|(_, group)| group)),
    }
}

fn matches_group(cluster: &Cluster, term: &PodTerm, group: &PodGroup) -> bool {
    let namespace = &group.key.namespace;
    term.matches(namespace, &group.key.labels, cluster.namespace_labels(namespace))
}

/// The node label and its values on the nodes of some pods.
fn pairs<'a>(
    cluster: &'a Cluster,
    on: &'a HashMap<u32, u32>,
    key: &'a str,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    on.keys().filter_map(move |node| Some((key, cluster.info_at(*node)?.labels.get(key)?)))
}

/// Sums of weights by node label and value.
type Weights<'a> = HashMap<&'a str, HashMap<&'a str, i64>>;

/// Scores of the feasible nodes; `None` if no affinity applies.
pub fn score(cluster: &Cluster, pod: &Pod, feasible: &[u32]) -> Option<Vec<i64>> {
    let mut weights: Weights<'_> = HashMap::new();
    if let Some(terms) = &pod.terms {
        let liked = terms.preferred.iter().map(|(weight, term)| (*weight, term));
        let disliked = terms.preferred_anti.iter().map(|(weight, term)| (-*weight, term));
        for (weight, term) in liked.chain(disliked) {
            for group in groups_for(cluster, term).filter(|group| matches_group(cluster, term, group)) {
                add(&mut weights, cluster, &group.on, term, weight);
            }
        }
    }
    let own = cluster.namespace_labels(&pod.namespace);
    for (_, bearer) in cluster.bearers.iter() {
        let terms = &bearer.terms;
        let required = terms.required.iter().map(|term| (HARD_AFFINITY_WEIGHT, term));
        let liked = terms.preferred.iter().map(|(weight, term)| (*weight, term));
        let disliked = terms.preferred_anti.iter().map(|(weight, term)| (-*weight, term));
        for (weight, term) in required.chain(liked).chain(disliked) {
            if term.matches(&pod.namespace, &pod.labels, own) {
                add(&mut weights, cluster, &bearer.on, term, weight);
            }
        }
    }
    (!weights.is_empty()).then(|| points(cluster, &weights, feasible))
}

fn add<'a>(weights: &mut Weights<'a>, cluster: &'a Cluster, on: &'a HashMap<u32, u32>, term: &'a PodTerm, weight: i64) {
    for (node, count) in on {
        let Some(value) = cluster.info_at(*node).and_then(|info| info.labels.get(&term.topology_key)) else {
            continue;
        };
        *weights.entry(&term.topology_key).or_default().entry(value).or_insert(0) += weight * i64::from(*count);
    }
}

fn points(cluster: &Cluster, weights: &Weights<'_>, feasible: &[u32]) -> Vec<i64> {
    let sum = |at: &u32| -> i64 {
        let Some(info) = cluster.info_at(*at) else { return 0 };
        let near = weights.iter().filter_map(|(key, values)| values.get(info.labels.get(key)?));
        near.sum()
    };
    let sums: Vec<i64> = feasible.iter().map(sum).collect();
    let (least, most) = (sums.iter().min().copied().unwrap_or(0), sums.iter().max().copied().unwrap_or(0));
    let point = |sum: &i64| match most - least {
        0 => 0,
        span => (100.0 * ((sum - least) as f64 / span as f64)) as i64,
    };
    sums.iter().map(point).collect()
}
