//! `up`, `down`, `status` and the other commands of the testbed.

mod arguments;
mod exposing;
pub mod part_logs;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::karmadactl::console::Console;
use ::testbed::faults::{self, Fault};
use ::testbed::place::{DEFAULT_NAME, TestbedDir};
use ::testbed::{demo, lifecycle, snapshot, status, supervisor, up};
use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};

use self::arguments::UpArgs;
use self::exposing::{ExposeArgs, ForwardsArgs, UnexposeArgs};

/// Selects the testbed.
#[derive(Args, Debug)]
pub struct TestbedArgs {
    /// Directory of testbeds [default: ~/.flotilla]
    #[arg(long, env = "FLOTILLA_HOME", value_name = "DIR")]
    home: Option<PathBuf>,
    /// Name of the testbed
    #[arg(long, default_value = DEFAULT_NAME, value_name = "NAME")]
    name: String,
}

impl TestbedArgs {
    pub fn place(&self) -> anyhow::Result<TestbedDir> {
        TestbedDir::find(self.home.clone(), &self.name)
    }
}

#[derive(Args, Debug)]
pub struct TimeoutArgs {
    /// Timeout for everything to be ready
    #[arg(long, default_value = "2m", value_parser = ::karmadactl::durations::parse, value_name = "DURATION")]
    timeout: Duration,
}

#[derive(Subcommand, Debug)]
pub enum TestbedCommand {
    /// Create or repair a testbed: a control plane, members and a registry.
    Up(Box<UpArgs>),
    /// Stop a testbed and keep its data.
    Down(DownArgs),
    /// Show the processes of a testbed, their memory, ports and readiness.
    Status(StatusArgs),
    /// List testbeds.
    Testbeds(TestbedsArgs),
    /// Stop a member.
    Stop(MemberArgs),
    /// Start a stopped member.
    Start(StartArgs),
    /// Remove a member from a testbed, with its data.
    RemoveMember(StartArgs),
    /// Delete all data of a testbed, and start it again on the same ports.
    Reset(ResetArgs),
    /// Take, list or delete snapshots of a testbed.
    Snapshot(SnapshotArgs),
    /// Forward a local port to a pod (follows its replacements).
    Expose(ExposeArgs),
    /// List forwarded ports.
    Forwards(ForwardsArgs),
    /// Stop forwarding a local port to a pod.
    Unexpose(UnexposeArgs),
    /// Inject a fault into a member, or end all its faults.
    Fault(FaultArgs),
    /// Run a demo on a testbed: print the commands, check the results, clean up.
    Demo(DemoArgs),
    #[command(hide = true)]
    Supervise(TestbedArgs),
}

#[derive(Args, Debug)]
pub struct DownArgs {
    #[command(flatten)]
    place: TestbedArgs,
    /// Delete the data too
    #[arg(long)]
    delete: bool,
}

#[derive(Args, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    place: TestbedArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    output: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Json,
}

#[derive(Args, Debug)]
pub struct TestbedsArgs {
    /// Directory of testbeds [default: ~/.flotilla]
    #[arg(long, env = "FLOTILLA_HOME", value_name = "DIR")]
    home: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Args, Debug)]
pub struct MemberArgs {
    /// Name of the member
    member: String,
    #[command(flatten)]
    place: TestbedArgs,
}

#[derive(Args, Debug)]
pub struct StartArgs {
    #[command(flatten)]
    member: MemberArgs,
    #[command(flatten)]
    patience: TimeoutArgs,
}

#[derive(Args, Debug)]
pub struct ResetArgs {
    #[command(flatten)]
    place: TestbedArgs,
    #[command(flatten)]
    patience: TimeoutArgs,
}

#[derive(Args, Debug)]
pub struct SnapshotArgs {
    /// Name of the snapshot to take; without it, snapshots are listed
    #[arg(value_name = "SNAPSHOT")]
    snapshot: Option<String>,
    /// Replace an existing snapshot
    #[arg(long, requires = "snapshot")]
    force: bool,
    /// Delete the snapshot instead of taking it
    #[arg(long, requires = "snapshot", conflicts_with = "force")]
    delete: bool,
    #[command(flatten)]
    place: TestbedArgs,
}

