//! Preemption: picks the lower-priority pods to remove from a node.

use std::collections::HashSet;
use std::sync::Arc;

use object::selector::LabelSelector;

use crate::attempt::Attempt;
use crate::cluster::{Cluster, PlacedPod};
use crate::outcome::{PlacementResult, Refusal, Refusals};
use crate::pod::Pod;
use crate::volumes::VolumeNeeds;

/// At least this many nodes are tried, if there are as many.
const CANDIDATES_MIN: usize = 100;
/// In large clusters, this share of the nodes is tried.
const CANDIDATES_PERCENT: usize = 10;

/// A PodDisruptionBudget: the selected pods and the number of allowed disruptions.
#[derive(Clone, Debug)]
pub struct Budget {
    pub namespace: String,
    pub selector: LabelSelector,
    pub allowed: i64,
    /// Pods whose eviction is already counted.
    pub disrupted: HashSet<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preemption {
    /// The node to preempt on; `victims` must terminate first.
    pub node: Option<Arc<str>>,
    pub victims: Vec<Victim>,
    /// The reason for not preempting, as worded by kube-scheduler; empty otherwise.
    pub message: String,
    /// Earlier victims on the nominated node are still terminating, so the nomination stands.
    pub awaits_victims: bool,
}

/// The reason why a pod may not preempt others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ineligible {
    ByPolicy,
    AwaitsVictims,
}

