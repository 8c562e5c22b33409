//! `flotilla completion`: registers shell completion. The shell asks the program itself, which knows the names of testbeds, snapshots
//! and forwards, and asks the control plane for kinds, objects, namespaces and clusters.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use ::karmadactl::completion::{TypedFlags, Wanted, candidates};
use ::karmadactl::plane::PlaneArgs;
use ::testbed::demo;
use ::testbed::place::{DEFAULT_NAME, TestbedDir};
use ::testbed::spec::Spec;
use ::testbed::{expose, snapshot};
use anyhow::Context;
use clap::{Arg, Args, Command, CommandFactory};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};

/// Set by the registered function of the shell.
const VARIABLE: &str = "FLOTILLA_COMPLETE";

/// Flags of client commands that take the next word as their value.
const VALUE_FLAGS: [&str; 15] = [
    "-n",
    "--namespace",
    "-C",
    "--cluster",
    "--clusters",
    "-s",
    "--operation-scope",
    "-o",
    "--output",
    "-l",
    "--selector",
    "--name",
    "--kubeconfig",
    "--karmada-context",
    "--context",
];

/// Kinds that are offered if the control plane does not answer.
const KINDS: &[&str] = &[
    "clusterpropagationpolicies",
    "clusterresourcebindings",
    "clusters",
    "configmaps",
    "cronjobs",
    "daemonsets",
    "deployments",
    "events",
    "ingresses",
    "jobs",
    "namespaces",
    "nodes",
    "overridepolicies",
    "persistentvolumeclaims",
    "pods",
    "propagationpolicies",
    "resourcebindings",
    "secrets",
    "services",
    "statefulsets",
    "works",
];

#[derive(Args)]
pub struct CompletionArgs {
    /// Shell to generate the script for, as in `source <(flotilla completion bash)`.
    shell: Shell,
}

/// Answers the shell if it asks for completions; returns false for any other call.
pub fn answer(name: &'static str) -> anyhow::Result<bool> {
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(false);
    }
    let factory = || with_candidates(::karmadactl::program::adapt(crate::dispatch::Cli::command(), name));
    let directory = std::env::current_dir().ok();
    let answered =
        CompleteEnv::with_factory(factory).var(VARIABLE).try_complete(std::env::args_os(), directory.as_deref());
    answered.context("cannot complete the command line")
}

pub fn run(args: &CompletionArgs, name: &'static str) -> anyhow::Result<()> {
    // Shells complete the name of the program's file.
    let file = if name == "kubectl karmada" { "kubectl-karmada" } else { name };
    let shells = Shells::builtins();
    let shell = args.shell.to_string();
    let completer = shells.completer(&shell).with_context(|| format!("completion for {shell} is not supported"))?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, file, file, &program(file)?, &mut script)?;
    // Written in one call, so that a closed pipe is an error and not a panic.
    std::io::stdout().write_all(&script)?;
    Ok(())
}

/// Returns how the shell calls the program: by its name if it was found on PATH.
fn program(file: &str) -> anyhow::Result<String> {
    let called = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    match called.components().count() {
        0 | 1 => Ok(file.to_owned()),
        _ => Ok(std::env::current_exe().context("cannot determine the path of this program")?.display().to_string()),
    }
}

/// Adds the names that arguments can have.
fn with_candidates(command: Command) -> Command {
    let name = command.get_name().to_owned();
    command.mut_args(|arg| complete(&name, arg)).mut_subcommands(with_candidates)
}

fn complete(command: &str, arg: Arg) -> Arg {
    let candidates: fn() -> Vec<String> = match (command, arg.get_id().as_str()) {
        ("up", _) => return arg,
        _ if arg.get_long() == Some("name") => testbeds,
        ("stop" | "start" | "remove-member" | "fault", "member") => members,
        ("unjoin" | "unregister", "name") => clusters,
        ("cordon" | "uncordon", "clusters") => clusters,
        (_, "cluster" | "clusters") if arg.get_long().is_some() => clusters,
        _ if arg.get_long() == Some("namespace") => namespaces,
        ("snapshot" | "restore", "snapshot") => snapshots,
        ("unexpose", "forward") => forwards,
        ("demo", "scenario") => demos,
        ("get" | "describe" | "why" | "delete" | "edit" | "patch" | "explain", "resources") => objects,
        ("label" | "annotate" | "promote", "arguments") => objects,
        ("logs", "arguments") | ("exec" | "attach", "target") => pods,
        _ => return arg,
    };
    arg.add(ArgValueCandidates::new(move || candidates().into_iter().map(CompletionCandidate::new).collect()))
}

