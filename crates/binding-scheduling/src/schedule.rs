//! Decides on bindings one at a time and hands each placement to a writer task.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use api::work::BindingStatus;
use object::Object;
use plane_metrics::{EstimateType, ScheduleType, SchedulingMetrics};
use plane_state::RecordedDecision;
use propagation::binding_scope::check_stored;
use reconcile::{ObjectKey, Regarding};
use scheduler::{
    ClusterSnapshot, Decision, Explanation, Need, Request, ScheduleError, ScheduleStage, explain_timed, need,
};
use tokio::sync::Semaphore;

use crate::commit::{self, PlacementUpdate};
use crate::failback::without_left;
use crate::gather::Binding;
use crate::queue::ScheduleOutcome;
use crate::{BINDINGS_PER_TURN, BindingScheduler};

/// Decisions are sequential, each on top of the reservations of earlier ones; slow writes do not delay decisions.
pub async fn run(scheduler: &Arc<BindingScheduler>) {
    let slots = Arc::new(Semaphore::new(scheduler.settings.writes_at_once.max(1)));
    let mut processed = 0_usize;
    while let Some(key) = scheduler.queue.next().await {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let started = Instant::now();
        let answers = scheduler.gather_answers(&key).await;
        match scheduler.decide(&key, answers.as_ref()) {
            NextStep::Finish { priority, outcome } => scheduler.queue.finish(&key, priority, outcome),
            NextStep::Write(plan) => {
                let scheduler = Arc::clone(scheduler);
                tokio::spawn(async move {
                    let priority = plan.binding.priority();
                    let kind = plan.schedule_type;
                    let outcome = commit::commit(&scheduler, *plan).await;
                    if let Some(kind) = kind {
                        scheduler.metrics.scheduling.attempted(
                            outcome == ScheduleOutcome::Done,
                            kind,
                            started.elapsed(),
                        );
                    }
                    scheduler.pending.lock().remove(&key);
                    scheduler.queue.finish(&key, priority, outcome);
                    drop(slot);
                });
            }
        }
        processed = processed.wrapping_add(1);
        if processed.is_multiple_of(BINDINGS_PER_TURN) {
            tokio::task::yield_now().await;
        }
    }
}

/// Measures the steps of a decision.
struct StepTimer<'a> {
    metrics: &'a SchedulingMetrics,
    since: Instant,
}

impl<'a> StepTimer<'a> {
    fn new(metrics: &'a SchedulingMetrics) -> Self {
        Self { metrics, since: Instant::now() }
    }

    fn start(&mut self) {
        self.since = Instant::now();
    }

    fn passed(&mut self, lap: ScheduleStage) {
        let now = Instant::now();
        let name = match lap {
            ScheduleStage::Filter => "Filter",
            ScheduleStage::Score => "Score",
            ScheduleStage::Select => "Select",
            ScheduleStage::AssignReplicas => "AssignReplicas",
        };
        self.metrics.step(name, now - self.since);
        self.since = now;
    }
}

enum NextStep {
    Finish { priority: i32, outcome: ScheduleOutcome },
    Write(Box<PlacementUpdate>),
}

impl BindingScheduler {
    fn decide(&self, key: &ObjectKey, answers: Option<&BTreeMap<String, i32>>) -> NextStep {
        let finish = |outcome: ScheduleOutcome| NextStep::Finish { priority: 0, outcome };
        let Some(object) = self.mirror_of(key).get(key) else { return finish(ScheduleOutcome::Done) };
        let binding = match self.read_binding(key, &object) {
            Ok(binding) => binding,
            Err(outcome) => return finish(outcome),
        };
        let peers = self.gather_peers(&binding);
        let mut snapshot = self.snapshot.lock();
        self.refresh_capacity(&mut snapshot);
        let failback = self.failbacks.lock().remove(key);
        let failback = failback.and_then(|wanted| wanted.decide(self, &snapshot, &binding, &peers));
        let is_return = failback.is_some();
        let reason = need(&snapshot, &binding.spec, &binding.status, binding.applied_placement(), &self.options);
        if reason.is_none() && !is_return {
            drop(snapshot);
            return match binding.status.scheduler_observed_generation == Some(object.generation()) {
                true => finish(ScheduleOutcome::Done),
                false => NextStep::Write(Box::new(PlacementUpdate::noting_only(binding))),
            };
        }
        let (decision, explanation) = failback.unwrap_or_else(|| {
            let (spec, status, options) = (&binding.spec, &binding.status, &self.options);
            self.place(&snapshot, &binding, reason, Request { spec, status, peers: &peers, options, answers })
        });
        if let Ok(targets) = &decision.result {
            snapshot.reserve(&key.to_string(), &binding.spec, targets, self.clock.now());
        }
        drop(snapshot);
        if let (Ok(targets), true) = (&decision.result, self.options.workload_affinity) {
            let clusters = targets.iter().map(|target| target.name.clone()).collect();
            self.pending.lock().insert(key.clone(), clusters);
        }
        let remembered = RecordedDecision {
            time: self.clock.now(),
            generation: object.generation(),
            explanation: Arc::new(explanation),
        };
        self.decisions.remember(&key.to_string(), remembered);
        self.record_groups(&binding, &decision);
        let is_asked_for = reason == Some(Need::Reschedule);
        let schedule_type = Some(match reason {
            Some(Need::ReplicasChanged) => ScheduleType::Scale,
            _ => ScheduleType::Reconcile,
        });
        NextStep::Write(Box::new(PlacementUpdate {
            binding,
            decision: Some(decision),
            is_asked_for,
            is_return,
            schedule_type,
        }))
    }

