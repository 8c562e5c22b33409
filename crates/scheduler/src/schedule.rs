//! One decision: filter, score, select, divide, for each of the ordered affinity groups.

use std::collections::BTreeMap;

use api::features::Features;
use api::policy::Placement;
use api::work::{BindingSpec, BindingStatus, TargetCluster};
use thiserror::Error;

use crate::capacity::Demand;
use crate::divide::{divide, targets_of};
use crate::estimate::EstimateRequest;
use crate::explanation::{Candidate, Explanation, Listener, NoListener, ScheduleStage, Score, TimedExplanation};
use crate::filter::{filter, overflow_sets};
use crate::plugins::Plugins;
use crate::set::ClusterSet;
use crate::snapshot::ClusterSnapshot;
use crate::spread::{Pick, select};

/// Clusters that no affinity of the group matches come after all that do.
const OVERFLOW_UNMATCHED: u32 = 1000;

/// Scheduler configuration, independent of the binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerOptions {
    pub plugins: Plugins,
    /// Feature gate CustomizedClusterResourceModeling.
    pub resource_models: bool,
    /// Feature gate MultiplePodTemplatesScheduling.
    pub multiple_pod_templates: bool,
    /// Feature gate WorkloadAffinity.
    pub workload_affinity: bool,
    /// Use the nodes of watched members in addition to their summaries.
    pub estimate_from_nodes: bool,
    /// Feature gate ResourceQuotaEstimate: the quotas of watched members limit the estimates.
    pub resource_quotas: bool,
    /// Selected clusters get the workload even without a replica.
    pub empty_workload_propagation: bool,
    /// A requested rescheduling begins at the first affinity group, as in Karmada 1.19.
    pub reschedule_from_first: bool,
    /// The result has the replicas of each component, as in Karmada 1.19.
    pub component_results: bool,
}

impl SchedulerOptions {
    pub fn new(features: &Features) -> Self {
        Self {
            plugins: Plugins::default(),
            resource_models: features.resource_modeling,
            multiple_pod_templates: features.multiple_pod_templates,
            workload_affinity: features.workload_affinity,
            estimate_from_nodes: true,
            resource_quotas: features.resource_quota_estimate,
            empty_workload_propagation: false,
            reschedule_from_first: features.reschedule_from_first,
            component_results: features.component_results,
        }
    }
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        Self::new(&Features::default())
    }
}

/// The clusters of the other bindings in the same namespace and group, one list each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    pub together: Vec<Vec<String>>,
    pub apart: Vec<Vec<String>>,
}

/// The binding to decide on.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub spec: &'a BindingSpec,
    pub status: &'a BindingStatus,
    pub peers: &'a Peers,
    pub options: &'a SchedulerOptions,
    /// Answers of estimators of the members, by cluster; a cluster without an answer is not limited by them.
    pub answers: Option<&'a BTreeMap<String, i32>>,
}

impl Request<'_> {
    /// Reports whether a fresh placement was requested since the last one.
    pub(crate) fn is_reschedule(&self) -> bool {
        crate::need::is_reschedule(self.spec, self.status)
    }
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ScheduleError {
    /// No cluster is feasible: current targets are removed.
    #[error("{0}")]
    NoFit(String),
    /// The clusters lack capacity: retry later.
    #[error("{0}")]
    NotEnough(String),
    #[error("{0}")]
    Failed(String),
}

impl ScheduleError {
    /// The reason of the `Scheduled` condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoFit(_) => "NoClusterFit",
            Self::NotEnough(_) => "Unschedulable",
            Self::Failed(_) => "SchedulerError",
        }
    }
}

/// The result of scheduling a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The targets, or the error of the first affinity group.
    pub result: Result<Vec<TargetCluster>, ScheduleError>,
    /// The affinity group in use; unchanged if all failed.
    pub affinity_name: String,
    /// Affinity groups that failed, by index.
    pub failed_groups: Vec<(usize, ScheduleError)>,
}

