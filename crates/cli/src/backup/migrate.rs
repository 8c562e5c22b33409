//! `flotilla migrate`: moves the state of a control plane between kinds of storage.

use std::path::PathBuf;

use ::karmadactl::console::Console;
use anyhow::{Context, bail};
use clap::Args;
use store::snapshot::Fill;
use store::{embedded, reserved};

use super::contents::now;
use super::keys::EncryptionKeys;
use super::place::{StateStorage, store_directory};
use crate::etcd::EtcdArgs;

/// Move the state of a control plane from embedded storage to etcd, or back.
///
/// Copies objects, leases, keys and revisions, which never decrease, then reads everything back and compares it. The source
/// is left unchanged but marked, so that no server starts on it and the control plane never runs twice. Stop the servers
/// first.
///
/// After an interrupted migration no server starts on the target: run it again with --force.
#[derive(Args)]
#[command(after_help = "\
Examples:
  # From one server to several on etcd
  flotilla migrate --from embedded:/var/lib/flotilla --to etcd:https://10.0.0.1:2379,https://10.0.0.2:2379 \\
    --etcd-cafile ca.crt --etcd-certfile client.crt --etcd-keyfile client.key
  flotilla server --data-dir /var/lib/flotilla --storage etcd --etcd-servers https://10.0.0.1:2379 ...

  # And back
  flotilla migrate --from etcd:http://127.0.0.1:2379 --to embedded:/var/lib/flotilla2")]
pub struct MigrateArgs {
    /// Source: embedded:DATA_DIR or etcd:URL[,URL]
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// Target, which must be empty: embedded:DATA_DIR or etcd:URL[,URL]
    #[arg(long, value_name = "PLACE")]
    to: String,
    #[command(flatten)]
    etcd: EtcdArgs,
    /// EncryptionConfiguration of the servers [default: encryption/config.yaml in the data directory of the source]
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
    /// Replace the contents of the target. A data directory is kept as a copy; the contents of an etcd are lost
    #[arg(long)]
    force: bool,
}

pub async fn run(console: &Console, args: MigrateArgs) -> anyhow::Result<()> {
    let (from, to) = (parse(&args.from, &args.etcd)?, parse(&args.to, &args.etcd)?);
    if args.from == args.to {
        bail!("{} is both source and target", args.from);
    }
    let doing = format!(
        "a migration from {from} to {to}, started at {}, did not finish: run `flotilla migrate` again with --force",
        now()
    );
    if let StateStorage::Etcd { .. } = from {
        from.refuse_use(&*from.connect().await?).await?;
    }
    let keys = EncryptionKeys::find(args.encryption_provider_config.as_deref(), from.directory()).await?;
    leave(&from, &doing).await?;
    let moved = move_state(console, &from, &to, Fill { restored: None, doing }, args.force, keys.as_ref()).await;
    let count = match moved {
        Ok(count) => count,
        Err(error) => {
            return_to(&from).await.with_context(|| format!("{from} is still marked as migrated"))?;
            return Err(error);
        }
    };
    leave(&from, &format!("its contents were migrated to {to} at {}", now())).await?;
    console.line(format_args!("{count} objects migrated from {from} to {to} and verified"))?;
    Ok(())
}

async fn move_state(
    console: &Console,
    from: &StateStorage,
    to: &StateStorage,
    fill: Fill,
    force: bool,
    keys: Option<&EncryptionKeys>,
) -> anyhow::Result<usize> {
    let snapshot = read_marked(console, from).await?;
    let count = snapshot.kvs.len();
    to.write(console, snapshot, &fill, force, keys).await?;
    Ok(count)
}

/// Ignores the mark of this migration when reading.
async fn read_marked(console: &Console, from: &StateStorage) -> anyhow::Result<store::snapshot::StoreSnapshot> {
    match from {
        StateStorage::Directory(_) => from.read(console).await,
        StateStorage::Etcd { .. } => {
            let raw = from.connect().await?;
            let mut snapshot = reserved::read_marked(raw, &mut |_| {}).await?;
            super::contents::describe(&mut snapshot);
            Ok(snapshot)
        }
    }
}

/// Marks the source, so that no server starts on it.
async fn leave(from: &StateStorage, text: &str) -> anyhow::Result<()> {
    match from {
        StateStorage::Directory(directory) => {
            let store = store_directory(directory);
            if !embedded::is_filled(&store) {
                bail!("{} has no store", directory.display());
            }
            Ok(embedded::mark_moved(&store, text)?)
        }
        StateStorage::Etcd { .. } => {
            let raw = from.connect().await?;
            match reserved::check(&*raw, &from.to_string()).await {
                // A mark of an earlier attempt, or of this one.
                Ok(()) | Err(store::Error::Unfinished(_)) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(reserved::mark_moved(&*raw, text).await?)
        }
    }
}

async fn return_to(from: &StateStorage) -> anyhow::Result<()> {
    match from {
        StateStorage::Directory(directory) => Ok(embedded::unmark_moved(&store_directory(directory))?),
        StateStorage::Etcd { .. } => Ok(reserved::unmark_moved(&*from.connect().await?).await?),
    }
}

fn parse(text: &str, etcd: &EtcdArgs) -> anyhow::Result<StateStorage> {
    match text.split_once(':') {
        Some(("embedded", directory)) if !directory.is_empty() => Ok(StateStorage::Directory(PathBuf::from(directory))),
        Some(("etcd", servers)) if !servers.is_empty() => {
            let servers: Vec<String> = servers.split(',').map(str::to_owned).collect();
            Ok(StateStorage::Etcd { options: etcd.options(&servers)?, directory: None })
        }
        _ => bail!("{text:?} is not valid: use embedded:DATA_DIR or etcd:URL[,URL]"),
    }
}
