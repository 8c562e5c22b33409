//! `flotilla import`: takes over a Karmada control plane into a new data directory or etcd; the server then starts in safe mode.

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;

use ::karmadactl::console::Console;
use ::migration::foreign::{self, EtcdValue, ForeignPlane};
use ::migration::import::{ImportPlan, ServedKinds, plan_import, served_kinds};
use ::migration::{reach, report};
use anyhow::{Context, bail};
use api_host::{create_encryption_file, default_encryption_file};
use apiserver::storage;
use clap::Args;
use cluster_client::{ClusterClient, Endpoint, Kubeconfig};
use store::etcd::Etcd;
use store::reserved::Restored;
use store::snapshot::{self, Fill, StoreSnapshot};
use store::{KeyValue, embedded};

use super::contents::{self, now};
use super::import_keys::ImportKeysArgs;
use super::keys::EncryptionKeys;
use super::place::{StateStorage, store_directory};
use super::progress::BackupProgress;
use crate::etcd::{EtcdArgs, TargetEtcdArgs};

/// Take over a Karmada control plane: its objects, keys and members.
///
/// Reads a Karmada through its API or from its etcd, without changing it, and writes all objects with their uids and permanent ids
/// into a new data directory or etcd. First prints a plan: what is taken over, what is left out and why, and whether members answer.
///
/// Stop karmada-controller-manager and karmada-scheduler before, and all of the Karmada before the new server starts: two planes
/// with the same members overwrite each other's work. With the CA and the ServiceAccount key of the Karmada, kubeconfigs, agents and
/// tokens stay valid.
///
/// The server starts in safe mode: nothing in members is changed or removed until `flotilla restore confirm`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  # What would be taken over?
  flotilla import --from-kubeconfig karmada.config --data-dir /var/lib/flotilla --dry-run

  # From the API, with the keys of the Karmada
  flotilla import --from-kubeconfig karmada.config --data-dir /var/lib/flotilla --ca-file ca.crt --ca-key-file ca.key \\
    --service-account-key-file sa.key --yes
  flotilla server --data-dir /var/lib/flotilla --bind 0.0.0.0:5443 --compat karmada-1.18

  # From its etcd
  flotilla import --from-etcd https://10.0.0.1:2379 --etcd-cafile ca.crt --etcd-certfile c.crt --etcd-keyfile c.key \\
    --data-dir /var/lib/flotilla --yes

  # Then
  flotilla restore status
  flotilla restore confirm")]
pub struct ImportArgs {
    /// Kubeconfig of the Karmada's API
    #[arg(long, value_name = "FILE", conflicts_with = "from_etcd", required_unless_present = "from_etcd")]
    from_kubeconfig: Option<PathBuf>,
    /// Context of that kubeconfig [default: its current one]
    #[arg(long, value_name = "CONTEXT", requires = "from_kubeconfig")]
    context: Option<String>,
    /// Comma-separated endpoints of the Karmada's etcd; --etcd-… are the flags of its kube-apiserver
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    from_etcd: Vec<String>,
    #[command(flatten)]
    etcd: EtcdArgs,
    /// EncryptionConfiguration of the Karmada's kube-apiserver, if values in its etcd are encrypted
    #[arg(long, value_name = "FILE", requires = "from_etcd")]
    from_encryption_provider_config: Option<PathBuf>,
    /// New data directory
    #[arg(long, value_name = "DIR", required_unless_present = "to_etcd", conflicts_with = "to_etcd")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    target: TargetEtcdArgs,
    /// EncryptionConfiguration of the new servers [default: with --data-dir, a new one in encryption/config.yaml]
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
    #[command(flatten)]
    keys: ImportKeysArgs,
    /// Only print the plan
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

pub async fn run(console: &Console, args: ImportArgs) -> anyhow::Result<()> {
    let target = args.target()?;
    refuse_filled(&target).await?;
    let keys = args.keys.read()?;
    let source = args.source().await?;
    let catalog = served_kinds();
    let foreign = source.read(console, &catalog).await?;
    let revision = foreign.revision;
    let plan = plan_import(&catalog, foreign, jiff::Timestamp::now());
    let reach = reach::probe(&plan.clusters).await;
    console.print(&format!("Import from {source} into {target}\n\n{}", report::import_report(&plan, &reach)))?;
    console.print(&keys.report())?;
    if args.dry_run {
        return Ok(());
    }
    if !args.yes && !confirmed(console)? {
        console.note("nothing was written");
        return Ok(());
    }
    let mut snapshot = snapshot_of(&plan, revision)?;
    snapshot.about.url = source.url.clone();
    snapshot.files = keys.files;
    let count = snapshot.kvs.len();
    write(console, &args, &target, snapshot, &source).await?;
    console.line(format_args!(
        "{target}: {count} objects imported. Stop the Karmada, then start the server: it is in safe mode, see `{} restore status`",
        console.program
    ))?;
    Ok(())
}

const NOT_ITS_KEYS: &str =
    "--from-encryption-provider-config must be the EncryptionConfiguration of the Karmada's kube-apiserver";

/// The Karmada that is read.
struct ImportSource {
    /// For messages.
    described: String,
    /// The address of its API, if known.
    url: Option<String>,
    place: SourcePlace,
}

enum SourcePlace {
    Api(ClusterClient),
    Etcd {
        options: store::etcd::EtcdOptions,
        /// The keys of its kube-apiserver.
        encryption: Option<EncryptionKeys>,
    },
}

impl std::fmt::Display for ImportSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.described)
    }
}

