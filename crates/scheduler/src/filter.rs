//! Cluster filters, and the reasons for excluding clusters.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::policy::{ClusterAffinityTerm, Placement};
use api::work::{BindingSpec, BindingStatus};
use object::taints::{Taint, Toleration};

use crate::explanation::{LeftOut, Refusal};
use crate::plugins::{Plugin, Plugins};
use crate::schedule::{Request, ScheduleError};
use crate::set::ClusterSet;
use crate::snapshot::{ClusterSnapshot, Member};

/// The clusters that pass each filter, and those that pass all.
pub(crate) struct Filtered {
    /// In the order the reasons are reported.
    passed: Vec<(Plugin, ClusterSet)>,
    pub feasible: ClusterSet,
}

/// The affinity group in use: the term with the observed name.
pub(crate) fn observed_term<'a>(placement: &'a Placement, status: &BindingStatus) -> Option<&'a ClusterAffinityTerm> {
    if placement.cluster_affinity.is_some() {
        return None;
    }
    placement.cluster_affinities.iter().find(|term| term.affinity_name == status.scheduler_observed_affinity_name)
}

/// The feasible clusters. A cluster that has the workload passes the API, taint and peer filters: removing it for
/// those reasons is left to other controllers.
pub(crate) fn filter(snapshot: &ClusterSnapshot, request: &Request<'_>, placement: &Placement) -> Filtered {
    let spec = request.spec;
    let plugins = &request.options.plugins;
    let targets = snapshot.set_of(spec.clusters.iter().map(|target| target.name.as_str()));
    let mut passed = Vec::with_capacity(7);
    let mut pass = |plugin: Plugin, set: Option<ClusterSet>| {
        if let Some(set) = set.filter(|_| plugins.has(plugin)) {
            passed.push((plugin, set));
        }
    };
    pass(Plugin::ClusterAffinity, affinity(snapshot, spec, request.status, placement));
    pass(Plugin::ClusterEviction, eviction(snapshot, spec));
    pass(Plugin::TaintToleration, taints(snapshot, placement, &targets));
    pass(Plugin::ApiEnablement, Some(apis(snapshot, spec, &targets)));
    pass(Plugin::SpreadConstraint, spread(snapshot, placement));
    if request.options.workload_affinity {
        pass(Plugin::WorkloadAffinity, together(snapshot, request, &targets));
        pass(Plugin::WorkloadAntiAffinity, apart(snapshot, request, &targets));
    }
    let mut feasible = snapshot.shape.staying.clone();
    for (_, set) in &passed {
        feasible.intersect(set);
    }
    Filtered { passed, feasible }
}

fn affinity(
    snapshot: &ClusterSnapshot,
    spec: &BindingSpec,
    status: &BindingStatus,
    placement: &Placement,
) -> Option<ClusterSet> {
    if let Some(affinity) = &placement.cluster_affinity {
        return Some(ClusterSet::clone(&snapshot.matching(affinity)));
    }
    let term = observed_term(placement, status)?;
    let mut set = ClusterSet::clone(&snapshot.matching(&term.affinity));
    // Objects that need no capacity never overflow.
    if spec.is_workload() {
        for overflow in term.overflow_affinities.iter().flatten() {
            set.unite(&snapshot.matching(&overflow.affinity));
        }
    }
    Some(set)
}

fn eviction(snapshot: &ClusterSnapshot, spec: &BindingSpec) -> Option<ClusterSet> {
    if spec.graceful_eviction_tasks.is_empty() {
        return None;
    }
    let mut set = ClusterSet::full(snapshot.len());
    let leaving = spec.graceful_eviction_tasks.iter().filter_map(|task| snapshot.place(&task.from_cluster));
    leaving.for_each(|place| set.remove(place));
    Some(set)
}

fn taints(snapshot: &ClusterSnapshot, placement: &Placement, targets: &ClusterSet) -> Option<ClusterSet> {
    let mut tainted = ClusterSet::full(snapshot.len());
    tainted.subtract(&snapshot.shape.untainted);
    tainted.subtract(targets);
    if tainted.is_empty() {
        return None;
    }
    let mut set = ClusterSet::full(snapshot.len());
    for place in tainted.iter() {
        if untolerated(&snapshot.members[place], &placement.cluster_tolerations).is_some() {
            set.remove(place);
        }
    }
    Some(set)
}

