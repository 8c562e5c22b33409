//! `interpret`: validates and runs interpreter customizations locally.

mod edit;

use std::fmt::Write;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use api::config::{CustomizationSpec, INTERPRETER_CUSTOMIZATIONS};
use api::work::AggregatedStatusItem;
use clap::Args;
use interpreter::Operation;
use interpreter::check::{self, Inputs, ORDER};
use interpreter_runtime::environment;
use jiff::Timestamp;
use object::Object;
use serde_json::Value;

use crate::Exit;
use crate::console::Console;
use crate::download;
use crate::manifests::{self, Manifest};
use crate::plane::PlaneArgs;
use crate::{tabs, yaml};

/// Validate and test interpreter customization before applying it to the control plane.
///
/// With --check the scripts are loaded but not run. With --operation one rule is run on the given objects. No
/// control plane is contacted.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Check the customizations in a file
  flotilla interpret -f customization.yml --check

  # Write or change the scripts of a file in an editor
  flotilla interpret -f customization.yml --edit --show-doc

  # Run the retention rule
  flotilla interpret -f customization.yml --operation retain --desired-file desired.yml --observed-file observed.yml

  # Run the replicaResource rule
  flotilla interpret -f customization.yml --operation interpretReplica --observed-file observed.yml

  # Run the replicaRevision rule
  flotilla interpret -f customization.yml --operation reviseReplica --observed-file observed.yml --desired-replica 2

  # Run the statusAggregation rule, with the status of members from standard input
  flotilla interpret -f customization.yml --operation aggregateStatus --observed-file observed.yml --status-file -")]
pub struct InterpretArgs {
    /// File, directory or URL of customizations, or - for standard input, in YAML or JSON
    #[arg(short = 'f', long, value_name = "FILE")]
    filename: Vec<String>,
    /// Read directories recursively
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Load the scripts and report errors
    #[arg(long)]
    check: bool,
    /// Open the scripts of one customization in an editor ($KUBE_EDITOR, $EDITOR or vi) and write them back to the file
    #[arg(long, conflicts_with_all = ["check", "operation"])]
    edit: bool,
    /// With --edit, add a description of each rule to the file
    #[arg(long, requires = "edit")]
    show_doc: bool,
    /// Rule to run: Retain, InterpretReplica, InterpretComponent, ReviseReplica, InterpretStatus, AggregateStatus, InterpretHealth, InterpretDependency
    #[arg(long, value_name = "OPERATION")]
    operation: Option<String>,
    /// Desired object
    #[arg(long, value_name = "FILE")]
    desired_file: Option<String>,
    /// Observed object
    #[arg(long, value_name = "FILE")]
    observed_file: Option<String>,
    /// Status of members, one document each
    #[arg(long, value_name = "FILE")]
    status_file: Option<String>,
    /// Desired number of replicas
    #[arg(long, default_value_t = 0, value_name = "N")]
    desired_replica: i32,
    /// Accepted for compatibility; no control plane is contacted.
    #[command(flatten)]
    plane: PlaneArgs,
}

pub async fn run(console: &Console, args: &InterpretArgs) -> anyhow::Result<()> {
    if args.filename.is_empty() {
        bail!("must specify -f FILE: the customizations to interpret");
    }
    if args.edit && args.filename.iter().any(|path| download::is_url(path)) {
        bail!("--edit writes the file back: download the URL of -f to a file first");
    }
    let is_new = args.edit && args.filename.iter().all(|path| path != "-" && !std::path::Path::new(path).exists());
    let manifests = if is_new { Vec::new() } else { manifests::read_all(&args.filename, args.recursive).await? };
    if args.check {
        let (report, has_failed) = check_all(&manifests);
        console.print(&report)?;
        return if has_failed { Err(Exit(1).into()) } else { Ok(()) };
    }
    if args.edit {
        return edit::run(console, &args.filename, manifests, args.show_doc);
    }
    execute(console, args, manifests).await
}