/// Decides where a binding runs.
pub fn schedule(snapshot: &ClusterSnapshot, request: &Request<'_>) -> Decision {
    decide(snapshot, request, &mut NoListener)
}

/// Decides the same and returns the reasons.
pub fn explain(snapshot: &ClusterSnapshot, request: &Request<'_>) -> (Decision, Explanation) {
    explain_timed(snapshot, request, &mut |_| {})
}

/// Same as [`explain`]; calls `passed` after each stage.
pub fn explain_timed(
    snapshot: &ClusterSnapshot,
    request: &Request<'_>,
    passed: &mut dyn FnMut(ScheduleStage),
) -> (Decision, Explanation) {
    let mut paced = TimedExplanation { explanation: Explanation::default(), passed };
    let decision = decide(snapshot, request, &mut paced);
    let mut explanation = paced.explanation;
    match &decision.result {
        Ok(clusters) => {
            explanation.clusters = clusters.clone();
            explanation.reason = "Success".to_owned();
            explanation.message = crate::SUCCESS_MESSAGE.to_owned();
        }
        Err(error) => {
            explanation.reason = error.reason().to_owned();
            explanation.message = error.to_string();
        }
    }
    (decision, explanation)
}

fn decide(snapshot: &ClusterSnapshot, request: &Request<'_>, listener: &mut impl Listener) -> Decision {
    let observed = &request.status.scheduler_observed_affinity_name;
    let Some(placement) = &request.spec.placement else {
        let error = ScheduleError::Failed("the binding has no placement".to_owned());
        return Decision { result: Err(error), affinity_name: observed.clone(), failed_groups: Vec::new() };
    };
    if placement.cluster_affinities.is_empty() {
        let result = attempt(snapshot, request, placement, listener);
        return Decision { result, affinity_name: observed.clone(), failed_groups: Vec::new() };
    }
    let start = first_group(request, placement);
    let mut failed_groups = Vec::new();
    let mut status =
        BindingStatus { last_scheduled_time: request.status.last_scheduled_time.clone(), ..BindingStatus::default() };
    for (index, term) in placement.cluster_affinities.iter().enumerate().skip(start) {
        status.scheduler_observed_affinity_name.clone_from(&term.affinity_name);
        match attempt(snapshot, &Request { status: &status, ..*request }, placement, listener) {
            Ok(clusters) => {
                return Decision { result: Ok(clusters), affinity_name: term.affinity_name.clone(), failed_groups };
            }
            Err(error) => failed_groups.push((index, error)),
        }
    }
    let first = failed_groups.first().map(|(_, error)| error.clone());
    let error = first.unwrap_or_else(|| ScheduleError::Failed("no affinity group".to_owned()));
    Decision { result: Err(error), affinity_name: observed.clone(), failed_groups }
}

/// The affinity group to begin with. Earlier groups that failed are not retried until the placement changes or, with the
/// option, a rescheduling is requested.
fn first_group(request: &Request<'_>, placement: &Placement) -> usize {
    if request.options.reschedule_from_first && request.is_reschedule() {
        return 0;
    }
    let observed = &request.status.scheduler_observed_affinity_name;
    placement.cluster_affinities.iter().position(|term| term.affinity_name == *observed).unwrap_or(0)
}

/// The clusters that a decision may choose from: those that pass the filters, of all affinity groups it may try.
pub fn candidates(snapshot: &ClusterSnapshot, request: &Request<'_>) -> Vec<String> {
    let Some(placement) = &request.spec.placement else { return Vec::new() };
    let mut all = ClusterSet::empty(snapshot.len());
    if placement.cluster_affinities.is_empty() {
        all.unite(&filter(snapshot, request, placement).feasible);
    }
    let mut status = request.status.clone();
    for term in placement.cluster_affinities.iter().skip(first_group(request, placement)) {
        status.scheduler_observed_affinity_name.clone_from(&term.affinity_name);
        all.unite(&filter(snapshot, &Request { status: &status, ..*request }, placement).feasible);
    }
    all.iter().map(|place| snapshot.members[place].name.clone()).collect()
}

