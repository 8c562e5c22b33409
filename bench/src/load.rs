//! Many concurrent clients, each sending its next request after the last response, and their results.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::process;
use crate::server::Server;
use crate::wire::{Call, Connection};

/// When the clients stop.
#[derive(Clone, Copy)]
pub enum Until {
    Elapsed(Duration),
    /// Requests of each client.
    Count(usize),
}

/// Maps client number and request number to a request.
pub type Calls = Arc<dyn Fn(usize, usize) -> Call + Send + Sync>;

/// The results of several turns against one server.
#[derive(Default)]
pub struct Sample {
    latencies: Vec<Duration>,
    refused: usize,
    bytes: u64,
    elapsed: Duration,
    server_cpu: Duration,
    client_cpu: Duration,
}

/// The figures of a sample for a report.
#[derive(Clone, Serialize, Deserialize)]
pub struct Figures {
    pub requests: usize,
    /// Failed responses; they make a report invalid.
    pub refused: usize,
    pub per_second: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub server_cpu_us: f64,
    /// The load generator shares the processors with the servers.
    pub client_cpu_us: f64,
    pub mib_per_answer: f64,
}

/// Latencies in milliseconds.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub struct Percentiles {
    pub p50_ms: f64,
    pub p99_ms: f64,
}

impl Percentiles {
    pub fn of(mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        let at = |percent| percentile(&latencies, percent).as_secs_f64() * 1e3;
        Self { p50_ms: at(50), p99_ms: at(99) }
    }
}

/// Drives the server with one client per connection; returns the connections for the next turn.
pub async fn drive(
    server: &Server,
    clients: &mut Vec<Connection>,
    until: Until,
    calls: &Calls,
) -> anyhow::Result<Sample> {
    let server_before = process::cpu(&server.pids())?;
    let client_before = process::cpu(&[std::process::id()])?;
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for (number, connection) in clients.drain(..).enumerate() {
        let calls = calls.clone();
        tasks.spawn(async move { client(number, connection, start, until, &calls).await });
    }
    let mut sample = Sample::default();
    while let Some(ended) = tasks.join_next().await {
        let (connection, part) = ended.context("a client failed")??;
        clients.push(connection);
        sample.add(part);
    }
    sample.elapsed = start.elapsed();
    sample.server_cpu = process::cpu(&server.pids())?.saturating_sub(server_before);
    sample.client_cpu = process::cpu(&[std::process::id()])?.saturating_sub(client_before);
    Ok(sample)
}

async fn client(
    number: usize,
    mut connection: Connection,
    start: Instant,
    until: Until,
    calls: &Calls,
) -> anyhow::Result<(Connection, Sample)> {
    let mut sample = Sample::default();
    let mut request = 0;
    while match until {
        Until::Elapsed(limit) => start.elapsed() < limit,
        Until::Count(limit) => request < limit,
    } {
        let call = calls(number, request);
        let sent = Instant::now();
        let answer = connection.call(call).await?;
        sample.latencies.push(sent.elapsed());
        sample.refused += usize::from(!answer.status.is_success());
        sample.bytes += answer.bytes as u64;
        request += 1;
    }
    Ok((connection, sample))
}

impl Sample {
    /// Combines the turns of one side.
    pub fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.refused += other.refused;
        self.bytes += other.bytes;
        self.elapsed += other.elapsed;
        self.server_cpu += other.server_cpu;
        self.client_cpu += other.client_cpu;
    }

    pub fn figures(mut self) -> Figures {
        self.latencies.sort_unstable();
        let count = self.latencies.len().max(1) as f64;
        Figures {
            requests: self.latencies.len(),
            refused: self.refused,
            per_second: self.latencies.len() as f64 / self.elapsed.as_secs_f64().max(1e-9),
            p50_ms: percentile(&self.latencies, 50).as_secs_f64() * 1e3,
            p99_ms: percentile(&self.latencies, 99).as_secs_f64() * 1e3,
            server_cpu_us: self.server_cpu.as_secs_f64() * 1e6 / count,
            client_cpu_us: self.client_cpu.as_secs_f64() * 1e6 / count,
            mib_per_answer: self.bytes as f64 / count / (1 << 20) as f64,
        }
    }
}

/// The smallest latency that this percentage does not exceed.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::percentile;

    #[test]
    fn percentiles_are_measured_values() {
        let check = |count: u64, percent, expected| {
            let sorted: Vec<Duration> = (1..=count).map(Duration::from_millis).collect();
            assert_eq!(percentile(&sorted, percent), Duration::from_millis(expected), "{percent} % of {count}");
        };
        check(100, 50, 50);
        check(100, 99, 99);
        check(1000, 99, 990);
        check(1, 99, 1);
        check(0, 50, 0);
    }
}
