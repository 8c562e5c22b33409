//! One reconcile step of a Job: whether it is finished, and otherwise which pods to create or remove.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use object::time;

use crate::job::backoff::{BackoffRecord, wait_for_index};
use crate::job::indexes::Indexes;
use crate::job::policy::{FailureAction, judge_failure, match_success};
use crate::job::spec::{JobSpec, failures_of, index_of, is_tracked};
use crate::job::status::JobStatus;
use crate::pod_control::BURST_MAX;
use crate::pods::Pod;
use crate::ranking::{Ranking, sort_for_deletion};

/// The result of a Job. It is announced first, and becomes final when all its pods are counted and gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    pub is_success: bool,
    pub is_announced: bool,
    pub reason: String,
    pub message: String,
}

/// The action on pods.
#[derive(Clone, Debug, Default)]
pub enum JobAction {
    #[default]
    Nothing,
    /// The Job is finished.
    DeleteActive,
    /// Surplus pods, or the Job is suspended; these do not count as failed.
    Remove(Vec<Pod>),
    /// One pod each; with the index for indexed Jobs.
    Create(Vec<Option<i64>>),
}

/// A Job with its classified pods.
pub struct JobFacts<'a> {
    pub spec: &'a JobSpec,
    pub status: JobStatus,
    pub pods: &'a [Pod],
    pub now: Timestamp,
    pub is_deleting: bool,
    pub active: Vec<Pod>,
    pub succeeded: i64,
    pub failed: i64,
    pub record: BackoffRecord,
    pub succeeded_before: Indexes,
    pub succeeded_indexes: Indexes,
    pub failed_indexes: Option<Indexes>,
    /// The last failed pod of each index that waits for a replacement; it carries the failure count.
    pub held_by_index: BTreeMap<i64, Pod>,
}

/// The decision of a step.
#[derive(Debug, Default)]
pub struct JobDecision {
    pub finish: Option<Finish>,
    pub act: JobAction,
    pub recheck: Option<Duration>,
}

impl<'a> JobFacts<'a> {
    pub fn new(spec: &'a JobSpec, status: JobStatus, pods: &'a [Pod], record: BackoffRecord, now: Timestamp) -> Self {
        let mut facts = Self {
            spec,
            pods,
            now,
            is_deleting: false,
            active: pods.iter().filter(|pod| pod.is_active()).cloned().collect(),
            succeeded: 0,
            failed: 0,
            record,
            succeeded_before: Indexes::parse(&status.completed_indexes, spec.indexes()),
            succeeded_indexes: Indexes::default(),
            failed_indexes: None,
            held_by_index: BTreeMap::new(),
            status,
        };
        facts.count();
        facts
    }

    fn count(&mut self) {
        let uncounted = |uids: &[String]| uids.iter().cloned().collect::<HashSet<String>>();
        let (known_succeeded, known_failed) =
            (uncounted(&self.status.uncounted_succeeded), uncounted(&self.status.uncounted_failed));
        let valid = || self.pods.iter().filter(|pod| self.is_valid(pod));
        let succeeded: Vec<&Pod> =
            valid().filter(|pod| pod.is_succeeded() && !known_succeeded.contains(pod.uid())).collect();
        let failed: Vec<&Pod> =
            valid().filter(|pod| self.spec.is_failed(pod) && !known_failed.contains(pod.uid())).collect();
        let counted = failed.iter().filter(|pod| self.judge(pod) != FailureAction::Ignore).count();
        self.record = self.record.with(&succeeded, &failed);
        self.succeeded = self.status.succeeded + (succeeded.len() + known_succeeded.len()) as i64;
        self.failed = self.status.failed + (counted + known_failed.len()) as i64;
        if !self.spec.is_indexed {
            return;
        }
        let succeeded = self.pods.iter().filter(|pod| pod.is_succeeded() && is_tracked(pod));
        let succeeded: Vec<i64> = succeeded.filter_map(|pod| self.spec.index_of(pod)).collect();
        self.succeeded_indexes = self.succeeded_before.with(succeeded);
        self.succeeded = self.succeeded_indexes.total();
        if let Some(limit) = self.spec.backoff_limit_per_index {
            let before = Indexes::parse(self.status.failed_indexes.as_deref().unwrap_or(""), self.spec.indexes());
            let failed = self.pods.iter().filter(|pod| is_tracked(pod) && self.ends_index(pod, limit));
            let failed: Vec<i64> = failed.filter_map(|pod| self.spec.index_of(pod)).collect();
            self.failed_indexes = Some(before.with(failed));
            self.held_by_index = self.find_held();
        }
    }

