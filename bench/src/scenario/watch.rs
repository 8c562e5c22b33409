//! Watch fan-out: how long until every watcher has seen every event of a burst.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::load::{Calls, Until, drive};
use crate::options::Options;
use crate::process;
use crate::report::FannedOut;
use crate::scenario::{collection, config_map, make_namespace, pause, turns};
use crate::server::Server;
use crate::wire::{Call, Connection};

pub const WATCHERS: usize = 100;
pub const EVENTS: usize = 200;
const WRITERS: usize = 50;
const BURSTS: usize = 10;
const TIMEOUT: Duration = Duration::from_secs(30);

struct Audience {
    writers: Vec<Connection>,
    /// One message per watcher that has seen all events of the burst.
    seen: mpsc::Receiver<()>,
    /// Held so that the watches stay open.
    _watchers: Vec<Connection>,
    bursts: Vec<Duration>,
    server_cpu: Duration,
    client_cpu: Duration,
}

pub async fn measure(servers: &[Server], options: &Options) -> anyhow::Result<Vec<FannedOut>> {
    let mut audiences = Vec::new();
    for server in servers {
        make_namespace(server, "watched").await?;
        // Controllers put their own objects into a new namespace; these must not count as events.
        tokio::time::sleep(Duration::from_secs(1)).await;
        audiences.push(gather_audience(server).await?);
    }
    let bursts = if options.quick { 3 } else { BURSTS };
    // Burst 0 warms up and does not count.
    for burst in 0..=bursts {
        for turn in turns(burst, servers) {
            run_burst(&servers[turn], &mut audiences[turn], burst).await?;
            pause().await;
        }
    }
    let sides = servers.iter().map(|server| server.side);
    Ok(sides.zip(audiences).map(|(side, audience)| audience.figures(side)).collect())
}

async fn gather_audience(server: &Server) -> anyhow::Result<Audience> {
    let mut lister = server.target.connect().await?;
    let list = lister.read(Call::get(format!("{}?limit=1", collection("watched")))).await?;
    let list: Value = serde_json::from_slice(&list).context("the list is not JSON")?;
    let revision = list["metadata"]["resourceVersion"].as_str().context("the list has no resourceVersion")?;
    let path = format!("{}?watch=true&resourceVersion={revision}&timeoutSeconds=600", collection("watched"));
    let (report, seen) = mpsc::channel(WATCHERS);
    let mut watchers = Vec::new();
    for _ in 0..WATCHERS {
        let mut connection = server.target.connect().await?;
        let (status, body) = connection.open(Call::get(path.clone())).await?;
        ensure!(status.is_success(), "a watch was refused: {status}");
        tokio::spawn(count_events(body, report.clone()));
        watchers.push(connection);
    }
    let writers = server.target.connect_many(WRITERS).await?;
    Ok(Audience {
        writers,
        seen,
        _watchers: watchers,
        bursts: Vec::new(),
        server_cpu: Duration::ZERO,
        client_cpu: Duration::ZERO,
    })
}

/// Every event is one line; a watch that breaks off reports nothing, and the burst runs into its time limit.
async fn count_events(mut body: Incoming, report: mpsc::Sender<()>) {
    let mut lines = 0;
    while let Some(Ok(frame)) = body.frame().await {
        let before = lines / EVENTS;
        lines += frame.data_ref().map_or(0, |data| memchr::memchr_iter(b'\n', data).count());
        for _ in before..lines / EVENTS {
            if report.send(()).await.is_err() {
                return;
            }
        }
    }
}

async fn run_burst(server: &Server, audience: &mut Audience, burst: usize) -> anyhow::Result<()> {
    let path = collection("watched");
    let calls: Calls = Arc::new(move |client, request| -> Call {
        let body: Bytes = config_map(&format!("event-{burst}-{client}-{request}"));
        Call::create(path.clone(), body)
    });
    let own = [std::process::id()];
    let (server_before, client_before) = (process::cpu(&server.pids())?, process::cpu(&own)?);
    let start = Instant::now();
    let write = drive(server, &mut audience.writers, Until::Count(EVENTS / WRITERS), &calls);
    let all_seen = async {
        for _ in 0..WATCHERS {
            audience.seen.recv().await.context("all watches broke off")?;
        }
        anyhow::Ok(start.elapsed())
    };
    let (written, elapsed) = tokio::join!(write, tokio::time::timeout(TIMEOUT, all_seen));
    ensure!(written?.figures().refused == 0, "creates were refused");
    let elapsed = elapsed.with_context(|| format!("{:?}: not every watcher has seen every event", server.side))??;
    if burst > 0 {
        audience.bursts.push(elapsed);
        audience.server_cpu += process::cpu(&server.pids())?.saturating_sub(server_before);
        audience.client_cpu += process::cpu(&own)?.saturating_sub(client_before);
    }
    Ok(())
}

impl Audience {
    fn figures(mut self, side: crate::server::Side) -> FannedOut {
        self.bursts.sort_unstable();
        let total: Duration = self.bursts.iter().sum();
        let deliveries = (self.bursts.len() * EVENTS * WATCHERS) as f64;
        FannedOut {
            side,
            bursts: self.bursts.len(),
            median_ms: self.bursts[self.bursts.len() / 2].as_secs_f64() * 1e3,
            deliveries_per_second: deliveries / total.as_secs_f64().max(1e-9),
            server_cpu_us: self.server_cpu.as_secs_f64() * 1e6 / deliveries,
            client_cpu_us: self.client_cpu.as_secs_f64() * 1e6 / deliveries,
        }
    }
}