    /// Reads a binding that can be scheduled. The error is the outcome for one that cannot.
    fn read_binding(&self, key: &ObjectKey, object: &Arc<Object>) -> Result<Binding, ScheduleOutcome> {
        if object.is_deleting() {
            let kind = if key.namespace.is_empty() { "clusterResourceBinding" } else { "resourceBinding" };
            self.record_failure(object, &format!("skip schedule deleting {kind}: {key}"));
            return Err(ScheduleOutcome::Done);
        }
        if let Err(refusal) = check_stored(object) {
            tracing::warn!(binding = %key, %refusal, "the binding is refused");
            // The reference is not trusted, so no event goes to the object it names.
            self.recorder.warning(&**object, "ScheduleBindingFailed", refusal.to_string());
            return Err(ScheduleOutcome::Done);
        }
        let binding = Binding::read(object).map_err(|error| {
            tracing::warn!(binding = %key, %error, "failed to parse binding");
            ScheduleOutcome::Failed
        })?;
        // Setting the placement will enqueue the binding again.
        if binding.spec.placement.is_some() { Ok(binding) } else { Err(ScheduleOutcome::Done) }
    }

    /// Decides on a binding. After a failover, the cluster it left is used only as a last resort.
    fn place(
        &self,
        snapshot: &ClusterSnapshot,
        binding: &Binding,
        reason: Option<Need>,
        request: Request<'_>,
    ) -> (Decision, Explanation) {
        let mut laps = StepTimer::new(&self.metrics.scheduling);
        let mut explain = |snapshot: &ClusterSnapshot, request: &Request<'_>| {
            laps.start();
            let (decision, explanation) = explain_timed(snapshot, request, &mut |step| laps.passed(step));
            self.count_estimates(request, &explanation);
            (decision, explanation)
        };
        let held = reason.filter(|_| self.is_resilient).and_then(|need| without_left(binding, need));
        if let Some(held) = held {
            let (decision, explanation) = explain(snapshot, &Request { spec: &held.spec, ..request });
            if decision.result.is_ok() {
                return (decision, held.replace_reason(explanation));
            }
        }
        let (decision, explanation) = explain(snapshot, &request);
        let has_earlier_groups = !binding.status.scheduler_observed_affinity_name.is_empty();
        if !self.is_resilient || decision.result.is_ok() || !has_earlier_groups {
            return (decision, explanation);
        }
        // Karmada never returns to an earlier affinity group and stays unscheduled even if that one is healthy again.
        let status = BindingStatus { scheduler_observed_affinity_name: String::new(), ..binding.status.clone() };
        match explain(snapshot, &Request { status: &status, ..request }) {
            (again, explained) if again.result.is_ok() => (again, explained),
            _ => (decision, explanation),
        }
    }

    /// Counts what a scheduler of Karmada would ask the estimators of members for.
    pub fn count_estimates(&self, request: &Request<'_>, explanation: &Explanation) {
        let kind = match scheduler::places_whole_sets(request.spec, request.options) {
            true => EstimateType::MaxAvailableComponentSets,
            false => EstimateType::MaxAvailableReplicas,
        };
        self.metrics.estimator.made(kind, explanation.accurate_estimates());
    }

    /// Reports every failed affinity group separately.
    fn record_groups(&self, binding: &Binding, decision: &Decision) {
        for (index, error) in &decision.failed_groups {
            let kind = binding.object.kind();
            let text =
                format!("failed to schedule {kind}({}) with clusterAffiliates index({index}): {error}", binding.key);
            self.record_failure(&binding.object, &text);
        }
    }

    pub fn record_failure(&self, binding: &Object, message: &str) {
        for about in event_targets(binding) {
            self.recorder.warning(about, "ScheduleBindingFailed", message);
        }
    }

    pub fn record_success(&self, binding: &Object, message: &str) {
        for about in event_targets(binding) {
            self.recorder.normal(about, "ScheduleBindingSucceed", message);
        }
    }
}

/// Events are recorded on the template for users and on the binding for operators.
fn event_targets(binding: &Object) -> [Regarding; 2] {
    let text = |field: &str| binding.str_at(&["spec", "resource", field]).to_owned();
    let template = Regarding {
        api_version: text("apiVersion"),
        kind: text("kind"),
        namespace: text("namespace"),
        name: text("name"),
        uid: text("uid"),
    };
    [Regarding::from(binding), template]
}

/// Reports whether a retry may succeed.
pub fn outcome_of(error: &ScheduleError) -> ScheduleOutcome {
    match error {
        ScheduleError::NoFit(_) => ScheduleOutcome::Done,
        ScheduleError::NotEnough(_) => ScheduleOutcome::Unschedulable,
        ScheduleError::Failed(_) => ScheduleOutcome::Failed,
    }
}