/// Returns the output of `--check`, and whether there are errors.
fn check_all(manifests: &[Manifest]) -> (String, bool) {
    let mut text = String::new();
    let mut has_failed = false;
    for manifest in manifests {
        let name = manifest.value["metadata"]["name"].as_str().filter(|name| !name.is_empty());
        let _ = writeln!(text, "-----------------------------------");
        let _ = writeln!(text, "SOURCE: {}", name.unwrap_or(&manifest.source));
        if let Err(problem) = check_one(&mut text, manifest, &mut has_failed) {
            has_failed = true;
            let _ = writeln!(text, "{problem}");
        }
    }
    (tabs::align(&text, tabs::TABLE), has_failed)
}

fn check_one(text: &mut String, manifest: &Manifest, has_failed: &mut bool) -> Result<(), String> {
    let customization = as_customization(manifest.clone()).map_err(|error| format!("{error:#}"))?;
    let spec: CustomizationSpec = api::read(&customization).map_err(|status| status.message)?;
    if spec.target.kind.is_empty() {
        return Err("target.kind no set".to_owned());
    }
    if spec.target.api_version.is_empty() {
        return Err("target.apiVersion no set".to_owned());
    }
    let _ = writeln!(text, "TARGET: {} {}\t", spec.target.api_version, spec.target.kind);
    let _ = writeln!(text, "RULERS:");
    for (operation, outcome) in check::rules(&customization)? {
        let name = operation.name();
        let _ = match outcome {
            None => writeln!(text, "    {name}:\tUNSET"),
            Some(Ok(())) => writeln!(text, "    {name}:\tPASS"),
            Some(Err(why)) => {
                *has_failed = true;
                writeln!(text, "    {name}:\tERROR: {}\t", why.trim().replace(['\n', '\t'], " "))
            }
        };
    }
    Ok(())
}

fn as_customization(manifest: Manifest) -> anyhow::Result<Object> {
    let object = manifest.into_object()?;
    if object.gvk() != INTERPRETER_CUSTOMIZATIONS.gvk() {
        bail!("not a ResourceInterpreterCustomization, got {}", object.gvk());
    }
    Ok(object)
}

async fn execute(console: &Console, args: &InterpretArgs, manifests: Vec<Manifest>) -> anyhow::Result<()> {
    let Some(operation) = &args.operation else {
        bail!("operation is not set for executing; use --operation OPERATION, or --check")
    };
    let names: Vec<&str> = ORDER.iter().map(|operation| operation.name()).collect();
    let Some(operation) = Operation::parse(operation) else {
        bail!("operation {operation} is not supported. Use one of: {}", names.join(", "));
    };
    let customizations: anyhow::Result<Vec<Arc<Object>>> =
        manifests.into_iter().map(|manifest| as_customization(manifest).map(Arc::new)).collect();
    let customizations = customizations.context("fail to get customization object")?;
    let inputs = Inputs {
        desired: one_object(args.desired_file.as_ref()).await.context("fail to get desired object")?,
        observed: one_object(args.observed_file.as_ref()).await.context("fail to get observed object")?,
        items: status_items(args.status_file.as_ref()).await.context("fail to get status items")?,
        replicas: args.desired_replica.into(),
    };
    match check::run_all(&customizations, operation, &inputs, Timestamp::now(), environment::system()) {
        Ok(outputs) => {
            let count = outputs.len();
            for (index, output) in outputs.iter().enumerate() {
                let text = yaml::to_string(&output.value);
                console.print(&format!("---\n# [{}/{count}] {}:\n{text}", index + 1, output.name))?;
            }
        }
        // As in karmadactl, an error of a script is a result and not a failure of this command.
        Err(why) => console.note(format!("Execute {} error: {why}", operation.name())),
    }
    Ok(())
}

async fn one_object(path: Option<&String>) -> anyhow::Result<Option<Object>> {
    let Some(path) = path else { return Ok(None) };
    let mut objects = manifests::read_objects(std::slice::from_ref(path), false).await?;
    match objects.len() {
        1 => Ok(objects.pop()),
        count => Err(anyhow!("get {count} objects, expect one at most")),
    }
}

