//! Command line options.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::agents::AgentsOptions;
use crate::failover::FailoverOptions;
use crate::manager::ManagerBenchOptions;
use crate::propagation::PropagationOptions;
use crate::restart::RestartOptions;
use crate::scale::ScaleOptions;
use crate::scheduler::SchedulerBenchOptions;
use crate::search::SearchOptions;

/// Compares flotilla with real Karmada, kube-apiserver and etcd, and writes one report with a plot.
///
/// Everything runs on this machine in one run with the same load generator. Without a command all parts run. The
/// other programs are built by `tools/kube/build`; the release build of flotilla is made first unless --flotilla is
/// set.
#[derive(Clone, Parser)]
#[command(name = "bench")]
pub struct BenchOptions {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Small sizes: a rough picture of all parts in under ten minutes.
    #[arg(long, global = true)]
    pub quick: bool,
    /// Time limit of all parts together; the report lists parts that did not run [default: 60; --quick 10].
    #[arg(long, global = true, value_name = "MINUTES")]
    pub minutes: Option<f64>,
    /// Measure flotilla alone.
    #[arg(long, global = true)]
    pub alone: bool,
    /// The protocol of all clients.
    #[arg(long, global = true, value_enum, default_value_t = Protocol::Http2)]
    pub protocol: Protocol,
    /// Parent of the data directories; choose the disk to be measured.
    #[arg(long, global = true, default_value = "target/bench-data", value_name = "DIR")]
    pub data: PathBuf,
    /// Output directory of the report, its plots and the figures of every part.
    #[arg(long, global = true, default_value = "bench/out", value_name = "DIR")]
    pub out: PathBuf,
    /// The flotilla program to measure [default: built from this tree].
    #[arg(long, global = true, env = "FLOTILLA_BIN", value_name = "FILE")]
    pub flotilla: Option<PathBuf>,
    /// Directory of the Kubernetes and Karmada programs [default: ~/.cache/flotilla/bin].
    #[arg(long, global = true, env = "FLOTILLA_KUBE_BIN", value_name = "DIR")]
    kube_bin: Option<PathBuf>,
}

#[derive(Clone, Subcommand)]
pub enum Command {
    /// Every part below, then the report.
    All,
    /// Time to ready and idle memory of the whole control plane, compared with Karmada.
    Start,
    /// The API server compared with kube-apiserver on etcd.
    Api(ApiOptions),
    /// Decisions of the scheduler alone, in this process.
    Scheduler(SchedulerBenchOptions),
    /// Propagate Deployments to three real members, compared with Karmada.
    Propagation(PropagationOptions),
    /// Restart with thousands of bindings, compared with Karmada.
    Restart(RestartOptions),
    /// Lose one of three members with hundreds of applications on it.
    Failover(FailoverOptions),
    /// Hundreds of agents with simulated members.
    Agents(AgentsOptions),
    /// A hundred large simulated members.
    Scale(ScaleOptions),
    /// A hundred thousand pods of ten members in the cache of search.
    Search(SearchOptions),
    /// A hundred control planes in one manager.
    Manager(ManagerBenchOptions),
    /// Rewrite the report from the figures in --out.
    Report,
}

/// Options of the API server benchmark.
#[derive(Clone, Args)]
pub struct ApiOptions {
    /// Only these measurements; may be repeated.
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<Scenario>,
    /// Also grow kube-apiserver to 100,000 objects, which takes some more minutes.
    #[arg(long)]
    pub long: bool,
    /// Number of concurrent clients.
    #[arg(long, default_value_t = 64, value_name = "N")]
    pub clients: usize,
    /// Load time of each side per turn, in seconds.
    #[arg(long, value_name = "SECONDS")]
    turn: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    /// Time to ready from an empty directory, memory when idle.
    Start,
    Create,
    Get,
    Patch,
    List,
    Watch,
    /// Thousands of watchers on few connections.
    Watchers,
    /// Single-object operations with 1,000, 10,000 and 100,000 objects.
    Growth,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    Http1,
    Http2,
}

impl BenchOptions {
    /// Returns the given size, or the default for a quick or full run.
    pub fn size<T>(&self, given: Option<T>, quick: T, full: T) -> T {
        given.unwrap_or(if self.quick { quick } else { full })
    }

    pub fn kube_bin(&self) -> PathBuf {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        self.kube_bin.clone().unwrap_or_else(|| home.join(".cache/flotilla/bin"))
    }
}

/// The options of the API server benchmark, with the common ones.
#[derive(Clone, Copy)]
pub struct Api<'a> {
    pub options: &'a BenchOptions,
    pub own: &'a ApiOptions,
}

impl Api<'_> {
    pub fn wants(&self, scenario: Scenario) -> bool {
        self.own.only.is_empty() || self.own.only.contains(&scenario)
    }

    pub fn turn(&self) -> Duration {
        Duration::from_secs_f64(self.options.size(self.own.turn, 1.0, 3.0).clamp(0.1, 600.0))
    }

    /// Number of turns of both sides.
    pub fn rounds(&self) -> usize {
        if self.options.quick { 1 } else { 2 }
    }

    pub fn listed_objects(&self) -> usize {
        10_000
    }

    pub fn many_watchers(&self) -> usize {
        if self.options.quick { 1_000 } else { 10_000 }
    }

    pub fn growth_sizes(&self) -> &'static [usize] {
        if self.options.quick { &[1_000, 10_000] } else { &[1_000, 10_000, 100_000] }
    }

    /// kube-apiserver needs minutes for 100,000 objects, and only our growth is under test.
    pub fn growth_kube_max(&self) -> usize {
        match (self.options.quick, self.own.long) {
            (_, true) => usize::MAX,
            (true, false) => 0,
            (false, false) => 10_000,
        }
    }
}
