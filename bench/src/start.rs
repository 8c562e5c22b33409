//! Time from an empty directory to ready, idle memory of a whole control plane, and the first workload of a testbed.

use std::fmt::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::first_workload::{self, FirstWorkload};
use crate::fleet::plane::{BenchPlane, Which};
use crate::options::BenchOptions;
use crate::process::{self, Memory};
use crate::programs;
use crate::report::rows::{Better, Row, RowTarget};

const FLOTILLA_STARTS: usize = 5;
/// Lets one-time work after a start finish.
const SETTLE: Duration = Duration::from_secs(15);
const IDLE: Duration = Duration::from_secs(15);

#[derive(Default, Serialize, Deserialize)]
pub struct Results {
    pub planes: Vec<Started>,
    #[serde(default)]
    pub first_workload: Option<FirstWorkload>,
}

#[derive(Serialize, Deserialize)]
pub struct Started {
    pub plane: Which,
    pub starts: usize,
    /// The median of all starts.
    pub ready_seconds: f64,
    pub idle: Memory,
    pub idle_cpu_percent: f64,
    pub processes: Vec<(String, Memory)>,
}

pub async fn run(options: &BenchOptions, results: &mut Results, notes: &mut Vec<String>) -> anyhow::Result<()> {
    results.planes.push(measure(Which::Flotilla, FLOTILLA_STARTS, options).await?);
    match first_workload::measure(options).await {
        Ok(first) => results.first_workload = Some(first),
        Err(error) => notes.push(format!("the first workload was not measured: {error:#}")),
    }
    if options.alone {
        return Ok(());
    }
    let karmada = async {
        programs::ensure_present(options, programs::KARMADA).await?;
        measure(Which::Karmada, if options.quick { 1 } else { 2 }, options).await
    };
    match karmada.await {
        Ok(started) => results.planes.push(started),
        Err(error) => notes.push(format!("the Karmada run failed: {error:#}")),
    }
    Ok(())
}

async fn measure(which: Which, starts: usize, options: &BenchOptions) -> anyhow::Result<Started> {
    let mut times = Vec::new();
    for _ in 1..starts {
        times.push(BenchPlane::start(which, options).await?.ready_after().as_secs_f64());
    }
    let plane = BenchPlane::start(which, options).await?;
    times.push(plane.ready_after().as_secs_f64());
    eprintln!("{which}: ready after {times:.2?} s, now idle for {} s", (SETTLE + IDLE).as_secs());
    times.sort_by(f64::total_cmp);
    tokio::time::sleep(SETTLE).await;
    let idle_cpu_percent = process::cpu_percent(&plane.pids(), IDLE).await?;
    let processes = plane.processes().into_iter().map(|(name, pid)| Ok((name, process::memory(&[pid])?)));
    Ok(Started {
        plane: which,
        starts,
        ready_seconds: times[times.len() / 2],
        idle: process::memory(&plane.pids())?,
        idle_cpu_percent,
        processes: processes.collect::<anyhow::Result<_>>()?,
    })
}

pub fn rows(results: &Results) -> Vec<Row> {
    let of = |which| results.planes.iter().find(|started| started.plane == which);
    let Some(ours) = of(Which::Flotilla) else { return Vec::new() };
    let theirs = of(Which::Karmada);
    let row = |what: &str, unit, value: fn(&Started) -> f64, target| {
        Row::new(what, unit, Better::Lower, value(ours), theirs.map(value), target)
    };
    let mut rows = vec![
        row("whole plane, ready from an empty directory", "s", |s| s.ready_seconds, Some(RowTarget::Below(1.0))),
        row("whole plane, idle memory, resident", "MiB", |s| s.idle.resident_mib, Some(RowTarget::Ratio(10.0))),
        row("whole plane, idle memory without file pages", "MiB", |s| s.idle.anonymous_mib, None),
        row("whole plane, idle processor time", "% of a core", |s| s.idle_cpu_percent, None),
    ];
    rows.extend(results.first_workload.iter().flat_map(first_workload::rows));
    rows
}

pub fn details(results: &Results) -> String {
    let mut text = "Ready: from the start of the first process on an empty directory until the plane answers; making our keys and \
                    installing Karmada's kinds are part of it, as they are for any installation. Idle: no members, no objects. The testbed has simulated \
                    nodes; its first workload is examples/nginx.\n\n\
                    | plane | process | resident | without file pages |\n|---|---|---:|---:|\n"
        .to_owned();
    for started in &results.planes {
        for (name, memory) in &started.processes {
            let _ = writeln!(
                text,
                "| {} | {name} | {:.0} MiB | {:.0} MiB |",
                started.plane, memory.resident_mib, memory.anonymous_mib
            );
        }
    }
    text
}
