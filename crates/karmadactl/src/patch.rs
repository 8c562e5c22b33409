//! `patch`: changes fields of an object of the control plane.

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use cluster_client::{ApiRequest, ClusterClient, Patch, PatchKind, Subresource};
use object::Object;
use serde_json::Value;

use crate::console::Console;
use crate::outcome::{self, DryRun, OutcomeArgs, Printer};
use crate::selection::{ObjectArgs, Selected};

const FIELD_MANAGER: &str = "kubectl-patch";

/// Update fields of a resource of the control plane with a strategic merge patch, a JSON merge patch, or a JSON patch.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Change the replicas of a deployment
  flotilla patch deployment web -p '{\"spec\":{\"replicas\":3}}'

  # A JSON patch
  flotilla patch deployment web --type=json -p '[{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":3}]'

  # Suspend the dispatching of a policy's objects
  flotilla patch propagationpolicy web --type=merge -p '{\"spec\":{\"suspension\":{\"dispatching\":true}}}'")]
pub struct PatchArgs {
    #[command(flatten)]
    objects: ObjectArgs,
    /// The patch, in JSON or YAML
    #[arg(short, long, value_name = "PATCH")]
    patch: Option<String>,
    /// File with the patch
    #[arg(long, value_name = "FILE")]
    patch_file: Option<std::path::PathBuf>,
    /// Type of the patch
    #[arg(long = "type", value_enum, default_value_t = PatchType::Strategic, value_name = "TYPE")]
    patch_type: PatchType,
    /// Subresource to patch, such as status or scale
    #[arg(long, value_name = "SUBRESOURCE")]
    subresource: Option<String>,
    /// Name of the owner of the changed fields
    #[arg(long, default_value = FIELD_MANAGER, value_name = "NAME")]
    field_manager: String,
    #[command(flatten)]
    outcome: OutcomeArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PatchType {
    Json,
    Merge,
    Strategic,
}

pub async fn run(console: &Console, args: PatchArgs) -> anyhow::Result<()> {
    let patch = args.read_patch()?;
    if args.outcome.dry_run == DryRun::Client {
        bail!("--dry-run=client is not supported: the server merges patches. Use --dry-run=server");
    }
    let (plane, chosen) = args.objects.open(console, "patch").await?;
    let work = async {
        if chosen.is_empty() {
            bail!("no objects passed to patch");
        }
        let mut printer = Printer::new(console, &args.outcome)?;
        for one in chosen {
            let patched = send(console, &plane.client, &args, &one, patch.clone()).await?;
            let operation = if patched == one.object { "patched (no change)" } else { "patched" };
            printer.print(&patched, operation)?;
        }
        Ok(())
    };
    work.await.map_err(|error| plane.explain(error))
}

async fn send(
    console: &Console,
    client: &ClusterClient,
    args: &PatchArgs,
    one: &Selected,
    patch: Patch,
) -> anyhow::Result<Object> {
    let target = match args.subresource.as_deref() {
        Some("status") => one.target().subresource(Subresource::Status),
        Some("scale") => one.target().subresource(Subresource::Scale),
        Some(other) => one.target().subresource(Subresource::Other(other.into())),
        None => one.target(),
    };
    let options = args.outcome.dry_run.write_options(&args.field_manager);
    let reply = outcome::send(console, client, target, ApiRequest::Patch { patch, options }).await?;
    Ok(Object::clone(&*reply.into_object()?))
}

impl PatchArgs {
    fn read_patch(&self) -> anyhow::Result<Patch> {
        let text = match (&self.patch, &self.patch_file) {
            (Some(_), Some(_)) => bail!("cannot specify --patch and --patch-file together"),
            (None, None) => bail!("must specify --patch or --patch-file containing the contents of the patch"),
            (Some(text), None) => text.clone(),
            (None, Some(path)) => std::fs::read_to_string(path)
                .with_context(|| format!("unable to read patch file: {}", path.display()))?,
        };
        let body: Value = match serde_json::from_str(&text) {
            Ok(body) => body,
            Err(_) => serde_saphyr::from_str(&text).with_context(|| format!("unable to parse {text:?}"))?,
        };
        let kind = match self.patch_type {
            PatchType::Json => PatchKind::Json,
            PatchType::Merge => PatchKind::Merge,
            PatchType::Strategic => PatchKind::Strategic,
        };
        Ok(Patch { kind, body })
    }
}
