//! Metrics of the queues and workers of controllers, under the names of controller-runtime.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::registry::{Count, Counter, Gauge, Histogram, Level, Registry, Spread, exponential};

/// The metric families that all controllers share.
#[derive(Clone)]
pub struct Controllers {
    depth: Gauge,
    adds: Counter,
    queue_time: Histogram,
    work_time: Histogram,
    retries: Counter,
    unfinished: Gauge,
    longest: Gauge,
    reconciles: Counter,
    errors: Counter,
    terminal_errors: Counter,
    panics: Counter,
    reconcile_time: Histogram,
    workers: Gauge,
    active: Gauge,
    /// Reconciles in progress, by controller.
    running: Arc<Mutex<BTreeMap<String, Running>>>,
}

#[derive(Default)]
struct Running {
    next: u64,
    since: BTreeMap<u64, Instant>,
}

/// The queue of one controller.
#[derive(Clone)]
pub struct QueueMetrics {
    pub depth: Level,
    pub adds: Count,
    pub retries: Count,
    pub queue_time: Spread,
}

/// The workers of one controller.
#[derive(Clone)]
pub struct WorkerMetrics {
    name: String,
    work_time: Spread,
    reconcile_time: Spread,
    reconciles: Counter,
    errors: Count,
    panics: Count,
    active: Level,
    running: Arc<Mutex<BTreeMap<String, Running>>>,
}

/// Outcome of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Success,
    Requeue,
    RequeueAfter,
    Error,
    Panic,
}

/// A reconcile in progress. A dropped one was cancelled and counts neither as success nor as failure.
pub struct Started {
    workers: WorkerMetrics,
    since: Instant,
    number: u64,
}

const QUEUE: &[&str] = &["name", "controller"];
const CONTROLLER: &[&str] = &["controller"];
const RECONCILE_SECONDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];

impl Controllers {
    pub fn new(registry: &Registry) -> Self {
        let new = Self::declare(registry);
        let refreshed = new.clone();
        registry.before_render(move || refreshed.refresh());
        new
    }

    fn declare(registry: &Registry) -> Self {
        // Ten nanoseconds to a thousand seconds, as client-go's queues have it.
        let queue_seconds: Vec<f64> = exponential(10e-9, 10.0, 12);
        let queue = |name, help| registry.histogram(name, QUEUE, &queue_seconds, help);
        Self {
            depth: registry.gauge("workqueue_depth", &["name", "controller", "priority"], "Keys waiting in a queue."),
            adds: registry.counter("workqueue_adds_total", QUEUE, "Keys added to a queue."),
            queue_time: queue("workqueue_queue_duration_seconds", "Time keys wait in a queue."),
            work_time: queue("workqueue_work_duration_seconds", "Time to process a key."),
            retries: registry.counter("workqueue_retries_total", QUEUE, "Keys added again because of a failure."),
            unfinished: registry.gauge(
                "workqueue_unfinished_work_seconds",
                QUEUE,
                "Total time spent so far on keys in progress.",
            ),
            longest: registry.gauge(
                "workqueue_longest_running_processor_seconds",
                QUEUE,
                "Time spent so far on the oldest key in progress.",
            ),
            reconciles: registry.counter(
                "controller_runtime_reconcile_total",
                &["controller", "result"],
                "Reconciles by controller and result.",
            ),
            errors: registry.counter(
                "controller_runtime_reconcile_errors_total",
                CONTROLLER,
                "Reconciles that failed.",
            ),
            terminal_errors: registry.counter(
                "controller_runtime_terminal_reconcile_errors_total",
                CONTROLLER,
                "Reconciles that failed and are not retried; always 0.",
            ),
            panics: registry.counter(
                "controller_runtime_reconcile_panics_total",
                CONTROLLER,
                "Reconciles that panicked.",
            ),
            reconcile_time: registry.histogram(
                "controller_runtime_reconcile_time_seconds",
                CONTROLLER,
                RECONCILE_SECONDS,
                "Duration of reconciles.",
            ),
            workers: registry.gauge(
                "controller_runtime_max_concurrent_reconciles",
                CONTROLLER,
                "Maximum number of concurrent reconciles.",
            ),
            active: registry.gauge("controller_runtime_active_workers", CONTROLLER, "Reconciles in progress."),
            running: Arc::default(),
        }
    }

    pub fn queue(&self, name: &str) -> QueueMetrics {
        let labels = [name, name];
        QueueMetrics {
            depth: self.depth.with(&[name, name, ""]),
            adds: self.adds.with(&labels),
            retries: self.retries.with(&labels),
            queue_time: self.queue_time.with(&labels),
        }
    }

    /// `workers` is the maximum number of concurrent reconciles.
    pub fn workers(&self, name: &str, workers: usize) -> WorkerMetrics {
        self.workers.set(&[name], workers as f64);
        self.terminal_errors.with(&[name]);
        self.running.lock().entry(name.to_owned()).or_default();
        for ending in [Ending::Success, Ending::Requeue, Ending::RequeueAfter, Ending::Error] {
            self.reconciles.with(&[name, ending.text()]);
        }
        WorkerMetrics {
            name: name.to_owned(),
            work_time: self.work_time.with(&[name, name]),
            reconcile_time: self.reconcile_time.with(&[name]),
            reconciles: self.reconciles.clone(),
            errors: self.errors.with(&[name]),
            panics: self.panics.with(&[name]),
            active: self.active.with(&[name]),
            running: Arc::clone(&self.running),
        }
    }

    /// Updates the gauges that grow with time.
    fn refresh(&self) {
        for (name, running) in self.running.lock().iter() {
            let seconds = |since: &Instant| since.elapsed().as_secs_f64();
            self.unfinished.set(&[name, name], running.since.values().map(seconds).sum());
            let longest = running.since.values().map(seconds).fold(0.0, f64::max);
            self.longest.set(&[name, name], longest);
        }
    }
}

impl WorkerMetrics {
    pub fn started(&self) -> Started {
        self.active.add(1.0);
        let since = Instant::now();
        let mut running = self.running.lock();
        let mine = running.entry(self.name.clone()).or_default();
        mine.next += 1;
        mine.since.insert(mine.next, since);
        Started { since, number: mine.next, workers: self.clone() }
    }
}

impl Started {
    pub fn ended(self, ending: Ending) {
        let took = self.since.elapsed();
        let workers = &self.workers;
        workers.work_time.observe(took);
        workers.reconcile_time.observe(took);
        workers.reconciles.add_one(&[&workers.name, ending.text()]);
        if matches!(ending, Ending::Error | Ending::Panic) {
            workers.errors.add(1);
        }
        if ending == Ending::Panic {
            workers.panics.add(1);
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.workers.active.add(-1.0);
        if let Some(mine) = self.workers.running.lock().get_mut(&self.workers.name) {
            mine.since.remove(&self.number);
        }
    }
}

impl Ending {
    fn text(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Requeue => "requeue",
            Self::RequeueAfter => "requeue_after",
            Self::Error | Self::Panic => "error",
        }
    }
}
