//! The controller loop: changes become keys, keys become reconciles, failures become retries.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use metrics::{Controllers, Ending, WorkerMetrics};
use object::Status;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::mirror::{Change, Mirror, ObjectKey};
use crate::queue::{Priority, QueueCounts, WorkQueue};

/// The result of a successful reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing until the next change.
    Done,
    /// Again after this time.
    After(Duration),
    /// Again soon, with backoff while this continues.
    Retry,
}

/// The error of a reconcile, which is retried with backoff.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error(transparent)]
    Api(#[from] Status),
    #[error("{0}")]
    Other(String),
}

impl ReconcileError {
    pub fn other(error: impl fmt::Display) -> Self {
        Self::Other(error.to_string())
    }

    /// Another writer was first; reconciling again with fresh data is enough.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(status) if status.is_conflict())
    }
}

type MapFn<K> = Box<dyn Fn(&Change) -> Vec<K> + Send + Sync>;

/// A mirror, and the mapping of its changes to keys.
pub struct Source<K> {
    mirror: Mirror,
    existing: Existing<K>,
    map: MapFn<K>,
}

/// The meaning of objects that exist at the start.
enum Existing<K> {
    /// The same as changes.
    Mapped,
    Nothing,
    /// Each means a key, whatever its content.
    Keys(fn(ObjectKey) -> K),
}

impl<K> Source<K> {
    pub fn new(mirror: &Mirror, map: impl Fn(&Change) -> Vec<K> + Send + Sync + 'static) -> Self {
        Self { mirror: mirror.clone(), existing: Existing::Mapped, map: Box::new(map) }
    }

    /// For a mapping to which objects that exist at the start mean nothing: they need not be decoded for it.
    pub fn changes(mirror: &Mirror, map: impl Fn(&Change) -> Vec<K> + Send + Sync + 'static) -> Self {
        Self { existing: Existing::Nothing, ..Self::new(mirror, map) }
    }
}

impl Source<ObjectKey> {
    /// For a mapping that enqueues every object that exists at the start: they need not be decoded for it.
    pub fn all_existing(mirror: &Mirror, map: impl Fn(&Change) -> Vec<ObjectKey> + Send + Sync + 'static) -> Self {
        Self { existing: Existing::Keys(std::convert::identity), ..Self::new(mirror, map) }
    }

    /// Enqueues the changed object itself.
    pub fn each(mirror: &Mirror) -> Self {
        Self::all_existing(mirror, |change| vec![change.key.clone()])
    }

    /// Enqueues the owning controller of the given kind; also the previous owner if it changed.
    pub fn owner(mirror: &Mirror, kind: &'static str) -> Self {
        Self::new(mirror, move |change| {
            let states = [&change.before, &change.now].into_iter().flatten();
            let mut owners: Vec<ObjectKey> = states
                .flat_map(|object| {
                    let owners = object.owner_references().into_iter().filter(|o| o.controller && o.kind == kind);
                    owners.map(|owner| ObjectKey::new(object.namespace(), &owner.name)).collect::<Vec<_>>()
                })
                .collect();
            owners.dedup();
            owners
        })
    }
}

/// One controller. Clones share its queue and its counts.
pub struct Controller<K> {
    name: &'static str,
    queue: Arc<WorkQueue<K>>,
    counters: Arc<Counters>,
    metrics: Option<Controllers>,
}

#[derive(Default)]
struct Counters {
    reconciles: AtomicU64,
    errors: AtomicU64,
    panics: AtomicU64,
}

/// Counters for `/metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerCounts {
    pub reconciles: u64,
    pub errors: u64,
    pub panics: u64,
    pub queue: QueueCounts,
}

impl<K> Clone for Controller<K> {
    fn clone(&self) -> Self {
        Self {
            name: self.name,
            queue: Arc::clone(&self.queue),
            counters: Arc::clone(&self.counters),
            metrics: self.metrics.clone(),
        }
    }
}

impl<K: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static> Controller<K> {
    pub fn new(name: &'static str) -> Self {
        Self { name, queue: Arc::default(), counters: Arc::default(), metrics: None }
    }

    /// Records metrics of its queue and its workers. Must be called before any key is added.
    pub fn observed_by(mut self, metrics: &Controllers) -> Self {
        self.queue = Arc::new(WorkQueue::default().observed_by(metrics.queue(self.name)));
        self.metrics = Some(metrics.clone());
        self
    }

    /// For keys from sources other than a mirror.
    pub fn queue(&self) -> &WorkQueue<K> {
        &self.queue
    }

    pub fn counts(&self) -> ControllerCounts {
        ControllerCounts {
            reconciles: self.counters.reconciles.load(Ordering::Relaxed),
            errors: self.counters.errors.load(Ordering::Relaxed),
            panics: self.counters.panics.load(Ordering::Relaxed),
            queue: self.queue.counts(),
        }
    }

