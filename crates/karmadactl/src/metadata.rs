//! `label` and `annotate`: change the labels and annotations of objects of the control plane.

use std::collections::BTreeMap;

use anyhow::bail;
use clap::Args;
use cluster_client::{ApiRequest, ClusterClient, Patch};
use object::Object;
use serde_json::{Map, Value, json};

use crate::console::Console;
use crate::files::FileObject;
use crate::outcome::{self, DryRun, OutcomeArgs, Printer};
use crate::plane::{NamespaceArgs, PlaneArgs, PlaneClient};
use crate::selection::{Namespace, Read, Selected, SelectionArgs};

/// Options of both commands.
#[derive(Args, Debug)]
struct ChangeArgs {
    /// TYPE NAME... or TYPE/NAME..., then KEY=VALUE to set and KEY- to remove
    #[arg(value_name = "TYPE NAME KEY=VALUE")]
    arguments: Vec<String>,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    plane: PlaneArgs,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Replace existing values
    #[arg(long)]
    overwrite: bool,
    /// Print the values instead of changing them
    #[arg(long)]
    list: bool,
    /// Change the objects of -f only in the output, without asking the server
    #[arg(long, conflicts_with_all = ["selector", "field_selector", "all", "resource_version"])]
    local: bool,
    /// Change the object only if it has this resource version
    #[arg(long, value_name = "VERSION")]
    resource_version: Option<String>,
    /// Name of the owner of the changed fields [default: kubectl-label or kubectl-annotate]
    #[arg(long, value_name = "NAME")]
    field_manager: Option<String>,
    #[command(flatten)]
    outcome: OutcomeArgs,
}

/// Update the labels on a resource of the control plane.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Set a label of a cluster, and remove another
  flotilla label cluster member1 tier=edge location-

  # Replace a label of all deployments of a namespace
  flotilla label deployments --all -n shop tier=front --overwrite")]
pub struct LabelArgs {
    #[command(flatten)]
    change: ChangeArgs,
}

/// Update the annotations on a resource of the control plane.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Set an annotation of a policy
  flotilla annotate propagationpolicy web flotilla.dev/failback=5m

  # Remove it
  flotilla annotate propagationpolicy web flotilla.dev/failback-")]
pub struct AnnotateArgs {
    #[command(flatten)]
    change: ChangeArgs,
}

/// The field of the metadata, with the words of kubectl for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Labels,
    Annotations,
}

/// The changes on the command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    set: BTreeMap<String, String>,
    removed: Vec<String>,
}

pub async fn label(console: &Console, args: LabelArgs) -> anyhow::Result<()> {
    run(console, args.change, Field::Labels).await
}

pub async fn annotate(console: &Console, args: AnnotateArgs) -> anyhow::Result<()> {
    run(console, args.change, Field::Annotations).await
}

async fn run(console: &Console, args: ChangeArgs, field: Field) -> anyhow::Result<()> {
    let (resources, changes) = parse(&args.arguments, field)?;
    if resources.is_empty() && args.selection.files.is_empty() {
        bail!("one or more resources must be specified as <resource> <name> or <resource>/<name>");
    }
    if args.list && args.outcome.output.is_some() {
        bail!("--list and --output may not be specified together");
    }
    if changes == Changes::default() && !args.list {
        bail!("at least one {} update is required", field.singular());
    }
    if args.local && (args.selection.files.is_empty() || !resources.is_empty()) {
        bail!("--local changes the objects of manifests: use -f, and no resource arguments");
    }
    let files = args.selection.files.read(&console.program, field.command()).await?;
    if args.local {
        return run_locally(console, &args, files, field, &changes);
    }
    let plane = PlaneClient::open(&args.plane)?;
    let namespace = plane.namespace(&args.namespace);
    let namespace = Namespace { name: &namespace, is_given: args.namespace.namespace.is_some() };
    let work = async {
        let chosen = args.selection.select(&plane.client, &resources, files, namespace, Read::Live).await?;
        if chosen.len() != 1 && args.resource_version.is_some() {
            bail!("--resource-version may only be used with a single resource");
        }
        if args.list {
            return list(console, &chosen, field);
        }
        let mut printer = Printer::new(console, &args.outcome)?;
        let mut errors: Vec<anyhow::Error> = Vec::new();
        for one in chosen {
            match change(console, &plane.client, &args, &one, field, &changes).await {
                Ok((object, operation)) => printer.print(&object, operation)?,
                Err(error) => errors.push(error),
            }
        }
        outcome::finish(console, &errors)
    };
    work.await.map_err(|error| plane.explain(error))
}

