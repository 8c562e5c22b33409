//! The work queue: order, exclusive processing, delays, backoff, bounds.

use std::sync::Arc;
use std::time::Duration;

use reconcile::backoff::KEY_BACKOFF;
use reconcile::{Priority, WorkQueue};
use tokio::time::{Instant, timeout};

const SOON: Duration = Duration::from_millis(1);

fn queue() -> WorkQueue<&'static str> {
    WorkQueue::default()
}

async fn next(queue: &WorkQueue<&'static str>) -> Option<&'static str> {
    timeout(SOON, queue.next()).await.ok().flatten()
}

#[tokio::test(start_paused = true)]
async fn keys_are_delivered_once_by_priority_then_age() {
    let queue = queue();
    for (key, priority) in [("a", 0), ("b", -1), ("c", 5), ("a", 0), ("d", 0), ("b", 7)] {
        queue.add(key, Priority(priority)).await;
    }
    let mut order = Vec::new();
    while let Some(key) = next(&queue).await {
        order.push(key);
    }
    assert_eq!(order, ["b", "c", "a", "d"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_being_processed_is_delivered_again_only_after_done() {
    let queue = queue();
    queue.add_now("a", Priority::NORMAL);
    assert_eq!(next(&queue).await, Some("a"));
    queue.add_now("a", Priority::NORMAL);
    queue.add_now("a", Priority::NORMAL);
    assert_eq!(next(&queue).await, None);
    queue.done(&"a");
    assert_eq!(next(&queue).await, Some("a"));
    queue.done(&"a");
    assert_eq!(next(&queue).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_delivered_once_at_the_earliest_time() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after("a", Duration::from_secs(60), Priority::NORMAL);
    queue.add_after("a", Duration::from_secs(10), Priority::NORMAL);
    queue.add_after("a", Duration::from_secs(30), Priority::NORMAL);
    assert_eq!(queue.next().await, Some("a"));
    assert_eq!(start.elapsed().as_secs(), 10);
    queue.done(&"a");
    assert!(timeout(Duration::from_secs(600), queue.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn backoff_doubles_until_the_key_is_forgotten() {
    let queue = queue();
    let mut waits = Vec::new();
    for _ in 0..5 {
        waits.push(queue.add_failed("a", Priority::NORMAL).as_millis());
        assert_eq!(queue.next().await, Some("a"));
        queue.done(&"a");
    }
    assert_eq!(waits, [5, 10, 20, 40, 80]);
    assert_eq!(queue.failures(&"a"), 5);
    queue.forget(&"a");
    assert_eq!(queue.add_failed("a", Priority::NORMAL).as_millis(), 5);
    assert_eq!(queue.counts().retries, 6);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_blocks_add() {
    let queue = Arc::new(WorkQueue::new(KEY_BACKOFF, 2));
    queue.add("a", Priority::NORMAL).await;
    queue.add("b", Priority::NORMAL).await;
    // A key that is already waiting needs no space.
    queue.add("a", Priority::HIGH).await;
    let adding = tokio::spawn({
        let queue = Arc::clone(&queue);
        async move { queue.add("c", Priority::NORMAL).await }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!adding.is_finished());
    assert_eq!(queue.next().await, Some("a"));
    timeout(SOON, adding).await.expect("space was freed").expect("added");
    assert_eq!(queue.counts().ready, 2);
}

#[tokio::test(start_paused = true)]
async fn shutdown_releases_all_waiters() {
    let queue = Arc::new(queue());
    let waiting = tokio::spawn({
        let queue = Arc::clone(&queue);
        async move { queue.next().await }
    });
    tokio::time::sleep(SOON).await;
    queue.shut_down();
    assert_eq!(timeout(SOON, waiting).await.expect("let go").expect("no panic"), None);
    queue.add("late", Priority::NORMAL).await;
    assert_eq!(queue.next().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_workers_never_share_a_key_and_lose_none() {
    let queue: Arc<WorkQueue<u32>> = Arc::default();
    let in_work: Arc<parking_lot::Mutex<std::collections::HashSet<u32>>> = Arc::default();
    let handled: Arc<parking_lot::Mutex<std::collections::HashSet<u32>>> = Arc::default();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (queue, in_work, handled) = (Arc::clone(&queue), Arc::clone(&in_work), Arc::clone(&handled));
        workers.spawn(async move {
            while let Some(key) = queue.next().await {
                assert!(in_work.lock().insert(key), "two workers have {key}");
                tokio::task::yield_now().await;
                in_work.lock().remove(&key);
                handled.lock().insert(key);
                queue.done(&key);
            }
        });
    }
    for round in 0..20_000u32 {
        queue.add(round % 997, Priority((round % 3) as i32)).await;
    }
    while queue.counts().ready + queue.counts().in_work > 0 {
        tokio::time::sleep(SOON).await;
    }
    queue.shut_down();
    while let Some(result) = workers.join_next().await {
        result.expect("no worker failed");
    }
    assert_eq!(handled.lock().len(), 997);
}
