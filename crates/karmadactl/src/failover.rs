//! `failover simulate`: shows where workloads would move if a cluster failed.

use clap::{Args, Subcommand};
use cluster_client::escape;

use crate::console::Console;
use crate::get::ask;
use crate::output::Format;
use crate::plane::{PlaneArgs, PlaneClient};
use crate::why::{check_ok, document_format, show, unknown_path};

const FAILOVER: &str = "/flotilla/v1alpha1/failover";

/// Simulate the failure of a cluster.
#[derive(Args, Debug)]
pub struct FailoverArgs {
    #[command(subcommand)]
    command: FailoverCommand,
}

#[derive(Subcommand, Debug)]
enum FailoverCommand {
    Simulate(SimulateArgs),
}

/// Show where workloads would move if a cluster failed, and which would not fit.
///
/// The scheduler places the workloads of the cluster one after another, each on the capacity left by those before it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # What if ottawa were lost?
  flotilla failover simulate --cluster ottawa

  # The answer as data
  flotilla failover simulate --cluster ottawa -o json
  flotilla failover simulate --cluster ottawa -o jsonpath='{.totals.doesNotFit}'

Exit codes: 0 every workload fits into the other clusters; 1 the simulation failed; 3 some would not fit.")]
pub struct SimulateArgs {
    /// Cluster that fails
    #[arg(long, value_name = "NAME")]
    cluster: String,
    #[command(flatten)]
    plane: PlaneArgs,
    /// Output format: json, yaml or jsonpath=... [default: text]
    #[arg(short, long, value_parser = document_format, value_name = "FORMAT")]
    output: Option<Format>,
}

pub async fn run(console: &Console, args: FailoverArgs) -> anyhow::Result<()> {
    let FailoverCommand::Simulate(args) = args.command;
    let plane = PlaneClient::open(&args.plane)?;
    let path = format!("{FAILOVER}?cluster={}", escape(&args.cluster));
    let answer = ask(&plane.client, &path, "application/json").await.map_err(unknown_path);
    let answer = answer.map_err(|status| plane.explain(status.into()))?;
    show(console, &answer, args.output.as_ref())?;
    check_ok(&answer)
}
