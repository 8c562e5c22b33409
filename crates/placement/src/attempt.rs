//! One attempt to place a pod: state computed once, and the check of each node.

use std::borrow::Cow;

use object::taints::{NO_SCHEDULE, NODE_UNSCHEDULABLE, Taint};

use crate::affinity::Neighbours;
use crate::amounts::Amounts;
use crate::cluster::{Cluster, NodeInfo, NodeState};
use crate::outcome::{PlacementResult, Reason, Refusal, Refusals};
use crate::pod::Pod;
use crate::scores;
use crate::spread::HardSpread;
use crate::volumes::VolumeNeeds;

/// Finds the node for a pod. Deterministic: the order in which the cluster was built does not matter.
pub fn place(cluster: &Cluster, pod: &Pod, volumes: &VolumeNeeds) -> PlacementResult {
    let mut refusals = Refusals { nodes: cluster.node_count(), ..Refusals::default() };
    if let Some(reason) = refuse_up_front(pod, volumes) {
        refusals.up_front = Some(reason);
        refusals.unresolvable = refusals.nodes;
        return PlacementResult { refusals, ..PlacementResult::default() };
    }
    let attempt = Attempt::new(cluster, pod, volumes);
    if let Some(at) = cluster.find_node(&pod.nominated)
        && attempt.judge(at).is_ok()
    {
        return attempt.chosen(at, 0, 1, refusals);
    }
    let mut feasible = Vec::new();
    let mut judge = |at: u32, refusals: &mut Refusals| match attempt.judge(at) {
        Ok(()) => feasible.push(at),
        Err(refusal) => refusals.add(at, refusal),
    };
    match pod.required_nodes.as_ref().and_then(|selector| selector.named_nodes()) {
        Some(mut names) => {
            names.sort_unstable();
            names.dedup();
            let found: Vec<u32> = names.into_iter().filter_map(|name| cluster.find_node(name)).collect();
            refusals.add_unseen("node(s) didn't satisfy plugin(s) [NodeAffinity]".into(), refusals.nodes - found.len());
            found.into_iter().for_each(|at| judge(at, &mut refusals));
        }
        None => {
            let known = cluster.nodes.iter().filter(|(_, node)| node.info.is_some());
            known.for_each(|(at, _)| judge(at, &mut refusals));
        }
    }
    match feasible[..] {
        [] => PlacementResult { refusals, ..PlacementResult::default() },
        [only] => attempt.chosen(only, 0, 1, refusals),
        _ => {
            let (best, score) = scores::best(cluster, pod, &feasible);
            attempt.chosen(best, score, feasible.len(), refusals)
        }
    }
}

fn refuse_up_front(pod: &Pod, volumes: &VolumeNeeds) -> Option<String> {
    if let Some(names) = pod.required_nodes.as_ref().and_then(|selector| selector.named_nodes())
        && names.is_empty()
    {
        return Some("pod affinity terms conflict".to_owned());
    }
    volumes.refusal.clone()
}

/// State computed once for all nodes.
pub struct Attempt<'a> {
    cluster: &'a Cluster,
    pod: &'a Pod,
    volumes: &'a VolumeNeeds,
    has_exclusive_conflict: bool,
    spread: Vec<HardSpread>,
    neighbours: Neighbours<'a>,
}

impl<'a> Attempt<'a> {
    pub fn new(cluster: &'a Cluster, pod: &'a Pod, volumes: &'a VolumeNeeds) -> Self {
        let is_taken = |claim: &String| cluster.claim_users(&pod.namespace, claim) > 0;
        Self {
            cluster,
            pod,
            volumes,
            has_exclusive_conflict: volumes.exclusive.iter().any(is_taken),
            spread: HardSpread::all(cluster, pod),
            neighbours: Neighbours::new(cluster, pod),
        }
    }

    fn chosen(&self, at: u32, score: i64, feasible: usize, refusals: Refusals) -> PlacementResult {
        let node = self.cluster.nodes.get(at).map(|node| node.name.clone());
        PlacementResult { node, score, feasible, refusals }
    }