/// Kinds, or after a kind the names of its objects.
fn objects() -> Vec<String> {
    let words = typed_words();
    match object_position(&words) {
        Position::Kind => match ask(&Wanted::Kinds) {
            found if found.is_empty() => KINDS.iter().map(|kind| (*kind).to_owned()).collect(),
            found => found,
        },
        Position::NameOf(kind) => ask(&Wanted::Names(kind)),
        Position::PairOf(kind) => {
            let names = ask(&Wanted::Names(kind.clone()));
            names.into_iter().map(|name| format!("{kind}/{name}")).collect()
        }
    }
}

fn pods() -> Vec<String> {
    ask(&Wanted::Names("pods".to_owned()))
}

fn namespaces() -> Vec<String> {
    ask(&Wanted::Namespaces)
}

/// The clusters of the control plane, or the members of the testbed if it does not answer.
fn clusters() -> Vec<String> {
    match ask(&Wanted::Clusters) {
        found if found.is_empty() => members(),
        found => found,
    }
}

/// The part of an object's name that is typed.
#[derive(Debug, PartialEq, Eq)]
enum Position {
    Kind,
    /// After `TYPE `.
    NameOf(String),
    /// After `TYPE/`.
    PairOf(String),
}

/// Finds the position from the words before the cursor; the last one is being completed.
fn object_position(words: &[String]) -> Position {
    let (current, before) = words.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    if let Some((kind, _)) = current.split_once('/') {
        return Position::PairOf(kind.to_owned());
    }
    let mut arguments: Vec<&str> = Vec::new();
    let mut is_value = false;
    for word in before {
        if !is_value && !word.starts_with('-') {
            arguments.push(word);
        }
        is_value = VALUE_FLAGS.contains(&word.as_str());
    }
    // The program, the command, the kind.
    match arguments.get(2) {
        Some(kind) => Position::NameOf((*kind).to_owned()),
        None => Position::Kind,
    }
}

/// Asks the control plane that the typed line selects.
fn ask(wanted: &Wanted) -> Vec<String> {
    let words = typed_words();
    let value = |flags: &[&str]| flags.iter().find_map(|flag| flag_value(&words, flag));
    let kubeconfig = value(&["--kubeconfig"]).map(PathBuf::from);
    let of_home = value(&["--home"]).and_then(|_| Some(place()?.plane_config()));
    let flags = TypedFlags {
        plane: PlaneArgs {
            karmada_context: value(&["--karmada-context", "--context"]),
            testbed: value(&["--name"]).filter(|_| kubeconfig.is_none() && of_home.is_none()),
            kubeconfig: kubeconfig.or(of_home),
        },
        namespace: value(&["-n", "--namespace"]),
        cluster: value(&["-C", "--cluster", "--clusters"]),
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    runtime.block_on(candidates(&flags, wanted))
}

/// Returns the words of the line up to the one that is completed; the shell passes them after `--`.
fn typed_words() -> Vec<String> {
    let all: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let start = all.iter().position(|word| word == "--").map_or(0, |at| at + 1);
    let mut words = all[start..].to_vec();
    let index = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse::<usize>().ok());
    if let Some(index) = index {
        words.truncate(index + 1);
    }
    words
}

fn flag_value(words: &[String], flag: &str) -> Option<String> {
    let inline = format!("{flag}=");
    let found = words.iter().enumerate().rev().find_map(|(at, word)| match word.strip_prefix(&inline) {
        Some(value) => Some(value.to_owned()),
        None if word == flag => words.get(at + 1).cloned(),
        None => None,
    });
    found.filter(|value| !value.is_empty())
}

