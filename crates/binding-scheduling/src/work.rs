//! Decides on bindings one at a time and hands each placement to a writer task.

use std::sync::Arc;
use std::time::Instant;

use api::work::BindingStatus;
use object::Object;
use plane_metrics::{ScheduleType, SchedulingMetrics};
use plane_state::RecordedDecision;
use propagation::binding_scope::check_stored;
use reconcile::{ObjectKey, Regarding};
use scheduler::{
    ClusterSnapshot, Decision, Explanation, Need, Peers, Request, ScheduleError, ScheduleStage, explain_timed, need,
};
use tokio::sync::Semaphore;

use crate::commit::{self, Plan};
use crate::failback::without_left;
use crate::gather::Binding;
use crate::queue::Outcome;
use crate::{BINDINGS_PER_TURN, Room};

/// Decisions are sequential, each on top of the reservations of earlier ones; slow writes do not delay decisions.
pub async fn work(room: &Arc<Room>) {
    let slots = Arc::new(Semaphore::new(room.settings.writes_at_once.max(1)));
    let mut looked_at = 0_usize;
    while let Some(key) = room.queue.next().await {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let started = Instant::now();
        match room.decide(&key) {
            Step::Finish { priority, outcome } => room.queue.finish(&key, priority, outcome),
            Step::Write(plan) => {
                let room = Arc::clone(room);
                tokio::spawn(async move {
                    let priority = plan.binding.priority();
                    let kind = plan.schedule_type;
                    let outcome = commit::commit(&room, *plan).await;
                    if let Some(kind) = kind {
                        room.metrics.scheduling.attempted(outcome == Outcome::Done, kind, started.elapsed());
                    }
                    room.in_flight.lock().finished(&key);
                    room.queue.finish(&key, priority, outcome);
                    drop(slot);
                });
            }
        }
        looked_at = looked_at.wrapping_add(1);
        if looked_at.is_multiple_of(BINDINGS_PER_TURN) {
            tokio::task::yield_now().await;
        }
    }
}

/// Measures the steps of a decision.
struct Laps<'a> {
    metrics: &'a SchedulingMetrics,
    since: Instant,
}

impl<'a> Laps<'a> {
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

enum Step {
    Finish { priority: i32, outcome: Outcome },
    Write(Box<Plan>),
}

impl Room {
    fn decide(&self, key: &ObjectKey) -> Step {
        let finish = |outcome: Outcome| Step::Finish { priority: 0, outcome };
        let Some(object) = self.mirror_of(key).get(key) else { return finish(Outcome::Done) };
        if self.in_flight.lock().must_wait(key, &object) {
            // The mirror is outdated. The written version will enqueue the binding again.
            return finish(Outcome::Done);
        }
        if object.is_deleting() {
            let kind = if key.namespace.is_empty() { "clusterResourceBinding" } else { "resourceBinding" };
            self.tell_failure(&object, &format!("skip schedule deleting {kind}: {key}"));
            return finish(Outcome::Done);
        }
        if let Err(refusal) = check_stored(&object) {
            let text = refusal.to_string();
            tracing::warn!(binding = %key, %refusal, "the binding is refused");
            // The reference is not trusted, so no event goes to the object it names.
            self.recorder.warning(&*object, "ScheduleBindingFailed", text);
            return finish(Outcome::Done);
        }
        let binding = match Binding::read(&object) {
            Ok(binding) => binding,
            Err(error) => {
                tracing::warn!(binding = %key, %error, "failed to parse binding");
                return finish(Outcome::Failed);
            }
        };
        if binding.spec.placement.is_none() {
            // Setting the placement will enqueue the binding again.
            return finish(Outcome::Done);
        }
        let peers = self.gather_peers(&binding);
        let mut snapshot = self.snapshot.lock();
        self.refresh_capacity(&mut snapshot);
        let way_back = self.failbacks.lock().remove(key);
        let way_back = way_back.and_then(|wanted| wanted.decide(self, &snapshot, &binding, &peers));
        let is_return = way_back.is_some();
        let reason = need(&snapshot, &binding.spec, &binding.status, binding.applied_placement(), &self.options);
        if reason.is_none() && !is_return {
            drop(snapshot);
            return match binding.status.scheduler_observed_generation == Some(object.generation()) {
                true => finish(Outcome::Done),
                false => Step::Write(Box::new(Plan::noting_only(binding))),
            };
        }
        let (decision, explanation) = way_back.unwrap_or_else(|| self.place(&snapshot, &binding, &peers, reason));
        if let Ok(targets) = &decision.result {
            snapshot.reserve(&key.to_string(), &binding.spec, targets, self.clock.now());
        }
        drop(snapshot);
        if let (Ok(targets), true) = (&decision.result, self.options.workload_affinity) {
            self.in_flight.lock().decided(key, targets);
        }
        let remembered = RecordedDecision {
            time: self.clock.now(),
            generation: object.generation(),
            explanation: Arc::new(explanation),
        };
        self.decisions.remember(&key.to_string(), remembered);
        self.tell_groups(&binding, &decision);
        let is_asked_for = reason == Some(Need::Reschedule);
        let schedule_type = Some(match reason {
            Some(Need::ReplicasChanged) => ScheduleType::Scale,
            _ => ScheduleType::Reconcile,
        });
        Step::Write(Box::new(Plan { binding, decision: Some(decision), is_asked_for, is_return, schedule_type }))
    }

    /// Decides on a binding. After a failover, the cluster it left is used only as a last resort.
    fn place(
        &self,
        snapshot: &ClusterSnapshot,
        binding: &Binding,
        peers: &Peers,
        reason: Option<Need>,
    ) -> (Decision, Explanation) {
        let request = Request { spec: &binding.spec, status: &binding.status, peers, options: &self.options };
        let mut laps = Laps::new(&self.metrics.scheduling);
        let mut explain = |snapshot: &ClusterSnapshot, request: &Request<'_>| {
            laps.start();
            explain_timed(snapshot, request, &mut |step| laps.passed(step))
        };
        let held = reason.filter(|_| self.is_resilient).and_then(|need| without_left(binding, need));
        if let Some(held) = held {
            let (decision, explanation) = explain(snapshot, &Request { spec: &held.spec, ..request });
            if decision.result.is_ok() {
                return (decision, held.reword(explanation));
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
            (again, told) if again.result.is_ok() => (again, told),
            _ => (decision, explanation),
        }
    }

    /// Reports every failed affinity group separately.
    fn tell_groups(&self, binding: &Binding, decision: &Decision) {
        for (index, error) in &decision.failed_groups {
            let kind = binding.object.kind();
            let text =
                format!("failed to schedule {kind}({}) with clusterAffiliates index({index}): {error}", binding.key);
            self.tell_failure(&binding.object, &text);
        }
    }

    pub fn tell_failure(&self, binding: &Object, message: &str) {
        for about in told_about(binding) {
            self.recorder.warning(about, "ScheduleBindingFailed", message);
        }
    }

    pub fn tell_success(&self, binding: &Object, message: &str) {
        for about in told_about(binding) {
            self.recorder.normal(about, "ScheduleBindingSucceed", message);
        }
    }
}

/// Events are recorded on the template for users and on the binding for operators.
fn told_about(binding: &Object) -> [Regarding; 2] {
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
pub fn outcome_of(error: &ScheduleError) -> Outcome {
    match error {
        ScheduleError::NoFit(_) => Outcome::Done,
        ScheduleError::NotEnough(_) => Outcome::Unschedulable,
        ScheduleError::Failed(_) => Outcome::Failed,
    }
}
