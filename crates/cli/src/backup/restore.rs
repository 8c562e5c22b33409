//! `flotilla restore`: a backup back into a data directory or an etcd, and the safe mode that follows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::karmadactl::console::Console;
use ::karmadactl::restored::{self, ConfirmArgs, StatusArgs};
use anyhow::Context;
use clap::{Args, Subcommand};
use store::reserved::Restored;
use store::snapshot::{Fill, REVISION_GAP, file};

use super::contents::now;
use super::place::StorageArgs;
use crate::testbed;

/// Put a backup into an empty data directory or etcd; or bring the testbed back to a snapshot.
///
/// With --data-dir or --etcd-servers the argument is a backup. The server that starts on it afterwards is in safe mode.
///
/// The whole file is checked before anything is written. While a restore is under way, and when it was interrupted, no server
/// starts on the target. Servers on the target must be stopped; so must the plane the backup is of, if it still runs elsewhere.
///
/// In safe mode the plane creates what is new, but changes, deletes, moves and brings back nothing in members:
/// `flotilla restore status` shows what it holds back, `flotilla restore confirm` ends it.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  # Into a new data directory, then start the server on it
  flotilla restore plane.flotilla --data-dir /var/lib/flotilla
  flotilla server --data-dir /var/lib/flotilla

  # Into an etcd
  flotilla restore plane.flotilla --etcd-servers http://127.0.0.1:2379

  # The testbed back to what `flotilla snapshot before` kept
  flotilla restore before

  # What is held back, what would happen, and go
  flotilla restore status
  flotilla restore confirm --dry-run
  flotilla restore confirm")]
pub struct RestoreArgs {
    #[command(subcommand)]
    command: Option<RestoreCommand>,
    /// The backup, or the name of a snapshot of the testbed
    #[arg(value_name = "FILE|SNAPSHOT", required = true)]
    file: Option<PathBuf>,
    #[command(flatten)]
    place: StorageArgs,
    #[command(flatten)]
    testbed: testbed::SnapshotRestoreArgs,
    /// Replace what is there. A data directory keeps it aside; in an etcd it is gone
    #[arg(long)]
    force: bool,
}

#[derive(Subcommand)]
enum RestoreCommand {
    Status(StatusArgs),
    Confirm(ConfirmArgs),
}

pub async fn run(console: &Arc<Console>, args: RestoreArgs) -> anyhow::Result<()> {
    let path = match (args.command, args.file) {
        (Some(RestoreCommand::Status(args)), _) => return restored::status(console, args).await,
        (Some(RestoreCommand::Confirm(args)), _) => return restored::confirm(console, args).await,
        (None, Some(path)) => path,
        (None, None) => anyhow::bail!("say the backup"),
    };
    if !args.place.is_named() {
        return restore_testbed(console, &args.testbed, &path).await;
    }
    let place = args.place.place()?;
    let snapshot = file::read(&path)?;
    let (revision, count) = (snapshot.about.revision, snapshot.kvs.len());
    let restored = Restored {
        instance: pki::token::random_lowercase(16).context("no randomness")?,
        restored_at: now(),
        backup_taken_at: snapshot.about.taken_at.clone(),
        backup_revision: revision,
        former_url: snapshot.about.url.clone(),
    };
    let doing = format!(
        "a restore of {} was begun at {} and did not come to its end: run `flotilla restore` again with --force",
        path.display(),
        restored.restored_at
    );
    let fill = Fill { restored: Some(restored), doing };
    place.write(console, snapshot, &fill, args.force).await?;
    console.line(format_args!(
        "{place}: {count} objects restored; revisions go on after {}. The server starts in safe mode: see `{} restore status`",
        revision + REVISION_GAP,
        console.program,
    ))?;
    Ok(())
}

async fn restore_testbed(
    console: &Arc<Console>,
    args: &testbed::SnapshotRestoreArgs,
    name: &Path,
) -> anyhow::Result<()> {
    anyhow::ensure!(
        !name.is_file(),
        "{} is a file: say where it shall go, --data-dir DIR or --etcd-servers URL[,URL]",
        name.display()
    );
    let name = name.to_str().context("the name of a snapshot is plain text")?;
    testbed::restore(console, args, name).await
}
