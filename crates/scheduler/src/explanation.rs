//! Why a decision came out as it did, as data: what `why` and `plan` print.

use api::work::TargetCluster;
use serde::{Deserialize, Serialize};

/// The whole story of one decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Explanation {
    /// One per affinity group that was tried, in order; exactly one where there are no groups.
    pub attempts: Vec<Attempt>,
    pub clusters: Vec<TargetCluster>,
    /// `Success`, `NoClusterFit`, `Unschedulable` or `SchedulerError`.
    pub reason: String,
    pub message: String,
}

/// One run of filter, score, select and divide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Attempt {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub affinity_name: String,
    /// How many clusters there are.
    pub clusters_known: usize,
    pub left_out: Vec<LeftOut>,
    pub candidates: Vec<Candidate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
    pub divisions: Vec<Division>,
    /// Why it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// A cluster that may not have the workload, and every reason why.
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

/// A cluster that may have the workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Candidate {
    pub cluster: String,
    pub scores: Vec<Score>,
    pub estimates: Vec<Estimate>,
    /// What it can take in addition: the least of the estimates.
    pub allocatable: i32,
    /// That and what it has already.
    pub available: i64,
    /// 0 for the affinity itself, then the overflow affinities in order.
    pub overflow_order: u32,
    /// Replicas of other decisions on their way there, which the estimates allow for.
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

/// Which of the candidates were taken, and by which rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Selection {
    pub rule: String,
    /// The regions that were weighed, where there are any.
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

/// One sharing out of replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Division {
    /// `Duplicated`, `StaticWeight`, `DynamicWeight`, `Aggregated`, or `None` for what has no replicas.
    pub strategy: String,
    /// What kind of step it is, in words.
    pub step: String,
    /// How many replicas were shared out.
    pub replicas: i32,
    /// What each cluster weighed.
    pub weights: Vec<Weight>,
    /// What clusters had and keep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<TargetCluster>,
    /// Who got the last replicas, one by one.
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

/// Turns told of in one division.
pub const TURNS_MAX: usize = 100;

/// Who wants to hear of the steps of a decision. The hot path has a listener that hears nothing and costs nothing.
pub(crate) trait Listener {
    fn tell(&mut self, what: impl FnOnce(&mut Attempt));
    fn begin(&mut self, affinity_name: &str);
    fn passed(&mut self, step: Step);
}

/// The steps of a decision, under Karmada's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Filter,
    Score,
    Select,
    AssignReplicas,
}

/// Explains, and says when each step is done: whoever listens may have a clock.
pub(crate) struct Paced<'a> {
    pub explanation: Explanation,
    pub passed: &'a mut dyn FnMut(Step),
}

impl Listener for Paced<'_> {
    fn tell(&mut self, what: impl FnOnce(&mut Attempt)) {
        self.explanation.tell(what);
    }

    fn begin(&mut self, affinity_name: &str) {
        self.explanation.begin(affinity_name);
    }

    fn passed(&mut self, step: Step) {
        (self.passed)(step);
    }
}

pub(crate) struct Nobody;

impl Listener for Nobody {
    fn tell(&mut self, _: impl FnOnce(&mut Attempt)) {}

    fn begin(&mut self, _: &str) {}

    fn passed(&mut self, _: Step) {}
}

impl Listener for Explanation {
    fn tell(&mut self, what: impl FnOnce(&mut Attempt)) {
        if let Some(attempt) = self.attempts.last_mut() {
            what(attempt);
        }
    }

    fn begin(&mut self, affinity_name: &str) {
        self.attempts.push(Attempt { affinity_name: affinity_name.to_owned(), ..Attempt::default() });
    }

    fn passed(&mut self, _: Step) {}
}
