//! Leaving a member with care: nothing is taken away until the workload is known to be well elsewhere.
//!
//! Karmada gives a copy up when its time is over, whatever became of the workload, and takes the last thing it heard of a
//! member for what is. A member that was only unreachable would lose the last running copy.

use std::collections::BTreeMap;
use std::time::Duration;

use api::core::find_condition;
use api::failover::REASON_FAILBACK;
use api::work::{
    AggregatedStatusItem, BindingSpec, BindingStatus, CONDITION_SCHEDULED, GracefulEvictionTask, TargetCluster,
};
use jiff::Timestamp;
use serde_json::Value;

use super::{Assessment, TaskOutcome, outcome, timeout_of};

/// Members change without the binding; this often they are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The reason of tasks that a taint made.
const REASON_TAINT: &str = "TaintUntolerated";

/// The current state of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterState {
    /// It answers, so that what it said last is still so.
    pub is_ready: bool,
    /// No taint drives workloads out of it.
    pub is_open: bool,
}

/// By member; one that is not there is neither ready nor open.
pub type ClusterStates = BTreeMap<String, ClusterState>;

/// Facts that are not part of the binding.
#[derive(Clone, Copy, Debug)]
pub struct Care<'a> {
    pub clusters: &'a ClusterStates,
    /// The kind has a health interpreter.
    pub is_judged: bool,
}

/// `assess`, but a copy whose time is up stays as long as it may be the only one, and a member that is well again keeps
/// what could go nowhere else.
pub fn assess_with_care(
    spec: &BindingSpec,
    status: &BindingStatus,
    generation: i64,
    now: Timestamp,
    timeout: Duration,
    care: Care<'_>,
) -> Assessment {
    let clusters = care.clusters;
    let elsewhere = Elsewhere::look(spec, status, generation, care);
    let mut assessment = Assessment::default();
    for task in &spec.graceful_eviction_tasks {
        let timeout = timeout_of(task, timeout);
        let outcome = match outcome(task, now, timeout, elsewhere.is_confirmed) {
            TaskOutcome::TimedOut if elsewhere.is_confirmed => TaskOutcome::HealthyElsewhere,
            TaskOutcome::TimedOut if !elsewhere.allows_end_of(task, clusters) => TaskOutcome::InDoubt,
            outcome => outcome,
        };
        let outcome = match outcome {
            TaskOutcome::Wait { .. } | TaskOutcome::InDoubt if elsewhere.sends_back(task, clusters) => {
                TaskOutcome::Returned
            }
            outcome => outcome,
        };
        assessment.add(task, outcome, timeout);
        if matches!(outcome, TaskOutcome::Wait { .. } | TaskOutcome::InDoubt) {
            assessment.again_in = assessment.again_in.into_iter().chain([LOOK_EVERY]).min();
        }
    }
    assessment
}

/// The health of the workload in its target clusters.
struct Elsewhere {
    /// It is healthy with all its replicas, in members that answer.
    is_confirmed: bool,
    /// It is applied and not known to be unhealthy. Kinds without a health interpreter stay here.
    is_settled: bool,
    /// No place was found for it, or for a part of it.
    is_refused: bool,
}

impl Elsewhere {
    fn look(spec: &BindingSpec, status: &BindingStatus, generation: i64, care: Care<'_>) -> Self {
        let is_scheduled = status.scheduler_observed_generation == Some(generation);
        // A workload without replicas needs no cluster; one with replicas and no cluster is not placed.
        let is_placed = is_scheduled && (!spec.clusters.is_empty() || spec.replicas == 0);
        let is_ready = |target: &TargetCluster| care.clusters.get(&target.name).is_some_and(|known| known.is_ready);
        let item_of =
            |target: &TargetCluster| status.aggregated_status.iter().find(|item| item.cluster_name == target.name);
        let all = |holds: &dyn Fn(&TargetCluster, &AggregatedStatusItem) -> bool| {
            let is_so =
                |target: &TargetCluster| is_ready(target) && item_of(target).is_some_and(|item| holds(target, item));
            is_placed && spec.clusters.iter().all(is_so)
        };
        let scheduled = find_condition(&status.conditions, CONDITION_SCHEDULED);
        Self {
            is_confirmed: all(&|target, item| item.health == "Healthy" && has_its_replicas(target, item)),
            is_settled: all(&|_, item| item.applied && (item.health == "Healthy" || !care.is_judged)),
            is_refused: !is_scheduled && scheduled.is_some_and(|condition| condition.is_false()),
        }
    }

    /// May the copy go though the workload is not known to be well? Where the member answers and a policy gave it this
    /// much time, the user has decided; what a lost member holds is decided by what replaces it alone.
    fn allows_end_of(&self, task: &GracefulEvictionTask, clusters: &ClusterStates) -> bool {
        let is_user_wish = !matches!(task.reason.as_str(), REASON_TAINT | REASON_FAILBACK);
        let answers = clusters.get(&task.from_cluster).is_some_and(|known| known.is_ready);
        self.is_settled || (is_user_wish && answers)
    }

    fn sends_back(&self, task: &GracefulEvictionTask, clusters: &ClusterStates) -> bool {
        let member = clusters.get(&task.from_cluster).copied().unwrap_or_default();
        self.is_refused && task.reason == REASON_TAINT && member.is_ready && member.is_open
    }
}

/// A member that had some replicas already reports itself healthy until it hears of those that are new.
fn has_its_replicas(target: &TargetCluster, item: &AggregatedStatusItem) -> bool {
    let Some(status) = item.status.as_ref().filter(|status| status["replicas"].is_number()) else { return true };
    let number = |field: &str| status.get(field).and_then(Value::as_i64).unwrap_or(0);
    number("availableReplicas").max(number("readyReplicas")) >= i64::from(target.replicas)
}

