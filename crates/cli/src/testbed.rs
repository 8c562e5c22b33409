//! `up`, `down`, `status` and the other commands of the testbed: what they accept, handed to the testbed.

mod arguments;
mod exposing;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::karmadactl::console::Console;
use ::testbed::faults::{self, Fault};
use ::testbed::place::{DEFAULT_NAME, Place};
use ::testbed::{demo, lifecycle, snapshot, status, supervisor, up};
use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};

use self::arguments::UpArgs;
use self::exposing::{ExposeArgs, ForwardsArgs, UnexposeArgs};

/// Which testbed.
#[derive(Args, Debug)]
pub struct PlaceArgs {
    /// Testbeds are kept here, each in a directory of its name [default: ~/.flotilla]
    #[arg(long, env = "FLOTILLA_HOME", value_name = "DIR")]
    home: Option<PathBuf>,
    /// Name of the testbed, for several side by side
    #[arg(long, default_value = DEFAULT_NAME, value_name = "NAME")]
    name: String,
}

impl PlaceArgs {
    pub fn place(&self) -> anyhow::Result<Place> {
        Place::find(self.home.clone(), &self.name)
    }
}

#[derive(Args, Debug)]
pub struct PatienceArgs {
    /// How long everything may take to be ready
    #[arg(long, default_value = "2m", value_parser = ::karmadactl::durations::parse, value_name = "DURATION")]
    timeout: Duration,
}

#[derive(Subcommand, Debug)]
pub enum TestbedCommand {
    /// Start a testbed: a control plane, members and a registry. Run again, it repairs what is broken.
    Up(Box<UpArgs>),
    /// Stop the testbed and keep its data.
    Down(DownArgs),
    /// Show the parts of the testbed: processes, memory, ports, readiness.
    Status(StatusArgs),
    /// Stop one member of the testbed.
    Stop(MemberArgs),
    /// Start a member that was stopped.
    Start(StartArgs),
    /// Empty the testbed: the same clusters on the same ports, as new.
    Reset(ResetArgs),
    /// Keep the data of every cluster as it is now, or list what is kept.
    Snapshot(SnapshotArgs),
    /// Lead a port of this host to a pod, and to its successors.
    Expose(ExposeArgs),
    /// List the ports that lead to clusters and pods.
    Forwards(ForwardsArgs),
    /// Close a port that leads to a pod.
    Unexpose(UnexposeArgs),
    /// Break a member in one of several ways, or heal it.
    Fault(FaultArgs),
    /// Run a scenario on the testbed, show every command, check the outcome, clean up.
    Demo(DemoArgs),
    #[command(hide = true)]
    Supervise(PlaceArgs),
}

#[derive(Args, Debug)]
pub struct DownArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Remove the data too
    #[arg(long)]
    delete: bool,
}

#[derive(Args, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// How to print: table or json
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    output: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
}

#[derive(Args, Debug)]
pub struct MemberArgs {
    /// Name of the member
    member: String,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args, Debug)]
pub struct StartArgs {
    #[command(flatten)]
    member: MemberArgs,
    #[command(flatten)]
    patience: PatienceArgs,
}

#[derive(Args, Debug)]
pub struct ResetArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    patience: PatienceArgs,
}

#[derive(Args, Debug)]
pub struct SnapshotArgs {
    /// Name of the snapshot; without one, those that are kept are listed
    #[arg(value_name = "SNAPSHOT")]
    snapshot: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Which testbed `restore` brings back to a snapshot.
#[derive(Args, Debug)]
#[command(next_help_heading = "Testbed")]
pub struct SnapshotRestoreArgs {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    patience: PatienceArgs,
}

/// Brings the testbed back to a snapshot.
pub async fn restore(console: &Arc<Console>, args: &SnapshotRestoreArgs, snapshot: &str) -> anyhow::Result<()> {
    lifecycle::restore(console, &args.place.place()?, snapshot, args.patience.timeout).await
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # The process of member1 ends as in a crash, and stays away
  flotilla fault member1 kill

  # Nothing gets through to member2; every byte to member1 takes half a second
  flotilla fault member2 partition
  flotilla fault member1 slow --delay 500ms

  # A third of what is asked of member1 is answered with 503
  flotilla fault member1 errors --percent 33

  # All is well again
  flotilla fault member1 heal")]
pub struct FaultArgs {
    /// Name of the member
    member: String,
    /// What happens to it
    #[arg(value_enum)]
    fault: FaultKind,
    #[command(flatten)]
    place: PlaceArgs,
    /// With `slow`: how much later everything arrives
    #[arg(long, default_value = "300ms", value_parser = ::karmadactl::durations::parse, value_name = "DURATION")]
    delay: Duration,
    /// With `errors`: how many of a hundred requests fail
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u8).range(1..=100), value_name = "N")]
    percent: u8,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum FaultKind {
    Kill,
    Partition,
    Slow,
    Errors,
    Unschedulable,
    ExpireCredentials,
    Heal,
}

