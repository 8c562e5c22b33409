//! `delete`: deletes objects of the control plane and waits until they are gone.

use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::{Args, ValueEnum};
use cluster_client::{ClusterClient, DeleteOptions, PropagationPolicy};
use object::Status;
use tokio::time::Instant;

use crate::console::Console;
use crate::durations;
use crate::outcome::{DryRun, when};
use crate::plane::{NamespaceArgs, PlaneArgs, PlaneClient};
use crate::selection::{Namespace, Read, Selected, SelectionArgs};

/// Interval for checking whether an object is gone.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait without --timeout, as in kubectl.
const WAIT_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Delete resources of the control plane by file names, stdin, resources and names, or by resources and label selector.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Delete the objects in a file
  flotilla delete -f web.yaml

  # Delete two objects by type and name
  flotilla delete deployment/web propagationpolicy/web

  # Delete all config maps with a label
  flotilla delete configmaps -l app=web")]
pub struct DeleteArgs {
    /// TYPE NAME..., TYPE/NAME..., or TYPE with -l or --all
    #[arg(value_name = "TYPE")]
    resources: Vec<String>,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    plane: PlaneArgs,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Treatment of objects that the deleted ones own
    #[arg(long, value_enum, default_value_t = Cascade::Background, num_args = 0..=1, require_equals = true,
          default_missing_value = "background", value_name = "STRATEGY")]
    cascade: Cascade,
    /// Seconds an object may take to terminate; 0 only with --force
    #[arg(long, value_name = "SECONDS", default_value_t = -1, allow_hyphen_values = true)]
    grace_period: i64,
    /// Terminate at once: the same as --grace-period=1
    #[arg(long)]
    now: bool,
    /// Remove from the API without waiting for termination
    #[arg(long)]
    force: bool,
    /// Treat objects that do not exist as deleted
    #[arg(long)]
    ignore_not_found: bool,
    /// Wait until the objects are gone
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    wait: bool,
    /// Time to wait at most; 0 is no limit
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, default_value = "0s")]
    timeout: Duration,
    /// `client` prints what would be deleted, `server` sends the request without deleting
    #[arg(long, value_enum, default_value_t = DryRun::None, num_args = 0..=1, require_equals = true,
          default_missing_value = "client", value_name = "MODE")]
    dry_run: DryRun,
    /// Only `name`: print TYPE/NAME
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Cascade {
    #[value(alias = "true")]
    Background,
    Foreground,
    #[value(alias = "false")]
    Orphan,
}

pub async fn run(console: &Console, args: DeleteArgs) -> anyhow::Result<()> {
    args.check()?;
    let files = args.selection.files.read(&console.program, "delete").await?;
    let plane = PlaneClient::open(&args.plane)?;
    let namespace = plane.namespace(&args.namespace);
    let namespace = Namespace { name: &namespace, is_given: args.namespace.namespace.is_some() };
    let work = async {
        let chosen = args.selection.select(&plane.client, &args.resources, files, namespace, Read::Named).await?;
        delete(console, &plane.client, &args, chosen).await
    };
    work.await.map_err(|error| plane.explain(error))
}

impl DeleteArgs {
    fn check(&self) -> anyhow::Result<()> {
        if self.resources.is_empty() && self.selection.files.is_empty() {
            bail!("You must provide one or more resources by argument or filename.");
        }
        if self.now && self.grace_period != -1 {
            bail!("--now and --grace-period cannot be specified together");
        }
        if self.grace_period == 0 && !self.force {
            bail!("--grace-period=0 requires --force: the object is removed without waiting for its termination");
        }
        if self.grace_period > 0 && self.force {
            bail!("--force and --grace-period greater than 0 cannot be specified together");
        }
        match self.output.as_deref() {
            None | Some("name") => Ok(()),
            Some(other) => bail!("unexpected -o output mode: {other}. We only support '-o name'"),
        }
    }

    fn grace_period_seconds(&self) -> Option<i64> {
        match (self.now, self.force, self.grace_period) {
            (true, ..) => Some(1),
            (_, true, -1) => Some(0),
            (_, _, seconds) => (seconds >= 0).then_some(seconds),
        }
    }

    fn options(&self) -> DeleteOptions {
        DeleteOptions {
            grace_period_seconds: self.grace_period_seconds(),
            propagation_policy: Some(match self.cascade {
                Cascade::Background => PropagationPolicy::Background,
                Cascade::Foreground => PropagationPolicy::Foreground,
                Cascade::Orphan => PropagationPolicy::Orphan,
            }),
            dry_run: self.dry_run == DryRun::Server,
            ..DeleteOptions::default()
        }
    }

