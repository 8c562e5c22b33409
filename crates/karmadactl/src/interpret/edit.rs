//! `interpret --edit`: the scripts of a customization as one Lua file in an editor, and back.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, bail};
use api::config::INTERPRETER_CUSTOMIZATIONS;
use interpreter::Operation;
use interpreter::check::{self, ORDER};
use object::Object;
use serde_json::Value;

use crate::console::Console;
use crate::editor;
use crate::manifests::Manifest;
use crate::{output, yaml};

/// Times the editor is opened again because of a mistake.
const TRIES_MAX: usize = 20;

/// Prefix of lines for the reader of the file, which are not part of any script.
const REMARK: &str = "--#";

const HEADER: &str = "\
--# One customization: a script under each rule; a rule without a script is left to other interpreters.
--# Lines that start with --# are dropped. Nothing is saved when nothing was changed, and a file with mistakes
--# is opened again.
";

const NAME: &str = "---@name:";
const API_VERSION: &str = "---@apiVersion:";
const KIND: &str = "---@kind:";
const RULE: &str = "---@rule:";

/// The field of a customization that holds the script of a rule, and its documentation.
struct Rule {
    operation: Operation,
    field: &'static str,
    document: &'static str,
}

fn rule(operation: Operation) -> Rule {
    let (field, document) = match operation {
        Operation::Retain => (
            "retention",
            "Keeps fields that controllers in the member set.\nfunction Retain(desiredObj, observedObj)\n  return desiredObj\nend",
        ),
        Operation::InterpretReplica => (
            "replicaResource",
            "Returns the number of replicas and their requirements.\nfunction GetReplicas(obj)\n  return 1, nil\nend",
        ),
        Operation::InterpretComponent => (
            "componentResource",
            "Returns the components of the object.\nfunction GetComponents(obj)\n  return {}\nend",
        ),
        Operation::ReviseReplica => (
            "replicaRevision",
            "Sets the number of replicas.\nfunction ReviseReplica(obj, desiredReplica)\n  return obj\nend",
        ),
        Operation::InterpretStatus => (
            "statusReflection",
            "Returns the status to report.\nfunction ReflectStatus(observedObj)\n  return observedObj.status\nend",
        ),
        Operation::AggregateStatus => (
            "statusAggregation",
            "Aggregates the status of members.\nfunction AggregateStatus(desiredObj, items)\n  return desiredObj\nend",
        ),
        Operation::InterpretHealth => (
            "healthInterpretation",
            "Returns whether the object is healthy.\nfunction InterpretHealth(observedObj)\n  return true\nend",
        ),
        Operation::InterpretDependency => (
            "dependencyInterpretation",
            "Returns the dependencies of the object.\nfunction GetDependencies(desiredObj)\n  return {}\nend",
        ),
    };
    Rule { operation, field, document }
}

/// Opens the one customization of a file in an editor, and writes it back there.
pub fn run(console: &Console, paths: &[String], manifests: Vec<Manifest>, show_doc: bool) -> anyhow::Result<()> {
    let [path] = paths else { bail!("only one customization can be edited: use one file with -f") };
    let original = match manifests.len() {
        0 => INTERPRETER_CUSTOMIZATIONS.object("", ""),
        1 => manifests.into_iter().next().context("the file has no manifest")?.into_object()?,
        _ => bail!("only one customization can be edited"),
    };
    let mut text = format!("{HEADER}{}", print(&original, show_doc));
    for _ in 0..TRIES_MAX {
        let edited = editor::open(&text, "lua")?;
        if edited == text && text.starts_with(HEADER) {
            console.note("Edit cancelled, no changes made.");
            return Ok(());
        }
        let problem = match parse(&edited, &original) {
            Ok(object) if object == original => {
                console.note("Edit cancelled, no changes made.");
                return Ok(());
            }
            Ok(object) => match problems(&object) {
                None => return save(console, path, &object),
                Some(problem) => problem,
            },
            Err(error) => format!("{error:#}"),
        };
        console.note(format!("error: {problem}"));
        let again =
            format!("{REMARK} {}\n{}", problem.replace('\n', &format!("\n{REMARK} ")), without_remarks(&edited));
        if again == text {
            bail!("Edit cancelled, no valid changes were saved.");
        }
        text = again;
    }
    bail!("Edit cancelled, no valid changes were saved.")
}

/// The scripts that cannot be loaded, and what is missing.
fn problems(customization: &Object) -> Option<String> {
    let is_unset = |path: &[&str]| customization.str_at(path).is_empty();
    let unset = [
        ("name", is_unset(&["metadata", "name"])),
        ("apiVersion", is_unset(&["spec", "target", "apiVersion"])),
        ("kind", is_unset(&["spec", "target", "kind"])),
    ];
    if let Some((field, _)) = unset.into_iter().find(|(_, is_unset)| *is_unset) {
        return Some(format!("{field} is not set"));
    }
    let rules = match check::rules(customization) {
        Ok(rules) => rules,
        Err(problem) => return Some(problem),
    };
    let broken = |(operation, loaded): (Operation, check::Loaded)| match loaded {
        Some(Err(why)) => Some(format!("{}: {}", operation.name(), why.trim())),
        _ => None,
    };
    let broken: Vec<String> = rules.into_iter().filter_map(broken).collect();
    if broken.is_empty() { None } else { Some(broken.join("\n")) }
}

