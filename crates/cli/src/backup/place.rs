//! The state of a control plane: a data directory, or an etcd and the keys in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::karmadactl::console::Console;
use anyhow::{Context, bail};
use clap::Args;
use store::etcd::Etcd;
use store::snapshot::{self, Fill, StoreSnapshot};
use store::{Store, embedded, reserved};

use super::contents;
use super::keys::EncryptionKeys;
use super::progress::BackupProgress;
use crate::etcd::EtcdArgs;

/// Time without writes after which an etcd is considered unused. A leading server writes more often.
const QUIET: Duration = Duration::from_secs(6);

/// Flags that select the state, named as those of `flotilla server`.
#[derive(Args, Clone)]
#[command(next_help_heading = "Storage")]
pub struct StorageArgs {
    /// Data directory of a server with embedded storage
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Comma-separated endpoints of the etcd of servers with --storage etcd
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    etcd_servers: Vec<String>,
    #[command(flatten)]
    etcd: EtcdArgs,
    /// EncryptionConfiguration of the servers [default: encryption/config.yaml in --data-dir]
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
}

/// The storage of a control plane's state.
pub enum StateStorage {
    Directory(PathBuf),
    Etcd {
        options: store::etcd::EtcdOptions,
        /// Data directory of a server on this etcd, with its key files and kubeconfig.
        directory: Option<PathBuf>,
    },
}

impl StorageArgs {
    /// Returns true if a storage was selected.
    pub fn is_named(&self) -> bool {
        self.data_dir.is_some() || !self.etcd_servers.is_empty()
    }

    pub async fn encryption_keys(&self) -> anyhow::Result<Option<EncryptionKeys>> {
        EncryptionKeys::find(self.encryption_provider_config.as_deref(), self.data_dir.as_deref()).await
    }

    pub fn place(&self) -> anyhow::Result<StateStorage> {
        match (&self.data_dir, self.etcd_servers.is_empty()) {
            (None, true) => bail!("select the control plane: --data-dir DIR, or --etcd-servers URL[,URL]"),
            (Some(directory), true) => Ok(StateStorage::Directory(directory.clone())),
            (directory, false) => {
                Ok(StateStorage::Etcd { options: self.etcd.options(&self.etcd_servers)?, directory: directory.clone() })
            }
        }
    }
}

impl std::fmt::Display for StateStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StateStorage::Directory(directory) => write!(f, "{}", directory.display()),
            StateStorage::Etcd { options, .. } => {
                write!(f, "etcd at {} (prefix {})", options.endpoints.join(","), options.prefix)
            }
        }
    }
}

impl StateStorage {
    /// Reads everything, with the keys of the control plane.
    pub async fn read(&self, console: &Console) -> anyhow::Result<StoreSnapshot> {
        let mut snapshot = match self {
            StateStorage::Directory(directory) => {
                let store = store_directory(directory);
                tokio::task::spawn_blocking(move || embedded::snapshot(&store)).await??
            }
            StateStorage::Etcd { .. } => {
                let raw = self.connect().await?;
                reserved::check(&*raw, &self.to_string()).await?;
                let progress = BackupProgress::new(console, "read", 0);
                reserved::read_marked(raw, &mut |keys| progress.at(keys)).await?
            }
        };
        contents::describe(&mut snapshot);
        if let Some(directory) = self.directory() {
            contents::add_files(&mut snapshot, directory)?;
        }
        Ok(snapshot)
    }

    /// Writes everything. Existing contents are refused, or replaced.
    pub async fn write(
        &self,
        console: &Console,
        mut snapshot: StoreSnapshot,
        fill: &Fill,
        replace: bool,
        keys: Option<&EncryptionKeys>,
    ) -> anyhow::Result<()> {
        super::keys::unlock(&mut snapshot, keys).await?;
        match self {
            StateStorage::Directory(directory) => write_directory(console, directory, snapshot, fill, replace)?,
            StateStorage::Etcd { .. } => {
                let mut snapshot = contents::for_shared_keys(snapshot)?;
                keys.map_or(Ok(()), |keys| keys.seal_shared_keys(&mut snapshot))?;
                self.write_etcd(console, snapshot, fill, replace).await?;
            }
        }
        match (keys, self.directory()) {
            (Some(keys), Some(directory)) => keys.install(console, directory),
            _ => Ok(()),
        }
    }

