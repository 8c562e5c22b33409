//! Backups of the instances of a manager, in the format of `flotilla backup`.

use std::path::{Path, PathBuf};

use ::karmadactl::console::Console;
use async_trait::async_trait;
use manager::BackupFormat;
use store::snapshot::file;

use super::keys::EncryptionKeys;
use super::place::StateStorage;
use super::restore::fill_for;

/// Reads and writes backups without printing anything.
pub struct InstanceBackups;

fn silent() -> Console {
    Console::new("flotilla", Box::new(std::io::sink()), Box::new(std::io::sink()))
}

#[async_trait]
impl BackupFormat for InstanceBackups {
    async fn back_up(&self, directory: &Path, file: &Path) -> Result<(), String> {
        let (directory, file) = (directory.to_owned(), file.to_owned());
        apart(async move || super::back_up_directory(&silent(), directory, &file, false).await).await
    }

    async fn restore(&self, file: &Path, directory: &Path, keys: &[PathBuf]) -> Result<(), String> {
        let (file, directory, keys) = (file.to_owned(), directory.to_owned(), keys.to_owned());
        apart(async move || restore(&file, &directory, &keys).await).await
    }
}

/// Runs work that reads and writes files on a thread of its own, so that the manager goes on serving.
async fn apart(work: impl AsyncFnOnce() -> anyhow::Result<()> + Send + 'static) -> Result<(), String> {
    let runtime = tokio::runtime::Handle::current();
    let done = tokio::task::spawn_blocking(move || runtime.block_on(work())).await;
    done.map_err(|error| error.to_string())?.map_err(|error| format!("{error:#}"))
}

async fn restore(path: &Path, directory: &Path, keys: &[PathBuf]) -> anyhow::Result<()> {
    let mut snapshot = file::read(path)?;
    let mut found = EncryptionKeys::take_from(&mut snapshot).await?;
    for place in keys {
        if found.is_none() {
            found = EncryptionKeys::find(None, Some(place)).await?;
        }
    }
    let fill = fill_for(&snapshot, path)?;
    StateStorage::Directory(directory.to_owned()).write(&silent(), snapshot, &fill, false, found.as_ref()).await
}