    /// Checks that the pod fits the node, in the order of kube-scheduler's default plugins; the first refusal is
    /// returned.
    pub fn judge(&self, at: u32) -> Result<(), Refusal> {
        let gone = || Refusal::for_good("node(s) had unknown conditions");
        let node = self.cluster.nodes.get(at).ok_or_else(gone)?;
        let info = node.info.as_ref().ok_or_else(gone)?;
        self.judge_itself(node, info)?;
        self.judge_ports(node)?;
        self.judge_resources(node, info)?;
        if self.has_exclusive_conflict {
            return Err(Refusal::for_now(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
            ));
        }
        if let Some(reason) = self.volumes.refuse(&node.name, &info.labels) {
            return Err(Refusal::for_good(reason));
        }
        for spread in &self.spread {
            spread.judge(at)?;
        }
        self.neighbours.judge(&info.labels)
    }

    fn judge_itself(&self, node: &NodeState, info: &NodeInfo) -> Result<(), Refusal> {
        let pod = self.pod;
        if info.is_unschedulable {
            let cordon = Taint { key: NODE_UNSCHEDULABLE.into(), effect: NO_SCHEDULE.into(), ..Taint::default() };
            if !cordon.is_tolerated_by(&pod.tolerations) {
                return Err(Refusal::for_good("node(s) were unschedulable"));
            }
        }
        if !pod.node.is_empty() && pod.node != node.name {
            return Err(Refusal::for_good("node(s) didn't match the requested node name"));
        }
        if info.taints.iter().any(|taint| taint.keeps_away() && !taint.is_tolerated_by(&pod.tolerations)) {
            return Err(Refusal::for_good("node(s) had untolerated taint(s)"));
        }
        if !pod.wants_node(&node.name, &info.labels) {
            return Err(Refusal::for_good("node(s) didn't match Pod's node affinity/selector"));
        }
        Ok(())
    }

    fn judge_ports(&self, node: &NodeState) -> Result<(), Refusal> {
        if self.pod.ports.is_empty() {
            return Ok(());
        }
        let reserved = self.reserved(node).flat_map(|nominated| nominated.ports.iter());
        let mut taken = node.ports.iter().chain(reserved);
        match taken.any(|taken| self.pod.ports.iter().any(|wanted| wanted.conflicts_with(taken))) {
            true => Err(Refusal::for_now("node(s) didn't have free ports for the requested pod ports")),
            false => Ok(()),
        }
    }

    fn judge_resources(&self, node: &NodeState, info: &NodeInfo) -> Result<(), Refusal> {
        let mut used = Cow::Borrowed(&node.requested);
        let mut count = node.pods.len() as i64;
        for nominated in self.reserved(node) {
            used.to_mut().add(&nominated.requested);
            count += 1;
        }
        let mut short = Shortage::default();
        if count + 1 > info.pods_max {
            short.reasons.push("Too many pods".into());
        }
        short.compare(&self.pod.requests.asked, &used, &info.allocatable);
        match short.reasons.is_empty() {
            true => Ok(()),
            false => Err(Refusal { reasons: short.reasons, is_resolvable: !short.is_for_good }),
        }
    }

    /// Pods nominated to this node that take precedence over this one.
    fn reserved<'n>(&'n self, node: &'n NodeState) -> impl Iterator<Item = &'n crate::cluster::Nominated> {
        node.nominated.iter().filter(|nominated| {
            nominated.priority >= self.pod.priority
                && nominated.key.split_once('/') != Some((&self.pod.namespace, &self.pod.name))
        })
    }
}

#[derive(Default)]
struct Shortage {
    reasons: Vec<Reason>,
    /// The node is too small even when empty.
    is_for_good: bool,
}

impl Shortage {
    fn compare(&mut self, asked: &Amounts, used: &Amounts, has: &Amounts) {
        self.compare_one("Insufficient cpu", asked.milli_cpu, used.milli_cpu, has.milli_cpu);
        self.compare_one("Insufficient memory", asked.memory, used.memory, has.memory);
        let disk = (asked.ephemeral_storage, used.ephemeral_storage, has.ephemeral_storage);
        self.compare_one("Insufficient ephemeral-storage", disk.0, disk.1, disk.2);
        for (name, amount) in &asked.others {
            let (used, has) = (used.other(name), has.other(name));
            if *amount > 0 && *amount > has - used {
                self.reasons.push(format!("Insufficient {name}").into());
                self.is_for_good |= *amount > has;
            }
        }
    }

    fn compare_one(&mut self, reason: &'static str, asked: i64, used: i64, has: i64) {
        if asked > 0 && asked > has - used {
            self.reasons.push(reason.into());
            self.is_for_good |= asked > has;
        }
    }
}
