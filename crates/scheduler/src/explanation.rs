//! The reasons of a decision as data, printed by `why` and `plan`.

use api::work::TargetCluster;
use serde::{Deserialize, Serialize};

use crate::estimate;

/// The reasons of one decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Explanation {
    /// One per affinity group tried, in order; exactly one without groups.
    pub attempts: Vec<Attempt>,
    pub clusters: Vec<TargetCluster>,
    /// `Success`, `NoClusterFit`, `Unschedulable` or `SchedulerError`.
    pub reason: String,
    pub message: String,
}

impl Explanation {
    /// The number of estimates that were made from the nodes of a member.
    pub fn accurate_estimates(&self) -> usize {
        let candidates = self.attempts.iter().flat_map(|attempt| &attempt.candidates);
        let estimates = candidates.flat_map(|candidate| &candidate.estimates);
        estimates.filter(|estimate| estimate.estimator == estimate::ACCURATE).count()
    }
}

/// One run of filter, score, select and divide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Attempt {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub affinity_name: String,
    /// Number of clusters.
    pub clusters_known: usize,
    pub left_out: Vec<LeftOut>,
    pub candidates: Vec<Candidate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
    pub divisions: Vec<Division>,
    /// The error it failed with.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// A cluster that was filtered out, with every reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeftOut {
    pub cluster: String,
    pub reasons: Vec<Refusal>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Refusal {
    pub plugin: String,
    pub message: String,
}

/// A cluster that passed all filters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Candidate {
    pub cluster: String,
    pub scores: Vec<Score>,
    pub estimates: Vec<Estimate>,
    /// Additional replicas it can run: the minimum of the estimates.
    pub allocatable: i32,
    /// `allocatable` plus the replicas it already has.
    pub available: i64,
    /// 0 for the affinity itself, then the overflow affinities in order.
    pub overflow_order: u32,
    /// Replicas reserved there by other decisions, already deducted from the estimates.
    pub reserved: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Score {
    pub plugin: String,
    pub score: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Estimate {
    pub estimator: String,
    pub replicas: i32,
}

/// The selected candidates, and the rule that selected them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Selection {
    pub rule: String,
    /// The scored regions, if any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupScore>,
    pub clusters: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupScore {
    pub name: String,
    pub clusters: usize,
    pub score: i64,
    pub is_chosen: bool,
}

/// One division of replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Division {
    /// `Duplicated`, `StaticWeight`, `DynamicWeight`, `Aggregated`, or `None` without replicas.
    pub strategy: String,
    /// A description of the step.
    pub step: String,
    /// Number of replicas divided.
    pub replicas: i32,
    /// The weight of each cluster.
    pub weights: Vec<Weight>,
    /// Replicas that clusters had and keep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<TargetCluster>,
    /// The clusters that got the last replicas, one by one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<String>,
    pub result: Vec<TargetCluster>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Weight {
    pub cluster: String,
    pub weight: i64,
}

/// Turns reported in one division.
pub const TURNS_MAX: usize = 100;

/// Receives the steps of a decision. On the hot path a no-op listener makes it free.
pub(crate) trait Listener {
    fn report(&mut self, what: impl FnOnce(&mut Attempt));
    fn begin(&mut self, affinity_name: &str);
    fn passed(&mut self, step: ScheduleStage);
}

/// The stages of a decision, with Karmada's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleStage {
    Filter,
    Score,
    Select,
    AssignReplicas,
}

/// Explains, and reports when each stage is done so that the caller can time it.
pub(crate) struct TimedExplanation<'a> {
    pub explanation: Explanation,
    pub passed: &'a mut dyn FnMut(ScheduleStage),
}

impl Listener for TimedExplanation<'_> {
    fn report(&mut self, what: impl FnOnce(&mut Attempt)) {
        self.explanation.report(what);
    }

    fn begin(&mut self, affinity_name: &str) {
        self.explanation.begin(affinity_name);
    }

    fn passed(&mut self, step: ScheduleStage) {
        (self.passed)(step);
    }
}

pub(crate) struct NoListener;

impl Listener for NoListener {
    fn report(&mut self, _: impl FnOnce(&mut Attempt)) {}

    fn begin(&mut self, _: &str) {}

    fn passed(&mut self, _: ScheduleStage) {}
}

impl Listener for Explanation {
    fn report(&mut self, what: impl FnOnce(&mut Attempt)) {
        if let Some(attempt) = self.attempts.last_mut() {
            what(attempt);
        }
    }

    fn begin(&mut self, affinity_name: &str) {
        self.attempts.push(Attempt { affinity_name: affinity_name.to_owned(), ..Attempt::default() });
    }

    fn passed(&mut self, _: ScheduleStage) {}
}