fn untolerated<'a>(member: &'a Member, tolerations: &[Toleration]) -> Option<&'a Taint> {
    member.taints.iter().find(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

fn apis(snapshot: &ClusterSnapshot, spec: &BindingSpec, targets: &ClusterSet) -> ClusterSet {
    let mut set = targets.clone();
    if let Some(enabled) = snapshot.with_api(&spec.resource.api_version, &spec.resource.kind) {
        set.unite(enabled);
    }
    set
}

fn spread(snapshot: &ClusterSnapshot, placement: &Placement) -> Option<ClusterSet> {
    if placement.spread_constraints.is_empty() {
        return None;
    }
    let mut set = ClusterSet::full(snapshot.len());
    for constraint in &placement.spread_constraints {
        match constraint.spread_by_field.as_str() {
            "provider" => set.intersect(&snapshot.shape.with_provider),
            "region" => set.intersect(&snapshot.shape.with_region),
            "zone" => set.intersect(&snapshot.shape.with_zones),
            _ => {}
        }
    }
    Some(set)
}

/// Keeps only clusters that have every placed workload of the group.
fn together(snapshot: &ClusterSnapshot, request: &Request<'_>, targets: &ClusterSet) -> Option<ClusterSet> {
    let peers = request.peers.together.iter().filter(|clusters| !clusters.is_empty());
    let mut set: Option<ClusterSet> = None;
    for clusters in peers {
        let places = snapshot.set_of(clusters.iter().map(String::as_str));
        match &mut set {
            Some(set) => set.intersect(&places),
            None => set = Some(places),
        }
    }
    if let Some(set) = &mut set {
        set.unite(targets);
    }
    set
}

/// Keeps only clusters that have no other workload of the group.
fn apart(snapshot: &ClusterSnapshot, request: &Request<'_>, targets: &ClusterSet) -> Option<ClusterSet> {
    if request.peers.apart.is_empty() {
        return None;
    }
    let mut set = ClusterSet::full(snapshot.len());
    for clusters in &request.peers.apart {
        set.subtract(&snapshot.set_of(clusters.iter().map(String::as_str)));
    }
    set.unite(targets);
    Some(set)
}

impl Filtered {
    /// Every excluded cluster, with all its reasons.
    pub fn left_out(&self, snapshot: &ClusterSnapshot, placement: &Placement) -> Vec<LeftOut> {
        let out = snapshot.members.iter().enumerate().filter(|(place, _)| !self.feasible.contains(*place));
        out.map(|(place, member)| {
            let refusals = self.refusals(place).map(|plugin| Refusal {
                plugin: plugin.name().to_owned(),
                message: message(plugin, member, placement),
            });
            let mut reasons: Vec<Refusal> = refusals.collect();
            if member.object.is_deleting() {
                reasons
                    .insert(0, Refusal { plugin: String::new(), message: "the cluster is being removed".to_owned() });
            }
            LeftOut { cluster: member.name.clone(), reasons }
        })
        .collect()
    }

    /// No cluster fits: counts clusters by their first reason. Clusters being deleted count in the total but have no
    /// reason.
    pub fn error(&self, snapshot: &ClusterSnapshot, placement: &Placement) -> ScheduleError {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for place in snapshot.shape.staying.iter() {
            if let Some(plugin) = self.refusals(place).next() {
                *counts.entry(message(plugin, &snapshot.members[place], placement)).or_default() += 1;
            }
        }
        let mut reasons: Vec<String> = counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        reasons.sort();
        let reasons = if reasons.is_empty() { "no cluster exists".to_owned() } else { reasons.join(", ") };
        ScheduleError::NoFit(format!("0/{} clusters are available: {reasons}.", snapshot.len()))
    }

    fn refusals(&self, place: usize) -> impl Iterator<Item = Plugin> {
        self.passed.iter().filter(move |(_, set)| !set.contains(place)).map(|(plugin, _)| *plugin)
    }
}

fn message(plugin: Plugin, member: &Member, placement: &Placement) -> String {
    match plugin {
        Plugin::ApiEnablement => "cluster(s) did not have the API resource".to_owned(),
        Plugin::TaintToleration => {
            let taint = untolerated(member, &placement.cluster_tolerations).map(taint_text).unwrap_or_default();
            format!("cluster(s) had untolerated taint {{{taint}}}")
        }
        Plugin::ClusterAffinity => "cluster(s) did not match the placement cluster affinity constraint".to_owned(),
        Plugin::SpreadConstraint => format!("cluster(s) did not have {} property", missing_property(member, placement)),
        Plugin::ClusterEviction => "cluster(s) is in the process of eviction".to_owned(),
        Plugin::WorkloadAffinity => {
            "ResourceBinding with the same affinity group does not target this cluster".to_owned()
        }
        Plugin::WorkloadAntiAffinity => "cluster already has workload with the same anti-affinity group".to_owned(),
        Plugin::ClusterLocality => String::new(),
    }
}

fn missing_property(member: &Member, placement: &Placement) -> &'static str {
    let missing =
        placement.spread_constraints.iter().find_map(|constraint| match constraint.spread_by_field.as_str() {
            "provider" if member.spec.provider.is_empty() => Some("provider"),
            "region" if member.spec.region.is_empty() => Some("region"),
            "zone" if member.spec.zones.is_empty() => Some("zones"),
            _ => None,
        });
    missing.unwrap_or_default()
}

/// A taint in Kubernetes' notation.
fn taint_text(taint: &Taint) -> String {
    match (taint.effect.as_str(), taint.value.as_str()) {
        ("", "") => taint.key.clone(),
        ("", value) => format!("{}={value}:", taint.key),
        (effect, "") => format!("{}:{effect}", taint.key),
        (effect, value) => format!("{}={value}:{effect}", taint.key),
    }
}

/// The index in the overflow order of every cluster; `None` if all come first.
pub(crate) fn overflow_sets(
    snapshot: &ClusterSnapshot,
    placement: &Placement,
    status: &BindingStatus,
) -> Option<Vec<Arc<ClusterSet>>> {
    if placement.cluster_affinity.is_some() || placement.cluster_affinities.is_empty() {
        return None;
    }
    let Some(term) = observed_term(placement, status) else { return Some(Vec::new()) };
    let overflow = term.overflow_affinities.iter().flatten().map(|overflow| &overflow.affinity);
    Some(std::iter::once(&term.affinity).chain(overflow).map(|affinity| snapshot.matching(affinity)).collect())
}

impl Plugins {
    pub(crate) fn scores(&self, is_target: bool) -> [(Plugin, Option<i64>); 2] {
        let locality = if is_target { 100 } else { 0 };
        let score = |plugin: Plugin, score: i64| (plugin, self.has(plugin).then_some(score));
        [score(Plugin::ClusterAffinity, 0), score(Plugin::ClusterLocality, locality)]
    }
}