    async fn write_etcd(
        &self,
        console: &Console,
        snapshot: StoreSnapshot,
        fill: &Fill,
        replace: bool,
    ) -> anyhow::Result<()> {
        let raw = self.connect().await?;
        let count = raw.count("/").await?;
        if count > 0 {
            self.refuse_newer(&*raw).await?;
            self.refuse_use(&*raw).await?;
        }
        if replace && count > 0 {
            let cleared = snapshot::clear(&*raw, &fill.doing).await?;
            console.note(format_args!("removed {cleared} objects from {self}"));
        }
        let progress = BackupProgress::new(console, "written", snapshot.kvs.len() as u64);
        let filled = snapshot::fill(&*raw, &snapshot, fill, &|keys| progress.at(keys)).await;
        filled.with_context(|| format!("cannot write to {self} (--force replaces its contents)"))?;
        raw.close().await;
        Ok(())
    }

    /// Fails if a server seems to be running on it.
    pub async fn refuse_use(&self, raw: &dyn Store) -> anyhow::Result<()> {
        let from = raw.revision().await? + 1;
        let mut watch = raw.watch("/", from).await?;
        let first = async {
            loop {
                match watch.next().await {
                    Some(Ok(batch)) if batch.events.iter().all(|event| reserved::is_reserved(&event.kv.key)) => {}
                    Some(Ok(batch)) => return Ok(batch.events.first().map(|event| event.kv.key.to_string())),
                    Some(Err(error)) => return Err(error),
                    None => return Ok(None),
                }
            }
        };
        match tokio::time::timeout(QUIET, first).await {
            Err(_) => Ok(()),
            Ok(Ok(key)) => bail!(
                "{self} is in use: {} was just written. Stop all servers on it first",
                key.as_deref().unwrap_or("a key")
            ),
            Ok(Err(error)) => Err(error).with_context(|| format!("cannot determine whether {self} is in use")),
        }
    }

    async fn refuse_newer(&self, raw: &dyn Store) -> anyhow::Result<()> {
        match reserved::check(raw, &self.to_string()).await {
            Err(error @ store::Error::NewerFormat { .. }) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Connects to the etcd with its own revisions.
    pub async fn connect(&self) -> anyhow::Result<Arc<dyn Store>> {
        match self {
            StateStorage::Etcd { options, .. } => {
                Ok(Arc::new(Etcd::connect(options).await.context("cannot use etcd")?))
            }
            StateStorage::Directory(directory) => bail!("{} is not an etcd", directory.display()),
        }
    }

    pub fn directory(&self) -> Option<&Path> {
        match self {
            StateStorage::Directory(directory) => Some(directory),
            StateStorage::Etcd { directory, .. } => directory.as_deref(),
        }
    }
}

/// Returns the path of the store in a data directory.
pub fn store_directory(data_dir: &Path) -> PathBuf {
    data_dir.join("store")
}

fn write_directory(
    console: &Console,
    directory: &Path,
    snapshot: StoreSnapshot,
    fill: &Fill,
    replace: bool,
) -> anyhow::Result<()> {
    let snapshot = contents::for_key_files(snapshot)?;
    contents::refuse_foreign_keys(&snapshot, directory, replace)?;
    let store = store_directory(directory);
    let progress = BackupProgress::new(console, "written", snapshot.kvs.len() as u64);
    // Blocking is fine here: the command does nothing else.
    let filled = embedded::fill(&store, &snapshot, fill, replace, &|keys| progress.at(keys))?;
    if let Some(kept) = &filled.kept {
        console.note(format_args!("the previous contents are kept in {}", kept.display()));
    }
    contents::write_files(&snapshot, directory)?;
    filled.finish()?;
    Ok(())
}