/// Reads one item per document, or a list of items.
async fn status_items(path: Option<&String>) -> anyhow::Result<Vec<AggregatedStatusItem>> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let mut items: Vec<AggregatedStatusItem> = Vec::new();
    for Manifest { source, value } in manifests::read_all(std::slice::from_ref(path), false).await? {
        let values = match value {
            Value::Array(values) => values,
            one => vec![one],
        };
        for value in values {
            items.push(
                serde_json::from_value(value).with_context(|| format!("{source} is not the status of a member"))?,
            );
        }
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::console::testing;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: InterpretArgs,
    }

    const CUSTOMIZATION: &str = "\
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata:
  name: things
spec:
  target: {apiVersion: example.io/v1, kind: Thing}
  customizations:
    replicaResource:
      luaScript: |
        function GetReplicas(obj)
          return obj.spec.replicas, nil
        end
    retention:
      luaScript: 'function Retain(desiredObj, observedObj) return desiredObj'
";

    /// Runs a line with `@name` replaced by the files of the test.
    async fn check(files: &[(&str, &str)], line: &str) -> (String, String, String) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let words = line.split_whitespace().map(|word| match word.strip_prefix('@') {
            Some(name) => dir.path().join(name).display().to_string(),
            None => word.to_owned(),
        });
        let args = Line::parse_from(["interpret".to_owned()].into_iter().chain(words)).args;
        let (console, out, err) = testing::console();
        let error = run(&console, &args).await.err().map(|error| format!("{error:#}")).unwrap_or_default();
        (out.text(), err.text(), error)
    }

    #[tokio::test]
    async fn a_check_names_the_rules_that_are_broken() {
        let (out, _, error) = check(&[("c.yaml", CUSTOMIZATION)], "-f @c.yaml --check").await;
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(
            lines[..4],
            ["-----------------------------------", "SOURCE: things", "TARGET: example.io/v1 Thing   ", "RULERS:"]
        );
        assert!(lines[4].starts_with("    Retain:                   ERROR: "), "{}", lines[4]);
        assert_eq!(lines[5], "    InterpretReplica:         PASS");
        assert_eq!(lines[6], "    InterpretComponent:       UNSET");
        assert_eq!(lines.len(), 12);
        assert_eq!(error, "exit code 1");
    }

    #[tokio::test]
    async fn objects_of_other_kinds_are_reported() {
        let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n";
        let (out, _, error) = check(&[("c.yaml", text)], "-f @c.yaml --check").await;
        assert!(out.ends_with("not a ResourceInterpreterCustomization, got apps/v1, Kind=Deployment\n"), "{out}");
        assert_eq!(error, "exit code 1");
        let (_, _, error) = check(&[("c.yaml", CUSTOMIZATION)], "-f @c.yaml --operation fly").await;
        assert!(error.starts_with("operation fly is not supported. Use one of: Retain, InterpretReplica"), "{error}");
        assert!(
            check(&[("c.yaml", CUSTOMIZATION)], "-f @c.yaml").await.2.starts_with("operation is not set for executing")
        );
    }

    #[tokio::test]
    async fn a_rule_is_run_on_the_object_given() {
        let thing = "apiVersion: example.io/v1\nkind: Thing\nmetadata: {name: a}\nspec: {replicas: 3}\n";
        let files = [("c.yaml", CUSTOMIZATION), ("o.yaml", thing)];
        let (out, _, error) = check(&files, "-f @c.yaml --operation interpretreplica --observed-file @o.yaml").await;
        assert_eq!((out.as_str(), error.as_str()), ("---\n# [1/2] replica:\n3\n---\n# [2/2] requires:\nnull\n", ""));
        let (_, err, error) = check(&files, "-f @c.yaml --operation interpretHealth --observed-file @o.yaml").await;
        assert_eq!((err.as_str(), error.as_str()), ("Execute InterpretHealth error: rule is not enabled\n", ""));
    }
}
