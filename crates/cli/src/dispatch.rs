//! The subcommands, with shared logging, runtime and exit codes.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ::karmadactl::console::{Console, in_red, shows_colors};
use ::karmadactl::{plane, program};
use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::testbed::part_logs;
use crate::{
    agent, backup, completion, doctor, encryption, image, instance, man, manager, member, name_resolution, prepare,
    registry, server, testbed,
};

/// A multi-cluster Kubernetes control plane in one binary.
#[derive(Parser)]
#[command(name = "flotilla", version, propagate_version = true, max_term_width = 120)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Log level: error, warn, info, debug, trace, or a filter such as `info,apiserver=debug`.
    #[arg(
        long,
        global = true,
        default_value = "info",
        env = "FLOTILLA_LOG",
        value_name = "FILTER",
        help_heading = GLOBAL_OPTIONS
    )]
    log: String,
    /// Log format.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, help_heading = GLOBAL_OPTIONS)]
    log_format: LogFormat,
    /// karmadactl-compatible verbosity; 4 and above log API requests.
    #[arg(short = 'v', long = "v", global = true, hide = true, value_name = "LEVEL")]
    verbosity: Option<u8>,
}

/// Documents up to the depth limit are read recursively, and unoptimised builds need 20 KiB for a level of YAML.
pub const STACK_BYTES: usize = 8 << 20;

/// The command with the name of a program of Karmada.
const DETECTOR: &str = "service-name-resolution-detector";

/// Shown after the options of the command itself.
const GLOBAL_OPTIONS: &str = "Global options";

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Subcommand)]
enum Command {
    /// Run the control plane: API server, storage, certificates and controllers in one process.
    Server(Box<server::ServerArgs>),
    /// Run the manager of many control planes: creates, imports, runs and proxies instances.
    Manager(Box<manager::ManagerArgs>),
    Instance(Box<instance::InstanceArgs>),
    Login(instance::login::LoginArgs),
    /// Run the agent of a pull-mode member: register it, apply its works, report its status and capacity.
    Agent(Box<agent::AgentArgs>),
    ServiceNameResolutionDetector(Box<name_resolution::DetectorArgs>),
    /// Run a lightweight Kubernetes cluster: API server, workload controllers, scheduler and nodes in one process.
    Member(Box<member::MemberArgs>),
    /// Run an OCI image registry.
    Registry(Box<registry::RegistryArgs>),
    /// Copy images to registries and to the image stores of members.
    #[command(subcommand)]
    Image(Box<image::ImageCommand>),
    Backup(Box<backup::BackupArgs>),
    Restore(Box<backup::restore::RestoreArgs>),
    Migrate(Box<backup::migrate::MigrateArgs>),
    Import(Box<backup::import::ImportArgs>),
    Export(Box<backup::export::ExportArgs>),
    #[command(subcommand)]
    Encryption(Box<encryption::EncryptionCommand>),
    /// Check that this host can run a testbed, and fix what is missing.
    Prepare(prepare::PrepareArgs),
    /// Diagnose a testbed or a control plane, and print the commands that fix it.
    Doctor(doctor::DoctorArgs),
    #[command(flatten)]
    Testbed(testbed::TestbedCommand),
    /// Print a shell completion script.
    Completion(completion::CompletionArgs),
    /// Write man pages.
    Man(man::ManArgs),
    #[command(flatten)]
    Client(::karmadactl::Command),
}

/// The words of the command line. Under the name of a program of Karmada that is a command here, the program is that command,
/// so that manifests of Karmada start it with their own command.
fn command_line(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = arguments.collect();
    let called = words.first().and_then(|called| Path::new(called).file_name()).and_then(|name| name.to_str());
    let command = match called {
        Some("karmada-agent") => Some("agent"),
        Some("service-name-resolution-detector" | "service-name-resolution-detector-example") => Some(DETECTOR),
        _ => None,
    };
    if let Some(command) = command {
        words.insert(1, command.into());
    }
    words
}

