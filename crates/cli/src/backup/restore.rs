//! `flotilla restore`: restores a backup into a data directory or an etcd; the server then starts in safe mode.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::karmadactl::console::Console;
use ::karmadactl::restored::{self, ConfirmArgs, StatusArgs};
use anyhow::Context;
use clap::{Args, Subcommand};
use store::reserved::Restored;
use store::snapshot::{Fill, REVISION_GAP, StoreSnapshot, file};

use super::contents::now;
use super::keys::EncryptionKeys;
use super::place::StorageArgs;
use crate::testbed;

/// Restore a backup into an empty data directory or etcd, or restore a snapshot of the testbed.
///
/// With --data-dir or --etcd-servers the argument is a backup. The next server on it starts in safe mode.
///
/// An encrypted backup needs the encryption configuration of the original server (--encryption-provider-config), unless it
/// was taken with --include-encryption-key.
///
/// The whole file is verified before anything is written. No server starts on the target during a restore or after an
/// interrupted one. Stop the servers on the target, and the original control plane if it is still running elsewhere.
///
/// In safe mode the control plane creates new objects in members, but does not change, delete, move or recreate any:
/// `flotilla restore status` shows the pending changes, `flotilla restore confirm` ends safe mode.
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
    /// Backup file, or name of a snapshot of the testbed
    #[arg(value_name = "FILE|SNAPSHOT", required = true)]
    file: Option<PathBuf>,
    #[command(flatten)]
    place: StorageArgs,
    #[command(flatten)]
    testbed: testbed::SnapshotRestoreArgs,
    /// Replace existing contents. A data directory is kept as a copy; the contents of an etcd are lost
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
        (None, None) => anyhow::bail!("the backup or snapshot is required"),
    };
    if !args.place.is_named() {
        return restore_testbed(console, &args.testbed, &path).await;
    }
    let place = args.place.place()?;
    let mut snapshot = file::read(&path)?;
    let keys = match EncryptionKeys::take_from(&mut snapshot).await? {
        Some(keys) => Some(keys),
        None => args.place.encryption_keys().await?,
    };
    let (revision, count) = (snapshot.about.revision, snapshot.kvs.len());
    let fill = fill_for(&snapshot, &path)?;
    place.write(console, snapshot, &fill, args.force, keys.as_ref()).await?;
    console.line(format_args!(
        "{place}: {count} objects restored; revisions continue after {}. The server starts in safe mode: see `{} restore status`",
        revision + REVISION_GAP,
        console.program,
    ))?;
    Ok(())
}

/// Returns the marks of a restore: safe mode, and the reason why an unfinished one does not start.
pub fn fill_for(snapshot: &StoreSnapshot, path: &Path) -> anyhow::Result<Fill> {
    let restored = Restored {
        instance: pki::token::random_lowercase(16).context("no random numbers are available")?,
        restored_at: now(),
        backup_taken_at: snapshot.about.taken_at.clone(),
        backup_revision: snapshot.about.revision,
        former_url: snapshot.about.url.clone(),
        imported_from: None,
    };
    let doing = format!(
        "a restore of {}, started at {}, did not finish: run `flotilla restore` again with --force",
        path.display(),
        restored.restored_at
    );
    Ok(Fill { restored: Some(restored), doing })
}

async fn restore_testbed(
    console: &Arc<Console>,
    args: &testbed::SnapshotRestoreArgs,
    name: &Path,
) -> anyhow::Result<()> {
    anyhow::ensure!(
        !name.is_file(),
        "{} is a file: select the target with --data-dir DIR or --etcd-servers URL[,URL]",
        name.display()
    );
    let name = name.to_str().context("the name of a snapshot must be valid UTF-8")?;
    testbed::restore(console, args, name).await
}
