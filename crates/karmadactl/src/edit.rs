//! `edit`: changes objects of the control plane in an editor.

use anyhow::{Context, bail};
use clap::Args;
use cluster_client::{ApiRequest, ClusterClient, Patch, PatchKind};
use object::Object;
use serde_json::Value;

use crate::console::Console;
use crate::openapi::Document;
use crate::outcome::{self, DryRun, OutcomeArgs, Printer};
use crate::selection::{ObjectArgs, Selected};
use crate::{editor, output, plane, yaml};

const FIELD_MANAGER: &str = "kubectl-edit";
/// Times the editor is opened again because of a mistake.
const TRIES_MAX: usize = 20;
const HEADER: &str = "\
# Lines that start with # are dropped. Nothing is sent if nothing was changed or the file is empty.
# A file that the server rejects is opened again with the reason.
#
";

/// Edit a resource of the control plane in the editor of $KUBE_EDITOR or $EDITOR.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Edit a policy
  flotilla edit propagationpolicy/web

  # Edit a deployment as JSON with another editor
  KUBE_EDITOR=nano flotilla edit deployment web -o json")]
pub struct EditArgs {
    #[command(flatten)]
    objects: ObjectArgs,
    /// Format of the edited text: yaml or json
    #[arg(short, long, default_value = "yaml", value_name = "FORMAT")]
    output: String,
    /// Show managedFields
    #[arg(long)]
    show_managed_fields: bool,
    /// Print the patch that is sent
    #[arg(long)]
    output_patch: bool,
    /// Name of the owner of the changed fields
    #[arg(long, default_value = FIELD_MANAGER, value_name = "NAME")]
    field_manager: String,
}

pub async fn run(console: &Console, args: EditArgs) -> anyhow::Result<()> {
    if !["yaml", "json"].contains(&args.output.as_str()) {
        bail!("the edit mode doesn't support output the changes in {}; use yaml or json", args.output);
    }
    if args.objects.resources.is_empty() && args.objects.files.is_empty() {
        bail!("must provide one or more resources by argument or filename");
    }
    let (plane, chosen) = args.objects.open(console, "edit").await?;
    let work = async {
        for one in &chosen {
            edit(console, &plane.client, &args, one).await?;
        }
        Ok(())
    };
    work.await.map_err(|error| plane.explain(error))
}

/// Opens one object until it is saved, unchanged or given up.
async fn edit(console: &Console, client: &ClusterClient, args: &EditArgs, one: &Selected) -> anyhow::Result<()> {
    let shown = match args.show_managed_fields {
        true => one.object.clone(),
        false => output::without_managed_fields(one.object.clone()),
    };
    let body = match args.output.as_str() {
        "json" => output::pretty_json(shown.as_value()),
        _ => yaml::to_string(shown.as_value()),
    };
    let mut text = format!("{HEADER}{body}");
    let mut last_problem = None;
    for _ in 0..TRIES_MAX {
        let edited = editor::open(&text, &args.output)?;
        let plain = without_remarks(&edited);
        if plain.trim().is_empty() {
            bail!("Edit cancelled, saved file was empty.");
        }
        if last_problem.is_some() && edited == text {
            bail!("Edit cancelled, no valid changes were saved.");
        }
        let problem = match parse(&plain) {
            Ok(changed) if changed == shown => {
                console.note("Edit cancelled, no changes made.");
                return Ok(());
            }
            Ok(changed) => match save(console, client, args, one, &shown, &changed).await {
                Ok(()) => return Ok(()),
                Err(error) => plane::report(&error),
            },
            Err(error) => format!("error: {error:#}"),
        };
        console.note(&problem);
        text = format!("{HEADER}# {}\n#\n{plain}", problem.replace('\n', "\n# "));
        last_problem = Some(problem);
    }
    bail!("Edit cancelled, no valid changes were saved.")
}

async fn save(
    console: &Console,
    client: &ClusterClient,
    args: &EditArgs,
    one: &Selected,
    before: &Object,
    after: &Object,
) -> anyhow::Result<()> {
    if after.gvk() != before.gvk() || after.name() != before.name() || after.namespace() != before.namespace() {
        bail!("At least one of apiVersion, kind and name was changed");
    }
    let gvk = one.resource.gvk();
    let document = Document::read(client, &gvk.group_version()).await.ok();
    let document = document.as_ref().filter(|document| document.merges_strategically(&gvk));
    let schema = document.and_then(|document| document.schema(&gvk));
    let body = crate::apply::plan_patch(schema, Some(before.as_value()), after.as_value(), before.as_value());
    if args.output_patch {
        console.line(format!("Patch: {body}"))?;
    }
    let kind = if schema.is_some() { PatchKind::Strategic } else { PatchKind::Merge };
    let options = DryRun::None.write_options(&args.field_manager);
    let request = ApiRequest::Patch { patch: Patch { kind, body }, options };
    let reply = outcome::send(console, client, one.target(), request).await?;
    let outcome = OutcomeArgs::default();
    Printer::new(console, &outcome)?.print(&*reply.into_object()?, "edited")
}

fn without_remarks(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

fn parse(text: &str) -> anyhow::Result<Object> {
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(_) => serde_saphyr::from_str(text).context("the edited file is not valid")?,
    };
    Object::from_value(value).context("the edited file is not an object")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_not_part_of_the_object() {
        let object = parse(&without_remarks("# note\nkind: A\nmetadata:\n  name: x # kept\n")).unwrap();
        assert_eq!((object.kind(), object.name()), ("A", "x"));
        assert!(parse("[1]").is_err());
        assert!(parse("a: [").is_err());
    }
}
