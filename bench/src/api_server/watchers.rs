//! Thousands of watchers on few connections: memory of an idle one, and events at a steady pace that all of them get.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::sync::mpsc;

use crate::api_server::objects::{collection, config_map, make_namespace, pause};
use crate::api_server::results::ManyWatched;
use crate::api_server::watch::{Watcher, revision_of};
use crate::options::Api;
use crate::process;
use crate::server::Server;
use crate::wire::{Call, Connection};

pub const EVENTS: usize = 100;
pub const EVENTS_PER_SECOND: u32 = 100;
const NAMESPACE: &str = "crowded";
/// Servers allow 250 streams.
const STREAMS_PER_CONNECTION: usize = 200;
/// Watches a connection opens at a time.
const OPENED_AT_ONCE: usize = 25;
/// Buffers of the handshakes and of opening are freed by then.
const SETTLE: Duration = Duration::from_secs(3);
const TIMEOUT: Duration = Duration::from_secs(90);

struct Crowd {
    /// One message per watcher that has received all events, or its error.
    seen: mpsc::Receiver<anyhow::Result<()>>,
    reopened: Arc<AtomicUsize>,
}

/// One server after the other: each of them uses the whole machine.
pub async fn measure(servers: &[Server], options: Api<'_>) -> anyhow::Result<Vec<ManyWatched>> {
    let mut measured = Vec::new();
    for server in servers {
        make_namespace(server, NAMESPACE).await?;
        // Controllers create objects in a new namespace; these must not count as events.
        tokio::time::sleep(Duration::from_secs(1)).await;
        measured.push(measure_one(server, options.many_watchers()).await?);
        pause().await;
    }
    Ok(measured)
}

async fn measure_one(server: &Server, watchers: usize) -> anyhow::Result<ManyWatched> {
    let revision = revision_of(server, NAMESPACE).await?;
    let before = process::memory(&server.pids())?;
    let mut crowd = gather(server, &revision, watchers).await?;
    tokio::time::sleep(SETTLE).await;
    let after = process::memory(&server.pids())?;
    let own = [std::process::id()];
    let (server_before, client_before) = (process::cpu(&server.pids())?, process::cpu(&own)?);
    let start = Instant::now();
    let all_seen = async {
        for _ in 0..watchers {
            let seen = crowd.seen.recv().await.context("all watches broke off")?;
            seen.with_context(|| format!("{:?}", server.side))?;
        }
        anyhow::Ok(start.elapsed())
    };
    let (written, elapsed) = tokio::join!(write_events(server), tokio::time::timeout(TIMEOUT, all_seen));
    written?;
    let elapsed = elapsed.with_context(|| format!("{:?}: not all watchers received all events", server.side))??;
    let deliveries = (EVENTS * watchers) as f64;
    let micros = |after: Duration, before: Duration| after.saturating_sub(before).as_secs_f64() * 1e6 / deliveries;
    Ok(ManyWatched {
        side: server.side,
        watchers,
        reopened: crowd.reopened.load(Ordering::Relaxed),
        idle_kib: (after.anonymous_mib - before.anonymous_mib).max(0.0) * 1024.0 / watchers as f64,
        seconds: elapsed.as_secs_f64(),
        deliveries_per_second: deliveries / elapsed.as_secs_f64().max(1e-9),
        server_cpu_us: micros(process::cpu(&server.pids())?, server_before),
        client_cpu_us: micros(process::cpu(&own)?, client_before),
    })
}

async fn gather(server: &Server, revision: &str, watchers: usize) -> anyhow::Result<Crowd> {
    let (report, seen) = mpsc::channel(watchers);
    let reopened = Arc::new(AtomicUsize::new(0));
    let mut left = watchers;
    while left > 0 {
        let connection = server.target.connect().await?;
        let share = left.min(STREAMS_PER_CONNECTION);
        left -= share;
        let mut open = 0;
        while open < share {
            let some = OPENED_AT_ONCE.min(share - open);
            open += some;
            let opened = (0..some).map(|_| open_watch(&connection, revision));
            for (mut watcher, body) in futures::future::try_join_all(opened).await? {
                let (report, reopened) = (report.clone(), reopened.clone());
                tokio::spawn(async move {
                    if let Err(error) = watcher.follow(body, &report, &reopened).await {
                        // The measurement may have ended.
                        let _ = report.send(Err(error)).await;
                    }
                });
            }
        }
    }
    Ok(Crowd { seen, reopened })
}

async fn open_watch(connection: &Connection, revision: &str) -> anyhow::Result<(Watcher, hyper::body::Incoming)> {
    let connection = connection.share().context("many watchers need HTTP/2")?;
    let mut watcher = Watcher::new(connection, NAMESPACE, revision, EVENTS);
    let body = watcher.open().await?;
    Ok((watcher, body))
}

/// At a steady pace, as far as the server keeps up.
async fn write_events(server: &Server) -> anyhow::Result<()> {
    let mut writer = server.target.connect().await?;
    let mut pace = tokio::time::interval(Duration::from_secs(1) / EVENTS_PER_SECOND);
    for number in 0..EVENTS {
        pace.tick().await;
        let body = config_map(&format!("event-{number}"));
        let written = writer.call(Call::create(collection(NAMESPACE), body)).await?;
        ensure!(written.status.is_success(), "a create failed: {}", written.status);
    }
    Ok(())
}
