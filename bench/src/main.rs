//! Compares flotilla with real Karmada, kube-apiserver and etcd: same machine, same run, same load, one report.

mod agents;
mod api_server;
mod failover;
mod first_workload;
mod fleet;
mod idle;
mod load;
mod machine;
mod manager;
mod options;
mod outcome;
mod parts;
mod process;
mod programs;
mod propagation;
mod report;
mod restart;
mod scale;
mod scheduler;
mod search;
mod server;
mod start;
mod wire;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::options::BenchOptions;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = BenchOptions::parse();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // The losing branch is dropped here, with every program it started and every directory it created.
    let ended = tokio::select! {
        ended = parts::run(&options) => Some(ended),
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
    };
    match ended {
        Some(ended) => ended,
        None => {
            eprintln!("interrupted; all started programs were stopped");
            std::process::exit(130)
        }
    }
}
