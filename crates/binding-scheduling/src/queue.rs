//! The queue of bindings to schedule.

use std::collections::HashSet;
use std::time::Duration;

use parking_lot::Mutex;
use plane_metrics::{PlaneMetrics, QueueReason, SchedulingMetrics};
use reconcile::backoff::{Backoff, KEY_BACKOFF};
use reconcile::queue::KEYS_WAITING_MAX;
use reconcile::{ObjectKey, Priority, WorkQueue};

/// Backoff after errors, with priorities enabled.
const BACKOFF: Backoff = Backoff { base: Duration::from_secs(1), max: Duration::from_secs(10) };
/// Retry interval for unschedulable bindings, with priorities enabled, unless an event requeues them earlier.
const UNSCHEDULABLE_WAIT: Duration = Duration::from_secs(300);

/// A FIFO queue. With the gate PriorityBasedScheduling it is ordered by priority first.
pub struct SchedulingQueue {
    keys: WorkQueue<ObjectKey>,
    has_priorities: bool,
    metrics: SchedulingMetrics,
    /// The bindings that wait for capacity.
    unschedulable: Mutex<HashSet<ObjectKey>>,
}

/// The result of processing a binding from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleOutcome {
    Done,
    /// No cluster has capacity for it now.
    Unschedulable,
    Failed,
}

impl SchedulingQueue {
    pub fn new(has_priorities: bool, metrics: &PlaneMetrics) -> Self {
        let backoff = if has_priorities { BACKOFF } else { KEY_BACKOFF };
        let keys = WorkQueue::new(backoff, KEYS_WAITING_MAX).observed_by(metrics.controllers.queue("scheduler-queue"));
        Self { keys, has_priorities, metrics: metrics.scheduling.clone(), unschedulable: Mutex::default() }
    }

    /// Enqueues a binding after an event of the binding or its clusters.
    pub async fn add(&self, key: ObjectKey, priority: i32, is_initial: bool, why: QueueReason) {
        self.metrics.incoming(why);
        let priority = match (self.has_priorities, is_initial) {
            (true, _) => Priority(priority),
            (false, true) => Priority::LOW,
            (false, false) => Priority::NORMAL,
        };
        self.keys.add(key, priority).await;
    }

    pub async fn next(&self) -> Option<ObjectKey> {
        let key = self.keys.next().await?;
        self.unschedulable.lock().remove(&key);
        self.update_metrics();
        Some(key)
    }

    pub fn finish(&self, key: &ObjectKey, priority: i32, outcome: ScheduleOutcome) {
        let priority = if self.has_priorities { Priority(priority) } else { Priority::NORMAL };
        match outcome {
            ScheduleOutcome::Done => self.keys.forget(key),
            ScheduleOutcome::Unschedulable if self.has_priorities => {
                self.metrics.incoming(QueueReason::ScheduleAttemptFailure);
                self.unschedulable.lock().insert(key.clone());
                self.keys.add_after(key.clone(), UNSCHEDULABLE_WAIT, priority);
            }
            ScheduleOutcome::Unschedulable | ScheduleOutcome::Failed => {
                self.metrics.incoming(QueueReason::ScheduleAttemptFailure);
                self.keys.add_failed(key.clone(), priority);
            }
        }
        self.keys.done(key);
        self.update_metrics();
    }

    /// Updates the queue metrics.
    fn update_metrics(&self) {
        let counts = self.keys.counts();
        let unschedulable = self.unschedulable.lock().len();
        self.metrics.pending(counts.ready, counts.delayed.saturating_sub(unschedulable), unschedulable);
    }

    pub fn shut_down(&self) {
        self.keys.shut_down();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("a", name)
    }

    async fn taken(queue: &SchedulingQueue) -> String {
        queue.next().await.expect("open").name
    }

    #[tokio::test(start_paused = true)]
    async fn priorities_apply_only_with_the_feature_gate() {
        for (has_priorities, expected) in [(false, ["low", "high", "mid"]), (true, ["high", "mid", "low"])] {
            let queue = SchedulingQueue::new(has_priorities, &PlaneMetrics::default());
            for (name, priority) in [("low", -5), ("high", 100), ("mid", 7)] {
                queue.add(key(name), priority, false, QueueReason::BindingAdd).await;
            }
            let mut order = Vec::new();
            for _ in 0..3 {
                order.push(taken(&queue).await);
            }
            assert_eq!(order, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failed_bindings_back_off_and_a_change_requeues_them() {
        let queue = SchedulingQueue::new(true, &PlaneMetrics::default());
        let start = Instant::now();
        queue.add(key("x"), 0, false, QueueReason::BindingAdd).await;
        for expected in [0, 1, 3, 7, 15, 25, 35] {
            assert_eq!(taken(&queue).await, "x");
            assert_eq!(start.elapsed().as_secs(), expected);
            queue.finish(&key("x"), 0, ScheduleOutcome::Failed);
        }
        taken(&queue).await;
        let start = Instant::now();
        queue.finish(&key("x"), 0, ScheduleOutcome::Unschedulable);
        taken(&queue).await;
        assert_eq!(start.elapsed(), UNSCHEDULABLE_WAIT);
        queue.finish(&key("x"), 0, ScheduleOutcome::Unschedulable);
        let start = Instant::now();
        queue.add(key("x"), 0, false, QueueReason::BindingAdd).await;
        taken(&queue).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
