//! Hundreds of agents with simulated members on this machine: memory and CPU of the control plane per agent.

use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use futures::StreamExt;
use serde::{Deserialize, Serialize};

use crate::fleet::light_member::{Agent, LightMember};
use crate::fleet::plane::{BenchPlane, Which};
use crate::idle::IdleOptions;
use crate::machine;
use crate::options::BenchOptions;
use crate::process::{self, Memory, Sample};
use crate::report::rows::{Better, Row, RowTarget};
use crate::scale::all_ready;

/// Options of the agents benchmark.
#[derive(Clone, Default, Args)]
pub struct AgentsOptions {
    /// Agents, each with its own member [default: 200; --quick 20].
    #[arg(long, value_name = "N")]
    agents: Option<usize>,
    #[command(flatten)]
    idle: IdleOptions,
}

#[derive(Default, Serialize, Deserialize)]
pub struct Results {
    pub agents: usize,
    /// From the start of the first agent until the last cluster was ready.
    pub ready_seconds: f64,
    /// The control plane before any agent.
    pub empty: Memory,
    pub empty_cpu_percent: f64,
    pub samples: Vec<Sample>,
    /// Of one agent and of one member.
    pub agent_memory: Memory,
    pub agent_cpu_percent: f64,
    pub member_memory: Memory,
    pub member_cpu_percent: f64,
}

const STARTED_AT_ONCE: usize = 4;
const READY_MAX: Duration = Duration::from_secs(120);
const SETTLE: Duration = Duration::from_secs(20);
const EMPTY: Duration = Duration::from_secs(10);
/// Maximum memory of a member and its agent, without shared pages.
const EACH_MIB: f64 = 60.0;

pub async fn run(options: &BenchOptions, own: &AgentsOptions, results: &mut Results) -> anyhow::Result<()> {
    results.agents = options.size(own.agents, 20, 200);
    let (needed, available) = (results.agents as f64 * EACH_MIB, machine::available_mib());
    ensure!(needed < available, "requires {needed:.0} MiB, {available:.0} MiB are available");
    let plane = BenchPlane::start(Which::Flotilla, options).await?;
    eprintln!("starting {} members ...", results.agents);
    let starts = futures::stream::iter(0..results.agents).map(|number| start_member(number, options));
    let started: Vec<_> = starts.buffer_unordered(STARTED_AT_ONCE).collect().await;
    let members: Vec<LightMember> = started.into_iter().collect::<anyhow::Result<_>>()?;
    results.empty_cpu_percent = process::cpu_percent(&plane.pids(), EMPTY).await?;
    results.empty = process::memory(&plane.pids())?;
    let start = Instant::now();
    let kubeconfig = plane.kubeconfig();
    let agents = members.iter().map(|member| member.start_agent(&kubeconfig, options));
    let agents: Vec<Agent> = agents.collect::<anyhow::Result<_>>()?;
    ensure!(all_ready(&plane, results.agents, READY_MAX).await, "not all clusters are ready");
    results.ready_seconds = start.elapsed().as_secs_f64();
    eprintln!("{} agents ready after {:.1} s", agents.len(), results.ready_seconds);
    tokio::time::sleep(SETTLE).await;
    sample(options, own, results, (&plane, &members, &agents)).await
}

async fn start_member(number: usize, options: &BenchOptions) -> anyhow::Result<LightMember> {
    LightMember::start(&format!("edge{number:03}"), options, &[]).await
}

async fn sample(
    options: &BenchOptions,
    own: &AgentsOptions,
    results: &mut Results,
    (plane, members, agents): (&BenchPlane, &[LightMember], &[Agent]),
) -> anyhow::Result<()> {
    let of_agents: Vec<u32> = agents.iter().flat_map(Agent::pids).collect();
    let of_members: Vec<u32> = members.iter().flat_map(LightMember::pids).collect();
    let begin = Instant::now();
    let before = (process::cpu(&of_agents)?, process::cpu(&of_members)?);
    own.idle.sample(options, (10, 40), &plane.pids(), &mut results.samples).await?;
    let percent = |pids: &[u32], before: Duration| -> anyhow::Result<f64> {
        let used = process::cpu(pids)?.saturating_sub(before).as_secs_f64();
        Ok(used / begin.elapsed().as_secs_f64() * 100.0 / pids.len().max(1) as f64)
    };
    results.agent_cpu_percent = percent(&of_agents, before.0)?;
    results.member_cpu_percent = percent(&of_members, before.1)?;
    results.agent_memory = process::memory(&of_agents)?.over(of_agents.len());
    results.member_memory = process::memory(&of_members)?.over(of_members.len());
    Ok(())
}

pub fn rows(results: &Results) -> Vec<Row> {
    let Some(last) = results.samples.last() else { return Vec::new() };
    let count = results.agents;
    let mean = results.samples.iter().map(|s| s.cpu_percent).sum::<f64>() / results.samples.len() as f64;
    let row = |what: String, unit, value, target| Row::new(what, unit, Better::Lower, value, None, target);
    vec![
        row(format!("plane with {count} agents, memory"), "MiB", last.memory.resident_mib, None),
        row("memory of the plane per agent".to_owned(), "KiB", per_agent_kib(results, last), None),
        row(format!("plane with {count} agents, processor time at rest"), "% of a core", mean, None),
        row(
            "memory of an idle agent".to_owned(),
            "MiB",
            results.agent_memory.resident_mib,
            Some(RowTarget::Below(30.0)),
        ),
    ]
}

fn per_agent_kib(results: &Results, sample: &Sample) -> f64 {
    (sample.memory.resident_mib - results.empty.resident_mib).max(0.0) * 1024.0 / results.agents.max(1) as f64
}

pub fn details(results: &Results) -> String {
    let mut text = format!(
        "{} `flotilla agent` processes, each next to a `flotilla member` with one node, all on this machine; all clusters were ready \
         {:.1} s after the first agent started. The plane alone: {:.0} MiB, {:.2} % of a core. An agent: {:.1} MiB resident, {:.1} MiB \
         without file pages, {:.2} % of a core; a member: {:.1} MiB without file pages, {:.2} % of a core. No comparison: Karmada was \
         not run at this size.\n",
        results.agents,
        results.ready_seconds,
        results.empty.resident_mib,
        results.empty_cpu_percent,
        results.agent_memory.resident_mib,
        results.agent_memory.anonymous_mib,
        results.agent_cpu_percent,
        results.member_memory.anonymous_mib,
        results.member_cpu_percent,
    );
    text += &process::samples_table(&results.samples, Some(results.agents));
    text
}