/// Changes objects without a server.
fn run_locally(
    console: &Console,
    args: &ChangeArgs,
    files: Vec<FileObject>,
    field: Field,
    changes: &Changes,
) -> anyhow::Result<()> {
    let mut printer = Printer::new(console, &args.outcome)?;
    for FileObject { object, .. } in files {
        let planned = plan(console, args, &object, field, changes)?;
        let changed = planned.body.map_or_else(|| Ok(object.clone()), |body| merged(&object, &body))?;
        printer.print(&changed, planned.operation)?;
    }
    Ok(())
}

/// A change of one object.
struct Planned {
    /// The word for it.
    operation: &'static str,
    /// A merge patch, if something changes.
    body: Option<Value>,
}

async fn change(
    console: &Console,
    client: &ClusterClient,
    args: &ChangeArgs,
    one: &Selected,
    field: Field,
    changes: &Changes,
) -> anyhow::Result<(Object, &'static str)> {
    let Planned { operation, body } = plan(console, args, &one.object, field, changes)?;
    let Some(body) = body else { return Ok((one.object.clone(), operation)) };
    if args.outcome.dry_run == DryRun::Client {
        return Ok((merged(&one.object, &body)?, operation));
    }
    let manager = args.field_manager.clone().unwrap_or_else(|| format!("kubectl-{}", field.command()));
    let options = args.outcome.dry_run.write_options(&manager);
    let request = ApiRequest::Patch { patch: Patch::merge(body), options };
    let reply = outcome::send(console, client, one.target(), request).await?;
    Ok((Object::clone(&*reply.into_object()?), operation))
}

fn plan(
    console: &Console,
    args: &ChangeArgs,
    object: &Object,
    field: Field,
    changes: &Changes,
) -> anyhow::Result<Planned> {
    let current: BTreeMap<&str, &str> = field.of(object).collect();
    if !args.overwrite {
        changes.check_overwrites(&current, field)?;
    }
    for key in changes.removed.iter().filter(|key| !current.contains_key(key.as_str())) {
        if field == Field::Labels && args.outcome.dry_run != DryRun::Client {
            console.line(format!("label {key:?} not found."))?;
        }
    }
    let (operation, values) = changes.plan(&current, field);
    if values.is_empty() && args.resource_version.is_none() {
        return Ok(Planned { operation, body: None });
    }
    let mut metadata = json!({field.name(): values});
    if let Some(version) = &args.resource_version {
        metadata["resourceVersion"] = version.as_str().into();
    }
    Ok(Planned { operation, body: Some(json!({"metadata": metadata})) })
}

fn merged(object: &Object, body: &Value) -> anyhow::Result<Object> {
    let mut changed = object.to_value();
    object::patch::merge::apply(&mut changed, body)?;
    Ok(Object::from_value(changed).unwrap_or_default())
}

fn list(console: &Console, chosen: &[Selected], field: Field) -> anyhow::Result<()> {
    for one in chosen {
        let indent = if chosen.len() == 1 { "" } else { " " };
        if chosen.len() != 1 {
            let gvk = one.resource.gvk();
            console.line(format!("Listing {} for {}.{}/{}:", field.name(), gvk.kind, gvk.group, one.name))?;
        }
        for (key, value) in field.of(&one.object) {
            console.line(format!("{indent}{key}={value}"))?;
        }
    }
    Ok(())
}

/// Separates the resources from the changes, which follow them.
fn parse(arguments: &[String], field: Field) -> anyhow::Result<(Vec<String>, Changes)> {
    let is_change = |text: &String| text.contains('=') || (text.ends_with('-') && text.len() > 1);
    let first = arguments.iter().position(is_change).unwrap_or(arguments.len());
    let mut changes = Changes::default();
    for text in &arguments[first..] {
        match (text.split_once('='), text.strip_suffix('-')) {
            (Some((key, value)), _) if !key.is_empty() => {
                changes.set.insert(key.to_owned(), value.to_owned());
            }
            (None, Some(key)) if !key.is_empty() => changes.removed.push(key.to_owned()),
            _ => bail!("all resources must be specified before {} changes: {text}", field.singular()),
        }
    }
    if let Some(both) = changes.removed.iter().find(|key| changes.set.contains_key(*key)) {
        match field {
            Field::Labels => bail!("can not both modify and remove a label in the same command"),
            Field::Annotations => {
                bail!("can not both modify and remove the following annotation(s) in the same command: {both}")
            }
        }
    }
    Ok((arguments[..first].to_vec(), changes))
}