/// Parses the command line and runs the command; `name` is the name the program was called by.
pub fn run(name: &'static str) -> anyhow::Result<()> {
    ::testbed::supervisor::tether();
    if completion::answer(name)? {
        return Ok(());
    }
    let command = group_help(one_layout(program::adapt(Cli::command(), name)), name);
    let matches = command.try_get_matches_from(command_line(std::env::args_os()));
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return print_clap_error(&error),
    };
    start_logging(&cli)?;
    match cli.command {
        Command::Server(args) => block_on(server::run(*args)),
        Command::Manager(args) => block_on(manager::run(*args)),
        Command::Instance(args) => block_on(async move { instance::run(&Console::standard(name), *args).await }),
        Command::Login(args) => block_on(async move { instance::login::run(&Console::standard(name), args).await }),
        Command::Agent(args) => block_on(async move { agent::run(&Console::standard(name), *args).await }),
        Command::ServiceNameResolutionDetector(args) => block_on(name_resolution::run(*args)),
        Command::Member(args) => block_on(member::run(*args)),
        Command::Registry(args) => block_on(registry::run(*args)),
        Command::Image(command) => block_on(image::run(Arc::new(Console::standard(name)), *command)),
        Command::Backup(args) => block_on(async move { backup::run(&Console::standard(name), *args).await }),
        Command::Restore(args) => {
            block_on(async move { backup::restore::run(&Arc::new(Console::standard(name)), *args).await })
        }
        Command::Migrate(args) => block_on(async move { backup::migrate::run(&Console::standard(name), *args).await }),
        Command::Import(args) => block_on(async move { backup::import::run(&Console::standard(name), *args).await }),
        Command::Export(args) => block_on(async move { backup::export::run(&Console::standard(name), *args).await }),
        Command::Encryption(command) => {
            block_on(async move { encryption::run(&Console::standard(name), *command).await })
        }
        Command::Prepare(args) => prepare::run(&Console::standard(name), &args),
        Command::Doctor(args) => block_on(async move { doctor::run(&Console::standard(name), &args).await }),
        Command::Testbed(command) => block_on(testbed::run(Arc::new(Console::standard(name)), command)),
        Command::Completion(args) => completion::run(&args, name),
        Command::Man(args) => man::run(&Console::standard(name), &args),
        Command::Client(::karmadactl::Command::Logs(args)) if args.part.is_some() => block_on(async move {
            let part = args.part.as_deref().unwrap_or_default();
            part_logs::run(&Console::standard(name), &args, part).await
        }),
        Command::Client(command) => block_on(::karmadactl::run(&Console::standard(name), command)),
    }
}

/// Prints help or version, or a usage error, which exits with code 1 as in kubectl.
pub fn print_clap_error(error: &clap::Error) -> anyhow::Result<()> {
    error.print().context("cannot write the output")?;
    if error.use_stderr() { Err(::karmadactl::Exit(1).into()) } else { Ok(()) }
}

/// Prints the error, unless the output was closed or the command has already printed it.
pub fn fail(error: &anyhow::Error) -> ExitCode {
    let broken_pipe = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::BrokenPipe;
    if error.chain().filter_map(|cause| cause.downcast_ref()).any(broken_pipe) {
        return ExitCode::SUCCESS;
    }
    if let Some(code) = ::karmadactl::exit_code(error) {
        return ExitCode::from(code);
    }
    let text = plane::report(error);
    match shows_colors(&std::io::stderr()) {
        true => eprintln!("{}", in_red(&text)),
        false => eprintln!("{text}"),
    }
    ExitCode::FAILURE
}

fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all().thread_stack_size(STACK_BYTES).build().context("cannot start the runtime")?.block_on(work)
}

/// Width of the names in the list of commands.
const NAME_WIDTH: usize = 15;
/// Indentation of their descriptions.
const ABOUT_INDENT: &str = "                 ";
/// Width of the descriptions in the list of commands.
const ABOUT_WIDTH: usize = 80;

