//! `logs`: prints the logs of pods in members.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{anyhow, bail};
use api::Resource;
use clap::Args;
use cluster_client::{ListOptions, ResourceRef, escape};
use object::Object;

use crate::console::Console;
use crate::locate::{PodTarget, container_names, container_of};
use crate::log_body;
use crate::plane::{NamespaceArgs, PlaneArgs, PlaneClient};
use crate::{durations, scope};

const PODS: Resource = Resource::namespaced("", "v1", "Pod", "pods");
/// Lines of each log if pods are selected by labels.
const TAIL_OF_SELECTED: i64 = 10;

/// Print the logs for a container in a pod of a member.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # The log of a pod of a deployment; the member is found
  flotilla logs deploy/web

  # Follow the log of a pod in a member
  flotilla logs web-7d9b8-x2x -C member1 -f

  # The log of a process of the testbed: docs/from-karmada.md
  flotilla logs --part karmada -f")]
pub struct LogsArgs {
    /// POD [CONTAINER], or TYPE/NAME of a workload
    #[arg(value_name = "POD")]
    arguments: Vec<String>,
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
    /// Process of the testbed instead of a pod: karmada, registry, member1, member3-agent, …
    #[arg(long, value_name = "PART")]
    pub part: Option<String>,
    /// Directory of testbeds, with --part
    #[arg(long, value_name = "DIR", requires = "part")]
    pub home: Option<std::path::PathBuf>,
    /// Container [default: the first one]
    #[arg(short, long, value_name = "CONTAINER")]
    container: Option<String>,
    /// All containers of the pod
    #[arg(long)]
    all_containers: bool,
    /// All pods of the workload; sets --prefix
    #[arg(long)]
    all_pods: bool,
    /// Pods with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Continue until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// The log of the previous instance of the container
    #[arg(short, long)]
    previous: bool,
    /// Start each line with its time
    #[arg(long)]
    timestamps: bool,
    /// Number of lines from the end; -1 for all [default: all, or 10 with -l]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub tail: Option<i64>,
    /// Only lines newer than this, such as 5m
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, conflicts_with = "since_time")]
    since: Option<Duration>,
    /// Only lines after this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    since_time: Option<String>,
    /// Number of bytes to print at most
    #[arg(long, value_name = "N")]
    limit_bytes: Option<u64>,
    /// Start each line with its pod and container
    #[arg(long)]
    prefix: bool,
    /// Continue with other logs after an error
    #[arg(long)]
    ignore_errors: bool,
    /// Number of logs that may be followed at once
    #[arg(long, default_value_t = 5, value_name = "N")]
    max_log_requests: usize,
    /// Accepted for compatibility: there is no waiting for pods
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, hide = true)]
    pod_running_timeout: Option<Duration>,
}

/// The log of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    pod: String,
    container: String,
}

pub async fn run(console: &Console, args: LogsArgs) -> anyhow::Result<()> {
    args.check()?;
    let plane = PlaneClient::open(&args.plane)?;
    let result = print_logs(console, &plane, &args).await;
    result.map_err(|error| plane.explain(error))
}

async fn print_logs(console: &Console, plane: &PlaneClient, args: &LogsArgs) -> anyhow::Result<()> {
    let namespace = plane.namespace(&args.namespace);
    let (cluster, pods) = find_pods(console, plane, args, &namespace).await?;
    let mut sources: Vec<Source> = Vec::new();
    for pod in &pods {
        sources.extend(args.sources(console, pod)?);
    }
    if args.follow && sources.len() > args.max_log_requests {
        bail!(
            "you are attempting to follow {} log streams, but maximum allowed concurrency is {}, use --max-log-requests to \
             increase the limit",
            sources.len(),
            args.max_log_requests
        );
    }
    let out = Arc::new(tokio::sync::Mutex::new(()));
    let print = async |source: &Source| {
        let printed = print_log(console, plane, args, (&cluster, &namespace), source, &out).await;
        match printed {
            Err(error) if args.ignore_errors => {
                console.note(crate::plane::report(&error));
                Ok(())
            }
            printed => printed,
        }
    };
    if args.follow {
        let all = sources.iter().map(print);
        return futures::future::try_join_all(all).await.map(drop);
    }
    for source in &sources {
        print(source).await?;
    }
    Ok(())
}

/// Finds the member, and in it the pods whose logs are printed.
async fn find_pods(
    console: &Console,
    plane: &PlaneClient,
    args: &LogsArgs,
    namespace: &str,
) -> anyhow::Result<(String, Vec<Object>)> {
    let Some(text) = args.arguments.first() else {
        let Some(cluster) = &args.cluster else {
            bail!("must specify a cluster with -C CLUSTER: a selector names no pod or workload");
        };
        let member = plane.existing_member(cluster).await?;
        let options = ListOptions { label_selector: args.selector.clone(), ..ListOptions::default() };
        let list = member.list_all(ResourceRef::within(&PODS.gvr(), namespace), options).await?;
        if list.items.is_empty() {
            console.note(format!("No resources found in {namespace} namespace."));
        }
        return Ok((cluster.clone(), list.items.iter().map(|pod| Object::clone(pod)).collect()));
    };
    let target = PodTarget::parse(text, namespace)?;
    let cluster = match &args.cluster {
        Some(cluster) => cluster.clone(),
        None => target.locate(console, plane).await?,
    };
    let member = plane.existing_member(&cluster).await?;
    let mut pods = target.pods(&member).await?;
    if !args.all_pods && pods.len() > 1 {
        console.note(format!("Found {} pods, using pod/{}", pods.len(), pods[0].name()));
        pods.truncate(1);
    }
    Ok((cluster, pods))
}

