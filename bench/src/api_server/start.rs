//! Time from an empty directory to ready, and idle memory of a server.

use std::time::Duration;

use crate::api_server::results::Started;
use crate::options::Api;
use crate::process::{self, Memory};
use crate::server::{Server, Side};

const IDLE: Duration = Duration::from_secs(10);

/// Starts every side several times, always alone, and keeps the last one of each running.
pub async fn measure(sides: &[Side], options: Api<'_>) -> anyhow::Result<(Vec<Server>, Vec<Started>)> {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); sides.len()];
    for _ in 0..options.rounds() {
        for (side, times) in sides.iter().zip(&mut times) {
            times.push(Server::start(*side, options.options).await?.ready_after.as_secs_f64());
        }
    }
    let servers = start_all(sides, options).await?;
    eprintln!("  idle for {} s", IDLE.as_secs());
    let before = idle_cpu(&servers)?;
    tokio::time::sleep(IDLE).await;
    let after = idle_cpu(&servers)?;
    let mut started = Vec::new();
    for (index, server) in servers.iter().enumerate() {
        times[index].push(server.ready_after.as_secs_f64());
        times[index].sort_by(f64::total_cmp);
        let memory: Memory = process::memory(&server.pids())?;
        let cpu = after[index].saturating_sub(before[index]);
        started.push(Started {
            side: server.side,
            ready_seconds: times[index][times[index].len() / 2],
            starts: times[index].len(),
            idle_memory: memory,
            idle_cpu_percent: cpu.as_secs_f64() / IDLE.as_secs_f64() * 100.0,
        });
    }
    Ok((servers, started))
}

pub async fn start_all(sides: &[Side], options: Api<'_>) -> anyhow::Result<Vec<Server>> {
    let mut servers = Vec::new();
    for side in sides {
        let server = Server::start(*side, options.options).await?;
        eprintln!("  {side:?} ready after {:.3} s, processes {:?}", server.ready_after.as_secs_f64(), server.pids());
        servers.push(server);
    }
    Ok(servers)
}

fn idle_cpu(servers: &[Server]) -> anyhow::Result<Vec<Duration>> {
    servers.iter().map(|server| process::cpu(&server.pids())).collect()
}
