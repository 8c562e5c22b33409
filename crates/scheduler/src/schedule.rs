//! One decision: filter, score, select, divide; and the ordered affinity groups around them.

use api::features::Features;
use api::policy::Placement;
use api::work::{BindingSpec, BindingStatus, TargetCluster};
use thiserror::Error;

use crate::capacity::Demand;
use crate::divide::{divide, named};
use crate::estimate::Question;
use crate::explanation::{Candidate, Explanation, Listener, Nobody, Paced, Score, Step};
use crate::filter::{filter, overflow_sets};
use crate::plugins::Plugins;
use crate::snapshot::Snapshot;
use crate::spread::{Pick, select};

/// Clusters that no affinity of the group means come after all that one does.
const OVERFLOW_UNMATCHED: u32 = 1000;

/// How decisions are made, whatever the binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub plugins: Plugins,
    /// Feature gate CustomizedClusterResourceModeling.
    pub resource_models: bool,
    /// Feature gate MultiplePodTemplatesScheduling.
    pub multiple_pod_templates: bool,
    /// Feature gate WorkloadAffinity.
    pub workload_affinity: bool,
    /// Ask the nodes of members somebody watches, beside their summaries.
    pub estimate_from_nodes: bool,
    /// Feature gate ResourceQuotaEstimate: the quotas of those members limit what fits.
    pub resource_quotas: bool,
    /// Selected clusters get the workload even if they get no replica.
    pub empty_workload_propagation: bool,
}

impl Options {
    pub fn new(features: &Features) -> Self {
        Self {
            plugins: Plugins::default(),
            resource_models: features.resource_modeling,
            multiple_pod_templates: features.multiple_pod_templates,
            workload_affinity: features.workload_affinity,
            estimate_from_nodes: true,
            resource_quotas: features.resource_quota_estimate,
            empty_workload_propagation: false,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new(&Features::default())
    }
}

/// Where the other bindings of the same namespace and group are: one list of clusters each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    pub together: Vec<Vec<String>>,
    pub apart: Vec<Vec<String>>,
}

/// What is to be decided.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub spec: &'a BindingSpec,
    pub status: &'a BindingStatus,
    pub peers: &'a Peers,
    pub options: &'a Options,
}

impl Request<'_> {
    /// Somebody asked for a placement from scratch since the last one.
    pub(crate) fn is_reschedule(&self) -> bool {
        crate::need::is_reschedule(self.spec, self.status)
    }
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ScheduleError {
    /// No cluster may have it: what it has is taken away.
    #[error("{0}")]
    NoFit(String),
    /// The clusters have not room enough: try again later.
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

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Where the workload goes, or the error of the first affinity group.
    pub result: Result<Vec<TargetCluster>, ScheduleError>,
    /// The affinity group that is in use then; as before when none worked.
    pub affinity_name: String,
    /// Affinity groups that did not work, by their place in the list.
    pub failed_groups: Vec<(usize, ScheduleError)>,
}

/// Decides where a binding goes.
pub fn schedule(snapshot: &Snapshot, request: &Request<'_>) -> Decision {
    decide(snapshot, request, &mut Nobody)
}

/// Decides the same and tells why.
pub fn explain(snapshot: &Snapshot, request: &Request<'_>) -> (Decision, Explanation) {
    explain_paced(snapshot, request, &mut |_| {})
}

/// The same, and `passed` hears when each step is done.
pub fn explain_paced(
    snapshot: &Snapshot,
    request: &Request<'_>,
    passed: &mut dyn FnMut(Step),
) -> (Decision, Explanation) {
    let mut paced = Paced { explanation: Explanation::default(), passed };
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

fn decide(snapshot: &Snapshot, request: &Request<'_>, listener: &mut impl Listener) -> Decision {
    let observed = &request.status.scheduler_observed_affinity_name;
    let Some(placement) = &request.spec.placement else {
        let error = ScheduleError::Failed("the binding has no placement".to_owned());
        return Decision { result: Err(error), affinity_name: observed.clone(), failed_groups: Vec::new() };
    };
    if placement.cluster_affinities.is_empty() {
        let result = attempt(snapshot, request, placement, listener);
        return Decision { result, affinity_name: observed.clone(), failed_groups: Vec::new() };
    }
    // A group that failed is not gone back to: only a change of the placement does that.
    let start = placement.cluster_affinities.iter().position(|term| term.affinity_name == *observed).unwrap_or(0);
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
    let error = first.unwrap_or_else(|| ScheduleError::Failed("there is no affinity group".to_owned()));
    Decision { result: Err(error), affinity_name: observed.clone(), failed_groups }
}

fn attempt(
    snapshot: &Snapshot,
    request: &Request<'_>,
    placement: &Placement,
    listener: &mut impl Listener,
) -> Result<Vec<TargetCluster>, ScheduleError> {
    listener.begin(match placement.cluster_affinities.is_empty() {
        true => "",
        false => &request.status.scheduler_observed_affinity_name,
    });
    let filtered = filter(snapshot, request, placement);
    listener.passed(Step::Filter);
    listener.tell(|attempt| {
        attempt.clusters_known = snapshot.len();
        attempt.left_out = filtered.left_out(snapshot, placement);
    });
    let result = if filtered.feasible.is_empty() {
        Err(filtered.error(snapshot, placement))
    } else {
        let picks = score(snapshot, request, placement, &filtered.feasible, listener);
        listener.passed(Step::Score);
        let selected = select(snapshot, request, placement, picks, listener);
        listener.passed(Step::Select);
        let divided = selected.and_then(|picks| divide(snapshot, request, placement, &picks, listener));
        listener.passed(Step::AssignReplicas);
        divided.map(|shares| named(snapshot, &shares))
    };
    if let Err(error) = &result {
        listener.tell(|attempt| attempt.error = error.to_string());
    }
    result
}

/// Scores and estimates every feasible cluster.
fn score(
    snapshot: &Snapshot,
    request: &Request<'_>,
    placement: &Placement,
    feasible: &crate::set::ClusterSet,
    listener: &mut impl Listener,
) -> Vec<Pick> {
    let spec = request.spec;
    let demand = Demand::new(spec, spec.replica_requirements.as_ref());
    let question = Question::new(snapshot, request, &demand);
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
    listener.tell(|attempt| {
        let describe = |pick: &Pick| {
            let member = &snapshot.members[pick.place];
            let scores = request.options.plugins.scores(spec.target(&member.name).is_some());
            let named = |(plugin, score): (crate::plugins::Plugin, Option<i64>)| {
                Some(Score { plugin: plugin.name().to_owned(), score: score? })
            };
            Candidate {
                cluster: member.name.clone(),
                scores: scores.into_iter().filter_map(named).collect(),
                estimates: question.explain(snapshot, member, request.options),
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