/// Prints one log, line by line so that logs do not mix within a line.
async fn print_log(
    console: &Console,
    plane: &PlaneClient,
    args: &LogsArgs,
    (cluster, namespace): (&str, &str),
    source: &Source,
    out: &tokio::sync::Mutex<()>,
) -> anyhow::Result<()> {
    let (io, target) = plane.stream(Some(cluster), &args.path(namespace, source)).await?;
    let mut body = log_body::get(io, &target).await?;
    let prefix = match args.prefix || args.all_pods {
        true => format!("[pod/{}/{}] ", source.pod, source.container),
        false => String::new(),
    };
    let mut rest: Vec<u8> = Vec::new();
    while let Some(bytes) = body.next().await? {
        rest.extend_from_slice(&bytes);
        let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { continue };
        let lines: Vec<u8> = rest.drain(..=end).collect();
        let _turn = out.lock().await;
        console.print_bytes(&prefixed(&lines, &prefix))?;
    }
    if !rest.is_empty() {
        console.print_bytes(&prefixed(&rest, &prefix))?;
    }
    Ok(())
}

/// Puts the prefix before each line.
fn prefixed(lines: &[u8], prefix: &str) -> Vec<u8> {
    if prefix.is_empty() {
        return lines.to_vec();
    }
    lines.split_inclusive(|byte| *byte == b'\n').flat_map(|line| [prefix.as_bytes(), line].concat()).collect()
}

impl LogsArgs {
    /// Returns the testbed of --name.
    pub fn testbed(&self) -> Option<&str> {
        self.plane.testbed.as_deref()
    }

    fn check(&self) -> anyhow::Result<()> {
        match (&self.arguments[..], &self.selector) {
            ([], None) => bail!("must specify POD, TYPE/NAME, a selector (-l), or --part"),
            ([_], Some(_)) => bail!("only a selector (-l) or a POD name is allowed"),
            ([_, _], _) if self.container.is_some() => bail!("only one of -c or an inline [CONTAINER] arg is allowed"),
            ([] | [_] | [_, _], _) => {}
            _ => bail!("expected POD or TYPE/NAME, and a container at most"),
        }
        if let (true, Some(container)) = (self.all_containers, self.container()) {
            bail!("--all-containers=true should not be specified with container name {container}");
        }
        match self.tail {
            Some(tail) if tail < -1 => Err(anyhow!("--tail must be greater than or equal to -1")),
            _ => Ok(()),
        }
    }

    fn container(&self) -> Option<&str> {
        self.container.as_deref().or(self.arguments.get(1).map(String::as_str))
    }

    fn sources(&self, console: &Console, pod: &Object) -> anyhow::Result<Vec<Source>> {
        let source = |container: String| Source { pod: pod.name().to_owned(), container };
        if self.all_containers {
            return Ok(container_names(pod).into_iter().map(source).collect());
        }
        let (container, note) = container_of(pod, self.container())?;
        if let Some(note) = note.filter(|_| !self.all_pods) {
            console.note(note);
        }
        Ok(vec![source(container)])
    }

    /// Returns the path of a log with its parameters.
    fn path(&self, namespace: &str, source: &Source) -> String {
        let tail = match (self.tail, &self.selector) {
            (None, Some(_)) => Some(TAIL_OF_SELECTED),
            (tail, _) => tail.filter(|tail| *tail >= 0),
        };
        let flag = |is_set: bool| is_set.then(|| "true".to_owned());
        let parameters = [
            ("container", Some(source.container.clone())),
            ("follow", flag(self.follow)),
            ("previous", flag(self.previous)),
            ("timestamps", flag(self.timestamps)),
            ("tailLines", tail.map(|tail| tail.to_string())),
            ("sinceSeconds", self.since.map(|since| since.as_secs().max(1).to_string())),
            ("sinceTime", self.since_time.clone()),
            ("limitBytes", self.limit_bytes.map(|bytes| bytes.to_string())),
        ];
        let set = parameters.iter().filter_map(|(name, value)| Some(format!("{name}={}", escape(value.as_ref()?))));
        let query: Vec<String> = set.collect();
        format!("/api/v1/namespaces/{}/pods/{}/log?{}", escape(namespace), escape(&source.pod), query.join("&"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: LogsArgs,
    }

    fn parse(line: &str) -> LogsArgs {
        Line::try_parse_from(["logs"].into_iter().chain(line.split_whitespace())).map(|line| line.args).unwrap()
    }

    #[test]
    fn flags_become_parameters() {
        let source = Source { pod: "web".into(), container: "app".into() };
        for (line, expected) in [
            ("web", "container=app"),
            ("web -f --tail 5 --since 2m", "container=app&follow=true&tailLines=5&sinceSeconds=120"),
            ("web -p --timestamps --tail -1", "container=app&previous=true&timestamps=true"),
            ("-l a=b", "container=app&tailLines=10"),
        ] {
            let path = parse(line).path("shop", &source);
            assert_eq!(path, format!("/api/v1/namespaces/shop/pods/web/log?{expected}"), "{line}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for (line, expected) in [
            ("", "must specify POD"),
            ("web -l a=b", "only a selector"),
            ("web app -c app", "only one of -c"),
            ("web app --all-containers", "--all-containers=true"),
            ("web --tail -2", "--tail must be"),
        ] {
            let error = parse(line).check().unwrap_err().to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn every_line_gets_the_prefix() {
        assert_eq!(prefixed(b"a\nb\n", "[x] "), b"[x] a\n[x] b\n");
        assert_eq!(prefixed(b"a\nb", ""), b"a\nb");
    }
}
