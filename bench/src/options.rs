//! What can be asked for on the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

use crate::failover::FailoverOptions;
use crate::propagation::PropagationOptions;
use crate::scheduler::SchedulerOptions;

/// Measures `flotilla server` beside kube-apiserver on etcd and writes the ratios down.
///
/// Both run on this machine at the same time with their data on the same disk, and are driven by the same code in turns.
/// kube-apiserver and etcd come from `tools/kube/build`; the release build of flotilla is made first.
#[derive(Clone, Parser)]
#[command(name = "bench")]
pub struct Options {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// A rough picture in under 90 seconds.
    #[arg(long)]
    pub quick: bool,
    /// Only these measurements; may be given several times.
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<Scenario>,
    /// Measure flotilla alone.
    #[arg(long)]
    pub without_kube: bool,
    /// Let kube-apiserver grow to 100,000 objects as well, which takes some minutes more.
    #[arg(long)]
    pub long: bool,
    /// The protocol of all clients.
    #[arg(long, value_enum, default_value_t = Protocol::Http2)]
    pub protocol: Protocol,
    /// How many clients write and read at the same time.
    #[arg(long, default_value_t = 64, value_name = "N")]
    pub clients: usize,
    /// How long each side is loaded in one turn, in seconds.
    #[arg(long, value_name = "SECONDS")]
    turn: Option<f64>,
    /// Folder the servers' data directories are made in; it should be on the disk in question.
    #[arg(long, default_value = "target/bench-data", value_name = "DIR")]
    pub data: PathBuf,
    /// Where report.md and report.json are written.
    #[arg(long, default_value = "bench/out", value_name = "DIR")]
    pub out: PathBuf,
    /// The flotilla program to measure [default: built from this tree].
    #[arg(long, env = "FLOTILLA_BIN", value_name = "FILE")]
    pub flotilla: Option<PathBuf>,
    /// Where kube-apiserver and etcd are [default: ~/.cache/flotilla/bin].
    #[arg(long, env = "FLOTILLA_KUBE_BIN", value_name = "DIR")]
    kube_bin: Option<PathBuf>,
}

#[derive(Clone, Subcommand)]
pub enum Command {
    /// Propagate Deployments to three real members, beside Karmada itself.
    Propagation(PropagationOptions),
    /// Decisions of the scheduler alone, in this process.
    Scheduler(SchedulerOptions),
    /// Lose one of three members with hundreds of applications on it.
    Failover(FailoverOptions),
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
    /// One-object operations beside 1,000, 10,000 and 100,000 objects.
    Growth,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    Http1,
    Http2,
}

impl Options {
    pub fn wants(&self, scenario: Scenario) -> bool {
        self.only.is_empty() || self.only.contains(&scenario)
    }

    pub fn turn(&self) -> Duration {
        let default = if self.quick { 1.5 } else { 4.0 };
        Duration::from_secs_f64(self.turn.unwrap_or(default).clamp(0.1, 600.0))
    }

    /// How often both sides take turns.
    pub fn rounds(&self) -> usize {
        if self.quick { 1 } else { 2 }
    }

    pub fn listed_objects(&self) -> usize {
        10_000
    }

    pub fn growth_sizes(&self) -> &'static [usize] {
        if self.quick { &[1_000, 10_000] } else { &[1_000, 10_000, 100_000] }
    }

    /// kube-apiserver needs minutes for 100,000 objects, and only our growth is under test.
    pub fn growth_kube_max(&self) -> usize {
        match (self.quick, self.long) {
            (_, true) => usize::MAX,
            (true, false) => 0,
            (false, false) => 10_000,
        }
    }

    pub fn kube_bin(&self) -> PathBuf {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        self.kube_bin.clone().unwrap_or_else(|| home.join(".cache/flotilla/bin"))
    }
}
