//! Measures `flotilla server` beside kube-apiserver on etcd: same machine, same run, same load.

mod failover;
mod load;
mod machine;
mod options;
mod process;
mod propagation;
mod report;
mod run;
mod scenario;
mod scheduler;
mod server;
mod wire;

use std::io::Write;

use anyhow::Context;
use clap::Parser;

use crate::failover::FailoverOptions;
use crate::options::{Command, Options};
use crate::propagation::PropagationOptions;
use crate::scheduler::SchedulerOptions;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    match &options.command {
        Some(Command::Propagation(own)) => compare_propagation(&options, own).await,
        Some(Command::Scheduler(own)) => measure_scheduler(&options, own),
        Some(Command::Failover(own)) => measure_failover(&options, own).await,
        None => compare_servers(&options).await,
    }
}

async fn compare_propagation(options: &Options, own: &PropagationOptions) -> anyhow::Result<()> {
    let results = propagation::run(options, own).await?;
    let text = propagation::table(&results);
    std::io::stdout().write_all(text.as_bytes()).context("cannot print the table")?;
    let json = serde_json::to_string_pretty(&results).context("cannot write the report as JSON")?;
    write_down(options, &[("propagation.md", text), ("propagation.json", json)])
}

fn measure_scheduler(options: &Options, own: &SchedulerOptions) -> anyhow::Result<()> {
    let figures = scheduler::run(own)?;
    let text = scheduler::table(&figures);
    std::io::stdout().write_all(text.as_bytes()).context("cannot print the table")?;
    let json = serde_json::to_string_pretty(&figures).context("cannot write the figures as JSON")?;
    write_down(options, &[("scheduler.md", text), ("scheduler.json", json)])
}

async fn measure_failover(options: &Options, own: &FailoverOptions) -> anyhow::Result<()> {
    let results = failover::run(options, own).await?;
    let text = failover::table(&results);
    std::io::stdout().write_all(text.as_bytes()).context("cannot print the table")?;
    let json = serde_json::to_string_pretty(&results).context("cannot write the figures as JSON")?;
    write_down(options, &[("failover.md", text), ("failover.json", json)])
}

async fn compare_servers(options: &Options) -> anyhow::Result<()> {
    let report = run::run(options).await?;
    let text = report::text::table(&report);
    std::io::stdout().write_all(text.as_bytes()).context("cannot print the table")?;
    let json = serde_json::to_string_pretty(&report).context("cannot write the report as JSON")?;
    write_down(options, &[("report.md", report::text::markdown(&report)), ("report.json", json)])
}

fn write_down(options: &Options, files: &[(&str, String)]) -> anyhow::Result<()> {
    let folder = &options.out;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for (name, text) in files {
        let file = folder.join(name);
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        eprintln!("written: {}", file.display());
    }
    Ok(())
}
