//! `exec` and `attach`: the streams of a container in a member.

use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use cluster_client::escape;
use object::Status;
use pod_streams::client::{self, ClientError};
use pod_streams::{ExitStatus, Streams};
use tokio::sync::mpsc;

use crate::Exit;
use crate::console::Console;
use crate::locate::{PodTarget, container_of};
use crate::plane::{NamespaceArgs, PlaneArgs, PlaneClient};
use crate::terminal::{self, RawMode};
use crate::{durations, scope};

/// Options of both commands.
#[derive(Args, Debug)]
struct StreamArgs {
    #[command(flatten)]
    plane: PlaneArgs,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Member [default: the first member with the pod or workload]
    #[arg(short = 'C', long, value_name = "NAME")]
    cluster: Option<String>,
    /// Accepted for compatibility: pods are always in members
    #[arg(short = 's', long, default_value = "members", value_parser = scope::parse, hide = true)]
    operation_scope: scope::Scope,
    /// Container [default: the first one]
    #[arg(short, long, value_name = "CONTAINER")]
    container: Option<String>,
    /// Pass the standard input to the container
    #[arg(short = 'i', long)]
    stdin: bool,
    /// The standard input is a terminal
    #[arg(short = 't', long)]
    tty: bool,
    /// Print only the output of the container
    #[arg(short, long)]
    quiet: bool,
    /// Accepted for compatibility: there is no waiting for pods
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, hide = true)]
    pod_running_timeout: Option<Duration>,
}

/// Execute a command in a container of a member.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Run a command in a pod of a deployment; the member is found
  flotilla exec deploy/web -- ls /

  # A shell in a container of a pod
  flotilla exec -it web-7d9b8-x2x -C member1 -c app -- sh")]
pub struct ExecArgs {
    /// POD, or TYPE/NAME of a workload
    #[arg(value_name = "POD")]
    target: Option<String>,
    #[command(flatten)]
    stream: StreamArgs,
    /// Command and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Attach to a process that is already running inside a container of a member.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # The output of a pod of a deployment
  flotilla attach deploy/web

  # With a terminal
  flotilla attach -it web-7d9b8-x2x -C member1")]
pub struct AttachArgs {
    /// POD, or TYPE/NAME of a workload
    #[arg(value_name = "POD")]
    target: Option<String>,
    #[command(flatten)]
    stream: StreamArgs,
}

pub async fn exec(console: &Console, args: ExecArgs) -> anyhow::Result<()> {
    if args.command.is_empty() {
        bail!("you must specify at least one command for the container, after `--`");
    }
    run(console, &args.stream, args.target.as_deref(), Some(&args.command)).await
}

pub async fn attach(console: &Console, args: AttachArgs) -> anyhow::Result<()> {
    run(console, &args.stream, args.target.as_deref(), None).await
}

async fn run(
    console: &Console,
    args: &StreamArgs,
    target: Option<&str>,
    command: Option<&[String]>,
) -> anyhow::Result<()> {
    let Some(target) = target else { bail!("pod, type/name must be specified") };
    let plane = PlaneClient::open(&args.plane)?;
    let connected = connect(console, &plane, args, target, command).await;
    let status = connected.map_err(|error| plane.explain(error))?;
    match status {
        ExitStatus::Success => Ok(()),
        ExitStatus::Code(code) => {
            console.note(format!("command terminated with exit code {code}"));
            Err(Exit(u8::try_from(code).unwrap_or(1)).into())
        }
        ExitStatus::Failed(message) => Err(anyhow!("Internal error occurred: {message}")),
    }
}

async fn connect(
    console: &Console,
    plane: &PlaneClient,
    args: &StreamArgs,
    text: &str,
    command: Option<&[String]>,
) -> anyhow::Result<ExitStatus> {
    let namespace = plane.namespace(&args.namespace);
    let target = PodTarget::parse(text, &namespace)?;
    let cluster = match &args.cluster {
        Some(cluster) => cluster.clone(),
        None => target.locate(console, plane).await?,
    };
    let member = plane.existing_member(&cluster).await?;
    let pods = target.pods(&member).await?;
    let Some(pod) = pods.first() else { bail!("{} has no pods", target.describe()) };
    let phase = pod.str_at(&["status", "phase"]);
    if matches!(phase, "Succeeded" | "Failed") {
        bail!("cannot exec into a container in a completed pod; current phase is {phase}");
    }
    let (container, note) = container_of(pod, args.container.as_deref())?;
    if let Some(note) = note.filter(|_| !args.quiet) {
        console.note(note);
    }
    let raw = if args.tty && args.stdin { RawMode::enter() } else { None };
    if args.tty && raw.is_none() {
        console.note("Unable to use a TTY - input is not a terminal or the right kind of file");
    }
    let path = path(&namespace, pod.name(), &container, args, raw.is_some(), command);
    let (io, target) = plane.stream(Some(&cluster), &path).await?;
    let (sizes, resize) = mpsc::channel(1);
    let watching = raw.is_some().then(|| tokio::spawn(terminal::watch_size(sizes)));
    let streams = Streams {
        stdin: args.stdin.then(|| Box::new(terminal::stdin()) as _),
        stdout: Some(Box::new(terminal::StandardStream(std::io::stdout()))),
        stderr: raw.is_none().then(|| Box::new(terminal::StandardStream(std::io::stderr())) as _),
        resize,
    };
    let result = match command {
        Some(_) => client::exec(io, &target, streams).await,
        None => client::attach(io, &target, streams).await,
    };
    if let Some(watching) = watching {
        watching.abort();
    }
    drop(raw);
    result.map_err(|error| match error {
        ClientError::Refused { code, message } => Status::new(code, reason_of(code), message).into(),
        other => anyhow::Error::from(other),
    })
}

fn reason_of(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        _ => "InternalError",
    }
}

/// Returns the path of the request with its parameters.
fn path(
    namespace: &str,
    pod: &str,
    container: &str,
    args: &StreamArgs,
    is_raw: bool,
    command: Option<&[String]>,
) -> String {
    let mut query = vec![format!("container={}", escape(container))];
    query.extend(command.into_iter().flatten().map(|word| format!("command={}", escape(word))));
    query.extend(args.stdin.then(|| "stdin=true".to_owned()));
    query.push("stdout=true".to_owned());
    query.push(if is_raw { "tty=true".to_owned() } else { "stderr=true".to_owned() });
    let action = if command.is_some() { "exec" } else { "attach" };
    format!("/api/v1/namespaces/{}/pods/{}/{action}?{}", escape(namespace), escape(pod), query.join("&"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ExecArgs,
    }

    #[test]
    fn the_command_follows_two_dashes() {
        let parse = |line: &str| Line::try_parse_from(["exec"].into_iter().chain(line.split_whitespace()));
        let args = parse("-it web -c app -C m1 -- sh -C x").map(|line| line.args).unwrap();
        assert_eq!((args.target.as_deref(), args.stream.cluster.as_deref()), (Some("web"), Some("m1")));
        assert_eq!(args.command, ["sh", "-C", "x"]);
        let sent = path("ns", "web", "app", &args.stream, false, Some(&["ls".into(), "a b".into()]));
        let expected = "container=app&command=ls&command=a%20b&stdin=true&stdout=true&stderr=true";
        assert_eq!(sent, format!("/api/v1/namespaces/ns/pods/web/exec?{expected}"));
        let attached = path("ns", "web", "app", &args.stream, true, None);
        assert_eq!(attached, "/api/v1/namespaces/ns/pods/web/attach?container=app&stdin=true&stdout=true&tty=true");
    }
}