    /// Returns the line for a deleted object.
    fn line(&self, one: &Selected) -> String {
        let kind = one.resource.gvk().group_kind().to_string().to_lowercase();
        if self.output.is_some() {
            return format!("{kind}/{}", one.name);
        }
        let force = if self.grace_period_seconds() == Some(0) { "force " } else { "" };
        let place = one.namespace.as_ref().map(|namespace| format!(" from {namespace} namespace")).unwrap_or_default();
        format!("{kind} {:?} {force}deleted{place}{}", one.name, self.dry_run.suffix())
    }
}

async fn delete(
    console: &Console,
    client: &ClusterClient,
    args: &DeleteArgs,
    chosen: Vec<Selected>,
) -> anyhow::Result<()> {
    if args.force {
        console.warn("--force does not wait for the termination: what was deleted may keep running in its cluster");
    }
    if chosen.is_empty() {
        console.line("No resources found")?;
        return Ok(());
    }
    let ignores_missing = args.ignore_not_found || args.selection.all;
    let mut errors: Vec<anyhow::Error> = Vec::new();
    let mut deleted: Vec<(Selected, String)> = Vec::new();
    for one in chosen {
        if args.dry_run == DryRun::Client {
            console.line(args.line(&one))?;
            deleted.push((one, String::new()));
            continue;
        }
        match client.delete(one.target(), args.options()).await {
            Ok(answer) => {
                console.line(args.line(&one))?;
                let uid = match answer.kind() {
                    "Status" => answer.str_at(&["details", "uid"]).to_owned(),
                    _ => answer.uid().to_owned(),
                };
                deleted.push((one, uid));
            }
            Err(status) if status.is_not_found() && ignores_missing => {}
            Err(status) => errors.push(when(status, "deleting", &one.source).into()),
        }
    }
    if args.wait && args.dry_run == DryRun::None {
        let timeout = if args.timeout.is_zero() { WAIT_MAX } else { args.timeout };
        let deadline = Instant::now() + timeout;
        for (one, uid) in &deleted {
            wait_gone(client, one, uid, deadline).await?;
        }
    }
    crate::outcome::finish(console, &errors)
}

/// Waits until the object is gone, or another one has its name.
async fn wait_gone(client: &ClusterClient, one: &Selected, uid: &str, deadline: Instant) -> anyhow::Result<()> {
    loop {
        match client.find(one.target()).await {
            Ok(None) => return Ok(()),
            Ok(Some(object)) if !uid.is_empty() && object.uid() != uid => return Ok(()),
            Ok(Some(_)) => {}
            // Without the right to look, there is nothing to wait for.
            Err(Status { code: 403 | 405, .. }) => return Ok(()),
            Err(status) => return Err(status.into()),
        }
        if Instant::now() >= deadline {
            let kind = one.resource.gvk().group_kind().to_string().to_lowercase();
            return Err(anyhow!("timed out waiting for the condition on {}/{}", kind, one.name));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use cluster_client::ApiResource;
    use object::Object;
    use object::builtin;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: DeleteArgs,
    }

    fn parse(line: &str) -> DeleteArgs {
        Line::try_parse_from(["delete"].into_iter().chain(line.split_whitespace())).map(|line| line.args).unwrap()
    }

    fn selected() -> Selected {
        let resource = ApiResource {
            gvr: builtin::deployments(),
            kind: "Deployment".into(),
            namespaced: true,
            ..ApiResource::default()
        };
        Selected {
            resource,
            namespace: Some("shop".into()),
            name: "web".into(),
            source: String::new(),
            object: Object::default(),
        }
    }

    #[test]
    fn results_are_worded_as_by_kubectl() {
        for (line, expected) in [
            ("deploy web", "deployment.apps \"web\" deleted from shop namespace"),
            ("deploy web --dry-run=client", "deployment.apps \"web\" deleted from shop namespace (dry run)"),
            ("deploy web --force", "deployment.apps \"web\" force deleted from shop namespace"),
            ("deploy web -o name", "deployment.apps/web"),
        ] {
            assert_eq!(parse(line).line(&selected()), expected, "{line}");
        }
    }

    #[test]
    fn contradictory_flags_are_refused() {
        for (line, expected) in [
            ("", "You must provide one or more resources"),
            ("po a --now --grace-period=3", "--now and --grace-period"),
            ("po a --grace-period=0", "requires --force"),
            ("po a --force --grace-period=3", "--force and --grace-period"),
            ("po a -o yaml", "We only support '-o name'"),
        ] {
            let error = parse(line).check().unwrap_err().to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
        assert_eq!(parse("po a --now").grace_period_seconds(), Some(1));
        assert_eq!(parse("po a --force").grace_period_seconds(), Some(0));
        assert_eq!(parse("po a").grace_period_seconds(), None);
    }
}