impl ImportArgs {
    fn target(&self) -> anyhow::Result<StateStorage> {
        match &self.data_dir {
            Some(directory) => Ok(StateStorage::Directory(directory.clone())),
            None => Ok(StateStorage::Etcd { options: self.target.options()?, directory: None }),
        }
    }

    async fn source(&self) -> anyhow::Result<ImportSource> {
        let Some(path) = &self.from_kubeconfig else {
            let described = format!("the etcd of a Karmada at {}", self.from_etcd.join(","));
            let file = self.from_encryption_provider_config.as_deref();
            let encryption = EncryptionKeys::find(file, None).await.context("--from-encryption-provider-config")?;
            let place = SourcePlace::Etcd { options: self.etcd.options(&self.from_etcd)?, encryption };
            return Ok(ImportSource { described, url: None, place });
        };
        let kubeconfig = Kubeconfig::load(std::slice::from_ref(path))
            .with_context(|| format!("--from-kubeconfig {}", path.display()))?;
        let remote = kubeconfig.remote(self.context.as_deref()).with_context(|| {
            let contexts: Vec<&str> = kubeconfig.contexts().collect();
            format!("--from-kubeconfig {} (its contexts: {})", path.display(), contexts.join(", "))
        })?;
        let url = remote.server.clone();
        let client = ClusterClient::connect(Endpoint::Remote(remote))?;
        Ok(ImportSource { described: format!("the Karmada at {url}"), url: Some(url), place: SourcePlace::Api(client) })
    }
}

impl ImportSource {
    async fn read(&self, console: &Console, catalog: &ServedKinds) -> anyhow::Result<ForeignPlane> {
        let progress = BackupProgress::new(console, "read", 0);
        match &self.place {
            SourcePlace::Api(client) => {
                Ok(foreign::gather_from_api(client, catalog, &|count| progress.at(count)).await?)
            }
            SourcePlace::Etcd { options, encryption } => {
                let etcd = Etcd::connect(options).await.context("cannot use the etcd of the Karmada")?;
                let mut read = snapshot::take(&etcd, &mut |count| progress.at(count)).await?;
                if let Some(keys) = encryption {
                    keys.open_foreign_values(&mut read, &options.prefix).await.context(NOT_ITS_KEYS)?;
                }
                let values =
                    read.kvs.iter().map(|kv| EtcdValue { key: &kv.key, value: &kv.value, revision: kv.mod_revision });
                Ok(foreign::read_etcd(values, read.about.revision)?)
            }
        }
    }
}

/// Refuses a target with data, before anything is read.
async fn refuse_filled(target: &StateStorage) -> anyhow::Result<()> {
    match target {
        StateStorage::Directory(directory) => {
            let is_filled = embedded::is_filled(&store_directory(directory)) || directory.join("pki/ca.key").exists();
            if is_filled {
                bail!("{} already has the data of a control plane: choose an empty directory", directory.display());
            }
        }
        StateStorage::Etcd { .. } => {
            let count = target.connect().await?.count("/").await?;
            if count > 0 {
                bail!("{target} already has {count} keys: choose another prefix with --to-etcd-prefix");
            }
        }
    }
    Ok(())
}

fn confirmed(console: &Console) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("nothing was written: add --yes to import, or --dry-run to print only the plan");
    }
    console.note("Import this? Type yes to continue:");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(answer.trim() == "yes")
}

/// The contents of the new store.
fn snapshot_of(plan: &ImportPlan, revision: u64) -> anyhow::Result<StoreSnapshot> {
    let mut snapshot = StoreSnapshot::default();
    for imported in &plan.objects {
        let object = &imported.object;
        let key = storage::key(&imported.resource, object.namespace(), object.name());
        let value = storage::encode(object);
        storage::check_new(&value).map_err(|status| anyhow::anyhow!("{key} cannot be stored: {status}"))?;
        let (create_revision, mod_revision) = (imported.revision, imported.revision);
        snapshot.kvs.push(KeyValue { key: key.into(), value, create_revision, mod_revision, lease: None });
    }
    snapshot.kvs.sort_by(|a, b| a.key.cmp(&b.key));
    contents::describe(&mut snapshot);
    snapshot.about.engine = "karmada".to_owned();
    snapshot.about.revision = revision;
    Ok(snapshot)
}

async fn write(
    console: &Console,
    args: &ImportArgs,
    target: &StateStorage,
    mut snapshot: StoreSnapshot,
    source: &ImportSource,
) -> anyhow::Result<()> {
    let encryption = match (&args.encryption_provider_config, target.directory()) {
        (Some(file), directory) => EncryptionKeys::find(Some(file), directory).await?,
        (None, Some(directory)) => {
            create_encryption_file(&default_encryption_file(directory))?;
            EncryptionKeys::find(None, Some(directory)).await?
        }
        (None, None) => {
            console.warn(
                "Secrets are written to etcd without encryption: use --encryption-provider-config to encrypt them",
            );
            None
        }
    };
    if let Some(keys) = &encryption {
        keys.seal_values(&mut snapshot)?;
    }
    let restored = Restored {
        instance: pki::token::random_lowercase(16).context("no random numbers are available")?,
        restored_at: now(),
        backup_taken_at: snapshot.about.taken_at.clone(),
        backup_revision: snapshot.about.revision,
        former_url: source.url.clone(),
        imported_from: Some(source.described.clone()),
    };
    let doing = format!(
        "an import from {source}, started at {}, did not finish: delete this store and run `flotilla import` again",
        restored.restored_at
    );
    target.write(console, snapshot, &Fill { restored: Some(restored), doing }, false, encryption.as_ref()).await
}