    /// Reports whether the pod is not counted yet and has a valid index.
    fn is_valid(&self, pod: &Pod) -> bool {
        is_tracked(pod) && (!self.spec.is_indexed || self.spec.index_of(pod).is_some())
    }

    pub fn judge(&self, pod: &Pod) -> FailureAction {
        judge_failure(self.spec.failure_policy.as_deref(), pod)
    }

    /// Reports whether the failure exceeds the backoff limit of its index.
    fn ends_index(&self, pod: &Pod, limit: i64) -> bool {
        if !self.spec.is_failed(pod) {
            return false;
        }
        match self.judge(pod) {
            FailureAction::FailIndex => true,
            FailureAction::Ignore => false,
            FailureAction::Count | FailureAction::FailJob(_) => failures_of(pod).0 >= limit,
        }
    }

    fn find_held(&self) -> BTreeMap<i64, Pod> {
        let active: HashSet<i64> = self.active.iter().filter_map(index_of).collect();
        let is_over = |index: i64| {
            let has_failed = self.failed_indexes.as_ref().is_some_and(|failed| failed.has(index));
            self.succeeded_indexes.has(index) || has_failed || active.contains(&index)
        };
        let rank = |pod: &Pod| {
            let (counted, ignored) = failures_of(pod);
            (counted + ignored, pod.finished())
        };
        let mut held: BTreeMap<i64, Pod> = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| self.is_valid(pod) && self.spec.is_failed(pod)) {
            let Some(index) = self.spec.index_of(pod).filter(|index| !is_over(*index)) else { continue };
            if held.get(&index).is_none_or(|last| rank(last) <= rank(pod)) {
                held.insert(index, pod.clone());
            }
        }
        held
    }

    pub fn terminating(&self) -> i64 {
        self.pods.iter().filter(|pod| pod.is_terminating()).count() as i64
    }

    pub fn decide(&self) -> JobDecision {
        let deadline = self.deadline_left();
        let finish = self.announced().or_else(|| self.failure()).or_else(|| self.success_by_policy());
        if let Some(finish) = finish {
            return JobDecision { finish: Some(finish), act: JobAction::DeleteActive, recheck: None };
        }
        let mut decision = JobDecision { recheck: deadline, ..JobDecision::default() };
        if !self.is_deleting {
            let (act, wait) = self.plan_pods();
            decision.act = act;
            decision.recheck = [decision.recheck, wait].into_iter().flatten().min();
        }
        decision
    }

    /// Reports whether enough pods have succeeded, given the active ones.
    pub fn is_complete(&self, active: i64) -> bool {
        let is_enough = match self.spec.completions {
            None => self.succeeded > 0,
            Some(completions) => self.succeeded >= completions,
        };
        is_enough && active == 0
    }

    fn announced(&self) -> Option<Finish> {
        let said = |kind: &str, is_success| {
            let condition = self.status.condition(kind).filter(|condition| condition.is_true())?;
            let (reason, message) = (condition.reason().to_owned(), condition.message().to_owned());
            Some(Finish { is_success, is_announced: true, reason, message })
        };
        said("SuccessCriteriaMet", true).or_else(|| said("FailureTarget", false))
    }

    fn failure(&self) -> Option<Finish> {
        let fail = |reason: &str, message: &str| {
            let (reason, message) = (reason.to_owned(), message.to_owned());
            Some(Finish { is_success: false, is_announced: false, reason, message })
        };
        for pod in self.pods.iter().filter(|pod| self.spec.is_failed(pod)) {
            if let FailureAction::FailJob(why) = self.judge(pod) {
                return fail("PodFailurePolicy", &why);
            }
        }
        if self.failed > self.spec.backoff_limit || self.has_restarted_too_often() {
            return fail("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        }
        if self.deadline_left() == Some(Duration::ZERO) {
            return fail("DeadlineExceeded", "Job was active longer than specified deadline");
        }
        let failed = self.failed_indexes.as_ref().map_or(0, Indexes::total);
        if self.spec.failed_indexes_max.is_some_and(|max| failed > max) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return fail("MaxFailedIndexesExceeded", message);
        }
        if failed > 0 && failed + self.succeeded_indexes.total() >= self.spec.indexes() {
            return fail("FailedIndexes", "Job has failed indexes");
        }
        None
    }

    fn success_by_policy(&self) -> Option<Finish> {
        if !self.spec.is_indexed {
            return None;
        }
        let rules = self.spec.success_policy.as_deref();
        let message = match_success(rules, &self.succeeded_indexes, self.spec.indexes())?;
        Some(Finish { is_success: true, is_announced: false, reason: "SuccessPolicy".to_owned(), message })
    }

    /// Containers restarted in place count towards the backoff limit.
    fn has_restarted_too_often(&self) -> bool {
        if !self.spec.restarts_on_failure {
            return false;
        }
        let running = self.pods.iter().filter(|pod| matches!(pod.phase(), "Running" | "Pending"));
        let statuses = running.flat_map(|pod| pod.init_container_statuses().iter().chain(pod.container_statuses()));
        let restarts: i64 = statuses.filter_map(|status| status["restartCount"].as_i64()).sum();
        if self.spec.backoff_limit == 0 { restarts > 0 } else { restarts >= self.spec.backoff_limit }
    }

    /// Returns the remaining time; `None` if there is no deadline.
    fn deadline_left(&self) -> Option<Duration> {
        if self.spec.is_suspended {
            return None;
        }
        let start = time::parse(self.status.start_time.as_deref()?)?;
        let end = start.checked_add(SignedDuration::from_secs(self.spec.deadline_seconds?)).ok()?;
        let left = end.duration_since(self.now);
        Some(if left.is_positive() { left.unsigned_abs() } else { Duration::ZERO })
    }

    fn plan_pods(&self) -> (JobAction, Option<Duration>) {
        let active = self.active.len();
        if self.spec.is_suspended {
            return (remove(self.active.clone()), None);
        }
        let parallelism = usize::try_from(self.spec.parallelism).unwrap_or(0);
        let wanted = match self.spec.completions {
            None if self.succeeded > 0 => active,
            None => parallelism,
            Some(completions) => usize::try_from(completions - self.succeeded).unwrap_or(0).min(parallelism),
        };
        let surplus = self.surplus(active.saturating_sub(wanted));
        if !surplus.is_empty() {
            return (remove(surplus), None);
        }
        let terminating_pods = if self.spec.replaces_only_failed { self.terminating() as usize } else { 0 };
        let missing = wanted.saturating_sub(terminating_pods + active).min(BURST_MAX);
        if missing == 0 {
            return (JobAction::Nothing, None);
        }
        self.plan_creation(missing)
    }

    fn plan_creation(&self, missing: usize) -> (JobAction, Option<Duration>) {
        if self.spec.backoff_limit_per_index.is_none() {
            let wait = self.record.wait(self.now);
            if !wait.is_zero() {
                return (JobAction::Nothing, Some(wait));
            }
        }
        if !self.spec.is_indexed {
            return (JobAction::Create(vec![None; missing]), None);
        }
        let pending = self.pending_indexes(missing);
        let waits = pending.iter().map(|index| (*index, wait_for_index(self.held_by_index.get(index), self.now)));
        let (now, later): (Vec<_>, Vec<_>) = waits.partition(|(_, wait)| wait.is_zero());
        let wait = later.iter().map(|(_, wait)| *wait).min();
        match now.is_empty() {
            true => (JobAction::Nothing, wait),
            false => (JobAction::Create(now.into_iter().map(|(index, _)| Some(index)).collect()), wait),
        }
    }

    fn pending_indexes(&self, count: usize) -> Vec<i64> {
        let mut taken = self.succeeded_indexes.with(self.active.iter().filter_map(index_of));
        if self.spec.replaces_only_failed {
            taken = taken.with(self.pods.iter().filter(|pod| pod.is_terminating()).filter_map(index_of));
        }
        if let Some(failed) = &self.failed_indexes {
            taken = taken.merge(failed);
        }
        taken.missing(self.spec.indexes(), count)
    }

    /// Returns active pods to remove: those with an invalid or duplicate index, then as many as requested.
    fn surplus(&self, at_least: usize) -> Vec<Pod> {
        let mut removed = Vec::new();
        let mut left = self.active.clone();
        sort_for_deletion(&mut left, &Ranking::Plain);
        if self.spec.is_indexed {
            let mut taken = HashSet::new();
            let mut kept = Vec::new();
            // The last one in deletion order is the most valuable.
            for pod in left.into_iter().rev() {
                match self.spec.index_of(&pod).is_some_and(|index| taken.insert(index)) {
                    true => kept.push(pod),
                    false => removed.push(pod),
                }
            }
            kept.reverse();
            left = kept;
        }
        let more = at_least.saturating_sub(removed.len());
        removed.extend(left.into_iter().take(more));
        removed.truncate(BURST_MAX);
        removed
    }
}

fn remove(pods: Vec<Pod>) -> JobAction {
    if pods.is_empty() { JobAction::Nothing } else { JobAction::Remove(pods) }
}