impl Ineligible {
    fn message(self) -> &'static str {
        match self {
            Self::ByPolicy => "not eligible due to preemptionPolicy=Never.",
            Self::AwaitsVictims => "not eligible due to a terminating pod on the nominated node.",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
}

struct Candidate {
    node: Arc<str>,
    /// Most important first.
    victims: Vec<PlacedPod>,
    violations: usize,
}

/// Finds the node where preemption does the least harm, after `place` found none. Pods are removed and put back while
/// trying nodes; afterwards the cluster is unchanged.
pub fn preempt(
    cluster: &mut Cluster,
    pod: &Pod,
    volumes: &VolumeNeeds,
    outcome: &PlacementResult,
    budgets: &[Budget],
) -> Preemption {
    if let Some(reason) = refuse(cluster, pod, outcome) {
        let message = format!("preemption: {}", reason.message());
        return Preemption { message, awaits_victims: reason == Ineligible::AwaitsVictims, ..Preemption::default() };
    }
    let nodes = cluster.node_count();
    let mut potential = outcome.refusals.resolvable.clone();
    potential.sort_by(|a, b| name_of(cluster, *a).cmp(name_of(cluster, *b)));
    let enough = CANDIDATES_MIN.max(potential.len() * CANDIDATES_PERCENT / 100);
    let mut refusals = Refusals { nodes, ..Refusals::default() };
    let (mut candidates, mut tried) = (Vec::new(), 0);
    for at in potential {
        tried += 1;
        match try_out(cluster, pod, volumes, at, budgets) {
            Ok(candidate) => candidates.push(candidate),
            Err(refusal) => refusals.add(at, refusal),
        }
        // A candidate without budget violations is enough: more would only add alternatives of the same rank.
        if candidates.len() >= enough && candidates.iter().any(|candidate: &Candidate| candidate.violations == 0) {
            break;
        }
    }
    let Some(best) = pick(candidates) else {
        refusals.add_unseen("Preemption is not helpful for scheduling".into(), nodes.saturating_sub(tried));
        return Preemption { message: format!("preemption: {}", refusals.message()), ..Preemption::default() };
    };
    let victims = best.victims.iter().map(|victim| Victim {
        namespace: Arc::clone(&victim.namespace),
        name: Arc::clone(&victim.name),
        uid: Arc::clone(&victim.uid),
    });
    Preemption { victims: victims.collect(), node: Some(best.node), ..Preemption::default() }
}

fn name_of(cluster: &Cluster, at: u32) -> &str {
    cluster.nodes.get(at).map(|node| &*node.name).unwrap_or_default()
}

fn refuse(cluster: &Cluster, pod: &Pod, outcome: &PlacementResult) -> Option<Ineligible> {
    if pod.preempts_never {
        return Some(Ineligible::ByPolicy);
    }
    let at = cluster.find_node(&pod.nominated)?;
    // Its earlier victims are still terminating; it waits for them unless the node became unresolvable.
    let leaving = cluster.nodes.get(at)?.pods.iter().filter_map(|at| cluster.pods.get(*at));
    let is_waiting = leaving.into_iter().any(|placed| placed.pod.is_preempted && placed.pod.priority < pod.priority);
    let may_still_do = outcome.refusals.resolvable.contains(&at);
    (is_waiting && may_still_do).then_some(Ineligible::AwaitsVictims)
}

/// Removes every less important pod from the node, then puts back as many as fit.
fn try_out(
    cluster: &mut Cluster,
    pod: &Pod,
    volumes: &VolumeNeeds,
    at: u32,
    budgets: &[Budget],
) -> Result<Candidate, Refusal> {
    let lower: Vec<u32> = match cluster.nodes.get(at) {
        Some(node) => {
            let is_lower = |at: &u32| cluster.pods.get(*at).is_some_and(|placed| placed.pod.priority < pod.priority);
            node.pods.iter().copied().filter(is_lower).collect()
        }
        None => Vec::new(),
    };
    if lower.is_empty() {
        return Err(Refusal::for_good("No preemption victims found for incoming pod"));
    }
    let mut taken: Vec<PlacedPod> = lower.into_iter().filter_map(|at| Some(cluster.take(at)?.0)).collect();
    if let Err(refusal) = Attempt::new(cluster, pod, volumes).judge(at) {
        taken.into_iter().for_each(|pod| cluster.put(pod, at));
        return Err(refusal);
    }
    taken.sort_by(|a, b| importance(a).cmp(&importance(b)));
    let (violating, others) = divide_by_budgets(taken, budgets);
    let (mut victims, mut violations) = (Vec::new(), 0);
    let marked = violating.into_iter().map(|pod| (pod, true)).chain(others.into_iter().map(|pod| (pod, false)));
    for (spared, violates) in marked {
        let key = (Arc::clone(&spared.namespace), Arc::clone(&spared.name));
        let kept = spared.clone();
        cluster.put(spared, at);
        if Attempt::new(cluster, pod, volumes).judge(at).is_err() {
            cluster.remove_placed(&key.0, &key.1);
            violations += usize::from(violates);
            victims.push(kept);
        }
    }
    for victim in &victims {
        cluster.put(victim.clone(), at);
    }
    victims.sort_by(|a, b| importance(a).cmp(&importance(b)));
    Ok(Candidate { node: name_of(cluster, at).into(), victims, violations })
}

/// Orders pods by priority, then by run time, then by name; the most important first.
fn importance(pod: &PlacedPod) -> (std::cmp::Reverse<i32>, i64, &str, &str) {
    (std::cmp::Reverse(pod.priority), pod.started, &pod.namespace, &pod.name)
}

/// Pods whose eviction violates a budget, and the others.
fn divide_by_budgets(pods: Vec<PlacedPod>, budgets: &[Budget]) -> (Vec<PlacedPod>, Vec<PlacedPod>) {
    let mut left: Vec<i64> = budgets.iter().map(|budget| budget.allowed).collect();
    pods.into_iter().partition(|pod| {
        let mut violates = false;
        for (budget, left) in budgets.iter().zip(&mut left) {
            if *budget.namespace != *pod.namespace
                || budget.selector.is_everything()
                || !pod.labels.are_matched_by(&budget.selector)
                || budget.disrupted.contains(&*pod.name)
            {
                continue;
            }
            *left -= 1;
            violates |= *left < 0;
        }
        violates
    })
}

/// Fewest budget violations; lowest top priority; lowest sum; fewest victims; latest start; first by name.
fn pick(candidates: Vec<Candidate>) -> Option<Candidate> {
    candidates.into_iter().min_by_key(|candidate| {
        let victims = &candidate.victims;
        let top = victims.first().map_or(i32::MIN, |victim| victim.priority);
        let sum: i64 = victims.iter().map(|v| i64::from(v.priority) + i64::from(i32::MAX) + 1).sum();
        let of_top = victims.iter().filter(|victim| victim.priority == top);
        let earliest = of_top.map(|victim| victim.started).min().unwrap_or(i64::MAX);
        (candidate.violations, top, sum, victims.len(), std::cmp::Reverse(earliest), candidate.node.clone())
    })
}
