//! `failover simulate`: asks the control plane what would become of everything if a cluster were lost.

use clap::{Args, Subcommand};
use cluster_client::escape;

use crate::console::Console;
use crate::get::ask;
use crate::output::Format;
use crate::plane::{Plane, PlaneArgs};
use crate::why::{document_format, show, unknown_path};

const FAILOVER: &str = "/flotilla/v1alpha1/failover";

/// Look at what would happen if a cluster were lost, before it is.
#[derive(Args, Debug)]
pub struct FailoverArgs {
    #[command(subcommand)]
    command: FailoverCommand,
}

#[derive(Subcommand, Debug)]
enum FailoverCommand {
    Simulate(SimulateArgs),
}

/// Show what would move where if a cluster were lost, and what would not fit, without doing it.
///
/// The scheduler places everything the cluster has anew, one after the other, each on the room those before it left.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # What if ottawa were lost?
  flotilla failover simulate --cluster ottawa

  # The answer as data
  flotilla failover simulate --cluster ottawa -o json
  flotilla failover simulate --cluster ottawa -o jsonpath='{.totals.doesNotFit}'")]
pub struct SimulateArgs {
    /// The cluster to lose
    #[arg(long, value_name = "NAME")]
    cluster: String,
    #[command(flatten)]
    plane: PlaneArgs,
    /// Output format: json or yaml [default: text]
    #[arg(short, long, value_parser = document_format, value_name = "FORMAT")]
    output: Option<Format>,
}

pub async fn run(console: &Console, args: FailoverArgs) -> anyhow::Result<()> {
    let FailoverCommand::Simulate(args) = args.command;
    let plane = Plane::open(&args.plane)?;
    let path = format!("{FAILOVER}?cluster={}", escape(&args.cluster));
    let answer = ask(&plane.client, &path, "application/json").await.map_err(unknown_path);
    let answer = answer.map_err(|status| plane.explain(status.into()))?;
    show(console, &answer, args.output.as_ref())
}
