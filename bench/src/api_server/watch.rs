//! Watch fan-out: the time until every watcher has received every event of a burst.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::api_server::objects::{collection, config_map, make_namespace, pause, turns};
use crate::api_server::results::FannedOut;
use crate::load::{Calls, Until, drive};
use crate::options::Api;
use crate::process;
use crate::server::Server;
use crate::wire::{Call, Connection};

pub const WATCHERS: usize = 100;
pub const EVENTS: usize = 200;
const NAMESPACE: &str = "watched";
const WRITERS: usize = 50;
const BURSTS: usize = 10;
const TIMEOUT: Duration = Duration::from_secs(30);

struct Audience {
    writers: Vec<Connection>,
    /// One message per watcher that has received all events of the burst, or its error.
    seen: mpsc::Receiver<anyhow::Result<()>>,
    reopened: Arc<AtomicUsize>,
    bursts: Vec<Duration>,
    server_cpu: Duration,
    client_cpu: Duration,
}

pub async fn measure(servers: &[Server], options: Api<'_>) -> anyhow::Result<Vec<FannedOut>> {
    let mut audiences = Vec::new();
    for server in servers {
        make_namespace(server, NAMESPACE).await?;
        // Controllers create objects in a new namespace; these must not count as events.
        tokio::time::sleep(Duration::from_secs(1)).await;
        audiences.push(gather_audience(server).await?);
    }
    let bursts = if options.options.quick { 3 } else { BURSTS };
    // Burst 0 is a warm-up and does not count.
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
    let revision = revision_of(server, NAMESPACE).await?;
    let (report, seen) = mpsc::channel(WATCHERS);
    let reopened = Arc::new(AtomicUsize::new(0));
    for _ in 0..WATCHERS {
        let mut watcher = Watcher::new(server.target.connect().await?, NAMESPACE, &revision, EVENTS);
        let body = watcher.open().await?;
        let (report, reopened) = (report.clone(), reopened.clone());
        tokio::spawn(async move {
            if let Err(error) = watcher.follow(body, &report, &reopened).await {
                // The measurement may have ended.
                let _ = report.send(Err(error)).await;
            }
        });
    }
    let writers = server.target.connect_many(WRITERS).await?;
    let (server_cpu, client_cpu) = (Duration::ZERO, Duration::ZERO);
    Ok(Audience { writers, seen, reopened, bursts: Vec::new(), server_cpu, client_cpu })
}

/// The version of a namespace's objects from which watches can start.
pub async fn revision_of(server: &Server, namespace: &str) -> anyhow::Result<String> {
    let mut lister = server.target.connect().await?;
    let list = lister.read(Call::get(format!("{}?limit=1", collection(namespace)))).await?;
    let list: Value = serde_json::from_slice(&list).context("the list is not JSON")?;
    let revision = list["metadata"]["resourceVersion"].as_str().context("the list has no resourceVersion")?;
    Ok(revision.to_owned())
}

pub struct Watcher {
    connection: Connection,
    namespace: &'static str,
    /// The start of the watch.
    revision: String,
    /// Events of a burst.
    burst: usize,
    lines: Lines,
}

impl Watcher {
    pub fn new(connection: Connection, namespace: &'static str, revision: &str, burst: usize) -> Self {
        Self { connection, namespace, revision: revision.to_owned(), burst, lines: Lines::default() }
    }

    pub async fn open(&mut self) -> anyhow::Result<Incoming> {
        let query = format!("watch=true&resourceVersion={}&timeoutSeconds=600", self.revision);
        let (status, body) = self.connection.open(Call::get(format!("{}?{query}", collection(self.namespace)))).await?;
        ensure!(status.is_success(), "a watch failed: {status}");
        Ok(body)
    }

    /// kube-apiserver closes slow watches; like any client, the watcher then resumes.
    pub async fn follow(
        &mut self,
        mut body: Incoming,
        report: &mpsc::Sender<anyhow::Result<()>>,
        reopened: &AtomicUsize,
    ) -> anyhow::Result<()> {
        loop {
            while let Some(Ok(frame)) = body.frame().await {
                let Ok(data) = frame.into_data() else { continue };
                let before = self.lines.count / self.burst;
                self.lines.add(data);
                for _ in before..self.lines.count / self.burst {
                    report.send(Ok(())).await?;
                }
            }
            reopened.fetch_add(1, Ordering::Relaxed);
            self.revision = self.lines.revision().unwrap_or_else(|| self.revision.clone());
            self.lines.part.clear();
            body = self.open().await?;
        }
    }
}

/// Events are lines; frames may end anywhere in one.
#[derive(Default)]
struct Lines {
    count: usize,
    last: Bytes,
    /// The part of an incomplete line.
    part: Vec<u8>,
}

impl Lines {
    fn add(&mut self, data: Bytes) {
        let Some(end) = memchr::memrchr(b'\n', &data) else { return self.part.extend_from_slice(&data) };
        self.count += memchr::memchr_iter(b'\n', &data[..=end]).count();
        self.last = match memchr::memrchr(b'\n', &data[..end]) {
            Some(before) => data.slice(before + 1..end),
            None => {
                self.part.extend_from_slice(&data[..end]);
                std::mem::take(&mut self.part).into()
            }
        };
        self.part.clear();
        self.part.extend_from_slice(&data[end + 1..]);
    }

    fn revision(&self) -> Option<String> {
        let event: Value = serde_json::from_slice(&self.last).ok()?;
        event["object"]["metadata"]["resourceVersion"].as_str().map(str::to_owned)
    }
}

async fn run_burst(server: &Server, audience: &mut Audience, burst: usize) -> anyhow::Result<()> {
    let path = collection(NAMESPACE);
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
            let seen = audience.seen.recv().await.context("all watches broke off")?;
            seen.with_context(|| format!("{:?}", server.side))?;
        }
        anyhow::Ok(start.elapsed())
    };
    let (written, elapsed) = tokio::join!(write, tokio::time::timeout(TIMEOUT, all_seen));
    ensure!(written?.figures().refused == 0, "creates failed");
    let elapsed = elapsed.with_context(|| format!("{:?}: not all watchers received all events", server.side))??;
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
            reopened: self.reopened.load(Ordering::Relaxed),
            median_ms: self.bursts[self.bursts.len() / 2].as_secs_f64() * 1e3,
            deliveries_per_second: deliveries / total.as_secs_f64().max(1e-9),
            server_cpu_us: self.server_cpu.as_secs_f64() * 1e6 / deliveries,
            client_cpu_us: self.client_cpu.as_secs_f64() * 1e6 / deliveries,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::Lines;

    #[test]
    fn events_are_counted_wherever_frames_end() {
        let event = |n: u32| format!("{{\"object\":{{\"metadata\":{{\"resourceVersion\":\"{n}\"}}}}}}\n");
        let text: String = (1..=5).map(event).collect();
        for size in 1..text.len() {
            let mut lines = Lines::default();
            text.as_bytes().chunks(size).for_each(|chunk| lines.add(Bytes::copy_from_slice(chunk)));
            assert_eq!((lines.count, lines.revision().as_deref()), (5, Some("5")), "frames of {size} bytes");
        }
    }
}
