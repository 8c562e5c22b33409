//! Handles the keys of a queue, so many at a time and none twice at once, without a task per idle worker.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use reconcile::{Outcome, Priority, ReconcileError, WorkQueue};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Time for running reconciles to finish at shutdown. A member that does not answer must not delay the shutdown of the
/// control plane; interrupted work is found and finished at the next start.
const GRACE: Duration = Duration::from_secs(5);

/// Runs until cancelled; what is under way then has some time to finish.
///
/// A member that is idle costs one task, however many workers it may have: a plane with a thousand members has most of
/// them idle.
pub async fn run<K, F, R>(
    name: &'static str,
    queue: Arc<WorkQueue<K>>,
    workers_max: usize,
    cancel: CancellationToken,
    reconcile: F,
) where
    K: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static,
    F: Fn(K) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Outcome, ReconcileError>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(workers_max.max(1)));
    let mut running = JoinSet::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            Some((place, queue.next().await?))
        };
        let taken = tokio::select! {
            () = cancel.cancelled() => None,
            taken = next => taken,
        };
        let Some((place, key)) = taken else { break };
        while running.try_join_next().is_some() {}
        let (queue, reconciling) = (Arc::clone(&queue), AssertUnwindSafe(reconcile(key.clone())).catch_unwind());
        running.spawn(async move {
            settle(name, &queue, &key, reconciling.await.unwrap_or_else(|_| Err(panicked())));
            queue.done(&key);
            drop(place);
        });
    }
    queue.shut_down();
    let finished = async { while running.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, finished).await.is_err() {
        running.shutdown().await;
    }
}

/// A mistake in one work must not end the others.
fn panicked() -> ReconcileError {
    ReconcileError::other("the reconcile panicked")
}

fn settle<K: Clone + Eq + Hash + fmt::Debug>(
    name: &'static str,
    queue: &WorkQueue<K>,
    key: &K,
    result: Result<Outcome, ReconcileError>,
) {
    match result {
        Ok(Outcome::Done) => queue.forget(key),
        Ok(Outcome::After(wait)) => {
            queue.forget(key);
            queue.add_after(key.clone(), wait, Priority::NORMAL);
        }
        Ok(Outcome::Retry) => drop(queue.add_failed(key.clone(), Priority::NORMAL)),
        Err(error) => {
            let wait = queue.add_failed(key.clone(), Priority::NORMAL);
            if error.is_conflict() {
                tracing::debug!(controller = name, ?key, %error, ?wait, "written by another meanwhile");
            } else {
                tracing::warn!(controller = name, ?key, %error, ?wait, "reconcile failed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn concurrency_is_limited_and_a_panic_is_retried() {
        let queue = Arc::new(WorkQueue::<u32>::default());
        for key in 0..10 {
            queue.add_now(key, Priority::NORMAL);
        }
        let (now, most, done) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let cancel = CancellationToken::new();
        let counters = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&done));
        let running = tokio::spawn(run("test", Arc::clone(&queue), 3, cancel.clone(), move |key| {
            let (now, most, done) = counters.clone();
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                assert!(key != 7 || done.load(Ordering::SeqCst) >= 9, "the last one fails until the others are done");
                done.fetch_add(1, Ordering::SeqCst);
                Ok(Outcome::Done)
            }
        }));
        while done.load(Ordering::SeqCst) < 10 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(most.load(Ordering::SeqCst), 3);
        cancel.cancel();
        running.await.expect("ends in good order");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_never_ends_does_not_block_shutdown() {
        let queue = Arc::new(WorkQueue::<u32>::default());
        queue.add_now(1, Priority::NORMAL);
        let (cancel, started) = (CancellationToken::new(), Arc::new(tokio::sync::Notify::new()));
        let notified = Arc::clone(&started);
        let running = tokio::spawn(run("test", queue, 3, cancel.clone(), move |_| {
            let notified = Arc::clone(&notified);
            async move {
                notified.notify_one();
                std::future::pending().await
            }
        }));
        started.notified().await;
        cancel.cancel();
        let ended = tokio::time::timeout(GRACE * 2, running).await;
        ended.expect("in time").expect("in good order");
    }
}