    /// Runs until cancelled. Starts reconciling once every mirror is synced; on cancellation, finishes running
    /// reconciles and starts no new ones.
    pub async fn run<F, R>(self, sources: Vec<Source<K>>, workers: usize, cancel: CancellationToken, reconcile: F)
    where
        F: Fn(K) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Outcome, ReconcileError>> + Send + 'static,
    {
        assert!(workers > 0, "a controller without workers does nothing");
        let synced = futures::future::join_all(sources.iter().map(|source| source.mirror.synced()));
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = synced => {}
        }
        tracing::debug!(controller = self.name, workers, "starting controller");
        let mut pumps = JoinSet::new();
        for source in sources {
            pumps.spawn(pump(source, Arc::clone(&self.queue)));
        }
        let reconcile = Arc::new(reconcile);
        let worker_metrics = self.metrics.as_ref().map(|metrics| metrics.workers(self.name, workers));
        let mut running = JoinSet::new();
        for _ in 0..workers {
            let (controller, reconcile, worker_metrics) =
                (self.clone(), Arc::clone(&reconcile), worker_metrics.clone());
            running.spawn(async move { controller.work(&*reconcile, worker_metrics.as_ref()).await });
        }
        cancel.cancelled().await;
        self.queue.shut_down();
        pumps.shutdown().await;
        while running.join_next().await.is_some() {}
        tracing::debug!(controller = self.name, "controller stopped");
    }

    async fn work<F, R>(&self, reconcile: &F, worker_metrics: Option<&WorkerMetrics>)
    where
        F: Fn(K) -> R,
        R: Future<Output = Result<Outcome, ReconcileError>>,
    {
        while let Some(key) = self.queue.next().await {
            self.counters.reconciles.fetch_add(1, Ordering::Relaxed);
            let started = worker_metrics.map(WorkerMetrics::started);
            // A panic in one reconcile must not end the others.
            let future = std::panic::catch_unwind(AssertUnwindSafe(|| reconcile(key.clone())));
            let result = match future {
                Ok(future) => AssertUnwindSafe(future).catch_unwind().await,
                Err(panic) => Err(panic),
            };
            if let Some(started) = started {
                started.ended(result.as_ref().map_or(Ending::Panic, ending_of));
            }
            self.settle(&key, result);
            self.queue.done(&key);
        }
    }

    fn settle(&self, key: &K, result: Result<Result<Outcome, ReconcileError>, Box<dyn Any + Send>>) {
        match result {
            Ok(Ok(Outcome::Done)) => self.queue.forget(key),
            Ok(Ok(Outcome::After(wait))) => {
                self.queue.forget(key);
                self.queue.add_after(key.clone(), wait, Priority::NORMAL);
            }
            Ok(Ok(Outcome::Retry)) => drop(self.queue.add_failed(key.clone(), Priority::NORMAL)),
            Ok(Err(error)) => {
                self.counters.errors.fetch_add(1, Ordering::Relaxed);
                let wait = self.queue.add_failed(key.clone(), Priority::NORMAL);
                if error.is_conflict() {
                    tracing::debug!(controller = self.name, ?key, %error, ?wait, "conflict with another writer");
                } else {
                    tracing::warn!(controller = self.name, ?key, %error, ?wait, "reconcile failed");
                }
            }
            Err(panic) => {
                self.counters.panics.fetch_add(1, Ordering::Relaxed);
                let wait = self.queue.add_failed(key.clone(), Priority::NORMAL);
                let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                tracing::error!(controller = self.name, ?key, panic = text, ?wait, "reconcile panicked");
            }
        }
    }
}

/// The metric label of a reconcile's result.
pub fn ending_of(result: &Result<Outcome, ReconcileError>) -> Ending {
    match result {
        Ok(Outcome::Done) => Ending::Success,
        Ok(Outcome::After(_)) => Ending::RequeueAfter,
        Ok(Outcome::Retry) => Ending::Requeue,
        Err(_) => Ending::Error,
    }
}

/// Moves changes of one mirror into the queue, at the queue's pace.
async fn pump<K: Clone + Eq + Hash>(source: Source<K>, queue: Arc<WorkQueue<K>>) {
    let mut changes = match source.existing {
        Existing::Mapped => source.mirror.subscribe(),
        Existing::Nothing => source.mirror.subscribe_to_changes(),
        Existing::Keys(key_of) => {
            let (keys, changes) = source.mirror.subscribe_with_keys();
            for key in keys {
                queue.add(key_of(key), Priority::LOW).await;
            }
            changes
        }
    };
    while let Some(change) = changes.next().await {
        let priority = if change.is_initial { Priority::LOW } else { Priority::NORMAL };
        for key in (source.map)(&change) {
            queue.add(key, priority).await;
        }
    }
}
