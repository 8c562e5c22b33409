//! Scores of feasible nodes: 0 to 100 points per criterion, weighted and summed.

use std::cmp::Reverse;

use object::taints::{PREFER_NO_SCHEDULE, Toleration};

use crate::cluster::{Cluster, NodeInfo, NodeState};
use crate::pod::Pod;
use crate::{affinity, spread};

const WEIGHT_TAINTS: i64 = 3;
const WEIGHT_NODE_AFFINITY: i64 = 2;
const WEIGHT_SPREAD: i64 = 2;
const WEIGHT_AFFINITY: i64 = 2;

/// The best feasible node and its score. Ties go to the node with fewer pods, then to the first by name.
pub fn best(cluster: &Cluster, pod: &Pod, feasible: &[u32]) -> (u32, i64) {
    let mut totals: Vec<i64> = feasible.iter().map(|at| resources(cluster, pod, *at)).collect();
    let mut add = |points: Option<Vec<i64>>, weight: i64| {
        for (total, points) in totals.iter_mut().zip(points.into_iter().flatten()) {
            *total += points * weight;
        }
    };
    add(unwelcome(cluster, pod, feasible), WEIGHT_TAINTS);
    add(preferred(cluster, pod, feasible), WEIGHT_NODE_AFFINITY);
    add(spread::score(cluster, pod, feasible), WEIGHT_SPREAD);
    add(affinity::score(cluster, pod, feasible), WEIGHT_AFFINITY);
    let place = |at: u32| cluster.nodes.get(at).map(|node| (Reverse(node.pods.len()), Reverse(&node.name)));
    let ranked = feasible.iter().zip(&totals).max_by_key(|(at, total)| (**total, place(**at)));
    ranked.map(|(at, total)| (*at, *total)).expect("the caller has at least one feasible node")
}

/// Least allocated and most balanced, each with a weight of one.
fn resources(cluster: &Cluster, pod: &Pod, at: u32) -> i64 {
    let Some((node, info)) = cluster.nodes.get(at).and_then(|node| Some((node, node.info.as_ref()?))) else {
        return 0;
    };
    least_allocated(node, info, pod) + balanced(node, info, pod)
}

fn least_allocated(node: &NodeState, info: &NodeInfo, pod: &Pod) -> i64 {
    let cpu = (node.assumed_milli_cpu + pod.requests.assumed_milli_cpu, info.allocatable.milli_cpu);
    let memory = (node.assumed_memory + pod.requests.assumed_memory, info.allocatable.memory);
    let (mut sum, mut count) = (0, 0);
    for (asked, has) in [cpu, memory].into_iter().filter(|(_, has)| *has > 0) {
        sum += if asked > has { 0 } else { ((i128::from(has - asked) * 100) / i128::from(has)) as i64 };
        count += 1;
    }
    if count == 0 { 0 } else { sum / count }
}

fn balanced(node: &NodeState, info: &NodeInfo, pod: &Pod) -> i64 {
    let asked = &pod.requests.asked;
    if asked.milli_cpu == 0 && asked.memory == 0 {
        return 0;
    }
    let used = &node.requested;
    let (cpu, memory) = (info.allocatable.milli_cpu, info.allocatable.memory);
    let with = evenness(used.milli_cpu + asked.milli_cpu, cpu, used.memory + asked.memory, memory);
    let without = evenness(used.milli_cpu, cpu, used.memory, memory);
    50 + (50 + with - without) / 2
}

fn evenness(cpu: i64, cpu_has: i64, memory: i64, memory_has: i64) -> i64 {
    if cpu_has == 0 || memory_has == 0 {
        return 100;
    }
    let fraction = |asked: i64, has: i64| (asked as f64 / has as f64).min(1.0);
    let deviation = ((fraction(cpu, cpu_has) - fraction(memory, memory_has)) / 2.0).abs();
    ((1.0 - deviation) * 100.0) as i64
}

/// Fewest untolerated `PreferNoSchedule` taints.
fn unwelcome(cluster: &Cluster, pod: &Pod, feasible: &[u32]) -> Option<Vec<i64>> {
    let tolerations: Vec<Toleration> = pod.tolerations.iter().filter(|t| t.concerns_preferences()).cloned().collect();
    let count = |at: &u32| -> i64 {
        let taints = cluster.info_at(*at).map(|info| &info.taints[..]).unwrap_or_default();
        let unwelcome = taints.iter().filter(|t| t.effect == PREFER_NO_SCHEDULE && !t.is_tolerated_by(&tolerations));
        unwelcome.count() as i64
    };
    let counts: Vec<i64> = feasible.iter().map(count).collect();
    let most = counts.iter().max().copied().filter(|most| *most > 0)?;
    Some(counts.iter().map(|count| 100 - 100 * count / most).collect())
}

/// Highest weight of preferred node terms.
fn preferred(cluster: &Cluster, pod: &Pod, feasible: &[u32]) -> Option<Vec<i64>> {
    if pod.preferred_nodes.is_empty() {
        return None;
    }
    let sum = |at: &u32| -> i64 {
        let Some(node) = cluster.nodes.get(*at) else { return 0 };
        let Some(info) = &node.info else { return 0 };
        let liked = pod.preferred_nodes.iter().filter(|(_, term)| term.matches(&node.name, &info.labels));
        liked.map(|(weight, _)| weight).sum()
    };
    let sums: Vec<i64> = feasible.iter().map(sum).collect();
    let most = sums.iter().max().copied().filter(|most| *most > 0)?;
    Some(sums.iter().map(|sum| 100 * sum / most).collect())
}