fn attempt(
    snapshot: &ClusterSnapshot,
    request: &Request<'_>,
    placement: &Placement,
    listener: &mut impl Listener,
) -> Result<Vec<TargetCluster>, ScheduleError> {
    listener.begin(match placement.cluster_affinities.is_empty() {
        true => "",
        false => &request.status.scheduler_observed_affinity_name,
    });
    let filtered = filter(snapshot, request, placement);
    listener.passed(ScheduleStage::Filter);
    listener.report(|attempt| {
        attempt.clusters_known = snapshot.len();
        attempt.left_out = filtered.left_out(snapshot, placement);
    });
    let result = if filtered.feasible.is_empty() {
        Err(filtered.error(snapshot, placement))
    } else {
        let picks = score(snapshot, request, placement, &filtered.feasible, listener);
        listener.passed(ScheduleStage::Score);
        let selected = select(snapshot, request, placement, picks, listener);
        listener.passed(ScheduleStage::Select);
        let divided = selected.and_then(|picks| divide(snapshot, request, placement, &picks, listener));
        listener.passed(ScheduleStage::AssignReplicas);
        divided.map(|shares| targets_of(snapshot, request, &shares))
    };
    if let Err(error) = &result {
        listener.report(|attempt| attempt.error = error.to_string());
    }
    result
}

/// Scores and estimates every feasible cluster.
fn score(
    snapshot: &ClusterSnapshot,
    request: &Request<'_>,
    placement: &Placement,
    feasible: &ClusterSet,
    listener: &mut impl Listener,
) -> Vec<Pick> {
    let spec = request.spec;
    let demand = Demand::new(spec, spec.replica_requirements.as_ref());
    let question = EstimateRequest::new(snapshot, request, &demand);
    let tiers = overflow_sets(snapshot, placement, request.status);
    let order = |place: usize| {
        let tiers = tiers.as_ref()?;
        let tier = tiers.iter().position(|tier| tier.contains(place));
        Some(tier.map_or(OVERFLOW_UNMATCHED, |tier| tier as u32))
    };
    let mut assigned = vec![None; if spec.clusters.is_empty() { 0 } else { snapshot.len() }];
    for target in &spec.clusters {
        if let Some(place) = snapshot.place(&target.name) {
            assigned[place] = Some(target.replicas);
        }
    }
    let pick = |place: usize| {
        let member = &snapshot.members[place];
        let own = assigned.get(place).copied().flatten();
        let allocatable = question.ask(snapshot, member, request);
        Pick {
            place,
            overflow_order: order(place).unwrap_or(0),
            score: request.options.plugins.scores(own.is_some()).iter().filter_map(|(_, score)| *score).sum(),
            available: i64::from(allocatable) + i64::from(own.unwrap_or(0)),
            allocatable,
        }
    };
    let picks: Vec<Pick> = feasible.iter().map(pick).collect();
    listener.report(|attempt| {
        let describe = |pick: &Pick| {
            let member = &snapshot.members[pick.place];
            let scores = request.options.plugins.scores(spec.target(&member.name).is_some());
            let named = |(plugin, score): (crate::plugins::Plugin, Option<i64>)| {
                Some(Score { plugin: plugin.name().to_owned(), score: score? })
            };
            Candidate {
                cluster: member.name.clone(),
                scores: scores.into_iter().filter_map(named).collect(),
                estimates: question.explain(snapshot, member, request),
                allocatable: pick.allocatable,
                available: pick.available,
                overflow_order: pick.overflow_order,
                reserved: snapshot.reserved_in(&member.name),
            }
        };
        attempt.candidates = picks.iter().map(describe).collect();
    });
    picks
}
