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
    let (plane, chosen) = args.objects.open(console, "patch").await?;
    let work = async {
        if chosen.is_empty() {
            bail!("no objects passed to patch");
        }
        let mut printer = Printer::new(console, &args.outcome)?;
        for one in chosen {
            let patched = match args.outcome.dry_run {
                DryRun::Client => patched_here(&one.object, &patch)?,
                _ => send(console, &plane.client, &args, &one, patch.clone()).await?,
            };
            let operation = if patched == one.object { "patched (no change)" } else { "patched" };
            printer.print(&patched, operation)?;
        }
        Ok(())
    };
    work.await.map_err(|error| plane.explain(error))
}

/// Returns the object as the patch leaves it, without the server's defaults and admission.
fn patched_here(object: &Object, patch: &Patch) -> anyhow::Result<Object> {
    let mut document = object.to_value();
    match patch.kind {
        PatchKind::Json => object::patch::json::apply(&mut document, &patch.body)?,
        PatchKind::Strategic if needs_schema(&patch.body) => bail!(
            "--dry-run=client cannot merge lists or directives of a strategic merge patch: only the server knows their \
             keys. Use --dry-run=server, or --type=merge"
        ),
        // Without lists and directives, a strategic merge patch is a JSON merge patch.
        _ => object::patch::merge::apply(&mut document, &patch.body)?,
    }
    Object::from_value(document).context("the patch leaves no object")
}

fn needs_schema(patch: &Value) -> bool {
    match patch {
        Value::Array(_) => true,
        Value::Object(map) => map.iter().any(|(key, value)| key.starts_with('$') || needs_schema(value)),
        _ => false,
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(kind: PatchKind, body: Value, expected: Result<Value, &str>) {
        let object = json!({"kind": "Deployment", "metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 1}});
        let object = Object::from_value(object).unwrap();
        match (patched_here(&object, &Patch { kind, body }), expected) {
            (Ok(patched), Ok(expected)) => assert_eq!(patched.into_value(), expected),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error:#}"),
            (patched, expected) => panic!("{patched:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn the_client_applies_patches_that_need_no_schema() {
        let scaled = json!({"kind": "Deployment", "metadata": {"labels": {}}, "spec": {"replicas": 3}});
        let merge = json!({"metadata": {"labels": {"a": null}}, "spec": {"replicas": 3}});
        check(PatchKind::Merge, merge.clone(), Ok(scaled.clone()));
        check(PatchKind::Strategic, merge, Ok(scaled.clone()));
        let json = json!([
            {"op": "remove", "path": "/metadata/labels/a"},
            {"op": "replace", "path": "/spec/replicas", "value": 3},
        ]);
        check(PatchKind::Json, json, Ok(scaled));
        let lists = json!({"spec": {"template": {"spec": {"containers": [{"name": "x"}]}}}});
        check(PatchKind::Strategic, lists, Err("Use --dry-run=server"));
        check(PatchKind::Strategic, json!({"spec": {"$retainKeys": "x"}}), Err("Use --dry-run=server"));
    }
}
