//! `flotilla migrate`: the state of a control plane from one kind of storage to another.

use std::path::PathBuf;

use ::karmadactl::console::Console;
use anyhow::{Context, bail};
use clap::Args;
use store::snapshot::Fill;
use store::{embedded, reserved};

use super::contents::now;
use super::place::{Place, store_directory};
use crate::etcd::EtcdArgs;

/// Move the state of a control plane from embedded storage to etcd, or back.
///
/// Everything goes along: objects, leases, the keys the plane is known by, and its revisions, which only ever grow. What was
/// written is read back and compared. The source stays as it was, but no server starts on it any more, so that there are never
/// two of one plane. Stop the servers first.
///
/// An interrupted move leaves a target that no server starts on: run it again with --force.
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
    /// Where the state is: embedded:DATA_DIR or etcd:URL[,URL]
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// Where it shall be, empty: embedded:DATA_DIR or etcd:URL[,URL]
    #[arg(long, value_name = "PLACE")]
    to: String,
    #[command(flatten)]
    etcd: EtcdArgs,
    /// Replace what is in the target. A data directory keeps it aside; in an etcd it is gone
    #[arg(long)]
    force: bool,
}

pub async fn run(console: &Console, args: MigrateArgs) -> anyhow::Result<()> {
    let (from, to) = (parse(&args.from, &args.etcd)?, parse(&args.to, &args.etcd)?);
    if args.from == args.to {
        bail!("{} is both source and target", args.from);
    }
    let doing = format!(
        "a move from {from} to {to} was begun at {} and did not come to its end: run `flotilla migrate` again with --force",
        now()
    );
    if let Place::Etcd { .. } = from {
        from.refuse_use(&*from.connect().await?).await?;
    }
    leave(&from, &doing).await?;
    let moved = move_state(console, &from, &to, doing, args.force).await;
    let count = match moved {
        Ok(count) => count,
        Err(error) => {
            return_to(&from).await.with_context(|| format!("{from} stays marked as moved, because"))?;
            return Err(error);
        }
    };
    leave(&from, &format!("its contents were moved to {to} at {}", now())).await?;
    console.line(format_args!("{count} objects moved from {from} to {to}, read back and found equal"))?;
    Ok(())
}

async fn move_state(console: &Console, from: &Place, to: &Place, doing: String, force: bool) -> anyhow::Result<usize> {
    let snapshot = read_marked(console, from).await?;
    let count = snapshot.kvs.len();
    to.write(console, snapshot, &Fill { restored: None, doing }, force).await?;
    Ok(count)
}

/// The mark of the move is ours, and no reason not to read.
async fn read_marked(console: &Console, from: &Place) -> anyhow::Result<store::snapshot::Snapshot> {
    match from {
        Place::Directory(_) => from.read(console).await,
        Place::Etcd { .. } => {
            let raw = from.connect().await?;
            let mut snapshot = reserved::read_marked(raw, &mut |_| {}).await?;
            super::contents::describe(&mut snapshot);
            Ok(snapshot)
        }
    }
}

/// From here on no server starts on it.
async fn leave(from: &Place, text: &str) -> anyhow::Result<()> {
    match from {
        Place::Directory(directory) => {
            let store = store_directory(directory);
            if !embedded::is_filled(&store) {
                bail!("{} has no store", directory.display());
            }
            Ok(embedded::mark_moved(&store, text)?)
        }
        Place::Etcd { .. } => {
            let raw = from.connect().await?;
            match reserved::check(&*raw, &from.to_string()).await {
                // A mark of an earlier try, or of ourselves a moment ago.
                Ok(()) | Err(store::Error::Unfinished(_)) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(reserved::mark_moved(&*raw, text).await?)
        }
    }
}

async fn return_to(from: &Place) -> anyhow::Result<()> {
    match from {
        Place::Directory(directory) => Ok(embedded::unmark_moved(&store_directory(directory))?),
        Place::Etcd { .. } => Ok(reserved::unmark_moved(&*from.connect().await?).await?),
    }
}

fn parse(text: &str, etcd: &EtcdArgs) -> anyhow::Result<Place> {
    match text.split_once(':') {
        Some(("embedded", directory)) if !directory.is_empty() => Ok(Place::Directory(PathBuf::from(directory))),
        Some(("etcd", servers)) if !servers.is_empty() => {
            let servers: Vec<String> = servers.split(',').map(str::to_owned).collect();
            Ok(Place::Etcd { options: etcd.options(&servers)?, directory: None })
        }
        _ => bail!("{text:?} is not a place: say embedded:DATA_DIR or etcd:URL[,URL]"),
    }
}