#[cfg(test)]
mod tests {
    use api::core::Condition;
    use object::time::parse;
    use serde_json::json;

    use super::*;
    use crate::eviction::GRACEFUL_TIMEOUT;

    const EARLY: &str = "2026-11-16T11:59:00Z";
    const LATE: &str = "2026-11-16T11:00:00Z";

    /// Everything is well, unless a case says otherwise: `new` has the workload and `old` answers again.
    struct Case {
        reason: &'static str,
        began: &'static str,
        targets: Vec<TargetCluster>,
        health: &'static str,
        available: i64,
        observed: i64,
        scheduled: &'static str,
        new: ClusterState,
        old: ClusterState,
        is_judged: bool,
    }

    fn case() -> Case {
        let well = ClusterState { is_ready: true, is_open: true };
        Case {
            reason: REASON_TAINT,
            began: EARLY,
            targets: vec![TargetCluster { name: "new".to_owned(), replicas: 2, ..TargetCluster::default() }],
            health: "Healthy",
            available: 2,
            observed: 3,
            scheduled: "True",
            new: well,
            old: well,
            is_judged: true,
        }
    }

    #[track_caller]
    fn check(case: Case, expected: &str) {
        let spec = BindingSpec {
            replicas: 2,
            clusters: case.targets,
            graceful_eviction_tasks: vec![GracefulEvictionTask {
                from_cluster: "old".to_owned(),
                reason: case.reason.to_owned(),
                creation_timestamp: Some(case.began.to_owned()),
                ..Default::default()
            }],
            ..Default::default()
        };
        let item = AggregatedStatusItem {
            cluster_name: "new".to_owned(),
            status: Some(json!({"replicas": 2, "availableReplicas": case.available})),
            applied: true,
            health: case.health.to_owned(),
            ..Default::default()
        };
        let scheduled = Condition {
            kind: CONDITION_SCHEDULED.to_owned(),
            status: case.scheduled.to_owned(),
            ..Condition::default()
        };
        let status = BindingStatus {
            scheduler_observed_generation: Some(case.observed),
            conditions: vec![scheduled],
            aggregated_status: vec![item],
            ..Default::default()
        };
        let clusters = ClusterStates::from([("new".to_owned(), case.new), ("old".to_owned(), case.old)]);
        let now = parse("2026-11-16T12:00:00Z").expect("a time");
        let care = Care { clusters: &clusters, is_judged: case.is_judged };
        let assessment = assess_with_care(&spec, &status, 3, now, GRACEFUL_TIMEOUT, care);
        assert_eq!(assessment.outcomes[0].name(), expected);
        if assessment.outcomes[0].is_kept() {
            assert!(assessment.again_in.is_some_and(|wait| wait <= LOOK_EVERY), "{assessment:?}");
        }
    }

    const AWAY: ClusterState = ClusterState { is_ready: false, is_open: false };

    #[test]
    fn a_copy_is_removed_once_its_replacement_is_confirmed() {
        check(case(), "HealthyElsewhere");
        check(Case { old: AWAY, ..case() }, "HealthyElsewhere");
        check(Case { available: 1, ..case() }, "Wait");
        check(Case { observed: 2, ..case() }, "Wait");
        check(Case { new: AWAY, ..case() }, "Wait");
        check(Case { targets: vec![], ..case() }, "Wait");
    }

    #[test]
    fn a_timeout_alone_removes_nothing_from_a_lost_cluster() {
        check(Case { began: LATE, health: "Unhealthy", ..case() }, "InDoubt");
        check(Case { began: LATE, health: "Unhealthy", old: AWAY, ..case() }, "InDoubt");
        check(Case { began: LATE, new: AWAY, ..case() }, "InDoubt");
        check(Case { began: LATE, targets: vec![], ..case() }, "InDoubt");
        check(Case { began: LATE, reason: REASON_FAILBACK, health: "Unhealthy", ..case() }, "InDoubt");
        // Kinds without a health interpreter, and replicas an override changed: applied, and not known to be unhealthy.
        check(Case { began: LATE, health: "Unknown", is_judged: false, ..case() }, "TimedOut");
        check(Case { began: LATE, health: "Unknown", ..case() }, "InDoubt");
        check(Case { began: LATE, ..case() }, "HealthyElsewhere");
        check(Case { began: LATE, available: 1, ..case() }, "TimedOut");
    }

    #[test]
    fn the_timeout_of_an_unhealthy_application_counts_while_its_cluster_is_ready() {
        let unhealthy = || Case { reason: "ApplicationFailure", health: "Unhealthy", ..case() };
        check(unhealthy(), "Wait");
        check(Case { began: LATE, ..unhealthy() }, "TimedOut");
        check(Case { began: LATE, old: AWAY, ..unhealthy() }, "InDoubt");
    }

    #[test]
    fn a_workload_without_a_replacement_stays_in_its_recovered_cluster() {
        let nowhere = || Case { targets: vec![], observed: 2, scheduled: "False", ..case() };
        check(nowhere(), "Returned");
        check(Case { began: LATE, ..nowhere() }, "Returned");
        check(Case { old: AWAY, ..nowhere() }, "Wait");
        check(Case { old: AWAY, began: LATE, ..nowhere() }, "InDoubt");
        check(Case { old: ClusterState { is_ready: true, is_open: false }, ..nowhere() }, "Wait");
        check(Case { reason: "ApplicationFailure", ..nowhere() }, "Wait");
        check(Case { scheduled: "True", ..nowhere() }, "Wait");
    }
}