fn demos() -> Vec<String> {
    demo::names().map(str::to_owned).chain(["list".to_owned()]).collect()
}

fn members() -> Vec<String> {
    let spec = place().and_then(|place| Spec::load(&place).ok().flatten());
    spec.map(|spec| spec.members.into_iter().map(|member| member.name).collect()).unwrap_or_default()
}

fn testbeds() -> Vec<String> {
    let Some(place) = place() else { return Vec::new() };
    let entries = std::fs::read_dir(place.home()).into_iter().flatten().flatten();
    let is_testbed = |name: &String| {
        let place = TestbedDir::find(Some(place.home().to_owned()), name);
        place.is_ok_and(|place| place.spec_file().exists())
    };
    let names: BTreeSet<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.into_iter().filter(is_testbed).collect()
}

fn snapshots() -> Vec<String> {
    let found = place().and_then(|place| snapshot::list(&place).ok()).unwrap_or_default();
    found.into_iter().map(|snapshot| snapshot.name).collect()
}

fn forwards() -> Vec<String> {
    place().map(|place| expose::saved(&place).into_iter().map(|exposure| exposure.name).collect()).unwrap_or_default()
}

/// Returns the testbed that the typed line selects.
fn place() -> Option<TestbedDir> {
    let words: Vec<OsString> = std::env::args_os().collect();
    selected(&words)
}

fn selected(words: &[OsString]) -> Option<TestbedDir> {
    let value = |flag: &str| {
        let inline = format!("{flag}=");
        let at = words.iter().rposition(|word| word.to_string_lossy().starts_with(flag))?;
        let word = words[at].to_str()?;
        match word.strip_prefix(&inline) {
            Some(value) => Some(value.to_owned()),
            None if word == flag => words.get(at + 1)?.to_str().map(str::to_owned),
            None => None,
        }
    };
    let name = value("--name").filter(|name| !name.is_empty()).unwrap_or_else(|| DEFAULT_NAME.to_owned());
    TestbedDir::find(value("--home").map(PathBuf::from), &name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_come_from_the_selected_testbed() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let place = selected(&words("flotilla fault --home /beds --name=two")).expect("a testbed");
        assert_eq!(place.directory(), std::path::Path::new("/beds/two"));
        assert_eq!(selected(&words("flotilla fault --home /beds")).expect("a testbed").name(), DEFAULT_NAME);
    }

    #[test]
    fn after_a_kind_come_the_names_of_its_objects() {
        let at = |line: &str| object_position(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(at("flotilla get "), Position::Kind);
        assert_eq!(at("flotilla get -n shop dep"), Position::Kind);
        assert_eq!(at("flotilla get deploy "), Position::NameOf("deploy".into()));
        assert_eq!(at("flotilla describe -n shop pods we"), Position::NameOf("pods".into()));
        assert_eq!(at("flotilla why deploy/we"), Position::PairOf("deploy".into()));
    }

    /// The command with candidates must still be a valid definition, and have them where names are typed.
    #[test]
    fn names_are_completed() {
        let command = with_candidates(::karmadactl::program::adapt(crate::dispatch::Cli::command(), "flotilla"));
        command.clone().debug_assert();
        for (name, id) in [
            ("fault", "member"),
            ("demo", "scenario"),
            ("unexpose", "forward"),
            ("snapshot", "snapshot"),
            ("status", "name"),
            ("expose", "cluster"),
            ("get", "resources"),
            ("cordon", "clusters"),
            ("unjoin", "name"),
            ("delete", "resources"),
            ("label", "arguments"),
            ("exec", "target"),
            ("describe", "namespace"),
        ] {
            let sub = command.find_subcommand(name).unwrap_or_else(|| panic!("{name}"));
            let arg = sub.get_arguments().find(|arg| arg.get_id() == id).unwrap_or_else(|| panic!("{name} {id}"));
            assert!(arg.get::<ArgValueCandidates>().is_some(), "{name} {id}");
        }
    }
}