fn save(console: &Console, path: &str, object: &Object) -> anyhow::Result<()> {
    let is_json = Path::new(path).extension().is_some_and(|extension| extension == "json");
    let value: Value = object.to_value();
    let text = if is_json { output::pretty_json(&value) } else { yaml::to_string(&value) };
    if path == "-" {
        console.print(&text)?;
    } else {
        std::fs::write(path, text).with_context(|| format!("cannot write {path}"))?;
    }
    console.line(format!("resourceinterpretercustomization.config.karmada.io/{} edited", object.name()))?;
    Ok(())
}

/// A customization as a Lua file with marks.
fn print(customization: &Object, show_doc: bool) -> String {
    let mut text = String::new();
    let target = |field: &str| customization.str_at(&["spec", "target", field]);
    let _ = writeln!(text, "{NAME} {}", customization.name());
    let _ = writeln!(text, "{API_VERSION} {}", target("apiVersion"));
    let _ = writeln!(text, "{KIND} {}", target("kind"));
    for rule in ORDER.map(rule) {
        let _ = writeln!(text, "{RULE} {}", rule.operation.name());
        if show_doc {
            let _ = writeln!(text, "{REMARK} {}", rule.document.replace('\n', &format!("\n{REMARK} ")));
        }
        let script = customization.str_at(&["spec", "customizations", rule.field, "luaScript"]);
        text.push_str(script);
        if !script.is_empty() && !script.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

/// The customization such a file describes; what it does not speak of stays as it was.
fn parse(text: &str, original: &Object) -> anyhow::Result<Object> {
    let mut object = original.clone();
    for rule in ORDER.map(rule) {
        object.remove(&["spec", "customizations", rule.field]);
    }
    let mut current: Option<Rule> = None;
    let mut script = String::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(name) = trimmed.strip_prefix(NAME) {
            object.set(&["metadata", "name"], name.trim());
        } else if let Some(version) = trimmed.strip_prefix(API_VERSION) {
            object.set(&["spec", "target", "apiVersion"], version.trim());
        } else if let Some(kind) = trimmed.strip_prefix(KIND) {
            object.set(&["spec", "target", "kind"], kind.trim());
        } else if let Some(name) = trimmed.strip_prefix(RULE) {
            let operation = Operation::parse(name.trim()).with_context(|| format!("unknown rule {}", name.trim()))?;
            put(&mut object, current.replace(rule(operation)), &mut script);
        } else if trimmed.starts_with(REMARK) {
            // As the header says.
        } else if current.is_some() {
            script.push_str(line);
            script.push('\n');
        } else if !trimmed.is_empty() {
            bail!("unexpected line {line:?}");
        }
    }
    put(&mut object, current, &mut script);
    Ok(object)
}

fn put(object: &mut Object, rule: Option<Rule>, script: &mut String) {
    let script = std::mem::take(script);
    if let (Some(rule), false) = (rule, script.trim().is_empty()) {
        object.set(&["spec", "customizations", rule.field, "luaScript"], script);
    }
}

fn without_remarks(text: &str) -> String {
    let kept = text.lines().filter(|line| !line.trim_start().starts_with(REMARK));
    kept.map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn customization() -> Object {
        let script = "-- counts\nfunction GetReplicas(obj)\n  return obj.spec.replicas, nil\nend\n";
        let value = json!({
            "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
            "metadata": {"name": "things", "labels": {"kept": "yes"}},
            "spec": {"target": {"apiVersion": "example.io/v1", "kind": "Thing"},
                "customizations": {"replicaResource": {"luaScript": script}}},
        });
        Object::from_value(value).unwrap()
    }

    #[test]
    fn unchanged_text_round_trips() {
        for show_doc in [false, true] {
            let text = format!("{HEADER}{}", print(&customization(), show_doc));
            assert_eq!(parse(&text, &customization()).unwrap(), customization());
            assert_eq!(text.contains("--# function Retain(desiredObj, observedObj)"), show_doc);
        }
    }

    #[test]
    fn scripts_are_added_changed_and_removed() {
        let text = "---@name: other\n---@apiVersion: example.io/v2\n---@kind: Thing\n---@rule: InterpretReplica\n\
            ---@rule: InterpretHealth\nfunction InterpretHealth(o)\n  return true\nend\n";
        let edited = parse(text, &customization()).unwrap();
        assert_eq!(edited.name(), "other");
        assert_eq!(edited.str_at(&["metadata", "labels", "kept"]), "yes");
        assert_eq!(edited.str_at(&["spec", "target", "apiVersion"]), "example.io/v2");
        let scripts = edited.get(&["spec", "customizations"]).unwrap();
        let expected =
            json!({"healthInterpretation": {"luaScript": "function InterpretHealth(o)\n  return true\nend\n"}});
        assert_eq!(*scripts, expected);
        assert_eq!(problems(&edited), None);
    }

    #[test]
    fn errors_are_reported_before_anything_is_saved() {
        let broken =
            parse("---@name: a\n---@apiVersion: v1\n---@kind: X\n---@rule: Retain\nfunction (\n", &customization());
        assert!(problems(&broken.unwrap()).unwrap().starts_with("Retain: "));
        assert!(parse("hello\n", &customization()).is_err());
        assert!(parse("---@rule: Fly\n", &customization()).is_err());
        assert_eq!(problems(&INTERPRETER_CUSTOMIZATIONS.object("", "")).unwrap(), "name is not set");
    }
}