/// Flags of `restore` for a snapshot of a testbed.
#[derive(Args, Debug)]
#[command(next_help_heading = "Testbed")]
pub struct SnapshotRestoreArgs {
    #[command(flatten)]
    place: TestbedArgs,
    #[command(flatten)]
    patience: TimeoutArgs,
}

/// Restores a snapshot of the testbed.
pub async fn restore(console: &Arc<Console>, args: &SnapshotRestoreArgs, snapshot: &str) -> anyhow::Result<()> {
    lifecycle::restore(console, &args.place.place()?, snapshot, args.patience.timeout).await
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Kill the process of member1
  flotilla fault member1 kill

  # Cut the network of member2; delay that of member1 by half a second
  flotilla fault member2 partition
  flotilla fault member1 slow --delay 500ms

  # Let member1 answer a third of its requests with 503
  flotilla fault member1 errors --percent 33

  # End all faults of member1
  flotilla fault member1 heal")]
pub struct FaultArgs {
    /// Name of the member
    member: String,
    /// Fault to inject, or heal
    #[arg(value_enum)]
    fault: FaultKind,
    #[command(flatten)]
    place: TestbedArgs,
    /// Latency added by `slow`
    #[arg(long, default_value = "300ms", value_parser = ::karmadactl::durations::parse, value_name = "DURATION")]
    delay: Duration,
    /// Percentage of requests that fail with `errors`
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
    /// Name of the demo; `list` prints them
    scenario: String,
    #[command(flatten)]
    place: TestbedArgs,
    /// Keep the created objects
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
        TestbedCommand::RemoveMember(args) => {
            let (place, name) = (args.member.place.place()?, &args.member.member);
            lifecycle::remove_member(&console, &place, name, args.patience.timeout).await
        }
        TestbedCommand::Testbeds(args) => list_testbeds(&console, &args).await,
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
    // Scripts check the exit code.
    if found.ready { Ok(()) } else { Err(::karmadactl::Exit(1).into()) }
}

async fn take_snapshot(console: &Console, args: &SnapshotArgs) -> anyhow::Result<()> {
    let place = args.place.place()?;
    if let Some(name) = &args.snapshot {
        if args.delete {
            snapshot::delete(&place, name)?;
            console.line(format!("snapshot {name} is deleted"))?;
            return Ok(());
        }
        return lifecycle::take_snapshot(console, &place, name, args.force).await;
    }
    let snapshots = snapshot::list(&place)?;
    if snapshots.is_empty() {
        console.note(format!("no snapshots found in {}", place.snapshots().display()));
        return Ok(());
    }
    let rows = snapshots.iter().map(|kept| {
        let taken = i64::try_from(kept.taken).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
        let taken = taken.map(|time| time.to_string()).unwrap_or_default();
        [kept.name.clone(), format!("{} MiB", kept.bytes.div_ceil(1024 * 1024)), taken]
    });
    print_columns(console, ["NAME", "SIZE", "TAKEN"], rows.collect())
}

async fn list_testbeds(console: &Console, args: &TestbedsArgs) -> anyhow::Result<()> {
    let home = TestbedDir::find(args.home.clone(), DEFAULT_NAME)?;
    let found = status::list(home.home()).await?;
    if args.output == Format::Json {
        console.line(serde_json::to_string_pretty(&found)?)?;
        return Ok(());
    }
    if found.is_empty() {
        console.note(format!("no testbeds found in {}", home.home().display()));
        return Ok(());
    }
    let rows = found.iter().map(|testbed| {
        let state = if testbed.running { "Running" } else { "Stopped" };
        let members = testbed.members.to_string();
        [testbed.name.clone(), state.to_owned(), members, testbed.address.clone(), testbed.directory.clone()]
    });
    print_columns(console, ["NAME", "STATE", "MEMBERS", "CONTROL PLANE", "DIRECTORY"], rows.collect())
}

/// Prints a table with columns as wide as their longest cell.
fn print_columns<const N: usize>(console: &Console, heading: [&str; N], rows: Vec<[String; N]>) -> anyhow::Result<()> {
    let rows: Vec<[String; N]> = std::iter::once(heading.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        console.line(cells.join("   ").trim_end())?;
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