/// Commands by topic, for the help of the program.
const HELP_GROUPS: &[(&str, &[&str])] = &[
    (
        "Testbed",
        &[
            "up",
            "down",
            "status",
            "testbeds",
            "stop",
            "start",
            "remove-member",
            "reset",
            "snapshot",
            "demo",
            "fault",
            "expose",
            "forwards",
            "unexpose",
            "prepare",
            "doctor",
        ],
    ),
    ("Servers", &["server", "manager", "agent", "member", "registry", DETECTOR]),
    ("Instances", &["instance", "login"]),
    ("Installation", &["init", "deinit"]),
    ("Members", &["join", "unjoin", "token", "register", "unregister", "cordon", "uncordon", "taint"]),
    (
        "Resources",
        &[
            "get", "describe", "apply", "create", "delete", "edit", "patch", "label", "annotate", "promote", "top",
            "logs", "exec", "attach",
        ],
    ),
    ("Placement", &["why", "plan", "failover", "interpret", "console"]),
    ("Data", &["backup", "restore", "migrate", "import", "export", "encryption", "image"]),
    ("Other", &["explain", "api-resources", "api-versions", "options", "completion", "man", "version"]),
];

/// Lists the commands by topic instead of in one list.
fn group_help(command: clap::Command, name: &str) -> clap::Command {
    let mut text = String::new();
    for (title, names) in HELP_GROUPS {
        text += &format!("{title}:\n");
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let about = about.split("\n\n").next().unwrap_or_default();
            // A long name has a line of its own.
            let name = if name.len() < NAME_WIDTH {
                format!("{name:<NAME_WIDTH$}")
            } else {
                format!("{name}\n{ABOUT_INDENT}")
            };
            text += &format!("  {name}{}\n", wrapped(about.trim_end_matches('.')));
        }
        text.push('\n');
    }
    text += &format!("Use \"{name} <command> --help\" for more information about a command.");
    command.after_help(text).help_template("{about}\n\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}")
}

/// Gives `-h` and `--help` the same compact layout and text: clap has another one for a command or argument with a long
/// text. The long description becomes the description; lists of commands show its first paragraph.
fn one_layout(command: clap::Command) -> clap::Command {
    compacted(command, 0)
}

fn compacted(command: clap::Command, depth: usize) -> clap::Command {
    let compact = |arg: clap::Arg| match arg.get_long_help().cloned() {
        Some(long) => arg.help(long).long_help(clap::builder::Resettable::Reset),
        None => arg,
    };
    let command = match command.get_long_about().map(ToString::to_string) {
        None => command,
        Some(long) if depth < 2 => command.about(long).long_about(clap::builder::Resettable::Reset),
        // clap lists nested commands with their whole description: only its first paragraph stays there.
        Some(long) => {
            let rest = long.split_once("\n\n").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
            let after = command.get_after_help().map(|after| format!("\n\n{after}")).unwrap_or_default();
            command.long_about(clap::builder::Resettable::Reset).after_help(format!("{rest}{after}"))
        }
    };
    command.mut_args(compact).mut_subcommands(|sub| compacted(sub, depth + 1))
}

/// Wraps the description of a command, aligned with its first line.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + word.chars().count() < ABOUT_WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join(&format!("\n{ABOUT_INDENT}"))
}

/// Returns the log filter: a verbosity of 4 and above logs API requests.
fn log_filter(log: &str, verbosity: Option<u8>) -> String {
    match verbosity {
        Some(level) if level >= 4 => format!("{log},cluster_client=debug"),
        _ => log.to_owned(),
    }
}

fn start_logging(cli: &Cli) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(log_filter(&cli.log, cli.verbosity))
        .with_context(|| format!("--log {:?} is not a valid filter; try info or debug", cli.log))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let builder = builder.with_ansi(shows_colors(&std::io::stderr()));
    match cli.log_format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