impl Changes {
    fn check_overwrites(&self, current: &BTreeMap<&str, &str>, field: Field) -> anyhow::Result<()> {
        let differs = |(key, value): &(&String, &String)| current.get(key.as_str()).is_some_and(|old| old != value);
        let declared: Vec<(&String, &String)> = self.set.iter().filter(differs).collect();
        let Some((key, _)) = declared.first() else { return Ok(()) };
        match field {
            Field::Labels => {
                bail!("'{key}' already has a value ({}), and --overwrite is false", current[key.as_str()])
            }
            Field::Annotations => {
                let list: Vec<String> = declared
                    .iter()
                    .map(|(key, _)| format!("'{key}' already has a value ({})", current[key.as_str()]))
                    .collect();
                bail!("--overwrite is false but found the following declared annotation(s): {}", list.join("; "))
            }
        }
    }

    /// Returns the word for what happens, and the values of a merge patch.
    fn plan(&self, current: &BTreeMap<&str, &str>, field: Field) -> (&'static str, Map<String, Value>) {
        let mut values = Map::new();
        let (mut added, mut removed) = (false, false);
        for (key, value) in &self.set {
            if current.get(key.as_str()) != Some(&value.as_str()) {
                added = true;
                values.insert(key.clone(), value.as_str().into());
            }
        }
        for key in self.removed.iter().filter(|key| current.contains_key(key.as_str())) {
            removed = true;
            values.insert(key.clone(), Value::Null);
        }
        let word = match (field, added, removed) {
            (Field::Annotations, ..) => "annotated",
            (_, true, true) => "modified",
            (_, true, false) => "labeled",
            (_, false, true) => "unlabeled",
            (_, false, false) => "not labeled",
        };
        (word, values)
    }
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Annotations => "annotations",
        }
    }

    fn singular(self) -> &'static str {
        match self {
            Self::Labels => "label",
            Self::Annotations => "annotation",
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::Labels => "label",
            Self::Annotations => "annotate",
        }
    }

    fn of(self, object: &Object) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        match self {
            Self::Labels => Box::new(object.labels()),
            Self::Annotations => Box::new(object.annotations()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> anyhow::Result<(Vec<String>, Changes)> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), Field::Labels)
    }

    #[test]
    fn changes_follow_the_resources() {
        let (resources, changes) = parsed("cluster m1 a=b c- d=").unwrap();
        assert_eq!(resources, ["cluster", "m1"]);
        assert_eq!(changes.set, BTreeMap::from([("a".into(), "b".into()), ("d".into(), String::new())]));
        assert_eq!(changes.removed, ["c"]);
        for (line, expected) in [("cluster a=b m1", "before label changes: m1"), ("cluster m1 a=b a-", "both modify")] {
            let error = parsed(line).unwrap_err().to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn the_printed_verb_describes_the_change() {
        let current = BTreeMap::from([("a", "1"), ("b", "2")]);
        for (line, labeled) in [
            ("x y a=1", "not labeled"),
            ("x y a=2", "labeled"),
            ("x y b-", "unlabeled"),
            ("x y a=2 b-", "modified"),
            ("x y z-", "not labeled"),
        ] {
            let (_, changes) = parsed(line).unwrap();
            assert_eq!(changes.plan(&current, Field::Labels).0, labeled, "{line}");
            assert_eq!(changes.plan(&current, Field::Annotations).0, "annotated", "{line}");
        }
    }

    #[test]
    fn values_are_not_overwritten_by_accident() {
        let current = BTreeMap::from([("a", "1")]);
        let (_, changes) = parsed("x y a=2").unwrap();
        let error = |field| changes.check_overwrites(&current, field).unwrap_err().to_string();
        assert_eq!(error(Field::Labels), "'a' already has a value (1), and --overwrite is false");
        assert_eq!(
            error(Field::Annotations),
            "--overwrite is false but found the following declared annotation(s): 'a' already has a value (1)"
        );
    }
}
