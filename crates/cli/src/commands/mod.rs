//! The commands, one file each, and what they share: logging and the runtime.

mod completion;
mod identity;
mod server;

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};

/// A multi-cluster Kubernetes control plane in one binary.
#[derive(Parser)]
#[command(name = "flotilla", version, propagate_version = true, max_term_width = 120)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// What to log: error, warn, info, debug, trace, or a filter such as `info,apiserver=debug`.
    #[arg(long, global = true, default_value = "info", env = "FLOTILLA_LOG", value_name = "FILTER")]
    log: String,
    /// How log lines look.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Subcommand)]
enum Command {
    /// Run the control plane: API server, storage, certificates and controllers in one process.
    Server(Box<server::ServerArgs>),
    /// Print a completion script for your shell.
    Completion(completion::CompletionArgs),
}

pub fn run(cli: Cli) -> anyhow::Result<()> {
    start_logging(&cli)?;
    match cli.command {
        Command::Server(args) => block_on(server::run(*args)),
        Command::Completion(args) => completion::run(&args),
    }
}

fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?.block_on(work)
}

fn start_logging(cli: &Cli) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(&cli.log)
        .with_context(|| format!("--log {:?} is not a filter; try info or debug", cli.log))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match cli.log_format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}
