//! `flotilla export`: writes a control plane as files that a Karmada accepts.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ::karmadactl::console::Console;
use ::migration::export::{export_report, plan_export};
use ::migration::import::served_kinds;
use anyhow::{Context, bail};
use api_host::shared_keys;
use clap::{Args, ValueEnum};
use object::Object;
use pki::key::PrivateKey;
use pki::key_dir::{self, PRIVATE, PUBLIC, name};
use store::snapshot::{SnapshotFile, StoreSnapshot};

use super::contents;
use super::place::StorageArgs;

/// Prefix of records that servers keep in the store and do not serve as objects.
const SERVER_RECORDS: &str = "/-";

/// Write a control plane as files that a Karmada accepts: its objects, and its CA and keys.
///
/// Objects are in numbered files, to be applied in that order to a Karmada whose controllers and scheduler are stopped. Permanent ids
/// are kept, so that its controllers adopt works and bindings and no workload in a member changes. Uids change, because an API server
/// assigns them. DIR/report.txt lists what has no counterpart in Karmada.
///
/// The control plane may be running. The files contain Secrets and private keys in clear, readable by their owner only.
#[derive(Args)]
#[command(after_help = "\
Examples:
  flotilla export --to karmada --data-dir /var/lib/flotilla -o karmada

  # On a new Karmada with the keys in karmada/pki, before its controller manager and scheduler start
  for file in karmada/objects/*.yaml; do kubectl apply --server-side --force-conflicts -f $file; done")]
pub struct ExportArgs {
    /// The form of the files
    #[arg(long, value_enum, value_name = "FORM")]
    to: ExportForm,
    /// Directory to create
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    place: StorageArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum ExportForm {
    Karmada,
}

pub async fn run(console: &Console, args: ExportArgs) -> anyhow::Result<()> {
    let ExportForm::Karmada = args.to;
    if args.output.exists() {
        bail!("{} already exists: choose another directory", args.output.display());
    }
    let keys = args.place.encryption_keys().await?;
    let mut snapshot = args.place.place()?.read(console).await?;
    match &keys {
        Some(keys) => keys.open_values(&mut snapshot).await?,
        None => super::keys::unlock(&mut snapshot, None).await?,
    }
    let snapshot = contents::for_key_files(snapshot)?;
    let plan = plan_export(&served_kinds(), objects(&snapshot)?);
    let report = export_report(&plan);
    let directory = args.output.join("objects");
    create(&directory)?;
    for file in &plan.files {
        key_dir::write_atomic(&directory.join(file.name), file.text().as_bytes(), PRIVATE)?;
    }
    write_keys(&snapshot, &args.output.join("pki"))?;
    key_dir::write_atomic(&args.output.join("report.txt"), report.as_bytes(), PUBLIC)?;
    console.print(&report)?;
    let count: usize = plan.files.iter().map(|file| file.objects.len()).sum();
    console.line(format_args!("\n{}: {count} objects, with Secrets in clear", args.output.display()))?;
    Ok(())
}

fn create(directory: &Path) -> anyhow::Result<()> {
    let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    created.with_context(|| format!("cannot create {}", directory.display()))
}

fn objects(snapshot: &StoreSnapshot) -> anyhow::Result<Vec<Object>> {
    let mut objects = Vec::new();
    for kv in snapshot.kvs.iter().filter(|kv| !kv.key.starts_with(SERVER_RECORDS)) {
        let object = Object::decode_stored(&kv.value).with_context(|| format!("{} cannot be read", kv.key))?;
        objects.push(object);
    }
    Ok(objects)
}

/// Writes the shared keys, and the public key of ServiceAccount tokens, which kube-apiserver needs too.
fn write_keys(snapshot: &StoreSnapshot, directory: &Path) -> anyhow::Result<()> {
    create(directory)?;
    for file in shared_keys::file_names() {
        let Some(SnapshotFile { mode, bytes, .. }) =
            snapshot.files.iter().find(|found| found.path == format!("pki/{file}"))
        else {
            continue;
        };
        key_dir::write_atomic(&directory.join(&file), bytes, *mode)?;
        if file == format!("{}.key", name::SERVICE_ACCOUNT) {
            let key = PrivateKey::from_pem(bytes).context("the ServiceAccount key is damaged")?;
            let public = key.public_key().to_pem();
            key_dir::write_atomic(
                &directory.join(format!("{}.pub", name::SERVICE_ACCOUNT)),
                public.as_bytes(),
                PUBLIC,
            )?;
        }
    }
    Ok(())
}
