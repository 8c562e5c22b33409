//! `flotilla backup`: writes a control plane to one file, while it is running or stopped.

mod contents;
pub mod export;
pub mod import;
mod import_keys;
pub mod instances;
mod keys;
pub mod migrate;
mod place;
mod progress;
pub mod restore;

use std::path::PathBuf;

use ::karmadactl::console::Console;
use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use keys::EncryptionKeys;
use place::{StateStorage, StorageArgs};
use progress::BackupProgress;
use serde_json::json;
use store::snapshot::{self, StoreSnapshot, file};

/// Back up a control plane into one file: its objects and its keys.
///
/// The control plane may be running: the file is a consistent snapshot. A data directory is read while its server has it
/// open, etcd over its API. Secrets and the keys of the plane stay encrypted in it, and restoring it needs the encryption
/// configuration of the server (DATA_DIR/encryption/config.yaml), which is not part of it. The file is readable by its owner only.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  # Of the control plane whose data directory this is, running or not
  flotilla backup --data-dir /var/lib/flotilla /backups/plane.flotilla

  # Of one on etcd
  flotilla backup --etcd-servers https://10.0.0.1:2379 --etcd-cafile ca.crt --etcd-certfile c.crt --etcd-keyfile c.key \\
    plane.flotilla

  # What is in it, and is it whole?
  flotilla backup inspect plane.flotilla")]
pub struct BackupArgs {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    /// File to write
    #[arg(value_name = "FILE", required = true)]
    file: Option<PathBuf>,
    #[command(flatten)]
    place: StorageArgs,
    /// Overwrite FILE if it exists
    #[arg(long)]
    force: bool,
    /// Put the encryption keys into the file too: the file alone is then enough to read all Secrets
    #[arg(long)]
    include_encryption_key: bool,
}

#[derive(Subcommand)]
enum BackupCommand {
    /// Verify a backup, and show its time, its source and the number of objects of each kind.
    #[command(after_help = "\
Examples:
  flotilla backup inspect plane.flotilla
  flotilla backup inspect plane.flotilla -o json")]
    Inspect(InspectArgs),
}

#[derive(Args)]
struct InspectArgs {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Form::Text, value_name = "FORMAT")]
    output: Form,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Json,
}

pub async fn run(console: &Console, args: BackupArgs) -> anyhow::Result<()> {
    match (args.command, args.file) {
        (Some(BackupCommand::Inspect(args)), _) => inspect(console, &args),
        (None, Some(file)) => {
            let keys = args.place.encryption_keys().await?;
            let choices = Choices { force: args.force, include_key: args.include_encryption_key };
            write_backup(console, &args.place.place()?, keys.as_ref(), &file, choices).await
        }
        (None, None) => anyhow::bail!("the file to write is required"),
    }
}

/// Backs up the control plane in a data directory, running or stopped.
pub async fn back_up_directory(
    console: &Console,
    directory: PathBuf,
    file: &std::path::Path,
    force: bool,
) -> anyhow::Result<()> {
    let keys = EncryptionKeys::find(None, Some(&directory)).await?;
    write_backup(
        console,
        &StateStorage::Directory(directory),
        keys.as_ref(),
        file,
        Choices { force, include_key: false },
    )
    .await
}

#[derive(Clone, Copy)]
struct Choices {
    /// Overwrite the file.
    force: bool,
    /// Put the encryption keys into the file.
    include_key: bool,
}

async fn write_backup(
    console: &Console,
    place: &StateStorage,
    keys: Option<&EncryptionKeys>,
    file: &std::path::Path,
    choices: Choices,
) -> anyhow::Result<()> {
    anyhow::ensure!(
        choices.force || !file.exists(),
        "{} already exists: choose another name, or use --force",
        file.display()
    );
    let mut snapshot = place.read(console).await?;
    lock(console, &mut snapshot, keys, choices.include_key)?;
    take(console, &snapshot, file, choices.force)
}

/// Seals the key files, and adds the encryption keys on request.
fn lock(
    console: &Console,
    snapshot: &mut StoreSnapshot,
    keys: Option<&EncryptionKeys>,
    is_included: bool,
) -> anyhow::Result<()> {
    let Some(keys) = keys else {
        anyhow::ensure!(!is_included, "--include-encryption-key: no encryption configuration was found");
        return Ok(());
    };
    keys.seal_files(snapshot)?;
    if is_included {
        keys.include(snapshot);
    } else {
        console.note(
            "the backup is encrypted: keep a copy of the encryption configuration, it cannot be restored without",
        );
    }
    Ok(())
}

fn take(console: &Console, snapshot: &StoreSnapshot, path: &std::path::Path, force: bool) -> anyhow::Result<()> {
    let started = std::time::Instant::now();
    let progress = BackupProgress::new(console, "written", snapshot.kvs.len() as u64);
    let bytes = file::write(path, snapshot, force, &|keys| progress.at(keys)).context("the backup failed")?;
    console.line(format_args!(
        "{}: {} objects and {} key files at revision {}, {} KiB in {:.1} s",
        path.display(),
        snapshot.kvs.len(),
        snapshot.files.len(),
        snapshot.about.revision,
        bytes.div_ceil(1024),
        started.elapsed().as_secs_f64(),
    ))?;
    Ok(())
}

fn inspect(console: &Console, args: &InspectArgs) -> anyhow::Result<()> {
    let snapshot = file::read(&args.file)?;
    let text = match args.output {
        Form::Text => described(&snapshot),
        Form::Json => as_json(&snapshot)?,
    };
    Ok(console.print(&text)?)
}

fn described(snapshot: &StoreSnapshot) -> String {
    let about = &snapshot.about;
    let mut text = format!(
        "Taken:     {}\nProgram:   {}\nStorage:   {}\nRevision:  {}\nDigest:    {}\nServer:    {}\nObjects:   {}\nLeases:    \
         {}\nKey files: {}\n\n",
        about.taken_at,
        about.program,
        about.engine,
        about.revision,
        snapshot.digest(),
        about.url.as_deref().unwrap_or("unknown"),
        snapshot.kvs.len(),
        snapshot.leases.len(),
        snapshot.files.len(),
    );
    let counts = snapshot.counts();
    let width = counts.keys().map(String::len).max().unwrap_or_default();
    for (resource, count) in counts {
        text.push_str(&format!("{resource:width$}  {count}\n"));
    }
    text
}

fn as_json(snapshot: &StoreSnapshot) -> anyhow::Result<String> {
    let mut document = serde_json::to_value(&snapshot.about)?;
    document["format"] = snapshot::file::FORMAT.into();
    document["digest"] = snapshot.digest().into();
    document["objects"] = snapshot.kvs.len().into();
    document["leases"] = snapshot.leases.len().into();
    document["files"] = snapshot.files.iter().map(|file| json!(file.path)).collect();
    document["resources"] = serde_json::to_value(snapshot.counts())?;
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}