#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Which scenario; `list` names them
    scenario: String,
    #[command(flatten)]
    place: PlaceArgs,
    /// Leave everything in place at the end
    #[arg(long)]
    keep: bool,
}

pub async fn run(console: Arc<Console>, command: TestbedCommand) -> anyhow::Result<()> {
    match command {
        TestbedCommand::Up(args) => up(&console, &args.place()?, &args.wanted()?, args.patience()).await,
        TestbedCommand::Down(args) => lifecycle::down(&console, &args.place.place()?, args.delete).await,
        TestbedCommand::Status(args) => show_status(&console, &args).await,
        TestbedCommand::Stop(args) => lifecycle::stop(&console, &args.place.place()?, &args.member).await,
        TestbedCommand::Start(args) => {
            lifecycle::start(&console, &args.member.place.place()?, &args.member.member, args.patience.timeout).await
        }
        TestbedCommand::Reset(args) => lifecycle::reset(&console, &args.place.place()?, args.patience.timeout).await,
        TestbedCommand::Snapshot(args) => take_snapshot(&console, &args).await,
        TestbedCommand::Expose(args) => exposing::expose(&console, &args).await,
        TestbedCommand::Forwards(args) => exposing::forwards(&console, &args).await,
        TestbedCommand::Unexpose(args) => exposing::unexpose(&console, &args).await,
        TestbedCommand::Fault(args) => fault(&console, &args).await,
        TestbedCommand::Demo(args) => demo::run(&console, &args.place.place()?, &args.scenario, args.keep).await,
        TestbedCommand::Supervise(args) => supervisor::run(args.place()?).await,
    }
}

async fn show_status(console: &Console, args: &StatusArgs) -> anyhow::Result<()> {
    let found = status::look(&args.place.place()?).await?;
    if args.json || args.output == Some(Format::Json) {
        console.line(serde_json::to_string_pretty(&found)?)?;
    } else {
        status::print(console, &found)?;
    }
    // Scripts ask by the exit code.
    if found.ready { Ok(()) } else { Err(::karmadactl::Exit(1).into()) }
}

async fn take_snapshot(console: &Console, args: &SnapshotArgs) -> anyhow::Result<()> {
    let place = args.place.place()?;
    if let Some(name) = &args.snapshot {
        return lifecycle::take_snapshot(console, &place, name).await;
    }
    for kept in snapshot::list(&place)? {
        console.line(format!("{}\t{} MiB", kept.name, kept.bytes.div_ceil(1024 * 1024)))?;
    }
    Ok(())
}

async fn fault(console: &Console, args: &FaultArgs) -> anyhow::Result<()> {
    let place = args.place.place()?;
    let millis = u64::try_from(args.delay.as_millis()).unwrap_or(u64::MAX);
    if millis > 600_000 {
        bail!("--delay must be at most 10m");
    }
    let fault = match args.fault {
        FaultKind::Kill => Fault::Kill,
        FaultKind::Partition => Fault::Partition,
        FaultKind::Slow => Fault::Slow { millis },
        FaultKind::Errors => Fault::Errors { percent: args.percent },
        FaultKind::Unschedulable => Fault::Unschedulable,
        FaultKind::ExpireCredentials => Fault::ExpireCredentials,
        FaultKind::Heal => return faults::heal(console, &place, &args.member).await,
    };
    faults::inject(console, &place, &args.member, fault).await
}
